"""Groups from manifest to real consumers: plan, apply, reset, on a real Kafka, at the command line."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from kafkaform.devcluster.cluster import DevCluster
from kafkaform.plan import measuring
from tests.support.cli.project import Project
from tests.support.clusters.fixtures import connect, eventually
from tests.support.clusters.group_clients import Running, commit, produce, running

RESET = "--allow=ConsumerGroup/*:offset-reset"


@pytest.fixture
def project(project: Project) -> Project:
    """A topic with 3 partitions of 10 records each."""
    project.topic("a", partitions=3, keyed=False)
    project.apply("topics").needs(0)
    produce(project.servers, f"{project.prefix}a", dict.fromkeys(range(3), 10))
    return project


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No consumer by assign() is about: nobody need be waited for."""
    monkeypatch.setattr(measuring, "WATCH_S", 0.0)


def declare(project: Project, *, metadata: dict[str, Any] | None = None, **spec: Any) -> str:
    """Write (or rewrite) the manifest of the group; returns its full name."""
    if spec.get("state") != "absent":
        spec = {"topics": [project.prefix + "a"], "protocol": "consumer", **spec}
    return project.group("g", metadata=metadata, **spec)


def test_offsets_of_many_groups_are_committed_in_new_topics(
    tmp_path: Path, kafka: DevCluster, prefix: str
) -> None:
    """Leaders that have not opened the logs of new topics yet refuse to tell their ends."""
    project = Project(tmp_path, kafka.bootstrap_servers, prefix)
    names = [project.topic(str(number), partitions=8) for number in range(60)]
    for number in range(20):
        read = names[number * 2 : number * 2 + 6]
        project.group(str(number), topics=read, offsets={"initial": "earliest"})
    assert "80 created" in project.apply("topics").needs(0).out
    with connect(kafka.bootstrap_servers) as cluster:
        groups = cluster.groups([f"{prefix}{number}" for number in range(20)]).groups
    assert [len(group.committed) for group in groups.values()] == [48] * 20


@contextmanager
def join_group(project: Project, protocol: str) -> Iterator[Running]:
    """A member at work, once the group has it."""
    name = project.prefix + "g"
    with (
        connect(project.servers) as cluster,
        running(project.servers, name, [project.prefix + "a"], protocol) as members,
    ):
        eventually(
            lambda: cluster.groups([name]).groups.get(name),
            lambda group: group is not None and group.state == "Stable" and bool(group.members),
        )
        yield members[0]


def offsets(project: Project) -> list[int | None]:
    """The committed offset of each partition."""
    name = project.prefix + "g"
    with connect(project.servers) as cluster:
        group = cluster.groups([name]).groups[name]
    return [group.committed.get((project.prefix + "a", number)) for number in range(3)]


@pytest.mark.parametrize(
    ("protocol", "start", "first"), [("classic", "earliest", 0), ("consumer", "latest", 10)]
)
def test_consumer_starts_at_declared_offset(project: Project, protocol: str, start: str, first: int) -> None:
    """With auto.offset.reset=error, a consumer without a committed offset would fail."""
    declare(project, protocol=protocol, offsets={"initial": start})
    plan = project.run("plan", "topics").needs(0)
    assert f"offsets.{project.prefix}a" in plan.out
    project.apply("topics").needs(0)
    project.run("plan", "topics", "--detailed-exitcode").needs(0)
    with join_group(project, protocol) as member:
        produce(project.servers, project.prefix + "a", dict.fromkeys(range(3), 1))
        firsts = {(project.prefix + "a", number): first for number in range(3)}
        eventually(member.firsts, lambda seen: seen == firsts)


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
    with join_group(project, "consumer"):
        pass
    assert "protocol: consumer" in project.run("get", "group", name).needs(0).out
    assert status(project)["protocol"] == "consumer"


def status(project: Project) -> dict[str, Any]:
    """The status of the group."""
    (shown,) = project.run("status", project.prefix + "g", "--format", "json").needs(0).json["groups"]
    return dict(shown)


@pytest.mark.usefixtures("at_once")
def test_restarted_group_reads_added_partitions_from_start(project: Project) -> None:
    """As the plan advises: apply, reset the new partitions, start. Its consumers have reset=latest."""
    name, topic = project.prefix + "g", project.prefix + "a"
    commit(project.servers, name, dict.fromkeys(((topic, number) for number in range(3)), 10))
    project.topic("a", partitions=6, keyed=False)
    planned = project.apply("topics").needs(0).words
    reset = re.search(rf"kafkaform (reset {name} --to earliest --topic {topic}:3-5)", planned)
    assert reset is not None, planned
    project.run(*shlex.split(reset[1]), "--out", "reset.json").needs(1)
    project.apply("reset.json", RESET).needs(0)
    produce(project.servers, topic, dict.fromkeys(range(6), 20))
    with running(project.servers, name, [topic], auto_offset_reset="latest") as (member,):
        records = eventually(lambda: member.records, lambda seen: len(seen) >= 120)
    firsts = [member.firsts()[topic, number] for number in range(6)]
    assert (len(records), firsts) == (120, [10, 10, 10, 0, 0, 0])


@pytest.mark.usefixtures("at_once")
def test_saved_reset_is_applied_once(project: Project) -> None:
    name = declare(project, offsets={"initial": "latest"})
    project.apply("topics").needs(0)
    assert offsets(project) == [10, 10, 10]
    project.run("reset", name, "--to", "current", "--export", "kept.csv").needs(0)
    kept = (project.folder / "kept.csv").read_text("utf-8").splitlines()
    assert kept == [f"{project.prefix}a,{number},10" for number in range(3)]
    planned = project.run("reset", name, "--to", "3", "--out", "reset.json").needs(1)
    assert planned.out.count("7 records read again") == 3
    assert f"reading the offsets of {name} twice" in planned.err
    where = f"kafkaform apply reset.json --bootstrap-server {project.servers}"
    assert f"saved: `{where} --allow ConsumerGroup/{name}:offset-reset` " in planned.err
    project.run("reset", name, "--to", "3", "--no-strict").needs(0)
    project.run("reset", name, "--to", "3", RESET).needs(0)
    project.run("reset", name, "--to", "10").needs(0)
    assert offsets(project) == [10, 10, 10]

    assert "offset-reset" in project.apply("reset.json").needs(1).out
    assert offsets(project) == [10, 10, 10]
    project.apply("reset.json", RESET).needs(0)
    assert offsets(project) == [3, 3, 3]
    assert "already in place" in project.apply("reset.json").needs(0).out

    commit(project.servers, name, {(project.prefix + "a", 0): 5})
    assert "is now 5" in project.apply("reset.json", RESET).needs(1).out
    assert offsets(project) == [5, 3, 3]
    with join_group(project, "classic") as member:
        firsts = {(project.prefix + "a", number): first for number, first in enumerate([5, 3, 3])}
        eventually(member.firsts, lambda seen: seen == firsts)
