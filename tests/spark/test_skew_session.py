"""Sessions with a JVM of their own, and what the shared one reads of a real Kafka and says of refusals."""

import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kafkaform.devcluster.cluster import DevCluster
from spark_validation import kafka_source, measure
from tests.support.clusters.fixtures import Account, connect, grant_access, start_guarded
from tests.support.skew.producers import create_topic, name_keys, send
from tests.support.skew.sessions import RECORDS, count_topic, plan_topic, start_refused

ROOT = Path(__file__).parents[2]
PASSWORD = 'Tr0ub4dor "horse" battery'
READ = 800


@pytest.mark.nightly("a JVM of its own that waits for 12 s; that nobody listens at all is a unit test")
def test_unresponsive_master_is_unavailable(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"spark://127.0.0.1:{server.getsockname()[1]}"
        kind, message, _ = start_refused(tmp_path, master=url)
    assert kind == "SparkUnavailable"
    assert message == f"the Spark master {url} did not answer within 12 s"


def fill_topic(servers: str, topic: str) -> None:
    create_topic(servers, topic, 2)
    send(servers, topic, name_keys(number % 50 for number in range(RECORDS)), partitions=cycle((0, 1)))


def test_progress_is_reported_and_thread_ends(
    spark: SparkSession, kafka: DevCluster, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_validation.job._PAUSE_S", 0.01)  # so few records are read in less than a pause
    fill_topic(kafka.bootstrap_servers, f"{prefix}a")
    progress: list[tuple[int, int, str]] = []
    before = set(threading.enumerate())
    found = count_topic(
        spark, f"{prefix}a", {"bootstrap.servers": kafka.bootstrap_servers}, lambda *a: progress.append(a)
    )
    assert int(found.records.sum()) == READ
    assert progress
    assert {phase for _, _, phase in progress} <= {"reading", "counting"}
    assert all(0 <= done <= total for done, total, _ in progress)
    assert set(threading.enumerate()) <= before


def test_password_is_in_no_plan(
    spark: SparkSession,
    kafka_acl: DevCluster,
    account: Callable[..., Account],
    prefix: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic = f"{prefix}a"
    fill_topic(kafka_acl.bootstrap_servers, topic)
    properties = account(f"TOPIC:{topic}:READ").properties
    kafka = {**properties, "bootstrap.servers": kafka_acl.sasl_bootstrap_servers}
    assert int(count_topic(spark, topic, kafka).records.sum()) == READ
    read = plan_topic(topic)
    tasks = kafka_source.divide_into_tasks([read.plan], 2)
    blocks = measure.kafka_blocks(spark, [read], kafka, tasks, measure.divide([80], 2))
    for mode in ("extended", "formatted", "cost", "codegen"):
        blocks.explain(mode)
    shown = capsys.readouterr().out
    assert "MapInArrow" in shown
    assert kafka["sasl.password"] not in shown


@pytest.fixture(scope="module")
def guarded_topic() -> Iterator[tuple[DevCluster, dict[str, str]]]:
    """A topic that only an account with a telling password may read."""
    with start_guarded(
        1, heap_mb=256, sasl_users={"somebody": PASSWORD, "nobody": PASSWORD + "2"}
    ) as cluster:
        fill_topic(cluster.bootstrap_servers, "orders")
        with connect(cluster.bootstrap_servers) as root:
            grant_access(root, "User:somebody", "TOPIC:orders:READ")
        yield (
            cluster,
            {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "somebody"},
        )


SCRIPT = """
import json, sys, urllib.request
from pathlib import Path
import psutil
from spark_validation.session import start
from spark_validation.configuration import SessionSettings
from tests.support.skew.sessions import count_topic

out = Path(sys.argv[1])
good, others = json.loads(sys.stdin.read())
conf = {
    "spark.eventLog.enabled": "true",
    "spark.eventLog.dir": (out / "events").as_uri(),
    "spark.eventLog.compress": "false",
    "spark.ui.enabled": "true",
    "spark.ui.port": "0",
    "spark.my.password": PASSWORD,
    "spark.driver.extraJavaOptions": "-Dspark.ui.port=0",
}
settings = SessionSettings(master="local[2]", memory="512m", conf=conf, debug=True)
with start(settings) as spark:
    print("records", count_topic(spark, "orders", good).records.sum())
    for other in others:
        error = count_topic(spark, "orders", other)
        print("refused", error.message)
        (out / "error.txt").open("a").write(str(error))
    ui = spark.sparkContext.uiWebUrl
    api = f"{ui}/api/v1/applications/{spark.sparkContext.applicationId}"
    pages = [f"{api}/sql?details=true&planDescription=true", f"{api}/environment", f"{api}/jobs"]
    pages += [f"{api}/stages", f"{ui}/SQL/execution/?id=0", f"{ui}/environment/"]
    for number, page in enumerate(pages):
        (out / f"page-{number}").write_bytes(urllib.request.urlopen(page).read())
    processes = psutil.Process().children(recursive=True)
    processes = [p for p in processes if p.status() != psutil.STATUS_ZOMBIE]
    assert processes
    lines = [" ".join(p.cmdline()) + " " + str(p.environ()) for p in processes]
    (out / "processes.txt").write_text("\\n".join(lines))
_, alive = psutil.wait_procs(processes, timeout=10)
print("left", len(alive))
""".replace("PASSWORD", repr(PASSWORD))


@pytest.mark.nightly(
    "a JVM with log, event log and pages, and a broker of its own; that no plan has it is tested above"
)
def test_artefacts_have_no_password(guarded_topic: tuple[DevCluster, dict[str, str]], tmp_path: Path) -> None:
    cluster, login = guarded_topic
    out = tmp_path / "out"
    (out / "events").mkdir(parents=True)

    def login_of(user: str, password: str) -> dict[str, str]:
        servers = cluster.sasl_bootstrap_servers
        return {**login, "sasl.username": user, "sasl.password": password, "bootstrap.servers": servers}

    good, second = login_of("somebody", PASSWORD), login_of("nobody", PASSWORD + "2")
    wrong = login_of("somebody", PASSWORD + "3")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(out)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
        input=json.dumps([good, [second, wrong]]),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert re.sub("credentials: .*", "credentials: …", done.stdout).splitlines() == EXPECTED
    (out / "stdout").write_text(done.stdout)
    (out / "stderr").write_text(done.stderr)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    texts = {path: path.read_text(errors="replace") for path in files}
    assert "Finished task" in texts[out / "stderr"], "the log is there to be looked at"
    assert any("SQLExecutionStart" in text for text in texts.values()), "so is the event log"
    assert any("MapInArrow" in text for path, text in texts.items() if path.name.startswith("page-"))
    assert "java" in texts[out / "processes.txt"]
    for path, text in texts.items():
        for part in ("horse", "Tr0ub4dor"):
            assert part not in text, path
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"], "nothing else is left"


EXPECTED = [
    f"records {READ}",
    "refused this account may not read topic orders",
    "refused the broker rejected the credentials: …",
    "left 0",
]
