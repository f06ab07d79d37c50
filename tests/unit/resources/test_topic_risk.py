"""Every hazard of a topic: when a change is one, when it is not, and what it says."""

from math import lcm

import pytest
from syrupy.assertion import SnapshotAssertion

from kafkaform.core import kafka_configs
from kafkaform.core.model import (
    SAFE,
    UNREAD_DATA,
    DataSize,
    Facts,
    FieldValue,
    Intent,
    Observed,
    Risk,
    RiskAssessment,
)
from kafkaform.resources import KINDS
from kafkaform.resources.base import UpdateContext
from kafkaform.resources.skew import SkewFacts
from kafkaform.resources.topic.config_risk import HARMLESS, JUDGES
from kafkaform.resources.topic.risk import HAZARDS, _percent_that_move, add_prediction
from tests.support.plans.risk import (
    TOPIC,
    find_unreadable_misuse,
    judge_deletion,
    judge_topic_change,
    render_assessments,
)
from tests.support.skew.scenes import SURE, build_result, what_if

DAY, WEEK = "86400000", "604800000"
NEVER = str(2**63 - 1)

Values = dict[str, FieldValue]

DESTRUCTIVE = {
    *("cleanup-policy", "compaction-lag-cut", "compaction-start", "delete", "delete-by-name", "min-isr-cut"),
    *("partition-increase-compacted", "remote-storage-delete", "replication-factor-cut", "retention-cut"),
    "unclean-election",
}
RISKS = {
    **dict.fromkeys(HAZARDS, Risk.DISRUPTIVE),
    **dict.fromkeys(DESTRUCTIVE, Risk.DESTRUCTIVE),
    "partition-decrease": Risk.IMPOSSIBLE,
    "": Risk.SAFE,
}


def judge_topic_deletion(
    uid: str | None, partitions: int | None = 12, size: DataSize | None = None
) -> RiskAssessment:
    facts = Facts("c", sizes={} if size is None else {TOPIC: size})
    return judge_deletion(
        Observed(TOPIC, uid, {} if partitions is None else {"partitions": partitions}), facts
    )


DELETE: Values = {"cleanup.policy": "delete"}
COMPACT: Values = {"cleanup.policy": "compact"}
BOTH: Values = {"cleanup.policy": "compact,delete"}
REMOTE: Values = {"remote.storage.enable": "true"}
LOCAL: Values = {"remote.storage.enable": "false"}
KEPT: Values = {**REMOTE, "remote.log.delete.on.disable": "false"}
TIERED: Values = {**REMOTE, "retention.ms": "9", "local.retention.ms": "-2"}
NEVER_COMPACTED: Values = {**COMPACT, "min.cleanable.dirty.ratio": "1", "max.compaction.lag.ms": NEVER}
USUAL: Values = {**COMPACT, "min.cleanable.dirty.ratio": "0.5", "max.compaction.lag.ms": NEVER}
LAG, STAMP = "min.compaction.lag.ms", "message.timestamp.type"
STAMPED: Values = {**DELETE, "retention.ms": WEEK, STAMP: "CreateTime"}
APPENDED: Values = {**STAMPED, STAMP: "LogAppendTime"}
SIX: Values = {"partitions": 6, **DELETE}

# What is in force, a config, its value before and after, and the hazard of the change, or none.
CONFIGS: list[tuple[Values, str, FieldValue, FieldValue, str]] = [
    ({}, "unclean.leader.election.enable", "false", "true", "unclean-election"),
    ({}, "unclean.leader.election.enable", "false", None, "unclean-election"),
    ({}, "remote.log.delete.on.disable", "false", "true", "remote-storage-delete"),
    ({}, "message.timestamp.before.max.ms", "2", "1", "timestamp-bound-cut"),
    ({}, "message.timestamp.after.max.ms", "060000", "1", "timestamp-bound-cut"),
    ({}, "message.timestamp.difference.max.ms", "2", "1", "timestamp-bound-cut"),
    ({}, "message.downconversion.enable", "true", "False", "down-conversion-off"),
    # Neither value is known.
    ({}, "compression.type", None, None, "recompression"),
    ({}, "flush.ms", None, None, "flush-interval"),
    ({}, "local.retention.ms", None, None, "local-retention-cut"),
    ({}, "message.format.version", None, None, "message-format"),
    ({}, STAMP, None, None, "timestamp-type"),
    # The one that is known is no risk, whatever the other one is.
    ({}, "remote.storage.enable", None, "true", ""),
    ({}, "remote.log.copy.disable", "true", None, ""),
    ({}, "remote.log.delete.on.disable", "true", None, ""),
    ({}, "message.downconversion.enable", "false", None, ""),
    # In force beside others.
    ({**APPENDED, **COMPACT, "retention.ms": DAY}, STAMP, "LogAppendTime", "CreateTime", "timestamp-type"),
    ({"compression.type": "gzip"}, "compression.gzip.level", "9", "1", "recompression"),
    ({"max.message.bytes": "1048588"}, "compression.type", "producer", "uncompressed", "recompression"),
    ({**DELETE, "retention.ms": "-1", "retention.bytes": "5"}, "segment.ms", "2", "1", "segment-cut"),
    ({"retention.bytes": "-1"}, "local.retention.bytes", "-2", "8", "local-retention-cut"),
    (REMOTE, "remote.log.copy.disable", "false", "true", "remote-storage-off"),
]

# What comes before, what is changed, and the hazard of the first changed field, or none.
CASES: list[tuple[Values, Values, str]] = [
    *(({**others, name: old}, {name: new}, hazard) for others, name, old, new, hazard in CONFIGS),
    # partitions
    (SIX, {"partitions": 12}, "partition-increase"),
    ({"partitions": 6, **COMPACT}, {"partitions": 12}, "partition-increase-compacted"),
    (SIX, {"partitions": 12, **COMPACT}, "partition-increase-compacted"),
    ({"partitions": 6, **COMPACT}, {"partitions": 12, **DELETE}, "partition-increase-compacted"),
    ({"partitions": 6}, {"partitions": 12}, "partition-increase-compacted"),  # the policy may be the worst
    (SIX, {"partitions": 3}, "partition-decrease"),
    # replicas that are copied or dropped
    ({"replicationFactor": 3}, {"replicationFactor": 2}, "replication-factor"),
    ({"replicationFactor": "2-3"}, {"replicationFactor": 3}, "replication-factor"),
    ({"replicationFactor": None}, {"replicationFactor": 2}, "replication-factor"),
    ({"replicationFactor": 3}, {"replicationFactor": 1}, "replication-factor-cut"),
    ({"replicationFactor": None}, {"replicationFactor": 1}, "replication-factor-cut"),
    ({"replicationFactor": "1-3"}, {"replicationFactor": 1}, "replication-factor-cut"),
    # figures as people write them
    ({**DELETE, "retention.ms": WEEK, "segment.ms": WEEK}, {"retention.ms": DAY}, "retention-cut"),
    ({**DELETE, "retention.ms": WEEK, "segment.ms": WEEK}, {"retention.ms": "1234567"}, "retention-cut"),
    ({**DELETE, "retention.ms": WEEK, "segment.ms": NEVER}, {"retention.ms": "0"}, "retention-cut"),
    ({**DELETE, "retention.ms": "-1"}, {"retention.ms": DAY}, "retention-cut"),
    ({**DELETE, "retention.bytes": str(2**40)}, {"retention.bytes": "2073741824"}, "retention-cut"),
    ({**DELETE, "retention.bytes": "-1"}, {"retention.bytes": str(2**30)}, "retention-cut"),
    ({"max.message.bytes": "10000"}, {"max.message.bytes": "9999"}, "message-size-cut"),
    ({**BOTH, "retention.ms": DAY, "segment.ms": WEEK}, {"segment.ms": "3600000"}, "segment-cut"),
    (APPENDED, {STAMP: "CreateTime"}, "timestamp-type"),
    ({**APPENDED, "retention.ms": "-1"}, {STAMP: "CreateTime"}, "timestamp-type"),
    ({**STAMPED, **COMPACT}, {STAMP: "LogAppendTime"}, "timestamp-type"),
    # retention: effective against effective
    ({**DELETE, "retention.ms": WEEK}, {"retention.ms": "604800001"}, ""),
    ({**DELETE, "retention.ms": WEEK}, {"retention.ms": "604799999"}, "retention-cut"),
    # Long.MAX is as long as -1: no record gets there.
    ({**DELETE, "retention.ms": "-1"}, {"retention.ms": NEVER}, ""),
    ({**DELETE, "retention.ms": NEVER}, {"retention.ms": "-1"}, ""),
    (DELETE, {"retention.ms": "1"}, "retention-cut"),  # before is not known
    (DELETE, {"retention.ms": "-1"}, ""),
    ({**DELETE, "retention.ms": "1"}, {"retention.ms": None}, "retention-cut"),
    ({"retention.ms": "2"}, {"retention.ms": "1"}, "retention-cut"),  # nor is the policy
    ({**COMPACT, "retention.ms": "2"}, {"retention.ms": "1"}, ""),
    ({"cleanup.policy": "", "retention.ms": "2"}, {"retention.ms": "1"}, ""),
    ({**BOTH, "retention.ms": "2"}, {"retention.ms": "1"}, "retention-cut"),
    ({**COMPACT, "retention.ms": "2"}, {"retention.ms": "1", **DELETE}, "retention-cut"),
    ({**DELETE, "retention.ms": "2"}, {"retention.ms": "1", **COMPACT}, "retention-cut"),
    # cleanup.policy
    (DELETE, COMPACT, "cleanup-policy"),
    (COMPACT, DELETE, "cleanup-policy"),
    (DELETE, BOTH, "cleanup-policy"),
    ({"cleanup.policy": ""}, DELETE, "cleanup-policy"),
    ({}, DELETE, "cleanup-policy"),
    ({}, {"cleanup.policy": ""}, "cleanup-policy"),
    (DELETE, {"cleanup.policy": None}, "cleanup-policy"),
    (BOTH, DELETE, "cleanup-policy-removed"),
    (DELETE, {"cleanup.policy": ""}, "cleanup-policy-removed"),
    ({"cleanup.policy": "delete "}, DELETE, ""),
    ({"cleanup.policy": "delete, compact"}, BOTH, ""),
    # min.insync.replicas
    ({"min.insync.replicas": "2"}, {"min.insync.replicas": "1"}, "min-isr-cut"),
    ({"min.insync.replicas": "3"}, {"min.insync.replicas": "2"}, ""),
    ({"min.insync.replicas": "1"}, {"min.insync.replicas": "2"}, "min-isr-raise"),
    ({"min.insync.replicas": "2"}, {"min.insync.replicas": None}, "min-isr-cut"),
    ({}, {"min.insync.replicas": "1"}, "min-isr-cut"),
    ({}, {"min.insync.replicas": "2"}, "min-isr-raise"),
    # unclean election
    ({"unclean.leader.election.enable": "TRUE"}, {"unclean.leader.election.enable": "true"}, ""),
    # remote storage
    ({**REMOTE, "remote.log.delete.on.disable": "true"}, LOCAL, "remote-storage-delete"),
    (REMOTE, LOCAL, "remote-storage-delete"),
    (KEPT, {**LOCAL, "remote.log.delete.on.disable": "true"}, "remote-storage-delete"),
    (KEPT, LOCAL, "remote-storage-off"),
    (LOCAL, {"remote.storage.enable": None}, ""),
    ({"remote.log.delete.on.disable": "true"}, {"remote.log.delete.on.disable": "false"}, ""),
    # what is refused, or missed, from now on
    ({"max.message.bytes": "2"}, {"max.message.bytes": None}, "message-size-cut"),
    ({"max.message.bytes": "1"}, {"max.message.bytes": "2"}, ""),
    ({"delete.retention.ms": "2"}, {"delete.retention.ms": "1"}, "tombstone-retention-cut"),
    ({"delete.retention.ms": "1"}, {"delete.retention.ms": "2"}, ""),
    ({**DELETE, "delete.retention.ms": "2"}, {"delete.retention.ms": "1"}, ""),
    ({"message.timestamp.before.max.ms": "1"}, {"message.timestamp.before.max.ms": "2"}, ""),
    # what Kafka knows nothing of, and what cannot hurt
    ({}, {"confluent.tier.enable": "true"}, "unknown-config"),
    # what Kafka retired
    ({"message.timestamp.difference.max.ms": "1"}, {"message.timestamp.difference.max.ms": "2"}, ""),
    ({"message.format.version": "2.8"}, {"message.format.version": "3.0"}, "message-format"),
    ({"message.downconversion.enable": "false"}, {"message.downconversion.enable": "true"}, ""),
    # what brokers recompress
    ({"compression.type": "producer"}, {"compression.type": "zstd"}, "recompression"),
    ({"compression.type": "zstd"}, {"compression.type": None}, "recompression"),
    ({"compression.type": "zstd"}, {"compression.type": "producer"}, ""),
    ({"compression.gzip.level": "9"}, {"compression.gzip.level": "1"}, "recompression"),
    ({"compression.type": "zstd", "compression.lz4.level": "9"}, {"compression.lz4.level": "1"}, ""),
    ({"compression.type": "producer", "compression.zstd.level": "3"}, {"compression.zstd.level": "9"}, ""),
    # what cannot hurt
    ({"preallocate": "false"}, {"preallocate": "true"}, ""),
    # what compaction deletes
    ({**COMPACT, LAG: WEEK}, {LAG: "0"}, "compaction-lag-cut"),
    ({**BOTH, LAG: "2"}, {LAG: None}, "compaction-lag-cut"),
    ({LAG: "2"}, {LAG: "1"}, "compaction-lag-cut"),
    (COMPACT, {LAG: "1"}, "compaction-lag-cut"),
    ({**COMPACT, LAG: "1"}, {LAG: "2"}, ""),
    ({**DELETE, LAG: "2"}, {LAG: "1", **COMPACT}, "compaction-lag-cut"),
    ({**DELETE, LAG: "2"}, {LAG: "1"}, ""),
    (USUAL, {"max.compaction.lag.ms": "1"}, "compaction-sooner"),
    (USUAL, {"min.cleanable.dirty.ratio": "0.1"}, "compaction-sooner"),
    (USUAL, {"min.cleanable.dirty.ratio": "0.50"}, ""),
    ({**USUAL, **DELETE}, {"max.compaction.lag.ms": "1"}, ""),
    (NEVER_COMPACTED, {"max.compaction.lag.ms": "1"}, "compaction-start"),
    (NEVER_COMPACTED, {"min.cleanable.dirty.ratio": "0.9"}, "compaction-start"),
    (COMPACT, {"min.cleanable.dirty.ratio": "0.9"}, "compaction-start"),  # it may be
    (NEVER_COMPACTED, {"max.compaction.lag.ms": None}, "compaction-start"),
    (NEVER_COMPACTED, {"min.cleanable.dirty.ratio": None}, "compaction-start"),
    ({**COMPACT, "max.compaction.lag.ms": NEVER}, {"min.cleanable.dirty.ratio": "1"}, ""),
    ({**NEVER_COMPACTED, "max.compaction.lag.ms": "9"}, {"max.compaction.lag.ms": "1"}, "compaction-sooner"),
    # segments that are closed sooner
    ({"segment.ms": "2"}, {"segment.ms": "1"}, "segment-cut"),
    ({**DELETE, "segment.ms": "2"}, {"segment.ms": "1"}, "segment-cut"),
    ({**DELETE, "retention.ms": WEEK, "segment.bytes": "2"}, {"segment.bytes": "1"}, "segment-cut"),
    ({"cleanup.policy": "", "segment.ms": "2"}, {"segment.ms": "1"}, ""),
    ({**DELETE, "segment.index.bytes": "9"}, {"segment.index.bytes": "8"}, "segment-cut"),
    ({**DELETE, "index.interval.bytes": "9"}, {"index.interval.bytes": "8"}, "segment-cut"),
    ({**DELETE, "segment.jitter.ms": "0"}, {"segment.jitter.ms": "1"}, "segment-cut"),
    ({**DELETE, "segment.jitter.ms": "1"}, {"segment.jitter.ms": "0"}, ""),
    ({**COMPACT, "segment.bytes": "1"}, {"segment.bytes": "2"}, ""),
    ({**DELETE, "retention.ms": "-1", "retention.bytes": "-1", "segment.ms": "2"}, {"segment.ms": "1"}, ""),
    # what a record's time is
    ({STAMP: "CreateTime"}, {STAMP: "LogAppendTime"}, "timestamp-type"),
    ({STAMP: "LogAppendTime"}, {STAMP: None}, "timestamp-type"),
    # when records are forced to disk
    ({"flush.ms": "1000"}, {"flush.ms": NEVER}, "flush-interval"),
    ({"flush.messages": NEVER}, {"flush.messages": "1"}, "flush-interval"),
    ({"flush.messages": "1"}, {"flush.messages": "01"}, ""),
    # what brokers keep beside remote storage
    (TIERED, {"local.retention.ms": "8"}, "local-retention-cut"),
    ({**REMOTE, "retention.ms": "9", "local.retention.ms": "8"}, {"local.retention.ms": "-2"}, ""),
    ({**LOCAL, "local.retention.ms": "9"}, {"local.retention.ms": "1"}, ""),
    ({**LOCAL, "remote.log.copy.disable": "false"}, {"remote.log.copy.disable": "true"}, ""),
]


@pytest.mark.parametrize(("before", "after", "hazard"), CASES, ids=[f"{b} to {a}" for b, a, _ in CASES])
def test_topic_change_has_risk_and_hazard(before: Values, after: Values, hazard: str) -> None:
    assessment = judge_topic_change(before, after)
    assert (assessment.risk, assessment.hazard) == (RISKS[hazard], hazard)
    assert bool(hazard) is bool(assessment.reason)


@pytest.mark.parametrize(("partitions", "text"), [(3, "lost"), (12, "is broken")])
def test_partition_change_of_empty_topic_loses_no_data(partitions: int, text: str) -> None:
    empty, full, unread = (
        judge_topic_change(SIX, {"partitions": partitions}, size=size)
        for size in (DataSize(0), DataSize(1), DataSize(0, 6, unread=1))
    )
    assert (text in full.reason, text in unread.reason, text in empty.reason) == (True, True, False)
    assert empty.reason.endswith("(the topic holds no data)")
    cut = judge_topic_change({"segment.ms": "9"}, {"segment.ms": "1"}, size=DataSize(1))
    assert "holds" not in cut.reason, "the number of records does not matter"


def test_hazard_reasons_match_golden(golden: SnapshotAssertion) -> None:
    assessments = [judge_topic_change(before, after) for before, after, _ in CASES]
    assessments += [judge_topic_deletion("id"), judge_topic_deletion("id", 1), judge_topic_deletion(None)]
    assessments.append(judge_topic_deletion(None, size=DataSize(0, 12, unread=12, silent=(3,))))
    assert all(assessment.risk is RISKS[assessment.hazard] for assessment in assessments)
    assert find_unreadable_misuse(assessments) == []
    assert render_assessments(assessments) == golden(name="hazards.txt")


def test_partition_decrease_has_no_prediction() -> None:
    facts = Facts("c").add_part(SkewFacts({TOPIC: build_result(what_ifs=[what_if(3, SURE)])}))
    context = UpdateContext(TOPIC, {"partitions": 6}, {"partitions": 3}, Intent(), facts)
    lost = RiskAssessment(Risk.IMPOSSIBLE, "partition-decrease", "their records would be lost")
    assert add_prediction(lost, context) == lost


PAIRS = [(a, b) for a in range(1, 25) for b in range(1, 25)] + [(6, 12), (7, 11), (100, 101), (12, 30)]


def test_share_of_moved_keys_matches_brute_force() -> None:
    for before, after in PAIRS:
        period = lcm(before, after)
        move = sum(h % before != h % after for h in range(period))
        assert _percent_that_move(before, after) == move * 1000 // period / 10, (before, after)


def test_deletion_of_unread_data_needs_own_consent() -> None:
    hazards = KINDS["Topic"].hazards
    assert hazards.includes == {"delete-by-name": "delete"}
    assessment = judge_topic_deletion(None, size=DataSize(0, 12, unread=12, silent=(3,)))
    assert assessment.hazard == "delete-by-name"
    assert hazards.to_consent(assessment) == (UNREAD_DATA,)


def test_every_topic_config_is_judged_or_harmless_for_a_reason() -> None:
    judged = {path.removeprefix("config.") for path in JUDGES}
    keys = {**kafka_configs.topic_configs(), **kafka_configs.retired_configs("topics")}
    public = {key.name for key in keys.values() if not key.internal}
    assert judged | set(HARMLESS) == public - kafka_configs.REASSIGNMENT_KEYS
    assert not judged & set(HARMLESS)
    assert all(HARMLESS.values())
    for key in keys.values():
        if key.default is not None and not key.internal and key.name not in kafka_configs.REASSIGNMENT_KEYS:
            value = kafka_configs.canonical(key, key.default)
            assert judge_topic_change({**DELETE, key.name: value}, {key.name: value}) == SAFE, key.name


def test_every_hazard_has_a_case() -> None:
    of_others = {"delete", "delete-by-name", UNREAD_DATA, "disk-space", "recreate", "replica-move"}
    assert {hazard for _, _, hazard in CASES} - {""} == HAZARDS - of_others


@pytest.mark.parametrize("name", sorted(HARMLESS))
def test_harmless_config_is_safe(name: str) -> None:
    assert judge_topic_change({}, {name: None}) == judge_topic_change({name: "1"}, {name: "2"}) == SAFE


MIN_ISR = "config.min.insync.replicas"


@pytest.mark.parametrize(
    ("before", "after", "path", "deferred"),
    [
        (1, {}, "replicationFactor", True),
        (1, {MIN_ISR: "2"}, MIN_ISR, True),
        (2, {MIN_ISR: "2"}, MIN_ISR, False),
        ("1-3", {MIN_ISR: "2"}, MIN_ISR, True),
        ("2-3", {MIN_ISR: "2"}, MIN_ISR, False),
        (3, {MIN_ISR: "2"}, MIN_ISR, False),
        (1, {MIN_ISR: None}, MIN_ISR, False),
        (None, {MIN_ISR: "2"}, MIN_ISR, False),
        (1, {}, "partitions", False),
        (1, {}, "config.retention.ms", False),
    ],
)
def test_field_waits_for_replicas(before: FieldValue, after: Values, path: str, deferred: bool) -> None:
    replicas: Values = {} if before is None else {"replicationFactor": before}
    context = UpdateContext(TOPIC, replicas, {"replicationFactor": 3, **after}, Intent(), Facts("c"))
    reason = KINDS["Topic"].field(path).explain_deferral(context)
    assert (reason is not None) is deferred
