"""Messages of Kafka's protocol: which versions are known, how a request is written and its answer read.

A schema says of each field since which version it is there, as Kafka's message definitions do
(clients/src/main/resources/common/message in Apache Kafka's source). The encodings are those of the protocol
guide (kafka.apache.org/protocol, "Protocol Primitive Types"), and of KIP-482 in flexible versions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from struct import Struct, pack
from struct import error as StructError  # noqa: N812 - it is called plain "error"
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias, TypeVar

from kafkaform.core.errors import MalformedAnswer, NotOffered

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


T = TypeVar("T")

Offered: TypeAlias = "Mapping[int, tuple[int, int]]"
"""The lowest and the highest version of each request that a broker offers, by the request's key."""

LARGEST = 64 << 20
"""The bytes that an answer may have: 2,000 topics of 30 configs each, or 50,000 groups, take a twentieth."""

_LAST_SHIFT = 28
"""The bits by which the fifth byte of a length is shifted: there are no more, as lengths have 32 bits."""


@dataclass(frozen=True, slots=True)
class RequestType(Generic[T]):
    """A request of Kafka's protocol, in the versions that are written and read here.

    Attributes:
        key: The number of the request in the protocol.
        name: Kafka's name of it.
        versions: The lowest and the highest version known here.
        flexible: The first version whose headers and structures have tagged fields (KIP-482).
        write: Makes the body of a request in a version; raises NotOffered if the version lacks a field.
        read: Reads the body of an answer; raises ValueError, IndexError or struct.error if it is malformed.
        largest: The bytes that an answer may have; one that claims more is not read.
        changes: Whether it changes something, so that it is not sent again when its answer was lost.
    """

    key: int
    name: str
    versions: tuple[int, int]
    flexible: int
    write: Callable[[Any, int], bytes]
    read: Callable[[bytes, int], T]
    largest: int = LARGEST
    changes: bool = False

    def is_offered(self, offered: Offered) -> bool:
        """Return whether a broker offers a version that is known here."""
        least, most = offered.get(self.key, (0, -1))
        return max(least, self.versions[0]) <= min(most, self.versions[1])

    def version(self, offered: Offered) -> int:
        """The highest version that both sides know; raises NotOffered if there is none."""
        if self.is_offered(offered):
            return min(offered[self.key][1], self.versions[1])
        if self.key not in offered:
            raise NotOffered(self.name)
        wanted, given = (
            f"{least}" if least == most else f"{least} to {most}"
            for least, most in (self.versions, offered[self.key])
        )
        raise NotOffered(self.name, f"in version {wanted}, only in {given}")


def malformed(broker: str, request: str, why: str) -> MalformedAnswer:
    """The error for an answer that is not what Kafka's protocol says."""
    return MalformedAnswer(
        f"{broker}: malformed answer to {request}: {why}",
        hint="check that the address is a Kafka broker's, and that no proxy modifies its responses",
    )


def read_answer(request_type: RequestType[T], body: bytes, version: int, broker: str) -> T:
    """Read the body of an answer; raises MalformedAnswer, which names the broker and the request."""
    try:
        return request_type.read(body, version)
    except (ValueError, IndexError, StructError) as error:
        raise malformed(broker, f"{request_type.name} v{version}", str(error)) from error


# --- primitive types ------------------------------------------------------------------------------


def length(value: int) -> bytes:
    """An unsigned number of as few bytes as it needs."""
    parts = []
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return pack(f">{len(parts) + 1}B", *parts, value)


def uvarint(body: bytes, at: int) -> tuple[int, int]:
    """An unsigned number of as few bytes as it needs, and where the next field begins."""
    byte = body[at]
    if byte < 0x80:  # nearly always
        return byte, at + 1
    value, shift = byte & 0x7F, 7
    while True:
        at += 1
        byte = body[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at + 1
        if shift == _LAST_SHIFT:
            raise ValueError("a length of more than 32 bits")
        shift += 7


def compact_string(body: bytes, at: int) -> tuple[str | None, int]:
    """A string of a flexible version, and where the next field begins."""
    size, at = uvarint(body, at)
    if size == 0:
        return None, at
    return body[at : at + size - 1].decode(), at + size - 1


def string(text: str) -> bytes:
    """A string as flexible versions have it."""
    raw = text.encode()
    return length(len(raw) + 1) + raw


def plain_string(text: str) -> bytes:
    """A string as versions that are not flexible have it."""
    raw = text.encode()
    return pack(">h", len(raw)) + raw


_SHORT = Struct(">h").unpack_from
_INT = Struct(">i").unpack_from


def nullable_string(body: bytes, at: int) -> tuple[str | None, int]:
    """A string of a version that is not flexible, and where the next field begins."""
    (size,) = _SHORT(body, at)
    at += 2
    if size < 0:
        return None, at
    return body[at : at + size].decode(), at + size


def plain_array_length(body: bytes, at: int) -> tuple[int, int]:
    """The number of elements of an array that is not null, and where the first one begins."""
    (count,) = _INT(body, at)
    if count < 0:
        raise ValueError(f"an array of {count} elements")
    return count, at + 4


def array_length(body: bytes, at: int) -> tuple[int, int]:
    """The number of elements of a flexible version's array that is not null, and where the first begins."""
    count, at = uvarint(body, at)
    if count == 0:
        raise ValueError("null where an array is expected")
    return count - 1, at


def skip_tags(body: bytes, at: int) -> int:
    """Skip the tagged fields of a structure; returns where the next field begins."""
    if not body[at]:  # nearly always
        return at + 1
    count, at = uvarint(body, at)
    for _ in range(count):
        _, at = uvarint(body, at)
        size, at = uvarint(body, at)
        at += size
    return at


def check_end(body: bytes, at: int) -> None:
    """Raise ValueError unless the body of an answer ends where its last field does."""
    if at != len(body):
        raise ValueError(f"{len(body):,} bytes came, but the fields in them take {at:,}")


# --- schemas ----------------------------------------------------------------------------------------


class Codec(NamedTuple):
    """One type of field in one version of a message.

    Attributes:
        read: Reads one from where it begins; returns its value, and where the next field begins.
        write: The bytes of a value.
    """

    read: Callable[[bytes, int], tuple[Any, int]]
    write: Callable[[Any], bytes]


FieldType: TypeAlias = Callable[[int, bool], Codec]
"""Makes the codec for a version of a message, given whether that version is flexible."""


class _LackingError(Exception):
    """A version of a request has no field for what is asked."""


def message(
    key: int,
    name: str,
    versions: tuple[int, int],
    flexible: int,
    request: FieldType,
    response: FieldType,
    *,
    changes: bool = False,
) -> RequestType[Any]:
    """A request that is written, and whose answer is read, as schemas say: both structures as dicts."""

    @lru_cache(None)
    def codecs(version: int) -> tuple[Codec, Codec]:
        is_flexible = version >= flexible
        return request(version, is_flexible), response(version, is_flexible)

    def write(value: Any, version: int) -> bytes:
        try:
            return codecs(version)[0].write(value)
        except _LackingError as error:
            raise NotOffered(name, f"with {error}") from None

    def read(body: bytes, version: int) -> Any:
        value, end = codecs(version)[1].read(body, 0)
        check_end(body, end)
        return value

    return RequestType(key, name, versions, flexible, write, read, changes=changes)


def _number(layout: str) -> FieldType:
    form = Struct(layout)

    def read(body: bytes, at: int) -> tuple[Any, int]:
        return form.unpack_from(body, at)[0], at + form.size

    codec = Codec(read, form.pack)
    return lambda _version, _flexible: codec


INT8, INT16, INT32, INT64, BOOLEAN = (_number(f">{size}") for size in "bhiq?")


def _nullable_string(_version: int, flexible: bool) -> Codec:
    if flexible:
        return Codec(compact_string, lambda text: b"\x00" if text is None else string(text))
    return Codec(nullable_string, lambda text: b"\xff\xff" if text is None else plain_string(text))


NULLABLE_STRING: FieldType = _nullable_string


ERROR: Mapping[str, FieldType] = {"error_code": INT16, "error_message": NULLABLE_STRING}
"""The two fields by which most answers, and the parts of many, say what went wrong."""


def _string(version: int, flexible: bool) -> Codec:
    nullable = _nullable_string(version, flexible)

    def read(body: bytes, at: int) -> tuple[str, int]:
        text, at = nullable.read(body, at)
        if text is None:
            raise ValueError("null where a string is expected")
        return text, at

    return Codec(read, nullable.write)


STRING: FieldType = _string


def _uuid(_version: int, _flexible: bool) -> Codec:
    return Codec(lambda body, at: (body[at : at + 16], at + 16), bytes)


UUID: FieldType = _uuid
"""An id, as its 16 bytes; zeros where there is none."""


def _octets(_version: int, flexible: bool) -> Codec:
    def read(body: bytes, at: int) -> tuple[bytes, int]:
        if flexible:
            size, at = uvarint(body, at)
            end = at + max(0, size - 1)
        else:
            (size,) = _INT(body, at)
            at += 4
            end = at + max(0, size)
        if end > len(body):
            raise ValueError(f"a field of {end - at:,} bytes, of which {len(body) - at:,} came")
        return body[at:end], end

    return Codec(read, lambda raw: (length(len(raw) + 1) if flexible else pack(">i", len(raw))) + raw)


OCTETS: FieldType = _octets
"""Bytes; null is none."""


def array(of: FieldType, *, nullable: bool = False) -> FieldType:
    """An array; null is read as an empty one, and written for None where it is `nullable`."""

    def made(version: int, flexible: bool) -> Codec:
        read_element, write_element = of(version, flexible)

        def read(body: bytes, at: int) -> tuple[list[Any], int]:
            if flexible:
                count, at = uvarint(body, at)
                count -= 1
            else:
                (count,) = _INT(body, at)
                at += 4
            values = []
            for _ in range(count):
                value, at = read_element(body, at)
                values.append(value)
            return values, at

        def write(values: Collection[Any] | None) -> bytes:
            if values is None:
                if not nullable:
                    raise ValueError("null where an array is expected")
                return b"\x00" if flexible else b"\xff\xff\xff\xff"
            count = length(len(values) + 1) if flexible else pack(">i", len(values))
            return count + b"".join(map(write_element, values))

        return Codec(read, write)

    return made


@dataclass(frozen=True, slots=True)
class Versions:
    """A field that not every version of its structure has.

    Attributes:
        of: Its type.
        default: Its value in the other versions, and in a request that does not give one.
        first: The first version that has it.
        last: The last one; None: it is there to stay.
    """

    of: FieldType
    default: Any
    first: int = 0
    last: int | None = None

    def has(self, version: int) -> bool:
        """Return whether a version has the field."""
        return self.first <= version and (self.last is None or version <= self.last)


def since(first: int, of: FieldType, default: Any = None) -> Versions:
    """A field that is there from a version on."""
    return Versions(of, default, first)


def until(last: int, of: FieldType, default: Any = None) -> Versions:
    """A field that is there up to a version."""
    return Versions(of, default, 0, last)


_REQUIRED = object()


def struct(**fields: FieldType | Versions) -> FieldType:
    """A structure, as a dict by the names of its fields."""
    versioned = {
        name: of if isinstance(of, Versions) else Versions(of, _REQUIRED) for name, of in fields.items()
    }

    def made(version: int, flexible: bool) -> Codec:
        present = {
            name: field.of(version, flexible) for name, field in versioned.items() if field.has(version)
        }
        absent = {name: field.default for name, field in versioned.items() if not field.has(version)}
        readers = [(name, codec.read) for name, codec in present.items()]
        defaults = {
            name: field.default for name, field in versioned.items() if field.default is not _REQUIRED
        }

        def read(body: bytes, at: int) -> tuple[dict[str, Any], int]:
            values = dict(absent)
            for name, read_field in readers:
                values[name], at = read_field(body, at)
            return values, skip_tags(body, at) if flexible else at

        def write(values: Mapping[str, Any]) -> bytes:
            for name, default in absent.items():
                if values.get(name, default) != default:
                    raise _LackingError(name.replace("_", " "))
            given = {**defaults, **values}
            body = b"".join(codec.write(given[name]) for name, codec in present.items())
            return body + b"\x00" if flexible else body

        return Codec(read, write)

    return made


def nullable(of: FieldType) -> FieldType:
    """A structure that may be null."""

    def made(version: int, flexible: bool) -> Codec:
        codec = of(version, flexible)
        read_mark = INT8(version, flexible).read

        def read(body: bytes, at: int) -> tuple[Any, int]:
            mark, at = read_mark(body, at)
            return (None, at) if mark < 0 else codec.read(body, at)

        return Codec(read, lambda value: b"\xff" if value is None else b"\x01" + codec.write(value))

    return made
