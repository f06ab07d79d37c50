"""Each field against the live cluster: to do, done already, or set by somebody else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaform.apply.preconditions import REPLACED, Left, Moved, remaining
from kafkaform.cluster.testing.memory import MemoryCluster
from kafkaform.core.model import (
    SAFE,
    Create,
    Delete,
    FieldChange,
    FieldValue,
    Observation,
    Observed,
    ResourceRef,
    State,
    Update,
)
from kafkaform.resources import KINDS
from tests.support.scenes import made, topic

A = topic("a")


def seen(uid: str = "id-1", **fields: FieldValue) -> Observation:
    return Observation({A: Observed(A, uid, paths(fields))}, frozenset({A}))


def paths(fields: dict[str, FieldValue]) -> dict[str, FieldValue]:
    return {k if k == "partitions" else f"config.{k.replace('_', '.')}": v for k, v in fields.items()}


NOTHING = Observation({})


def field(path: str, before: FieldValue, after: FieldValue, deferred: str | None = None) -> FieldChange:
    return FieldChange(path, before, after, deferred=deferred)


def update(*fields: FieldChange, uid: str | None = "id-1") -> Update:
    return Update(A, uid, fields)


PARTITIONS = field("partitions", 3, 6)
RETENTION = field("config.retention.ms", None, "1000")
CHANGE = update(PARTITIONS, RETENTION)


# --- updates ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("live", "left"),
    [
        ({"partitions": 3}, (PARTITIONS, RETENTION)),
        ({"partitions": 6}, (RETENTION,)),
        ({"partitions": 3, "retention_ms": "1000"}, (PARTITIONS,)),
        ({"partitions": 3, "segment_ms": "5"}, (PARTITIONS, RETENTION)),
    ],
    ids=["nothing done", "one done", "the other done", "something else changed"],
)
def test_what_is_left_of_an_update(live: dict[str, FieldValue], left: tuple[FieldChange, ...]) -> None:
    assert remaining(CHANGE, seen("id-1", **live)) == Left(update(*left))


def test_nothing_is_left_of_what_is_done() -> None:
    assert remaining(CHANGE, seen(partitions=6, retention_ms="1000")) == Left(None)


def test_every_value_that_moved_is_named() -> None:
    moved = remaining(CHANGE, seen(partitions=4, retention_ms=""))
    assert moved == Moved(
        "partitions is now 4; the plan saw 3 and sets 6; "
        'retention.ms is now ""; the plan saw unset and sets 1000'
    )


def test_a_value_that_fills_pages_is_cut() -> None:
    long = ",".join(["1:2:3"] * 500)
    moved = remaining(update(field("config.retention.ms", long, "1")), seen(retention_ms="5"))
    assert isinstance(moved, Moved)
    assert len(moved.reason) < 300
    assert "…" in moved.reason


def test_one_value_that_moved_holds_back_what_would_fit() -> None:
    assert isinstance(remaining(CHANGE, seen(partitions=4)), Moved)


@pytest.mark.parametrize(
    ("path", "saw", "live"),
    [
        ("config.min.cleanable.dirty.ratio", "0.5", "0.50"),
        ("config.retention.ms", "60000", "060000"),
        ("config.cleanup.policy", "compact,delete", "delete, compact"),
        ("config.preallocate", "true", "TRUE"),
    ],
)
def test_values_are_compared_by_the_types_of_kafka(path: str, saw: str, live: str) -> None:
    observation = Observation({A: Observed(A, "id-1", {path: live})})
    still = update(field(path, saw, None))
    assert remaining(still, observation) == Left(still)
    assert remaining(update(field(path, None, saw)), observation) == Left(None)
    assert remaining(Create(A, {path: saw}), observation) == Left(None)


def test_unset_is_not_empty_and_not_the_default() -> None:
    unset = update(field("config.cleanup.policy", "compact", None))
    assert remaining(unset, seen(cleanup_policy="compact")) == Left(unset)
    assert remaining(unset, seen()) == Left(None)
    assert isinstance(remaining(unset, seen(cleanup_policy="")), Moved)
    assert isinstance(remaining(unset, seen(cleanup_policy="delete")), Moved)


def test_deferred_fields_are_kept_apart_until_they_are_as_wanted() -> None:
    later = field("config.min.insync.replicas", "1", "2", "waits")
    change = update(PARTITIONS, later)
    assert remaining(change, seen(partitions=3, min_insync_replicas="1")) == Left(
        update(PARTITIONS), (later,)
    )
    assert remaining(change, seen(partitions=6, min_insync_replicas="1")) == Left(None, (later,))
    assert remaining(change, seen(partitions=6, min_insync_replicas="2")) == Left(None)
    assert isinstance(remaining(change, seen(partitions=3, min_insync_replicas="3")), Moved)


def test_what_the_resource_is_by_now_stands_against_it_with_a_way_out(memory: MemoryCluster) -> None:
    made(memory, "a")
    ref = ResourceRef("ConsumerGroup", "g")
    memory.commit("g", {("a", 0): 0})
    empty = memory.observe([ref])
    change = Delete(ref, None, empty.resources[ref].state, SAFE)
    assert remaining(change, empty) == Left(change)
    memory.join("g", ["a"])
    reason = "it has 1 member, and Kafka does not delete a group in use"
    assert remaining(change, memory.observe([ref])) == Moved(reason, "stop its members first")


def test_an_update_of_what_is_gone_or_was_made_again() -> None:
    assert remaining(CHANGE, NOTHING) == Moved("it was deleted since the plan")
    assert remaining(CHANGE, seen("id-2", partitions=3)) is REPLACED
    assert remaining(CHANGE, seen("id-2", partitions=6, retention_ms="1000")) is REPLACED
    assert remaining(update(PARTITIONS, uid=None), seen(partitions=3)) is REPLACED


def test_only_what_has_no_id_goes_with_the_last_of_its_configs() -> None:
    """A group that only had configs is gone once they are unset; a topic without any is still a topic."""
    unset = field("config.retention.ms", "1000", None)
    assert remaining(update(unset, uid=None), NOTHING) == Left(None)
    assert remaining(update(unset), NOTHING) == Moved("it was deleted since the plan")
    assert remaining(update(unset, RETENTION, uid=None), NOTHING) == Moved("it was deleted since the plan")


# --- creates and deletes ---------------------------------------------------------------------------


def test_a_create() -> None:
    change = Create(A, {"partitions": 3, "config.retention.ms": "1000"})
    assert remaining(change, NOTHING) == Left(change)
    assert remaining(change, seen(partitions=3, retention_ms="1000")) == Left(None)
    assert remaining(change, seen(partitions=3, retention_ms="1000", segment_ms="9")) == Left(None)
    moved = remaining(change, seen(partitions=4))
    assert moved == Moved("it now exists, with partitions 4 instead of 3, retention.ms unset instead of 1000")


def test_a_delete() -> None:
    change = Delete(A, "id-1", {"partitions": 3}, SAFE)
    assert remaining(change, seen(partitions=3)) == Left(change)
    assert remaining(change, seen(partitions=6)) == Left(change)
    assert remaining(change, NOTHING) == Left(None)
    assert remaining(change, seen("id-2", partitions=3)) is REPLACED


@pytest.mark.parametrize(
    "change",
    [Create(A, {"partitions": 3}), CHANGE, Delete(A, "id-1", {}, SAFE)],
    ids=["create", "update", "delete"],
)
def test_what_cannot_be_seen_is_left_alone(change: Create | Update | Delete) -> None:
    moved = remaining(change, Observation({}, invisible={A: "not authorised"}))
    assert isinstance(moved, Moved)
    assert moved.reason == "it is no longer visible to this account: not authorised"
    assert moved.hint.startswith("grant")


# --- a law -----------------------------------------------------------------------------------------

VALUES = st.none() | st.sampled_from(("1", "2", "3"))
KEYS = ("config.retention.ms", "config.segment.ms", "config.flush.ms")


def states() -> st.SearchStrategy[State]:
    return st.fixed_dictionaries(dict.fromkeys(KEYS, VALUES))


@given(states(), states(), st.sets(st.sampled_from(KEYS)), states())
def test_left_and_moved_are_decided_field_by_field(
    before: State, after: State, done: set[str], other: State
) -> None:
    differing = [key for key in KEYS if before[key] != after[key]]
    change = update(*(field(key, before[key], after[key]) for key in differing))
    live = {key: after[key] if key in done else before[key] for key in KEYS}
    found = remaining(change, Observation({A: Observed(A, "id-1", live)}))
    left = [key for key in differing if key not in done]
    assert found == Left(update(*(field(key, before[key], after[key]) for key in left)) if left else None)
    foreign = [key for key in differing if other[key] not in {before[key], after[key]}]
    for key in foreign:
        moved = remaining(change, Observation({A: Observed(A, "id-1", {**live, key: other[key]})}))
        assert isinstance(moved, Moved)
        assert moved.reason.count(" is now ") == 1


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_stands_against_what_is_not_there(kind: str) -> None:
    create = Create(ResourceRef(kind, "a"), {})
    assert remaining(create, NOTHING) == Left(create, ())
