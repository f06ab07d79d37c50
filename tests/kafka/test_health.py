"""The health of a real cluster, as it is read."""

from collections.abc import Callable

from kafkaform.core.health import Health, Part, ThrottleConfigs
from kafkaform.core.partitions import PartitionState
from kafkaform.devcluster.cluster import DevCluster
from tests.support.clusters.fixtures import Account, connect, eventually
from tests.support.clusters.topics import alter_all_brokers, make_topic


def select_partitions(health: Health, prefix: str) -> list[PartitionState]:
    return [partition for partition in health.partitions if partition.topic.startswith(prefix)]


def test_throttle_rates_of_all_brokers_are_read(kafka: DevCluster) -> None:
    rate = "leader.replication.throttled.rate"
    with connect(kafka.bootstrap_servers) as cluster:
        assert cluster.throttle_configs([]) == ()
        alter_all_brokers(kafka.bootstrap_servers, rate, "1000000")
        try:
            found = eventually(lambda: cluster.throttle_configs([]), bool)
        finally:
            alter_all_brokers(kafka.bootstrap_servers, rate, None)
        assert found == (ThrottleConfigs("brokers", "", {rate: "1000000"}),)
        eventually(lambda: cluster.throttle_configs([]), lambda left: not left)


def test_health_lists_unauthorized_parts_as_unread(account: Callable[..., Account], prefix: str) -> None:
    owner = account(f"TOPIC:{prefix}*:ALL").cluster
    make_topic(owner, f"{prefix}a", 1, 1)
    make_topic(owner, f"{prefix}b", 1, 1)

    nothing = account().cluster.health()
    assert nothing.partitions == ()
    assert nothing.unread.keys() == {Part.QUORUM, Part.REASSIGNMENTS, Part.PARTITIONS, Part.LOG_DIRS}
    assert all("not authorised" in why for part, why in nothing.unread.items() if part is not Part.PARTITIONS)

    few = account(f"TOPIC:{prefix}*:DESCRIBE", f"TOPIC:{prefix}a:DESCRIBE_CONFIGS").cluster
    health = eventually(few.health, lambda read: len(select_partitions(read, prefix)) == 2)
    assert health.min_insync_replicas == {f"{prefix}a": 1}
    assert health.unread[Part.MIN_ISR].startswith(f"unknown for 1 topic, such as {prefix}b")
    assert Part.PARTITIONS not in health.unread

    all_of_it = account(
        f"TOPIC:{prefix}*:DESCRIBE", f"TOPIC:{prefix}*:DESCRIBE_CONFIGS", "CLUSTER:kafka-cluster:DESCRIBE"
    ).cluster
    complete = eventually(all_of_it.health, lambda read: len(select_partitions(read, prefix)) == 2)
    assert dict(complete.unread) == {}
    assert complete.quorum is not None
