"""`kafkaform plan` and `show` on a real Kafka: what is shown, saved and exited with."""

import json
import re
import subprocess
import sys
from datetime import UTC, datetime

from spark_validation.results import to_json
from tests.support.cli.project import Project, manifest, run_in_process
from tests.support.clusters.fixtures import TIMEOUT_S
from tests.support.skew.scenes import FINE, build_result, report, what_if


def test_plan_without_a_login_imports_no_client_and_no_spark(project: Project) -> None:
    project.topic("a", partitions=3, keyed=True)
    project.apply("topics").needs(0)
    project.topic("a", partitions=6, keyed=True, skew={"maxPartitionRatio": 2.0})
    measured = build_result(f"{project.prefix}a", ratio=FINE, what_ifs=[what_if(6, FINE)])
    created_at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    project.write("report.json", to_json(report(measured, cluster_id=None, created_at=created_at)))
    names = {"confluent_kafka", "scramp", "botocore", "gssapi", "cryptography", "http.client"}
    names |= {"pyspark", "numpy", "pandas", "pyarrow"}
    arguments = ["plan", "topics", "--skew", "report.json", "--bootstrap-server", project.servers]
    script = (
        f"import sys; from kafkaform.cli.main import run\ncode = run({arguments})\n"
        f"assert not sys.modules.keys() & {names}; sys.exit(code)"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(
        command, cwd=project.folder, timeout=TIMEOUT_S, capture_output=True, text=True, check=True
    )
    assert "as measured, 48.2 % of the sampled keys" in " ".join(done.stdout.split())


def test_manifests_are_read_from_stdin(project: Project) -> None:
    spec = {"partitions": 1, "replicationFactor": 1}
    given = manifest(f"{project.prefix}a", spec)
    made = project.process("plan", "-", "--out", "plan.json", given=given).needs(0)
    assert f"+ Topic/{project.prefix}a" in made.out
    assert "<stdin>:" in made.out
    document = json.loads((project.folder / "plan.json").read_text("utf-8"))
    assert document["commit"] is None
    assert document["changes"][0]["source"]["file"] == "<stdin>"
    wrong = run_in_process("validate", "-", cwd=project.folder, given=given.replace("ns: ", "s: ")).needs(1)
    assert re.search(r"^<stdin>:\d+:\d+: ", wrong.err, re.MULTILINE)
    assert "did you mean 'partitions'?" in wrong.err
    assert "<stdin>:1:1: " in project.run("plan", "-").needs(1).err
    project.run("apply", "-", "--auto-approve", given=given).needs(0)
    assert set(project.live()) == {"a"}


def test_stdin_manifests_exclude_undeclared_topics(project: Project) -> None:
    project.topic("a")
    project.config(owns=[f"{project.prefix}*"])
    project.apply().needs(0)
    given = manifest(f"{project.prefix}b", {"partitions": 1, "replicationFactor": 1})
    assert f"{project.prefix}a" not in project.run("plan", "-", "-v", given=given).needs(0).out
