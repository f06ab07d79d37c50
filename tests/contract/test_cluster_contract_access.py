"""Contract tests of ACLs, users and quotas, run on the one in memory and on a real Kafka."""

from collections.abc import Iterator

import pytest

from kafkaform.cluster.protocol import Cluster
from kafkaform.core.acl_fields import parse_path
from kafkaform.core.model import ResourceRef
from kafkaform.devcluster.cluster import DevCluster
from kafkaform.resources.access.operations import AlterAccess, GrantAccess, RevokeAccess
from kafkaform.resources.user.operations import AlterCredentials, RemoveCredentials, SetCredentials
from tests.support.clusters.contract import list_codes, wait_for_state
from tests.support.clusters.fixtures import connect


@pytest.fixture
def real_cluster(kafka_acl: DevCluster) -> Iterator[Cluster]:
    """A cluster with an authorizer."""
    with connect(kafka_acl.bootstrap_servers) as real:
        yield real


def access_ref(prefix: str) -> ResourceRef:
    return ResourceRef("Access", f"User:{prefix}")


def alter(
    sort: type[AlterAccess], ref: ResourceRef, created: tuple[str, ...] = (), deleted: tuple[str, ...] = ()
) -> AlterAccess:
    acls = [tuple(parse_path(path, ref.name) for path in paths) for paths in (created, deleted)]
    return sort(ref, *acls)


def test_acls_are_created_and_deleted_individually(cluster: Cluster, prefix: str) -> None:
    ref, second = access_ref(f"{prefix}a"), access_ref(f"{prefix}b")
    literal, prefixed = f"allow Read on topic {prefix}x", f"allow Read on topic prefix {prefix}x"
    denied = f"deny Write on topic {prefix}x from 10.0.0.1"
    granted = alter(GrantAccess, ref, (literal, prefixed))
    assert cluster.execute([granted, alter(GrantAccess, second, (literal,))]) == [None, None]
    wait_for_state(cluster, ref, {literal: "granted", prefixed: "granted"})
    assert cluster.execute([granted]) == [None], "what exists is created without an error"
    assert cluster.execute([alter(RevokeAccess, ref, (denied,), (literal,))]) == [None]
    wait_for_state(cluster, ref, {prefixed: "granted", denied: "denied"})
    wait_for_state(cluster, second, {literal: "granted"})
    gone_already = alter(RevokeAccess, ref, deleted=(literal,))
    assert cluster.execute([gone_already]) == [None], "what is gone is no error"
    remaining = [
        alter(RevokeAccess, ref, deleted=(prefixed,)),
        alter(GrantAccess, ref, deleted=(denied,)),
        alter(RevokeAccess, second, deleted=(literal,)),
    ]
    assert cluster.execute(remaining) == [None] * 3
    for gone in (ref, second):
        wait_for_state(cluster, gone, None)
        assert gone not in cluster.observe([], kinds=["Access"]).inventory


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
