"""Reading skew reports, and judging them by the manifests."""

import json
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from kafkaform.config.settings import Settings
from kafkaform.core.errors import KafkaformError, SkewReportError
from kafkaform.core.model import Desired
from kafkaform.core.values import replace
from kafkaform.plan.skew_report import (
    is_beyond_policy,
    is_unknown,
    judge_report,
    read_skew_report,
    require_cluster,
)
from spark_validation.results import Estimate, SkewReport, SkewVerdict, to_json
from tests.support.golden import list_texts
from tests.support.plans.damage import damage_json
from tests.support.plans.scenes import absent, declare_topic
from tests.support.skew.scenes import (
    FINE,
    NOW,
    SURE,
    UNSURE,
    build_result,
    declare_policy,
    empty,
    hot,
    report,
)

WEEK = timedelta(days=7)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "report.json"


def read_refused(file: Path, text: str | bytes, **how: Any) -> SkewReportError:
    """The error that a report of this content ends in."""
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(SkewReportError) as raised:
        read_skew_report(file, **{"now": NOW, "max_age": WEEK, **how})
    error = raised.value
    assert isinstance(error, KafkaformError)
    assert error.exit_code == 1
    assert error.message.startswith(f"{file}:") or how.get("cluster_id")
    assert "\n" not in error.message
    assert error.hint
    return error


def document(**more: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(to_json(report(build_result())))
    return {**found, **more}


def test_report_is_read_back(file: Path) -> None:
    made = report(
        build_result("a"), empty("b"), replace(build_result("c"), retention_bytes=-1)
    )  # without a limit
    file.write_text(to_json(made), "utf-8")
    assert read_skew_report(file, now=NOW, max_age=WEEK, cluster_id="memory") == made
    assert read_skew_report(file) == made  # of any age and cluster
    nowhere = replace(made, cluster_id=None)
    file.write_text(to_json(nowhere), "utf-8")
    assert read_skew_report(file, now=NOW, cluster_id="memory") == nowhere


INVALID: dict[str, str | bytes] = {
    "empty": "",
    "cut off": to_json(report(build_result()))[:-40],
    "not UTF-8": b"\xff\xfe",
    "list": "[]",
    "empty object": "{}",
    "format of another type": '{"format_version": true}',
    "nothing but a format": '{"format_version": 1}',
    "endless number": '{"format_version": 1e999}',
    "not a number": '{"format_version": NaN}',
    "nested": "[" * 100_000,
    "later format": json.dumps(document(format_version=2)),
    "topic of another type": json.dumps(document(topics=[1])),
    "topic twice": json.dumps(document(topics=document()["topics"] * 2)),
    "no such month": json.dumps(document(created_at="2026-13-41T00:00:00Z")),
    "surplus key": json.dumps(document(surplus=1)),
    "key with escapes": json.dumps(document(**{"x\x1b[31m" * 1000: 1})),
    "null for text": json.dumps(document(tool_version=None)),
    "number of 400 digits": json.dumps(document(format_version=-(10**400))),
}
VALUES: list[tuple[tuple[str | int, ...], object]] = [
    (("diagnosis",), "alice"),
    (("hot_keys", 0, "key_hash"), "alice"),
    (("hot_keys", 0, "key"), {"alice": 1}),
    (("partitions", 2, "share", "low"), "alice"),
    (("sample", "seed"), -1),
    (("policy",), {"status": "fail"}),
]
"""Places of a topic in a report, and values that are refused there but not printed."""


def set_value(path: tuple[str | int, ...], value: object) -> str:
    damaged = json.loads(to_json(report(build_result(hot_keys=[hot("a", Estimate.exact(0.3))]))))
    inner = damaged["topics"][0]
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    return json.dumps(damaged)


def test_invalid_report_messages_match_golden(file: Path, golden: SnapshotAssertion) -> None:
    reports = INVALID | {f"{path[-1]}: {value}": set_value(path, value) for path, value in VALUES}
    messages = {
        name: read_refused(file, text).message.replace(str(file), "f") for name, text in reports.items()
    }
    assert not any("alice" in message or "\x1b" in message for message in messages.values())
    assert list_texts({name: [message] for name, message in messages.items()}) == golden(name="invalid.txt")


DAMAGED = damage_json(json.dumps(document()))


@pytest.mark.parametrize("kind", [kind for kind in DAMAGED if kind != "fraction"])  # which a report has
def test_damaged_report_is_refused(file: Path, kind: str) -> None:
    for content in DAMAGED[kind]:
        assert ": not a valid skew report: " in read_refused(file, content).message


def build_report_of_age(age: timedelta) -> str:
    return to_json(report(build_result(), created_at=(NOW - age).strftime("%Y-%m-%dT%H:%M:%SZ")))


@pytest.mark.parametrize(
    ("age", "max_age", "words"),
    [
        (timedelta(days=9, hours=3), WEEK, "is 9 days old; the maximum age is 7 days"),
        (timedelta(days=7, seconds=1), WEEK, "is 7 days old; the maximum age is 7 days"),
        (timedelta(hours=3), timedelta(hours=1), "is 3 hours old; the maximum age is 60 minutes"),
        (timedelta(seconds=1), timedelta(0), "is 1 second old; the maximum age is 0 seconds"),
        (timedelta(minutes=-6), WEEK, "in the future: 2026-11-20T12:06:00Z"),
        (timedelta(days=-9), None, "in the future: 2026-11-29T12:00:00Z"),
    ],
)
def test_untimely_report_is_refused(
    file: Path, age: timedelta, max_age: timedelta | None, words: str
) -> None:
    error = read_refused(file, build_report_of_age(age), max_age=max_age)
    assert error.message.endswith(words)
    assert ("--max-age" in (error.hint or "")) is (age > timedelta(0))
    file.write_text(build_report_of_age(timedelta(minutes=-4)), "utf-8")  # clocks differ
    assert read_skew_report(file, now=NOW, max_age=WEEK).topics


def test_report_of_another_cluster_is_refused_by_name_and_id(file: Path) -> None:
    made = replace(report(build_result(), cluster_id="other"), cluster_name="staging")
    error = read_refused(file, to_json(made), cluster_id="memory")
    assert "of cluster staging (other), not of memory" in error.message
    with pytest.raises(SkewReportError, match="of cluster other, not of memory"):
        require_cluster(report(cluster_id="other"), "memory")


def verdict(topic: Desired, made: SkewReport, rules: Mapping[str, str] | None = None) -> SkewVerdict | None:
    return judge_report(made, [topic], Settings(rules=rules or {})).topics[0].policy


LIMITED = declare_policy(maxPartitionRatio=2.0)


@pytest.mark.parametrize(("ratio", "status"), [(SURE, "fail"), (UNSURE, "warn"), (FINE, "pass")])
def test_topic_fails_only_if_limit_is_certainly_exceeded(ratio: Estimate, status: str) -> None:
    made = judge_report(report(build_result(ratio=ratio)), [LIMITED], Settings())
    topic = made.topics[0]
    assert topic.policy is not None
    assert topic.policy.status == status
    assert topic.policy.reasons == tuple(finding.message for finding in topic.findings)
    assert len(topic.findings) == (status != "pass")
    assert is_beyond_policy(made) == (status == "fail")


def test_worst_limit_decides_with_configured_severities() -> None:
    topic = declare_policy(maxPartitionRatio=2.0, maxKeyShare=0.05, minDistinctKeys=1)
    keys = [hot("a", Estimate(0.05, 0.04, 0.06))]
    found = verdict(topic, report(build_result(ratio=SURE, hot_keys=keys)))
    assert found is not None
    assert found.status == "fail"
    assert [reason.split()[1] for reason in found.reasons] == ["partition", "the"]
    broken = report(build_result(ratio=SURE))
    assert verdict(LIMITED, broken, {"KF501": "off"}) == SkewVerdict("pass")
    softened = verdict(LIMITED, broken, {"KF501": "warning"})
    assert softened is not None
    assert softened.status == "warn"
    waived = verdict(declare_policy(maxPartitionRatio=2.0, waivers={"KF501": "TICKET-1"}), broken)
    assert waived is not None
    assert waived.status == "pass"
    assert waived.reasons[0].endswith("(waived: TICKET-1)")


def test_topic_without_limit_or_records_is_not_judged() -> None:
    made = judge_report(
        report(build_result(diagnosis="repartitioned", evidence="Keys moved.")), [], Settings()
    )
    (topic,) = made.topics
    assert topic.policy is None
    assert [(finding.code, finding.severity, finding.message) for finding in topic.findings] == [
        ("KF504", "warning", "a: Keys moved")
    ]
    for item in (declare_topic("a"), declare_policy(by="bytes"), absent("a")):
        assert verdict(item, report(build_result(ratio=SURE))) is None
    # KF503 has something to say of a topic that declares no least number of keys.
    few = build_result(distinct=Estimate.exact(2.0))
    made = judge_report(report(few), [LIMITED], Settings(rules={"KF503": "error"}))
    assert made.topics[0].policy == SkewVerdict("pass")
    assert [finding.severity for finding in made.topics[0].findings] == ["error"]
    assert is_beyond_policy(made)
    strict = declare_policy(maxPartitionRatio=1.0, maxKeyShare=0.01, minDistinctKeys=9)
    assert verdict(strict, report(empty())) == SkewVerdict("pass", ("there is no record to judge",))


@pytest.mark.parametrize(
    ("by", "unknown", "status"),
    [
        ("records", {"arrivals_unknown": "of clocks"}, "unknown"),
        ("bytes", {"arrivals_unknown": "of clocks"}, "unknown"),
        ("bytes", {"bytes_unknown": "they are gone"}, "unknown"),
        ("records", {"bytes_unknown": "they are gone"}, "pass"),
    ],
)
def test_unknown_ratio_is_not_judged(by: str, unknown: dict[str, Any], status: str) -> None:
    made = report(replace(build_result("a", hot_keys=[hot("a", SURE)]), **unknown))
    desired = [declare_policy("a", maxPartitionRatio=9.0, by=by)]
    judged = judge_report(made, desired, Settings())
    (topic,) = judged.topics
    assert topic.policy is not None
    assert topic.policy.status == status
    assert is_unknown(judged) is (status == "unknown")
    assert not is_beyond_policy(judged)
    (reason,) = unknown.values()
    assert [reason in text for text in topic.policy.reasons] == ([True] if status == "unknown" else [])
    # A limit that is surely broken is reported all the same.
    keys = [declare_policy("a", maxPartitionRatio=9.0, maxKeyShare=0.0001, by=by)]
    assert judge_report(made, keys, Settings()).topics[0].policy.status == "fail"  # type: ignore[union-attr]
