"""Tests of health reports: their requests, their words where reading failed, and their waits."""

from typing import Any

import pytest

from kafkaform.config.client_properties import ClientProperties
from kafkaform.config.settings import ClusterSettings, Settings
from kafkaform.core.errors import ClusterError, KafkaformError, PermissionDenied, Unreachable
from kafkaform.core.health import Health, Part, Quorum
from kafkaform.core.model import Desired, Diagnostic, Intent, ResourceRef, Severity
from kafkaform.core.values import replace
from kafkaform.inspect.health_check import (
    Examination,
    HealthReport,
    HealthVerdict,
    UncheckedRule,
    await_health,
    critical_findings,
)
from kafkaform.resources.replicas.moves import Rates, ThrottledReplicas, Throttles
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.moves import fail, override
from tests.support.plans.scenes import FakeClock, Watched, create_topic, declare_topic

WARNING = Diagnostic("KF306", Severity.WARNING, "w")
NOTE = Diagnostic("KF309", Severity.INFO, "i")
SICK = Diagnostic("KF303", Severity.ERROR, "e")


@pytest.fixture
def memory(memory: MemoryCluster) -> MemoryCluster:
    create_topic(memory, "orders", 3, 3, min_insync_replicas="2")
    return memory


def ailing(cluster: MemoryCluster, **changes: Any) -> Watched:
    """A cluster that says something else of its health."""
    return override(cluster, health=lambda: replace(cluster.health(), **changes))


def target(brokers: int | None = None, cluster_id: str | None = None) -> ClusterSettings:
    return ClusterSettings("c", ClientProperties(), cluster_id=cluster_id, brokers=brokers)


def group(name: str, **spec: object) -> Desired:
    return Desired(ResourceRef("ConsumerGroup", name), {}, Intent(spec=spec))


def codes(report: HealthReport) -> list[str]:
    return [finding.code for finding in report.findings]


@pytest.mark.parametrize(
    ("findings", "matters", "fail_on", "verdict"),
    [
        ((NOTE,), None, Severity.WARNING, HealthVerdict.HEALTHY),
        ((NOTE,), None, Severity.INFO, HealthVerdict.UNHEALTHY),
        ((WARNING,), None, Severity.WARNING, HealthVerdict.UNHEALTHY),
        ((WARNING,), None, Severity.ERROR, HealthVerdict.HEALTHY),
        ((replace(SICK, waived="meant"),), None, Severity.INFO, HealthVerdict.HEALTHY),
        ((), True, Severity.WARNING, HealthVerdict.UNKNOWN),
        ((SICK,), True, Severity.WARNING, HealthVerdict.UNHEALTHY),
    ],
)
def test_health_verdict_follows_worst_finding(
    findings: tuple[Diagnostic, ...], matters: bool | None, fail_on: Severity, verdict: HealthVerdict
) -> None:
    untold = () if matters is None else (UncheckedRule("KF301", "x", matters),)
    assert HealthReport(Health(1, ()), findings, untold, fail_on=fail_on).verdict is verdict


def test_only_selected_rules_run_and_read(memory: MemoryCluster) -> None:
    memory.stop_broker(3)
    watched = Watched(memory)
    chosen = Examination((declare_topic("orders", 6, 3),), target=target(3), only=frozenset({"KF303"}))
    assert codes(chosen.examine(watched)) == ["KF303"]
    assert watched.readings == []
    assert codes(replace(chosen, only=frozenset({"KF306"})).examine(watched)) == ["KF306"]
    assert len(watched.readings) == 1


def test_configured_severities_apply_except_off_for_selected_rule(memory: MemoryCluster) -> None:
    memory.stop_broker(3)
    settings = Settings(rules={"KF302": "off", "KF303": "info"})
    examination = Examination(settings=settings, target=target(3))
    report = examination.examine(memory)
    assert [(f.code, f.severity) for f in report.findings] == [("KF303", Severity.INFO)]
    assert report.verdict is HealthVerdict.HEALTHY
    assert codes(replace(examination, only=frozenset({"KF302"})).examine(memory)) == ["KF302"]


def test_cluster_with_other_id_is_refused(memory: MemoryCluster) -> None:
    with pytest.raises(KafkaformError, match="has the id memory, but other is configured"):
        Examination(target=target(cluster_id="other")).examine(memory)


@pytest.mark.parametrize(
    ("part", "told"),
    [
        (Part.QUORUM, {"KF301": True}),
        (Part.MIN_ISR, {"KF305": True}),
        (Part.REASSIGNMENTS, {"KF309": False, "KF313": False}),
        (Part.LOG_DIRS, {"KF310": True}),
        (Part.TRANSACTIONS, {"KF311": True}),
        (Part.THROTTLES, {"KF313": False}),
        (Part.PARTITIONS, {"KF303": True, "KF304": True, "KF305": True, "KF308": False}),
        (Part.LOG_DIRS, {"KF310": False}),
    ],
)
def test_unreadable_part_is_unchecked_rule(memory: MemoryCluster, part: Part, told: dict[str, bool]) -> None:
    """A part that the cluster does not offer at all matters to nobody."""
    offered = told != {"KF310": False}
    cluster = ailing(memory, unread={part: "denied"}, not_offered=frozenset([] if offered else [part]))
    report = Examination().examine(cluster)
    assert {untold.code: untold.matters for untold in report.unchecked} == told
    assert {untold.what for untold in report.unchecked} == {f"{part}: denied"}
    assert report.verdict is (HealthVerdict.UNKNOWN if any(told.values()) else HealthVerdict.HEALTHY)
    # Whoever has not asked for the rule need not know.
    second = Examination(only=frozenset({"KF302"})).examine(cluster)
    assert (second.unchecked, second.verdict) == ((), HealthVerdict.HEALTHY)


def test_invisible_declared_resources_are_unchecked(memory: MemoryCluster) -> None:
    wanted = (declare_topic("hidden"), group("g", members={"expected": 2}))
    for item in wanted:
        memory.hide(item.ref)
    report = Examination(wanted).examine(memory)
    assert report.findings == ()
    assert [untold.code for untold in report.unchecked] == ["KF306", "KF307", "KF315"]
    assert report.verdict is HealthVerdict.UNKNOWN


def test_hanging_transaction_is_found(memory: MemoryCluster) -> None:
    with memory.transaction("orders", 1, age_ms=1_000):
        memory.write("orders", 1)
        assert codes(Examination().examine(memory)) == []
    with memory.transaction("orders", 1, age_ms=3_600_000):
        memory.write("orders", 1)
        report = Examination().examine(memory)
        assert (codes(report), report.verdict) == (["KF311"], HealthVerdict.UNHEALTHY)
        # Whoever has not asked for the rule does not wait for it, nor does an apply.
        cluster = override(memory, open_transactions=fail(Unreachable("asked")))
        assert Examination(only=frozenset({"KF303"})).examine(cluster).verdict is HealthVerdict.HEALTHY
        assert critical_findings(cluster, Settings(), None) == []
    assert codes(Examination().examine(memory)) == []


@pytest.mark.parametrize(
    ("method", "name", "untold"),
    [("open_transactions", "open transactions", ["KF311"]), ("groups", "groups", ["KF307", "KF315"])],
)
def test_unreadable_transactions_or_groups_are_unchecked(
    memory: MemoryCluster, method: str, name: str, untold: list[str]
) -> None:
    wanted = (group("g", members={"expected": 2}),)
    cluster = override(memory, **{method: fail(PermissionDenied("denied"))})
    report = Examination(wanted if method == "groups" else ()).examine(cluster)
    assert report.findings == ()
    assert report.unchecked == tuple(UncheckedRule(code, f"{name}: denied", matters=True) for code in untold)
    assert report.verdict is HealthVerdict.UNKNOWN


def test_leftover_throttles_are_found_unless_replicas_move(memory: MemoryCluster) -> None:
    memory.set_throttles(Throttles({1: Rates(300)}, {"orders": ThrottledReplicas(frozenset({"0:1"}))}))
    report = Examination().examine(memory)
    assert (codes(report), report.verdict) == (["KF313", "KF313"], HealthVerdict.UNHEALTHY)
    moving = ailing(memory, reassigning={("orders", 0): (2,)})
    assert codes(Examination().examine(moving)) == ["KF309"]
    memory.clear_throttles(memory.throttles(["orders"]))
    assert codes(Examination().examine(memory)) == []


def test_missing_controller_prevents_group_requests(memory: MemoryCluster) -> None:
    unasked = fail(AssertionError())
    cluster = override(ailing(memory, quorum=Quorum(None)), groups=unasked, open_transactions=unasked)
    report = Examination((declare_topic("orders", 9), group("g", members={"expected": 2}))).examine(cluster)
    assert codes(report) == ["KF301"]
    left = ("KF306", "KF307", "KF311", "KF313", "KF314", "KF315")
    assert {untold.code for untold in report.unchecked} == {*left}
    assert cluster.readings == []


@pytest.mark.parametrize(
    ("examination", "runs"),
    [
        (Examination(), False),
        (Examination(only=frozenset({"KF312"})), True),
        (Examination(only=frozenset({"KF301"})), False),
        (Examination(settings=Settings(rules={"KF312": "warning"})), True),
    ],
)
def test_slow_rule_runs_only_on_request(examination: Examination, runs: bool) -> None:
    assert (examination.severities.get("KF312") != "off") is runs


WELL, ILL = HealthReport(Health(1, ())), HealthReport(Health(1, ()), (SICK,))
DOWN = Unreachable("no broker answered")


def wait_for_cluster(
    *outcomes: HealthReport | ClusterError, timeout_s: float = 300
) -> tuple[HealthReport, list[object], FakeClock]:
    """Wait for a cluster that answers so, the last answer again and again."""
    left, progress, clock = list(outcomes), list[object](), FakeClock()

    def examine() -> HealthReport:
        outcome = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(outcome, ClusterError):
            raise outcome
        return outcome

    return await_health(examine, timeout_s, progress.append, clock.clock), progress, clock


def test_waiting_ends_with_health_or_timeout() -> None:
    assert (wait_for_cluster(WELL)[0], wait_for_cluster(WELL)[2].naps) == (WELL, [])
    last, progress, clock = wait_for_cluster(ILL, DOWN, ILL, WELL)
    assert (last, progress) == (WELL, [ILL, DOWN, ILL])
    assert clock.naps == [1.0, 1.5, 2.25]
    last, _, clock = wait_for_cluster(ILL, timeout_s=30)
    assert last is ILL
    assert sum(clock.naps) == pytest.approx(30)
    assert max(clock.naps) == 5.0
    with pytest.raises(Unreachable):
        wait_for_cluster(ILL, DOWN, timeout_s=30)
