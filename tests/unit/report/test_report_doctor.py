"""A health report as people, programs and Prometheus read it."""

from __future__ import annotations

import json

from prometheus_client.parser import text_string_to_metric_families

from kafkaform.core.health import Health, Quorum
from kafkaform.core.model import Diagnostic, Location, Severity
from kafkaform.core.partitions import Broker, PartitionState
from kafkaform.core.values import replace
from kafkaform.inspect.health_check import HealthReport, UncheckedRule
from kafkaform.report.doctor import headline, health_to_json
from kafkaform.report.prometheus import doctor_metrics
from kafkaform.resources.groups import Group, Position

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


# --- text and JSON ---------------------------------------------------------------------------------


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


# --- Prometheus ------------------------------------------------------------------------------------


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
