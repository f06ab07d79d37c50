"""Tests of reading files of earlier versions, as docs/compatibility.md promises."""

import json
from pathlib import Path

import pytest

from kafkaform import __version__
from kafkaform.audit.trail import read_record_file
from kafkaform.core.schema_files import fits
from kafkaform.plan.plan_file import plan_from_json
from kafkaform.plan.skew_report import parse_skew_report
from spark_validation.metrics import MAX_MEAN_RATIO, MetricsTable, metric_rows
from tests.support.cli.project import run_in_process

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture(params=sorted(folder.name for folder in DATA.iterdir()))
def folder(request: pytest.FixtureRequest) -> Path:
    """Return the files that a version wrote with scripts/write_compatibility_files.py."""
    return DATA / str(request.param)


def test_current_version_has_compatibility_files() -> None:
    assert (DATA / __version__).is_dir(), "run scripts/write_compatibility_files.py"


@pytest.mark.parametrize("environment", ["small", "large"])
def test_manifests_are_valid(folder: Path, environment: str) -> None:
    assert "4 resources" in run_in_process("validate", "-e", environment, cwd=folder).needs(0).out


def test_plan_is_read(folder: Path) -> None:
    text = (folder / "plan.json").read_text("utf-8")
    document = json.loads(text)
    assert fits("plan", document)
    plan, header = plan_from_json(text, "plan.json")
    assert (header.tool_version, header.environment) == (folder.name, "large")
    assert [change.ref.name for change in plan.changes] == ["orders.v1", "user=reporting"]
    shown = run_in_process("show", "plan.json", "--format", "json", cwd=folder).needs(0).json
    assert shown["changes"] == document["changes"]


def test_record_is_read(folder: Path) -> None:
    record = read_record_file(folder / "audit.jsonl")
    assert record.problems == ()
    assert [(entry.ref.kind, entry.action) for entry in record.entries] == [
        ("Topic", "create"),
        ("ConsumerGroup", "create"),
        ("ClientQuota", "create"),
        ("Access", "create"),
        ("Topic", "update"),
        ("ClientQuota", "update"),
    ]
    assert {entry.outcome and entry.outcome.result for entry in record.entries} == {"applied"}


def test_skew_report_and_metrics_of_version_are_read(folder: Path) -> None:
    report = parse_skew_report((folder / "skew.json").read_text("utf-8"), "skew.json")
    assert [(topic.name, topic.diagnosis) for topic in report.topics] == [("orders.v1", "hot_keys")]
    [kept] = MetricsTable(str(folder / "metrics")).read_files(report.cluster_id, MAX_MEAN_RATIO)
    assert kept in metric_rows(report)
