"""Reading where all replicas of a real cluster are and are going."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException

from kafkaform.cluster.api import READ_TIMEOUT_S
from kafkaform.cluster.placements import plain_placement, swift_placement
from kafkaform.cluster.reader import topic_source
from kafkaform.cluster.reassignments import read_running
from kafkaform.cluster.translation import translate
from kafkaform.cluster.wire_reader import WireReader
from kafkaform.core.errors import PermissionDenied
from kafkaform.core.layout import Broker, Layout

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaform.cluster.connection import Connection
    from kafkaform.core.groups import TopicPartition
    from kafkaform.core.layout import Reassignment

TIMEOUT_S = 10.0
"""How long one request may take: somebody waits for the next reading."""


def read_layout(connection: Connection) -> Layout:
    """See `Cluster.layout`."""
    # Metadata does not tell old replicas from new ones. What starts or ends beside it is in one of the two.
    before = _running(connection)
    if isinstance(topic_source(connection), WireReader):
        placement = swift_placement(connection)
        brokers = placement.brokers
    else:
        placement = plain_placement(connection, TIMEOUT_S)
        brokers = _with_racks(connection, placement.brokers)
    after = _running(connection)
    of_topics = groupby(placement.partitions, attrgetter("topic"))
    return Layout(
        brokers,
        {name: tuple(partitions) for name, partitions in of_topics},
        None if before is None or after is None else {**before, **after},
    )


def _running(connection: Connection) -> Mapping[TopicPartition, Reassignment] | None:
    try:
        return read_running(connection, TIMEOUT_S)
    except PermissionDenied:
        return None


def _with_racks(connection: Connection, brokers: tuple[Broker, ...]) -> tuple[Broker, ...]:
    try:
        nodes = connection.admin.describe_cluster(request_timeout=READ_TIMEOUT_S).result().nodes
    except KafkaException as error:
        raise translate(error) from error
    racks = {node.id: node.rack for node in nodes}
    return tuple(Broker(broker.id, racks.get(broker.id)) for broker in brokers)
