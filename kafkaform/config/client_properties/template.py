"""Values with references to secrets: `${env:NAME}`, `${file:PATH}`, and `$$` for a dollar."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

_TOKEN = re.compile(r"\$\$|\$\{([^}]*)(\}?)")
_ENV = re.compile(r"env:([A-Za-z_][A-Za-z0-9_]*)")
_FILE = re.compile(r"file:(\S.*)", re.DOTALL)


class MalformedReference(ValueError):  # noqa: N818 - names what is in the text
    """A `${…}` that is neither of the two forms; its text says which, and holds nothing of the rest."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A place outside the configuration where text is read at use."""

    source: Literal["env", "file"]
    name: str

    def __str__(self) -> str:
        return f"${{{self.source}:{self.name}}}"


Part: TypeAlias = str | Reference


@dataclass(frozen=True, slots=True, repr=False)
class Template:
    """A value in parts: text as written, and references."""

    parts: tuple[Part, ...]

    def __repr__(self) -> str:
        return "Template(<hidden>)"

    @property
    def references(self) -> tuple[Reference, ...]:
        """Its references, in order."""
        return tuple(part for part in self.parts if isinstance(part, Reference))

    @property
    def literal(self) -> str | None:
        """The value, where it needs nothing from outside."""
        return None if self.references else "".join(str(part) for part in self.parts)

    def fill(self, read: Callable[[Reference], str]) -> str:
        """The value, with what `read` finds for each reference."""
        return "".join(part if isinstance(part, str) else read(part) for part in self.parts)


def parse_template(text: str) -> Template:
    """Split a value into text and references; a lone dollar is a dollar.

    Raises:
        MalformedReference: A `${…}` of another form.
    """
    parts: list[Part] = []
    position = 0
    for token in _TOKEN.finditer(text):
        parts.append(text[position : token.start()])
        parts.append("$" if token.group() == "$$" else _reference(token))
        position = token.end()
    parts.append(text[position:])
    return Template(tuple(part for part in parts if part != ""))


def escape(text: str) -> str:
    """Text that `parse_template` reads back as it is, whatever it holds."""
    return text.replace("$", "$$")


def _reference(token: re.Match[str]) -> Reference:
    body, closed = token.group(1), token.group(2)
    if not closed:
        raise MalformedReference("a ${ without its closing }")
    if match := _ENV.fullmatch(body):
        return Reference("env", match.group(1))
    if match := _FILE.fullmatch(body):
        return Reference("file", match.group(1))
    # The body may be a piece of a password, so it is not repeated.
    raise MalformedReference("a ${…} that is neither ${env:NAME} nor ${file:PATH}")
