"""Status, health and drift, as people and programs read them."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from jsonschema import Draft202012Validator
from prometheus_client.parser import text_string_to_metric_families

from kafkaform.audit.trail import Trail
from kafkaform.config.manifests.loader import Context, load
from kafkaform.config.settings import Costs
from kafkaform.core.health import Health, Quorum
from kafkaform.core.model import (
    DataSize,
    Desired,
    Diagnostic,
    FieldValue,
    Location,
    Observed,
    ResourceRef,
    Severity,
    Status,
)
from kafkaform.core.partitions import Broker, PartitionState
from kafkaform.core.plans import Plan
from kafkaform.core.printable import is_plain
from kafkaform.core.schema_files import load_schema
from kafkaform.core.values import replace
from kafkaform.inspect.drift import Drift
from kafkaform.inspect.health_check import HealthReport, UncheckedRule
from kafkaform.inspect.resource_status import GroupStatus, Order, ResourceStatus, StatusReport, TopicStatus
from kafkaform.plan.plan_header import PlanHeader
from kafkaform.report.doctor import headline, health_to_json
from kafkaform.report.drift import render_drift, render_drift_markdown
from kafkaform.report.drift_json import drift_to_github, drift_to_json
from kafkaform.report.drift_wording import describe_field_since, describe_resource_since
from kafkaform.report.findings import Workspace
from kafkaform.report.markdown import MIN_LIMIT
from kafkaform.report.prometheus import doctor_metrics, drift_metrics
from kafkaform.report.remediation import CommandContext, describe_line, plan_acceptance
from kafkaform.report.status import render_status, status_to_json
from kafkaform.resources import KINDS
from kafkaform.resources.groups import Group, Position
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.audit import Story
from tests.support.plans.drift import ELSEWHERE, HERE, drift_in, drifts
from tests.support.plans.scenes import DAY, WEEK, absent, create_topic, declare_topic, topic

HEADER = PlanHeader("0.1.0", "1a2b3c4d5e6f7890", "prod", "live", "2026-11-03T12:00:00Z")
WORKSPACE = Workspace("/repo", "/repo")
RETENTION = "config.retention.ms"
MONTH = "2592000000"

MANIFEST = """\
apiVersion: kafkaform/v1
kind: Topic
metadata:
  name: orders
spec:
  partitions: 3
  replicationFactor: 1
  keyed: false
  retention: 7d
"""


def load_manifest(folder: Path, text: str, context: Context | None = None) -> Desired:
    file = folder / "orders.yaml"
    file.write_text(text)
    (desired,) = load([file.relative_to(folder)], context or Context())
    return desired


def text(drift: Drift, **more: Any) -> str:
    return render_drift(drift, HEADER, HERE, **more).plain


@pytest.mark.parametrize("status", [Status.REFUSED, Status.NEEDS_CONSENT, None])
def test_unrestored_drift_is_always_listed(memory: MemoryCluster, status: Status | None) -> None:
    """It is held back, or configs are live that nothing declares."""
    names = [f"t{i:03}" for i in range(250)]
    undeclared: Any = {} if status else {"segment_ms": DAY}
    for name in names:
        create_topic(memory, name, retention_ms=DAY, **undeclared)
    drift = drift_in(memory, *(declare_topic(name, retention_ms=WEEK) for name in names))
    held = tuple(
        replace(drifted, planned=replace(drifted.planned, status=status or Status.PLANNED, reason="not now"))
        for drifted in drift.resources
        if drifted.planned is not None
    )
    lines = text(replace(drift, resources=held)).splitlines()
    assert [line.strip() for line in lines if line.startswith("  Topic/")] == [f"Topic/{n}" for n in names]


NOON = "an apply of 2026-11-03 12:00 UTC by alice (commit 0123456789ab)"
A_MINUTE_LATER = NOON.replace("12:00", "12:01")
OTHERWISE = "but not by a recorded apply"
NO_AUTHOR = "Kafka keeps no author; the record begins with the first apply"


UNKNOWN_RESULT = f"{NOON}, whose result is not known, may have"
UNKNOWN_LATER = UNKNOWN_RESULT.replace("12:00", "12:01")
Steps = list[tuple[str | None, str | None]]
"""The values that applies set, or their actions, and their results."""


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ([], f"unknown: no recorded apply set it ({NO_AUTHOR})"),
        ([(WEEK, "applied")], f"{NOON} set 7d; changed since, {OTHERWISE}"),
        ([(DAY, "applied")], f"{NOON} set the live value; the manifest has another value"),
        ([(MONTH, "applied")], f"{NOON} set 30d; changed since, {OTHERWISE}; the manifest has also changed"),
        ([(None, "applied")], f"{NOON} did not set it; changed since, {OTHERWISE}; the manifest"),
        (
            [(DAY, "applied"), (WEEK, "applied")],
            f"{A_MINUTE_LATER} set 7d; changed since, {OTHERWISE}; the live value was set by {NOON}",
        ),
        ([(DAY, None)], f"{UNKNOWN_RESULT} set the live value; the manifest"),
        ([(WEEK, "applied"), (DAY, None)], f"{UNKNOWN_LATER} set the live value; the"),
        ([(WEEK, "applied"), (MONTH, None)], f"{NOON} set 7d; changed since, {OTHERWISE}"),
        ([(MONTH, None)], "unknown: no recorded apply set it"),
    ],
)
def test_age_of_live_value_is_described(memory: MemoryCluster, steps: Steps, said: str) -> None:
    create_topic(memory, "a", retention_ms=DAY)
    story = Story()
    for value, result in steps:
        story.add("update", "a", {RETENTION: (None, value)}, result=result)
    story.add("update", "a", {"config.segment.ms": (None, DAY)})  # says nothing of this value
    (drifted,) = drift_in(memory, declare_topic("a", retention_ms=WEEK), trail=Trail(story.entries)).resources
    assert (describe_field_since(drifted.ref, drifted.fields[0]) or "").startswith(said)


def test_age_of_removed_value_is_described(memory: MemoryCluster) -> None:
    create_topic(memory, "a")
    story = Story()
    story.add("update", "a", {RETENTION: (None, WEEK)}, commit=None, at="yesterday")
    (drifted,) = drift_in(memory, declare_topic("a", retention_ms=WEEK), trail=Trail(story.entries)).resources
    since = describe_field_since(drifted.ref, drifted.fields[0])
    assert since == f"an apply of yesterday by alice set 7d; removed since, {OTHERWISE}"


DELETED = "an apply deleted it (`kafkaform history Topic/a`)"


@pytest.mark.parametrize(
    ("live", "steps", "said"),
    [
        (False, [], f"unknown: no recorded apply created it ({NO_AUTHOR})"),
        (False, [("create", None)], f"unknown: no recorded apply created it ({NO_AUTHOR})"),
        (False, [("create", "applied")], f"{NOON} created or changed it; deleted since, {OTHERWISE}"),
        (False, [("create", "applied"), ("delete", "applied")], f"{DELETED}; the manifest declares it"),
        (False, [("delete", None)], f"{UNKNOWN_RESULT} deleted it; the manifest decl"),
        (True, [], f"unknown: no recorded apply created it ({NO_AUTHOR})"),
        (True, [("create", None)], f"{UNKNOWN_RESULT} created or changed it; the manif"),
        (True, [("create", "applied")], f"{NOON} created or changed it; the manifest declares state: abs"),
        (True, [("delete", None)], f"unknown: no recorded apply created it ({NO_AUTHOR})"),
        (True, [("delete", "applied")], f"{DELETED}; created again since, {OTHERWISE}"),
    ],
)
def test_age_of_resource_is_described(memory: MemoryCluster, live: bool, steps: Steps, said: str) -> None:
    if live:
        create_topic(memory, "a")
    story = Story()
    for action, result in steps:
        story.add(
            str(action), "a", {"partitions": (None, 3) if action == "create" else (3, None)}, result=result
        )
    desired = absent("a") if live else declare_topic("a")
    (drifted,) = drift_in(memory, desired, trail=Trail(story.entries)).resources
    assert (describe_resource_since(drifted) or "").startswith(said)


OVERRIDDEN = MANIFEST + "  overrides:\n    prod: {config: {retention.bytes: 1GiB}}\n"


def test_acceptance_edits_single_environment(
    memory: MemoryCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    desired = load_manifest(tmp_path, OVERRIDDEN, Context(("dev", "prod"), "prod"))
    create_topic(memory, "orders", retention_ms=MONTH, retention_bytes="2147483648")
    (drifted,) = drift_in(memory, desired).resources
    there = plan_acceptance(drifted, CommandContext(override="prod")).lines
    assert [(".".join(line.keys), line.new, line.location and line.location.line) for line in there] == [
        ("spec.overrides.prod.config.retention.bytes", False, 11),
        ("spec.overrides.prod.retention", True, 11),
    ]
    everywhere = plan_acceptance(drifted, HERE).lines
    assert [".".join(line.keys) for line in everywhere][1:] == ["spec.retention"]


@pytest.mark.parametrize(
    ("retention", "expected"),
    [
        ("retention:\n    bytes: 1GiB", ["orders.yaml:9, in spec.retention:  time: 30d"]),
        ("retention:\n    time: 7d", ["orders.yaml:10:  time: 30d"]),
        ("retention: {time: 7d, bytes: 1GiB}", ["orders.yaml:9, in spec.retention:  time: 30d"]),
        ("config:\n    retention.ms: 7d", ["orders.yaml:10:  retention.ms: 30d"]),
        ("config:\n    cleanup.policy:\n    - compact", ["orders.yaml:10-11:  cleanup.policy: null"]),
        ("retention: 7d", ["orders.yaml:9:  retention: 30d"]),
    ],
)
def test_suggested_edit_follows_manifest_form(
    memory: MemoryCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    retention: str,
    expected: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    desired = load_manifest(tmp_path, MANIFEST.replace("retention: 7d", retention))
    if "bytes" in retention:
        create_topic(memory, "orders", retention_ms=MONTH, retention_bytes="1073741824")
    else:
        create_topic(memory, "orders", retention_ms=MONTH)
    drift = drift_in(memory, desired)
    assert [describe_line(line) for line in plan_acceptance(drift.resources[0], HERE).lines][:1] == expected


def test_long_drift_is_summarized(memory: MemoryCluster) -> None:
    drift = drift_in(memory, *(declare_topic(f"topic-{i:04}") for i in range(300)))
    shown, whole = (text(drift, verbose=verbose).splitlines() for verbose in (False, True))
    assert [sum(line.startswith("  Topic/") for line in lines) for lines in (shown, whole)] == [200, 300]
    left_out = "topics topic-0200 to topic-0299 (--verbose lists them)"
    assert f"  … 100 more missing: {left_out}" in shown
    written = render_drift_markdown(drift, HEADER, HERE, limit=MIN_LIMIT)
    assert len(written) <= MIN_LIMIT
    assert "more resources left out; `kafkaform drift --verbose` lists them" in written


@given(drifts())
def test_foreign_text_is_escaped_in_text_json_and_annotations(drift: Drift) -> None:
    assert all(char == "\n" or is_plain(char) for char in text(drift, verbose=True, width=80))
    written = drift_to_json(drift, HEADER, ELSEWHERE)
    Draft202012Validator(load_schema("drift")).validate(json.loads(written))
    assert written.isascii()
    assert all(char.isprintable() or char == "\n" for char in written)
    *lines, verdict, end = drift_to_github(drift, HERE, WORKSPACE).replace("\r", "\n").split("\n")
    assert end == ""
    assert all(line.startswith(("::error ", "::warning ", "::notice ")) for line in lines)
    assert not verdict.startswith("::")


def test_annotations_are_located_in_manifests(memory: MemoryCluster) -> None:
    create_topic(memory, "orders", retention_ms=DAY)
    place = Location("orders.yaml", 9, 3)
    orders = replace(declare_topic("orders", retention_ms=WEEK), location=place)
    first, verdict = drift_to_github(drift_in(memory, orders), HERE, WORKSPACE).splitlines()
    assert first.startswith(
        "::warning file=orders.yaml,line=9,col=3,title=drift::Topic/orders: retention.ms is 1d"
    )
    assert first.endswith("%0Arestore: kafkaform apply --target Topic/orders")
    assert verdict.startswith("Drift: 1 resource differs")


def samples(written: str) -> dict[tuple[str, ...], float]:
    """By name and the values of the labels that are not empty."""
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()) if value)): sample.value
        for family in text_string_to_metric_families(written)
        for sample in family.samples
    }


def test_drift_metrics_match_report(memory: MemoryCluster) -> None:
    expected: dict[tuple[str, ...], float] = {
        ("kafkaform_drift_success", "prod"): 1,
        ("kafkaform_drift_last_run_timestamp_seconds", "prod"): 12.5,
        **{("kafkaform_drift_resources", "prod", kind): 5 if kind == "Topic" else 0 for kind in KINDS},
        ("kafkaform_drift_fields", "prod", "differs", "Topic", "cut"): 1,
        ("kafkaform_drift_fields", "prod", "differs", "Topic", "extra"): 1,
        ("kafkaform_drift_fields", "prod", "present", "Topic", "gone"): 1,
        ("kafkaform_drift_fields", "prod", "missing", "Topic", "missing"): 1,
        ("kafkaform_drift_fields", "prod", "differs", "Topic", "shrunk"): 1,
        **{("kafkaform_unmanaged", "prod", kind): int(kind == "Topic") for kind in KINDS},
    }
    create_topic(memory, "cut", retention_ms=WEEK)
    create_topic(memory, "extra", segment_ms=DAY)
    gone = create_topic(memory, "gone")
    create_topic(memory, "mine")
    create_topic(memory, "shrunk", 6)
    named = map(declare_topic, ("extra", "missing", "shrunk"))
    cut = declare_topic("cut", retention_ms=DAY)
    drift = drift_in(memory, cut, absent("gone", uid=gone), *named)
    assert samples(drift_metrics(drift, "prod", 12.5)) == expected


@pytest.mark.parametrize("drift", [None, Drift(Plan("memory", unknown=(topic("a"),)))])
def test_unreadable_run_has_failed_metric(drift: Drift | None) -> None:
    metrics = samples(drift_metrics(drift, "prod", 1))
    assert metrics["kafkaform_drift_success", "prod"] == 0


def build_observed(name: str = "orders.v1", replicas: FieldValue = 3, **configs: str) -> Observed:
    effective = {"config.cleanup.policy": "delete", "config.retention.ms": "604800000"}
    effective |= {f"config.{key.replace('_', '.')}": value for key, value in configs.items()}
    state: dict[str, FieldValue] = {"partitions": 12, "replicationFactor": replicas}
    return Observed(topic(name), "id", state, effective)


LAGGING = Group("shop", "consumer", "Stable", positions=(Position("orders.v1", 0, 100, 0, 1100),))


def render_text(*ones: TopicStatus | GroupStatus) -> str:
    report = StatusReport(
        tuple(item for item in ones if isinstance(item, TopicStatus)),
        tuple(item for item in ones if isinstance(item, GroupStatus)),
    )
    return render_status(report).plain


def row(one: TopicStatus | GroupStatus) -> str:
    return " ".join(render_text(one).split("\n")[1].split())


@pytest.mark.parametrize(
    ("configs", "shown"),
    [
        ({}, "7d"),
        ({"retention_bytes": "-1"}, "7d"),
        ({"retention_bytes": "53687091200"}, "7d or 50 GiB"),
        ({"retention_ms": "-1", "retention_bytes": "53687091200"}, "50 GiB"),
        ({"retention_ms": "-1"}, "unlimited"),
        ({"retention_ms": "0"}, "0"),
        ({"retention_ms": "90061001"}, "1d 1h 1m 1.001s"),
        ({"cleanup_policy": "compact"}, "compact"),
        ({"cleanup_policy": "compact,delete"}, "7d"),
    ],
)
def test_effective_retention_is_listed(configs: dict[str, str], shown: str) -> None:
    assert row(TopicStatus("t", build_observed(**configs))) == f"t 12 3 {shown} - -"


def test_unknown_value_is_dash() -> None:
    assert row(GroupStatus("g", None, only_configs=True)) == "g - only configs - - -"
    bare = Observed(topic("t"), "id", {"partitions": 1, "replicationFactor": "1-3"})
    assert row(TopicStatus("t", bare, size=DataSize(0, 2))) == "t 1 1-3 - no data -"


def test_many_rows_are_counted() -> None:
    idle = Group("g", "classic", "Empty")
    groups = [GroupStatus(f"g-{i}", LAGGING if i < 2 else idle, declared=i > 3) for i in range(20)]
    assert "lag (" not in render_text(*groups)
    shown = render_text(TopicStatus("t", build_observed(), declared=False), *groups)
    assert shown.endswith("\n\n1 topic, 20 groups; 2 groups with lag (--lagging lists them); 5 not declared")


def test_unknown_values_are_sorted_last() -> None:
    groups = {
        "none": Group("none", "classic", "Empty", positions=(Position("t", 0, 9, 0, 9),)),
        "unknown": Group("unknown", "classic", "Empty", positions=(Position("t", 0, None, 0, 9),)),
        "much": Group("much", "classic", "Empty", positions=(Position("t", 0, 1, 0, 9),)),
    }
    sizes = {"empty": DataSize(0, 1), "unknown": None, "large": DataSize(9, 1)}
    report = StatusReport(
        tuple(TopicStatus(name, build_observed(), size=size) for name, size in sizes.items()),
        tuple(GroupStatus(name, group) for name, group in groups.items()),
    )
    assert [item.name for item in report.sorted_by(Order.LAG).groups] == ["much", "none", "unknown"]
    assert [item.name for item in report.sorted_by(Order.SIZE).topics] == ["large", "empty", "unknown"]
    assert report.sorted_by(Order.NAME) == report


@pytest.mark.parametrize(
    ("acls", "said"),
    [
        (
            (
                "allow Write on topic orders.created",
                "allow Read on topic prefix orders.",
                "allow Describe on topic prefix orders.",
                "allow Read on group billing",
            ),
            "reads orders.*, writes orders.created, group billing",
        ),
        (tuple(f"allow Write on topic {name}" for name in "abcde"), "writes a, b, c and 2 more"),
        (
            ("allow Read on topic a", "allow Read on topic b", "allow Write on topic c"),
            "reads a, b; writes c",
        ),
        (("allow Write on transactional-id t from 10.0.0.1",), "transactional id t"),
        (("allow Alter on cluster", "deny Read on topic x"), "1 other right, 1 denial"),
    ],
)
def test_access_lists_topics_read_and_written(acls: tuple[str, ...], said: str) -> None:
    ref = ResourceRef("Access", "User:a")
    live = Observed(ref, None, dict.fromkeys(acls, "granted"))
    shown = render_status(StatusReport(others=(ResourceStatus(ref, live),)), width=80).plain
    assert " ".join(" ".join(shown.splitlines()[1:]).split()) == f"User:a {said}"


def test_costs_are_added_by_team() -> None:
    sized = TopicStatus("orders.v1", build_observed(), True, "checkout", DataSize(10**9, 12))
    unsized = TopicStatus("t", build_observed(), False)
    report = StatusReport((sized, unsized), costs=Costs("EUR", 0.5, 0.25))
    assert sized.replicas == 36
    text = render_status(report, width=80).plain
    assert "COST/MONTH" in text.split("\n")[0]
    assert "10.50 EUR a month, without 1 topic of unknown size" in text
    data = json.loads(status_to_json(report))
    assert data["costs"]["teams"] == {"checkout": 10.5, "": 0.0}
    assert [topic["cost_per_month"] for topic in data["topics"]] == [10.5, None]


PARTITIONS = (
    PartitionState("a", 0, 1, (1, 2), (1, 2)),
    PartitionState("a", 1, 1, (1, 2), (1,)),
    PartitionState("b", 0, None, (2,), (2,)),
)
HEALTH = Health(
    1, (Broker(1),), PARTITIONS, {"a": 2}, Quorum(11), reassigning={("a", 0): (3,)}, cluster_id="id-1"
)
SICK = Diagnostic("KF303", Severity.ERROR, "one is missing", suggestion="start it")
LAGS = Diagnostic("KF307", Severity.WARNING, "g lags", Location("g.yaml", 7, 3))
WELL = HealthReport(replace(HEALTH, partitions=PARTITIONS[:1]))
ILL = HealthReport(
    HEALTH,
    (SICK, LAGS, replace(LAGS, severity=Severity.INFO, waived="on holiday")),
    (UncheckedRule("KF301", "the controller quorum: denied", matters=True),),
    {
        "g": Group("g", "classic", "Empty", positions=(Position("a", 0, 5, 0, 12),)),
        "h": Group("h", "classic", "Empty"),
    },
)


def test_unknown_health_is_null_and_not_healthy() -> None:
    health = replace(HEALTH, reassigning=None, cluster_id="", quorum=None)
    unknown = replace(ILL, findings=(), health=health)
    assert headline(unknown, "c").endswith(": health unknown")
    content = json.loads(health_to_json(unknown, "c"))
    assert (content["healthy"], content["cluster"]["id"]) == (None, None)
    assert content["summary"]["reassigning_partitions"] is None
    metrics = samples(doctor_metrics(unknown, "c", 5))
    assert (metrics["kafkaform_healthy", "c"], metrics["kafkaform_doctor_success", "c"]) == (0, 0)
    metrics = samples(doctor_metrics(WELL, "c", 5))
    assert (metrics["kafkaform_healthy", "c"], metrics["kafkaform_doctor_success", "c"]) == (1, 1)


def test_doctor_metrics_match_report() -> None:
    assert samples(doctor_metrics(ILL, "prod", 1_800_000_000.5)) == {
        ("kafkaform_healthy", "prod"): 0,
        ("kafkaform_doctor_success", "prod"): 1,
        ("kafkaform_doctor_last_run_timestamp_seconds", "prod"): 1_800_000_000.5,
        ("kafkaform_brokers", "prod"): 1,
        ("kafkaform_topics", "prod"): 2,
        ("kafkaform_partitions", "prod"): 3,
        ("kafkaform_offline_partitions", "prod"): 1,
        ("kafkaform_under_replicated_partitions", "prod"): 1,
        ("kafkaform_under_min_isr_partitions", "prod"): 1,
        ("kafkaform_reassigning_partitions", "prod"): 1,
        ("kafkaform_finding", "prod", "KF303", "error"): 1,
        ("kafkaform_finding", "prod", "KF307", "warning"): 1,
        ("kafkaform_group_lag", "prod", "g"): 7,
    }
