"""The cluster that most benchmarks look at, and the manifests of its topics.

It lies in memory where there is room (/dev/shm). A broker has one file open and two index files mapped for
each partition that it holds, and a process may have only so many of both (`ulimit -Hn`, `vm.max_map_count`):
as many brokers are started as that takes, with small index files.
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
from kafkaform.core.errors import RequestRejected
from kafkaform.core.model import ResourceRef
from kafkaform.core.operations import AlterConfigs, CreateTopic, batches
from kafkaform.devcluster.cluster import DevCluster
from kafkaform.devcluster.configuration import DATA_DIRECTORY
from tests.support.certificates import self_signed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kafkaform.core.errors import ClusterError
    from kafkaform.core.operations import Operation

PREFIX = "bench."
"""What the names of all topics begin with."""
PARTITIONS = 3
DAY_MS = 86_400_000

IN_MEMORY = Path("/dev/shm")
PROPERTIES = {
    "log.index.size.max.bytes": "4096",
    # A broker that is busy with thousands of new logs is not dead.
    "broker.session.timeout.ms": "60000",
}

USER, PASSWORD = "bench", "bench-password"
MECHANISMS = {"plain": "PLAIN", "scram": "SCRAM-SHA-512"}
"""SASL mechanisms by the names of the clusters in kafkaform.yaml that log in with them."""

_FILES = 1
"""How many files a broker keeps open for a partition."""
_MAPS = 2
"""How many files it keeps mapped for one."""
_SHARE = 0.85
"""How much of what a process may have is for partitions; the rest is for the uneven and the broker itself."""
_RESERVE_MB = 2_048
"""How much memory is left to the rest of the machine."""
_SETTLED_S = 600.0
_PAUSE_S = 0.5


@contextmanager
def brokers(
    partitions: int, properties: Mapping[str, str] | None = None
) -> Iterator[tuple[Path, DevCluster]]:
    """A folder, and a cluster in it that can hold so many partitions; both are gone at the end.

    Its brokers compile as they do in production, and take logins by SASL over TLS on a second listener.
    """
    count, heap_mb = _fitting(partitions)
    with tempfile.TemporaryDirectory(
        prefix="kafkaform-bench-", dir=IN_MEMORY if IN_MEMORY.is_dir() else None
    ) as temporary:
        folder = Path(temporary)
        with DevCluster.start(
            folder / "kafka",
            brokers=count,
            heap_mb=heap_mb,
            full_jit=True,
            sasl_users={USER: PASSWORD},
            properties={**PROPERTIES, **_secured_listener(folder), **(properties or {})},
            format_args=("--add-scram", f"SCRAM-SHA-512=[name={USER},password={PASSWORD}]"),
        ) as kafka:
            yield folder, kafka


def _fitting(partitions: int) -> tuple[int, int]:
    """How many brokers it takes, and how large the heap of each is in MiB; exits where that is too much."""
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    maps = Path("/proc/sys/vm/max_map_count")
    limits = [files / _FILES] if files != resource.RLIM_INFINITY else []
    limits += [int(maps.read_text()) / _MAPS] if maps.exists() else []
    count = math.ceil(partitions / (min(limits, default=math.inf) * _SHARE)) if limits else 1
    # Measured: 50 KB of heap for a partition that a broker holds, and 4 KB for each that it knows of.
    heap_mb = 1_024 + math.ceil(partitions / count * 0.05 + partitions * 0.004)
    needed, available = count * (heap_mb + 256) + _RESERVE_MB, psutil.virtual_memory().available / 2**20
    if needed > available:
        sys.exit(f"bench: that takes {needed:,} MB of memory, and {available:,.0f} MB are free")
    return count, heap_mb


def _secured_listener(folder: Path) -> dict[str, str]:
    """Properties of brokers that take logins by SASL over TLS, with a certificate made for them."""
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
    """A kafkaform.yaml with both listeners of the brokers as clusters, so that plans read the same."""
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


def build(kafka: DevCluster, count: int, partitions: int = PARTITIONS) -> None:
    """Create the topics, and drift every tenth."""
    configs = {"retention.ms": str(DAY_MS)}
    made = 0
    with reached(kafka.bootstrap_servers) as cluster:
        for batch in batches(CreateTopic(ref, partitions, 1, configs) for ref in refs(count)):
            carried_out(cluster, batch)
            made += len(batch)
            # One batch at a time: brokers that lag by several fall further behind the more they are asked.
            await_logs(kafka, made * partitions)
        retain(cluster, refs(count), DAY_MS)  # which changes nothing, and is over when all topics are shown
        drift(cluster, refs(count))


def await_logs(kafka: DevCluster, count: int) -> None:
    """Wait until the brokers hold so many partitions; ends the benchmark where they never do."""
    deadline = time.monotonic() + _SETTLED_S
    while logs(kafka) != count:
        assert time.monotonic() < deadline, "the brokers do not hold all partitions"
        time.sleep(_PAUSE_S)


def drift(cluster: KafkaCluster, topics: Sequence[ResourceRef]) -> None:
    """Change every tenth of the topics by hand, as it were, and wait until that shows."""
    retain(cluster, topics[::10], 2 * DAY_MS)


def retain(cluster: KafkaCluster, topics: Sequence[ResourceRef], retention_ms: int) -> None:
    """Give topics another retention, and wait until that shows in all of them."""
    configs = {"retention.ms": str(retention_ms)}
    carried_out(cluster, [AlterConfigs(ref, configs) for ref in topics])
    # A broker hears of what a controller has done with seconds of delay when it is that much.
    deadline = time.monotonic() + _SETTLED_S
    while not _shows(cluster, topics, str(retention_ms)):
        assert time.monotonic() < deadline, "the brokers do not show all topics"
        time.sleep(_PAUSE_S)


def _shows(cluster: KafkaCluster, topics: Sequence[ResourceRef], retention: str) -> bool:
    seen = cluster.observe(topics).resources
    return len(seen) == len(topics) and all(
        one.state["config.retention.ms"] == retention for one in seen.values()
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
