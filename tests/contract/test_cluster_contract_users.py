"""Contract tests of users, run on the one in memory and on a real Kafka."""

from collections.abc import Iterator

import pytest

from kafkaform.cluster.protocol import Cluster
from kafkaform.core.model import ResourceRef
from kafkaform.resources.user.operations import AlterCredentials, RemoveCredentials, SetCredentials
from tests.support.clusters.contract import list_codes, wait_for_state

P256, P512 = "scram.SCRAM-SHA-256", "scram.SCRAM-SHA-512"


@pytest.fixture(autouse=True)
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER_PASSWORD", "s3cr3t")


def credential(iterations: int = 4096, password: str = "unknown") -> str:
    return f"iterations={iterations},password={password}"


def reference(iterations: int = 4096, variable: str = "USER_PASSWORD") -> str:
    return credential(iterations, f"${{env:{variable}}}")


@pytest.fixture(params=["checkout", "=,ü/ x"])
def ref(request: pytest.FixtureRequest, cluster: Cluster, prefix: str) -> Iterator[ResourceRef]:
    mine = ResourceRef("User", f"{prefix}{request.param}")
    yield mine
    left = cluster.observe([mine]).resources.get(mine)
    if left is not None:
        assert cluster.execute([RemoveCredentials(mine, dict.fromkeys(left.state))]) == [None]
        wait_for_state(cluster, mine, None)


def test_credentials_are_set_shown_and_removed(cluster: Cluster, ref: ResourceRef) -> None:
    assert cluster.execute([SetCredentials(ref, {P512: reference(8192), P256: reference()})]) == [None]
    wait_for_state(cluster, ref, {P512: credential(8192), P256: credential()})
    assert ref in cluster.observe((), kinds=["User"]).inventory
    assert cluster.execute([SetCredentials(ref, {P256: reference(16384)})]) == [None]
    wait_for_state(cluster, ref, {P512: credential(8192), P256: credential(16384)})
    assert cluster.execute([RemoveCredentials(ref, {P512: None})]) == [None]
    wait_for_state(cluster, ref, {P256: credential(16384)})
    assert cluster.execute([RemoveCredentials(ref, {P256: None})]) == [None]
    wait_for_state(cluster, ref, None)


def test_invalid_credentials_are_refused_individually(cluster: Cluster, ref: ResourceRef) -> None:
    def other(number: int) -> ResourceRef:
        return ResourceRef("User", f"{ref.name}{number}")

    changes: list[AlterCredentials] = [
        SetCredentials(ref, {P512: reference()}),
        SetCredentials(other(1), {P512: reference(4095)}),
        SetCredentials(other(2), {P512: reference(16385)}),
        SetCredentials(other(3), {P512: reference(variable="NOT_SET")}),
        RemoveCredentials(other(4), {P512: None}),
    ]
    expected = [None, *["UNACCEPTABLE_CREDENTIAL"] * 2, "NO_PASSWORD", "RESOURCE_NOT_FOUND"]
    assert list_codes(cluster.execute(changes)) == expected
    wait_for_state(cluster, ref, {P512: credential()})
    assert cluster.observe([other(number) for number in range(1, 5)]).resources == {}
