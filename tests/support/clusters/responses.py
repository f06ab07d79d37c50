"""The bytes of responses, and reading what is damaged."""

import re
from collections.abc import Mapping
from inspect import getclosurevars
from struct import pack
from typing import Any

from kafkaform.cluster.wire import message_schema
from kafkaform.cluster.wire.message_schema import FieldType, RequestType, T, read_response
from kafkaform.core.errors import MalformedResponse

TELLING = [
    b"\x00", b"\x01", b"\x7f", b"\x80", b"\xff", b"\xff\xff", b"\xff" * 4, b"\xff\xff\xff\xff\x0f",
    b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\x80" * 12,
]  # fmt: skip
"""Bytes that mean something to a reader of lengths."""


def short(text: str | None) -> bytes:
    return pack(">h", -1) if text is None else pack(">h", len(text.encode())) + text.encode()


def entry(
    name: str | None,
    value: str | None,
    source: int,
    synonyms: int = 0,
    *,
    read_only: bool = False,
    secret: bool = False,
) -> bytes:
    item = short("log.retention.ms") + short(None) + b"\x04"
    return (
        short(name)
        + short(value)
        + bytes([read_only, source, secret])
        + pack(">i", synonyms)
        + item * synonyms
    )


def encode_config_response(
    name: str | None, *entries: bytes, code: int = 0, message: str | None = None
) -> bytes:
    head = pack(">h", code) + short(message) + b"\x02" + short(name)
    return head + pack(">i", len(entries)) + b"".join(entries)


def compact(raw: bytes | None) -> bytes:
    return b"\x00" if raw is None else varint(len(raw) + 1) + raw


def varint(number: int) -> bytes:
    out = b""
    while number >= 0x80:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def schemas_of(request_type: RequestType[Any]) -> tuple[FieldType, FieldType]:
    """Return the schemas of request and response; KeyError where there are none."""
    codecs = getclosurevars(request_type.write).nonlocals["codecs"]
    schemas = getclosurevars(codecs.__wrapped__).nonlocals
    return schemas["request"], schemas["response"]


def sample(of: FieldType, version: int, values: Mapping[str, Any], name: str = "") -> Any:
    """Return a value of a type: one element in each array, and these values of fields."""
    if name in values:
        return values[name]
    parts = getclosurevars(of).nonlocals
    if "versioned" in parts:
        fields = parts["versioned"].items()
        return {key: sample(field.of, version, values, key) for key, field in fields if field.has(version)}
    if "of" in parts:
        element = sample(parts["of"], version, values)
        return [element] if "nullable" in parts else element
    return SIMPLE.get(of, 0)


SIMPLE: dict[FieldType, Any] = {
    message_schema.STRING: "t",
    message_schema.NULLABLE_STRING: None,
    message_schema.OCTETS: b"octets",
    message_schema.UUID: bytes(range(16)),
}


def encode(request_type: RequestType[Any], version: int | None = None, **values: Any) -> bytes:
    """Return an answer with these values of fields, in the highest version if none is given."""
    version = request_type.versions[1] if version is None else version
    _, response = schemas_of(request_type)
    return response(version, version >= request_type.flexible).write(sample(response, version, values))


class CountedBytes(bytes):
    """A body that fails a test where it is read again and again."""

    reads = 0

    def __getitem__(self, place: Any) -> Any:
        self.reads += 1
        assert self.reads < 100 * len(self) + 1_000, "an endless loop"
        return super().__getitem__(place)


def read_or_refuse(request_type: RequestType[T], version: int, body: bytes) -> T | None:
    """Return what is read; None for a malformed response, whose error must be plain."""
    try:
        return read_response(request_type, CountedBytes(body), version, "broker:9092")
    except MalformedResponse as error:
        message = error.message
    assert message.startswith(f"broker:9092: malformed answer to {request_type.name} v{version}: ")
    assert "\n" not in message
    # Python's own words are about its functions.
    assert not re.search(r"unpack|out of range|codec|struct|buffer", message), message
    return None
