"""Writing to the audit topic, and reading all of it."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from kafkaform.cluster.kafka.topic_sources import describe_topics
from kafkaform.cluster.kafka.writer import submit
from kafkaform.cluster.protocol import TOPIC, creation, key_of
from kafkaform.cluster.transport.broker_socket import READ_TIMEOUT_S
from kafkaform.cluster.transport.rights import name_right
from kafkaform.cluster.transport.translation import signals_kept, translate
from kafkaform.core.errors import PermissionDenied, RequestRejected
from kafkaform.core.lock import unguarded

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkaform.cluster.transport.connection import Connection


DELIVERY_TIMEOUT_S = 30.0
"""The time that the brokers may take to confirm what was written."""
_BATCH = 1_000
_PAUSE_S = 0.2
_POLL_S = 0.02  # a batch that is not full is waited for as long as this
_EXISTS = KafkaError(KafkaError.TOPIC_ALREADY_EXISTS).name()
_OF_CONFIGS = frozenset(
    KafkaError(code).name() for code in (KafkaError.INVALID_CONFIG, KafkaError.POLICY_VIOLATION)
)
_MIN_ISR = "min.insync.replicas"
_OF_NO_CONCERN = frozenset({KafkaError.GROUP_AUTHORIZATION_FAILED})
"""The errors of a consumer about the group that it has to name, and that nothing is asked of."""


class AuditTopic:
    """The audit topic of a cluster.

    Args:
        connection: The cluster.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def begin(self) -> None:
        """See `KafkaCluster.begin_audit`."""
        self._producer  # noqa: B018 - cached: it finds its way in the background

    @signals_kept()
    def append(self, lines: Sequence[str]) -> None:
        """See `Cluster.append_audit`."""
        producer = self._producer  # first: given a message before it has a connection, it waits half a second
        if not self._exists():
            self._create()
        failures: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failures.append(error)

        try:
            try:
                for line in lines:
                    producer.produce(TOPIC.name, line.encode(), key_of(line).encode(), on_delivery=delivered)
                    producer.poll(0)
            except KafkaException as error:
                if error.args[0].code() == KafkaError._FATAL:
                    producer.poll(_PAUSE_S)  # raises what made it fatal, such as a missing right
                raise
            _await(producer, failures)
        except KafkaException as error:
            del self._producer  # what it still holds is not to arrive later
            producer.purge()
            failure = translate(error)
            if isinstance(failure, PermissionDenied):
                # Idempotence is refused, on the cluster, to who may write to no topic at all (KIP-679).
                failure.resource = "topic"
            raise name_right(failure, "Produce", TOPIC.name) from error

    @signals_kept()
    def read(self) -> list[str]:
        """See `Cluster.read_audit`."""
        if not self._exists():
            return []
        consumer = self._connection.client(
            Consumer,
            {
                "group.id": TOPIC.name,  # of no effect: it is not joined, and nothing is committed
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "enable.partition.eof": True,
                "isolation.level": "read_uncommitted",  # or an open transaction would hide all after it
                "fetch.wait.max.ms": 10,
            },
        )
        try:
            return list(_records(consumer))
        except KafkaException as error:
            raise name_right(translate(error), "Fetch", TOPIC.name) from error
        finally:
            consumer.close()

    @cached_property
    def _producer(self) -> Producer:
        return self._connection.client(
            Producer,
            {
                "enable.idempotence": True,
                "acks": "all",
                "compression.type": "gzip",
                "linger.ms": 1,
                "queue.buffering.max.messages": 0,  # no limit: a large apply is written down at once
                "delivery.timeout.ms": int(DELIVERY_TIMEOUT_S * 1000),
            },
        )

    def _exists(self) -> bool:
        answers = describe_topics(self._connection, [TOPIC.name])
        if TOPIC.name in answers.denied:
            raise name_right(answers.denied[TOPIC.name], "Metadata", TOPIC.name)
        return TOPIC.name in answers.found

    def _create(self) -> None:
        brokers = len(self._connection.cluster.nodes)
        wanted = creation(brokers)
        (outcome,) = submit(self._connection, [wanted], unguarded)
        if isinstance(outcome, RequestRejected) and outcome.code in _OF_CONFIGS:
            # Some services set it themselves, and let nobody else (MSK Serverless).
            configs = {name: value for name, value in wanted.configs.items() if name != _MIN_ISR}
            (again,) = submit(self._connection, [replace(wanted, configs=configs)], unguarded)
            outcome = outcome if isinstance(again, RequestRejected) and again.code != _EXISTS else again
        if isinstance(outcome, RequestRejected) and outcome.code == _EXISTS:
            return  # another apply was faster
        if outcome is not None:
            raise outcome


def _await(producer: Producer, failures: Sequence[KafkaError]) -> None:
    """Wait until all is confirmed, in short steps, between which Python sees a signal."""
    deadline = time.monotonic() + DELIVERY_TIMEOUT_S
    while producer.flush(_PAUSE_S) and not failures:
        if time.monotonic() > deadline:
            raise KafkaException(KafkaError(KafkaError._MSG_TIMED_OUT))
    if failures:
        raise KafkaException(failures[0])


def _records(consumer: Consumer) -> Iterator[str]:
    """Every record up to what is the end now; others may be writing on."""
    partition = TopicPartition(TOPIC.name, 0)
    # Asked first: a consumer that has yet to find the leader waits for half a second before it asks again.
    start, end = consumer.get_watermark_offsets(partition, timeout=READ_TIMEOUT_S)
    consumer.assign([TopicPartition(TOPIC.name, 0, start)])
    deadline = time.monotonic() + READ_TIMEOUT_S
    while start < end:
        for message in consumer.consume(_BATCH, _POLL_S):
            error = message.error()
            if error is None:
                yield (message.value() or b"").decode("utf-8", "replace")
                start = (message.offset() or 0) + 1
                deadline = time.monotonic() + READ_TIMEOUT_S
            elif error.code() == KafkaError._PARTITION_EOF:
                return  # of what transactions write, the last is no record
            elif error.code() not in _OF_NO_CONCERN:
                raise KafkaException(error)
        if time.monotonic() > deadline:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
