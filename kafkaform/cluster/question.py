"""Questions in our own bytes: what a request asks, and how its answer is read.

The layouts are those of Kafka's message definitions, in flexible versions (KIP-482).
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING, Any, TypeAlias

from kafkaform.cluster.wire import compact_string, skip_tags, uvarint

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaform.cluster.api import Api

Reader: TypeAlias = "Callable[[bytes, int], tuple[Any, int]]"
"""Reads one field from where it begins; returns its value, and where the next one begins."""


@dataclass(frozen=True, slots=True)
class Question:
    """A request of Kafka's protocol that this module writes and whose answer it reads.

    Attributes:
        api: Which request.
        answer: Reads the body of the answer.
    """

    api: Api
    answer: Reader

    def read(self, body: bytes) -> Any:
        """What the body of an answer says, by the names of its fields."""
        return self.answer(body, 0)[0]


def _number(layout: str) -> Reader:
    form = Struct(layout)

    def read(body: bytes, at: int) -> tuple[Any, int]:
        return form.unpack_from(body, at)[0], at + form.size

    return read


INT8, INT16, INT32, INT64 = (_number(f">{size}") for size in "bhiq")
STRING: Reader = compact_string


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
