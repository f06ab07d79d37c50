"""Expressions of GitHub Actions, as far as this repository's workflows use them; anything else is refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_MARKED = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)
_TOKEN = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<operator>==|!=|&&|\|\||[!()])|(?P<name>[A-Za-z_][\w.-]*))"
)
_LITERALS = {"true": True, "false": False, "null": None}
_PYTHON = {"&&": "and", "||": "or", "!": "not"}
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
    """Return the value of one expression: Python's `and`, `or` and `not` give what GitHub's operators do.

    Every name is looked up, also where the value does not depend on it: a misspelt one is not passed over.
    """
    code: list[str] = []
    values: list[Any] = []
    tokens = _tokens(source)
    while tokens:
        kind, token = tokens.pop(0)
        if kind == "operator":
            code.append(_PYTHON.get(token, token))
            continue
        if kind == "text":
            values.append(token[1:-1].replace("''", "'"))
        elif [token for _, token in tokens[:2]] == ["(", ")"]:
            del tokens[:2]
            if token not in contexts.status:
                raise Unknown(f"{token}() is not to be had here")
            values.append(contexts.status[token])
        else:
            values.append(_LITERALS[token] if token in _LITERALS else contexts.look_up(token))
        code.append(f"values[{len(values) - 1}]")
    try:
        return eval(" ".join(code), {"values": values})
    except SyntaxError as error:
        raise Unknown(f"{source!r} is no expression") from error


def _tokens(source: str) -> list[tuple[str, str]]:
    tokens, at = [], 0
    while source[at:].strip():
        found = _TOKEN.match(source, at)
        if found is None or found.lastgroup is None:
            raise Unknown(f"{source!r} at {source[at:]!r}")
        tokens.append((found.lastgroup, found[found.lastgroup]))
        at = found.end()
    return tokens


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)
