"""Schemas of Kafka's protocol: supported versions, writing requests and reading responses.

A schema has the versions of each field, as Kafka's message definitions do
(clients/src/main/resources/common/message in Apache Kafka's source). The encodings are those of the protocol
guide (kafka.apache.org/protocol, "Protocol Primitive Types"), and of KIP-482 in flexible versions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from struct import Struct, pack
from struct import error as StructError  # noqa: N812 - it is called plain "error"
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from kafkaform.core.errors import MalformedResponse, NotOffered
from kafkaform.core.values import Value
from kafkaform.core.wording import counted

T = TypeVar("T")

Offered: TypeAlias = "Mapping[int, tuple[int, int]]"
"""The lowest and highest version of each request that a broker offers, by API key."""

MAX_RESPONSE_BYTES = 64 << 20
"""The most bytes of a response: 2,000 topics of 30 configs each, or 50,000 groups, take a twentieth."""

_LAST_SHIFT = 28
"""The shift of the fifth and last byte of a length: lengths have 32 bits."""


class RequestType(Value, Generic[T]):
    """A request of Kafka's protocol in the supported versions.

    Attributes:
        name: Kafka's name of the request.
        versions: The lowest and highest supported version.
        flexible: The first version whose headers and structures have tagged fields (KIP-482).
        write: Writes the body of a request in a version; raises NotOffered if the version lacks a field.
        read: Reads the body of a response; raises ValueError, IndexError or struct.error if it is malformed.
        largest: The most bytes of a response; one that claims more is not read.
        changes: Whether it changes the cluster: it is not sent again if its response is lost.
    """

    key: int
    name: str
    versions: tuple[int, int]
    flexible: int
    write: Callable[[Any, int], bytes]
    read: Callable[[bytes, int], T]
    largest: int = MAX_RESPONSE_BYTES
    changes: bool = False

    def is_offered(self, offered: Offered) -> bool:
        """Return whether a broker offers a supported version."""
        least, most = offered.get(self.key, (0, -1))
        return max(least, self.versions[0]) <= min(most, self.versions[1])

    def version(self, offered: Offered) -> int:
        """Return the highest version that both sides support; raises NotOffered if there is none."""
        if self.is_offered(offered):
            return min(offered[self.key][1], self.versions[1])
        if self.key not in offered:
            raise NotOffered(self.name)
        wanted, given = (
            f"{least}" if least == most else f"{least} to {most}"
            for least, most in (self.versions, offered[self.key])
        )
        raise NotOffered(self.name, f"in version {wanted}, only in {given}")


def make_malformed_error(broker: str, request: str, why: str) -> MalformedResponse:
    """Return the error for a response that violates Kafka's protocol."""
    return MalformedResponse(
        f"{broker}: malformed answer to {request}: {why}",
        hint="check that the address is a Kafka broker's, and that no proxy modifies its responses",
    )


def read_response(request_type: RequestType[T], body: bytes, version: int, broker: str) -> T:
    """Read the body of a response; raises MalformedResponse with the broker and the request."""
    try:
        return request_type.read(body, version)
    except (ValueError, IndexError, StructError) as error:
        damage = describe_damage(body, error)
        raise make_malformed_error(broker, f"{request_type.name} v{version}", damage) from error


def describe_damage(body: bytes, error: Exception) -> str:
    """Describe why bytes could not be read; Python's own errors are about its functions."""
    match error:
        case UnicodeDecodeError():
            return "it has text that is not UTF-8"
        case IndexError() | StructError():
            return f"its {counted(len(body), 'byte')} end before its last field"
        case _:
            return str(error)


# --- primitive types ------------------------------------------------------------------------------


def encode_length(value: int) -> bytes:
    """Encode an unsigned variable-length integer."""
    if value < 0x80:  # nearly always
        return bytes((value,))
    parts = []
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return pack(f">{len(parts) + 1}B", *parts, value)


def read_uvarint(body: bytes, at: int) -> tuple[int, int]:
    """Read an unsigned variable-length integer; also returns the offset of the next field."""
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
        # Else a malformed response would keep this loop reading to its end.
        if shift == _LAST_SHIFT:
            raise ValueError("a length of more than 32 bits")
        shift += 7


def read_compact_string(body: bytes, at: int) -> tuple[str | None, int]:
    """Read a string of a flexible version; also returns the offset of the next field."""
    size, at = read_uvarint(body, at)
    # A compact length is one more than that of the text, so that 0 is null (KIP-482).
    if size == 0:
        return None, at
    return body[at : at + size - 1].decode(), at + size - 1


def encode_string(text: str) -> bytes:
    """Encode a string for flexible versions."""
    raw = text.encode()
    return encode_length(len(raw) + 1) + raw


def encode_plain_string(text: str) -> bytes:
    """Encode a string for versions that are not flexible."""
    raw = text.encode()
    return pack(">h", len(raw)) + raw


_SHORT = Struct(">h").unpack_from
_INT = Struct(">i").unpack_from


def read_nullable_string(body: bytes, at: int) -> tuple[str | None, int]:
    """Read a string of a version that is not flexible; also returns the offset of the next field."""
    (size,) = _SHORT(body, at)
    at += 2
    if size < 0:
        return None, at
    return body[at : at + size].decode(), at + size


def read_plain_array_length(body: bytes, at: int) -> tuple[int, int]:
    """Read the length of an array, which must not be null; also returns the offset of its elements."""
    (count,) = _INT(body, at)
    if count < 0:
        raise ValueError(f"an array of {count} elements")
    return count, at + 4


def read_array_length(body: bytes, at: int) -> tuple[int, int]:
    """Read an array's length in a flexible version, not null; also returns the offset of its elements."""
    count, at = read_uvarint(body, at)
    if count == 0:
        raise ValueError("null where an array is expected")
    return count - 1, at


def skip_tags(body: bytes, at: int) -> int:
    """Skip the tagged fields of a structure; returns the offset of the next field."""
    if not body[at]:  # nearly always
        return at + 1
    count, at = read_uvarint(body, at)
    for _ in range(count):
        _, at = read_uvarint(body, at)
        size, at = read_uvarint(body, at)
        at += size
    return at


def check_end(body: bytes, at: int) -> None:
    """Raise ValueError unless the body of a response ends with its last field."""
    # More bytes, or fewer, are those of another version than the one that was asked for.
    if at != len(body):
        raise ValueError(f"{len(body):,} bytes received, but the fields in them take {at:,}")


# --- schemas ----------------------------------------------------------------------------------------


class Codec(NamedTuple):
    """The encoding of a field type in one version of a message.

    Attributes:
        read: Reads a value at an offset; also returns the offset of the next field.
        write: Encodes a value.
    """

    read: Callable[[bytes, int], tuple[Any, int]]
    write: Callable[[Any], bytes]


FieldType: TypeAlias = Callable[[int, bool], Codec]
"""Makes the codec for a version of a message, given whether that version is flexible."""


class _MissingFieldError(Exception):
    """A version of a request lacks a field that is set."""


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
    """Return a request type by the schemas of request and response; values are dicts."""

    # Made on first use: a command sends a few of these requests, each in one version.
    @lru_cache(None)
    def codecs(version: int) -> tuple[Codec, Codec]:
        is_flexible = version >= flexible
        return request(version, is_flexible), response(version, is_flexible)

    def write(value: Any, version: int) -> bytes:
        try:
            return codecs(version)[0].write(value)
        except _MissingFieldError as error:
            raise NotOffered(name, f"with {error}") from None

    def read(body: bytes, version: int) -> Any:
        value, end = codecs(version)[1].read(body, 0)
        check_end(body, end)
        return value

    return RequestType(key, name, versions, flexible, write, read, changes=changes)


def _number_type(layout: str) -> FieldType:
    form = Struct(layout)

    def read(body: bytes, at: int) -> tuple[Any, int]:
        return form.unpack_from(body, at)[0], at + form.size

    codec = Codec(read, form.pack)
    return lambda _version, _flexible: codec


INT8, INT16, UINT16, INT32, INT64, FLOAT64, BOOLEAN = (_number_type(f">{size}") for size in "bhHiqd?")


def _nullable_string_codec(_version: int, flexible: bool) -> Codec:
    if flexible:
        return Codec(read_compact_string, lambda text: b"\x00" if text is None else encode_string(text))
    return Codec(
        read_nullable_string, lambda text: b"\xff\xff" if text is None else encode_plain_string(text)
    )


NULLABLE_STRING: FieldType = _nullable_string_codec


ERROR: Mapping[str, FieldType] = {"error_code": INT16, "error_message": NULLABLE_STRING}
"""The two error fields of most responses, and of the parts of many."""


def _string_codec(version: int, flexible: bool) -> Codec:
    nullable = _nullable_string_codec(version, flexible)

    def read(body: bytes, at: int) -> tuple[str, int]:
        text, at = nullable.read(body, at)
        if text is None:
            raise ValueError("null where a string is expected")
        return text, at

    return Codec(read, nullable.write)


STRING: FieldType = _string_codec


def _uuid_codec(_version: int, _flexible: bool) -> Codec:
    return Codec(lambda body, at: (body[at : at + 16], at + 16), bytes)


UUID: FieldType = _uuid_codec
"""An id of 16 bytes; zeros if there is none."""


def _octets_codec(_version: int, flexible: bool) -> Codec:
    def read(body: bytes, at: int) -> tuple[bytes, int]:
        if flexible:
            size, at = read_uvarint(body, at)
            end = at + max(0, size - 1)
        else:
            (size,) = _INT(body, at)
            at += 4
            end = at + max(0, size)
        # A slice beyond the end is shorter, without an error: the length must be compared.
        if end > len(body):
            raise ValueError(f"a field of {end - at:,} bytes, {len(body) - at:,} of them received")
        return body[at:end], end

    return Codec(read, lambda raw: (encode_length(len(raw) + 1) if flexible else pack(">i", len(raw))) + raw)


OCTETS: FieldType = _octets_codec
"""Bytes; null is read as empty."""


def array(of: FieldType, *, nullable: bool = False) -> FieldType:
    """Return the type of an array; null is read as empty, and written for None if it is `nullable`."""

    def make_codec(version: int, flexible: bool) -> Codec:
        read_element, write_element = of(version, flexible)

        def read(body: bytes, at: int) -> tuple[list[Any], int]:
            if flexible:
                count, at = read_uvarint(body, at)
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
            count = encode_length(len(values) + 1) if flexible else pack(">i", len(values))
            return count + b"".join(map(write_element, values))

        return Codec(read, write)

    return make_codec


class Versions(Value):
    """A field that not every version of its structure has.

    Attributes:
        default: Its value in the other versions, and in a request that does not give one.
        first: The first version that has it.
        last: The last version that has it; None if there is none.
    """

    of: FieldType
    default: Any
    first: int = 0
    last: int | None = None

    def has(self, version: int) -> bool:
        """Return whether a version has the field."""
        return self.first <= version and (self.last is None or version <= self.last)


def since(first: int, of: FieldType, default: Any = None) -> Versions:
    """Return a field that exists from a version on."""
    return Versions(of, default, first)


# None is the default of many fields, and so cannot mean that there is none.
_REQUIRED = object()


def struct(**fields: FieldType | Versions) -> FieldType:
    """Return the type of a structure, whose values are dicts by field name."""
    versioned = {
        name: of if isinstance(of, Versions) else Versions(of, _REQUIRED) for name, of in fields.items()
    }

    def make_codec(version: int, flexible: bool) -> Codec:
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
                # A broker without the field would do something other than what was asked for: refuse before
                # it is sent.
                if values.get(name, default) != default:
                    raise _MissingFieldError(name.replace("_", " "))
            given = {**defaults, **values}
            body = b"".join(codec.write(given[name]) for name, codec in present.items())
            # No tagged field is written: the count of them is 0.
            return body + b"\x00" if flexible else body

        return Codec(read, write)

    return make_codec


def nullable(of: FieldType) -> FieldType:
    """Return the type of a structure that may be null."""

    def make_codec(version: int, flexible: bool) -> Codec:
        codec = of(version, flexible)
        read_mark = INT8(version, flexible).read

        def read(body: bytes, at: int) -> tuple[Any, int]:
            # A structure that may be null begins with a byte: -1 for null, 1 for one that follows (KIP-893).
            mark, at = read_mark(body, at)
            return (None, at) if mark < 0 else codec.read(body, at)

        return Codec(read, lambda value: b"\xff" if value is None else b"\x01" + codec.write(value))

    return make_codec
