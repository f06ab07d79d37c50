"""`spec.recreate` on a real Kafka: a topic gets fewer partitions, also by an apply that is killed."""

import signal

import pytest

from kafkaform.cluster.kafka import writer
from kafkaform.cluster.wire.group_messages import OFFSET_DELETE
from kafkaform.cluster.wire.messages import DELETE_TOPICS
from kafkaform.core.values import replace
from kafkaform.resources import group_ref, topic_ref
from kafkaform.resources.consumer_group.operations import CommitInitialOffsets
from kafkaform.resources.topic.operations import DeleteOffsets
from tests.support.cli.kills import AUDITED, Kill, run_killed_apply
from tests.support.cli.project import Call, Project
from tests.support.clusters.fixtures import bring_back, connect, eventually, start_guarded
from tests.support.clusters.group_clients import produce
from tests.support.clusters.topics import delete_topic, make_topic


def run_apply(project: Project, *arguments: object) -> Call:
    return project.run("apply", *arguments, "--auto-approve", "--no-lock", env=AUDITED)


def read_id(project: Project, name: str) -> str:
    with connect(project.servers) as cluster:
        return eventually(lambda: cluster.topic_ids([name]), bool)[name]


def read_offsets(project: Project, group: str) -> dict[tuple[str, int], int]:
    with connect(project.servers) as cluster:
        return cluster.groups([group]).groups[group].committed


def write_topic(project: Project, **spec: object) -> str:
    """Write the manifest of a topic, with consent if it is to be recreated."""
    consent = {"annotations": {"kafkaform/allow": f"recreate of {spec.get('recreate')}: TICKET-1"}}
    return project.topic("orders", metadata=consent if "recreate" in spec else None, **spec)


@pytest.fixture
def orders(project: Project) -> str:
    """A topic of three partitions with records, all of which a group has read."""
    name = write_topic(project, partitions=3)
    project.group("g", protocol="consumer", topics=[name], offsets={"initial": "latest"})
    project.topic("quiet")
    run_apply(project).needs(0)
    return name


@pytest.mark.parametrize("step", ["DeleteTopic", "CreateTopic", "CommitInitialOffsets"])
def test_killed_recreation_is_continued(project: Project, orders: str, step: str) -> None:
    uid = read_id(project, orders)
    write_topic(project, partitions=1, recreate=uid)
    run_killed_apply(project, Kill(step), "topics").needs(-signal.SIGKILL)
    assert ("orders" in project.live()) is (step != "CreateTopic")
    run_apply(project, "topics").needs(0)
    assert project.live()["orders"]["partitions"] == 1
    assert read_id(project, orders) != uid
    assert read_offsets(project, f"{project.prefix}g") == {(orders, 0): 0}
    assert "No changes" in project.run("plan").needs(0).out


def test_recreation_is_refused_where_offsets_cannot_be_deleted(
    project: Project, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = replace(OFFSET_DELETE, key=10_000)  # as services that do not have the request
    monkeypatch.setattr(writer, "_ONLY_OFFERED", {DeleteOffsets: missing})
    uid = read_id(project, orders)
    write_topic(project, partitions=1, recreate=uid)
    assert "does not support OffsetDelete" in project.run("plan").needs(1).words
    run_apply(project).needs(1)
    assert read_id(project, orders) == uid


def test_topic_is_recreated_where_topics_are_deleted_by_name_only(
    project: Project, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "DELETE_TOPICS", replace(DELETE_TOPICS, key=10_000))
    uid = read_id(project, orders)
    write_topic(project, partitions=1, recreate=uid)
    run_apply(project).needs(0)
    assert project.live()["orders"]["partitions"] == 1
    assert read_id(project, orders) != uid
    assert read_offsets(project, f"{project.prefix}g") == {(orders, 0): 0}


@pytest.mark.nightly("a cluster of its own, whose groups have one coordinator each")
def test_offsets_survive_topic_deletion_while_coordinator_is_down() -> None:
    """The reason why a recreation deletes them first: the next topic of the name would be read from there."""
    properties = {"offsets.topic.replication.factor": "1", "offsets.topic.num.partitions": "3"}
    with (
        start_guarded(3, heap_mb=256, properties=properties) as kafka,
        connect(kafka.bootstrap_servers) as cluster,
    ):
        name = make_topic(cluster, "orders", replicas=3)
        produce(kafka.bootstrap_servers, name, {0: 9})
        groups = [f"g{number}" for number in range(6)]
        commits = [CommitInitialOffsets(group_ref(group), {name: "latest"}) for group in groups]
        assert {*cluster.execute(commits)} == {None}
        coordinators = {group: cluster.groups([group]).groups[group].coordinator for group in groups}
        down = next(node for node in coordinators.values() if node not in {None, 1})
        assert down is not None
        kafka.stop_node(down)
        delete_topic(kafka.bootstrap_servers, name)
        bring_back(kafka, down)
        make_topic(cluster, name, replicas=3)
        affected = [group for group, node in coordinators.items() if node == down]
        kept = eventually(lambda: cluster.groups(affected).groups, lambda found: len(found) == len(affected))
        assert [found.committed for found in kept.values()] == [{(name, 0): 9}] * len(affected)
        # What a recreation does before it deletes the topic.
        assert cluster.execute([DeleteOffsets(topic_ref(name))]) == [None]
        assert not any(found.committed for found in cluster.groups(affected).groups.values())
