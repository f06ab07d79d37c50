"""Writing the record: before anything is sent, and after; and what happens where it cannot be written."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafkaform.apply.change_execution import Observer
from kafkaform.apply.executor import ApplyOptions, apply
from kafkaform.audit.journal import AuditJournal, open_journal
from kafkaform.audit.trail import read_record, read_record_file
from kafkaform.cluster.protocol import Cluster
from kafkaform.config.settings import AuditSettings
from kafkaform.core.apply_result import ApplyReport, Result
from kafkaform.core.errors import AuditError
from kafkaform.core.plans import Plan
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.audit import ALICE, HEADER, ends, entries_of, recorded_apply
from tests.support.plans.scenes import FakeClock, declare_topic, plan_for

KEPT = AuditSettings()


def journal_of(cluster: Cluster, plan: Plan, audit: AuditSettings = KEPT) -> AuditJournal:
    return open_journal(cluster, audit, plan, HEADER, "sha256:0", ALICE)


def act_on(event: str, act: Callable[[], object]) -> Observer:
    observer = Observer()
    setattr(observer, event, lambda *_: act())
    return observer


def carry_out(plan: Plan, cluster: Cluster, journal: AuditJournal, **options: Any) -> ApplyReport:
    return apply(plan, cluster, ApplyOptions(journal=journal, clock=FakeClock().clock, **options))


def test_intent_is_recorded_before_first_request(memory: MemoryCluster) -> None:
    plan = plan_for(memory, declare_topic("a"))
    journal = journal_of(memory, plan)
    seen: list[object] = []

    def look() -> None:
        seen.append((ends(entries_of(memory, journal.run)), list(memory.executed)))

    report = carry_out(plan, memory, journal, observer=act_on("started", look))
    assert seen == [({"a": None}, [])]
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
