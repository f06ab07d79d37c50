"""`kafkaform plan --skew` on a real Kafka: shown in every format, saved, applied; bad reports; no Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from spark_validation.results import Estimate, SkewReport, to_json
from tests.support.cli_helpers import ROOT, Project, called, environment
from tests.support.skew_scenes import FINE, SURE, measured, report, what_if

FIGURES = "as measured, 48.2 % of the sampled keys with 61 % (57 to 65 %) of the records move"


@pytest.fixture
def project(project: Project) -> Project:
    """A topic `a` of 3 partitions, that is to have 6."""
    project.topic("a", partitions=3, keyed=True)
    project.apply("topics").needs(0)
    project.topic("a", partitions=6, keyed=True, skew={"maxPartitionRatio": 2.0})
    return project


def measurement(
    project: Project, then: Estimate, *, age: timedelta = timedelta(hours=1), cluster_id: str | None = None
) -> SkewReport:
    topic = measured(f"{project.prefix}a", ratio=FINE, what_ifs=[what_if(6, then)])
    made = (datetime.now(UTC) - age).strftime("%Y-%m-%dT%H:%M:%SZ")
    return report(topic, cluster_id=cluster_id, created_at=made)


def written(project: Project, made: SkewReport) -> str:
    return str(project.write("report.json", to_json(made)))


def cluster_of(project: Project) -> str:
    found = project.run("plan", "topics", "--format", "json").needs(0).json["cluster"]["id"]
    assert isinstance(found, str)
    return found


@pytest.mark.parametrize("output_format", ["text", "markdown", "json", "github", "sarif"])
def test_the_prediction_is_shown_in_every_format(project: Project, output_format: str) -> None:
    file = written(project, measurement(project, FINE, cluster_id=cluster_of(project)))
    call = project.run("plan", "topics", "--skew", file, "--format", output_format).needs(0)
    said = call.out.replace("%25", "%").replace("\\u00a0", " ")
    assert FIGURES in " ".join(said.split())
    assert "1 refused" not in call.out


@pytest.mark.parametrize("output_format", ["text", "markdown", "json", "github", "sarif"])
def test_a_refused_increase_is_shown_in_every_format(project: Project, output_format: str) -> None:
    file = written(project, measurement(project, SURE))
    call = project.run("plan", "topics", "--skew", file, "--format", output_format).needs(1)
    said = " ".join(call.out.split())
    assert (
        "with 6 partitions the fullest is predicted to have 2.4 (2.3 to 2.5) times the mean records" in said
    )
    assert "KF506" in said
    if output_format == "github":
        line = next(line for line in call.out.splitlines() if "KF506" in line)
        manifest = (project.folder / "topics/a.yaml").read_text("utf-8").splitlines()
        number = next(n for n, text in enumerate(manifest, 1) if text.strip().startswith("partitions:"))
        assert line.startswith(f"::error file=topics/a.yaml,line={number},")


def test_a_refused_increase_fails_unless_that_is_switched_off(project: Project) -> None:
    file = written(project, measurement(project, SURE))
    assert "1 refused" in project.run("plan", "topics", "--skew", file).needs(1).out.splitlines()[-1]
    assert project.run("plan", "topics", "--skew", file, "--no-strict").code == 0
    assert project.run("plan", "topics").code == 0


def test_a_saved_plan_needs_no_report_to_be_shown_and_applied(project: Project) -> None:
    file = written(project, measurement(project, FINE))
    project.run("plan", "topics", "--skew", file, "--out", "plan.json").needs(0)
    (project.folder / "report.json").unlink()
    assert FIGURES in " ".join(called("show", "plan.json", cwd=project.folder).needs(0).out.split())
    project.run("apply", "plan.json", "--auto-approve").needs(0)
    assert project.live()["a"]["partitions"] == 6


def test_a_saved_plan_keeps_its_refusal(project: Project) -> None:
    file = written(project, measurement(project, SURE))
    project.run("plan", "topics", "--skew", file, "--out", "plan.json").needs(1)
    call = project.run("apply", "plan.json", "--auto-approve").needs(1)
    assert "KF506" in call.both
    assert project.live()["a"]["partitions"] == 3


def test_a_count_that_was_not_computed_is_said_with_its_command(project: Project) -> None:
    project.topic("a", partitions=9, keyed=True)
    file = written(project, measurement(project, FINE))
    out = " ".join(project.run("plan", "topics", "--skew", file).needs(0).out.split())
    assert "was not measured for 9" in out
    assert f"kafkaform skew {project.prefix}a --what-if 9" in out


def test_a_broken_policy_does_not_refuse_a_longer_retention(project: Project) -> None:
    project.topic("a", partitions=3, retention="30d", skew={"maxPartitionRatio": 1.05})
    file = written(project, measurement(project, FINE))
    call = project.run("plan", "topics", "--skew", file).needs(0)
    assert "KF501" in call.out
    assert call.out.splitlines()[-1].startswith("Plan: 1 to update, 0 unchanged")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "report.json: No such file or directory"),
        ("{", "report.json:1:2: not JSON"),
        ('{"format_version": 1}', "not a valid skew report: tool_version: missing"),
        ('{"format_version": 7}', "has format 7"),
    ],
)
def test_a_bad_report_is_one_line_and_exit_1(project: Project, content: str | None, said: str) -> None:
    if content is not None:
        project.write("report.json", content)
    call = project.run("plan", "topics", "--skew", "report.json").needs(1)
    assert call.out == ""
    assert said in call.err
    assert len(call.err.splitlines()) == 2  # the message and its hint


def test_a_report_that_is_too_old_or_of_another_cluster_is_refused(project: Project) -> None:
    file = written(project, measurement(project, FINE, age=timedelta(days=9)))
    assert (
        "9 days old; the maximum age is 7 days" in project.run("plan", "topics", "--skew", file).needs(1).err
    )
    project.run("plan", "topics", "--skew", file, "--max-age", "10d").needs(0)
    foreign = written(project, replace(measurement(project, FINE), cluster_id="other"))
    assert "is of cluster other, not of" in project.run("plan", "topics", "--skew", foreign).needs(1).err
    future = written(project, measurement(project, FINE, age=timedelta(days=-1)))
    assert "has a creation time in the future" in project.run("plan", "topics", "--skew", future).needs(1).err


@pytest.mark.parametrize("age", ["soon", "-1d", "99999999999999w"])
def test_an_age_that_is_none_is_wrong_usage(project: Project, age: str) -> None:
    call = project.run("plan", "topics", "--skew", "report.json", f"--max-age={age}").needs(64)
    assert "--max-age" in call.err


def test_a_plan_with_a_report_loads_neither_spark_nor_numpy(project: Project) -> None:
    file = written(project, measurement(project, FINE))
    arguments = [
        "plan",
        "topics",
        "--bootstrap-server",
        project.servers,
        "--skew",
        file,
        "--format",
        "markdown",
    ]
    script = (
        "import json, sys\n"
        "from kafkaform.cli.main import run\n"
        f"code = run({json.dumps(arguments)})\n"
        "heavy = {'pyspark', 'numpy', 'pandas', 'pyarrow'} & {name.split('.')[0] for name in sys.modules}\n"
        "print(code, sorted(heavy), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=project.folder,
        env=environment(PYTHONPATH=str(ROOT)),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert FIGURES in done.stdout
    assert done.stderr.splitlines()[-1] == "0 []"
