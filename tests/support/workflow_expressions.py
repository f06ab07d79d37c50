"""Expressions of GitHub Actions, as far as this repository's workflows use them; anything else is refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

_MARKED = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)
_TOKEN = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<operator>==|!=|&&|\|\||[!()])|(?P<name>[A-Za-z_][\w.-]*))"
)
_LITERALS = {"true": True, "false": False, "null": None}
_OPEN = {"inputs", "secrets", "steps"}
_STATUS = {"success", "failure", "always", "cancelled"}


class Unknown(Exception):  # noqa: N818
    """What GitHub would have evaluated, and this does not."""


@dataclass(frozen=True)
class Contexts:
    """What an expression may name.

    Attributes:
        values: By context, such as `github`. GitHub offers other contexts in each place of a workflow.
        status: What the status functions, such as `failure()`, say here; empty where they are not allowed.
    """

    values: Mapping[str, Mapping[str, Any]]
    status: Mapping[str, bool]

    def look_up(self, name: str) -> Any:
        """The value of `context.name.name`; None where GitHub says so."""
        context, *names = name.split(".")
        if context not in self.values or not names:
            raise Unknown(f"{name} is not to be had here: there are {', '.join(self.values)}")
        found: Any = self.values[context]
        for index, part in enumerate(names):
            if not isinstance(found, Mapping):
                return None
            # In these, a name that is not there may be there in another run; elsewhere it is a mistake.
            if part not in found and context not in _OPEN and "event" not in names[:index]:
                raise Unknown(f"{name}: there is no {part!r}")
            found = found.get(part)
        return found


def interpolate(text: object, contexts: Contexts) -> str:
    """A value of a workflow file with its expressions replaced."""
    return _MARKED.sub(lambda found: _text(evaluate(found[1], contexts)), _text(text))


def expressions(text: str) -> list[str]:
    """The expressions in a text."""
    return [found[1].strip() for found in _MARKED.finditer(text)]


def holds(condition: object, contexts: Contexts) -> bool:
    """Whether an `if:` is true; without a status function, only after success."""
    text = _text(condition).strip()
    marked = _MARKED.fullmatch(text)
    source = marked[1] if marked else text
    names = {token for kind, token in _tokens(source) if kind == "name"}
    value = bool(evaluate(source, contexts)) if source else True
    return value and (bool(names & _STATUS) or contexts.status["success"])


def evaluate(source: str, contexts: Contexts) -> Any:
    """The value of one expression."""
    parser = _Parser(_tokens(source), contexts)
    value = parser.either()
    if parser.tokens:
        raise Unknown(f"{source!r} does not end at {parser.tokens[0][1]!r}")
    return value


def _tokens(source: str) -> list[tuple[str, str]]:
    tokens, at = [], 0
    while source[at:].strip():
        found = _TOKEN.match(source, at)
        if found is None or found.lastgroup is None:
            raise Unknown(f"{source!r} at {source[at:]!r}")
        tokens.append((found.lastgroup, found[found.lastgroup]))
        at = found.end()
    return tokens


@dataclass
class _Parser:
    tokens: list[tuple[str, str]]
    contexts: Contexts

    def either(self) -> Any:
        return self._chain("||", self._both, lambda left, right: left or right)

    def _both(self) -> Any:
        return self._chain("&&", self._equal, lambda left, right: left and right)

    def _equal(self) -> Any:
        left = self._single()
        while self._next() in {"==", "!="}:
            is_equal = self.tokens.pop(0)[1] == "=="
            left = (_comparable(left) == _comparable(self._single())) is is_equal
        return left

    def _chain(self, operator: str, part: Callable[[], Any], join: Callable[[Any, Any], Any]) -> Any:
        left = part()
        while self._next() == operator:
            self.tokens.pop(0)
            left = join(left, part())
        return left

    def _single(self) -> Any:
        kind, token = self.tokens.pop(0)
        if token == "!":
            return not self._single()
        if token == "(":
            value = self.either()
            self._expect(")")
            return value
        if kind == "text":
            return token[1:-1].replace("''", "'")
        if token in _LITERALS:
            return _LITERALS[token]
        if self._next() == "(":
            self.tokens.pop(0)
            self._expect(")")
            if token not in self.contexts.status:
                raise Unknown(f"{token}() is not to be had here")
            return self.contexts.status[token]
        return self.contexts.look_up(token)

    def _next(self) -> str | None:
        return self.tokens[0][1] if self.tokens and self.tokens[0][0] == "operator" else None

    def _expect(self, operator: str) -> None:
        if self._next() != operator:
            raise Unknown(f"{operator!r} is missing")
        self.tokens.pop(0)


def _comparable(value: Any) -> Any:
    """GitHub compares texts without regard to case."""
    return value.casefold() if isinstance(value, str) else value


def _text(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case _:
            return str(value)
