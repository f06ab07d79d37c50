from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic
from pyspark.sql import SparkSession

from kafkaform.client_properties.java import to_java
from kafkaform.devcluster.cluster import DevCluster
from kafkaform.jars.spark import connector_jars
from spark_validation import session
from spark_validation.configuration import SessionSettings, class_path, configuration, session_settings
from spark_validation.consumers import group_id
from spark_validation.errors import JobFailed, ReadingFailed, SparkMissing, SparkUnavailable
from spark_validation.masters import check_master, check_remote
from spark_validation.redaction import hidden, is_sensitive, secrets
from spark_validation.translation import translated
from tests.support.kafka_fixtures import Account, _binding, _grant, admin_client, eventually, guarded

ROOT = Path(__file__).parents[2]
PASSWORD = 'Tr0ub4dor "horse" battery'
RECORDS = 6_000
READ = 800


# --- settings --------------------------------------------------------------------------------------


def test_a_session_is_local_and_reads_with_two_tasks_for_each_core(tmp_path: Path) -> None:
    found = configuration(SessionSettings(jars=(Path("/a.jar"), Path("/b.jar"))), tmp_path)
    assert found["spark.master"] == f"local[{2 * len(os.sched_getaffinity(0))}]"
    assert found["spark.driver.host"] == found["spark.driver.bindAddress"] == "127.0.0.1"
    assert "spark.driver.extraClassPath" not in found, "the connector stands behind Spark's own jars"
    assert found["spark.sql.sources.useV1SourceList"] == ""


def test_the_users_settings_win_and_add_to_ours(tmp_path: Path) -> None:
    own = {
        "spark.driver.memory": "9g",
        "spark.ui.enabled": "true",
        "spark.jars": "/own.jar",
        "spark.driver.extraClassPath": "/own",
        "spark.driver.extraJavaOptions": "-Dmine=1",
    }
    settings = SessionSettings(jars=(Path("/a.jar"),), conf=own)
    found = configuration(settings, tmp_path)
    assert found["spark.driver.memory"] == "9g"
    assert found["spark.ui.enabled"] == "true"
    assert found["spark.jars"] == "/own.jar"
    assert found["spark.driver.extraClassPath"] == "/own"
    assert class_path(settings, None) == "/a.jar"
    assert class_path(settings, "/dist/*") == "/a.jar:/dist/*"
    assert class_path(SessionSettings(), None) is None
    assert found["spark.driver.extraJavaOptions"].endswith(" -Dmine=1")
    assert "log4j2.configurationFile" in found["spark.driver.extraJavaOptions"]


def test_a_pattern_of_the_users_hides_more_and_never_less(tmp_path: Path) -> None:
    own = {"spark.sql.redaction.options.regex": "nothing"}
    for found in (configuration(SessionSettings(conf=own), tmp_path), session_settings(own)):
        assert found["spark.sql.redaction.options.regex"].endswith("|nothing")
        assert "jaas" in found["spark.sql.redaction.options.regex"]
        assert "jaas" in found["spark.redaction.regex"]


def test_a_cluster_gets_nothing_that_only_holds_on_this_machine(tmp_path: Path) -> None:
    settings = SessionSettings((Path("/a.jar"),), "spark://host:7077", class_archive=tmp_path / "classes.jsa")
    found = configuration(settings, tmp_path)
    assert found["spark.master"] == "spark://host:7077"
    assert found["spark.jars"] == "/a.jar"
    only_here = {
        "spark.driver.host",
        "spark.driver.bindAddress",
        "spark.local.dir",
        "spark.driver.extraClassPath",
    }
    assert not only_here & set(found)
    assert "Archive" not in found["spark.driver.extraJavaOptions"]


def test_a_long_run_is_compiled_better_than_a_sample(tmp_path: Path) -> None:
    short, long = (
        configuration(SessionSettings(full=full), tmp_path)["spark.driver.extraJavaOptions"]
        for full in (False, True)
    )
    assert "TieredStopAtLevel=1" in short
    assert "TieredStopAtLevel" not in long


def test_the_consumer_cache_holds_every_partition(tmp_path: Path) -> None:
    found = configuration(SessionSettings(partitions=500), tmp_path)
    assert found["spark.kafka.consumer.cache.capacity"] == "500"


# --- what cannot start -----------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize("url", ["sparks://x:1", "spark://", "local[x]", "spark://host:port", "mesos://a:1"])
def test_what_is_no_master_is_said_before_java_starts(url: str) -> None:
    with pytest.raises(SparkUnavailable, match="is no Spark master") as raised:
        check_master(url)
    assert "spark://host:port" in str(raised.value.hint)


@pytest.mark.parametrize("url", ["local", "local[4]", "local[*]", "local[2,3]", "yarn"])
def test_masters_without_an_address_pass(url: str) -> None:
    check_master(url)


@pytest.mark.parametrize("kind", ["spark://127.0.0.1:{}", "k8s://https://127.0.0.1:{}", "k8s://127.0.0.1:{}"])
def test_a_master_where_nobody_listens_is_one_line(kind: str) -> None:
    url = kind.format(free_port())
    with pytest.raises(SparkUnavailable, match="cannot be reached: Connection refused"):
        check_master(url)


def test_one_living_master_of_several_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        check_master(f"spark://127.0.0.1:{free_port()},127.0.0.1:{server.getsockname()[1]}")


def test_a_token_in_a_connect_url_is_not_repeated() -> None:
    with pytest.raises(SparkUnavailable, match="cannot be reached") as raised:
        check_remote(f"sc://127.0.0.1:{free_port()}/;token=s3cret")
    assert "s3cret" not in raised.value.message
    with pytest.raises(SparkUnavailable, match="no Spark Connect URL") as raised:
        check_remote("s3cret")
    assert "s3cret" not in raised.value.message


def test_without_the_extra_the_hint_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "pandas" else name)
    with (
        pytest.raises(SparkMissing, match="pandas is not installed") as raised,
        session.start(SessionSettings()),
    ):
        pytest.fail("it started")
    assert raised.value.hint == "pip install 'kafkaform[spark]'"


def test_spark_connect_without_its_packages_names_them(monkeypatch: pytest.MonkeyPatch) -> None:
    found = session._installed
    monkeypatch.setattr(session, "_installed", lambda name: name != "grpc" and found(name))
    with (
        pytest.raises(SparkMissing, match="Spark Connect needs grpcio") as raised,
        session.start(SessionSettings(remote="sc://127.0.0.1:1")),
    ):
        pytest.fail("it started")
    assert "pyspark[connect]" in str(raised.value.hint)


def java(folder: Path, text: str) -> Path:
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return folder


# These run in processes of their own: the session of the `spark` fixture lives in this one.
STARTS = """
import json, sys
from pathlib import Path
from spark_validation import session
from spark_validation.errors import SkewError
from spark_validation.session import SessionSettings, start
session._START_S["spark"] = 12.0
master, home = sys.argv[1:]
settings = SessionSettings(master=master or None, java_home=Path(home) if home else None)
try:
    with start(settings):
        print("started")
except SkewError as error:
    print(json.dumps([type(error).__name__, error.message, error.hint]))
"""


def refused(tmp_path: Path, *, master: str = "", home: Path | str = "") -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", STARTS, master, str(home)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    assert not list(tmp_path.glob("kafkaform-spark-*"))
    answer: list[str] = json.loads(done.stdout)
    assert "\n" not in answer[1]
    return answer


def test_a_java_that_does_not_start_is_one_line_with_its_reason(tmp_path: Path) -> None:
    home = java(tmp_path / "home", "echo 'Error: could not reserve memory' >&2; exit 1")
    kind, message, hint = refused(tmp_path, home=home)
    assert kind == "SparkUnavailable"
    assert message == "Spark's Java did not start: Error: could not reserve memory"
    assert "Java 17" in hint


def test_a_java_that_is_too_old_is_said_so(tmp_path: Path) -> None:
    text = "echo 'java.lang.UnsupportedClassVersionError: class file version 61.0' >&2; exit 1"
    _, message, hint = refused(tmp_path, home=java(tmp_path / "home", text))
    assert message == "Spark's Java did not start: it is too old"
    assert "Java 17" in hint


def test_a_master_that_never_answers_is_given_up(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"spark://127.0.0.1:{server.getsockname()[1]}"
        kind, message, _ = refused(tmp_path, master=url)
    assert kind == "SparkUnavailable"
    assert message == f"the Spark master {url} gave no answer within 12 s"


# --- secrets ---------------------------------------------------------------------------------------


def test_a_password_inside_a_login_module_is_a_secret_of_its_own() -> None:
    properties = to_java(
        {
            "bootstrap.servers": "a:1",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "somebody",
            "sasl.password": PASSWORD,
        }
    )
    found = secrets(properties)
    assert PASSWORD in found
    text = hidden(f"{PASSWORD} {properties['sasl.jaas.config']} a:1", found)
    assert "horse" not in text
    assert text.endswith(" a:1")


@pytest.mark.parametrize(
    "name",
    ["kafka.sasl.jaas.config", "ssl.key.password", "ssl.keystore.key", "spark.hadoop.fs.s3a.secret.key",
     "sasl.oauthbearer.client.secret", "spark.hadoop.fs.s3a.access.key"],
)  # fmt: skip
def test_names_of_secrets_are_known(name: str) -> None:
    assert is_sensitive(name)


def test_a_short_secret_does_not_hide_half_of_a_message() -> None:
    assert hidden("a cat sat: at", {"at"}) == "a cat sat: [hidden]"


def test_consumers_that_are_made_differently_never_share_a_group() -> None:
    one = {"bootstrap.servers": "a:1", "sasl.jaas.config": "x"}
    assert group_id(one) == group_id(dict(reversed(one.items())))
    assert group_id(one) != group_id({**one, "sasl.jaas.config": "y"})


# --- Java's exceptions -----------------------------------------------------------------------------


class JavaClass:
    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names

    def getName(self) -> str:  # noqa: N802 - Java's
        return self.names[0]

    def getSuperclass(self) -> JavaClass | None:  # noqa: N802
        return JavaClass(self.names[1:]) if self.names[1:] else None


class JavaThrowable:
    def __init__(self, *names: str, message: str = "", cause: JavaThrowable | None = None) -> None:
        self.kind, self.message, self.cause = JavaClass((*names, "java.lang.Object")), message, cause

    def getClass(self) -> JavaClass:  # noqa: N802
        return self.kind

    def getMessage(self) -> str:  # noqa: N802
        return self.message

    def getCause(self) -> JavaThrowable | None:  # noqa: N802
        return self.cause


class FromJavaError(Exception):
    def __init__(self, java_exception: JavaThrowable) -> None:
        super().__init__("An error occurred while calling o1.collect")
        self.java_exception = java_exception


def test_an_unknown_failure_is_its_innermost_cause_without_secrets() -> None:
    inner = JavaThrowable("java.io.IOException", message=f"disk full at {PASSWORD}\n\tat x.y(z)")
    error = FromJavaError(
        JavaThrowable("org.apache.spark.SparkException", message="Job aborted", cause=inner)
    )
    found = translated(error, topic="t", secrets={PASSWORD})
    assert isinstance(found, JobFailed)
    assert found.message == "Spark could not count topic t: IOException: disk full at [hidden]"


def test_a_failure_of_pythons_on_executors_is_its_last_line() -> None:
    text = "Traceback:\n  File \"x\", line 1\nModuleNotFoundError: No module named 'numpy'\n"
    error = FromJavaError(JavaThrowable("org.apache.spark.api.python.PythonException", message=text))
    found = translated(error, topic="t")
    assert found.message == "Python failed on Spark's executors: ModuleNotFoundError: No module named 'numpy'"
    assert "numpy, pandas and pyarrow" in str(found.hint)


def test_the_class_decides_and_not_the_words() -> None:
    words = "org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized"
    found = translated(
        FromJavaError(JavaThrowable("java.lang.IllegalStateException", message=words)), topic="t"
    )
    assert isinstance(found, JobFailed)
    found = translated(
        FromJavaError(JavaThrowable("x.Mine", "org.apache.kafka.common.errors.TopicAuthorizationException")),
        topic="t",
    )
    assert found.message == "this account may not read topic t"


class FromConnectError(Exception):
    def getStackTrace(self) -> str:  # noqa: N802 - PySpark's
        return (
            "java.util.concurrent.ExecutionException\n"
            "\tat java.util.concurrent.CompletableFuture.reportGet(CompletableFuture.java:396)\n"
            "Caused by: org.apache.kafka.common.errors.SaslAuthenticationException: Authentication: no\n"
            "\tat a.b.c(D.java:1)"
        )


def test_what_spark_connect_sends_is_told_apart_by_class_too() -> None:
    found = translated(FromConnectError(), topic="t")
    assert found.message == "the broker did not accept the account that Spark logs in with"


# --- real Kafka, real Spark ------------------------------------------------------------------------


def filled(servers: str, topic: str) -> None:
    admin = admin_client(servers)
    for future in admin.create_topics([NewTopic(topic, 2, 1)]).values():
        future.result(30)
    producer = Producer({"bootstrap.servers": servers})
    for number in range(RECORDS):
        producer.produce(topic, key=str(number % 50), value="x", partition=number % 2)
    assert producer.flush(30) == 0


def counted(
    spark: SparkSession, topic: str, kafka: Mapping[str, str], tell: Any = None, partitions: int = 2
) -> Any:
    from spark_validation.measure import tally
    from spark_validation.progress import following
    from spark_validation.source import records
    from spark_validation.tally import Layout
    from spark_validation.windows import Span, plan_windows

    plan = plan_windows([Span(number, 0, RECORDS // 2) for number in range(partitions)], records=80, seed=1)
    layout = Layout(partitions, plan.slices, plan.weights, plan.census)
    with following(spark, tell):
        return tally(records(spark, topic, plan, kafka), layout, reducers=2)


def by_java(servers: str, properties: Mapping[str, str]) -> dict[str, str]:
    return to_java({"bootstrap.servers": servers, **properties})


def test_progress_is_told_and_nobody_stays_to_tell_it(
    spark: SparkSession, kafka: DevCluster, prefix: str
) -> None:
    filled(kafka.bootstrap_servers, f"{prefix}a")
    told: list[tuple[int, int, str]] = []
    before = set(threading.enumerate())
    found = counted(
        spark, f"{prefix}a", {"bootstrap.servers": kafka.bootstrap_servers}, lambda *a: told.append(a)
    )
    assert int(found.records.sum()) == READ
    assert told
    assert {phase for _, _, phase in told} <= {"reading", "counting"}
    assert all(0 <= done <= total for done, total, _ in told)
    assert set(threading.enumerate()) <= before


def test_an_account_reads_and_its_password_is_in_no_plan(
    spark: SparkSession,
    kafka_acl: DevCluster,
    account: Callable[..., Account],
    prefix: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from spark_validation.source import records
    from spark_validation.windows import Span, plan_windows

    topic = f"{prefix}a"
    filled(kafka_acl.bootstrap_servers, topic)
    kafka = by_java(kafka_acl.sasl_bootstrap_servers, account(f"TOPIC:{topic}:READ").properties)
    assert int(counted(spark, topic, kafka).records.sum()) == READ
    plan = plan_windows([Span(number, 0, RECORDS // 2) for number in range(2)], records=80, seed=1)
    for mode in ("extended", "formatted", "cost", "codegen"):
        records(spark, topic, plan, kafka).explain(mode)
    shown = capsys.readouterr().out
    assert "BatchScan" in shown
    assert not [value for value in (kafka["sasl.jaas.config"], "LoginModule") if value in shown]


def test_what_kafka_refuses_is_one_line_each(
    spark: SparkSession, kafka_acl: DevCluster, account: Callable[..., Account], prefix: str
) -> None:
    from py4j.protocol import Py4JJavaError

    topic = f"{prefix}a"
    filled(kafka_acl.bootstrap_servers, topic)
    servers = kafka_acl.sasl_bootstrap_servers
    blind = account(f"TOPIC:{topic}:DESCRIBE").properties
    wrong = {**blind, "sasl.password": "wrong-password"}
    plain = {"bootstrap.servers": kafka_acl.bootstrap_servers}
    cases: list[tuple[str, Mapping[str, str], str]] = [
        (topic, by_java(servers, blind), f"this account may not read topic {topic}"),
        (topic, by_java(servers, wrong), "the broker did not accept the account"),
        (f"{prefix}none", plain, f"topic {prefix}none does not exist"),
        (topic, {**plain, "security.protocol": "NONE"}, "does not accept a client property"),
    ]
    for name, properties, message in cases:
        with pytest.raises(Py4JJavaError) as raised:
            counted(spark, name, properties)
        found = translated(raised.value, topic=name, secrets=secrets(properties))
        assert isinstance(found, ReadingFailed)
        assert message in found.message
        assert "\n" not in found.message
        assert found.hint


@pytest.fixture(scope="module")
def guarded_topic() -> Iterator[tuple[DevCluster, dict[str, str]]]:
    """A topic that only an account with a telling password may read."""
    with guarded(1, heap_mb=256, sasl_users={"somebody": PASSWORD, "nobody": PASSWORD + "2"}) as cluster:
        filled(cluster.bootstrap_servers, "orders")
        _grant(admin_client(cluster.bootstrap_servers), [_binding("somebody", "TOPIC", "orders", "READ")])
        yield (
            cluster,
            {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "somebody"},
        )


SCRIPT = """
import json, sys, urllib.request
from pathlib import Path
import psutil
from kafkaform.jars.spark import connector_jars
from spark_validation.redaction import secrets
from spark_validation.session import SessionSettings, start
from spark_validation.translation import translated
from tests.spark.test_skew_session import counted

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
settings = SessionSettings(
    jars=tuple(connector_jars()), master="local[2]", memory="512m", conf=conf, debug=True
)
with start(settings) as spark:
    print("records", counted(spark, "orders", good).records.sum())
    for other in others:
        try:
            counted(spark, "orders", other)
        except Exception as error:
            print("refused", translated(error, topic="orders", secrets=secrets(other)).message)
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


def test_a_password_is_in_no_artefact_of_a_run(
    guarded_topic: tuple[DevCluster, dict[str, str]], tmp_path: Path
) -> None:
    cluster, login = guarded_topic
    out = tmp_path / "out"
    (out / "events").mkdir(parents=True)

    def java_of(user: str, password: str) -> dict[str, str]:
        given = {**login, "sasl.username": user, "sasl.password": password}
        return by_java(cluster.sasl_bootstrap_servers, given)

    good, other, wrong = (
        java_of("somebody", PASSWORD), java_of("nobody", PASSWORD + "2"), java_of("somebody", PASSWORD + "3")
    )  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(out)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
        input=json.dumps([good, [other, wrong]]),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines() == EXPECTED
    (out / "stdout").write_text(done.stdout)
    (out / "stderr").write_text(done.stderr)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    texts = {path: path.read_text(errors="replace") for path in files}
    assert "ConsumerConfig values" in texts[out / "stderr"], "the log is there to be looked at"
    assert any("SQLExecutionStart" in text for text in texts.values()), "so is the event log"
    assert any("BatchScan" in text for path, text in texts.items() if path.name.startswith("page-"))
    assert "java" in texts[out / "processes.txt"]
    for path, text in texts.items():
        for part in ("horse", "Tr0ub4dor"):
            assert part not in text, path
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"], "nothing else is left"


EXPECTED = [
    f"records {READ}",
    "refused this account may not read topic orders",
    "refused the broker did not accept the account that Spark logs in with",
    "left 0",
]


LONG = """
import sys
from spark_validation.session import SessionSettings, start
with start(SessionSettings(master="local[2]", memory="512m")) as spark:
    print(spark.sparkContext._gateway.proc.pid, flush=True)
    spark.range(10**12).selectExpr("sum(id * id % 7)").collect()
"""


def test_an_interrupt_leaves_no_java_behind(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", LONG],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    java_process = psutil.Process(int(process.stdout.readline()))
    # It computes once its processors are busy.
    eventually(lambda: java_process.cpu_percent(0.2), lambda busy: busy > 50)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode != 0
    assert errors.rstrip().endswith("KeyboardInterrupt")
    eventually(java_process.is_running, lambda running: not running)
    assert list(tmp_path.iterdir()) == []


CONSUMER = "org.apache.kafka.clients.consumer.KafkaConsumer"
PREPARED = """
import sys
from pathlib import Path
from spark_validation.session import SessionSettings, start
archive, *jars = map(Path, sys.argv[1:])
with start(SessionSettings(tuple(jars), master="local[1]", memory="512m", class_archive=archive)) as spark:
    java = spark._jvm.java
    runtime = java.lang.management.ManagementFactory.getRuntimeMXBean()
    used = [option for option in runtime.getInputArguments() if "Archive" in option]
    mapped = str(archive) in Path(f"/proc/{java.lang.ProcessHandle.current().pid()}/maps").read_text()
    found = [java.lang.Class.forName(name).getName() for name in jars and ["@CONSUMER@"]]
    print(spark.range(10).count(), *used, "mapped" if mapped else "not mapped", *found, sep=chr(10))
"""


def prepared(archive: Path, *jars: Path) -> list[str]:
    """Run a session of its own: its answer, the option of the archive, whether Java took it, and a class."""
    done = subprocess.run(
        [sys.executable, "-c", PREPARED.replace("@CONSUMER@", CONSUMER), archive, *jars],
        cwd=archive.parent.parent,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_a_first_session_prepares_classes_for_the_next_and_a_damaged_file_stops_none(tmp_path: Path) -> None:
    """One that reads files and has no connector makes what one that reads Kafka is served by, too."""
    archive = tmp_path / "cache" / "classes.jsa"
    assert prepared(archive)[1].startswith("-XX:ArchiveClassesAtExit=")
    assert archive.stat().st_size > 10_000_000
    assert sorted(archive.parent.iterdir()) == [archive]
    taken = f"-XX:SharedArchiveFile={archive}"
    assert prepared(archive) == ["10", taken, "mapped"]
    assert prepared(archive, *connector_jars()) == ["10", taken, "mapped", CONSUMER]
    archive.write_bytes(b"not what Java expects")
    assert prepared(archive)[0] == "10"
