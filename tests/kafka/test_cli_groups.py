"""Groups from manifest to real consumers: plan, apply, reset, and the client settings that they take."""

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from kafkaform.config.client_config import render_settings
from kafkaform.core.kafka_configs import refused_by_client
from kafkaform.devcluster.jars.cache import fetch_kafka_classpath
from kafkaform.devcluster.jars.java import find_java
from kafkaform.plan import measuring
from tests.support.cli.project import Project
from tests.support.client_settings import EVERYTHING, build_group
from tests.support.clusters.fixtures import connect, eventually
from tests.support.clusters.group_clients import commit, join_members, produce, running


@pytest.fixture
def project(project: Project) -> Project:
    """A topic with 3 partitions of 10 records each."""
    project.topic("a", partitions=3, keyed=False)
    project.apply("topics").needs(0)
    produce(project.servers, f"{project.prefix}a", dict.fromkeys(range(3), 10))
    return project


def declare(project: Project, **spec: Any) -> str:
    """Write (or rewrite) the manifest of the group; returns its full name."""
    return project.group("g", **{"topics": [project.prefix + "a"], "protocol": "consumer", **spec})


def test_offsets_of_many_groups_are_committed_in_topics(tmp_path: Path, servers: str, prefix: str) -> None:
    """Leaders that have not opened the logs of new topics yet refuse to tell their ends."""
    project = Project(tmp_path, servers, prefix)
    names = [project.topic(str(number), partitions=8) for number in range(60)]
    for number in range(20):
        read = names[number * 2 : number * 2 + 6]
        project.group(str(number), topics=read, offsets={"initial": "earliest"})
    assert "80 created" in project.apply("topics").needs(0).out
    with connect(servers) as cluster:
        groups = cluster.groups([f"{prefix}{number}" for number in range(20)]).groups
    assert [len(group.committed) for group in groups.values()] == [48] * 20


@pytest.mark.parametrize(
    ("protocol", "config", "value"),
    [("consumer", "consumer.session.timeout.ms", "50s"), ("streams", "streams.num.standby.replicas", 1)],
)
def test_empty_group_has_the_protocol_of_its_configs(
    project: Project, protocol: str, config: str, value: object
) -> None:
    """Brokers list such a group as classic."""
    name = declare(project, protocol=protocol, config={config: value}, offsets={"initial": "earliest"})
    project.apply("topics").needs(0)
    call = eventually(lambda: project.run("get", "group", name), lambda call: config in call.out).needs(0)
    got = yaml.safe_load(call.out)["spec"]
    assert (got["protocol"], got["config"]) == (protocol, {config: value})
    assert status(project)["protocol"] == protocol
    project.write("topics/group-g.yaml", call.out)
    plan = project.run("plan", "topics", "--format", "json").needs(0).json
    assert not {"KF213", "KF214"} & {found["code"] for found in plan["diagnostics"]}


def test_unknown_protocol_is_omitted_with_note(project: Project) -> None:
    name = declare(project, offsets={"initial": "earliest"})
    project.apply("topics").needs(0)
    got = project.run("get", "group", name).needs(0)
    assert "protocol" not in yaml.safe_load(got.out)["spec"]
    assert "left out: protocol: " in got.err
    assert status(project)["protocol"] is None
    with join_members(project.servers, name, f"{project.prefix}a", "consumer"):
        pass
    assert "protocol: consumer" in project.run("get", "group", name).needs(0).out
    assert status(project)["protocol"] == "consumer"


def status(project: Project) -> dict[str, Any]:
    """The status of the group."""
    (shown,) = project.run("status", project.prefix + "g", "--format", "json").needs(0).json["groups"]
    return dict(shown)


def test_restarted_group_reads_new_partitions_whole(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the plan advises: apply, reset the new partitions, start. Its consumers have reset=latest."""
    monkeypatch.setattr(measuring, "WATCH_S", 0.0)  # no consumer by assign() is about
    name, topic = project.prefix + "g", project.prefix + "a"
    commit(project.servers, name, dict.fromkeys(((topic, number) for number in range(3)), 10))
    project.topic("a", partitions=6, keyed=False)
    planned = project.apply("topics").needs(0).words
    reset = re.search(rf"kafkaform (reset {name} --to earliest --topic {topic}:3-5)", planned)
    assert reset is not None, planned
    project.run(*shlex.split(reset[1]), "--out", "reset.json").needs(1)
    project.apply("reset.json", "--allow=ConsumerGroup/*:offset-reset").needs(0)
    produce(project.servers, topic, dict.fromkeys(range(6), 20))
    with running(project.servers, name, [topic], auto_offset_reset="latest") as (member,):
        records = eventually(lambda: member.records, lambda seen: len(seen) >= 120)
    firsts = [member.firsts()[topic, number] for number in range(6)]
    assert (len(records), firsts) == (120, [10, 10, 10, 0, 0, 0])


JAVA_CLIENT = """\
import java.io.FileReader;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public class Start {
    public static void main(String[] files) throws Exception {
        for (String file : files) {
            Properties given = new Properties();
            given.load(new FileReader(file));
            given.put("bootstrap.servers", "127.0.0.1:1");
            new KafkaConsumer<>(given, new ByteArrayDeserializer(), new ByteArrayDeserializer()).close();
            System.out.println(given.getProperty("group.id"));
        }
    }
}
"""


@pytest.mark.nightly("a Java program is compiled and run")
def test_java_consumer_accepts_generated_properties(tmp_path: Path) -> None:
    source = tmp_path / "Start.java"
    source.write_text(JAVA_CLIENT, "utf-8")
    consumer = {n: v for n, v in EVERYTHING.items() if n not in refused_by_client("consumer")}
    consumer["group.remote.assignor"] = "uniform"
    names = ["classic é \t=", "consumer"]
    groups = [build_group(EVERYTHING, "classic", names[0]), build_group(consumer, "consumer", names[1])]
    files = [tmp_path / f"{number}.properties" for number in range(len(groups))]
    for file, declared in zip(files, groups, strict=True):
        file.write_text(render_settings(declared, "properties"), "ascii")
    classpath = ":".join(map(str, fetch_kafka_classpath()))
    done = subprocess.run(
        [
            find_java().path,
            "-Dfile.encoding=UTF-8",
            "-Dstdout.encoding=UTF-8",
            "-cp",
            classpath,
            source,
            *files,
        ],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == names
