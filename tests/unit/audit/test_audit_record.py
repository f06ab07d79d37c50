"""The lines of the record: what is in them, that they are safe, and that they are read back as they were."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from kafkaform.audit.entries import AuditRecord, merge_records, parse_record
from kafkaform.audit.record import (
    MAX_LINE_BYTES,
    Author,
    create_run_id,
    describe_apply,
    detect_author,
    format_timestamp,
    render_intent,
    render_result,
)
from kafkaform.cluster.audit_layout import make_record_key
from kafkaform.core.apply_result import ResourceResult, Result
from kafkaform.core.model import Create, Delete, FieldChange, ResourceRef, Status, Update
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
from tests.support.plans.damage import damage_json
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


def intent(planned: PlannedChange, *consents: Consent, change_id: str = "run.1") -> list[str]:
    return list(render_intent(change_id, AT, COMMON, planned, consents))


def result(
    planned: PlannedChange, *done: Operation, result: Result = Result.APPLIED, message: str = ""
) -> list[str]:
    return list(render_result("run.1", AT, ResourceResult(planned, result, message, done=done)))


def read(*lines: str) -> AuditRecord:
    return parse_record(lines, "here")


# --- writing ---------------------------------------------------------------------------------------


def test_everything_that_the_issue_asks_for_is_in_an_intent() -> None:
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


def test_result_names_which_fields_were_carried_out() -> None:
    half = [AlterConfigs(REF, {"retention.ms": "86400000"}, ("segment.ms",))]
    (line,) = result(UPDATE, *half, result=Result.FAILED, message="no room")
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
    assert json.loads(result(UPDATE, AddPartitions(REF, 3, 6))[0])["done"] == ["partitions"]
    group = ResourceRef("ConsumerGroup", "g")
    offsets = (CommitInitialOffsets(group, {"orders": "earliest"}), ResetOffsets(group, {("orders", 2): 7}))
    assert json.loads(result(UPDATE, *offsets)[0])["done"] == ["offsets.orders", "offsets.orders:2"]
    made = PlannedChange(Create(REF, {"partitions": 3, "config.retention.ms": "1"}), Status.PLANNED)
    done = json.loads(result(made, CreateTopic(REF, 3, 1, {}))[0])["done"]
    assert done == ["partitions", "config.retention.ms"]


def test_field_that_takes_two_operations_is_carried_out_by_the_last() -> None:
    fields = (
        FieldChange("partitions", 1, 2),
        FieldChange("replicationFactor", 1, 2),
        FieldChange("placement", "1", "1:2,2:1"),
    )
    planned = PlannedChange(Update(REF, "id-1", fields), Status.PLANNED)
    extra, moves = AddPartitions(REF, 1, 2, ((2,),)), Reassign(REF, {0: (1,)}, {0: (1, 2)})
    half = ResourceResult(planned, Result.FAILED, done=(extra,), not_done=(moves,), in_doubt=(moves,))
    (line,) = render_result("run.1", AT, half)
    assert json.loads(line)["done"] == ["partitions"]
    assert json.loads(line)["in_doubt"] == ["replicationFactor", "placement"]
    (line,) = result(planned, extra, moves)
    assert json.loads(line)["done"] == ["partitions", "replicationFactor", "placement"]
    grown = (FieldChange("partitions", 1, 2), FieldChange("placement", "1", "1,2"))
    planned = PlannedChange(Update(REF, "id-1", grown), Status.PLANNED)
    assert json.loads(result(planned, extra)[0])["done"] == ["partitions", "placement"]


def test_result_reports_of_which_fields_no_answer_came() -> None:
    configs, extra = AlterConfigs(REF, {"retention.ms": "86400000"}), AddPartitions(REF, 3, 6)
    ended = ResourceResult(UPDATE, Result.FAILED, done=(configs,), not_done=(extra,), in_doubt=(extra,))
    lines = [*intent(UPDATE), *render_result("run.1", AT, ended)]
    assert json.loads(lines[-1])["done"] == ["config.retention.ms"]
    assert json.loads(lines[-1])["in_doubt"] == ["partitions"]
    (entry,) = read(*lines).entries
    assert [field.path for field in entry.in_doubt] == ["partitions"]
    assert [field.path for field in entry.carried_out] == ["config.retention.ms"]
    assert "in_doubt" not in json.loads(result(UPDATE)[0])


def test_what_a_result_was_unsure_of_a_later_one_settles_and_nothing_else() -> None:
    configs, extra = AlterConfigs(REF, {"retention.ms": "86400000"}), AddPartitions(REF, 3, 6)
    ended = ResourceResult(UPDATE, Result.FAILED, "no answer", not_done=(configs, extra), in_doubt=(extra,))
    lines = [*intent(UPDATE), *render_result("run.1", AT, ended)]
    (entry,) = read(*lines).entries
    lines += entry.render_confirmation(AT, "later")  # which says more than it is asked
    assert [*json.loads(lines[-1])["done"]] == ["partitions", "config.retention.ms"]
    (entry,) = read(*lines).entries
    assert entry.outcome is not None
    assert [field.path for field in entry.carried_out] == ["partitions"]
    assert not entry.is_open
    assert entry.outcome.result == "failed", "not all of it was carried out"
    assert entry.outcome.message.startswith("no answer; apply later found the change on the cluster")
    ended = replace(ended, done=(configs,), not_done=(extra,))
    (entry,) = read(lines[0], *render_result("run.1", AT, ended), lines[-1]).entries
    assert entry.outcome is not None
    assert entry.outcome.result == "applied"


def test_long_result_that_is_unsure_is_written_in_parts() -> None:
    group = ResourceRef("ConsumerGroup", "g")
    offsets = {("a" * 200, number): number for number in range(9_000)}
    planned = PlannedChange(Create(group, {}), Status.PLANNED)
    in_doubt = (ResetOffsets(group, offsets),)
    done = (CommitInitialOffsets(group, {"orders": "earliest"}),)
    ended = ResourceResult(planned, Result.FAILED, done=done, not_done=in_doubt, in_doubt=in_doubt)
    lines = [*render_result("run.1", AT, ended)]
    assert len(lines) > 1
    assert max(map(len, lines)) <= MAX_LINE_BYTES
    documents = [json.loads(line) for line in lines]
    assert [path for document in documents for path in document["in_doubt"]] == [
        *map(partition_path, offsets)
    ]
    assert [path for document in documents for path in document["done"]] == ["offsets.orders"]


@pytest.mark.parametrize(
    ("ended", "word"),
    [
        (Result.APPLIED, "applied"),
        (Result.ALREADY, "already"),
        (Result.FAILED, "failed"),
        (Result.MOVED, "moved"),
        (Result.NOT_TRIED, "not_tried"),
    ],
)
def test_every_end_has_its_word(ended: Result, word: str) -> None:
    assert json.loads(result(UPDATE, result=ended)[0])["result"] == word


def test_ids_of_applies_sort_by_time_and_times_are_utc() -> None:
    # The ids of applies sort by time and differ.
    start = datetime(2026, 11, 3, tzinfo=UTC)
    times = [start + timedelta(seconds=n * 3_000_017) for n in range(100)]
    runs = [create_run_id(time) for time in times]
    assert runs == sorted(runs)
    assert all(re.fullmatch(r"[0-9a-hjkmnp-tv-z]{11}", run) for run in runs)
    assert len({create_run_id(start) for _ in range(100)}) > 90
    east = datetime.fromisoformat("2026-11-03T14:00:00.1234+02:00")
    assert format_timestamp(east) == "2026-11-03T12:00:00.123Z"


# --- who -------------------------------------------------------------------------------------------


def test_whoever_set_a_job_off_counts_and_not_the_robot_that_runs_it() -> None:
    github = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_ACTOR": "bot",
        "GITHUB_TRIGGERING_ACTOR": "alice",
        "GITHUB_SERVER_URL": "https://github.example",
        "GITHUB_REPOSITORY": "a/b",
        "GITHUB_RUN_ID": "42",
    }
    assert replace(detect_author(github), host="ci-3") == ALICE
    assert detect_author({**github, "GITHUB_RUN_ID": ""}).url is None
    gitlab = {"GITLAB_CI": "true", "GITLAB_USER_LOGIN": "bob", "CI_JOB_URL": "https://gitlab.example/1"}
    assert replace(detect_author(gitlab), host="") == Author("bob", "", "gitlab", "https://gitlab.example/1")
    jenkins = {
        "JENKINS_URL": "https://ci.example",
        "BUILD_USER_ID": "eve",
        "BUILD_URL": "https://ci.example/1",
    }
    assert replace(detect_author(jenkins), host="") == Author("eve", "", "jenkins", "https://ci.example/1")


def test_outside_of_ci_it_is_the_user_even_one_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "carol")
    assert detect_author({"GITHUB_ACTOR": "not me"}).who == "carol"

    def nameless() -> str:
        raise KeyError("getpwuid(): uid not found: 4711")

    monkeypatch.setattr("getpass.getuser", nameless)
    assert detect_author({}).who == "unknown"


# --- the size of a line ----------------------------------------------------------------------------


def test_change_that_fits_into_no_message_is_written_in_parts_and_read_as_one() -> None:
    group = ResourceRef("ConsumerGroup", "g")
    offsets = {partition_path((LONG, n)): n for n in range(9_000)}
    planned = PlannedChange(Delete(group, None, offsets, UPDATE.change.fields[0].assessment), Status.PLANNED)  # type: ignore[union-attr]
    intents = intent(planned)
    assert len(intents) > 1
    assert max(map(len, intents)) <= MAX_LINE_BYTES
    results = result(planned, ResetOffsets(group, {(LONG, n): n for n in range(9_000)}))
    assert len(results) > 1
    assert max(map(len, results)) <= MAX_LINE_BYTES
    (entry,) = read(*intents, *results).entries
    assert {field.path: field.before for field in entry.fields} == offsets
    assert entry.complete
    assert entry.outcome is not None
    assert len(entry.outcome.done) == 9_000
    partial = read(*intents[1:], *results)
    assert not partial.entries[0].complete
    assert partial.problems == ("here: a part of run.1 is missing",)


def test_long_values_and_foreign_words_are_bounded_in_a_record() -> None:
    # A value of many pages is cut and says so.
    long, short = "é" * 400_000, "x" * 50_000
    fields = tuple(FieldChange(f"config.c{n}", short, long) for n in range(9))
    lines = intent(PlannedChange(Update(REF, None, fields), Status.PLANNED))
    assert max(map(len, lines)) <= MAX_LINE_BYTES
    (entry,) = read(*lines).entries
    assert [field.cut for field in entry.fields] == [True] * 9
    assert entry.fields[0].before == short
    assert entry.fields[0].after == "é" * 10_000
    assert json.loads(lines[0])["fields"][0]["cut"] == ["after"]
    # Foreign words are bounded too.
    author = Author("a" * 10**6, "h" * 10**6, "github", "u" * 10**6)
    common = describe_apply(author, commit=None, plan="p", tool="1", cluster="c", environment=None)
    consent = Consent(str(REF), "retention-cut", "r" * 10**6)
    (line,) = render_intent("run.1", AT, common, UPDATE, [consent])
    assert len(line) < 10_000
    assert len(result(UPDATE, message="m" * 10**6)[0]) < 10_000


SCHEMA = Draft202012Validator(load_schema("audit"))
CONSENTS = st.lists(builds(Consent, hostile_text(), hostile_text(), hostile_text()), max_size=2)


@given(planned_changes(), CONSENTS)
def test_what_is_written_is_read_back(planned: PlannedChange, consents: list[Consent]) -> None:
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


# --- reading what others wrote ---------------------------------------------------------------------


DAMAGED = [
    "",
    "not JSON",
    "null",
    "[]",
    "7",
    '"text"',
    "{}",
    '{"format_version": 1}',
    '{"format_version": true}',
    '{"format_version": "2"}',
    "[" * 100_000,
    '{"format_version": 1' + "0" * 5000 + "}",
    intent(UPDATE)[0][:-20],
    intent(UPDATE)[0].replace('"kind":"Topic"', '"kind":""'),
    intent(UPDATE)[0].replace('"kind":"Topic"', '"kind":"Topic\\u001b[2J"'),
    intent(UPDATE)[0].replace('"run.1"', '"run.1\\u001b[2J"'),
    intent(UPDATE)[0].replace('"partitions","before":3', '"partitions","before":3.5'),
    intent(UPDATE)[0].replace('"partitions","before":3', '"partitions","before":[3]'),
    intent(UPDATE)[0].replace('"fields":[', '"fields":[null,'),
    intent(UPDATE)[0].replace('"at":"2026', '"at":"tomorrow 2026'),
    result(UPDATE)[0].replace('"applied"', '"perhaps"'),
    result(UPDATE)[0].replace('"done":[]', '"done":[1]'),
]


DAMAGED_RECORD = "here: skipped {}: damaged, or not a record of kafkaform"


@pytest.mark.parametrize("line", DAMAGED)
def test_damaged_line_costs_no_other(line: str) -> None:
    log = read(line, *intent(UPDATE), *result(UPDATE))
    assert [entry.id for entry in log.entries] == ["run.1"]
    assert log.problems == (DAMAGED_RECORD.format("record 1"),)


def test_damage_in_any_place_leaves_the_line_out() -> None:
    whole = json.dumps(json.loads(intent(UPDATE, Consent(str(REF), "retention-cut", "it is over"))[0]))
    damages = damage_json(whole)
    for kind in damages.keys() - {"not UTF-8", "no format"}:
        for content in damages[kind]:
            log = read(content.decode(), *intent(UPDATE))
            assert [entry.id for entry in log.entries] == ["run.1"], content
            assert log.problems, content


def test_text_that_is_not_utf_8_costs_no_line() -> None:
    common = describe_apply(
        Author("ad\udcff\U0001f600", "host"),
        commit=None,
        plan="p",
        tool="0.1.0",
        cluster="c",
        environment=None,
    )
    (line,) = render_intent("run.1", AT, common, UPDATE, ())
    assert (read(line).entries[0].who, read(line).problems) == ("ad?\U0001f600", ())


def test_later_formats_and_damaged_lines_are_reported_once_and_left_out() -> None:
    log = read(*(line.replace('"kind":"Topic"', '"kind":"Later"') for line in intent(UPDATE)))
    assert ([str(entry.ref) for entry in log.entries], log.problems) == (["Later/orders"], ())
    log = read(*intent(UPDATE), "x", "y", "z")
    assert log.problems == (DAMAGED_RECORD.format("record 2 and 2 more"),)
    later = json.dumps({"format_version": 2, "record": "something new"})
    log = read(*intent(UPDATE), later)
    assert len(log.entries) == 1
    (problem,) = log.problems
    assert problem.startswith("here: skipped record 2: the format is newer than 1")
    lines = [*intent(UPDATE), *result(UPDATE)]
    coloured = [json.dumps({**json.loads(line), "colour": "green"}) for line in lines]
    log = read(*coloured)
    assert (len(log.entries), log.problems) == (1, ())


def test_first_word_on_a_change_counts_and_without_a_result_nobody_knows() -> None:
    # Nobody rewrites history by writing it again.
    forged = json.dumps({**json.loads(intent(UPDATE)[0]), "who": "mallory"})
    again = json.dumps({**json.loads(result(UPDATE)[0]), "result": "failed"})
    log = read(*intent(UPDATE), forged, *result(UPDATE), again)
    (entry,) = log.entries
    assert entry.who == "alice"
    assert entry.outcome is not None
    assert entry.outcome.result == "applied"
    assert read(*result(UPDATE)).problems == ("here: 1 result without an intent",)
    (entry,) = read(*intent(UPDATE)).entries
    assert entry.outcome is None
    assert not entry.took_place
    assert entry.carried_out == ()


def test_two_copies_are_one_record_in_the_order_of_time() -> None:
    def stamp_line(number: int) -> str:
        (line,) = intent(UPDATE, change_id=f"run{number}.1")
        return line.replace(AT, f"2026-11-03T12:00:0{number}.000Z")

    both = merge_records(read(stamp_line(1), stamp_line(3)), read(stamp_line(1), stamp_line(2)))
    assert [entry.run for entry in both.entries] == ["run1", "run2", "run3"]


@given(st.lists(hostile_text(max_size=20), max_size=5))
def test_no_text_at_all_breaks_the_reading(lines: list[str]) -> None:
    assert read(*lines).entries == ()
