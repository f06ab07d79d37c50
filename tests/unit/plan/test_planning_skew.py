"""Tests of a skew report in a plan: predictions, refusals, findings, and the limits of each."""

from collections.abc import Mapping
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from kafkaform.config.settings import Settings
from kafkaform.core.errors import SkewReportError
from kafkaform.core.model import Desired, Diagnostic, Risk, Severity, Status
from kafkaform.core.plans import Plan, PlannedChange
from kafkaform.core.values import replace
from kafkaform.plan.planning import Request, build_plan
from kafkaform.resources.values import fields_of
from spark_validation.results import Estimate, TopicResult
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.scenes import QUIET, create_topic
from tests.support.skew.scenes import (
    FINE,
    SURE,
    UNSURE,
    build_result,
    declare_policy,
    empty,
    hot,
    report,
    what_if,
)


@pytest.fixture
def memory(memory: MemoryCluster) -> MemoryCluster:
    """A topic `a` of 3 partitions."""
    create_topic(memory, "a", 3)
    return memory


def plan_topic(
    cluster: MemoryCluster, topic: Desired, *results: TopicResult, rules: Mapping[str, str] | None = None
) -> Plan:
    request = Request([topic], skew=report(*results))
    return build_plan(request, cluster, Settings(rules={**QUIET, "KF401": "off", **(rules or {})}), None)


def grow(*, limit: float | None = None, **policy: Any) -> Desired:
    """Declare that topic `a` goes from 3 to 6 partitions."""
    limited: Any = {} if limit is None else {"maxPartitionRatio": limit}
    return declare_policy(partitions=6, **limited, **policy)


def only_change(plan: Plan) -> PlannedChange:
    (change,) = plan.changes
    return change


def read_reason(plan: Plan) -> str:
    change = only_change(plan).change
    (field,) = [item for item in fields_of(change) if item.path == "partitions"]
    return field.assessment.reason


def list_skew_findings(plan: Plan) -> list[Diagnostic]:
    return [diagnostic for diagnostic in plan.diagnostics if diagnostic.code.startswith("KF5")]


def list_codes(plan: Plan) -> list[tuple[str, str]]:
    return [(finding.code, finding.severity.value) for finding in list_skew_findings(plan)]


def test_partition_increase_has_predicted_moves_and_ratio(
    memory: MemoryCluster, snapshot: SnapshotAssertion
) -> None:
    topic = build_result(ratio=FINE, what_ifs=[what_if(6, Estimate(1.4, 1.35, 1.47)), what_if(9, SURE)])
    plan = plan_topic(memory, grow(), topic)
    assert read_reason(plan) == snapshot
    assert only_change(plan).status is Status.PLANNED
    assert list_codes(plan) == []


def test_hot_key_is_named_as_indivisible(memory: MemoryCluster) -> None:
    keys = [hot("a", Estimate(0.3, 0.28, 0.32))]
    topic = build_result(diagnosis="hot_keys", hot_keys=keys, what_ifs=[what_if(6, SURE)])
    undivided = "one key has 30 % (28 to 32 %), which no partition count divides"
    assert undivided in read_reason(plan_topic(memory, grow(), topic))
    even = replace(topic, causes=build_result().causes)
    assert "no partition count divides" not in read_reason(plan_topic(memory, grow(), even))


def test_safe_increase_has_prediction_as_info(memory: MemoryCluster) -> None:
    plan = plan_topic(memory, grow(keyed=False), build_result(what_ifs=[what_if(6, FINE)]))
    change = only_change(plan).change
    assert fields_of(change)[0].assessment.risk is Risk.SAFE
    assert read_reason(plan).startswith("as measured, 48.2 % of the sampled keys")
    assert list_codes(plan) == [("KF508", "info")]
    assert list_skew_findings(plan)[0].message == f"a goes from 3 to 6 partitions: {read_reason(plan)}"


WITHHELD = "30 % of the records with a key are on partitions that no known partitioner chose."
COMMAND = "`kafkaform skew a --what-if 6`"


@pytest.mark.parametrize(
    ("results", "missing", "suggestion"),
    [
        ([], "is not in the skew report", COMMAND),
        ([build_result("b", what_ifs=[what_if(6, FINE)])], "is not in the skew report", COMMAND),
        ([empty()], "is not in the skew report", COMMAND),
        ([build_result(what_ifs=[what_if(9, FINE)])], "was not measured for 6", COMMAND),
        (
            [replace(build_result(), what_if_withheld=WITHHELD)],
            f"no prediction holds for it: {WITHHELD.removesuffix('.')}",
            None,
        ),
    ],
)
def test_missing_prediction_suggests_command(
    memory: MemoryCluster, results: list[TopicResult], missing: str, suggestion: str | None
) -> None:
    plan = plan_topic(memory, grow(limit=1.0), *results)
    assert "as measured" not in read_reason(plan)
    (first,) = [finding for finding in list_skew_findings(plan) if finding.code == "KF507"]
    assert (first.severity, first.suggestion) == (Severity.WARNING, suggestion)
    assert missing in first.message
    assert only_change(plan).status is Status.PLANNED


LIMIT = 2.0


@pytest.mark.parametrize(
    ("now", "then", "status", "said"),
    [
        (FINE, SURE, Status.REFUSED, [("KF506", "error")]),
        (FINE, UNSURE, Status.PLANNED, [("KF506", "warning")]),
        (FINE, FINE, Status.PLANNED, []),
        (FINE, Estimate(2.1, 2.0, 2.2), Status.PLANNED, [("KF506", "warning")]),
        (FINE, Estimate(1.8, 1.7, 2.0), Status.PLANNED, []),
        # Beyond the limit already: worse is refused, better is let through with a warning.
        (SURE, Estimate(3.4, 3.1, 3.7), Status.REFUSED, [("KF506", "error"), ("KF501", "warning")]),
        (Estimate.exact(4.0), SURE, Status.PLANNED, [("KF506", "warning"), ("KF501", "warning")]),
        (Estimate.exact(2.4), SURE, Status.REFUSED, [("KF506", "error"), ("KF501", "warning")]),
    ],
)
def test_increase_certainly_breaking_policy_is_refused(
    memory: MemoryCluster, now: Estimate, then: Estimate, status: Status, said: list[tuple[str, str]]
) -> None:
    plan = plan_topic(memory, grow(limit=LIMIT), build_result(ratio=now, what_ifs=[what_if(6, then)]))
    assert (only_change(plan).status, list_codes(plan)) == (status, said)


def test_refusal_for_hot_key_suggests_splitting_key(memory: MemoryCluster) -> None:
    keys = [hot("a", Estimate(0.3, 0.28, 0.32))]
    what_ifs = [what_if(6, SURE), what_if(8, Estimate.exact(2.5))]
    topic = build_result(diagnosis="hot_keys", hot_keys=keys, what_ifs=what_ifs)
    change = only_change(plan_topic(memory, grow(limit=LIMIT), topic))
    assert "split the hot key first: no partition count divides it" in str(change.remedy)
    even = build_result(what_ifs=[what_if(6, SURE)])
    change = only_change(plan_topic(memory, grow(limit=LIMIT), even))
    assert "kafkaform skew a --what-if" in (change.remedy or "")


def test_increase_is_judged_despite_changed_partition_count(memory: MemoryCluster) -> None:
    topic = build_result(partitions=2, what_ifs=[what_if(6, SURE)])
    assert only_change(plan_topic(memory, grow(limit=LIMIT), topic)).status is Status.REFUSED


def test_report_of_another_cluster_is_refused(memory: MemoryCluster) -> None:
    request = Request([declare_policy()], skew=report(build_result(), cluster_id="other"))
    with pytest.raises(SkewReportError, match="the skew report is of cluster other, not of memory"):
        build_plan(request, memory, Settings(), None)


def test_report_without_cluster_is_noted(memory: MemoryCluster) -> None:
    request = Request([declare_policy()], skew=report(build_result(), cluster_id=None))
    assert list_codes(build_plan(request, memory, Settings(rules=QUIET), None)) == [("KF509", "info")]
