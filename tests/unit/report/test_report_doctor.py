"""A health report as people, programs and Prometheus read it."""

from __future__ import annotations

import json

import pytest
from markdown_it import MarkdownIt
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families

from kafkaform.core.health import Health, Quorum
from kafkaform.core.model import Diagnostic, Location, ResourceRef, Severity
from kafkaform.core.partitions import Broker, PartitionState
from kafkaform.core.values import replace
from kafkaform.inspect.health_check import HealthReport, UncheckedRule
from kafkaform.report.doctor import headline, health_to_json, health_to_markdown, render_health
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


# --- text ------------------------------------------------------------------------------------------


def test_unknown_health_is_in_headline() -> None:
    assert headline(replace(ILL, findings=()), "c").endswith(": health unknown")


def test_prose_is_wrapped_at_terminal_width() -> None:
    long = replace(ILL, findings=(replace(SICK, message="word " * 40, suggestion="do " * 60),))
    lines = render_health(long, "c", width=60).plain.splitlines()
    assert max(map(len, lines)) <= 60
    assert " ".join(" ".join(lines).split()).count("word") == 40
    assert "      " + "word " * 10 + "word" in lines


def test_repeated_findings_are_summarized() -> None:
    found = [
        replace(
            LAGS,
            message=f"g{n} lags",
            location=None,
            suggestion="start it",
            ref=ResourceRef("ConsumerGroup", f"g{n}"),
        )
        for n in range(19)
    ]
    many = replace(ILL, findings=(SICK, *found), unchecked=())
    assert render_health(many, "prod").plain.count("start it") == 2
    assert render_health(many, "prod", verbose=True).plain.count("start it") == 20
    assert len(json.loads(health_to_json(many, "prod"))["diagnostics"]) == 20


@pytest.mark.parametrize("width", [None, 60])
def test_hostile_names_are_printable(width: int | None) -> None:
    bad = "\x1b[31m\n\u202e"
    hostile = HealthReport(
        HEALTH,
        (Diagnostic("KF307", Severity.INFO, bad, Location(bad), bad), replace(SICK, waived=bad)),
        (UncheckedRule("KF301", bad, matters=False),),
    )
    text = render_health(hostile, bad, width=width).plain
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert all(line.isprintable() for line in text.splitlines())


# --- markdown --------------------------------------------------------------------------------------


def test_markdown_is_bounded_and_counts_omitted() -> None:
    many = replace(ILL, findings=(SICK,) * 1000)
    text = health_to_markdown(many, "prod", limit=6_000)
    assert len(text) <= 6_000
    assert "more findings left out; `kafkaform doctor --verbose` lists them" in text
    assert "- not checked KF301" in text


def test_foreign_text_is_escaped_in_markdown() -> None:
    trap = replace(SICK, message="@all <img src=x> [a](b)")
    html = MarkdownIt("gfm-like", {"linkify": False}).render(
        health_to_markdown(replace(ILL, findings=(trap,)), "prod")
    )
    assert "<img" not in html
    assert "<a" not in html


# --- JSON ------------------------------------------------------------------------------------------


def test_json_has_null_for_unknown_values() -> None:
    unknown = replace(ILL, findings=(), health=replace(HEALTH, reassigning=None, cluster_id="", quorum=None))
    content = json.loads(health_to_json(unknown, "c"))
    assert content["healthy"] is None
    assert content["cluster"]["id"] is None
    assert content["controller"] == 1
    assert content["summary"]["reassigning_partitions"] is None
    assert json.loads(health_to_json(WELL, "c"))["healthy"] is True


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


def test_metrics_have_description_and_cluster_label() -> None:
    families = list(text_string_to_metric_families(doctor_metrics(ILL, "prod", 1)))
    assert {family.type for family in families} == {"gauge"}
    assert all(family.documentation.endswith(".") for family in families)
    assert {s.labels["cluster"] for family in families for s in family.samples} == {"prod"}


def test_unreadable_cluster_has_unhealthy_metrics() -> None:
    assert samples(doctor_metrics(None, "c", 5)) == {
        ("kafkaform_healthy",): 0,
        ("kafkaform_doctor_success",): 0,
        ("kafkaform_doctor_last_run_timestamp_seconds",): 5,
    }


def test_success_and_health_metrics_are_separate() -> None:
    unknown = samples(doctor_metrics(replace(ILL, findings=()), "c", 5))
    assert (unknown["kafkaform_healthy",], unknown["kafkaform_doctor_success",]) == (0, 0)
    well = samples(doctor_metrics(WELL, "c", 5))
    assert (well["kafkaform_healthy",], well["kafkaform_doctor_success",]) == (1, 1)


def test_names_are_escaped_in_labels() -> None:
    name = 'a"b\\c\nd{}=é'
    odd = replace(ILL, groups={name: replace(ILL.groups["g"], name=name)})
    assert samples(doctor_metrics(odd, "x", 1))["kafkaform_group_lag", name] == 7


def test_global_metric_registry_is_unchanged() -> None:
    before = {family.name for family in REGISTRY.collect()}
    doctor_metrics(ILL, "prod", 1)
    assert {family.name for family in REGISTRY.collect()} == before
