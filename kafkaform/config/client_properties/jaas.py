"""Java's login configuration in one line: `sasl.jaas.config`.

Kafka reads it with Java's StreamTokenizer: values may be quoted, with the escapes of C.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_TOKEN = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/
      | "(?P<double>(?:\\.|[^"\\\n])*)" | '(?P<single>(?:\\.|[^'\\\n])*)'
      | (?P<mark>[=;]) | (?P<word>[\w$.-]+)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_NAMED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_FLAGS = ("required", "requisite", "sufficient", "optional")


class MalformedJaas(ValueError):  # noqa: N818 - names what is in the text
    """Not a login configuration; the message holds nothing of it, since passwords are in there."""


@dataclass(frozen=True, slots=True, repr=False)
class LoginModule:
    """One login module: its class and options; the options hold passwords and are not shown."""

    name: str
    options: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"LoginModule({self.name!r}, {sorted(self.options)})"


def parse_jaas(text: str) -> LoginModule:
    """Read a configuration of exactly one login module, as Kafka demands.

    Raises:
        MalformedJaas: Anything else.
    """
    tokens = list(_tokens(text))
    if len(tokens) < 3 or tokens[1].casefold() not in _FLAGS:
        raise MalformedJaas('it must be: LoginModuleClass required key="value" …;')
    if tokens[-1] != ";" or ";" in tokens[:-1]:
        raise MalformedJaas("it must hold exactly one login module, and end with ;")
    options: dict[str, str] = {}
    rest = tokens[2:-1]
    if len(rest) % 3:
        raise MalformedJaas('its options must be key="value"')
    for key, equals, value in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
        if equals != "=" or "=" in (key, value):
            raise MalformedJaas('its options must be key="value"')
        options[str(key)] = str(value)
    return LoginModule(str(tokens[0]), options)


class _Quoted(str):
    """A quoted value: never equal to a mark, even where it reads `=` or `;`."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Quoted) and str.__eq__(self, other)

    __hash__ = str.__hash__


def _tokens(text: str) -> Iterator[str]:
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise MalformedJaas("a quote in it is never closed, or a value needs quotes")
        position = match.end()
        body = match["double"] if match["double"] is not None else match["single"]
        if body is not None:
            yield _Quoted(_ESCAPE.sub(_unescape, body))
        elif token := match["mark"] or match["word"]:
            yield token


def _unescape(match: re.Match[str]) -> str:
    body = match.group(1)
    return chr(int(body, 8)) if body[0] in "01234567" else _NAMED.get(body, body)
