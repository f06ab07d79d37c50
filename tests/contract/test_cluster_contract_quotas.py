"""Contract tests of quotas, run on the one in memory and on a real Kafka."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from kafkaform.cluster.protocol import Cluster
from kafkaform.core.model import ResourceRef
from kafkaform.resources.client_quota.operations import AlterQuota
from tests.support.clusters.contract import list_codes, wait_for_resource, wait_for_state


def quota(name: str) -> ResourceRef:
    return ResourceRef("ClientQuota", name)


def alter(name: str, *unset: str, **limits: str) -> AlterQuota:
    return AlterQuota(quota(name), limits, unset)


def wait_for_limits(cluster: Cluster, name: str, limits: Mapping[str, str]) -> None:
    wait_for_state(cluster, quota(name), {f"config.{key}": value for key, value in limits.items()} or None)


@contextmanager
def apply_limits(cluster: Cluster, *alterations: AlterQuota) -> Iterator[None]:
    """Entities with limits, which are gone afterwards: defaults are of every test's clients."""
    assert cluster.execute(alterations) == [None] * len(alterations)
    try:
        yield
    finally:
        back = [AlterQuota(alteration.ref, {}, tuple(alteration.set)) for alteration in alterations]
        assert cluster.execute(back) == [None] * len(back)
        for item in back:
            wait_for_limits(cluster, item.ref.name, {})


NAMES = (
    "user={}",
    "client-id={}",
    "user={},client-id={}",
    "user={},client-id=<default>",
    "user=<default>,client-id={}",
    "user=%3Cdefault%3E{}",
    "user=CN={}%2COU=x%20y%25",
    "user=ü{}",
)
MIB = str(2**20)


def test_limits_of_every_entity_are_set_shown_and_removed(cluster: Cluster, prefix: str) -> None:
    names = [form.format(prefix, prefix) for form in NAMES]
    refs = [*map(quota, names)]
    limits = {"producer_byte_rate": MIB, "request_percentage": "12.5", "controller_mutation_rate": "0.1"}
    with apply_limits(cluster, *(alter(name, **limits) for name in names)):
        for name in names:
            wait_for_limits(cluster, name, limits)
        read = cluster.observe(refs)
        assert read.inventory >= {*refs}
        assert {read.resources[ref].uid for ref in refs} == {None}
        most = "9223372036854775807"
        unset = ("request_percentage", "consumer_byte_rate")
        changes = [alter(name, *unset, producer_byte_rate=most) for name in names]
        assert cluster.execute(changes) == [None] * len(names)
        for name in names:
            wait_for_limits(cluster, name, {"producer_byte_rate": most, "controller_mutation_rate": "0.1"})
        assert cluster.observe((), kinds=["ClientQuota"]).inventory >= {*refs}
        chosen = cluster.observe((), lambda ref: ref in refs, kinds=["ClientQuota"]).resources
        assert chosen.keys() == {*refs}
        narrow = cluster.observe_fields({ref: {"config.producer_byte_rate": MIB} for ref in refs}).resources
        assert {narrow[ref].state["config.producer_byte_rate"] for ref in refs} == {most}
    assert not {*refs} & cluster.observe(refs).inventory


# Other tests' clients are users and clients, too: only limits that stop nobody.
@pytest.mark.parametrize(
    "name", ["user=<default>", "client-id=<default>", "user=<default>,client-id=<default>"]
)
def test_quota_default_differs_from_entity_named_default(cluster: Cluster, name: str) -> None:
    named = name.replace("<default>", "%3Cdefault%3E")
    high = "9000000000000000000"
    with apply_limits(cluster, alter(name, producer_byte_rate=high), alter(named, consumer_byte_rate=high)):
        wait_for_limits(cluster, name, {"producer_byte_rate": high})
        wait_for_limits(cluster, named, {"consumer_byte_rate": high})


def test_ip_quota_accepts_connection_rate_only(cluster: Cluster) -> None:
    names = ("ip=192.0.2.7", "ip=2001:db8::7", "ip=<default>")
    with apply_limits(cluster, *(alter(name, connection_creation_rate="100000") for name in names)):
        for name in names:
            wait_for_limits(cluster, name, {"connection_creation_rate": "100000"})
        wrong = cluster.validate([alter(name, producer_byte_rate=MIB) for name in names])
        assert list_codes(wrong) == ["INVALID_REQUEST"] * 3


def test_quota_defaults_apply_to_missing_limits(cluster: Cluster, prefix: str) -> None:
    user, both = f"user={prefix}", f"user={prefix},client-id={prefix}"
    fallback = f"user={prefix},client-id=<default>"
    with apply_limits(
        cluster,
        alter(both, producer_byte_rate=MIB),
        alter(user, producer_byte_rate="3", consumer_byte_rate="4", request_percentage="5"),
        alter(fallback, producer_byte_rate="6", consumer_byte_rate="7"),
    ):
        wait_for_limits(cluster, fallback, {"producer_byte_rate": "6", "consumer_byte_rate": "7"})
        effective = wait_for_resource(cluster, quota(both), {"config.producer_byte_rate": MIB}).effective
        assert {path: value for path, value in effective.items() if path.startswith("fallback.")} == {
            "fallback.producer_byte_rate": "6",
            "fallback.consumer_byte_rate": "7",
            "fallback.request_percentage": "5",
        }
        assert effective["config.producer_byte_rate"] == MIB


def test_quota_validation_changes_nothing(cluster: Cluster, prefix: str) -> None:
    name, second = f"user={prefix}", f"user={prefix}other"
    assert cluster.validate([alter(name, producer_byte_rate=MIB)]) == [None]
    with apply_limits(cluster, alter(second, producer_byte_rate=MIB)):
        wait_for_limits(cluster, second, {"producer_byte_rate": MIB})
        assert quota(name) not in cluster.observe([quota(name)]).inventory


def test_invalid_quotas_are_refused_individually(cluster: Cluster, prefix: str) -> None:
    asked = [
        alter(f"user={prefix}", producer_byte_rate=MIB),
        alter(f"user={prefix}bad", speed="1"),
        alter(f"client-id={prefix}", connection_creation_rate="1"),
        alter("nobody", producer_byte_rate="1"),
    ]
    expected = [None, *["INVALID_REQUEST"] * 3]
    assert list_codes(cluster.validate(asked)) == expected
    assert list_codes(cluster.execute(asked)) == expected
    with apply_limits(cluster, alter(f"user={prefix}", producer_byte_rate=MIB)):
        wait_for_limits(cluster, f"user={prefix}", {"producer_byte_rate": MIB})
        wait_for_limits(cluster, f"user={prefix}bad", {})
