"""The cluster that most benchmarks look at, and the manifests of its topics."""

from __future__ import annotations

import os
import time
from contextlib import closing
from typing import TYPE_CHECKING

from kafkaform.cluster.kafka.cluster import KafkaCluster
from kafkaform.config.client_properties import to_librdkafka, to_transport
from kafkaform.core.errors import RequestRejected
from kafkaform.core.model import ResourceRef
from kafkaform.core.operations import AlterConfigs, CreateTopic, batches
from kafkaform.devcluster.configuration import DATA_DIRECTORY

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from kafkaform.core.errors import ClusterError
    from kafkaform.core.operations import Operation
    from kafkaform.devcluster.cluster import DevCluster

PREFIX = "bench."
"""What the names of all topics begin with."""
PARTITIONS = 3
DAY_MS = 86_400_000

_SETTLED_S = 300.0
_PAUSE_S = 0.5


def reached(address: str) -> closing[KafkaCluster]:
    """The cluster at an address, closed at the end."""
    given = {"bootstrap.servers": address}
    return closing(KafkaCluster(to_librdkafka(given), lambda: to_transport(given)))


def refs(count: int) -> list[ResourceRef]:
    """The names of so many topics."""
    return [ResourceRef("Topic", f"{PREFIX}{number:05d}") for number in range(count)]


def carried_out(cluster: KafkaCluster, operations: Iterable[Operation]) -> None:
    """Change the cluster; a refusal ends the benchmark."""
    for batch in batches(operations):
        errors = [error for error in cluster.execute(batch) if error is not None and not _is_repeated(error)]
        assert not errors, errors[0]


def _is_repeated(error: ClusterError) -> bool:
    """Whether a busy broker passed a request on twice, as the first answer was late: nobody else is here."""
    return isinstance(error, RequestRejected) and error.code == "TOPIC_ALREADY_EXISTS"


def build(address: str, count: int) -> None:
    """Create the topics, and drift every tenth."""
    with reached(address) as cluster:
        carried_out(
            cluster, [CreateTopic(ref, PARTITIONS, 1, {"retention.ms": str(DAY_MS)}) for ref in refs(count)]
        )
        drift(cluster, refs(count))


def drift(cluster: KafkaCluster, topics: Sequence[ResourceRef]) -> None:
    """Change every tenth of the topics by hand, as it were, and wait until that shows in all of them."""
    carried_out(cluster, [AlterConfigs(ref, {"retention.ms": str(2 * DAY_MS)}) for ref in topics[::10]])
    # A broker hears of what a controller has done with seconds of delay when it is that much.
    deadline = time.monotonic() + _SETTLED_S
    while not _settled(cluster, topics):
        assert time.monotonic() < deadline, "the broker does not show all topics"
        time.sleep(_PAUSE_S)


def _settled(cluster: KafkaCluster, topics: Sequence[ResourceRef]) -> bool:
    seen = cluster.observe(topics).resources
    return len(seen) == len(topics) and all(
        seen[ref].state["config.retention.ms"] == str(2 * DAY_MS) for ref in topics[::10]
    )


def logs(kafka: DevCluster) -> int:
    """How many partitions the brokers hold on disk; a controller answers, and a broker shows, long before."""
    folders = [kafka.directory / node.name / DATA_DIRECTORY for node in kafka.nodes]
    return sum(entry.name.startswith(PREFIX) for folder in folders for entry in os.scandir(folder))


def write_manifests(
    folder: Path, count: int, *, partitions: int = PARTITIONS, retention: str = "1d", keyed: bool = True
) -> Path:
    """One file for each topic; returns the folder, made if it is missing.

    Topics whose keys matter are what a manifest means that does not say; more than a few of them are not to
    be given more partitions at once.
    """
    folder.mkdir(exist_ok=True)
    for ref in refs(count):
        (folder / f"{ref.name}.yaml").write_text(
            f"apiVersion: kafkaform/v1\nkind: Topic\nmetadata:\n  name: {ref.name}\n"
            f"spec:\n  partitions: {partitions}\n  replicationFactor: 1\n"
            f"  config:\n    retention.ms: {retention}\n" + ("" if keyed else "  keyed: false\n")
        )
    return folder
