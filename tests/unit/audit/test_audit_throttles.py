"""Throttles in the record: written before they are set, and found again after a death."""

from __future__ import annotations

import json
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaform.apply.moves.throttle_journal import AuditedThrottles, open_throttle_journal
from kafkaform.audit.entries import parse_record
from kafkaform.audit.record import MAX_LINE_BYTES
from kafkaform.cluster.audit_layout import AUDIT_TOPIC
from kafkaform.config.settings import AuditSettings
from kafkaform.core.errors import AuditError
from kafkaform.resources.replicas.moves import Rates, ThrottledReplicas, Throttles, union
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.strategies import examples

KEPT = AuditSettings()
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
