"""The cluster of most benchmarks, and the manifests of its topics.

Its data is in memory if possible (/dev/shm). For each partition, a broker has one open file and two mapped
index files, and the system limits both for each process (`ulimit -Hn`, `vm.max_map_count`). Therefore as many
brokers are started as are needed, with small index files.
"""

from __future__ import annotations

import math
import os
import resource
import sys
import tempfile
import time
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from kafkaform.cluster.kafka.cluster import KafkaCluster
from kafkaform.config.client_properties import to_librdkafka, to_transport
from kafkaform.core.errors import ClusterError, RequestRejected
from kafkaform.core.model import ResourceRef
from kafkaform.core.operations import AlterConfigs, Operation, batches
from kafkaform.devcluster.cluster import ClusterSpec, DevCluster
from kafkaform.devcluster.configuration import DATA_DIRECTORY
from kafkaform.resources.topic.operations import CreateTopic
from tests.support.clusters.certificates import self_signed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

PREFIX = "bench."
"""The prefix of the names of all topics."""
PARTITIONS = 3
DAY_MS = 86_400_000

IN_MEMORY = Path("/dev/shm")
PROPERTIES = {
    "log.index.size.max.bytes": "4096",
    # A broker that creates thousands of logs is late with heartbeats.
    "broker.session.timeout.ms": "60000",
}

USER, PASSWORD = "bench", "bench-password"
MECHANISMS = {"plain": "PLAIN", "scram": "SCRAM-SHA-512"}
"""The SASL mechanisms by the name of their cluster in kafkaform.yaml."""

_FILES = 1
"""The number of files that a broker keeps open for each partition."""
_MAPS = 2
"""The number of files that it keeps mapped for each partition."""
_SHARE = 0.85
"""The share of the limits for partitions; the rest is for the broker itself and an uneven distribution."""
_RESERVE_MB = 2_048
"""The memory that is left to the rest of the machine."""
_SETTLED_S = 600.0
_PAUSE_S = 0.5


@contextmanager
def start_brokers(
    partitions: int, properties: Mapping[str, str] | None = None
) -> Iterator[tuple[Path, DevCluster]]:
    """Start a cluster that can hold so many partitions, in a temporary folder; both are removed at the end.

    Its brokers use the JIT of production, and have a second listener with SASL over TLS.
    """
    count, heap_mb = _plan_brokers(partitions)
    with tempfile.TemporaryDirectory(
        prefix="kafkaform-bench-", dir=IN_MEMORY if IN_MEMORY.is_dir() else None
    ) as temporary:
        folder = Path(temporary)
        with DevCluster.start(
            folder / "kafka",
            ClusterSpec(
                brokers=count,
                heap_mb=heap_mb,
                full_jit=True,
                sasl_users={USER: PASSWORD},
                properties={**PROPERTIES, **_create_secured_listener(folder), **(properties or {})},
                format_args=("--add-scram", f"SCRAM-SHA-512=[name={USER},password={PASSWORD}]"),
            ),
        ) as kafka:
            yield folder, kafka


def _plan_brokers(partitions: int) -> tuple[int, int]:
    """Return the number of brokers and the heap of each in MiB; exits if there is too little memory."""
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    maps = Path("/proc/sys/vm/max_map_count")
    limits = [files / _FILES] if files != resource.RLIM_INFINITY else []
    limits += [int(maps.read_text()) / _MAPS] if maps.exists() else []
    count = math.ceil(partitions / (min(limits, default=math.inf) * _SHARE)) if limits else 1
    # Measured: 50 KB of heap for each partition of the broker, and 4 KB for each partition of the cluster.
    heap_mb = 1_024 + math.ceil(partitions / count * 0.05 + partitions * 0.004)
    needed, available = count * (heap_mb + 256) + _RESERVE_MB, psutil.virtual_memory().available / 2**20
    if needed > available:
        sys.exit(f"bench: {needed:,} MB of memory are needed, and {available:,.0f} MB are free")
    return count, heap_mb


def _create_secured_listener(folder: Path) -> dict[str, str]:
    """Create a certificate, and return the properties of brokers with a listener for SASL over TLS."""
    self_signed(folder)
    store = folder / "store.pem"
    store.write_text((folder / "key.pem").read_text() + (folder / "certificate.pem").read_text())
    return {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_SSL",
        "listener.name.sasl.ssl.keystore.type": "PEM",
        "listener.name.sasl.ssl.keystore.location": str(store),
        "allow.everyone.if.no.acl.found": "true",
    }


def write_config(folder: Path, kafka: DevCluster) -> Path:
    """Write a kafkaform.yaml with each listener of the brokers as a cluster; return its path."""
    path = folder / "kafkaform.yaml"
    path.write_text(
        "apiVersion: kafkaform/v1\nkind: Config\nclusters:\n"
        f"  plaintext:\n    client: {{bootstrap.servers: '{kafka.bootstrap_servers}'}}\n"
        + "".join(
            f"  {name}:\n    client:\n"
            f"      bootstrap.servers: {kafka.sasl_bootstrap_servers}\n"
            f"      security.protocol: SASL_SSL\n      sasl.mechanism: {mechanism}\n"
            f"      sasl.username: {USER}\n      sasl.password: {PASSWORD}\n"
            f"      ssl.ca.location: {folder / 'certificate.pem'}\n"
            for name, mechanism in MECHANISMS.items()
        )
    )
    return path


def connect(address: str) -> closing[KafkaCluster]:
    """Connect to the cluster at an address; a context manager that closes the connections."""
    given = {"bootstrap.servers": address}
    return closing(KafkaCluster(to_librdkafka(given), lambda: to_transport(given)))


def list_refs(count: int) -> list[ResourceRef]:
    """List the references of so many topics."""
    return [ResourceRef("Topic", f"{PREFIX}{number:05d}") for number in range(count)]


def execute(cluster: KafkaCluster, operations: Iterable[Operation]) -> None:
    """Execute operations on the cluster; a rejection ends the benchmark."""
    for batch in batches(operations):
        errors = [error for error in cluster.execute(batch) if error is not None and not _is_repeated(error)]
        assert not errors, errors[0]


def _is_repeated(error: ClusterError) -> bool:
    """Return whether a busy broker forwarded a request twice, as the first response was late."""
    return isinstance(error, RequestRejected) and error.code == "TOPIC_ALREADY_EXISTS"


def create_topics(kafka: DevCluster, count: int, partitions: int = PARTITIONS) -> None:
    """Create the topics, and let every tenth drift."""
    configs = {"retention.ms": str(DAY_MS)}
    made = 0
    with connect(kafka.bootstrap_servers) as cluster:
        for batch in batches(CreateTopic(ref, partitions, 1, configs) for ref in list_refs(count)):
            execute(cluster, batch)
            made += len(batch)
            # One batch at a time: brokers that lag behind by several become even slower.
            await_logs(kafka, made * partitions)
        set_retention(
            cluster, list_refs(count), DAY_MS
        )  # changes nothing, but waits until all topics are reported
        cause_drift(cluster, list_refs(count))


def await_logs(kafka: DevCluster, count: int) -> None:
    """Wait until the brokers have so many partitions; a timeout ends the benchmark."""
    deadline = time.monotonic() + _SETTLED_S
    while count_logs(kafka) != count:
        assert time.monotonic() < deadline, "the brokers do not have all partitions"
        time.sleep(_PAUSE_S)


def cause_drift(cluster: KafkaCluster, topics: Sequence[ResourceRef]) -> None:
    """Change every tenth topic without kafkaform, and wait until the brokers report it."""
    set_retention(cluster, topics[::10], 2 * DAY_MS)


def set_retention(cluster: KafkaCluster, topics: Sequence[ResourceRef], retention_ms: int) -> None:
    """Set the retention of topics, and wait until the brokers report it for all of them."""
    configs = {"retention.ms": str(retention_ms)}
    execute(cluster, [AlterConfigs(ref, configs) for ref in topics])
    # With so many changes, a broker learns of them seconds after the controller made them.
    deadline = time.monotonic() + _SETTLED_S
    while not _shows(cluster, topics, str(retention_ms)):
        assert time.monotonic() < deadline, "the brokers do not report all topics"
        time.sleep(_PAUSE_S)


def _shows(cluster: KafkaCluster, topics: Sequence[ResourceRef], retention: str) -> bool:
    observed = cluster.observe(topics).resources
    return len(observed) == len(topics) and all(
        topic.state["config.retention.ms"] == retention for topic in observed.values()
    )


def count_logs(kafka: DevCluster) -> int:
    """Count the partitions on the brokers' disks, which lag behind the responses of the brokers."""
    folders = [kafka.directory / node.name / DATA_DIRECTORY for node in kafka.nodes]
    return sum(entry.name.startswith(PREFIX) for folder in folders for entry in os.scandir(folder))


def write_manifests(
    folder: Path, count: int, *, partitions: int = PARTITIONS, retention: str = "1d", keyed: bool = True
) -> Path:
    """Write one file for each topic into a folder, which is created if missing; return the folder.

    Topics are keyed by default, and a plan refuses to increase the partitions of many keyed ones at once.
    """
    folder.mkdir(exist_ok=True)
    for ref in list_refs(count):
        (folder / f"{ref.name}.yaml").write_text(
            f"apiVersion: kafkaform/v1\nkind: Topic\nmetadata:\n  name: {ref.name}\n"
            f"spec:\n  partitions: {partitions}\n  replicationFactor: 1\n"
            f"  config:\n    retention.ms: {retention}\n" + ("" if keyed else "  keyed: false\n")
        )
    return folder
