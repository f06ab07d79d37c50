"""Writing to the audit topic, and reading all of it."""

from __future__ import annotations

import time
from functools import cached_property
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from kafkaform.cluster.audit_layout import AUDIT_TOPIC, make_audit_topic_creation, make_record_key
from kafkaform.cluster.kafka.record_clients import make_client, restore_signals, translate
from kafkaform.cluster.kafka.topic_sources import describe_topics
from kafkaform.cluster.kafka.writer import submit
from kafkaform.cluster.transport.broker_socket import READ_TIMEOUT_S
from kafkaform.cluster.transport.rights import name_right
from kafkaform.cluster.wire.error_codes import ErrorCode
from kafkaform.core.errors import PermissionDenied, RequestRejected
from kafkaform.core.lock import unguarded
from kafkaform.resources.replicas.facts import MIN_ISR

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkaform.cluster.transport.connection import Connection


DELIVERY_TIMEOUT_S = 30.0
"""The time that brokers may take to confirm records."""
_BATCH = 1_000
_PAUSE_S = 0.2
_POLL_S = 0.02  # the wait for a batch to fill
_EXISTS = ErrorCode.TOPIC_ALREADY_EXISTS.name
_CONFIG_REFUSALS = frozenset({ErrorCode.INVALID_CONFIG.name, ErrorCode.POLICY_VIOLATION.name})
_IGNORED = frozenset({KafkaError.GROUP_AUTHORIZATION_FAILED})
"""Consumer errors to ignore: a group id is required, but the group is not used."""


class AuditTopic:
    """The audit topic of a cluster."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def begin(self) -> None:
        """Start to connect the producer, in the background."""
        self._producer  # noqa: B018 - cached: it connects in the background

    @restore_signals()
    def append(self, lines: Sequence[str]) -> None:
        """Append lines, as `Cluster.append_audit` does."""
        producer = self._producer  # first: with a message but no connection yet, it waits half a second
        if not self._exists():
            self._create()
        failures: list[KafkaError] = []

        def collect_failure(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failures.append(error)

        try:
            try:
                for line in lines:
                    producer.produce(
                        AUDIT_TOPIC.name,
                        line.encode(),
                        make_record_key(line).encode(),
                        on_delivery=collect_failure,
                    )
                    producer.poll(0)
            except KafkaException as error:
                if error.args[0].code() == KafkaError._FATAL:
                    producer.poll(_PAUSE_S)  # raises what made it fatal, such as a missing right
                raise
            _wait_for_delivery(producer, failures)
        except KafkaException as error:
            self.close()  # its unsent records must not arrive later
            failure = translate(error)
            if isinstance(failure, PermissionDenied):
                # An account that may write to no topic is refused on the cluster: IdempotentWrite (KIP-679).
                failure.resource = "topic"
            raise name_right(failure, "Produce", AUDIT_TOPIC.name) from error

    @restore_signals()
    def read(self) -> list[str]:
        """Read all lines, as `Cluster.read_audit` does."""
        if not self._exists():
            return []
        consumer = make_client(
            self._connection,
            Consumer,
            {
                # Required by librdkafka, but unused: the consumer neither joins the group nor commits.
                "group.id": AUDIT_TOPIC.name,
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "enable.partition.eof": True,
                # By default, an open transaction of any producer would hide all records after it.
                "isolation.level": "read_uncommitted",
                # At the end of the log, a broker waits this long for further records before it answers (500
                # ms by default): the end is reported that much later.
                "fetch.wait.max.ms": 10,
            },
        )
        try:
            return list(_read_records(consumer))
        except KafkaException as error:
            raise name_right(translate(error), "Fetch", AUDIT_TOPIC.name) from error
        finally:
            consumer.close()

    def close(self) -> None:
        """Close the producer, if there is one, and drop its unsent records."""
        producer: Producer | None = self.__dict__.pop("_producer", None)
        if producer is not None:
            # `close` flushes, and would deliver what this apply has reported as not recorded.
            producer.purge()
            producer.close()

    @cached_property
    def _producer(self) -> Producer:
        return make_client(
            self._connection,
            Producer,
            {
                # Brokers drop a batch that the client sends again after a lost response: no line is recorded
                # twice.
                "enable.idempotence": True,
                "acks": "all",
                "compression.type": "gzip",
                "linger.ms": 1,
                "queue.buffering.max.messages": 0,  # no limit: a large apply is recorded at once
                "delivery.timeout.ms": int(DELIVERY_TIMEOUT_S * 1000),
            },
        )

    def _exists(self) -> bool:
        responses = describe_topics(self._connection, [AUDIT_TOPIC.name])
        if AUDIT_TOPIC.name in responses.denied:
            raise name_right(responses.denied[AUDIT_TOPIC.name], "Metadata", AUDIT_TOPIC.name)
        return AUDIT_TOPIC.name in responses.found

    def _create(self) -> None:
        brokers = len(self._connection.cluster.brokers)
        # Without the lock's guard: creating the topic twice is harmless, and its entries need no proof
        # either.
        (outcome,) = submit(self._connection, [make_audit_topic_creation(brokers)], unguarded)
        if isinstance(outcome, RequestRejected) and outcome.code in _CONFIG_REFUSALS:
            # Some services do not let clients set min.insync.replicas (MSK Serverless).
            (retry,) = submit(
                self._connection, [make_audit_topic_creation(brokers, without={MIN_ISR})], unguarded
            )
            # If the second attempt is refused too, min.insync.replicas was not the cause: report the first
            # refusal.
            outcome = outcome if isinstance(retry, RequestRejected) and retry.code != _EXISTS else retry
        if isinstance(outcome, RequestRejected) and outcome.code == _EXISTS:
            return  # by another apply
        if outcome is not None:
            raise outcome


def _wait_for_delivery(producer: Producer, failures: Sequence[KafkaError]) -> None:
    """Wait until brokers confirm all records, in short steps so that Python handles signals."""
    deadline = time.monotonic() + DELIVERY_TIMEOUT_S
    while producer.flush(_PAUSE_S) and not failures:
        if time.monotonic() > deadline:
            raise KafkaException(KafkaError(KafkaError._MSG_TIMED_OUT))
    if failures:
        raise KafkaException(failures[0])


def _read_records(consumer: Consumer) -> Iterator[str]:
    """Yield every record up to the end as it is now; others may go on writing."""
    # The topic has one partition, so that all applies of a cluster have one order.
    partition = TopicPartition(AUDIT_TOPIC.name, 0)
    # Asked first: a consumer that does not know the leader yet waits half a second before it asks again.
    start, end = consumer.get_watermark_offsets(partition, timeout=READ_TIMEOUT_S)
    consumer.assign([TopicPartition(AUDIT_TOPIC.name, 0, start)])
    deadline = time.monotonic() + READ_TIMEOUT_S
    while start < end:
        for message in consumer.consume(_BATCH, _POLL_S):
            error = message.error()
            if error is None:
                yield (message.value() or b"").decode("utf-8", "replace")
                start = (message.offset() or 0) + 1
                deadline = time.monotonic() + READ_TIMEOUT_S
            elif error.code() == KafkaError._PARTITION_EOF:
                return  # the last offset may be a transaction marker, not a record
            elif error.code() not in _IGNORED:
                raise KafkaException(error)
        if time.monotonic() > deadline:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
