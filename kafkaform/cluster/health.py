"""Reading the health of a real cluster, in a few requests however many partitions there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.cluster import wire
from kafkaform.cluster.controlled import retried
from kafkaform.cluster.placements import plain_placement, swift_placement
from kafkaform.cluster.quorum import read_quorum
from kafkaform.cluster.reader import topic_source
from kafkaform.cluster.reassignments import read_running
from kafkaform.cluster.topic_answers import Answers
from kafkaform.cluster.translation import MISSING, one_line, translate_code
from kafkaform.cluster.wire_reader import CHUNK, WireReader
from kafkaform.core.errors import ClusterError, KafkaformError, Unreachable
from kafkaform.core.health import Health, Part, Quorum

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkaform.cluster.connection import Connection
    from kafkaform.cluster.partition_wire import Placement
    from kafkaform.cluster.topic_answers import Configs

TIMEOUT_S = 5.0
"""How long one request may take: controllers without a leader do not answer at all."""
_SIGN_OF_LIFE_S = 1.0

_MIN_ISR = "min.insync.replicas"


def read_health(connection: Connection) -> Health:
    """See `Cluster.health`."""
    try:
        source = topic_source(connection)
    except Unreachable:
        # librdkafka has the controller describe the cluster: without one, nobody seems to be there.
        found = _without_controller(connection)
        if found is None:
            raise
        return found
    if isinstance(source, WireReader):
        placement = swift_placement(connection)
        configs = retried(lambda: _min_insync_replicas(connection, placement.topics))
    else:
        placement = plain_placement(connection, TIMEOUT_S)
        configs = source.configs(placement.topics)
    unread = _untold(placement, configs)
    quorum = _quorum(connection, placement.controller, unread)
    reassigning = _reassigning(connection, unread)
    if not placement.partitions and quorum is None:
        unread[Part.PARTITIONS] = "no topic is visible to this account"
    least = {name: found.effective.get(_MIN_ISR) for name, found in configs.found.items()}
    if wrong := [name for name, value in least.items() if value is not None and not value.isdecimal()]:
        raise ClusterError(f"the brokers tell no number as {_MIN_ISR} of topic {wrong[0]}")
    return Health(
        placement.controller,
        placement.brokers,
        placement.partitions,
        {name: int(value) for name, value in least.items() if value is not None},
        quorum,
        reassigning,
        unread,
        placement.cluster_id,
    )


def _without_controller(connection: Connection) -> Health | None:
    """What a broker still tells while no controller answers; None if no broker does either."""
    try:
        placement = plain_placement(connection, timeout_s=_SIGN_OF_LIFE_S)
    except ClusterError:
        return None
    why = "no active controller answers"
    return Health(
        None,
        placement.brokers,
        placement.partitions,
        quorum=Quorum(None),
        reassigning=None,
        unread={Part.MIN_ISR: why, Part.REASSIGNMENTS: why},
        cluster_id=placement.cluster_id,
    )


def _untold(placement: Placement, configs: Answers[Configs]) -> dict[Part, str]:
    unread = {}
    for name, error in [*configs.denied.items()][:1]:
        unread[Part.MIN_ISR] = f"{len(configs.denied):,} topics do not tell, such as {name}: {error.message}"
    failed = {name: code for name, code in placement.failed.items() if code not in MISSING}
    for name, code in [*failed.items()][:1]:
        reason = translate_code(code, "").message
        unread[Part.PARTITIONS] = f"{len(failed):,} topics do not tell, such as {name}: {reason}"
    return unread


def _min_insync_replicas(connection: Connection, topics: Sequence[str]) -> Answers[Configs]:
    """The value in force for each topic, own or inherited from the brokers, and no other config."""
    bodies = [
        wire.describe_topic_configs(topics[start : start + CHUNK], only=_MIN_ISR)
        for start in range(0, len(topics), CHUNK)
    ]
    answers: Answers[Configs] = Answers()
    for answer in connection.ask(wire.TOPIC_CONFIGS, bodies):
        for topic in answer:
            if topic.error_code == 0:
                answers.found[topic.name] = topic.configs
            elif topic.error_code not in MISSING:  # one that is missing has just been made, or deleted
                answers.deny(topic.name, translate_code(topic.error_code, one_line(topic.message)))
    return answers


def _quorum(connection: Connection, controller: int | None, unread: dict[Part, str]) -> Quorum | None:
    try:
        return read_quorum(connection, controller, TIMEOUT_S)
    except KafkaformError as error:
        unread[Part.QUORUM] = error.message
        return None


def _reassigning(
    connection: Connection, unread: dict[Part, str]
) -> Mapping[tuple[str, int], tuple[int, ...]] | None:
    try:
        running = read_running(connection, timeout_s=TIMEOUT_S)
    except KafkaformError as error:
        unread[Part.REASSIGNMENTS] = error.message
        return None
    return {partition: tuple(sorted(one.adding)) for partition, one in running.items()}
