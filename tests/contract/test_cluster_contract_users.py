"""What every cluster promises of users: the same tests on the one in memory and on a real Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pytest

from kafkaform.cluster.kafka.cluster import KafkaCluster
from kafkaform.cluster.protocol import Cluster
from kafkaform.core.model import ResourceRef, State
from kafkaform.resources.user.operations import AlterCredentials, RemoveCredentials, SetCredentials
from tests.contract.test_cluster_contract import codes
from tests.support.clusters.fixtures import eventually
from tests.support.memory_cluster.memory import MemoryCluster

P256, P512 = "scram.SCRAM-SHA-256", "scram.SCRAM-SHA-512"


@pytest.fixture(params=["memory", "kafka"])
def cluster(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Either cluster; the one in memory lags, as the real one may at any time."""
    monkeypatch.setenv("USER_PASSWORD", "s3cr3t")
    if request.param == "kafka":
        return cast("KafkaCluster", request.getfixturevalue("real_cluster"))
    memory = MemoryCluster()
    memory.lag(2)
    return memory


def credential(iterations: int = 4096, password: str = "unknown") -> str:
    return f"iterations={iterations},password={password}"


def declared(iterations: int = 4096, variable: str = "USER_PASSWORD") -> str:
    return credential(iterations, f"${{env:{variable}}}")


def shows(cluster: Cluster, ref: ResourceRef, state: State | None) -> None:
    """Wait until a reading, and a reading of fields, has these credentials; None: no user."""
    for read in (lambda: cluster.observe([ref]), lambda: cluster.observe_fields({ref: {}})):
        eventually(
            lambda read=read: read().resources,  # type: ignore[misc]
            lambda found: (found[ref].state if ref in found else None) == state,
        )


@pytest.fixture(params=["checkout", "=,ü/ x"])
def ref(request: pytest.FixtureRequest, cluster: Cluster, prefix: str) -> Iterator[ResourceRef]:
    """A user of this test, which is gone afterwards."""
    mine = ResourceRef("User", f"{prefix}{request.param}")
    yield mine
    left = cluster.observe([mine]).resources.get(mine)
    if left is not None:
        assert cluster.execute([RemoveCredentials(mine, dict.fromkeys(left.state))]) == [None]
        shows(cluster, mine, None)


def test_credentials_are_set_shown_and_removed(cluster: Cluster, ref: ResourceRef) -> None:
    assert cluster.execute([SetCredentials(ref, {P512: declared(8192), P256: declared()})]) == [None]
    shows(cluster, ref, {P512: credential(8192), P256: credential()})
    assert ref in cluster.observe((), kinds=["User"]).inventory
    assert cluster.execute([SetCredentials(ref, {P256: declared(16384)})]) == [None]
    shows(cluster, ref, {P512: credential(8192), P256: credential(16384)})
    assert cluster.execute([RemoveCredentials(ref, {P512: None})]) == [None]
    shows(cluster, ref, {P256: credential(16384)})
    assert cluster.execute([RemoveCredentials(ref, {P256: None})]) == [None]
    shows(cluster, ref, None)


def test_each_objection_is_that_of_its_user(cluster: Cluster, ref: ResourceRef) -> None:
    def other(number: int) -> ResourceRef:
        return ResourceRef("User", f"{ref.name}{number}")

    changes: list[AlterCredentials] = [
        SetCredentials(ref, {P512: declared()}),
        SetCredentials(other(1), {P512: declared(4095)}),
        SetCredentials(other(2), {P512: declared(16385)}),
        SetCredentials(other(3), {P512: declared(variable="NOT_SET")}),
        RemoveCredentials(other(4), {P512: None}),
    ]
    expected = [
        None,
        "UNACCEPTABLE_CREDENTIAL",
        "UNACCEPTABLE_CREDENTIAL",
        "NO_PASSWORD",
        "RESOURCE_NOT_FOUND",
    ]
    assert codes(cluster.execute(changes)) == expected
    shows(cluster, ref, {P512: credential()})
    assert cluster.observe([other(number) for number in range(1, 5)]).resources == {}
