"""The health of a real cluster, as it is read."""

from __future__ import annotations

import shutil
from collections.abc import Callable

from kafkaform.core.health import Health, Part, ThrottleConfigs
from kafkaform.core.partitions import PartitionState
from kafkaform.devcluster.cluster import DevCluster
from tests.support.clusters.fixtures import Account, connect, eventually
from tests.support.clusters.topics import alter_all_brokers, make_topic


def select_partitions(health: Health, prefix: str) -> list[PartitionState]:
    return [partition for partition in health.partitions if partition.topic.startswith(prefix)]


# --- a real cluster --------------------------------------------------------------------------------


def test_health_of_three_brokers_is_read(kafka3: DevCluster, prefix: str) -> None:
    with connect(kafka3.bootstrap_servers) as cluster:
        make_topic(cluster, f"{prefix}a", 3, 3, min_insync_replicas="2")
        make_topic(cluster, f"{prefix}b", 1, 2)
        health = eventually(cluster.health, lambda read: len(select_partitions(read, prefix)) == 4)

        assert health.cluster_id == kafka3.cluster_id
        assert [(broker.id, broker.rack) for broker in health.brokers] == [
            (number, f"rack-{number}") for number in (1, 2, 3)
        ]
        assert health.quorum is not None
        assert health.quorum.leader in {1, 2, 3}
        assert sorted(voter.id for voter in health.quorum.voters) == [1, 2, 3]
        for voter in health.quorum.voters:
            assert voter.lag is not None
            assert voter.lag < 1_000
            leads = voter.id == health.quorum.leader
            assert voter.silent_ms is None if leads else 0 <= (voter.silent_ms or 0) < 5_000
        assert (dict(health.reassigning or {}), dict(health.unread)) == ({}, {})
        log_dirs = {log_dir.broker: log_dir for log_dir in health.log_dirs}
        assert sorted(log_dirs) == [1, 2, 3]
        for log_dir in log_dirs.values():
            volume = shutil.disk_usage(log_dir.path)
            assert log_dir.total == volume.total
            assert abs(log_dir.usable - volume.free) < volume.total / 10


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
