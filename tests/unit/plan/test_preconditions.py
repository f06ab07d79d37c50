"""Each field against the live cluster: to do, done already, or set by somebody else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from kafkaform.plan.preconditions import REPLACED, RemainingChange, Superseded, find_remaining
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.scenes import create_topic, topic

A = topic("a")


def build_observation(uid: str = "id-1", **fields: FieldValue) -> Observation:
    state = {k if k == "partitions" else f"config.{k.replace('_', '.')}": v for k, v in fields.items()}
    return Observation({A: Observed(A, uid, state)}, frozenset({A}))


NOTHING = Observation({})
DONE = RemainingChange(None)


def field(path: str, before: FieldValue, after: FieldValue, deferred: str | None = None) -> FieldChange:
    return FieldChange(path, before, after, deferred=deferred)


def update(*fields: FieldChange, uid: str | None = "id-1") -> Update:
    return Update(A, uid, fields)


PARTITIONS = field("partitions", 3, 6)
RETENTION = field("config.retention.ms", None, "1000")
LATER = field("config.min.insync.replicas", "1", "2", "waits")
CHANGE = update(PARTITIONS, RETENTION)


def find_reason(change: Create | Update | Delete, observation: Observation) -> str:
    superseded = find_remaining(change, observation)
    assert isinstance(superseded, Superseded)
    return superseded.reason


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
    assert find_remaining(still, observation) == RemainingChange(still)
    assert find_remaining(update(field(path, None, saw)), observation) == DONE
    assert find_remaining(Create(A, {path: saw}), observation) == DONE


def test_unseen_password_remains_until_it_was_sent() -> None:
    user, path, live = ResourceRef("User", "u"), "scram.SCRAM-SHA-512", "iterations=8192,password=unknown"
    change = Update(user, None, (field(path, live, "iterations=8192,password=${env:X}"),))
    observation = Observation({user: Observed(user, None, {path: live})})
    assert find_remaining(change, observation) == DONE
    assert find_remaining(change, observation, unseen_is_open=True) == RemainingChange(change)


@pytest.mark.parametrize(
    ("partitions", "least", "left"),
    [
        (3, "1", RemainingChange(update(PARTITIONS), (LATER,))),
        (6, "1", RemainingChange(None, (LATER,))),
        (6, "2", DONE),
    ],
)
def test_deferred_fields_remain_until_applied(partitions: int, least: str, left: RemainingChange) -> None:
    live = build_observation(partitions=partitions, min_insync_replicas=least)
    assert find_remaining(update(PARTITIONS, LATER), live) == left


def test_group_in_use_since_plan_supersedes_deletion(memory: MemoryCluster) -> None:
    create_topic(memory, "a")
    ref = ResourceRef("ConsumerGroup", "g")
    memory.commit("g", {("a", 0): 0})
    empty = memory.observe([ref])
    change = Delete(ref, None, empty.resources[ref].state, SAFE)
    assert find_remaining(change, empty) == RemainingChange(change)
    memory.join("g", ["a"])
    reason = "it has 1 member, and Kafka does not delete a group in use"
    assert find_remaining(change, memory.observe([ref])) == Superseded(reason, "stop its members first")


def test_deleted_or_recreated_resource_is_not_updated() -> None:
    assert find_reason(CHANGE, NOTHING) == "it was deleted since the plan"
    assert find_remaining(CHANGE, build_observation("id-2", partitions=3)) is REPLACED
    assert find_remaining(CHANGE, build_observation("id-2", partitions=6, retention_ms="1000")) is REPLACED
    assert find_remaining(update(PARTITIONS, uid=None), build_observation(partitions=3)) is REPLACED
    # A group that only had configs is gone once they are unset; a topic without any is still a topic.
    unset = field("config.retention.ms", "1000", None)
    assert find_remaining(update(unset, uid=None), NOTHING) == DONE
    for change in (update(unset), update(unset, RETENTION, uid=None)):
        assert find_reason(change, NOTHING) == "it was deleted since the plan"


def test_invisible_resource_supersedes_change() -> None:
    for change in (Create(A, {"partitions": 3}), CHANGE, Delete(A, "id-1", {}, SAFE)):
        moved = find_remaining(change, Observation({}, invisible={A: "not authorised"}))
        assert isinstance(moved, Superseded)
        assert "no longer visible to this account: not authorised" in moved.reason
        assert moved.hint.startswith("grant")


VALUES = st.none() | st.sampled_from(("1", "2", "3"))
KEYS = ("config.retention.ms", "config.segment.ms", "config.flush.ms")


def states() -> st.SearchStrategy[State]:
    return st.fixed_dictionaries(dict.fromkeys(KEYS, VALUES))


@given(states(), states(), st.sets(st.sampled_from(KEYS)), states())
def test_fields_are_decided_individually(before: State, after: State, done: set[str], other: State) -> None:
    differing = {key: field(key, before[key], after[key]) for key in KEYS if before[key] != after[key]}
    change = update(*differing.values())
    live = {key: after[key] if key in done else before[key] for key in KEYS}
    found = find_remaining(change, Observation({A: Observed(A, "id-1", live)}))
    left = [item for key, item in differing.items() if key not in done]
    assert found == RemainingChange(update(*left) if left else None)
    for key in differing:
        if other[key] not in {before[key], after[key]}:
            moved = Observation({A: Observed(A, "id-1", {**live, key: other[key]})})
            assert find_reason(change, moved).count(" is now ") == 1
