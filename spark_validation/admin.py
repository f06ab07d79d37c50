"""Asking Kafka through the JVM that Spark runs in, where no other client is at hand."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_validation.errors import ReadingFailed, java_causes
from spark_validation.windows import Span

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

_ANSWER_MS = 30_000
_REFUSED = "org.apache.kafka.common.errors.AuthorizationException"


@dataclass(frozen=True, slots=True)
class Admin:
    """Kafka's Java administration client.

    Attributes:
        jvm: Of the driver; with Kafka's classes on its class path.
        client: The client in it.
    """

    jvm: Any
    client: Any

    def cluster_id(self) -> str | None:
        """The cluster's own id."""
        found: str | None = self.client.describeCluster().clusterId().get()
        return found

    def spans(self, topic: str, *, since_ms: int | None = None) -> list[Span]:
        """The offsets of each partition, with the bytes of its log where the account may see them.

        Args:
            topic: The topic, which is not created by asking.
            since_ms: Only records from then on, in milliseconds since 1970.

        Raises:
            ReadingFailed: A partition has no leader now.
            Py4JJavaError: Kafka refused; see `translation.translated`.
        """
        leaders = self._leaders(topic)
        spec = self.jvm.org.apache.kafka.clients.admin.OffsetSpec
        firsts = self._offsets(topic, leaders, spec.earliest())
        ends = self._offsets(topic, leaders, spec.latest())
        starts = firsts if since_ms is None else self._offsets(topic, leaders, spec.forTimestamp(since_ms))
        sizes = self._sizes(topic, leaders)
        return [
            Span(
                partition,
                # No record is as young as that: none is read.
                min(ends[partition], starts[partition]) if starts[partition] >= 0 else ends[partition],
                ends[partition],
                sizes.get(partition),
            )
            for partition in sorted(leaders)
        ]

    def _leaders(self, topic: str) -> dict[int, int]:
        """The broker that leads each partition."""
        names = self.jvm.java.util.Collections.singletonList(topic)
        described = self.client.describeTopics(names).topicNameValues().get(topic).get()
        leaders = {}
        for partition in described.partitions():
            if partition.leader() is None:
                raise ReadingFailed(
                    f"partition {partition.partition()} of topic {topic} has no leader",
                    hint="wait until its brokers are back",
                )
            leaders[partition.partition()] = partition.leader().id()
        return leaders

    def _offsets(self, topic: str, partitions: Mapping[int, int], spec: Any) -> dict[int, int]:
        """One offset of each partition, as a consumer sees them that reads committed records."""
        kafka = self.jvm.org.apache.kafka
        wanted = self.jvm.java.util.HashMap()
        for partition in partitions:
            wanted.put(kafka.common.TopicPartition(topic, partition), spec)
        committed = kafka.clients.admin.ListOffsetsOptions(kafka.common.IsolationLevel.READ_COMMITTED)
        answers = self.client.listOffsets(wanted, committed).all().get()
        return {entry.getKey().partition(): entry.getValue().offset() for entry in answers.entrySet()}

    def _sizes(self, topic: str, leaders: Mapping[int, int]) -> dict[int, int]:
        """Bytes of each partition's log on its leader; none where the account may not see log directories."""
        from py4j.protocol import Py4JJavaError

        brokers = self.jvm.java.util.ArrayList()
        for broker in sorted({*leaders.values()}):
            brokers.add(broker)
        try:
            answers = self.client.describeLogDirs(brokers).allDescriptions().get()
        except Py4JJavaError as error:
            if any(_REFUSED in cause.names for cause in java_causes(error)):
                return {}
            raise
        sizes: dict[int, int] = {}
        for partition, broker in leaders.items():
            key = self.jvm.org.apache.kafka.common.TopicPartition(topic, partition)
            for directory in answers.get(broker).values():
                replica = directory.replicaInfos().get(key)
                if replica is not None and not replica.isFuture():
                    sizes[partition] = replica.size()
        return sizes


@contextmanager
def admin(spark: SparkSession, kafka: Mapping[str, str]) -> Iterator[Admin]:
    """A client with these properties of Kafka's Java client; it is closed afterwards."""
    jvm: Any = spark._jvm  # noqa: SLF001 - PySpark's documented way to the JVM's own classes
    properties = jvm.java.util.HashMap()
    for name, value in {"default.api.timeout.ms": str(_ANSWER_MS), **kafka}.items():
        properties.put(name, value)
    client = jvm.org.apache.kafka.clients.admin.Admin.create(properties)
    try:
        yield Admin(jvm, client)
    finally:
        client.close(jvm.java.time.Duration.ofSeconds(5))


def java_properties(spark: SparkSession, text: str) -> dict[str, str]:
    """The entries of a Java properties file, read by Java."""
    jvm: Any = spark._jvm  # noqa: SLF001
    properties = jvm.java.util.Properties()
    properties.load(jvm.java.io.StringReader(text))
    return {name: properties.getProperty(name) for name in sorted(properties.stringPropertyNames())}
