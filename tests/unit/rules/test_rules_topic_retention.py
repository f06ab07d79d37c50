"""The rules about retention: KF110, KF111, KF112."""

from __future__ import annotations

import pytest

from kafkaform.core.values import replace
from kafkaform.rules import RuleContext
from kafkaform.rules.catalogue import ProjectLimits
from tests.support.golden import wording
from tests.support.plans.rules import Said, configured, facts, living, observed, said, silent
from tests.support.plans.scenes import DAY, WEEK, absent, declared

DAY_MS = int(DAY)
THREE_DAYS = ProjectLimits(recovery_window_ms=3 * DAY_MS)
LONG_MAX = str(2**63 - 1)


# --- KF110: the recovery window --------------------------------------------------------------------


def test_retention_below_the_recovery_window_is_told() -> None:
    assert said("KF110", RuleContext((declared("a", retention_ms=DAY),), limits=THREE_DAYS)) == [
        Said("a", "warning", wording, wording, "config.retention.ms")
    ]
    # An undeclared retention counts where the cluster is known.
    desired = (declared("a"),)
    assert silent("KF110", RuleContext(desired, limits=ProjectLimits(recovery_window_ms=8 * DAY_MS)))
    (found,) = said("KF110", RuleContext(desired, facts(retention_ms=DAY), limits=THREE_DAYS))
    assert found.message == wording
    assert silent("KF110", RuleContext(desired, facts(retention_ms=WEEK), limits=THREE_DAYS))
    by_hand = living(observed("a", retention_ms=DAY))
    (found,) = said("KF110", RuleContext(desired, facts(retention_ms=WEEK), limits=THREE_DAYS, live=by_hand))
    assert found.message == wording
    assert silent("KF110", RuleContext((absent("a"),), facts(retention_ms=DAY), limits=THREE_DAYS))


@pytest.mark.parametrize(
    ("retention", "trips"),
    [("0", True), (str(3 * DAY_MS - 1), True), (str(3 * DAY_MS), False), (WEEK, False), ("-1", False)],
)
def test_where_the_recovery_window_ends(retention: str, trips: bool) -> None:
    desired = (declared("a", retention_ms=retention),)
    assert silent("KF110", RuleContext(desired, limits=THREE_DAYS)) is not trips
    assert silent("KF110", RuleContext(desired))


@pytest.mark.parametrize(
    ("policy", "trips"), [("delete", True), ("compact,delete", True), ("compact", False), ("", False)]
)
def test_only_what_is_deleted_has_a_recovery_window(policy: str, trips: bool) -> None:
    desired = declared("a", retention_ms=DAY, cleanup_policy=policy)
    assert silent("KF110", RuleContext((desired,), limits=THREE_DAYS)) is not trips


# --- KF111: segments -------------------------------------------------------------------------------


def test_segments_longer_than_the_retention_keep_records_longer() -> None:
    assert said("KF111", RuleContext((declared("a", retention_ms=DAY),))) == [
        Said("a", "warning", wording, wording, "config.retention.ms")
    ]
    (found,) = said("KF111", RuleContext((declared("a", retention_ms=WEEK, segment_ms=str(30 * DAY_MS)),)))
    assert (found.message, found.path) == (wording, "config.segment.ms")
    (found,) = said("KF111", RuleContext((declared("a", retention_ms=DAY, segment_ms=LONG_MAX),)))
    assert found.message == wording
    # A small limit by size with the default segment.
    assert said("KF111", RuleContext((declared("a", retention_bytes=str(2**29)),))) == [
        Said("a", "warning", wording, wording, "config.retention.bytes")
    ]
    assert silent("KF111", RuleContext((declared("a", retention_bytes=str(2**30)),)))
    assert silent("KF111", RuleContext((declared("a", retention_bytes="-1", segment_bytes=str(2**20)),)))
    (found,) = said("KF111", RuleContext((declared("a", retention_bytes=str(2**20)),)))
    assert found.suggestion == wording
    # Time and size are two findings.
    desired = declared("a", retention_ms=DAY, retention_bytes=str(2**29))
    assert [one.path for one in said("KF111", RuleContext((desired,)))] == [
        "config.retention.ms",
        "config.retention.bytes",
    ]


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


def test_values_in_force_count_beside_what_a_manifest_says() -> None:
    # The values in force count.
    desired = (declared("a", retention_ms=DAY),)
    assert silent("KF111", RuleContext(desired, facts(segment_ms="3600000")))
    (found,) = said("KF111", RuleContext(desired, facts(segment_ms=WEEK)))
    assert found.message == wording
    by_hand = living(observed("a", segment_ms="3600000"))
    assert silent("KF111", RuleContext(desired, facts(segment_ms=WEEK), live=by_hand))
    segment = (declared("a", segment_ms=WEEK),)
    (found,) = said("KF111", RuleContext(segment, facts(retention_ms=DAY)))
    assert (found.message, found.path) == (wording, "config.segment.ms")
    assert silent("KF111", RuleContext((declared("a", segment_ms=str(30 * DAY_MS)),)))
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
    # Retention of a compacted topic has no effect.
    assert said("KF112", keyed_table(retention_ms=WEEK, retention_bytes=str(2**30))) == [
        Said(
            "a",
            "warning",
            f"{name} is {value}, but has no effect: cleanup.policy is compact alone",
            f'remove {name}, or write `config: {{cleanup.policy: "compact,delete"}}`',
            f"config.{name}",
        )
        for name, value in (("retention.ms", "7d"), ("retention.bytes", "1 GiB"))
    ]
    assert silent("KF112", keyed_table())
    assert silent("KF112", keyed_table(retention_ms="-1", retention_bytes="-1"))
    desired = declared("a", cleanup_policy="compact", retention_ms=None)
    keyed = replace(desired, intent=replace(desired.intent, keyed=True))
    assert silent("KF112", RuleContext((keyed,), facts(retention_ms=WEEK)))
    assert not silent("KF112", RuleContext((declared("a"),), facts(cleanup_policy="compact")))
    assert silent("KF112", RuleContext((declared("a"),)))


@pytest.mark.parametrize("policy", ["delete", "compact,delete", ""])
def test_retention_goes_with_the_other_policies(policy: str) -> None:
    desired = declared("a", cleanup_policy=policy, retention_ms=WEEK)
    keyed = replace(desired, intent=replace(desired.intent, keyed=None))
    assert silent("KF112", RuleContext((keyed,)))


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_compaction_needs_keys(policy: str) -> None:
    unkeyed = declared("a", cleanup_policy=policy)
    assert unkeyed.intent.keyed is False
    assert said("KF112", RuleContext((unkeyed,))) == [Said("a", "warning", wording, wording, "keyed")]
    for keyed in (True, None):
        assert silent("KF112", RuleContext((replace(unkeyed, intent=replace(unkeyed.intent, keyed=keyed)),)))
