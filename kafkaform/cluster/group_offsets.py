"""The offsets that groups have committed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException

from kafkaform.cluster import group_wire
from kafkaform.cluster.api import READ_TIMEOUT_S
from kafkaform.cluster.group_answers import GroupAnswers, gathered, settled
from kafkaform.cluster.group_coordinators import ask_coordinators
from kafkaform.cluster.translation import one_line, translate_code

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafkaform.cluster.connection import Connection
    from kafkaform.core.groups import TopicPartition


def committed_offsets(
    connection: Connection, protocols: Mapping[str, str]
) -> GroupAnswers[dict[TopicPartition, int]]:
    """The committed offsets of groups; a share group's are the offsets that its deliveries start from.

    Args:
        connection: The cluster.
        protocols: Each group's protocol, by name.
    """
    share = [name for name, protocol in protocols.items() if protocol == "share"]
    others = [name for name in protocols if protocols[name] != "share"]
    answers = settled(others, lambda names: _of_consumers(connection, names))
    answers.update(settled(share, lambda names: _of_share_groups(connection, names)))
    return answers


def _of_consumers(connection: Connection, names: Collection[str]) -> GroupAnswers[dict[TopicPartition, int]]:
    admin = connection.reached
    futures = {
        # librdkafka takes one group a call; the requests of all calls are under way at once.
        name: admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(name)], request_timeout=READ_TIMEOUT_S
        )[name]
        for name in names
    }
    return gathered(futures, _offsets)


def _offsets(told: ConsumerGroupTopicPartitions) -> dict[TopicPartition, int]:
    offsets = {}
    for each in told.topic_partitions or ():
        if each.error is not None:
            raise KafkaException(each.error)
        if each.offset >= 0:
            offsets[each.topic, each.partition] = each.offset
    return offsets


def _of_share_groups(
    connection: Connection, names: Collection[str]
) -> GroupAnswers[dict[TopicPartition, int]]:
    answers = ask_coordinators(
        connection,
        group_wire.SHARE_OFFSETS,
        names,
        group_wire.share_groups_to_tell_offsets_of,
        lambda told, _: told,
    )
    result: GroupAnswers[dict[TopicPartition, int]] = GroupAnswers({}, answers.failed)
    for name, told in answers.found.items():
        offsets: dict[TopicPartition, int] = {}
        for topic in told["topics"]:
            for partition in topic["partitions"]:
                _take(name, topic["name"], partition, offsets, result)
        if name not in result.failed:
            result.found[name] = offsets
    return result


def _take(
    name: str,
    topic: str,
    partition: Mapping[str, Any],
    offsets: dict[TopicPartition, int],
    result: GroupAnswers[dict[TopicPartition, int]],
) -> None:
    if partition["error_code"]:
        words = one_line(partition["error_message"] or "")
        result.failed[name] = translate_code(partition["error_code"], words)
    elif partition["start_offset"] >= 0:
        offsets[topic, partition["index"]] = partition["start_offset"]
