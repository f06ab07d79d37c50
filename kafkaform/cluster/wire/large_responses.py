"""Fast readers of the three largest responses: Metadata, DescribeConfigs and DescribeAcls.

A broker describes the configs of 5,000 topics in 0.3 s; clients then spend seconds on turning each entry
into an object. Most topics have the same configs, byte for byte, so each distinct block of configs is parsed
once and recognised by comparing bytes.

The layouts are those of Kafka's message definitions (MetadataRequest.json, DescribeConfigsRequest.json,
DescribeAclsRequest.json and their responses).
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

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
    check_end,
    message,
    read_array_length,
    read_compact_string,
    read_nullable_string,
    read_plain_array_length,
    since,
    skip_tags,
    struct,
)
from kafkaform.core.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping


DYNAMIC_TOPIC_CONFIG, DYNAMIC_BROKER_CONFIG, DYNAMIC_GROUP_CONFIG = 1, 2, 8
"""The sources of a topic's, a broker's and a group's own configs (ConfigSource)."""

T = TypeVar("T")

_TOPIC, _BROKER, _GROUP = 2, 4, 32  # ConfigResource.Type
# Bounded, as each topic is compared with all of them: otherwise, a cluster whose topics all differ would be
# compared topic by topic.
_KNOWN_BLOCKS = 16
"""The most distinct blocks of configs to compare with."""

_KNOWN_LENGTHS = 1_000
"""The most array lengths whose readers are cached."""

_SHORT = Struct(">h").unpack_from
_INT = Struct(">i").unpack_from


class BrokerAddress(NamedTuple):
    """A live broker, as metadata shows it."""

    host: str
    port: int
    rack: str | None


class PartitionMetadata(NamedTuple):
    """A partition as metadata shows it; `leader` is -1 if it has none."""

    number: int
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


class TopicMetadata(NamedTuple):
    """A topic as metadata shows it; the id is all zeros if brokers have no ids."""

    name: str
    error_code: int
    topic_id: bytes
    internal: bool
    partitions: list[PartitionMetadata]


class Metadata(Value):
    """A response to a Metadata request.

    Attributes:
        brokers: The live brokers, by id.
        cluster_id: The cluster's id; empty if unknown.
        controller: The broker that metadata names as controller; -1 if there is none.
    """

    brokers: dict[int, BrokerAddress]
    cluster_id: str
    controller: int
    topics: list[TopicMetadata]


class Configs(Value):
    """Configs: a resource's own, and the values in force. May be shared between resources: read-only."""

    own: Mapping[str, str | None]
    effective: Mapping[str, str | None]


class DescribedConfigs(Value):
    """The configs of a topic, broker or group, or an error code and message."""

    name: str
    error_code: int
    message: str
    configs: Configs


_FAST = 9
"""The first version of Metadata with a fast reader: the first flexible one."""
_WITH_IDS = 10
# Since then, they are part of DescribeCluster (KIP-700).
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
"""Metadata in all versions; reads the responses of versions without a fast reader."""


def _write_metadata(topics: Collection[str] | None, version: int) -> bytes:
    named = None if topics is None else [{"name": name} for name in topics]
    # A reading must never create a topic, whatever auto.create.topics.enable is.
    return METADATA_SCHEMA.write({"topics": named, "creation": False}, version)


def _read_metadata(body: bytes, version: int) -> Metadata:
    if version < _FAST:
        return _convert_metadata(METADATA_SCHEMA.read(body, version))
    count, at = read_array_length(body, 4)  # after the throttle time
    brokers = {}
    for _ in range(count):
        (broker,) = _INT(body, at)
        host, at = read_compact_string(body, at + 4)
        (port,) = _INT(body, at)
        rack, at = read_compact_string(body, at + 4)
        at = skip_tags(body, at)
        brokers[broker] = BrokerAddress(host or "", port, rack)
    cluster_id, at = read_compact_string(body, at)
    (controller,) = _INT(body, at)
    count, at = read_array_length(body, at + 4)
    topics = []
    for _ in range(count):
        topic, at = _read_topic(body, at, version >= _WITH_IDS)
        topics.append(topic)
    if version < _WITHOUT_CLUSTER_OPERATIONS:
        at += 4
    check_end(body, skip_tags(body, at))
    return Metadata(brokers, cluster_id or "", controller, topics)


_PARTITION = Struct(">hiii").unpack_from  # error code, index, leader, leader epoch


def _read_topic(body: bytes, at: int, has_id: bool) -> tuple[TopicMetadata, int]:
    (error_code,) = _SHORT(body, at)
    name, at = read_compact_string(body, at + 2)
    topic_id = _NO_ID
    if has_id:
        topic_id = body[at : at + 16]
        at += 16
    internal = body[at] != 0
    count, at = read_array_length(body, at + 1)
    partitions = []
    for _ in range(count):
        _, index, leader, _ = _PARTITION(body, at)
        number, at = read_array_length(body, at + 14)
        replicas = _int_reader(number)(body, at)
        number, at = read_array_length(body, at + 4 * number)
        isr = _int_reader(number)(body, at)
        number, at = read_array_length(body, at + 4 * number)  # offline
        at = skip_tags(body, at + 4 * number)
        partitions.append(PartitionMetadata(index, leader, replicas, isr))
    at = skip_tags(body, at + 4)  # authorised operations
    return TopicMetadata(name or "", error_code, topic_id, internal, partitions), at


def _convert_metadata(response: Mapping[str, Any]) -> Metadata:
    return Metadata(
        {b["id"]: BrokerAddress(b["host"], b["port"], b["rack"]) for b in response["brokers"]},
        response["cluster_id"] or "",
        response["controller"],
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
            for topic in response["topics"]
        ],
    )


# Version 4 is the first that can be told not to create the requested topics.
METADATA = RequestType(3, "Metadata", (4, 12), _FAST, _write_metadata, _read_metadata, largest=100_000_000)
"""Takes the names of topics; None for all, an empty collection for only the brokers.

The limit is that of Kafka's own clients (receive.message.max.bytes), enough for two million partitions.
"""


_REQUEST = struct(
    resources=array(struct(type=INT8, name=STRING, configs=array(STRING, nullable=True))), synonyms=BOOLEAN
)(1, False)


def _write_configs(kind: int, wanted: Mapping[str, Collection[str] | None]) -> bytes:
    resources = [{"type": kind, "name": name, "configs": configs} for name, configs in wanted.items()]
    return _REQUEST.write({"resources": resources, "synonyms": False})


def _read_configs(body: bytes, own: int) -> list[DescribedConfigs]:
    """Read the body of a DescribeConfigs response; `own` is the source of a resource's own configs."""
    blocks: dict[bytes, Configs] = {}
    described = []
    count, at = read_plain_array_length(body, 4)  # after the throttle time
    for _ in range(count):
        (error_code,) = _SHORT(body, at)
        message, at = read_nullable_string(body, at + 2)
        name, at = read_nullable_string(body, at + 1)  # resource type
        # Most topics have the same configs, byte for byte: to compare them is faster than to parse them.
        for raw, known in blocks.items():
            if body.startswith(raw, at):
                block = known
                at += len(raw)
                break
        else:
            start = at
            block, at = _read_config_block(body, at, own)
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
        # Every broker offers version 1, and later versions add nothing that is needed.
        (1, 1),
        4,
        lambda wanted, _: _write_configs(kind, wanted),
        lambda body, _: _read_configs(body, own),
    )


TOPIC_CONFIGS = _describe_configs(_TOPIC, DYNAMIC_TOPIC_CONFIG)
"""Takes the names of configs by topic; None for all configs."""
BROKER_CONFIGS = _describe_configs(_BROKER, DYNAMIC_BROKER_CONFIG)
"""Likewise by broker id; a broker describes only its own configs."""
GROUP_CONFIGS = _describe_configs(_GROUP, DYNAMIC_GROUP_CONFIG)
"""Likewise by group (KIP-848, Kafka 3.8)."""


def _read_config_block(body: bytes, at: int, own_source: int) -> tuple[Configs, int]:
    own: dict[str, str | None] = {}
    effective: dict[str, str | None] = {}
    count, at = read_plain_array_length(body, at)
    for _ in range(count):
        name, at = read_nullable_string(body, at)
        value, at = read_nullable_string(body, at)
        source = body[at + 1]  # read only, source, sensitive
        synonyms, at = read_plain_array_length(body, at + 3)
        for _ in range(synonyms):
            _, at = read_nullable_string(body, at)
            _, at = read_nullable_string(body, at)
            at += 1
        effective[name or ""] = value
        if source == own_source:
            own[name or ""] = value
    return Configs(own, effective), at


@lru_cache(_KNOWN_LENGTHS)
def _int_reader(count: int) -> Callable[[bytes, int], tuple[int, ...]]:
    """Return a function that reads this many INT32 from an offset on."""
    return Struct(f">{count}i").unpack_from


class DescribedAcls(Value, Generic[T]):
    """A response to a DescribeAcls request: the ACLs, or an error code and message."""

    error_code: int
    error_message: str
    acls: list[T]


_FLEXIBLE_ACLS = 2
_ACL_FILTER = struct(
    resource_type=INT8,
    resource_name=NULLABLE_STRING,
    pattern_type=INT8,
    principal=NULLABLE_STRING,
    host=NULLABLE_STRING,
    operation=INT8,
    permission_type=INT8,
)


def describe_acls(
    make_acl: Callable[[int, str, int, str, str, int, int], T],
) -> RequestType[DescribedAcls[T]]:
    """Return a request type that takes a filter, in which null and the code ANY match everything.

    Args:
        make_acl: Makes an ACL as soon as it is read: from the type of its resource, the name and the type of
            its pattern, its principal, host, operation and permission.
    """

    def read(body: bytes, version: int) -> DescribedAcls[T]:
        flexible = version >= _FLEXIBLE_ACLS
        read_string = STRING(version, flexible).read
        read_count = read_array_length if flexible else read_plain_array_length
        # A principal and a host have many ACLs: each is kept once.
        texts: dict[str, str] = {}
        acls = []
        (error_code,) = _SHORT(body, 4)  # after the throttle time
        message, at = NULLABLE_STRING(version, flexible).read(body, 6)
        count, at = read_count(body, at)
        for _ in range(count):
            resource_type = body[at]
            name, at = read_string(body, at + 1)
            pattern_type = body[at]
            entries, at = read_count(body, at + 1)
            for _ in range(entries):
                principal, at = read_string(body, at)
                host, at = read_string(body, at)
                principal, host = texts.setdefault(principal, principal), texts.setdefault(host, host)
                acls.append(
                    make_acl(resource_type, name, pattern_type, principal, host, body[at], body[at + 1])
                )
                at = skip_tags(body, at + 2) if flexible else at + 2
            if flexible:
                at = skip_tags(body, at)
        check_end(body, skip_tags(body, at) if flexible else at)
        return DescribedAcls(error_code, message or "", acls)

    return RequestType(
        29,
        "DescribeAcls",
        (1, 3),
        _FLEXIBLE_ACLS,
        lambda wanted, version: _ACL_FILTER(version, version >= _FLEXIBLE_ACLS).write(wanted),
        read,
    )
