"""Questions about groups that no Kafka client of Python asks, in our own bytes.

The layouts are those of Kafka's message definitions (FindCoordinatorRequest.json, DescribeGroupsRequest.json,
ShareGroupDescribeRequest.json, StreamsGroupDescribeRequest.json, DescribeShareGroupOffsetsRequest.json and
their responses), all in flexible versions (KIP-482). Brokers that have share and streams groups speak them.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct, pack
from typing import TYPE_CHECKING, Any, TypeAlias

from kafkaform.cluster.wire import compact_string, skip_tags, uvarint

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

Reader: TypeAlias = "Callable[[bytes, int], tuple[Any, int]]"
"""Reads one field from where it begins; returns its value, and where the next one begins."""


@dataclass(frozen=True, slots=True)
class Question:
    """A request of Kafka's protocol that this module writes and whose answer it reads.

    Attributes:
        api_key: Which request.
        version: In which version.
        answer: Reads the body of the answer.
    """

    api_key: int
    version: int
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


def _layouts() -> tuple[Question, ...]:
    problem = {"error_code": INT16, "error_message": STRING}
    key_value = struct(key=STRING, value=STRING)
    coordinators = struct(
        throttle_ms=INT32,
        coordinators=array(struct(key=STRING, node_id=INT32, host=STRING, port=INT32, **problem)),
    )
    classic = struct(
        throttle_ms=INT32,
        groups=array(
            struct(
                error_code=INT16,
                group_id=STRING,
                state=STRING,
                protocol_type=STRING,
                assignor=STRING,
                members=array(
                    struct(
                        member_id=STRING,
                        instance_id=STRING,
                        client_id=STRING,
                        client_host=STRING,
                        metadata=octets,
                        raw_assignment=octets,
                    )
                ),
                operations=INT32,
            )
        ),
    )
    share = struct(
        throttle_ms=INT32,
        groups=array(
            struct(
                **problem,
                group_id=STRING,
                state=STRING,
                epoch=INT32,
                assignment_epoch=INT32,
                assignor=STRING,
                members=array(
                    struct(
                        member_id=STRING,
                        rack_id=STRING,
                        epoch=INT32,
                        client_id=STRING,
                        client_host=STRING,
                        subscribed=array(STRING),
                        assignment=struct(
                            topics=array(struct(id=uuid, name=STRING, partitions=array(INT32)))
                        ),
                    )
                ),
                operations=INT32,
            )
        ),
    )
    topic_info = struct(name=STRING, partitions=INT32, replication=INT16, configs=array(key_value))
    task_offset = struct(subtopology=STRING, partition=INT32, offset=INT64)
    tasks = array(struct(subtopology=STRING, partitions=array(INT32)))
    assignment = struct(active=tasks, standby=tasks, warmup=tasks)
    subtopology = struct(
        id=STRING,
        source_topics=array(STRING),
        sink_topics=array(STRING),
        changelogs=array(topic_info),
        repartition_topics=array(topic_info),
    )
    streams = struct(
        throttle_ms=INT32,
        groups=array(
            struct(
                **problem,
                group_id=STRING,
                state=STRING,
                epoch=INT32,
                assignment_epoch=INT32,
                topology=nullable(struct(epoch=INT32, subtopologies=array(subtopology))),
                members=array(
                    struct(
                        member_id=STRING,
                        epoch=INT32,
                        instance_id=STRING,
                        rack_id=STRING,
                        client_id=STRING,
                        client_host=STRING,
                        topology_epoch=INT32,
                        process_id=STRING,
                        endpoint=nullable(struct(host=STRING, port=INT16)),
                        tags=array(key_value),
                        offsets=array(task_offset),
                        end_offsets=array(task_offset),
                        assignment=assignment,
                        target_assignment=assignment,
                        classic=INT8,
                    )
                ),
                operations=INT32,
            )
        ),
    )
    partition = struct(index=INT32, start_offset=INT64, leader_epoch=INT32, **problem)
    share_offsets = struct(
        throttle_ms=INT32,
        groups=array(
            struct(
                group_id=STRING,
                topics=array(struct(name=STRING, id=uuid, partitions=array(partition))),
                **problem,
            )
        ),
    )
    return (
        Question(10, 4, coordinators),
        Question(15, 5, classic),
        Question(77, 1, share),
        Question(89, 0, streams),
        Question(90, 0, share_offsets),
    )


FIND_COORDINATORS, DESCRIBE_CLASSIC, DESCRIBE_SHARE, DESCRIBE_STREAMS, SHARE_OFFSETS = _layouts()

_NO_TAGS = b"\x00"
_NULL_ARRAY = b"\x00"


def groups_to_find(names: Collection[str]) -> bytes:
    """The body of a request for the coordinators of groups."""
    key_type_group = b"\x00"
    return key_type_group + strings(names) + _NO_TAGS


def groups_to_describe(names: Collection[str]) -> bytes:
    """The body of a request for the description of groups, whatever their protocol."""
    without_operations = b"\x00"
    return strings(names) + without_operations + _NO_TAGS


def share_groups_to_tell_offsets_of(names: Collection[str]) -> bytes:
    """The body of a request for the start offsets of share groups, in every partition that they have."""
    every_topic = _NULL_ARRAY
    groups = b"".join(string(name) + every_topic + _NO_TAGS for name in names)
    return length(len(names) + 1) + groups + _NO_TAGS


def strings(values: Collection[str]) -> bytes:
    """An array of strings."""
    return length(len(values) + 1) + b"".join(map(string, values))


def string(value: str) -> bytes:
    """A string."""
    raw = value.encode()
    return length(len(raw) + 1) + raw


def length(value: int) -> bytes:
    """An unsigned number of as few bytes as it needs."""
    parts = []
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return pack(f">{len(parts) + 1}B", *parts, value)
