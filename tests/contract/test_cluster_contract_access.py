"""Contract tests of ACLs, run on the one in memory and on a real Kafka."""

from collections.abc import Iterator

import pytest

from kafkaform.cluster.protocol import Cluster
from kafkaform.core.acl_fields import parse_path
from kafkaform.core.model import ResourceRef
from kafkaform.devcluster.cluster import DevCluster
from kafkaform.resources.access.operations import AlterAccess, GrantAccess, RevokeAccess
from tests.support.clusters.contract import wait_for_state
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
