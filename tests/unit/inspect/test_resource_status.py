"""The status of topics and groups, and the use of topics in a period."""

import json
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from kafkaform.core.errors import PermissionDenied, Unreachable
from kafkaform.core.model import Desired, Diagnostic, Intent, Observation, Observed, ResourceRef, Severity
from kafkaform.core.partitions import LogSpan
from kafkaform.core.values import replace
from kafkaform.inspect.resource_status import (
    Selection,
    StatusReport,
    add_usage,
    assemble,
    list_shown_kinds,
    read_status,
)
from kafkaform.report.status import render_status, status_to_json, status_to_markdown
from kafkaform.resources.groups import Group, GroupReading, Position
from kafkaform.resources.name_globs import NameGlobs
from kafkaform.resources.subject.operations import AlterSubject
from kafkaform.resources.subject.schema import RegisteredSchema
from kafkaform.resources.topic.operations import CreateTopic
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.moves import fail, override
from tests.support.plans.scenes import create_topic, topic
from tests.support.plans.scenes import group_ref as group

IGNORED = NameGlobs(("__*", "*-changelog"))


def build_desired(ref: ResourceRef, **spec: object) -> Desired:
    return Desired(ref, {}, Intent(labels={"team": "checkout"}, spec=spec))


@pytest.mark.parametrize(("globs", "others"), [((), 2), (("orders",), 0), (("orders-key",), 1)])
def test_subjects_are_listed_with_their_topic(globs: tuple[str, ...], others: int) -> None:
    cluster = MemoryCluster()
    key, value = (ResourceRef("Subject", f"orders-{part}") for part in ("key", "value"))
    first, second = (
        RegisteredSchema(f'{{"type": "record", "name": "{name}", "fields": []}}') for name in "ab"
    )
    cluster.execute([AlterSubject(ref, first, "FULL", is_new=True) for ref in (key, value)])
    cluster.execute([AlterSubject(value, second, "NONE")])
    everything = [build_desired(topic("orders")), build_desired(key)]
    report = read_status(cluster, everything, Selection(globs, list_shown_kinds(everything)))
    assert len(report.others) == others
    for orders in report.topics:
        assert [each.ref for each in orders.subjects] == [key, value]
        assert "key v1 FULL, value v2 NONE" in render_status(report).text.plain
        assert json.loads(status_to_json(report))["topics"][0]["subjects"][1] == {
            "name": "orders-value",
            "version": 2,
            "id": 2,
            "compatibility": "NONE",
        }


def live(*names: str) -> Observation:
    """Topics by name, and groups by name behind a `@`."""
    refs = [group(name[1:]) if name.startswith("@") else topic(name) for name in names]
    seen = {ref: Observed(ref, "id", {"partitions": 1}) for ref in refs if ref.kind == "Topic"}
    return Observation(seen, frozenset(refs))


def reading(*topics_by_group: tuple[str, str], **denied: str) -> GroupReading:
    groups = {
        name: Group(name, "classic", "Stable", positions=(Position(read, 0, 0, 0, 0),))
        for name, read in topics_by_group
    }
    return GroupReading(groups, denied)


@pytest.mark.parametrize(
    ("selection", "names"),
    [
        (Selection(), ["__offsets", "a", "app-changelog", "b", "@a", "@g"]),
        (Selection(ignore=IGNORED), ["a", "b", "@a", "@g"]),
        (Selection(("a",)), ["a", "@a"]),
        (Selection(("a*",), ignore=IGNORED), ["a", "@a"]),
        (Selection(("A",)), []),
        (Selection(("__offsets",), ignore=IGNORED), ["__offsets"]),
        (Selection(kinds=("Topic",), ignore=IGNORED), ["a", "b"]),
        (Selection(("[ag]",), kinds=("ConsumerGroup",)), ["@a", "@g"]),
    ],
)
def test_selection_filters_topics_and_groups(selection: Selection, names: list[str]) -> None:
    made = assemble(
        live("a", "b", "__offsets", "app-changelog", "@a", "@g"),
        reading(("a", "a"), ("g", "b")),
        {},
        None,
        selection,
    )
    assert [item.name for item in made.topics] + [f"@{item.name}" for item in made.groups] == names


def test_declared_and_live_resources_are_distinguished() -> None:
    desired = [build_desired(topic("__mine"))]
    made = assemble(live("__mine", "__other"), reading(), {}, desired, Selection(ignore=IGNORED))
    assert [item.name for item in made.topics] == ["__mine"]
    assert made.hidden == 1
    desired = [build_desired(topic("gone")), build_desired(group("none"), members={"expected": 3})]
    made = assemble(live("found", "@some"), reading(("some", "found")), {}, desired, Selection())
    assert [(t.name, t.observed is not None, t.declared, t.team) for t in made.topics] == [
        ("found", True, False, ""),
        ("gone", False, True, "checkout"),
    ]
    assert [(g.name, g.group is not None, g.declared, g.expected) for g in made.groups] == [
        ("none", False, True, 3),
        ("some", True, False, None),
    ]
    made = assemble(
        live("a"), reading(), {}, [Desired(topic("a"), None), Desired(topic("b"), None)], Selection()
    )
    assert [(t.name, t.declared) for t in made.topics] == [("a", False)]
    made = assemble(live("a", "@g"), reading(("g", "a")), {}, None, Selection())
    assert made.topics[0].declared is None
    assert made.groups[0].declared is None


def test_missing_name_suggests_nearest() -> None:
    made = assemble(live("@g"), reading(), {}, None, Selection())
    assert made.groups[0].group is None
    assert made.groups[0].only_configs
    made = assemble(live("orders.v1"), reading(), {}, None, Selection(("order.v1", "zzz", "orders*")))
    assert made.missed == {"order.v1": "orders.v1", "zzz": None}


def test_unreadable_resources_are_grouped_by_reason() -> None:
    groups = reading(a="no right", b="no right", c="no right", d="no right", e="no answer")
    whole = Group("f", "streams", "Stable", unread="the ends of its logs")
    groups = GroupReading({"f": whole}, groups.denied)
    seen = Observation(
        {}, frozenset(), {topic("t"): "not yours"}, (Diagnostic("KF1", Severity.INFO, "note"),)
    )
    made = assemble(seen, groups, {}, [build_desired(topic("t"))], Selection(), ["first"])
    assert (made.notes, made.topics) == (("note",), ())
    first, many, item, part, unread = made.unread
    assert (first, many) == ("first", "4 groups (a, b, c, …): no right")
    assert (item, part) == ("group e: no answer", "a part of group f: the ends of its logs")
    assert unread == "topic t: not yours"
    assert [entry.denied for entry in made.groups] == ["no right"] * 4 + ["no answer", ""]


def test_unreadable_part_does_not_stop_status(memory: MemoryCluster) -> None:
    for name in "ab":
        create_topic(memory, name)
    made = read_status(override(memory, sizes=fail(PermissionDenied("not authorised"))), None, Selection())
    assert made.unread == ("the sizes of topics: not authorised",)
    assert [item.size for item in made.topics] == [None, None]
    made = read_status(override(memory, sizes=lambda _: {}), None, Selection())
    (unread,) = made.unread
    assert unread.startswith("the size of 2 topics (a, b): ")
    assert None not in [item.size for item in read_status(memory, None, Selection()).topics]
    silent = override(memory, groups=fail(Unreachable("nobody answered")))
    assert read_status(silent, None, Selection()).unread == ("groups: nobody answered",)
    with pytest.raises(Unreachable):
        read_status(silent, None, Selection(kinds=("ConsumerGroup",)))


DAY = 86_400_000
NOW = 20_000 * DAY
OLD, NEW = NOW - 60 * DAY, NOW - DAY


class Cluster(MemoryCluster):
    """A cluster with one topic of two partitions, t, of which the offsets of groups are kept for a year."""

    def __init__(self, *times: int, partition: int = 0, **configs: str) -> None:
        super().__init__(now_ms=lambda: NOW)
        self.offset_retention_ms = 365 * DAY
        named = {name.replace("_", "."): value for name, value in configs.items()}
        assert self.execute([CreateTopic(topic("t"), 2, 3, named)]) == [None]
        for time in times:
            self.write("t", partition, timestamp_ms=time)

    def use(self, period_ms: int = 30 * DAY) -> tuple[str, str]:
        usage = read_report(self, period_ms).topics[0].usage
        assert usage is not None
        return usage.records, usage.readers


def read_report(cluster: MemoryCluster, period_ms: int = 30 * DAY) -> StatusReport:
    report = read_status(cluster, None, Selection(kinds=("Topic",)))
    return add_usage(cluster, report, period_ms, NOW)


@pytest.mark.parametrize(
    ("cluster", "records"),
    [
        (Cluster(OLD), "none"),
        (Cluster(OLD, NEW), "yes"),
        # Out of order: the newest record is not the last one.
        (Cluster(NEW, OLD), "yes"),
        (Cluster(OLD, NOW + DAY), "unknown"),
        (Cluster(), "unknown"),
        (Cluster(OLD, cleanup_policy="compact"), "unknown"),
        (Cluster(OLD, cleanup_policy="compact", delete_retention_ms=str(40 * DAY)), "none"),
    ],
)
def test_new_records_are_judged_by_offsets(cluster: Cluster, records: str) -> None:
    assert cluster.use()[0] == records
    for number in range(2):  # what has been removed may have been new
        cluster.expire("t", number, cluster.log_spans([("t", number)])["t", number].end)
    assert cluster.use()[0] == "unknown"


def test_partition_without_response_makes_usage_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(OLD)

    def answer_in_part(*_: object) -> dict[tuple[str, int], LogSpan]:
        return {("t", 0): LogSpan(0, 1, 1)}

    def fail(*_: object) -> Any:
        raise Unreachable("no broker answers")

    for answer, reason in ((answer_in_part, "some partitions"), (fail, "no broker answers")):
        monkeypatch.setattr(cluster, "log_spans", answer)
        (status,) = read_report(cluster).topics
        assert status.usage is not None
        assert (status.usage.records, status.usage.readers) == ("unknown", "none")
        assert reason in status.usage.reasons[0]


@pytest.mark.parametrize(
    ("committed", "times", "period", "readers"),
    [
        (1, (OLD, OLD), 30 * DAY, "none"),  # behind, and nothing was read for long
        (2, (OLD, OLD), 30 * DAY, "unknown"),  # there was nothing to read
        (2, (OLD, NEW), 30 * DAY, "yes"),
        (1, (OLD, NEW), 30 * DAY, "none"),
        (1, (OLD, OLD), 400 * DAY, "yes"),  # its offsets would have expired
    ],
)
def test_usage_of_group_without_members_follows_offsets(
    committed: int, times: tuple[int, ...], period: int, readers: str
) -> None:
    cluster = Cluster(*times)
    cluster.commit("g", {("t", 0): committed})
    assert cluster.use(period)[1] == readers
    cluster.join("g", ["t"])
    assert cluster.use(period)[1] == "yes"


def test_restricted_account_makes_consumers_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(OLD)
    assert cluster.use() == ("none", "none")
    facts = replace(cluster.facts(), restricted=True)
    monkeypatch.setattr(cluster, "facts", lambda: facts)
    assert cluster.use() == ("none", "unknown")


def test_unused_topics_are_listed_in_every_format(golden: SnapshotAssertion) -> None:
    cluster = Cluster(OLD)
    for name in ("busy", "new"):
        cluster.execute([CreateTopic(topic(name), 1, 3, {})])
    cluster.write("busy", 0, timestamp_ms=NEW)
    cluster.join("g", ["busy"])
    report = read_report(cluster)
    texts = render_status(report, width=80).plain, status_to_markdown(report), status_to_json(report)
    assert "\n".join(texts) == golden(name="report.txt")
