"""Two answers of Kafka's protocol, read straight from their bytes.

A broker describes the configs of 5,000 topics in 0.3 s; clients then spend seconds on turning each entry
into an object. Most topics have the same configs, byte for byte, so here each distinct block of configs is
read once and found again by comparing bytes.

The layouts are those of Kafka's message definitions (MetadataRequest.json, DescribeConfigsRequest.json and
their responses), in versions that every broker since Kafka 2.8 speaks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from struct import Struct, pack
from typing import TYPE_CHECKING

from kafkaform.cluster.kafka.answers import Configs
from kafkaform.cluster.transport.api import Api, RequestType

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Collection,
        Mapping,
        Sequence,
    )


METADATA = Api(3, 12, flexible=True, name="Metadata", largest=100_000_000)
"""Kafka's own clients take as much (receive.message.max.bytes): the metadata of two million partitions."""
DESCRIBE_CONFIGS = Api(32, 1, flexible=False, name="DescribeConfigs")

DYNAMIC_TOPIC_CONFIG, DYNAMIC_BROKER_CONFIG = 1, 2
"""The source of a config that is a topic's, or a broker's, own (DescribeConfigsResponse.ConfigSource)."""

_TOPIC, _BROKER = 2, 4  # ConfigResource.Type
_KNOWN_BLOCKS = 16
"""The distinct blocks of configs that are kept at hand to compare with."""

_KNOWN_LENGTHS = 1_000
"""The lengths of arrays that are kept at hand with what reads them."""
_LAST_SHIFT = 28
"""The bits by which the fifth byte of a length is shifted: there are no more, as lengths have 32 bits."""

_SHORT = Struct(">h").unpack_from
_INT = Struct(">i").unpack_from


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """A topic as metadata shows it; `replicas` has the brokers that hold each partition."""

    name: str
    error_code: int
    topic_id: bytes
    internal: bool
    replicas: dict[int, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class DescribedConfigs:
    """The answer about a topic or a broker: its configs, or an error code and the broker's words."""

    name: str
    error_code: int
    message: str
    configs: Configs


def metadata_of_all_topics() -> bytes:
    """The body of a Metadata request for every topic, which creates none."""
    every, no_creation, no_operations, no_tags = b"\x00", b"\x00", b"\x00", b"\x00"
    return every + no_creation + no_operations + no_tags


def metadata_of_no_topic() -> bytes:
    """The body of a Metadata request for the brokers alone."""
    none, no_creation, no_operations, no_tags = b"\x01", b"\x00", b"\x00", b"\x00"
    return none + no_creation + no_operations + no_tags


def read_addresses(body: bytes) -> dict[int, tuple[str, int]]:
    """Host and port of each live broker, from the body of a Metadata response."""
    count, at = array_length(body, 4)  # behind the throttle time
    addresses = {}
    for _ in range(count):
        (broker,) = _INT(body, at)
        host, at = compact_string(body, at + 4)
        (port,) = _INT(body, at)
        addresses[broker] = (host or "", port)
        _, at = compact_string(body, at + 4)  # rack
        at = skip_tags(body, at)
    return addresses


def metadata_of_topics(names: Collection[str]) -> bytes:
    """The body of a Metadata request for topics by their names, which creates none."""
    any_id, no_creation, no_operations, no_tags = bytes(16), b"\x00", b"\x00", b"\x00"
    topics = b"".join(any_id + string(name) + no_tags for name in names)
    return length(len(names) + 1) + topics + no_creation + no_operations + no_tags


def read_metadata(body: bytes) -> list[TopicMetadata]:
    """Read the body of a Metadata response."""
    count, at = array_length(body, 4)  # behind the throttle time
    for _ in range(count):
        _, at = compact_string(body, at + 4)  # id, host
        _, at = compact_string(body, at + 4)  # port, rack
        at = skip_tags(body, at)
    _, at = compact_string(body, at)  # cluster id
    at += 4  # controller
    count, at = array_length(body, at)
    topics = []
    for _ in range(count):
        topic, at = _topic(body, at)
        topics.append(topic)
    check_end(body, skip_tags(body, at))
    return topics


def _topic(body: bytes, at: int) -> tuple[TopicMetadata, int]:
    (error_code,) = _SHORT(body, at)
    name, at = compact_string(body, at + 2)
    topic_id = body[at : at + 16]
    internal = body[at + 16] != 0
    count, at = array_length(body, at + 17)
    replicas: dict[int, tuple[int, ...]] = {}
    for _ in range(count):
        (index,) = _INT(body, at + 2)
        number, at = array_length(body, at + 14)  # error code, index, leader, leader epoch
        replicas[index] = ints(number)(body, at)
        number, at = array_length(body, at + 4 * number)  # in sync
        number, at = array_length(body, at + 4 * number)  # offline
        at = skip_tags(body, at + 4 * number)
    at = skip_tags(body, at + 4)  # authorised operations
    return TopicMetadata(name or "", error_code, topic_id, internal, replicas), at


TOPICS = RequestType(METADATA, read_metadata)
ADDRESSES = RequestType(METADATA, read_addresses)


def describe_topic_configs(names: Sequence[str], only: str | None = None) -> bytes:
    """The body of a DescribeConfigs request for all configs of topics, or only one, without synonyms."""
    configs = pack(">i", -1) if only is None else _strings([only])
    return _describe(_TOPIC, dict.fromkeys(names, configs))


def describe_configs_of_topics(wanted: Mapping[str, Sequence[str]]) -> bytes:
    """The body of a DescribeConfigs request for some configs of each topic, without synonyms."""
    return _describe(_TOPIC, {name: _strings(configs) for name, configs in wanted.items()})


def describe_configs_of_brokers(brokers: Collection[int], configs: Sequence[str]) -> bytes:
    """The body of a DescribeConfigs request for some configs of brokers: each tells its own alone."""
    return _describe(_BROKER, {str(broker): _strings(configs) for broker in brokers})


def _describe(kind: int, wanted: Mapping[str, bytes]) -> bytes:
    no_synonyms = b"\x00"
    resources = b"".join(pack(">b", kind) + _string(name) + configs for name, configs in wanted.items())
    return pack(">i", len(wanted)) + resources + no_synonyms


def read_configs(body: bytes, own: int = DYNAMIC_TOPIC_CONFIG) -> list[DescribedConfigs]:
    """Read the body of a DescribeConfigs response; `own` is the source of what is a resource's own."""
    blocks: dict[bytes, Configs] = {}
    described = []
    count, at = _plain_array_length(body, 4)  # behind the throttle time
    for _ in range(count):
        (error_code,) = _SHORT(body, at)
        message, at = _nullable_string(body, at + 2)
        name, at = _nullable_string(body, at + 1)  # resource type
        for raw, known in blocks.items():
            if body.startswith(raw, at):
                block = known
                at += len(raw)
                break
        else:
            start = at
            block, at = _configs(body, at, own)
            if len(blocks) >= _KNOWN_BLOCKS:
                del blocks[next(iter(blocks))]
            blocks[body[start:at]] = block
        described.append(DescribedConfigs(name or "", error_code, message or "", block))
    check_end(body, at)
    return described


TOPIC_CONFIGS = RequestType(DESCRIBE_CONFIGS, read_configs)
BROKER_CONFIGS = RequestType(DESCRIBE_CONFIGS, partial(read_configs, own=DYNAMIC_BROKER_CONFIG))


def _configs(body: bytes, at: int, own_source: int) -> tuple[Configs, int]:
    own: dict[str, str | None] = {}
    effective: dict[str, str | None] = {}
    count, at = _plain_array_length(body, at)
    for _ in range(count):
        name, at = _nullable_string(body, at)
        value, at = _nullable_string(body, at)
        source = body[at + 1]  # read only, source, sensitive
        synonyms, at = _plain_array_length(body, at + 3)
        for _ in range(synonyms):
            _, at = _nullable_string(body, at)
            _, at = _nullable_string(body, at)
            at += 1
        effective[name or ""] = value
        if source == own_source:
            own[name or ""] = value
    return Configs(own, effective), at


def _plain_array_length(body: bytes, at: int) -> tuple[int, int]:
    """The number of elements of an array that is not null, and where the first one begins."""
    (count,) = _INT(body, at)
    if count < 0:
        raise ValueError(f"an array of {count} elements")
    return count, at + 4


def _strings(texts: Sequence[str]) -> bytes:
    return pack(">i", len(texts)) + b"".join(map(_string, texts))


def _string(text: str) -> bytes:
    raw = text.encode()
    return pack(">h", len(raw)) + raw


def _nullable_string(body: bytes, at: int) -> tuple[str | None, int]:
    (length,) = _SHORT(body, at)
    at += 2
    if length < 0:
        return None, at
    return body[at : at + length].decode(), at + length


def compact_string(body: bytes, at: int) -> tuple[str | None, int]:
    """A string of a flexible version (KIP-482), and where the next field begins."""
    length, at = uvarint(body, at)
    if length == 0:
        return None, at
    return body[at : at + length - 1].decode(), at + length - 1


def string(text: str) -> bytes:
    """A string as flexible versions have it."""
    raw = text.encode()
    return length(len(raw) + 1) + raw


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


def array_length(body: bytes, at: int) -> tuple[int, int]:
    """The number of elements of a flexible version's array that is not null, and where the first begins."""
    count, at = uvarint(body, at)
    if count == 0:
        raise ValueError("null where an array is expected")
    return count - 1, at


def check_end(body: bytes, at: int) -> None:
    """Raise ValueError unless the body of an answer ends where its last field does."""
    if at != len(body):
        raise ValueError(f"{len(body):,} bytes came, but the fields in them take {at:,}")


@lru_cache(_KNOWN_LENGTHS)
def ints(count: int) -> Callable[[bytes, int], tuple[int, ...]]:
    """Return what reads so many numbers of four bytes from a place on."""
    return Struct(f">{count}i").unpack_from


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
