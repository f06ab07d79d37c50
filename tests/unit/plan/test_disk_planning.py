"""Moves onto disks that cannot hold them: refused in plans, rebalances, and saved plans that are applied."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Mapping

import pytest

from kafkaform.config.client_properties import ClientProperties
from kafkaform.config.settings import ClusterSettings
from kafkaform.core.errors import PermissionDenied
from kafkaform.core.health import LogDir
from kafkaform.core.model import Risk, Status
from kafkaform.core.partitions import Broker, LogSpan, Replicas, TopicPartition
from kafkaform.core.plans import Plan
from kafkaform.plan.rebalancing import RebalanceRequest, make_rebalance
from kafkaform.resources.replicas.moves import MoveOptions
from kafkaform.resources.values import fields_of
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.moves import fail, laid_out, override
from tests.support.plans.scenes import Watched, declare_topic, judge_saved, list_statuses, plan_for, topic

MIB = 1024**2


@pytest.fixture
def memory() -> MemoryCluster:
    """Three brokers, of which the third has a volume of 160 MiB."""
    cluster = MemoryCluster(brokers=[Broker(number, f"rack-{number}") for number in (1, 2, 3)])
    cluster.pace(1000)
    volume(cluster)
    return cluster


def volume(cluster: MemoryCluster, usable: int = 160) -> None:
    cluster.set_log_dirs(3, LogDir(3, "/data", 160 * MIB, usable * MIB))


def holding(cluster: MemoryCluster, name: str, size: int, *partitions: Replicas, **configs: str) -> None:
    laid_out(cluster, name, partitions or ((1,),), **configs)
    cluster.fill(topic(name), size * MIB)


def reason_of(plan: Plan, name: str = "a") -> str:
    (planned,) = (planned for planned in plan.changes if planned.ref.name == name)
    return str(planned.reason)


def move_of(plan: Plan, name: str = "a") -> str:
    (planned,) = (planned for planned in plan.changes if planned.ref.name == name)
    return {field.path: field.assessment.reason for field in fields_of(planned.change)}["placement"]


def test_replicas_larger_than_disk_are_refused(memory: MemoryCluster) -> None:
    holding(memory, "a", 212)
    (planned,) = plan_for(memory, declare_topic("a", 1, 3)).changes
    assert planned.status is Status.REFUSED
    assert "broker 3 cannot hold its largest replica: 212.0 MiB" in str(planned.reason)
    assert "limits.diskReserve" in str(planned.remedy)
    assert {field.assessment.risk for field in fields_of(planned.change)} >= {Risk.IMPOSSIBLE}


def test_foreign_moves_take_disk_space(memory: MemoryCluster) -> None:
    holding(memory, "a", 80)
    holding(memory, "foreign", 100)
    assert list_statuses(plan_for(memory, declare_topic("a", 1, 3))) == {"a": Status.PLANNED}
    memory.reassign({("foreign", 0): (1, 3)})
    reason = reason_of(plan_for(memory, declare_topic("a", 1, 3)))
    assert re.search(r"80\.0 MiB to copy, .* MiB of other moves", reason)


def test_rebalance_without_disk_space_is_refused(memory: MemoryCluster) -> None:
    holding(memory, "a", 212, (1, 2))
    made = make_rebalance(RebalanceRequest(remove=frozenset({1})), memory, None)
    assert list_statuses(made.plan) == {"a": Status.REFUSED}
    assert (made.not_emptied, made.before, made.moves.replicas) == ((1,), made.after, 0)


def test_saved_plan_is_judged_by_current_disks(memory: MemoryCluster) -> None:
    holding(memory, "a", 100)
    plan = plan_for(memory, declare_topic("a", 1, 3))
    for now in (plan, judge_saved(plan, memory).plan):
        assert list_statuses(now) == {"a": Status.PLANNED}
    volume(memory, usable=110)
    now = judge_saved(plan, memory).plan
    assert list_statuses(now) == {"a": Status.REFUSED}
    assert "110.0 MiB usable" in reason_of(now)


def test_unknown_disk_space_is_noted(memory: MemoryCluster) -> None:
    holding(memory, "a", 212)
    silent = override(memory, log_dirs=fail(PermissionDenied("this account may not")))
    plan = plan_for(silent, declare_topic("a", 1, 3))
    assert list_statuses(plan) == {"a": Status.PLANNED}
    assert "whether brokers have enough disk space: this account may not" in move_of(plan)
    memory.set_log_dirs(3)
    unreported = move_of(plan_for(memory, declare_topic("a", 1, 3)))
    assert "whether broker 3 has enough disk space: brokers report it since Kafka 3.3" in unreported
    assert "disk space" not in move_of(plan_for(memory, declare_topic("a", 1, 2)))


class Written(Watched):
    """Reports that half of the records of a topic are of the last minutes."""

    def log_spans(
        self, partitions: Collection[TopicPartition], at_ms: int | None = None, *, committed: bool = False
    ) -> Mapping[TopicPartition, LogSpan]:
        assert at_ms is not None
        assert not committed
        assert abs(time.time() * 1000 - at_ms - 600_000) < 300_000
        return {key: LogSpan(0, 100, 50 if key[0] == "busy" else 100) for key in partitions}


SLOW = ClusterSettings("dev", ClientProperties(), moves=MoveOptions(throttle=MIB // 10))
"""At which 60 MiB take as long as half of what `Written` reports: ten minutes."""
SEGMENTS = {"segment_bytes": str(MIB)}


def test_records_written_during_copy_count(memory: MemoryCluster) -> None:
    holding(memory, "a", 60)
    holding(memory, "busy", 160, (3,), retention_ms="-1", retention_bytes="-1")
    assert list_statuses(plan_for(memory, declare_topic("a", 1, 3), target=SLOW)) == {"a": Status.PLANNED}
    plan = plan_for(Written(memory), declare_topic("a", 1, 3), target=SLOW)
    # Twice 60 MiB leave broker 1, at 0.1 MiB a second; meanwhile broker 3 gets twice 80 MiB.
    assert "60.0 MiB to copy, about 160.0 MiB written meanwhile" in reason_of(plan)


@pytest.mark.parametrize(
    ("configs", "status"),
    [
        ({"retention_ms": "-1", "retention_bytes": str(160 * MIB), **SEGMENTS}, Status.PLANNED),
        ({"retention_ms": "600000", "retention_bytes": "-1", **SEGMENTS}, Status.PLANNED),
        ({"retention_ms": "-1", "retention_bytes": str(320 * MIB)}, Status.REFUSED),
        ({"retention_ms": "6000000", "retention_bytes": "-1"}, Status.REFUSED),
        ({"retention_ms": "600000", "cleanup_policy": "compact"}, Status.REFUSED),
    ],
)
def test_bounded_retention_adds_no_disk_usage(
    memory: MemoryCluster, configs: dict[str, str], status: Status
) -> None:
    holding(memory, "a", 60)
    holding(memory, "busy", 160, (3,), **configs)
    assert list_statuses(plan_for(Written(memory), declare_topic("a", 1, 3), target=SLOW)) == {"a": status}
