"""The two large answers of Kafka's protocol, read straight from their bytes.

A broker describes the configs of 5,000 topics in 0.3 s; clients then spend seconds on turning each entry
into an object. Most topics have the same configs, byte for byte, so here each distinct block of configs is
read once and found again by comparing bytes.

The layouts are those of Kafka's message definitions (MetadataRequest.json, DescribeConfigsRequest.json and
their responses).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkaform.cluster.kafka.answers import Configs
from kafkaform.cluster.wire.message_schema import (
    BOOLEAN,
    INT8,
    INT16,
    INT32,
    NULLABLE_STRING,
    STRING,
    UUID,
    RequestType,
    Versions,
    array,
    array_length,
    check_end,
    compact_string,
    message,
    nullable_string,
    plain_array_length,
    since,
    skip_tags,
    struct,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping


DYNAMIC_TOPIC_CONFIG, DYNAMIC_BROKER_CONFIG = 1, 2
"""The source of a config that is a topic's, or a broker's, own (DescribeConfigsResponse.ConfigSource)."""

_TOPIC, _BROKER = 2, 4  # ConfigResource.Type
_KNOWN_BLOCKS = 16
"""The distinct blocks of configs that are kept at hand to compare with."""

_KNOWN_LENGTHS = 1_000
"""The lengths of arrays that are kept at hand with what reads them."""

_SHORT = Struct(">h").unpack_from
_INT = Struct(">i").unpack_from


class BrokerAddress(NamedTuple):
    """A live broker, as metadata shows it."""

    host: str
    port: int
    rack: str | None


class PartitionMetadata(NamedTuple):
    """A partition as metadata shows it; a leader of -1 is none."""

    number: int
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


class TopicMetadata(NamedTuple):
    """A topic as metadata shows it; the id is all zeros where brokers have none."""

    name: str
    error_code: int
    topic_id: bytes
    internal: bool
    partitions: list[PartitionMetadata]


@dataclass(frozen=True, slots=True)
class Metadata:
    """An answer to a Metadata request.

    Attributes:
        brokers: The live brokers, by id.
        cluster_id: The id that the cluster gave itself; empty if it was not given.
        controller: The broker that answers for the controllers; -1 if there is none.
        topics: The topics that were asked for.
    """

    brokers: dict[int, BrokerAddress]
    cluster_id: str
    controller: int
    topics: list[TopicMetadata]


@dataclass(frozen=True, slots=True)
class DescribedConfigs:
    """The answer about a topic or a broker: its configs, or an error code and the broker's words."""

    name: str
    error_code: int
    message: str
    configs: Configs


_FAST = 9
"""The first version of Metadata that is read straight from its bytes: the first flexible one."""
_WITH_IDS = 10
_WITHOUT_CLUSTER_OPERATIONS = 11
_NO_ID = bytes(16)

METADATA_SCHEMA = message(
    3,
    "Metadata",
    (4, 12),
    _FAST,
    struct(
        topics=array(struct(topic_id=since(_WITH_IDS, UUID, _NO_ID), name=STRING), nullable=True),
        creation=BOOLEAN,
        cluster_operations=Versions(BOOLEAN, default=False, first=8, last=_WITHOUT_CLUSTER_OPERATIONS - 1),
        topic_operations=since(8, BOOLEAN, default=False),
    ),
    struct(
        throttle_ms=INT32,
        brokers=array(struct(id=INT32, host=STRING, port=INT32, rack=NULLABLE_STRING)),
        cluster_id=NULLABLE_STRING,
        controller=INT32,
        topics=array(
            struct(
                error_code=INT16,
                name=STRING,
                topic_id=since(_WITH_IDS, UUID, _NO_ID),
                internal=BOOLEAN,
                partitions=array(
                    struct(
                        error_code=INT16,
                        index=INT32,
                        leader=INT32,
                        epoch=since(7, INT32, 0),
                        replicas=array(INT32),
                        isr=array(INT32),
                        offline=since(5, array(INT32), ()),
                    )
                ),
                operations=since(8, INT32, 0),
            )
        ),
        operations=Versions(INT32, default=0, first=8, last=_WITHOUT_CLUSTER_OPERATIONS - 1),
    ),
)
"""Metadata in all versions; its answers are read so where there is no faster way."""


def _write_metadata(topics: Collection[str] | None, version: int) -> bytes:
    named = None if topics is None else [{"name": name} for name in topics]
    return METADATA_SCHEMA.write({"topics": named, "creation": False}, version)


def _read_metadata(body: bytes, version: int) -> Metadata:
    if version < _FAST:
        return _converted(METADATA_SCHEMA.read(body, version))
    count, at = array_length(body, 4)  # behind the throttle time
    brokers = {}
    for _ in range(count):
        (broker,) = _INT(body, at)
        host, at = compact_string(body, at + 4)
        (port,) = _INT(body, at)
        rack, at = compact_string(body, at + 4)
        at = skip_tags(body, at)
        brokers[broker] = BrokerAddress(host or "", port, rack)
    cluster_id, at = compact_string(body, at)
    (controller,) = _INT(body, at)
    count, at = array_length(body, at + 4)
    topics = []
    for _ in range(count):
        topic, at = _topic(body, at, version >= _WITH_IDS)
        topics.append(topic)
    if version < _WITHOUT_CLUSTER_OPERATIONS:
        at += 4
    check_end(body, skip_tags(body, at))
    return Metadata(brokers, cluster_id or "", controller, topics)


_PARTITION = Struct(">hiii").unpack_from  # error code, index, leader, leader epoch


def _topic(body: bytes, at: int, has_id: bool) -> tuple[TopicMetadata, int]:
    (error_code,) = _SHORT(body, at)
    name, at = compact_string(body, at + 2)
    topic_id = _NO_ID
    if has_id:
        topic_id = body[at : at + 16]
        at += 16
    internal = body[at] != 0
    count, at = array_length(body, at + 1)
    partitions = []
    for _ in range(count):
        _, index, leader, _ = _PARTITION(body, at)
        number, at = array_length(body, at + 14)
        replicas = _ints(number)(body, at)
        number, at = array_length(body, at + 4 * number)
        isr = _ints(number)(body, at)
        number, at = array_length(body, at + 4 * number)  # offline
        at = skip_tags(body, at + 4 * number)
        partitions.append(PartitionMetadata(index, leader, replicas, isr))
    at = skip_tags(body, at + 4)  # authorised operations
    return TopicMetadata(name or "", error_code, topic_id, internal, partitions), at


def _converted(answer: Mapping[str, Any]) -> Metadata:
    return Metadata(
        {b["id"]: BrokerAddress(b["host"], b["port"], b["rack"]) for b in answer["brokers"]},
        answer["cluster_id"] or "",
        answer["controller"],
        [
            TopicMetadata(
                topic["name"],
                topic["error_code"],
                topic["topic_id"],
                topic["internal"],
                [
                    PartitionMetadata(p["index"], p["leader"], tuple(p["replicas"]), tuple(p["isr"]))
                    for p in topic["partitions"]
                ],
            )
            for topic in answer["topics"]
        ],
    )


METADATA = RequestType(3, "Metadata", (4, 12), _FAST, _write_metadata, _read_metadata, largest=100_000_000)
"""Asked with the names of topics; None asks for all, and no name for the brokers alone.

Kafka's own clients take as large an answer (receive.message.max.bytes): that of two million partitions.
"""


_REQUEST = struct(
    resources=array(struct(type=INT8, name=STRING, configs=array(STRING, nullable=True))),
    synonyms=BOOLEAN,
)(1, False)


def _write_configs(kind: int, wanted: Mapping[str, Collection[str] | None]) -> bytes:
    resources = [{"type": kind, "name": name, "configs": configs} for name, configs in wanted.items()]
    return _REQUEST.write({"resources": resources, "synonyms": False})


def _read_configs(body: bytes, own: int) -> list[DescribedConfigs]:
    """Read the body of a DescribeConfigs response; `own` is the source of what is a resource's own."""
    blocks: dict[bytes, Configs] = {}
    described = []
    count, at = plain_array_length(body, 4)  # behind the throttle time
    for _ in range(count):
        (error_code,) = _SHORT(body, at)
        message, at = nullable_string(body, at + 2)
        name, at = nullable_string(body, at + 1)  # resource type
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


def _describe_configs(kind: int, own: int) -> RequestType[list[DescribedConfigs]]:
    return RequestType(
        32,
        "DescribeConfigs",
        (1, 1),  # which every broker offers; later ones say more about each entry, and nothing that is needed
        4,
        lambda wanted, _: _write_configs(kind, wanted),
        lambda body, _: _read_configs(body, own),
    )


TOPIC_CONFIGS = _describe_configs(_TOPIC, DYNAMIC_TOPIC_CONFIG)
"""Asked with the configs that are wanted of each topic; None asks for all of them."""
BROKER_CONFIGS = _describe_configs(_BROKER, DYNAMIC_BROKER_CONFIG)
"""Likewise, of brokers: each tells its own alone."""


def _configs(body: bytes, at: int, own_source: int) -> tuple[Configs, int]:
    own: dict[str, str | None] = {}
    effective: dict[str, str | None] = {}
    count, at = plain_array_length(body, at)
    for _ in range(count):
        name, at = nullable_string(body, at)
        value, at = nullable_string(body, at)
        source = body[at + 1]  # read only, source, sensitive
        synonyms, at = plain_array_length(body, at + 3)
        for _ in range(synonyms):
            _, at = nullable_string(body, at)
            _, at = nullable_string(body, at)
            at += 1
        effective[name or ""] = value
        if source == own_source:
            own[name or ""] = value
    return Configs(own, effective), at


@lru_cache(_KNOWN_LENGTHS)
def _ints(count: int) -> Callable[[bytes, int], tuple[int, ...]]:
    """Return what reads so many numbers of four bytes from a place on."""
    return Struct(f">{count}i").unpack_from
