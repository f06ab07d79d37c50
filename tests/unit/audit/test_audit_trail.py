"""The record: written before anything is sent and after, throttles in it, and the authors of values."""

import json
import stat
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaform.apply.change_execution import Observer
from kafkaform.apply.executor import ApplyOptions, apply
from kafkaform.apply.moves.throttle_journal import AuditedThrottles, open_throttle_journal
from kafkaform.audit.entries import parse_record
from kafkaform.audit.journal import AuditJournal, open_journal
from kafkaform.audit.record import MAX_LINE_BYTES
from kafkaform.audit.trail import Trail, read_record, read_record_file, read_trail
from kafkaform.cluster.audit_layout import AUDIT_TOPIC
from kafkaform.cluster.protocol import Cluster
from kafkaform.config.settings import AuditSettings
from kafkaform.core.apply_result import ApplyReport, Result
from kafkaform.core.errors import AuditError, ClusterError, PermissionDenied, Unreachable
from kafkaform.core.model import ResourceRef
from kafkaform.core.plans import Plan
from kafkaform.resources.replicas.moves import Rates, ThrottledReplicas, Throttles, union
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.audit import ALICE, HEADER, Story, ends, entries_of, recorded_apply
from tests.support.plans.moves import fail, override
from tests.support.plans.scenes import DAY, WEEK, FakeClock, declare_topic, plan_for
from tests.support.plans.strategies import examples

KEPT = AuditSettings()


def journal_of(cluster: Cluster, plan: Plan, audit: AuditSettings = KEPT) -> AuditJournal:
    return open_journal(cluster, audit, plan, HEADER, "sha256:0", ALICE)


def carry_out(plan: Plan, cluster: Cluster, journal: AuditJournal, **options: Any) -> ApplyReport:
    return apply(plan, cluster, ApplyOptions(journal=journal, clock=FakeClock().clock, **options))


def test_intent_is_recorded_before_first_request(memory: MemoryCluster) -> None:
    plan = plan_for(memory, declare_topic("a"))
    journal = journal_of(memory, plan)
    seen: list[object] = []
    observer = Mock(spec=Observer)
    observer.started = lambda _: seen.extend((ends(entries_of(memory, journal.run)), [*memory.executed]))
    report = carry_out(plan, memory, journal, observer=observer)
    assert seen == [{"a": None}, []]
    journal.conclude(report)
    assert ends(entries_of(memory, journal.run)) == {"a": "applied"}


def test_audit_file_equals_topic_and_is_private(memory: MemoryCluster, tmp_path: Path) -> None:
    both = AuditSettings(file=tmp_path / "audit.jsonl")
    run, _ = recorded_apply(plan_for(memory, declare_topic("a")), memory, both)
    recorded_apply(plan_for(memory, declare_topic("a", 6)), memory, both)
    assert both.file is not None
    assert both.file.read_text().splitlines() == list(memory.read_audit())
    assert stat.S_IMODE(both.file.stat().st_mode) == 0o600
    first, second = read_record(memory, both).entries
    assert first.run == run != second.run
    assert read_record_file(both.file) == read_record(memory, AuditSettings(topic=False, file=both.file))


def test_unterminated_audit_line_does_not_damage_next(tmp_path: Path, memory: MemoryCluster) -> None:
    """As a crash in the midst of writing leaves it."""
    file = tmp_path / "audit.jsonl"
    file.write_text('{"format_version":1,"rec')
    only = AuditSettings(topic=False, file=file)
    recorded_apply(plan_for(memory, declare_topic("a")), memory, only)
    log = read_record(memory, only)
    assert [entry.ref.name for entry in log.entries] == ["a"]
    (problem,) = log.problems
    assert problem.startswith(f"{file}: skipped record 1: ")


def test_unwritable_intent_prevents_apply(tmp_path: Path, memory: MemoryCluster) -> None:
    nowhere = AuditSettings(topic=False, file=tmp_path / "missing" / "audit.jsonl")
    plan = plan_for(memory, declare_topic("a"))
    with pytest.raises(AuditError, match=r"audit\.jsonl cannot be written: .*; nothing was applied"):
        carry_out(plan, memory, journal_of(memory, plan, nowhere))
    assert memory.executed == []


def test_intent_written_to_one_sink_is_closed(tmp_path: Path, memory: MemoryCluster) -> None:
    """Its readers would take the apply for killed."""
    half = AuditSettings(file=tmp_path / "missing" / "audit.jsonl")
    plan = plan_for(memory, declare_topic("a"), declare_topic("b"))
    journal = journal_of(memory, plan, half)
    with pytest.raises(AuditError):
        carry_out(plan, memory, journal)
    entries = entries_of(memory, journal.run)
    assert ends(entries) == {"a": "not_tried", "b": "not_tried"}
    assert entries["a"].outcome is not None
    assert "audit.jsonl cannot be written" in entries["a"].outcome.message
    assert not journal.written


def test_unwritable_result_is_reported(tmp_path: Path, memory: MemoryCluster) -> None:
    file = tmp_path / "here" / "audit.jsonl"
    file.parent.mkdir()
    plan = plan_for(memory, declare_topic("a"))
    journal = journal_of(memory, plan, AuditSettings(file=file))
    report = carry_out(plan, memory, journal)
    assert [result.result for result in report.results] == [Result.APPLIED]
    file.unlink()
    file.parent.rmdir()
    with pytest.raises(AuditError, match=f"the result of apply {journal.run} is not recorded: "):
        journal.conclude(report)
    assert ends(entries_of(memory, journal.run)) == {"a": "applied"}, "the other sink has it"


SOME = Throttles(
    {1: Rates(1000, 2000), 2: Rates(leader=1000)},
    {"a": ThrottledReplicas(frozenset({"0:1"}), frozenset({"0:2", "1:3"}))},
)


def throttle_journal(cluster: MemoryCluster, run: str, audit: AuditSettings = KEPT) -> AuditedThrottles:
    return open_throttle_journal(cluster, audit, run, cluster.facts().cluster_id)


def test_announced_throttles_are_left_for_next_apply(memory: MemoryCluster) -> None:
    first = throttle_journal(memory, "aaa")
    assert first.kept
    announced = first.announce(SOME)
    assert [item.throttles for item in announced] == [SOME]
    assert first.read_leftovers() == []  # its own are not what a dead one has left
    second = throttle_journal(memory, "bbb")
    assert [(leftover.id, leftover.throttles) for leftover in second.read_leftovers()] == [("aaa.1", SOME)]
    second.record_removal(second.read_leftovers())
    assert throttle_journal(memory, "ccc").read_leftovers() == []


def test_removal_recorded_in_one_sink_counts_for_both(memory: MemoryCluster, tmp_path: Path) -> None:
    both = AuditSettings(file=tmp_path / "audit.jsonl")
    announced = throttle_journal(memory, "aaa", both).announce(SOME)
    later = throttle_journal(memory, "bbb", both)
    assert [leftover.throttles for leftover in later.read_leftovers()] == [SOME]
    throttle_journal(memory, "aaa", AuditSettings(topic=False, file=both.file)).record_removal(announced)
    assert later.read_leftovers() == []


def test_unwritable_or_unreadable_throttle_record_is_error(memory: MemoryCluster) -> None:
    memory.deny()
    with pytest.raises(AuditError, match="cannot be written"):
        throttle_journal(memory, "aaa").announce(SOME)
    memory.hide(AUDIT_TOPIC)
    with pytest.raises(AuditError, match="cannot be read"):
        throttle_journal(memory, "aaa").read_leftovers()


def test_damaged_throttle_lines_are_reported(memory: MemoryCluster) -> None:
    throttle_journal(memory, "aaa").announce(SOME)
    (line,) = memory.read_audit()
    document = json.loads(line)
    broken = [
        {**document, "state": "perhaps"},
        {**document, "brokers": [{"id": "1", "leader": None, "follower": None}]},
        {**document, "topics": [{"name": "a", "leader": ["*"], "follower": []}]},
        {key: value for key, value in document.items() if key != "topics"},
        {key: value for key, value in document.items() if key != "cluster"},
    ]
    log = parse_record(map(json.dumps, broken), "here")
    assert log.throttles == ()
    assert "damaged" in log.problems[0]


@examples(0.4)
@given(st.integers(1, 3), st.integers(0, 30_000))
def test_long_throttle_announcement_is_split(topics: int, partitions: int) -> None:
    lines: list[str] = []
    leader, follower = (frozenset(f"{n}:{id_}" for n in range(partitions)) for id_ in (1, 123456))
    listed = {f"t{n}": ThrottledReplicas(leader, follower) for n in range(topics if partitions else 0)}
    throttles = Throttles({1: Rates(5, 5)}, listed)
    journal = AuditedThrottles([Mock(append=lines.extend)], lambda: (), "aaa", "memory")
    announced = journal.announce(throttles)
    assert max(map(len, lines)) <= MAX_LINE_BYTES
    assert union(item.throttles for item in announced) == throttles
    log = parse_record(lines, "here")
    assert log.problems == ()
    assert union(entry.throttles for entry in log.throttles) == throttles


RETENTION = "config.retention.ms"
ORDERS = ResourceRef("Topic", "orders")


def test_change_without_result_is_uncertain(story: Story) -> None:
    """A deletion or a creation that may not have been ends nothing: what was set before may still be so."""
    story.add("create", "orders", {RETENTION: (None, WEEK)})
    story.add("delete", "orders", {RETENTION: (WEEK, None)}, result=None)
    story.add("create", "orders", {RETENTION: (None, DAY)}, result=None)
    trail = Trail(story.entries)
    settings = trail.settings(ORDERS, RETENTION)
    assert [(setting.value, setting.certain) for setting in settings] == [(DAY, False), (WEEK, True)]
    assert trail.replaced_since(ORDERS, "")
    assert not trail.replaced_since(ORDERS, story.entries[0].at)
    assert trail.find_open(ORDERS, "delete") is None
    deletion = Trail(story.entries[:2]).find_open(ORDERS, "delete")
    assert deletion is not None
    assert (deletion.run, deletion.certain, deletion.unended) == ("run1", False, True)


@pytest.mark.parametrize(
    ("action", "uid", "replaced"),
    [
        ("recreate", "new", True),
        ("recreate", "old", False),
        ("recreate", None, False),
        ("create", "new", False),
    ],
)
def test_recreation_in_doubt_took_place_if_another_topic_is_live(
    story: Story, action: str, uid: str | None, replaced: bool
) -> None:
    story.add(action, "orders", {"partitions": (6, 2)}, result=None, uid="old")
    trail = Trail(story.entries)
    assert trail.replaced_since(ORDERS, "", uid) is replaced
    assert trail.was_recreated_by(ORDERS, "run0") is (action == "recreate")
    assert not trail.was_recreated_by(ORDERS, "run1")


def test_deletion_and_creation_end_earlier_settings(story: Story) -> None:
    def values(path: str = RETENTION) -> list[object]:
        return [setting.value for setting in Trail(story.entries).settings(ORDERS, path)]

    story.add("create", "orders", {RETENTION: (None, WEEK)})
    story.add("create", "orders", {RETENTION: (None, DAY)})
    assert values() == [DAY], "somebody else deleted it in between"
    story.add("delete", "orders", {RETENTION: (DAY, None)})
    assert values() == []
    assert Trail(story.entries).find_open(ORDERS, "delete") is None
    created = story.add("create", "orders", {"partitions": (None, 1)})
    story.add("update", "orders", {"partitions": (1, 2)})
    assert values() == [None], "it was made without a value of its own"
    assert values("partitions") == [2, 1]
    assert values("replicationFactor") == [], "it was made with some, though none was asked for"
    story.add("update", "orders", {RETENTION: (None, DAY)})
    assert values() == [DAY, None]
    assert not Trail(story.entries).replaced_since(ORDERS, created.at)


def test_changes_on_other_cluster_are_ignored(tmp_path: Path) -> None:
    """One file may be kept for several, and a topic may be mirrored."""
    audit = AuditSettings(False, tmp_path / "audit.jsonl")
    staging, prod = MemoryCluster("staging"), MemoryCluster("prod")
    recorded_apply(plan_for(staging, declare_topic("orders", retention_ms=WEEK)), staging, audit)
    assert read_trail(prod, audit, "prod").settings(ORDERS, RETENTION) == ()
    assert len(read_trail(staging, audit, "staging").settings(ORDERS, RETENTION)) == 1
    assert len(read_trail(prod, audit, "staging").settings(ORDERS, RETENTION)) == 1


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (PermissionDenied("no right"), "grant Read on the topic"),
        (Unreachable("nobody there", hint="is it up?"), "is it up?"),
    ],
)
def test_unreadable_audit_topic_is_reported(memory: MemoryCluster, error: ClusterError, hint: str) -> None:
    with pytest.raises(AuditError, match=f"cannot be read: {error.message}") as caught:
        read_trail(override(memory, read_audit=fail(error)), AuditSettings(), "any")
    assert (caught.value.hint or "").startswith(hint)


def test_unreadable_audit_file_is_reported(memory: MemoryCluster, tmp_path: Path) -> None:
    with pytest.raises(AuditError, match=f"the record in {tmp_path} cannot be read: "):
        read_trail(memory, AuditSettings(False, tmp_path), "any")
    (tmp_path / "odd.jsonl").write_bytes(b"\xff\xfe\n\n")
    odd = AuditSettings(False, tmp_path / "odd.jsonl")
    assert read_trail(memory, odd, "any").settings(ORDERS, "x") == ()
