"""Reading ahead gives what reading gives, once; what goes wrong is told where it is asked for."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING

import pytest

from kafkaform.errors import Unreachable
from kafkaform.model import ResourceRef
from kafkaform.operations import CreateTopic, DeleteTopic
from tests.cli_helpers import called
from tests.kafka_fixtures import connect, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafkaform.cluster.kafka import KafkaCluster
    from kafkaform.devcluster.cluster import DevCluster


@pytest.fixture
def deaf() -> Iterator[str]:
    """The address of a server that never answers."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_it_reads_what_is_read_without(kafka: DevCluster, real_cluster: KafkaCluster, prefix: str) -> None:
    ref = ResourceRef("Topic", f"{prefix}a")
    assert real_cluster.execute([CreateTopic(ref, 2, 1, {"retention.ms": "1"})]) == [None]
    read = eventually(lambda: real_cluster.observe([ref]), lambda seen: ref in seen.resources)
    with connect(kafka.bootstrap_servers) as cluster:
        cluster.begin()
        assert cluster.facts() == real_cluster.facts()
        assert cluster.observe([ref]).resources == read.resources


def test_only_the_next_reading_is_of_before(kafka: DevCluster, prefix: str) -> None:
    ref = ResourceRef("Topic", f"{prefix}a")
    with connect(kafka.bootstrap_servers) as cluster:
        cluster.begin()
        cluster.facts()
        assert ref not in cluster.observe([ref]).inventory
        assert cluster.execute([CreateTopic(ref, 1, 1, {})]) == [None]
        seen = eventually(lambda: cluster.observe([ref]), lambda seen: ref in seen.inventory)
        uid = seen.resources[ref].uid
        assert cluster.execute([DeleteTopic(ref, uid)]) == [None]
        eventually(lambda: cluster.observe([ref]), lambda seen: ref not in seen.inventory)


def test_nobody_there_is_told_where_it_is_asked(deaf: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkaform.cluster.connection.CONNECT_TIMEOUT_S", 0.5)
    with connect(deaf) as cluster:
        cluster.begin()
        for _ in range(2):
            with pytest.raises(Unreachable, match="no broker of"):
                cluster.facts()
        with pytest.raises(Unreachable, match="no broker of"):
            cluster.observe([])


def test_wrong_manifests_are_told_before_a_cluster_that_does_not_answer(
    deaf: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkaform.cluster.connection.CONNECT_TIMEOUT_S", 60.0)
    (tmp_path / "a.yaml").write_text("kind: Topik\n")
    begin = time.monotonic()
    done = called("plan", tmp_path, "--bootstrap-server", deaf, cwd=tmp_path).needs(1)
    assert "did you mean 'Topic'?" in done.err
    assert "no broker" not in done.err
    assert time.monotonic() - begin < 30  # nobody waits for the cluster
