"""The layouts of answers in our own bytes, and how their fields are read.

The layouts are those of Kafka's message definitions, in flexible versions (KIP-482).
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any, TypeAlias

from kafkaform.cluster.wire.large_answers import check_end, compact_string, skip_tags, uvarint

if TYPE_CHECKING:
    from collections.abc import Callable


Reader: TypeAlias = "Callable[[bytes, int], tuple[Any, int]]"
"""Reads one field from where it begins; returns its value, and where the next one begins."""


def whole(of: Reader) -> Callable[[bytes], Any]:
    """Return what reads the whole body of an answer, which has this layout."""

    def read(body: bytes) -> Any:
        value, end = of(body, 0)
        check_end(body, end)
        return value

    return read


def _number(layout: str) -> Reader:
    form = Struct(layout)

    def read(body: bytes, at: int) -> tuple[Any, int]:
        return form.unpack_from(body, at)[0], at + form.size

    return read


INT8, INT16, INT32, INT64 = (_number(f">{size}") for size in "bhiq")
NULLABLE_STRING: Reader = compact_string


def _string(body: bytes, at: int) -> tuple[str, int]:
    text, at = compact_string(body, at)
    if text is None:
        raise ValueError("null where a string is expected")
    return text, at


STRING: Reader = _string


def _boolean(body: bytes, at: int) -> tuple[bool, int]:
    return body[at] != 0, at + 1


BOOLEAN: Reader = _boolean


def uuid(_: bytes, at: int) -> tuple[None, int]:
    """Skip an id: each comes beside the name it stands for."""
    return None, at + 16


def octets(body: bytes, at: int) -> tuple[bytes, int]:
    """Read a field of bytes; null is none."""
    length, at = uvarint(body, at)
    end = at + max(0, length - 1)
    return body[at:end], end


def array(of: Reader) -> Reader:
    """An array; null is empty."""

    def read(body: bytes, at: int) -> tuple[list[Any], int]:
        length, at = uvarint(body, at)
        values = []
        for _ in range(length - 1):
            value, at = of(body, at)
            values.append(value)
        return values, at

    return read


def struct(**fields: Reader) -> Reader:
    """A structure, by the names of its fields."""

    def read(body: bytes, at: int) -> tuple[dict[str, Any], int]:
        values = {}
        for name, field in fields.items():
            values[name], at = field(body, at)
        return values, skip_tags(body, at)

    return read


def nullable(of: Reader) -> Reader:
    """A structure that may be null."""

    def read(body: bytes, at: int) -> tuple[Any, int]:
        return (None, at + 1) if INT8(body, at)[0] < 0 else of(body, at + 1)

    return read
