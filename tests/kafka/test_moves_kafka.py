"""Moving replicas on three real brokers in three racks."""

from collections.abc import Iterator

import pytest

from kafkaform.apply.moves.throttle_journal import ThrottleJournal, open_throttle_journal
from kafkaform.cluster.kafka.cluster import KafkaCluster
from kafkaform.config.settings import AuditSettings
from kafkaform.core.errors import RequestRejected
from kafkaform.core.progress import Clock
from kafkaform.devcluster.cluster import DevCluster
from kafkaform.resources.replicas.layout import Assignment
from kafkaform.resources.replicas.moves import (
    MAX_THROTTLE_LIST_BYTES,
    MoveOptions,
    ThrottledReplicas,
    Throttles,
)
from tests.support.clusters.fixtures import connect, eventually
from tests.support.clusters.load_clients import fill, load
from tests.support.clusters.topics import place_topic
from tests.support.plans.moves import MB, Crew, now_on, work
from tests.support.plans.scenes import topic

SINGLE: Assignment = ((1,), (2,), (3,))
TRIPLE: Assignment = ((1, 2, 3), (2, 3, 1), (3, 1, 2))
SIZE = 4 * MB
"""What each partition holds."""


@pytest.fixture
def real(kafka3: DevCluster) -> Iterator[KafkaCluster]:
    with connect(kafka3.bootstrap_servers) as cluster:
        yield cluster
        check_throttles_off(cluster)


def crew_of(
    cluster: KafkaCluster, throttle_journal: ThrottleJournal | None = None, **options: object
) -> Crew:
    given = MoveOptions(**{"throttle": None, **options})  # type: ignore[arg-type]
    crew = Crew(cluster, given, clock=Clock())
    if throttle_journal is not None:
        crew.throttle_journal = throttle_journal
    return crew


def throttle_journal_of(cluster: KafkaCluster, run: str) -> ThrottleJournal:
    return open_throttle_journal(cluster, AuditSettings(), run, cluster.facts().cluster_id)


def bytes_on(cluster: KafkaCluster, name: str) -> dict[tuple[int, int], int]:
    sizes = cluster.replica_sizes([(name, number) for number in range(len(SINGLE))])
    return {(partition, broker): size for (_, partition, broker), size in sizes.items()}


def await_placement(cluster: KafkaCluster, name: str, wanted: Assignment) -> None:
    eventually(lambda: now_on(cluster, name), lambda found: found == wanted)


def check_throttles_off(cluster: KafkaCluster) -> None:
    """Fail unless all throttles are off."""
    eventually(lambda: cluster.throttles([*cluster.layout().topics]), lambda left: not left)


def test_replica_moves_lose_no_records(real: KafkaCluster, kafka3: DevCluster, prefix: str) -> None:
    name = f"{prefix}a"
    place_topic(real, name, SINGLE)
    fill(kafka3.bootstrap_servers, name, len(SINGLE), SIZE)
    with load(kafka3.bootstrap_servers, name, len(SINGLE)) as producing:
        producing.moves_on()
        crew = crew_of(real, throttle_journal_of(real, "aaa"), throttle=50 * MB, batch_partitions=2)
        report = crew.move(work(name, SINGLE, TRIPLE))
        assert report.outcomes == {topic(name): None}, crew.notes.lines
        await_placement(real, name, TRIPLE)
        eventually(
            lambda: [{*state.isr} for state in real.layout().topics[name]],
            lambda in_sync: in_sync == [{1, 2, 3}] * 3,
        )
        sizes = bytes_on(real, name)
        assert len(sizes) == 9
        assert min(sizes.values()) >= SIZE
        last = crew.notes.progress[-1]
        assert (last.batches, last.partitions_done, last.bytes_done) == (2, 3, last.bytes_total)
        assert last.bytes_total >= 6 * SIZE
        check_throttles_off(real)
        producing.moves_on()
        report = crew_of(real).move(work(name, TRIPLE, ((2, 1), (3, 2), (1, 3))))
        assert report.outcomes == {topic(name): None}
        states = eventually(
            lambda: real.layout().topics[name], lambda found: [state.leader for state in found] == [2, 3, 1]
        )
        assert [state.replicas for state in states] == [(2, 1), (3, 2), (1, 3)]
        producing.moves_on()
    producing.prove()


def test_longest_list_of_throttled_replicas_fits(real: KafkaCluster) -> None:
    name = "moves-long-list"
    place_topic(real, name, SINGLE)
    entries = [f"{number:05d}:10001" for number in range(MAX_THROTTLE_LIST_BYTES // 12 + 1)]
    fitting = ThrottledReplicas(frozenset(entries[:-1]))
    real.set_throttles(Throttles({}, {name: fitting}))
    assert real.throttles([name]).replicas == {name: fitting}
    replicas = ThrottledReplicas(frozenset(entries[-1:]))
    with pytest.raises(RequestRejected, match="32767 bytes"):
        real.set_throttles(Throttles({}, {name: replicas}))
    real.clear_throttles(Throttles({}, {name: fitting}))
