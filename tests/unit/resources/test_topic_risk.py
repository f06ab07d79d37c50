"""Every hazard of a topic: when a change is one, when it is not, and what it says."""

from __future__ import annotations

from math import lcm

import pytest

from kafkaform.core import kafka_configs
from kafkaform.core.model import (
    SAFE,
    UNREAD_DATA,
    DataSize,
    Facts,
    FieldValue,
    Intent,
    Observed,
    ResourceRef,
    Risk,
    RiskAssessment,
    State,
)
from kafkaform.resources import KINDS
from kafkaform.resources.base import UpdateContext
from kafkaform.resources.topic.config_risk import HARMLESS, JUDGES
from kafkaform.resources.topic.risk import HAZARDS, _percent_that_move, judge
from tests.support.golden import wording
from tests.support.kinds import judge_deletion

REF = ResourceRef("Topic", "orders.v1")
DAY = 86_400_000

Values = dict[str, FieldValue]


def judged(
    before: Values, after: Values, path: str | None = None, *, keyed: bool | None = None
) -> RiskAssessment:
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


def test_share_of_keys_that_move_by_brute_force() -> None:
    for before, after in PAIRS:
        period = lcm(before, after)
        move = sum(h % before != h % after for h in range(period))
        assert _percent_that_move(before, after) == move * 1000 // period / 10, (before, after)


@pytest.mark.parametrize(("before", "after"), [(6, 12), (6, 7), (3, 4), (12, 24), (9999, 10000), (1, 3)])
def test_a_partition_increase_says_how_many_keys_move(before: int, after: int) -> None:
    found = judged({"partitions": before, "cleanup.policy": "delete"}, {"partitions": after})
    assert (found.risk, found.hazard, found.reason) == (Risk.DISRUPTIVE, "partition-increase", wording)


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
    assert found.reason == wording


def test_a_partition_decrease_is_impossible_whatever_else() -> None:
    for keyed in (None, False, True):
        found = judged({"partitions": 12, "cleanup.policy": "delete"}, {"partitions": 6}, keyed=keyed)
        assert (found.risk, found.hazard) == (Risk.IMPOSSIBLE, "partition-decrease")
        assert "(12 → 6)" in found.reason
        assert str(found.remedy) == wording
        assert "or write `partitions: 12`" in str(found.remedy)


def test_a_replication_factor_is_judged_by_what_is_copied_or_lost() -> None:
    pairs: tuple[tuple[FieldValue, FieldValue], ...] = ((1, 3), (3, 2), ("2-3", 3), ("1-3", 2), (None, 2))
    for before, after in pairs:
        found = judged({"replicationFactor": before}, {"replicationFactor": after})
        assert (found.risk, found.hazard) == (Risk.DISRUPTIVE, "replication-factor")
        assert f"from {before} to {after} replicas" in found.reason


@pytest.mark.parametrize("before", [3, 2, "1-3", "2-3", None])
def test_a_replication_factor_below_two_leaves_every_record_on_one_broker(before: FieldValue) -> None:
    found = judged({"replicationFactor": before}, {"replicationFactor": 1})
    assert (found.risk, found.hazard, found.reason) == (Risk.DESTRUCTIVE, "replication-factor-cut", wording)


# --- configs -----------------------------------------------------------------------------------------

DELETE: Values = {"cleanup.policy": "delete"}
COMPACT: Values = {"cleanup.policy": "compact"}
REMOTE: Values = {"remote.storage.enable": "true"}
NEVER = str(2**63 - 1)
NEVER_COMPACTED: Values = {**COMPACT, "min.cleanable.dirty.ratio": "1", "max.compaction.lag.ms": NEVER}
USUAL: Values = {**COMPACT, "min.cleanable.dirty.ratio": "0.5", "max.compaction.lag.ms": NEVER}

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
    ({**DELETE, "delete.retention.ms": "2"}, {"delete.retention.ms": "1"}, None),
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
    # what Kafka retired
    (
        {"message.timestamp.difference.max.ms": "2"},
        {"message.timestamp.difference.max.ms": "1"},
        (Risk.DISRUPTIVE, "timestamp-bound-cut"),
    ),
    ({"message.timestamp.difference.max.ms": "1"}, {"message.timestamp.difference.max.ms": "2"}, None),
    (
        {"message.format.version": "3.0"},
        {"message.format.version": None},
        (Risk.DISRUPTIVE, "message-format"),
    ),
    (
        {"message.format.version": "2.8"},
        {"message.format.version": "3.0"},
        (Risk.DISRUPTIVE, "message-format"),
    ),
    (
        {"message.downconversion.enable": "true"},
        {"message.downconversion.enable": "False"},
        (Risk.DISRUPTIVE, "down-conversion-off"),
    ),
    ({"message.downconversion.enable": "false"}, {"message.downconversion.enable": "true"}, None),
    # what brokers recompress
    ({"compression.type": "producer"}, {"compression.type": "zstd"}, (Risk.DISRUPTIVE, "recompression")),
    ({"compression.type": "zstd"}, {"compression.type": "uncompressed"}, (Risk.DISRUPTIVE, "recompression")),
    ({"compression.type": "zstd"}, {"compression.type": None}, (Risk.DISRUPTIVE, "recompression")),
    ({"compression.type": "zstd"}, {"compression.type": "producer"}, None),
    ({"compression.type": "gzip"}, {"compression.type": "gzip"}, None),
    (
        {"compression.type": "gzip", "compression.gzip.level": "9"},
        {"compression.gzip.level": "1"},
        (Risk.DISRUPTIVE, "recompression"),
    ),
    ({"compression.gzip.level": "9"}, {"compression.gzip.level": "1"}, (Risk.DISRUPTIVE, "recompression")),
    ({"compression.type": "zstd", "compression.lz4.level": "9"}, {"compression.lz4.level": "1"}, None),
    ({"compression.type": "producer", "compression.zstd.level": "3"}, {"compression.zstd.level": "9"}, None),
    # what cannot hurt
    ({"preallocate": "false"}, {"preallocate": "true"}, None),
    # what compaction deletes
    (
        {**COMPACT, "min.compaction.lag.ms": "604800000"},
        {"min.compaction.lag.ms": "0"},
        (Risk.DESTRUCTIVE, "compaction-lag-cut"),
    ),
    (
        {"cleanup.policy": "compact,delete", "min.compaction.lag.ms": "2"},
        {"min.compaction.lag.ms": None},
        (Risk.DESTRUCTIVE, "compaction-lag-cut"),
    ),
    (
        {"min.compaction.lag.ms": "2"},
        {"min.compaction.lag.ms": "1"},
        (Risk.DESTRUCTIVE, "compaction-lag-cut"),
    ),
    (COMPACT, {"min.compaction.lag.ms": "1"}, (Risk.DESTRUCTIVE, "compaction-lag-cut")),
    (
        {**DELETE, "min.compaction.lag.ms": "2"},
        {"min.compaction.lag.ms": "1", "cleanup.policy": "compact"},
        (Risk.DESTRUCTIVE, "compaction-lag-cut"),
    ),
    ({**COMPACT, "min.compaction.lag.ms": "1"}, {"min.compaction.lag.ms": "2"}, None),
    ({**DELETE, "min.compaction.lag.ms": "2"}, {"min.compaction.lag.ms": "1"}, None),
    (USUAL, {"max.compaction.lag.ms": "1"}, (Risk.DISRUPTIVE, "compaction-sooner")),
    (USUAL, {"min.cleanable.dirty.ratio": "0.1"}, (Risk.DISRUPTIVE, "compaction-sooner")),
    (USUAL, {"min.cleanable.dirty.ratio": "0.50"}, None),
    (USUAL, {"min.cleanable.dirty.ratio": "0.9"}, None),
    ({**USUAL, "max.compaction.lag.ms": "1"}, {"max.compaction.lag.ms": "2"}, None),
    ({**USUAL, **DELETE}, {"max.compaction.lag.ms": "1"}, None),
    ({**USUAL, **DELETE}, {"min.cleanable.dirty.ratio": "0"}, None),
    (NEVER_COMPACTED, {"max.compaction.lag.ms": "1"}, (Risk.DESTRUCTIVE, "compaction-start")),
    (NEVER_COMPACTED, {"min.cleanable.dirty.ratio": "0.9"}, (Risk.DESTRUCTIVE, "compaction-start")),
    (COMPACT, {"min.cleanable.dirty.ratio": "0.9"}, (Risk.DESTRUCTIVE, "compaction-start")),  # it may be
    (
        {**NEVER_COMPACTED, "max.compaction.lag.ms": "9"},
        {"max.compaction.lag.ms": "1"},
        (Risk.DISRUPTIVE, "compaction-sooner"),
    ),
    # segments that are closed sooner
    ({"segment.ms": "2"}, {"segment.ms": "1"}, (Risk.DISRUPTIVE, "segment-cut")),
    ({**COMPACT, "segment.ms": "2"}, {"segment.ms": "1"}, (Risk.DISRUPTIVE, "segment-cut")),
    ({**DELETE, "segment.ms": "2"}, {"segment.ms": "1"}, (Risk.DISRUPTIVE, "segment-cut")),
    ({**DELETE, "segment.bytes": "2"}, {"segment.bytes": "1"}, (Risk.DISRUPTIVE, "segment-cut")),
    ({**DELETE, "segment.index.bytes": "9"}, {"segment.index.bytes": "8"}, (Risk.DISRUPTIVE, "segment-cut")),
    (
        {**DELETE, "index.interval.bytes": "9"},
        {"index.interval.bytes": "8"},
        (Risk.DISRUPTIVE, "segment-cut"),
    ),
    ({**DELETE, "segment.jitter.ms": "0"}, {"segment.jitter.ms": "1"}, (Risk.DISRUPTIVE, "segment-cut")),
    ({**DELETE, "segment.jitter.ms": "1"}, {"segment.jitter.ms": "0"}, None),
    ({**DELETE, "segment.ms": "1"}, {"segment.ms": "2"}, None),
    ({**COMPACT, "segment.bytes": "1"}, {"segment.bytes": "2"}, None),
    ({**DELETE, "retention.ms": "-1", "retention.bytes": "-1", "segment.ms": "2"}, {"segment.ms": "1"}, None),
    (
        {**DELETE, "retention.ms": "-1", "retention.bytes": "5", "segment.bytes": "2"},
        {"segment.bytes": "1"},
        (Risk.DISRUPTIVE, "segment-cut"),
    ),
    ({"cleanup.policy": "", "segment.ms": "2"}, {"segment.ms": "1"}, None),
    # what a record's time is
    (
        {"message.timestamp.type": "CreateTime"},
        {"message.timestamp.type": "LogAppendTime"},
        (Risk.DISRUPTIVE, "timestamp-type"),
    ),
    (
        {"message.timestamp.type": "LogAppendTime"},
        {"message.timestamp.type": None},
        (Risk.DISRUPTIVE, "timestamp-type"),
    ),
    ({"message.timestamp.type": "CreateTime"}, {"message.timestamp.type": "CreateTime"}, None),
    # when records are forced to disk
    ({"flush.ms": "1000"}, {"flush.ms": NEVER}, (Risk.DISRUPTIVE, "flush-interval")),
    ({"flush.messages": NEVER}, {"flush.messages": "1"}, (Risk.DISRUPTIVE, "flush-interval")),
    ({"flush.messages": "1"}, {"flush.messages": "01"}, None),
    # what brokers keep beside remote storage
    (
        {**REMOTE, "retention.ms": "9", "local.retention.ms": "-2"},
        {"local.retention.ms": "8"},
        (Risk.DISRUPTIVE, "local-retention-cut"),
    ),
    ({**REMOTE, "retention.ms": "9", "local.retention.ms": "-2"}, {"local.retention.ms": "9"}, None),
    ({**REMOTE, "retention.ms": "9", "local.retention.ms": "8"}, {"local.retention.ms": "-2"}, None),
    (
        {"retention.bytes": "-1", "local.retention.bytes": "-2"},
        {"local.retention.bytes": "8"},
        (Risk.DISRUPTIVE, "local-retention-cut"),
    ),
    ({"remote.storage.enable": "false", "local.retention.ms": "9"}, {"local.retention.ms": "1"}, None),
    (
        {**REMOTE, "remote.log.copy.disable": "false"},
        {"remote.log.copy.disable": "true"},
        (Risk.DISRUPTIVE, "remote-storage-off"),
    ),
    ({**REMOTE, "remote.log.copy.disable": "true"}, {"remote.log.copy.disable": "false"}, None),
    (
        {"remote.storage.enable": "false", "remote.log.copy.disable": "false"},
        {"remote.log.copy.disable": "true"},
        None,
    ),
]


@pytest.mark.parametrize(("before", "after", "hazard"), CASES, ids=[f"{b} to {a}" for b, a, _ in CASES])
def test_each_change_of_a_config_has_its_risk_and_hazard(
    before: Values, after: Values, hazard: tuple[Risk, str] | None
) -> None:
    found = judged(before, after)
    if hazard is None:
        assert found == SAFE
    else:
        assert (found.risk, found.hazard) == hazard
        assert found.reason


def test_reasons_are_for_people() -> None:
    cut = judged({**DELETE, "retention.ms": str(7 * DAY)}, {"retention.ms": str(DAY)})
    gone = (
        "retention.ms is cut from 7d to 1d: older records are deleted permanently, "
        "within minutes if their whole segment is older, else "
    )
    assert cut.reason == f"{gone}once it is"
    # As KF111 has it: a record stays for the retention and as long as its segment takes to be closed.
    long = judged(
        {**DELETE, "retention.ms": str(7 * DAY), "segment.ms": str(7 * DAY)}, {"retention.ms": str(DAY)}
    )
    assert long.reason == wording
    until_full = judged(
        {**DELETE, "retention.ms": str(7 * DAY), "segment.ms": NEVER}, {"retention.ms": str(DAY)}
    )
    assert until_full.reason == cut.reason
    sized = judged({**DELETE, "retention.bytes": "-1"}, {"retention.bytes": str(2**30)})
    assert sized.reason == wording
    hidden = judged({**DELETE, "retention.ms": str(DAY)}, {"retention.ms": None})
    assert hidden.reason == wording
    policy = judged({}, {"cleanup.policy": "compact"})
    assert policy.reason == wording
    raised = judged({}, {"min.insync.replicas": "2"})
    assert raised.reason == wording


def test_reasons_have_figures_as_people_write_them() -> None:
    # Reasons have durations and sizes as people write them.
    odd = judged(
        {**DELETE, "retention.ms": str(7 * DAY), "segment.ms": "604800000"}, {"retention.ms": "1234567"}
    )
    assert odd.reason == wording
    sized = judged({**DELETE, "retention.bytes": str(2**40)}, {"retention.bytes": "2073741824"})
    assert "from 1 TiB to about 1.9 GiB: " in sized.reason
    assert "1073741825" not in judged({"max.message.bytes": "1073741825"}, {"max.message.bytes": "5"}).reason
    odd = judged({"max.message.bytes": "10000"}, {"max.message.bytes": "9999"})
    assert "from about 9.8 KiB to 9999: " in odd.reason
    # Reasons of what compaction and retention reach sooner.
    lag = judged({**COMPACT, "min.compaction.lag.ms": str(7 * DAY)}, {"min.compaction.lag.ms": "0"})
    assert lag.reason == wording
    shorter = judged({**COMPACT, "min.compaction.lag.ms": str(7 * DAY)}, {"min.compaction.lag.ms": str(DAY)})
    assert shorter.reason == wording
    before: Values = {
        "cleanup.policy": "compact,delete",
        "retention.ms": str(DAY),
        "segment.ms": str(7 * DAY),
    }
    assert judged(before, {"segment.ms": str(DAY // 24)}).reason == wording
    before = {"compression.type": "producer", "max.message.bytes": "1048588"}
    assert judged(before, {"compression.type": "uncompressed"}).reason == wording
    # Reasons of another timestamp.
    assert judged(DELETE, {"message.timestamp.type": "CreateTime"}).reason == wording
    before = {**DELETE, "retention.ms": str(7 * DAY), "message.timestamp.type": "LogAppendTime"}
    assert judged(before, {"message.timestamp.type": "CreateTime"}).reason == wording
    before["message.timestamp.type"] = "CreateTime"
    assert judged(before, {"message.timestamp.type": "LogAppendTime"}).reason == wording
    assert (
        "retention" not in judged({**before, **COMPACT}, {"message.timestamp.type": "LogAppendTime"}).reason
    )


# --- every config is classified ----------------------------------------------------------------------


def test_every_topic_config_is_judged_either_way_or_harmless_for_a_reason() -> None:
    # Every topic config of kafka is judged or harmless for a reason.
    judged_ones = {path.removeprefix("config.") for path in JUDGES}
    keys = {**kafka_configs.topic_configs(), **kafka_configs.retired_configs("topics")}
    public = {key.name for key in keys.values() if not key.internal}
    assert judged_ones | set(HARMLESS) == public - kafka_configs.REASSIGNMENT_KEYS
    assert not judged_ones & set(HARMLESS)
    assert all(HARMLESS.values())
    # Every hazard has a case either way.
    hazards = {hazard[1] for _, _, hazard in CASES if hazard}
    of_partitions = {"partition-decrease", "partition-increase", "partition-increase-compacted"}
    of_others = {"delete", "delete-by-name", UNREAD_DATA} | of_partitions
    of_replicas = {"disk-space", "replica-move", "replication-factor", "replication-factor-cut"}
    assert hazards == HAZARDS - of_others - of_replicas
    for key in keys.values():
        if key.default is not None and not key.internal and key.name not in kafka_configs.REASSIGNMENT_KEYS:
            value = kafka_configs.canonical(key, key.default)
            assert judged({**DELETE, key.name: value}, {key.name: value}) == SAFE, key.name


def test_a_config_that_nobody_classified_is_not_safe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(HARMLESS, "preallocate")
    found = judged({"preallocate": "false"}, {"preallocate": "true"})
    assert (found.risk, found.hazard, found.reason) == (Risk.DISRUPTIVE, "unknown-config", wording)


@pytest.mark.parametrize("name", sorted(HARMLESS))
def test_a_harmless_config_is_safe_whatever_is_known(name: str) -> None:
    assert judged({}, {name: None}) == judged({name: "1"}, {name: "2"}) == SAFE


def test_a_deletion_is_judged_by_its_data_and_by_name_alone() -> None:
    found = judge_deletion(Observed(REF, "id", {"partitions": 12}), Facts("c"))
    assert (found.risk, found.hazard, found.reason) == (Risk.DESTRUCTIVE, "delete", wording)
    found = judge_deletion(Observed(REF, None, {"partitions": 12}), Facts("c"))
    assert (found.risk, found.hazard, found.reason) == (Risk.DESTRUCTIVE, "delete-by-name", wording)
    assert KINDS["Topic"].hazards.includes == {"delete-by-name": "delete"}
    # A deletion by name of data that could not be read needs consent to that.
    size = DataSize(0, 12, unread=12, silent=(3,))
    kind, facts = KINDS["Topic"], Facts("c", sizes={REF: size})
    assessment = judge_deletion(Observed(REF, None, {"partitions": 12}), facts)
    assert assessment.hazard == "delete-by-name"
    assert kind.hazards.to_consent(assessment) == (UNREAD_DATA,)
    assert assessment.reason == wording


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
def test_a_field_is_deferred_until_its_replicas_are_there(
    before: Values, after: Values, path: str, deferred: bool
) -> None:
    context = UpdateContext(REF, before, after, Intent(), Facts("c"))
    reason = KINDS["Topic"].field(path or "config.min.insync.replicas").explain_deferral(context)
    assert (reason is not None) is deferred


@pytest.mark.parametrize(
    ("name", "before", "after"), [("retention.ms", "-1", "86400000"), ("retention.bytes", "-1", "1000000001")]
)
def test_no_limit_is_said_in_a_word_and_an_odd_number_rounded(name: str, before: str, after: str) -> None:
    assert judged({**DELETE, name: before}, {name: after}).reason == wording


def test_one_partition_is_written_in_the_singular() -> None:
    one = judge_deletion(Observed(REF, "id", {"partitions": 1}), Facts("c"))
    assert one.reason == wording
    fewer = judged({"partitions": 3}, {"partitions": 1})
    assert "with 1 partition, such as" in str(fewer.remedy)


def test_the_deletion_of_a_topic_whose_partitions_are_not_known_is_judged() -> None:
    assert judge_deletion(Observed(REF, "id", {}), Facts("c")).hazard == "delete"
