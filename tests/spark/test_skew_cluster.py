"""A standalone cluster of Spark's own: its results, the loss of a worker, executors that lack packages."""

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Sequence
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any, TypeAlias

import confluent_kafka
import pytest
from pyspark.sql import SparkSession

from kafkaform.core.values import replace
from kafkaform.devcluster.cluster import DevCluster
from spark_validation.kafka_client import OffsetReader
from spark_validation.options import JobSettings
from spark_validation.results import from_document
from spark_validation.windows import Span
from tests.support.cli.project import Project
from tests.support.clusters.fixtures import Account, eventually
from tests.support.skew.producers import create_topic, fill_topic, read_spans, result_of, send
from tests.support.skew.spark_cluster import SHORT_LIVED_JAVA, spark_home, standalone

ROOT = Path(__file__).parents[2]
Driver: TypeAlias = subprocess.Popen[str]
RECORDS = 9_000
BEGIN = int(time.time() * 1000) - 3_600_000


THROUGH_MASTER = """
import json, os, sys
from spark_validation import kafka_source
from spark_validation.configuration import SessionSettings
from spark_validation.job import TopicRequest, run_topics
from spark_validation.options import JobSettings
from spark_validation.results import SkewLimits, SkewReport, to_json
from spark_validation.session import start
from spark_validation.windows import Span

master, topic, spans, kafka, job, task_records = json.loads(sys.stdin.read())
if task_records:
    kafka_source._MAX_TASK_RECORDS, kafka_source._MIN_TASK_RECORDS = task_records
conf = {
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": os.environ["EXECUTOR_JAVA"],
    "spark.driver.host": "127.0.0.1",
}
with start(SessionSettings(master=master, memory="512m", conf=conf)) as spark:
    request = TopicRequest(topic, [Span(*s) for s in spans], SkewLimits())
    result = run_topics(spark, [request], kafka, JobSettings(**job, what_if=(24,)))[topic]
print(to_json(SkewReport("", None, None, "", (result,))))
"""
"""A driver, which reads its master and its job from a file."""


def start_driver(folder: Path, master: str, topic: str, spans: Sequence[Span], *job: Any) -> Driver:
    rows = [[s.partition, s.start, s.end, s.log_bytes] for s in spans]
    (folder / "job.json").write_text(json.dumps([master, topic, rows, *job]))
    with (folder / "job.json").open() as file:
        return subprocess.Popen(
            [sys.executable, "-c", THROUGH_MASTER],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), "EXECUTOR_JAVA": SHORT_LIVED_JAVA},
            stdin=file,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


def read_output(driver: Driver) -> tuple[str, str]:
    """Return what a driver that succeeds writes to stdout and to stderr."""
    out, errors = driver.communicate()
    assert driver.returncode == 0, errors[-3000:]
    return out, errors


@pytest.mark.nightly(
    "a Spark cluster with two drivers: six JVMs; the job that they run is tested here and in test_skew_truth"
)
def test_standalone_cluster_counts_as_local_session(
    spark: SparkSession, kafka_acl: DevCluster, account: Callable[..., Account], prefix: str, tmp_path: Path
) -> None:
    """Through --master and by the documented spark-submit; the cluster keeps the password nowhere."""
    topic = f"{prefix}a"
    fill_topic(kafka_acl.bootstrap_servers, topic, RECORDS, BEGIN)
    reader = account(f"TOPIC:{topic}:READ", "CLUSTER:kafka-cluster:DESCRIBE").properties
    kafka = {**reader, "bootstrap.servers": kafka_acl.sasl_bootstrap_servers}
    admin = OffsetReader(kafka)
    spans, cluster_id = admin.spans([topic])[0][topic], admin.cluster_id()
    job = JobSettings(records=1200, seed=7, what_if=(24,))
    local = result_of(spark, topic, spans, kafka, job)
    assert 0 < local.sample.records < RECORDS

    secret = kafka["sasl.password"]
    config = tmp_path / "client.properties"
    entries = {**kafka, "group.id": "mine", "auto.offset.reset": "earliest"}
    config.write_text("".join(f"{name}={value}\n" for name, value in entries.items()))
    cluster_folder = tmp_path / "cluster"
    (tmp_path / "policies.json").write_text(json.dumps({topic: {"maxPartitionRatio": 9}}))
    with standalone(cluster_folder, workers=2) as cluster:
        driver = start_driver(tmp_path, cluster.url, topic, spans, kafka, {"records": 1200, "seed": 7}, None)
        through_master = read_output(driver)
        submitted = _submit_as_documented(
            cluster.url, tmp_path, topic, "--records", "1200", "--seed", "7", "--what-if", "24"
        )
        assert submitted.returncode == 0, submitted.stdout[-3000:] + submitted.stderr[-3000:]
        logs = {path: path.read_text(errors="replace") for path in cluster_folder.rglob("std*")}
        logs |= {path: path.read_text(errors="replace") for path in cluster_folder.glob("*.log")}
    assert not cluster_folder.exists()

    assert round_numbers(from_document(json.loads(through_master[0])).topics[0]) == round_numbers(local)
    report = from_document(json.loads((tmp_path / "skew" / "report.json").read_text()))
    (submitted_result,) = report.topics
    assert submitted_result.arrivals is not None
    assert sum(submitted_result.arrivals[0].counts) == RECORDS
    partitions = [
        replace(partition, kept_from=None, kept_since_ms=None) for partition in submitted_result.partitions
    ]
    # The job asked for the topic's configs, which this account may not read.
    (note,) = submitted_result.sample.notes
    assert "(DescribeConfigs)" in note
    sample = replace(submitted_result.sample, notes=())
    assert submitted_result.policy is not None
    assert submitted_result.policy.status == "pass"
    assert list((tmp_path / "skew" / "metrics").rglob("*.parquet"))
    without_offsets = replace(
        submitted_result, arrivals=None, policy=None, partitions=tuple(partitions), sample=sample
    )
    assert round_numbers(without_offsets) == round_numbers(local)
    assert report.cluster_id == cluster_id
    # spark-submit passes its script's stderr on as stdout.
    assert "note: group.id in" in submitted.stdout
    assert "Running task" in "".join(logs.values()), "the executors' logs are there to be looked at"
    shown = [*logs.values(), submitted.stdout, submitted.stderr, through_master[1]]
    assert not [text for text in shown if secret in text]


def round_numbers(found: Any) -> Any:
    """A result without the last digits of its numbers: other reducers add them up in another order."""
    if isinstance(found, float):
        return float(f"{found:.12g}")
    if isinstance(found, dict):
        return {name: round_numbers(value) for name, value in found.items()}
    if isinstance(found, list | tuple):
        return [round_numbers(value) for value in found]
    return round_numbers(asdict(found)) if is_dataclass(found) and not isinstance(found, type) else found


def _submit_as_documented(master: str, folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """Run the spark-submit of docs/skew-platforms.md in a folder, on this master and with paths there."""
    page = (ROOT / "docs" / "skew-platforms.md").read_text("utf-8")
    [command] = re.findall(r"^spark-submit .*?[^\\]$", page, re.MULTILINE | re.DOTALL)
    words = shlex.split(command.replace("\\\n", " "))[1:]
    # YARN brings an archive of Python's packages, which this machine has, and runs the driver.
    for option in ("--master", "--deploy-mode", "--archives", "--conf", "--conf"):
        at = words.index(option)
        del words[at : at + 2]
    script = words.index("spark_validation/submit.py")
    assert words[script - 2 : script] == ["--py-files", "spark_validation.zip"]
    shutil.make_archive(str(folder / "spark_validation"), "zip", ROOT, "spark_validation")
    words[script] = str(ROOT / words[script])
    words = [re.sub("^s3://bucket", folder.as_uri(), word) for word in words]
    conf = ["--conf", "spark.executor.memory=512m", "--conf", "spark.driver.host=127.0.0.1"]
    conf += ["--conf", f"spark.executor.extraJavaOptions={SHORT_LIVED_JAVA}"]
    conf += ["--driver-java-options", SHORT_LIVED_JAVA]
    return subprocess.run(
        [spark_home() / "bin" / "spark-submit", "--master", master, "--driver-memory", "512m",
         *conf, *words, *more],
        cwd=folder,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(spark_home())},
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip


MANY = 240_000
MANY_TASKS = (5_000, 1_000)
"""The most and the fewest records of a task, so that there are many."""
FINISHED = re.compile(r"Finished task (\d+)\.\d+ in stage 0\.")


@pytest.mark.nightly("a Spark cluster with two workers: six JVMs, one of which is killed")
def test_killed_worker_is_no_loss(
    spark: SparkSession, kafka: DevCluster, prefix: str, tmp_path: Path
) -> None:
    """The spans of the lost worker are read again by the other one, and counted once."""
    topic, properties = f"{prefix}a", {"bootstrap.servers": kafka.bootstrap_servers}
    create_topic(kafka.bootstrap_servers, topic, 4)
    keys = (b"key-%d" % (number % 7_919) if number % 10 else b"hot" for number in range(MANY))
    send(kafka.bootstrap_servers, topic, keys)
    spans = read_spans(kafka.bootstrap_servers, topic)
    local = result_of(spark, topic, spans, properties, JobSettings(full=True, what_if=(24,)))
    assert local.sample.records == MANY

    with standalone(tmp_path / "cluster", workers=2) as cluster:
        driver = start_driver(tmp_path, cluster.url, topic, spans, properties, {"full": True}, MANY_TASKS)
        try:
            lost = eventually(
                lambda: [w for w in cluster.workers if FINISHED.search(w.read_executor_log())], bool
            )[0]
            lost.process.kill()
            out, _ = read_output(driver)
        finally:
            driver.kill()
            driver.wait()
        assert lost.process.wait() != 0
        (second,) = (worker for worker in cluster.workers if worker is not lost)
        before, after = (set(FINISHED.findall(worker.read_executor_log())) for worker in (lost, second))
    tasks = before | after
    assert tasks == {str(number) for number in range(len(tasks))}
    assert len(before) < len(tasks), "it was killed in the midst"
    assert before <= after, "what it had read was lost with it"
    (found,) = from_document(json.loads(out)).topics
    assert round_numbers(found) == round_numbers(local)


@pytest.mark.nightly("a Spark cluster and two drivers; that errors of Python are one line is a unit test")
def test_missing_packages_of_executors_are_named(
    kafka: DevCluster, project: Project, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """First without any, then with all but Kafka's client."""
    topic = f"{project.prefix}a"
    fill_topic(kafka.bootstrap_servers, topic, RECORDS, BEGIN)
    folder = tmp_path_factory.mktemp("executors")
    venv.create(folder / "bare", with_pip=False, symlinks=True)
    python = folder / "bare" / "bin" / "python"
    (packages,) = (folder / "bare" / "lib").glob("python*/site-packages")
    assert list(packages.iterdir()) == []
    with standalone(folder / "cluster") as cluster:
        words = ["skew", topic, "--master", cluster.url]
        java = f"executor.extraJavaOptions={SHORT_LIVED_JAVA}"
        for setting in ("executor.memory=512m", java, "driver.host=127.0.0.1", f"pyspark.python={python}"):
            words += ["--spark-conf", f"spark.{setting}"]
        without_any = project.process(*words).needs(1)
        for package in Path(confluent_kafka.__file__).parents[1].iterdir():
            if "confluent_kafka" not in package.name:
                (packages / package.name).symlink_to(package)
        without_client = project.process(*words).needs(1)
        python.unlink()
        without_python = project.process(*words).needs(1)
    calls = (without_any, without_client, without_python)
    version = ".".join(map(str, sys.version_info[:2]))
    named = ("lacks numpy", f"{socket.gethostname()} lacks confluent-kafka", f"cannot run {python}")
    for call, reason in zip(calls, named, strict=True):
        error, hint = call.err.splitlines()[-2:]
        assert error.startswith("Error: ")
        assert error.endswith(reason)
        assert f"Python {version}.x with confluent-kafka" in hint
    assert not [call for call in calls if "Traceback" in call.said]
