"""Questions about groups that no Kafka client of Python asks, in our own bytes.

The layouts are those of Kafka's message definitions (FindCoordinatorRequest.json, DescribeGroupsRequest.json,
ShareGroupDescribeRequest.json, StreamsGroupDescribeRequest.json, DescribeShareGroupOffsetsRequest.json and
their responses), all in flexible versions (KIP-482). Brokers that have share and streams groups speak them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkaform.cluster.transport.api import Api, RequestType
from kafkaform.cluster.wire.large_answers import length, string
from kafkaform.cluster.wire.message_schema import (
    INT8,
    INT16,
    INT32,
    INT64,
    NULLABLE_STRING,
    STRING,
    array,
    nullable,
    octets,
    struct,
    uuid,
    whole,
)

if TYPE_CHECKING:
    from collections.abc import Collection


def _layouts() -> tuple[RequestType[Any], ...]:
    problem = {"error_code": INT16, "error_message": NULLABLE_STRING}
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
                        instance_id=NULLABLE_STRING,
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
                        rack_id=NULLABLE_STRING,
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
                        instance_id=NULLABLE_STRING,
                        rack_id=NULLABLE_STRING,
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
        RequestType(Api(10, 4, flexible=True, name="FindCoordinator"), whole(coordinators)),
        RequestType(Api(15, 5, flexible=True, name="DescribeGroups"), whole(classic)),
        RequestType(Api(77, 1, flexible=True, name="ShareGroupDescribe"), whole(share)),
        RequestType(Api(89, 0, flexible=True, name="StreamsGroupDescribe"), whole(streams)),
        RequestType(Api(90, 0, flexible=True, name="DescribeShareGroupOffsets"), whole(share_offsets)),
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
