"""The lines of the record: what is in them, that they are safe, and that they are read back as they were."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from kafkaform.audit.entries import AuditRecord, parse_record
from kafkaform.audit.record import (
    MAX_LINE_BYTES,
    Author,
    describe_apply,
    detect_author,
    render_intent,
    render_result,
)
from kafkaform.cluster.audit_layout import make_record_key
from kafkaform.core.apply_result import ResourceResult, Result
from kafkaform.core.model import SAFE, Create, Delete, FieldChange, ResourceRef, Status, Update
from kafkaform.core.operations import AlterConfigs, Operation
from kafkaform.core.plans import Consent, PlannedChange
from kafkaform.core.schema_files import load_schema
from kafkaform.core.values import replace
from kafkaform.resources.consumer_group.fields import partition_path
from kafkaform.resources.consumer_group.operations import CommitInitialOffsets, ResetOffsets
from kafkaform.resources.replicas.operations import Reassign
from kafkaform.resources.topic.operations import AddPartitions, CreateTopic
from kafkaform.resources.values import action_of, fields_of
from tests.support.builds import builds
from tests.support.plans.audit import ALICE, COMMON
from tests.support.plans.strategies import hostile_text, planned_changes

AT = "2026-11-03T12:00:00.000Z"
REF = ResourceRef("Topic", "orders")
LONG = "x" * 150
UPDATE = PlannedChange(
    Update(
        REF,
        "id-1",
        (
            FieldChange("partitions", 3, 6),
            FieldChange("replicationFactor", 1, 3, deferred="not yet"),
            FieldChange("config.retention.ms", None, "86400000"),
        ),
    ),
    Status.PLANNED,
)
CONFIGS, EXTRA = AlterConfigs(REF, {"retention.ms": "86400000"}), AddPartitions(REF, 3, 6)
GROUP = ResourceRef("ConsumerGroup", "g")


def intent(planned: PlannedChange, *consents: Consent) -> list[str]:
    return list(render_intent("run.1", AT, COMMON, planned, consents, {}))


def result(
    planned: PlannedChange, *done: Operation, result: Result = Result.APPLIED, **more: Any
) -> list[str]:
    return list(render_result("run.1", AT, ResourceResult(planned, result, done=done, **more)))


def read_done(planned: PlannedChange, *done: Operation) -> list[str]:
    (line,) = result(planned, *done)
    return [*json.loads(line)["done"]]


def read(*lines: str) -> AuditRecord:
    return parse_record(lines, "here")


def test_intent_has_documented_fields() -> None:
    (line,) = intent(UPDATE, Consent(str(REF), "retention-cut", "legal hold ended"))
    assert json.loads(line) == {
        "format_version": 1,
        "record": "intent",
        "id": "run.1",
        "run": "run",
        "at": AT,
        "who": "alice",
        "host": "ci-3",
        "ci": {"system": "github", "url": "https://github.example/a/b/actions/runs/42"},
        "commit": "0123456789abcdef0123456789abcdef01234567",
        "plan": "sha256:0",
        "tool_version": "1.2.3",
        "cluster": "memory",
        "environment": "dev",
        "kind": "Topic",
        "name": "orders",
        "uid": "id-1",
        "action": "update",
        "risk": "safe",
        "fields": [
            {"path": "partitions", "before": 3, "after": 6},
            {"path": "config.retention.ms", "before": None, "after": "86400000"},
        ],
        "consent": [{"hazard": "retention-cut", "reason": "legal hold ended"}],
    }
    assert make_record_key(line) == "Topic/orders"


def test_result_lists_carried_out_fields() -> None:
    half = AlterConfigs(REF, {"retention.ms": "86400000"}, ("segment.ms",))
    (line,) = result(UPDATE, half, result=Result.FAILED, message="no room")
    assert json.loads(line) == {
        "format_version": 1,
        "record": "result",
        "id": "run.1",
        "run": "run",
        "at": AT,
        "kind": "Topic",
        "name": "orders",
        "result": "failed",
        "message": "no room",
        "done": ["config.retention.ms", "config.segment.ms"],
    }
    assert read_done(UPDATE, EXTRA) == ["partitions"]
    offsets = (CommitInitialOffsets(GROUP, {"orders": "earliest"}), ResetOffsets(GROUP, {("orders", 2): 7}))
    assert read_done(UPDATE, *offsets) == ["offsets.orders", "offsets.orders:2"]
    made = PlannedChange(Create(REF, {"partitions": 3, "config.retention.ms": "1"}), Status.PLANNED)
    assert read_done(made, CreateTopic(REF, 3, 1, {})) == ["partitions", "config.retention.ms"]


def test_field_of_two_operations_is_done_after_last() -> None:
    partitions, factor = FieldChange("partitions", 1, 2), FieldChange("replicationFactor", 1, 2)
    fields = (partitions, factor, FieldChange("placement", "1", "1:2,2:1"))
    planned = PlannedChange(Update(REF, "id-1", fields), Status.PLANNED)
    extra, moves = AddPartitions(REF, 1, 2, ((2,),)), Reassign(REF, {0: (1,)}, {0: (1, 2)})
    (line,) = result(planned, extra, result=Result.FAILED, not_done=(moves,), in_doubt=(moves,))
    assert json.loads(line)["done"] == ["partitions"]
    assert json.loads(line)["in_doubt"] == ["replicationFactor", "placement"]
    assert read_done(planned, extra, moves) == ["partitions", "replicationFactor", "placement"]
    grown = Update(REF, "id-1", (partitions, FieldChange("placement", "1", "1,2")))
    assert read_done(PlannedChange(grown, Status.PLANNED), extra) == ["partitions", "placement"]


def test_fields_in_doubt_are_settled_by_later_result() -> None:
    unsure: Any = {"result": Result.FAILED, "message": "no answer", "in_doubt": (EXTRA,)}
    lines = [*intent(UPDATE), *result(UPDATE, not_done=(CONFIGS, EXTRA), **unsure)]
    (entry,) = read(*lines).entries
    lines += entry.render_confirmation(AT, "later")  # which says more than it is asked
    assert [*json.loads(lines[-1])["done"]] == ["partitions", "config.retention.ms"]
    (entry,) = read(*lines).entries
    assert entry.outcome is not None
    assert [field.path for field in entry.carried_out] == ["partitions"]
    assert not entry.is_open
    assert entry.outcome.result == "failed", "not all of it was carried out"
    assert entry.outcome.message.startswith("no answer; apply later found the change on the cluster")
    (entry,) = read(lines[0], *result(UPDATE, CONFIGS, not_done=(EXTRA,), **unsure), lines[-1]).entries
    assert entry.outcome is not None
    assert entry.outcome.result == "applied"


GITHUB = {
    "GITHUB_ACTIONS": "true",
    "GITHUB_ACTOR": "bot",
    "GITHUB_TRIGGERING_ACTOR": "alice",
    "GITHUB_SERVER_URL": "https://github.example",
    "GITHUB_REPOSITORY": "a/b",
    "GITHUB_RUN_ID": "42",
}
GITLAB = {"GITLAB_CI": "true", "GITLAB_USER_LOGIN": "bob", "CI_JOB_URL": "https://gitlab.example/1"}
JENKINS = {"JENKINS_URL": "https://x.example", "BUILD_USER_ID": "eve", "BUILD_URL": "https://x.example/1"}


@pytest.mark.parametrize(
    ("environ", "author"),
    [
        (GITHUB, ALICE),
        ({**GITHUB, "GITHUB_RUN_ID": ""}, replace(ALICE, url=None)),
        (GITLAB, Author("bob", "", "gitlab", "https://gitlab.example/1")),
        (JENKINS, Author("eve", "", "jenkins", "https://x.example/1")),
    ],
)
def test_author_in_ci_is_person_who_triggered_job(environ: dict[str, str], author: Author) -> None:
    assert replace(detect_author(environ), host=author.host) == author


def test_author_outside_ci_is_local_user_or_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "carol")
    assert detect_author({"GITHUB_ACTOR": "not me"}).who == "carol"

    def nameless() -> str:
        raise KeyError("getpwuid(): uid not found: 4711")

    monkeypatch.setattr("getpass.getuser", nameless)
    assert detect_author({}).who == "unknown"


def test_long_change_is_split_and_read_as_single_entry() -> None:
    offsets = {(LONG, n): n for n in range(9_000)}
    paths = {partition_path(partition): offset for partition, offset in offsets.items()}
    planned = PlannedChange(Delete(GROUP, None, paths, SAFE), Status.PLANNED)
    intents, results = intent(planned), result(planned, ResetOffsets(GROUP, offsets))
    for lines in (intents, results):
        assert len(lines) > 1
        assert max(map(len, lines)) <= MAX_LINE_BYTES
    (entry,) = read(*intents, *results).entries
    assert {field.path: field.before for field in entry.fields} == paths
    assert entry.complete
    assert entry.outcome is not None
    assert len(entry.outcome.done) == 9_000
    partial = read(*intents[1:], *results)
    assert not partial.entries[0].complete
    assert partial.problems == ("here: a part of run.1 is missing",)


def test_long_values_are_truncated_and_marked() -> None:
    long, short = "é" * 400_000, "x" * 50_000
    fields = tuple(FieldChange(f"config.c{n}", short, long) for n in range(9))
    lines = intent(PlannedChange(Update(REF, None, fields), Status.PLANNED))
    assert max(map(len, lines)) <= MAX_LINE_BYTES
    (entry,) = read(*lines).entries
    assert [field.cut for field in entry.fields] == [True] * 9
    assert (entry.fields[0].before, entry.fields[0].after) == (short, "é" * 10_000)
    assert json.loads(lines[0])["fields"][0]["cut"] == ["after"]


NOWHERE: Any = {"commit": None, "plan": "p", "tool": "1", "cluster": "c", "environment": None}


def test_foreign_text_in_record_is_bounded_and_valid() -> None:
    common = describe_apply(Author("a" * 10**6, "h" * 10**6, "github", "u" * 10**6), **NOWHERE)
    consent = Consent(str(REF), "retention-cut", "r" * 10**6)
    (line,) = render_intent("run.1", AT, common, UPDATE, [consent], {})
    assert len(line) < 10_000
    assert len(result(UPDATE, message="m" * 10**6)[0]) < 10_000
    # Halves of surrogate pairs are replaced.
    common = describe_apply(Author("ad\udcff\U0001f600", "host"), **NOWHERE)
    (line,) = render_intent("run.1", AT, common, UPDATE, (), {})
    assert (read(line).entries[0].who, read(line).problems) == ("ad?\U0001f600", ())


SCHEMA = Draft202012Validator(load_schema("audit"))
CONSENTS = st.lists(builds(Consent, hostile_text(), hostile_text(), hostile_text()), max_size=2)


@given(planned_changes(), CONSENTS)
def test_written_record_is_read_back(planned: PlannedChange, consents: list[Consent]) -> None:
    due = [item for item in fields_of(planned.change) if item.deferred is None]
    ended = ResourceResult(planned, Result.FAILED, "why \x1b[2J")
    lines = [*intent(planned, *consents), *render_result("run.1", AT, ended)]
    for line in lines:
        assert line.isascii()
        assert line.isprintable()
        SCHEMA.validate(json.loads(line))
        assert make_record_key(line) == str(planned.ref)
    log = read(*lines)
    assert log.problems == ()
    (entry,) = log.entries
    assert entry.ref == planned.ref
    assert entry.action == action_of(planned.change)
    assert [(field.path, field.before, field.after) for field in entry.fields] == [
        (item.path, item.before, item.after) for item in due
    ]
    # Halves of surrogate pairs cannot be written.
    given = ((consent.hazard, consent.reason) for consent in consents)
    assert entry.consents == tuple(
        tuple(text.encode(errors="replace").decode() for text in pair) for pair in given
    )
    assert (entry.who, entry.url, entry.commit) == ("alice", ALICE.url, COMMON["commit"])
    assert entry.outcome is not None
    assert (entry.outcome.result, entry.outcome.message) == ("failed", "why \x1b[2J")


INTENT, RESULT = intent(UPDATE)[0], result(UPDATE)[0]
DAMAGED = [
    *("", "not JSON", "null", "[]", "7", '"text"', "{}", '{"format_version": 1}', '{"format_version": true}'),
    *('{"format_version": "2"}', "[" * 100_000, '{"format_version": 1' + "0" * 5000 + "}", INTENT[:-20]),
    INTENT.replace('"kind":"Topic"', '"kind":""'),
    INTENT.replace('"kind":"Topic"', '"kind":"Topic\\u001b[2J"'),
    INTENT.replace('"run.1"', '"run.1\\u001b[2J"'),
    INTENT.replace('"partitions","before":3', '"partitions","before":3.5'),
    INTENT.replace('"partitions","before":3', '"partitions","before":[3]'),
    INTENT.replace('"fields":[', '"fields":[null,'),
    INTENT.replace('"at":"2026', '"at":"tomorrow 2026'),
    RESULT.replace('"applied"', '"perhaps"'),
    RESULT.replace('"done":[]', '"done":[1]'),
]
DAMAGED_RECORD = "here: skipped {}: damaged, or not a record of kafkaform"


@pytest.mark.parametrize("line", DAMAGED)
def test_damaged_line_does_not_hide_other_entries(line: str) -> None:
    log = read(line, INTENT, RESULT)
    assert [entry.id for entry in log.entries] == ["run.1"]
    assert log.problems == (DAMAGED_RECORD.format("record 1"),)


def test_newer_formats_and_damaged_lines_are_reported() -> None:
    log = read(INTENT.replace('"kind":"Topic"', '"kind":"Later"'))
    assert ([str(entry.ref) for entry in log.entries], log.problems) == (["Later/orders"], ())
    assert read(INTENT, "x", "y", "z").problems == (DAMAGED_RECORD.format("record 2 and 2 more"),)
    log = read(INTENT, json.dumps({"format_version": 2, "record": "something new"}))
    assert len(log.entries) == 1
    (problem,) = log.problems
    assert problem.startswith("here: skipped record 2: the format is newer than 1")
    log = read(*(json.dumps({**json.loads(line), "colour": "green"}) for line in (INTENT, RESULT)))
    assert (len(log.entries), log.problems) == (1, ())


def test_first_record_of_change_is_used() -> None:
    """Nobody rewrites history by writing it again."""
    forged = json.dumps({**json.loads(INTENT), "who": "mallory"})
    again = json.dumps({**json.loads(RESULT), "result": "failed"})
    (entry,) = read(INTENT, forged, RESULT, again).entries
    assert entry.outcome is not None
    assert (entry.who, entry.outcome.result) == ("alice", "applied")


def test_intent_and_result_without_counterpart_leave_outcome_unknown() -> None:
    assert read(RESULT).problems == ("here: 1 result without an intent",)
    (entry,) = read(INTENT).entries
    assert (entry.outcome, entry.took_place, entry.carried_out) == (None, False, ())


@given(st.lists(hostile_text(max_size=20), max_size=5))
def test_arbitrary_lines_yield_no_entries(lines: list[str]) -> None:
    assert read(*lines).entries == ()
