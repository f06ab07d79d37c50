"""What every cluster promises of ACLs: the same tests on the one in memory and on a real Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pytest

from kafkaform.cluster.protocol import Cluster
from kafkaform.core.acl_fields import parse_path
from kafkaform.core.model import ResourceRef, State
from kafkaform.devcluster.cluster import DevCluster
from kafkaform.resources.access.operations import AlterAccess, GrantAccess, RevokeAccess
from tests.support.clusters.fixtures import connect, eventually
from tests.support.memory_cluster.memory import MemoryCluster


@pytest.fixture(params=["memory", "kafka"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Either cluster; the one in memory lags, as the real one may at any time."""
    if request.param == "kafka":
        kafka_acl = cast("DevCluster", request.getfixturevalue("kafka_acl"))
        with connect(kafka_acl.bootstrap_servers) as real:
            yield real
        return
    memory = MemoryCluster()
    memory.lag(2)
    yield memory


def user(prefix: str) -> ResourceRef:
    return ResourceRef("Access", f"User:{prefix}")


def alter(
    sort: type[AlterAccess], ref: ResourceRef, created: tuple[str, ...] = (), deleted: tuple[str, ...] = ()
) -> AlterAccess:
    acls = [tuple(parse_path(path, ref.name) for path in paths) for paths in (created, deleted)]
    return sort(ref, *acls)


def shows(cluster: Cluster, ref: ResourceRef, state: State | None) -> None:
    """Wait until a reading, and a reading of fields, has these ACLs and no others; None: no principal."""
    for read in (lambda: cluster.observe([ref]), lambda: cluster.observe_fields({ref: state or {"x": None}})):
        resources = eventually(
            lambda read=read: read().resources,  # type: ignore[misc]
            lambda found: (found[ref].state if ref in found else None) == state,
        )
        assert (ref in resources) is (state is not None)


def test_acls_are_created_and_deleted_one_by_one(cluster: Cluster, prefix: str) -> None:
    ref, other = user(f"{prefix}a"), user(f"{prefix}b")
    literal, prefixed = f"allow Read on topic {prefix}x", f"allow Read on topic prefix {prefix}x"
    denied = f"deny Write on topic {prefix}x from 10.0.0.1"
    granted = alter(GrantAccess, ref, (literal, prefixed))
    assert cluster.execute([granted, alter(GrantAccess, other, (literal,))]) == [None, None]
    shows(cluster, ref, {literal: "granted", prefixed: "granted"})
    assert cluster.execute([granted]) == [None], "what exists is created without an error"
    assert cluster.execute([alter(RevokeAccess, ref, (denied,), (literal,))]) == [None]
    shows(cluster, ref, {prefixed: "granted", denied: "denied"})
    shows(cluster, other, {literal: "granted"})
    assert cluster.execute([alter(RevokeAccess, ref, deleted=(literal,))]) == [None], (
        "what is gone is no error"
    )
    assert (
        cluster.execute(
            [
                alter(RevokeAccess, ref, deleted=(prefixed,)),
                alter(GrantAccess, ref, deleted=(denied,)),
                alter(RevokeAccess, other, deleted=(literal,)),
            ]
        )
        == [None] * 3
    )
    for gone in (ref, other):
        shows(cluster, gone, None)
        assert gone not in cluster.observe([], kinds=["Access"]).inventory
