"""The parser of Java's login configuration in one line: `sasl.jaas.config`.

Kafka parses it with Java's StreamTokenizer: values may be quoted, with the escapes of C.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kafkaform.core.values import Value, field

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_TOKEN = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/
      | "(?P<double>(?:\\.|[^"\\\n])*)" | '(?P<single>(?:\\.|[^'\\\n])*)'
      | (?P<mark>[=;]) | (?P<word>[\w$.-]+)""",
    re.VERBOSE | re.DOTALL,
)
# Octal escapes end at \377, as in StreamTokenizer: a first digit over 3 has one more digit, not two.
_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_NAMED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_FLAGS = ("required", "requisite", "sufficient", "optional")


class MalformedJaas(ValueError):  # noqa: N818 - names what is in the text
    """The text is not a login configuration; the message does not quote it, as it may contain passwords."""


class LoginModule(Value):
    """A login module: its class and options, which may be passwords and are not in its repr."""

    name: str
    options: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"LoginModule({self.name!r}, {sorted(self.options)})"


def parse_jaas(text: str) -> LoginModule:
    """Parse a configuration of exactly one login module, as Kafka requires.

    Raises:
        MalformedJaas: It is not one.
    """
    tokens = list(_tokenize(text))
    if len(tokens) < 3 or tokens[1].casefold() not in _FLAGS:
        raise MalformedJaas('it must have the form LoginModuleClass required key="value" …;')
    # Kafka refuses a value with several modules (JaasContext), although the format of Java allows them.
    if tokens[-1] != ";" or ";" in tokens[:-1]:
        raise MalformedJaas("it must have exactly one login module, and end with ;")
    options: dict[str, str] = {}
    words = tokens[2:-1]
    if len(words) % 3:
        raise MalformedJaas('its options must have the form key="value"')
    for key, equals, value in zip(words[::3], words[1::3], words[2::3], strict=True):
        if equals != "=" or "=" in (key, value):
            raise MalformedJaas('its options must have the form key="value"')
        options[str(key)] = str(value)
    return LoginModule(str(tokens[0]), options)


class _Quoted(str):
    """A quoted value, never equal to a mark: a quoted `=` or `;` is a value."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Quoted) and str.__eq__(self, other)

    __hash__ = str.__hash__


def _tokenize(text: str) -> Iterator[str]:
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise MalformedJaas("a quote is not closed, or a value needs quotes")
        position = match.end()
        body = match["double"] if match["double"] is not None else match["single"]
        if body is not None:
            yield _Quoted(_ESCAPE.sub(_unescape, body))
        elif token := match["mark"] or match["word"]:
            yield token


def _unescape(match: re.Match[str]) -> str:
    body = match.group(1)
    return chr(int(body, 8)) if body[0] in "01234567" else _NAMED.get(body, body)
