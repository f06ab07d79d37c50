"""KF501 to KF505: what rules say of a topic whose records were measured."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from kafkaform import rules
from kafkaform.config.manifests.loader import Context, load
from kafkaform.core.model import Desired, Diagnostic, Location, Severity
from kafkaform.core.values import replace
from kafkaform.resources.base import Layer
from kafkaform.resources.skew import limits_of
from kafkaform.rules import Stage
from spark_validation.results import Estimate, NewestPart, SkewLimits, TopicResult
from tests.support.golden import wording
from tests.support.plans.rules import PathAsLocation
from tests.support.plans.scenes import absent, declared
from tests.support.skew.scenes import FINE, SURE, UNSURE, empty, hot, measured, policed, scene


def found(
    topic: Desired | None, *results: TopicResult, severities: Mapping[str, str] | None = None
) -> list[Diagnostic]:
    """Every finding, with the field in place of the file."""
    pointed = replace(topic, locations=PathAsLocation()) if topic is not None else None
    return list(rules.check(scene(pointed, *results), severities or {}, (Stage.SKEW,)))


def told(topic: Desired | None, *results: TopicResult) -> list[tuple[str, str, str | None]]:
    """The code, severity and field of every finding."""
    return [
        (one.code, one.severity.value, one.location.file if one.location else None)
        for one in found(topic, *results)
    ]


# --- KF501: the fullest partition --------------------------------------------------------------------

RATIO = "skew.maxPartitionRatio"
RATIOS = [
    (SURE, "error"),
    (UNSURE, "warning"),
    (Estimate(1.95, 1.8, 2.01), "warning"),
    (FINE, None),
    (Estimate(2.5, 2.0, 2.9), "warning"),  # the near end is the limit itself: not surely beyond
    (Estimate(1.5, 1.4, 2.0), None),
    (Estimate.exact(2.0), None),
    (Estimate.exact(2.001), "error"),
]


@pytest.mark.parametrize(("ratio", "severity"), RATIOS)
def test_a_ratio_is_an_error_only_where_its_whole_interval_is_above_the_limit(
    ratio: Estimate, severity: str | None
) -> None:
    expected = [("KF501", severity, RATIO)] if severity else []
    assert told(policed(maxPartitionRatio=2.0), measured(ratio=ratio)) == expected


def test_a_broken_ratio_is_told_exactly_and_by_the_unit_of_the_policy() -> None:
    # A broken ratio is told with its figures and the first advice.
    topic = measured(ratio=SURE, diagnosis="hot_keys", advice=["Split the hot key.", "Another."])
    (one,) = found(policed(maxPartitionRatio=2.0), topic)
    assert (one.message, one.suggestion) == (wording, "Split the hot key")
    (in_doubt,) = found(policed(maxPartitionRatio=2.0), measured(ratio=UNSURE))
    assert in_doubt.suggestion == wording
    topic = measured(ratio=FINE, byte_ratio=SURE)
    assert told(policed(maxPartitionRatio=2.0), topic) == []
    (one,) = found(policed(maxPartitionRatio=2.0, by="bytes"), topic)
    assert one.message == wording
    (one,) = found(policed(maxPartitionRatio=2.0), measured(ratio=Estimate(2.0012, 2.0004, 2.002)))
    assert "2.001 (2.0004 to 2.002) times" in one.message
    (exact,) = found(policed(maxKeyShare=0.05), measured(hot_keys=[hot("a", Estimate.exact(0.0500001))]))
    assert exact.message == wording


# --- KF502: one key ----------------------------------------------------------------------------------

KEY = "skew.maxKeyShare"
BIG, MAYBE, SMALL = Estimate(0.314, 0.29, 0.338), Estimate(0.05, 0.04, 0.06), Estimate(0.01, 0.008, 0.012)


@pytest.mark.parametrize(("share", "severity"), [(BIG, "error"), (MAYBE, "warning"), (SMALL, None)])
def test_a_key_is_judged_by_the_near_end_of_its_interval(share: Estimate, severity: str | None) -> None:
    expected = [("KF502", severity, KEY)] if severity else []
    assert told(policed(maxKeyShare=0.05), measured(hot_keys=[hot("a", share)])) == expected


def test_the_worst_key_is_named_by_its_hash_with_what_to_do() -> None:
    keys = [hot("a", Estimate.exact(0.1)), hot("b", BIG, key="alice@example.org"), hot("c", MAYBE)]
    (one,) = found(policed(maxKeyShare=0.05), measured(hot_keys=keys))
    assert (one.message, one.suggestion) == (wording, wording)
    empty_key = replace(hot("a", BIG), key_length=0)
    (one,) = found(policed(maxKeyShare=0.05), measured(hot_keys=[empty_key]))
    assert "the empty key has 31.4 %" in one.message
    assert one.suggestion == wording
    keys = [hot("a", Estimate(0.2, 0.04, 0.5)), hot("b", Estimate(0.1, 0.09, 0.11))]
    (one,) = found(policed(maxKeyShare=0.05), measured(hot_keys=keys))
    assert one.severity is Severity.ERROR
    assert "bbbbbbbbbbbb" in one.message
    topic = measured(hot_keys=[hot("a", SMALL, BIG)])
    assert told(policed(maxKeyShare=0.05), topic) == []
    assert told(policed(maxKeyShare=0.05, by="bytes"), topic) == [("KF502", "error", KEY)]


# --- KF503: too few keys -----------------------------------------------------------------------------

MIN = "skew.minDistinctKeys"
FEWER, MAYBE_FEWER = Estimate(900.0, 800.0, 999.0), Estimate(1000.0, 900.0, 1100.0)


@pytest.mark.parametrize(
    ("distinct", "severity"),
    [
        (FEWER, "error"),
        (MAYBE_FEWER, "warning"),
        (Estimate.exact(1000.0), None),
        (Estimate.exact(999.0), "error"),
    ],
)
def test_distinct_keys_are_judged_by_the_far_end_of_their_interval(
    distinct: Estimate, severity: str | None
) -> None:
    expected = [("KF503", severity, MIN)] if severity else []
    assert told(policed(minDistinctKeys=1000), measured(distinct=distinct)) == expected


def test_few_keys_are_told_with_their_evidence_where_they_matter() -> None:
    (one,) = found(policed(minDistinctKeys=1000), measured(distinct=FEWER))
    assert one.message == wording
    few = measured(diagnosis="few_keys", evidence="40 keys on 12 partitions.", distinct=Estimate.exact(40.0))
    assert [one.message for one in found(declared("a"), few)] == ["a: 40 keys on 12 partitions"]
    assert found(policed(minDistinctKeys=40), few) == []  # the project has said how many are enough
    few = measured(partitions=12, distinct=Estimate.exact(10.0), null_share=0.9)
    assert found(declared("a"), few) == []
    assert found(declared("a"), replace(few, distinct_keys=Estimate.exact(0.0))) == []


@pytest.mark.parametrize("topic", [None, policed(), policed(maxKeyShare=1.0)])
def test_without_a_limit_fewer_keys_than_partitions_are_a_warning(topic: Desired | None) -> None:
    few = measured(partitions=12, distinct=Estimate.exact(10.0))
    (one,) = found(topic, few)
    assert (one.code, one.severity, one.message) == ("KF503", Severity.WARNING, wording)
    assert found(topic, measured(partitions=12, distinct=Estimate(10.0, 9.0, 12.0))) == []


# --- KF504: keys on several partitions ---------------------------------------------------------------


@pytest.mark.parametrize("diagnosis", ["mixed_partitioners", "repartitioned"])
def test_keys_on_several_partitions_are_a_warning_with_the_evidence(diagnosis: str) -> None:
    topic = measured(diagnosis=diagnosis, evidence="12 % of the keys lie on two partitions.")
    topic = replace(topic, sampled_distinct_keys=1600)
    for one in (None, declared("a"), policed(keyed=True)):
        if one is not None and one.intent.keyed is False:
            assert found(one, topic) == []
        else:
            (told_of,) = found(one, topic)
            assert (told_of.code, told_of.severity) == ("KF504", Severity.WARNING)
            assert told_of.message == wording
            assert told_of.suggestion


def test_keys_on_several_partitions_matter_unless_a_producer_places_them() -> None:
    one = measured(diagnosis="mixed_partitioners")
    assert "KF504" not in {finding.code for finding in found(declared("a"), one)}
    apart = measured(diagnosis="repartitioned")
    compacted = policed(keyed=False, configs={"config.cleanup.policy": "compact,delete"})
    assert found(policed(keyed=False), apart) == []
    assert told(compacted, apart) == [("KF504", "warning", "keyed")]
    crc = replace(measured(), partitioners={"murmur2": 0.08, "crc32": 1.0, "fnv1a": 0.08, "other": 0.0})
    assert found(policed(keyed=True), crc) == []


# --- KF505: records without a key --------------------------------------------------------------------


@pytest.mark.parametrize(("keyed", "expected"), [(True, 1), (None, 0), (False, 0)])
def test_records_without_a_key_matter_only_where_keys_are_declared(keyed: bool | None, expected: int) -> None:
    assert len(found(policed(keyed=keyed), measured(null_share=0.02))) == expected


def test_a_single_record_without_a_key_is_told_as_more_than_none() -> None:
    (one,) = found(policed(keyed=True), measured(null_share=0.0000003))
    assert one.message == wording
    assert (one.code, one.severity, one.location) == ("KF505", Severity.WARNING, Location("keyed"))
    assert found(policed(keyed=True), measured()) == []


# --- all of them -------------------------------------------------------------------------------------


def strict(waivers: Mapping[str, str] | None = None) -> Desired:
    limits = {"maxPartitionRatio": 1.01, "maxKeyShare": 0.001, "minDistinctKeys": 10**9}
    topic = policed(keyed=True, waivers=waivers)
    return replace(topic, intent=replace(topic.intent, spec={"skew": limits}))


def worst() -> TopicResult:
    topic = measured(ratio=SURE, hot_keys=[hot("a", BIG)], null_share=0.1, diagnosis="mixed_partitioners")
    return replace(topic, sampled_distinct_keys=1600)


def test_every_rule_judges_measured_topics_and_only_those() -> None:
    assert [one.code for one in found(strict(), worst())] == ["KF501", "KF502", "KF503", "KF504", "KF505"]
    assert found(strict(), empty()) == []
    assert found(absent("a"), worst()) == []
    assert found(strict()) == []
    (one,) = rules.check(scene(None, worst()), {}, (Stage.SKEW,))
    assert (str(one.ref), one.code, one.location) == ("Topic/a", "KF504", None)


def test_severities_and_waivers_of_the_project_hold() -> None:
    severities = {"KF501": "off", "KF502": "warning", "KF504": "error"}
    chosen = found(strict(waivers={"KF503": "known"}), worst(), severities=severities)
    assert [(one.code, one.severity.value, one.waived) for one in chosen] == [
        ("KF502", "warning", None),
        ("KF503", "info", "known"),
        ("KF504", "error", None),
        ("KF505", "warning", None),
    ]


def test_plans_without_a_report_and_validate_do_not_run_them() -> None:
    stages = [stage for stage in Stage if stage is not Stage.SKEW]
    found = rules.check(scene(strict(), worst()), {}, stages)
    assert not [one for one in found if one.code.startswith("KF5")]


# --- policies ----------------------------------------------------------------------------------------


def test_a_policy_has_limits_and_a_unit() -> None:
    assert limits_of(declared("a").intent) is None
    assert limits_of(policed().intent) is None
    assert limits_of(policed(by="bytes").intent) is None
    assert limits_of(policed(maxKeyShare=0.05).intent) == SkewLimits(max_key_share=0.05)
    every = policed(maxPartitionRatio=2, maxKeyShare=0.1, minDistinctKeys=5, by="bytes")
    assert limits_of(every.intent) == SkewLimits(2, 0.1, 5, "bytes")


ORDERS = """\
apiVersion: kafkaform/v1
kind: Topic
metadata: {name: orders}
spec:
  partitions: 3
  replicationFactor: 1
  skew:
    maxPartitionRatio: 2.0
    maxKeyShare: 0.05
  overrides:
    dev: {skew: {}}
    prod:
      skew:
        maxPartitionRatio: 1.5
        by: bytes
"""


@pytest.mark.parametrize(
    ("environment", "expected", "line"),
    [("dev", SkewLimits(2.0, 0.05, 9), 8), ("prod", SkewLimits(1.5, 0.05, 9, "bytes"), 14)],
)
def test_a_policy_is_merged_limit_by_limit_and_found_where_it_was_set(
    tmp_path: Path, environment: str, expected: SkewLimits, line: int
) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text(ORDERS)
    defaults: dict[str, tuple[Layer, ...]] = {
        "Topic": ({"skew": {"minDistinctKeys": 9, "maxPartitionRatio": 9.0}},)
    }
    (topic,) = load([file], Context(("dev", "prod"), environment, defaults))
    assert limits_of(topic.intent) == expected
    (one,) = rules.check(scene(topic, measured("orders", ratio=SURE)), {}, (Stage.SKEW,))
    assert (one.code, one.severity) == ("KF501", Severity.ERROR)
    assert one.location is not None
    assert (one.location.file, one.location.line) == (str(file), line)


@pytest.mark.parametrize(
    ("of", "ratio", "newest", "severity"),
    [
        ("period", FINE, SURE, "warning"),
        ("now", FINE, SURE, "error"),
        ("period", SURE, FINE, "error"),
        ("now", SURE, FINE, "warning"),
        ("now", FINE, FINE, None),
    ],
)
def test_a_policy_is_about_the_period_or_about_now(
    of: str, ratio: Estimate, newest: Estimate, severity: str | None
) -> None:
    share = Estimate.exact(1 / 3)
    part = NewestPart(0, 1, (share,) * 3, (share,) * 3, newest, newest)
    result = replace(measured(ratio=ratio), now=part)
    severities = {severity for _, severity, _ in told(policed(maxPartitionRatio=2.0, of=of), result)}
    assert max(severities, key=["warning", "error"].index, default=None) == severity
    assert not severities or "warning" in severities, "the two disagree"
    found = rules.check(scene(policed(maxPartitionRatio=2.0, of=of), result), {}, (Stage.SKEW,))
    doubts = [one.suggestion for one in found if one.severity is Severity.WARNING]
    assert all(f"write `skew: {{of: {'period' if of == 'now' else 'now'}}}` " in str(hint) for hint in doubts)


@pytest.mark.parametrize(
    "topic", [policed(of="now", maxPartitionRatio=2.0), policed(of="now", maxKeyShare=0.1)]
)
def test_a_newest_part_that_is_not_known_is_a_warning(topic: Desired) -> None:
    assert told(topic, measured()) == [("KF501", "warning", RATIO)]
