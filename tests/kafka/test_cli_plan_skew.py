"""`kafkaform plan --skew` on a real Kafka: shown in every format, saved, applied; bad reports; no Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from spark_validation.results import Estimate, SkewReport, to_json
from tests.support.cli.project import ROOT, Project, environment, run_in_process
from tests.support.skew.scenes import FINE, build_result, report, what_if

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
    topic = build_result(f"{project.prefix}a", ratio=FINE, what_ifs=[what_if(6, then)])
    made = (datetime.now(UTC) - age).strftime("%Y-%m-%dT%H:%M:%SZ")
    return report(topic, cluster_id=cluster_id, created_at=made)


def write_report(project: Project, made: SkewReport) -> str:
    return str(project.write("report.json", to_json(made)))


def test_saved_plan_needs_no_report(project: Project) -> None:
    file = write_report(project, measurement(project, FINE))
    project.run("plan", "topics", "--skew", file, "--out", "plan.json").needs(0)
    (project.folder / "report.json").unlink()
    assert FIGURES in " ".join(run_in_process("show", "plan.json", cwd=project.folder).needs(0).out.split())
    project.run("apply", "plan.json", "--auto-approve").needs(0)
    assert project.live()["a"]["partitions"] == 6


def test_plan_with_a_report_loads_neither_spark_nor_numpy(project: Project) -> None:
    file = write_report(project, measurement(project, FINE))
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
