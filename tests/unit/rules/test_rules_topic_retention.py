"""The rules about retention: KF110, KF111, KF112."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafkaform.core.model import Facts
from kafkaform.rules import RuleContext
from kafkaform.rules.catalogue import ProjectLimits
from tests.support.rule_scenes import Said, configured, living, observed, said, silent
from tests.support.scenes import DAY, WEEK, absent, declared

DAY_MS = int(DAY)
THREE_DAYS = ProjectLimits(recovery_window_ms=3 * DAY_MS)
LONG_MAX = str(2**63 - 1)


def facts(**given: str) -> Facts:
    defaults = {name.replace("_", "."): value for name, value in given.items()}
    return Facts("c", config_defaults={"Topic": defaults})


# --- KF110: the recovery window --------------------------------------------------------------------


def test_retention_below_the_recovery_window() -> None:
    assert said("KF110", RuleContext((declared("a", retention_ms=DAY),), limits=THREE_DAYS)) == [
        Said(
            "a",
            "warning",
            "retention.ms is 1d, shorter than the recovery window of 3d",
            "write config: {retention.ms: 3d} or more",
            "config.retention.ms",
        )
    ]


@pytest.mark.parametrize(
    ("retention", "trips"),
    [("0", True), (str(3 * DAY_MS - 1), True), (str(3 * DAY_MS), False), (WEEK, False), ("-1", False)],
)
def test_where_the_recovery_window_ends(retention: str, trips: bool) -> None:
    desired = (declared("a", retention_ms=retention),)
    assert silent("KF110", RuleContext(desired, limits=THREE_DAYS)) is not trips
    assert silent("KF110", RuleContext(desired))


def test_an_undeclared_retention_counts_where_the_cluster_is_known() -> None:
    desired = (declared("a"),)
    assert silent("KF110", RuleContext(desired, limits=ProjectLimits(recovery_window_ms=8 * DAY_MS)))
    (found,) = said("KF110", RuleContext(desired, facts(retention_ms=DAY), limits=THREE_DAYS))
    assert found.message.startswith("retention.ms is 1d (the cluster's default), shorter")
    assert silent("KF110", RuleContext(desired, facts(retention_ms=WEEK), limits=THREE_DAYS))
    by_hand = living(observed("a", retention_ms=DAY))
    (found,) = said("KF110", RuleContext(desired, facts(retention_ms=WEEK), limits=THREE_DAYS, live=by_hand))
    assert found.message.startswith("retention.ms is 1d (set on the live topic), shorter")


@pytest.mark.parametrize(
    ("policy", "trips"), [("delete", True), ("compact,delete", True), ("compact", False), ("", False)]
)
def test_only_what_is_deleted_has_a_recovery_window(policy: str, trips: bool) -> None:
    desired = declared("a", retention_ms=DAY, cleanup_policy=policy)
    assert silent("KF110", RuleContext((desired,), limits=THREE_DAYS)) is not trips


def test_a_tombstone_recovers_nothing() -> None:
    assert silent("KF110", RuleContext((absent("a"),), facts(retention_ms=DAY), limits=THREE_DAYS))


# --- KF111: segments -------------------------------------------------------------------------------


def test_a_short_retention_with_the_default_segment() -> None:
    assert said("KF111", RuleContext((declared("a", retention_ms=DAY),))) == [
        Said(
            "a",
            "warning",
            "retention.ms is 1d, segment.ms is 7d (Kafka's own default): records stay for up to 8d",
            "write config: {segment.ms: 6h} or less",
            "config.retention.ms",
        )
    ]


def test_a_declared_segment_is_where_the_finding_points() -> None:
    (found,) = said("KF111", RuleContext((declared("a", retention_ms=WEEK, segment_ms=str(30 * DAY_MS)),)))
    assert found.message == "retention.ms is 7d, segment.ms is 30d: records stay for up to 37d"
    assert found.path == "config.segment.ms"


@pytest.mark.parametrize(
    ("retention", "segment", "trips"),
    [
        (DAY, str(DAY_MS + 1), True),
        (DAY, DAY, False),
        (DAY, "3600000", False),
        ("-1", WEEK, False),
        (WEEK, None, False),
        (str(int(WEEK) - 1), None, True),
        ("300000", None, True),
        ("299999", None, False),  # KF115 tells of it
    ],
)
def test_where_a_segment_is_longer_than_the_retention(
    retention: str, segment: str | None, trips: bool
) -> None:
    desired = declared("a", retention_ms=retention, segment_ms=segment)
    assert silent("KF111", RuleContext((desired,))) is not trips


def test_a_segment_that_time_never_closes() -> None:
    (found,) = said("KF111", RuleContext((declared("a", retention_ms=DAY, segment_ms=LONG_MAX),)))
    assert found.message.endswith(": records stay until a segment is full")


def test_a_small_limit_by_size_with_the_default_segment() -> None:
    assert said("KF111", RuleContext((declared("a", retention_bytes=str(2**29)),))) == [
        Said(
            "a",
            "warning",
            "retention.bytes is 512 MiB, segment.bytes is 1 GiB (Kafka's own default): "
            "a partition keeps up to 1536 MiB",
            "write config: {segment.bytes: 128 MiB} or less",
            "config.retention.bytes",
        )
    ]
    assert silent("KF111", RuleContext((declared("a", retention_bytes=str(2**30)),)))
    assert silent("KF111", RuleContext((declared("a", retention_bytes="-1", segment_bytes=str(2**20)),)))


def test_no_segment_is_small_enough_for_a_tiny_limit() -> None:
    (found,) = said("KF111", RuleContext((declared("a", retention_bytes=str(2**20)),)))
    assert found.suggestion == "raise retention.bytes well above 1 MiB, the smallest segment"


def test_time_and_size_are_two_findings() -> None:
    desired = declared("a", retention_ms=DAY, retention_bytes=str(2**29))
    assert [one.path for one in said("KF111", RuleContext((desired,)))] == [
        "config.retention.ms",
        "config.retention.bytes",
    ]


def test_the_values_in_force_count() -> None:
    desired = (declared("a", retention_ms=DAY),)
    assert silent("KF111", RuleContext(desired, facts(segment_ms="3600000")))
    (found,) = said("KF111", RuleContext(desired, facts(segment_ms=WEEK)))
    assert "segment.ms is 7d (the cluster's default)" in found.message
    by_hand = living(observed("a", segment_ms="3600000"))
    assert silent("KF111", RuleContext(desired, facts(segment_ms=WEEK), live=by_hand))
    segment = (declared("a", segment_ms=WEEK),)
    (found,) = said("KF111", RuleContext(segment, facts(retention_ms=DAY)))
    assert found.message.startswith("retention.ms is 1d (the cluster's default), segment.ms is 7d: ")
    assert found.path == "config.segment.ms"


def test_an_undeclared_retention_is_not_guessed_offline() -> None:
    assert silent("KF111", RuleContext((declared("a", segment_ms=str(30 * DAY_MS)),)))


def test_what_no_manifest_says_is_not_the_manifests_fault() -> None:
    assert silent("KF111", RuleContext((declared("a"),), facts(retention_ms=DAY, segment_ms=WEEK)))


@pytest.mark.parametrize(("policy", "trips"), [("compact,delete", True), ("compact", False), ("", False)])
def test_segments_matter_only_where_they_are_deleted(policy: str, trips: bool) -> None:
    assert (
        silent("KF111", RuleContext((declared("a", retention_ms=DAY, cleanup_policy=policy),))) is not trips
    )
    by_default = RuleContext((declared("a", retention_ms=DAY),), facts(cleanup_policy=policy))
    assert silent("KF111", by_default) is not trips


# --- KF112: compaction -----------------------------------------------------------------------------


def keyed_table(**configs: str) -> RuleContext:
    own = {name.replace("_", "."): value for name, value in configs.items()}
    desired = configured({"cleanup.policy": "compact", **own})
    return RuleContext((replace(desired, intent=replace(desired.intent, keyed=True)),))


def test_retention_of_a_compacted_topic_has_no_effect() -> None:
    assert said("KF112", keyed_table(retention_ms=WEEK, retention_bytes=str(2**30))) == [
        Said(
            "a",
            "warning",
            f"{name} is {value}, but has no effect: cleanup.policy is compact alone",
            f'remove {name}, or write config: {{cleanup.policy: "compact,delete"}}',
            f"config.{name}",
        )
        for name, value in (("retention.ms", "7d"), ("retention.bytes", "1 GiB"))
    ]


def test_a_compacted_topic_without_a_limit() -> None:
    assert silent("KF112", keyed_table())
    assert silent("KF112", keyed_table(retention_ms="-1", retention_bytes="-1"))


@pytest.mark.parametrize("policy", ["delete", "compact,delete", ""])
def test_retention_goes_with_the_other_policies(policy: str) -> None:
    desired = declared("a", cleanup_policy=policy, retention_ms=WEEK)
    keyed = replace(desired, intent=replace(desired.intent, keyed=None))
    assert silent("KF112", RuleContext((keyed,)))


def test_only_a_declared_retention_is_an_idle_one() -> None:
    desired = declared("a", cleanup_policy="compact", retention_ms=None)
    keyed = replace(desired, intent=replace(desired.intent, keyed=True))
    assert silent("KF112", RuleContext((keyed,), facts(retention_ms=WEEK)))


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_compaction_needs_keys(policy: str) -> None:
    unkeyed = declared("a", cleanup_policy=policy)
    assert unkeyed.intent.keyed is False
    assert said("KF112", RuleContext((unkeyed,))) == [
        Said(
            "a",
            "warning",
            f"cleanup.policy is {policy}, but keyed is false: compaction keeps the last record of each key, "
            "and brokers refuse records without one",
            "write keyed: true, or config: {cleanup.policy: delete}",
            "keyed",
        )
    ]
    for keyed in (True, None):
        assert silent("KF112", RuleContext((replace(unkeyed, intent=replace(unkeyed.intent, keyed=keyed)),)))


def test_a_cluster_that_compacts_by_default() -> None:
    assert not silent("KF112", RuleContext((declared("a"),), facts(cleanup_policy="compact")))
    assert silent("KF112", RuleContext((declared("a"),)))
