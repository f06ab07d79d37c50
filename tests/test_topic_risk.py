"""Every hazard of a topic: when a change is one, when it is not, and what it says."""

from __future__ import annotations

from math import lcm

import pytest

from kafkaform import kafka_configs
from kafkaform.kinds import KINDS
from kafkaform.kinds.base import UpdateContext
from kafkaform.kinds.topic.risk import judge, keys_that_stay
from kafkaform.model import SAFE, Facts, FieldValue, Intent, Judgement, ResourceRef, Risk, State

REF = ResourceRef("Topic", "orders.v1")
DAY = 86_400_000

Values = dict[str, FieldValue]


def judged(before: Values, after: Values, path: str | None = None, *, keyed: bool | None = None) -> Judgement:
    """The judgement of the first field of `after`; names of configs without their prefix."""

    def state(values: Values) -> State:
        return {
            name if name in {"partitions", "replicationFactor"} else f"config.{name}": value
            for name, value in values.items()
        }

    full = state({**before, **after})
    first = path or next(iter(after))
    context = UpdateContext(REF, state(before), full, Intent(keyed=keyed), Facts("c"))
    return judge(next(iter(state({first: None}))), context)


# --- partitions --------------------------------------------------------------------------------------

PAIRS = [(a, b) for a in range(1, 25) for b in range(1, 25)] + [(6, 12), (7, 11), (100, 101), (12, 30)]


@pytest.mark.parametrize(("before", "after"), [(1, 2), (6, 12), (12, 30), (7, 11), (100, 101)])
def test_share_of_keys_that_stay_at_a_glance(before: int, after: int) -> None:
    space = range(before * after)
    stay = sum(h % before == h % after for h in space)
    assert keys_that_stay(before, after) == stay / len(space)


def test_share_of_keys_that_stay_by_brute_force() -> None:
    for before, after in PAIRS:
        period = lcm(before, after)
        stay = sum(h % before == h % after for h in range(period))
        assert keys_that_stay(before, after) == stay / period, (before, after)


@pytest.mark.parametrize(
    ("before", "after", "share"),
    [
        (6, 12, "50 %"),
        (6, 7, "85.7 %"),
        (3, 4, "75 %"),
        (12, 24, "50 %"),
        (9999, 10000, "99.9 %"),
        (1, 3, "66.6 %"),
    ],
)
def test_a_partition_increase_says_how_many_keys_move(before: int, after: int, share: str) -> None:
    found = judged({"partitions": before, "cleanup.policy": "delete"}, {"partitions": after})
    assert (found.risk, found.hazard) == (Risk.DISRUPTIVE, "partition-increase")
    assert found.reason == (
        f"{share} of keys move to another partition (if records have keys): "
        "order per key is broken between records before and after the change"
    )


def test_a_partition_increase_and_keys() -> None:
    before: Values = {"partitions": 6, "cleanup.policy": "delete"}
    assert "(if records have keys)" not in judged(before, {"partitions": 12}, keyed=True).reason
    assert judged(before, {"partitions": 12}, keyed=True).hazard == "partition-increase"
    assert judged(before, {"partitions": 12}, keyed=False) == SAFE


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"cleanup.policy": "compact"}, {}),
        ({"cleanup.policy": "delete,compact"}, {}),
        ({"cleanup.policy": " compact , delete "}, {}),
        ({"cleanup.policy": "delete"}, {"cleanup.policy": "compact"}),
        ({"cleanup.policy": "compact"}, {"cleanup.policy": "delete"}),
        ({}, {}),  # a policy that cannot be read may be the worst
    ],
)
def test_a_partition_increase_of_a_compacted_topic(before: Values, after: Values) -> None:
    found = judged({"partitions": 6, **before}, {"partitions": 12, **after}, keyed=False)
    assert (found.risk, found.hazard) == (Risk.DESTRUCTIVE, "partition-increase-compacted")
    assert found.reason.startswith("50 % of keys move to another partition: their old values stay")


def test_a_partition_decrease_is_impossible_whatever_else() -> None:
    for keyed in (None, False, True):
        found = judged({"partitions": 12, "cleanup.policy": "delete"}, {"partitions": 6}, keyed=keyed)
        assert (found.risk, found.hazard) == (Risk.IMPOSSIBLE, "partition-decrease")
        assert "(12 → 6)" in found.reason
        assert "such as orders.v2)" in str(found.remedy)
        assert "declare partitions: 12" in str(found.remedy)


def test_replication_factor() -> None:
    for before, after in ((1, 3), (3, 1), ("2-3", 3)):
        found = judged({"replicationFactor": before}, {"replicationFactor": after})
        assert (found.risk, found.hazard) == (Risk.DISRUPTIVE, "replication-factor")
        assert f"from {before} to {after} replicas" in found.reason


# --- configs -----------------------------------------------------------------------------------------

DELETE: Values = {"cleanup.policy": "delete"}
REMOTE: Values = {"remote.storage.enable": "true"}

# What comes before, what is changed, and the hazard of the first changed field, or none.
CASES: list[tuple[Values, Values, tuple[Risk, str] | None]] = [
    # retention: effective against effective
    (
        {**DELETE, "retention.ms": "604800000"},
        {"retention.ms": "86400000"},
        (Risk.DESTRUCTIVE, "retention-cut"),
    ),
    ({**DELETE, "retention.ms": "604800000"}, {"retention.ms": "604800000"}, None),
    ({**DELETE, "retention.ms": "604800000"}, {"retention.ms": "604800001"}, None),
    (
        {**DELETE, "retention.ms": "604800000"},
        {"retention.ms": "604799999"},
        (Risk.DESTRUCTIVE, "retention-cut"),
    ),
    ({**DELETE, "retention.ms": "-1"}, {"retention.ms": str(2**63 - 1)}, (Risk.DESTRUCTIVE, "retention-cut")),
    ({**DELETE, "retention.ms": "1"}, {"retention.ms": "-1"}, None),
    ({**DELETE, "retention.ms": "0"}, {"retention.ms": "1"}, None),
    (DELETE, {"retention.ms": "1"}, (Risk.DESTRUCTIVE, "retention-cut")),  # before is not known
    (DELETE, {"retention.ms": "-1"}, None),
    ({**DELETE, "retention.ms": "1"}, {"retention.ms": None}, (Risk.DESTRUCTIVE, "retention-cut")),
    ({**DELETE, "retention.bytes": "-1"}, {"retention.bytes": "1"}, (Risk.DESTRUCTIVE, "retention-cut")),
    ({**DELETE, "retention.bytes": "1"}, {"retention.bytes": "2"}, None),
    ({"retention.ms": "2"}, {"retention.ms": "1"}, (Risk.DESTRUCTIVE, "retention-cut")),  # nor is the policy
    ({"cleanup.policy": "compact", "retention.ms": "2"}, {"retention.ms": "1"}, None),
    ({"cleanup.policy": "", "retention.ms": "2"}, {"retention.ms": "1"}, None),
    (
        {"cleanup.policy": "compact,delete", "retention.ms": "2"},
        {"retention.ms": "1"},
        (Risk.DESTRUCTIVE, "retention-cut"),
    ),
    (
        {"cleanup.policy": "compact", "retention.ms": "2"},
        {"retention.ms": "1", "cleanup.policy": "delete"},
        (Risk.DESTRUCTIVE, "retention-cut"),
    ),
    (
        {"cleanup.policy": "delete", "retention.ms": "2"},
        {"retention.ms": "1", "cleanup.policy": "compact"},
        (Risk.DESTRUCTIVE, "retention-cut"),
    ),
    # cleanup.policy
    (DELETE, {"cleanup.policy": "compact"}, (Risk.DESTRUCTIVE, "cleanup-policy")),
    ({"cleanup.policy": "compact"}, {"cleanup.policy": "delete"}, (Risk.DESTRUCTIVE, "cleanup-policy")),
    (DELETE, {"cleanup.policy": "compact,delete"}, (Risk.DESTRUCTIVE, "cleanup-policy")),
    ({"cleanup.policy": ""}, {"cleanup.policy": "delete"}, (Risk.DESTRUCTIVE, "cleanup-policy")),
    ({}, {"cleanup.policy": "delete"}, (Risk.DESTRUCTIVE, "cleanup-policy")),
    (DELETE, {"cleanup.policy": None}, (Risk.DESTRUCTIVE, "cleanup-policy")),
    (
        {"cleanup.policy": "compact,delete"},
        {"cleanup.policy": "delete"},
        (Risk.DISRUPTIVE, "cleanup-policy-removed"),
    ),
    (DELETE, {"cleanup.policy": ""}, (Risk.DISRUPTIVE, "cleanup-policy-removed")),
    ({"cleanup.policy": "delete "}, {"cleanup.policy": "delete"}, None),
    ({"cleanup.policy": "delete, compact"}, {"cleanup.policy": "compact,delete"}, None),
    # min.insync.replicas
    ({"min.insync.replicas": "2"}, {"min.insync.replicas": "1"}, (Risk.DESTRUCTIVE, "min-isr-cut")),
    ({"min.insync.replicas": "3"}, {"min.insync.replicas": "1"}, (Risk.DESTRUCTIVE, "min-isr-cut")),
    ({"min.insync.replicas": "3"}, {"min.insync.replicas": "2"}, None),
    ({"min.insync.replicas": "1"}, {"min.insync.replicas": "1"}, None),
    ({"min.insync.replicas": "1"}, {"min.insync.replicas": "2"}, (Risk.DISRUPTIVE, "min-isr-raise")),
    ({"min.insync.replicas": "2"}, {"min.insync.replicas": None}, (Risk.DESTRUCTIVE, "min-isr-cut")),
    ({}, {"min.insync.replicas": "1"}, (Risk.DESTRUCTIVE, "min-isr-cut")),
    ({}, {"min.insync.replicas": "2"}, (Risk.DISRUPTIVE, "min-isr-raise")),
    # unclean election
    (
        {"unclean.leader.election.enable": "false"},
        {"unclean.leader.election.enable": "true"},
        (Risk.DESTRUCTIVE, "unclean-election"),
    ),
    (
        {"unclean.leader.election.enable": "false"},
        {"unclean.leader.election.enable": None},
        (Risk.DESTRUCTIVE, "unclean-election"),
    ),
    ({}, {"unclean.leader.election.enable": "true"}, (Risk.DESTRUCTIVE, "unclean-election")),
    ({"unclean.leader.election.enable": "true"}, {"unclean.leader.election.enable": "false"}, None),
    ({"unclean.leader.election.enable": "TRUE"}, {"unclean.leader.election.enable": "true"}, None),
    # remote storage
    (
        {**REMOTE, "remote.log.delete.on.disable": "true"},
        {"remote.storage.enable": "false"},
        (Risk.DESTRUCTIVE, "remote-storage-delete"),
    ),
    (REMOTE, {"remote.storage.enable": "false"}, (Risk.DESTRUCTIVE, "remote-storage-delete")),
    (
        {**REMOTE, "remote.log.delete.on.disable": "false"},
        {"remote.storage.enable": "false", "remote.log.delete.on.disable": "true"},
        (Risk.DESTRUCTIVE, "remote-storage-delete"),
    ),
    (
        {**REMOTE, "remote.log.delete.on.disable": "false"},
        {"remote.storage.enable": "false"},
        (Risk.DISRUPTIVE, "remote-storage-off"),
    ),
    ({"remote.storage.enable": "false"}, {"remote.storage.enable": "true"}, None),
    ({"remote.storage.enable": "false"}, {"remote.storage.enable": None}, None),
    (
        {"remote.log.delete.on.disable": "false"},
        {"remote.log.delete.on.disable": "true"},
        (Risk.DESTRUCTIVE, "remote-storage-delete"),
    ),
    ({"remote.log.delete.on.disable": "true"}, {"remote.log.delete.on.disable": "false"}, None),
    # what is refused, or missed, from now on
    ({"max.message.bytes": "2"}, {"max.message.bytes": "1"}, (Risk.DISRUPTIVE, "message-size-cut")),
    ({"max.message.bytes": "2"}, {"max.message.bytes": None}, (Risk.DISRUPTIVE, "message-size-cut")),
    ({"max.message.bytes": "1"}, {"max.message.bytes": "2"}, None),
    (
        {"delete.retention.ms": "2"},
        {"delete.retention.ms": "1"},
        (Risk.DISRUPTIVE, "tombstone-retention-cut"),
    ),
    ({"delete.retention.ms": "1"}, {"delete.retention.ms": "2"}, None),
    (
        {"message.timestamp.before.max.ms": "2"},
        {"message.timestamp.before.max.ms": "1"},
        (Risk.DISRUPTIVE, "timestamp-bound-cut"),
    ),
    ({"message.timestamp.before.max.ms": "1"}, {"message.timestamp.before.max.ms": "2"}, None),
    (
        {"message.timestamp.after.max.ms": "060000"},
        {"message.timestamp.after.max.ms": "1"},
        (Risk.DISRUPTIVE, "timestamp-bound-cut"),
    ),
    ({"message.timestamp.after.max.ms": "1"}, {"message.timestamp.after.max.ms": "1"}, None),
    # what Kafka knows nothing of, and what cannot hurt
    ({}, {"confluent.tier.enable": "true"}, (Risk.DISRUPTIVE, "unknown-config")),
    (
        {"message.format.version": "3.0"},
        {"message.format.version": None},
        (Risk.DISRUPTIVE, "unknown-config"),
    ),
    ({"segment.ms": "2"}, {"segment.ms": "1"}, None),
    ({"compression.type": "zstd"}, {"compression.type": None}, None),
]


@pytest.mark.parametrize(("before", "after", "hazard"), CASES, ids=[f"{b} to {a}" for b, a, _ in CASES])
def test_configs(before: Values, after: Values, hazard: tuple[Risk, str] | None) -> None:
    found = judged(before, after)
    if hazard is None:
        assert found == SAFE
    else:
        assert (found.risk, found.hazard) == hazard
        assert found.reason


def test_reasons_are_for_people() -> None:
    cut = judged({**DELETE, "retention.ms": str(7 * DAY)}, {"retention.ms": str(DAY)})
    assert cut.reason == (
        "retention.ms is cut from 7d to 1d: what lies beyond is deleted within minutes and cannot be had back"
    )
    sized = judged({**DELETE, "retention.bytes": "-1"}, {"retention.bytes": str(2**30)})
    assert sized.reason.startswith("retention.bytes is cut from unlimited to 1 GiB: ")
    assert " in every partition " in sized.reason
    hidden = judged({**DELETE, "retention.ms": str(DAY)}, {"retention.ms": None})
    assert "from 1d to a value this account may not read" in hidden.reason
    policy = judged({}, {"cleanup.policy": "compact"})
    assert policy.reason.startswith("cleanup.policy goes from a value this account may not read to compact: ")
    raised = judged({}, {"min.insync.replicas": "2"})
    assert raised.reason.endswith("(was a value this account may not read)")


def test_every_hazard_has_a_case_either_way() -> None:
    hazards = {hazard[1] for _, _, hazard in CASES if hazard}
    assert hazards == {
        "retention-cut",
        "cleanup-policy",
        "cleanup-policy-removed",
        "min-isr-cut",
        "min-isr-raise",
        "unclean-election",
        "remote-storage-delete",
        "remote-storage-off",
        "message-size-cut",
        "tombstone-retention-cut",
        "timestamp-bound-cut",
        "unknown-config",
    }


def test_no_change_of_a_config_is_a_hazard_to_its_own_value() -> None:
    for key in kafka_configs.topic_configs().values():
        if key.default is not None and not key.internal:
            value = kafka_configs.canonical(key, key.default)
            assert judged({**DELETE, key.name: value}, {key.name: value}) == SAFE, key.name


def test_deletion() -> None:
    found = KINDS["Topic"].judge_delete(REF, {"partitions": 12}, Facts("c"))
    assert (found.risk, found.hazard) == (Risk.DESTRUCTIVE, "delete")
    assert found.reason == "all records in the 12 partitions of orders.v1 are destroyed"


# --- what is shown and not carried out ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "path", "deferred"),
    [
        ({"replicationFactor": 1}, {"replicationFactor": 3}, "replicationFactor", True),
        ({"replicationFactor": 1}, {"replicationFactor": 3, "config.min.insync.replicas": "2"}, "", True),
        ({"replicationFactor": 2}, {"replicationFactor": 3, "config.min.insync.replicas": "2"}, "", False),
        ({"replicationFactor": "1-3"}, {"replicationFactor": 3, "config.min.insync.replicas": "2"}, "", True),
        (
            {"replicationFactor": "2-3"},
            {"replicationFactor": 3, "config.min.insync.replicas": "2"},
            "",
            False,
        ),
        ({"replicationFactor": 3}, {"replicationFactor": 3, "config.min.insync.replicas": "2"}, "", False),
        ({"replicationFactor": 1}, {"replicationFactor": 3, "config.min.insync.replicas": None}, "", False),
        ({}, {"replicationFactor": 3, "config.min.insync.replicas": "2"}, "", False),
        ({"replicationFactor": 1}, {"replicationFactor": 3}, "partitions", False),
        ({"replicationFactor": 1}, {"replicationFactor": 3}, "config.retention.ms", False),
    ],
)
def test_deferred(before: Values, after: Values, path: str, deferred: bool) -> None:
    context = UpdateContext(REF, before, after, Intent(), Facts("c"))
    reason = KINDS["Topic"].deferred(path or "config.min.insync.replicas", context)
    assert (reason is not None) is deferred
