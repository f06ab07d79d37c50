"""The status of topics and groups, and the health of a cluster, as people and programs read them."""

import json

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kafkaform.config.settings import Costs
from kafkaform.core.health import Health, Quorum
from kafkaform.core.model import DataSize, Diagnostic, FieldValue, Location, Observed, ResourceRef, Severity
from kafkaform.core.partitions import Broker, PartitionState
from kafkaform.core.values import replace
from kafkaform.inspect.health_check import HealthReport, UncheckedRule
from kafkaform.inspect.resource_status import GroupStatus, Order, ResourceStatus, StatusReport, TopicStatus
from kafkaform.report.doctor import headline, health_to_json
from kafkaform.report.prometheus import doctor_metrics
from kafkaform.report.status import render_status, status_to_json
from kafkaform.resources.groups import Group, Position
from tests.support.plans.scenes import topic


def build_observed(name: str = "orders.v1", replicas: FieldValue = 3, **configs: str) -> Observed:
    effective = {"config.cleanup.policy": "delete", "config.retention.ms": "604800000"}
    effective |= {f"config.{key.replace('_', '.')}": value for key, value in configs.items()}
    state: dict[str, FieldValue] = {"partitions": 12, "replicationFactor": replicas}
    return Observed(topic(name), "id", state, effective)


LAGGING = Group("shop", "consumer", "Stable", positions=(Position("orders.v1", 0, 100, 0, 1100),))


def text(*ones: TopicStatus | GroupStatus) -> str:
    report = StatusReport(
        tuple(item for item in ones if isinstance(item, TopicStatus)),
        tuple(item for item in ones if isinstance(item, GroupStatus)),
    )
    return render_status(report).plain


def row(one: TopicStatus | GroupStatus) -> str:
    return " ".join(text(one).split("\n")[1].split())


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
    assert "lag (" not in text(*groups)
    shown = text(TopicStatus("t", build_observed(), declared=False), *groups)
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
    assert (metrics["kafkaform_healthy",], metrics["kafkaform_doctor_success",]) == (0, 0)
    metrics = samples(doctor_metrics(WELL, "c", 5))
    assert (metrics["kafkaform_healthy",], metrics["kafkaform_doctor_success",]) == (1, 1)


def samples(text: str) -> dict[tuple[str, ...], float]:
    """Return the metrics as Prometheus reads them: names and labels (without `cluster`) to values."""
    return {
        (sample.name, *(v for k, v in sorted(sample.labels.items()) if k != "cluster")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_doctor_metrics_match_report() -> None:
    assert samples(doctor_metrics(ILL, "prod", 1_800_000_000.5)) == {
        ("kafkaform_healthy",): 0,
        ("kafkaform_doctor_success",): 1,
        ("kafkaform_doctor_last_run_timestamp_seconds",): 1_800_000_000.5,
        ("kafkaform_brokers",): 1,
        ("kafkaform_topics",): 2,
        ("kafkaform_partitions",): 3,
        ("kafkaform_offline_partitions",): 1,
        ("kafkaform_under_replicated_partitions",): 1,
        ("kafkaform_under_min_isr_partitions",): 1,
        ("kafkaform_reassigning_partitions",): 1,
        ("kafkaform_finding", "KF303", "error"): 1,
        ("kafkaform_finding", "KF307", "warning"): 1,
        ("kafkaform_group_lag", "g"): 7,
    }
