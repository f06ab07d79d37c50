"""`kafkaform skew` from the command line to its reports, with Spark."""

import json
from collections.abc import Callable
from pathlib import Path
from time import sleep

import psutil
import pytest
from confluent_kafka import Producer

from kafkaform.cluster.kafka.cluster import KafkaCluster
from kafkaform.devcluster.cluster import DevCluster
from tests.support.cli.project import Project, Terminal, kafkaform, plain, run_in_process
from tests.support.clusters.fixtures import TIMEOUT_S, Account, eventually
from tests.support.clusters.topics import make_topic
from tests.support.skew.producers import produce_keys

KEY = "jane.doe-4711"
"""A key that is personal data, and nothing else is called."""


def hot_keys() -> list[str]:
    """Half of the records have one key."""
    return [KEY if number % 2 else f"{KEY}-{number % 300}" for number in range(2000)]


@pytest.mark.usefixtures("one_session")
def test_keys_are_reported_only_on_request(tmp_path: Path) -> None:
    """From a file, without a cluster, and judged by a policy all the same."""
    Project(tmp_path, "", "").topic("orders", partitions=4, skew={"maxKeyShare": 0.2})
    rows = [{"key": key, "partition": 0, "size": 10, "offset": n} for n, key in enumerate(hot_keys())]
    (tmp_path / "orders.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    call = run_in_process(
        *("skew", "--from", "orders.jsonl"),
        *("--show-keys", "--out", "a.json", "--out", "a.md", "--out", "a.html", "--out", "-"),
        *("--history", "old"),
        cwd=tmp_path,
    ).needs(2)
    assert call.said == ""
    assert KEY in call.out
    reports = [tmp_path / "a.json", tmp_path / "a.md", tmp_path / "a.html", *(tmp_path / "old").iterdir()]
    assert len(reports) == 4
    for path in reports:
        assert KEY in path.read_text(), path.name
    document = json.loads((tmp_path / "a.json").read_text())
    assert (document["cluster_id"], document["cluster_name"]) == (None, None)
    (topic,) = document["topics"]
    assert (topic["name"], topic["policy"]["status"]) == ("orders", "fail")
    assert len(topic["partitions"]) == 4


def test_skew_journey_from_kafka_to_plan(project: Project, real_cluster: KafkaCluster) -> None:
    """Two topics in one session: one breaks its policy, one is empty; no artefact has a key in it."""
    hot = produce_keys(real_cluster, project.servers, f"{project.prefix}hot", 4, hot_keys())
    empty = produce_keys(real_cluster, project.servers, f"{project.prefix}empty", 2, [])
    project.topic("hot", partitions=4, skew={"maxKeyShare": 0.2})
    project.topic("empty", partitions=2, skew={"maxPartitionRatio": 1.5})
    project.group("shop", topics=[hot], members={"expected": 2})
    call = kafkaform(
        "--debug",
        *project.add_cluster(["skew", "--what-if", "5,8", "--seed", "7"]),
        *("--out", "a.json", "--out", "a.md", "--out", "a.html", "--out", "-", "--history", "old"),
        cwd=project.folder,
    ).needs(2)
    document = json.loads((project.folder / "a.json").read_text())
    by_name = {topic["name"]: topic for topic in document["topics"]}
    assert by_name.keys() == {hot, empty}
    topic = by_name[hot]
    assert topic["diagnosis"] == "hot_keys"
    assert topic["policy"]["status"] == "fail"
    assert topic["sample"]["records"] == topic["sample"]["population"] == 2000
    assert topic["sample"]["seed"] == 7
    assert topic["hot_keys"][0]["share"]["value"] == pytest.approx(0.5)
    assert topic["hot_keys"][0]["key"] is None
    assert {5, 8} <= {item["partitions"] for item in topic["what_if"]}
    assert [group["name"] for group in topic["groups"]] == [f"{project.prefix}shop"]
    assert all(item["log_bytes"] > 0 for item in topic["partitions"] if item["log_records"])
    assert (by_name[empty]["diagnosis"], by_name[empty]["policy"]["status"]) == ("empty", "pass")
    assert hot in call.out
    assert "INFO" in call.err, "Spark's log is shown with --debug"
    project.topic("hot", partitions=8, skew={})
    planned = project.run("plan", "--skew", "a.json", "--format", "markdown").needs(0)
    assert hot in planned.out
    everything = {path.name: path.read_text() for path in project.folder.rglob("*") if path.is_file()}
    assert len([name for name in everything if name.startswith("skew-")]) == 1
    for name, text in {**everything, "stdout": call.out, "stderr": call.err, "plan": planned.both}.items():
        assert KEY not in text, name
        assert KEY.encode().hex() not in text, name


@pytest.mark.usefixtures("one_session")
def test_unauthorized_topic_does_not_stop_skew_of_others(
    account: Callable[..., Account], kafka_acl: DevCluster, prefix: str, tmp_path: Path
) -> None:
    names = {name: f"{prefix}{name}" for name in ("open", "closed")}
    few = account(
        f"TOPIC:{prefix}*:DESCRIBE",
        f"TOPIC:{prefix}*:DESCRIBE_CONFIGS",
        f"TOPIC:{prefix}*:CREATE",
        f"TOPIC:{prefix}*:WRITE",
        f"TOPIC:{names['open']}:READ",
        "GROUP:kafkaform-skew*:READ",
    )
    producer = Producer(few.client)
    for name in names.values():
        make_topic(few.cluster, name)
        for number in range(20):
            producer.produce(name, b"v", key=str(number).encode())
    assert producer.flush(TIMEOUT_S) == 0
    few.write_java_properties(tmp_path)
    project = Project(tmp_path, kafka_acl.sasl_bootstrap_servers, prefix)
    call = project.run(
        "skew", f"{prefix}*", "--all", "--command-config", "client.properties", "--format", "json"
    ).needs(1)
    assert [topic["name"] for topic in call.json["topics"]] == [names["open"]]
    assert call.json["topics"][0]["partitions"][0]["log_bytes"] is None
    size, refusal = call.said.splitlines()
    assert size.startswith("not read: the bytes")
    assert refusal.startswith("not read: ")


def _is_java(process: psutil.Process) -> bool:
    try:
        return "java" in process.name()
    except psutil.NoSuchProcess:  # one of the scripts that start it
        return False


def test_ctrl_c_ends_spark(project: Project, real_cluster: KafkaCluster) -> None:
    name = produce_keys(real_cluster, project.servers, f"{project.prefix}hot", 4, hot_keys())
    terminal = Terminal(*project.add_cluster(["skew", name, "--records", "all"]), cwd=project.folder)
    terminal.wait_for("Starting Spark")
    main = psutil.Process(terminal.process.pid)
    # Python loses an interrupt that comes while it forks: logging's hook ignores exceptions.
    spark = eventually(lambda: main.children(recursive=True), lambda children: any(map(_is_java, children)))
    terminal.type("\x03")
    call = terminal.end().needs(1)
    assert plain(call.out).splitlines()[-1].startswith("Error: interrupted")
    eventually(lambda: [item for item in spark if item.is_running()], lambda left: not left)


@pytest.mark.usefixtures("one_session")
def test_metrics_are_appended_and_form_trend(tmp_path: Path) -> None:
    """A second run draws the trend from the first one's rows; what cannot be written leaves the report."""
    rows = [{"key": key, "partition": 0, "size": 10, "offset": n} for n, key in enumerate(hot_keys())]
    (tmp_path / "orders.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    read = ("skew", "--from", "orders.jsonl", "--history", "lake/skew")
    kinds = (("--history-format", "parquet"), ())
    # A folder of rows is recognised.
    for number, (trend, kind) in enumerate(zip((False, True), kinds, strict=True), 1):
        call = run_in_process(*read, *kind, "--out", "page.html", "--out", "a.json", cwd=tmp_path).needs(0)
        assert call.said == ""
        assert len(list((tmp_path / "lake" / "skew").rglob("*.parquet"))) == number
        assert ("oldest first" in (tmp_path / "page.html").read_text()) is trend
        sleep(1)  # reports have whole seconds
    assert not list((tmp_path / "lake").rglob("*.json"))
    assert all(KEY.encode() not in path.read_bytes() for path in (tmp_path / "lake").rglob("*.parquet"))

    nowhere = ("--history", "/proc/none", "--history-format", "parquet")
    call = run_in_process("skew", "--from", "orders.jsonl", *nowhere, "--out", "c.json", cwd=tmp_path)
    assert "/proc/none: " in call.needs(1).said
    assert json.loads((tmp_path / "c.json").read_text())["topics"]
