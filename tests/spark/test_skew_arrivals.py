"""Tests of arrivals in topics that keep only a part of their records, against earlier observations.

The command reads every scene twice: all records, and a sample.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import repeat
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest

from kafkaform.plan.skew_report import parse_skew_report
from spark_validation.policy import MIN_RECORDS
from spark_validation.results import TopicResult
from tests.support.cli.project import Project, run_in_process
from tests.support.clusters.fixtures import group_clusters
from tests.support.skew.arrivals import HOT, PARTITIONS, PROPERTIES, Topic, make_scenes
from tests.support.skew.producers import even_keys, mix_in_hot_key

pytestmark = pytest.mark.usefixtures("one_session")

FULL = ("--records", "all")
SAMPLE = ("--records", "6000", "--seed", "1")

FULL_AND_SAMPLE = pytest.mark.parametrize("options", [FULL, SAMPLE], ids=["full", "sample"])


@dataclass(frozen=True)
class Expected:
    """A row of the table.

    Attributes:
        spread: How evenly what was written lies on partitions.
        causes: Their names, the diagnosis first.
        near: How far the ratio may be from what the consumer counted, relative to it.
        says: What is found in the evidence, the notes or the findings.
    """

    spread: str
    causes: tuple[str, ...] = ("balanced",)
    near: float = 1e-6
    says: str = ""


EVEN, UNEVEN = "even", "uneven"
HOT_KEYS = ("hot_keys",)

TABLE: Mapping[str, Expected] = {
    "hot-trimmed": Expected(UNEVEN, HOT_KEYS, says="KF510"),
    "hot-by-retention": Expected(UNEVEN, HOT_KEYS, says="retention.bytes (1.0 MiB a partition) trims it"),
    "even-trimmed": Expected(EVEN, says="KF510"),
    # The broker goes on removing records.
    "even-by-time": Expected(EVEN, near=0.02),
    "compacted-clean": Expected(UNEVEN, ("unknown", "mixed_partitioners"), says="--watch 10m"),
    "bytes-trimmed": Expected(UNEVEN, HOT_KEYS, says="% of the bytes"),
    # The time of a marker is later than that of the records before it, by which the period has a few more.
    "transactions-trimmed": Expected(UNEVEN, HOT_KEYS, near=0.1),
    "ahead-inside": Expected(EVEN),
    "lagging": Expected(UNEVEN, HOT_KEYS, near=0.05),
    "append-time": Expected(UNEVEN, HOT_KEYS),
    "alone-compacted": Expected(UNEVEN, ("unknown",), says="compaction has removed them"),
    "emptied-even": Expected(EVEN, says="no record of 11 partitions can be read"),
    "emptied-of-hot": Expected(UNEVEN, ("unknown",), says="no record of partition 6 can be read"),
    "replayed": Expected(UNEVEN, HOT_KEYS, near=0.03),
}
"""Besides, `test_recent_periods_are_known_or_withheld` has the last hour and day of each."""
WITH_HOT_KEY = [name for name, row in TABLE.items() if "hot_keys" in row.causes]


@pytest.fixture(scope="module")
def servers() -> str:
    """The address of a broker that trims and compacts logs at once."""
    return group_clusters.running("kafka_trimming", 1, properties=PROPERTIES).bootstrap_servers


@pytest.fixture(scope="module")
def scenes(servers: str) -> Mapping[str, Topic]:
    """The scenes by their names."""
    return make_scenes(servers)


@pytest.fixture(scope="module")
def measured(servers: str, scenes: Mapping[str, Topic], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return the report of all scenes, by its options."""

    @cache
    def index_results(options: tuple[str, ...]) -> Mapping[str, TopicResult]:
        folder = tmp_path_factory.mktemp("skew")
        arguments = ("skew", *scenes, *options, "--all", "--bootstrap-server", servers, "--out", "a.json")
        run_in_process(*arguments, cwd=folder).needs(0)
        report = parse_skew_report((folder / "a.json").read_text(), "a.json")
        return {topic.name: topic for topic in report.topics}

    return index_results


@FULL_AND_SAMPLE
@pytest.mark.parametrize("scene", TABLE)
def test_skew_verdict_matches_written_records(
    measured: Any, scenes: Mapping[str, Topic], scene: str, options: tuple[str, ...]
) -> None:
    result, expected, topic = measured(options)[scene], TABLE[scene], scenes[scene]
    assert result.spread == expected.spread, result.causes
    assert tuple(cause.name for cause in result.causes) == expected.causes, result.causes
    counts = topic.written.counts(result.sample.since_ms, topic.partitions)
    ratio = max(counts) * topic.partitions / sum(counts)
    assert result.by_records.max_mean_ratio.value == pytest.approx(ratio, rel=expected.near)
    output = json.dumps(
        [
            *(cause.evidence for cause in result.causes),
            result.keys_withheld,
            result.arrivals_unknown,
            result.bytes_unknown,
            *(period.unknown for period in result.arrivals or ()),
            "Older records have been removed" if result.keys_since_ms else "",
            *result.sample.notes,
            *(f"{finding.code} {finding.message}" for finding in result.findings),
        ]
    )
    assert expected.says in output


@FULL_AND_SAMPLE
@pytest.mark.parametrize("scene", TABLE)
def test_recent_periods_are_known_or_withheld(
    measured: Any, scenes: Mapping[str, Topic], scene: str, options: tuple[str, ...]
) -> None:
    """The figures of the last hour and day hold for the records written, within their intervals."""
    result, topic = measured(options)[scene], scenes[scene]
    for period in result.arrivals or ():
        if period.name not in {"hour", "day"} or period.unknown is not None:
            continue
        counts = topic.written.counts(period.since_ms, topic.partitions)
        estimate = period.estimated_ratio
        if sum(counts) < MIN_RECORDS or estimate is None:
            continue
        truth = max(counts) * topic.partitions / sum(counts)
        assert estimate.low / 1.03 <= truth <= estimate.high * 1.03


@FULL_AND_SAMPLE
@pytest.mark.parametrize("scene", WITH_HOT_KEY)
def test_hot_key_share_matches_written_records(
    measured: Any, scenes: Mapping[str, Topic], scene: str, options: tuple[str, ...]
) -> None:
    """Of a compacted log, only the newest part can be read: it stands for the whole."""
    result, topic = measured(options)[scene], scenes[scene]
    by_bytes = scene.startswith("bytes")
    truth = topic.written.share(HOT, result.sample.since_ms, topic.partitions, by_bytes=by_bytes)
    key = max(result.hot_keys, key=lambda key: key.byte_share.value if by_bytes else key.share.value)
    found = key.byte_share if by_bytes else key.share
    assert found.value == pytest.approx(truth, rel=0.1)
    if options == SAMPLE and "transactions" not in scene:
        reach = 1.5 * max(found.high - found.value, found.value - found.low)
        assert abs(found.value - truth) <= reach + 1e-9


@pytest.mark.parametrize(
    ("name", "options", "policy", "reason"),
    [
        ("alone-compacted", ("--since", "12h"), {"maxPartitionRatio": 2}, "compaction has removed them"),
        ("emptied-even", (), {"maxPartitionRatio": 2, "by": "bytes"}, "can be read, and the mean size"),
        ("emptied-of-hot", (), {"maxPartitionRatio": 2, "by": "bytes"}, "can be read, and the mean size"),
    ],
)
def test_unavailable_figures_are_withheld_in_every_output(
    servers: str,
    scenes: Mapping[str, Topic],
    tmp_path: Path,
    name: str,
    options: tuple[str, ...],
    policy: Mapping[str, object],
    reason: str,
) -> None:
    """The reason is one field, which text, HTML, Markdown and the verdict show."""
    project = Project(tmp_path, servers, "")
    project.topic(scenes[name].name, partitions=PARTITIONS, skew=policy)
    call = project.run(
        "skew", name, *options, *SAMPLE, "--out", "a.json", "--out", "a.html", "-o", "-"
    ).needs(1)
    (result,) = parse_skew_report((tmp_path / "a.json").read_text(), "a.json").topics
    assert reason in (result.arrivals_unknown or result.bytes_unknown or "")
    assert result.spread == ("not known" if options else result.spread)
    assert result.policy is not None
    assert result.policy.status == "unknown"
    assert reason in result.policy.reasons[0]
    assert [finding.severity for finding in result.findings if finding.code == "KF501"] == ["warning"]
    for text in (call.words, (tmp_path / "a.html").read_text()):
        assert reason in " ".join(text.split())
        assert "cannot be checked by its policy" in text


@pytest.mark.parametrize(("name", "code"), [("ahead-inside", 0), ("replayed", 2)])
def test_requested_period_is_read_despite_misleading_timestamps(
    servers: str, scenes: Mapping[str, Topic], tmp_path: Path, name: str, code: int
) -> None:
    topic, project = scenes[name], Project(tmp_path, servers, "")
    project.topic(topic.name, partitions=PARTITIONS, skew={"maxPartitionRatio": 2})
    call = project.run("skew", name, "--since", "1h", *SAMPLE, "--format", "json").needs(code)
    (result,) = call.json["topics"]
    truth = topic.written.counts(result["sample"]["since_ms"], PARTITIONS)
    ratio = result["by_records"]["max_mean_ratio"]["value"]
    assert ratio == pytest.approx(max(truth) * PARTITIONS / sum(truth), rel=0.03)
    # From offsets alone, nothing can be said of it.
    arrivals = run_in_process(
        *("arrivals", name, "--since", "1h", "--format", "json", "--bootstrap-server", servers), cwd=tmp_path
    ).needs(1)
    assert arrivals.json["topics"][0]["spread"] == "not known"


def test_even_topics_of_pattern_are_absent(servers: str, scenes: Mapping[str, Topic], tmp_path: Path) -> None:
    """Offsets alone tell it, before Spark reads anything; a topic that is named is read all the same."""
    assert {"even-trimmed", "hot-trimmed", "even-by-time"} <= scenes.keys()
    call = run_in_process(
        *("skew", "*n-trimmed", "hot-trimmed", "even-by-time", "--records", "2000"),
        *("--format", "json", "--bootstrap-server", servers),
        cwd=tmp_path,
    ).needs(0)
    names = [topic["name"] for topic in json.loads(call.out)["topics"]]
    assert names == ["even-by-time", "hot-trimmed"]
    assert "left out: 1 topic " in call.err


def test_watch_counts_new_records(servers: str, scenes: Mapping[str, Topic], tmp_path: Path) -> None:
    """Of a log that compaction has reached, nothing else tells the shares of keys."""
    topic = scenes["compacted-clean"]
    stop = Event()

    def write() -> None:
        random = np.random.default_rng(7)
        while not stop.wait(0.2):
            topic.send(mix_in_hot_key(even_keys(random, 400), random, 0.3), repeat(int(time.time() * 1000)))

    writer = Thread(target=write)
    writer.start()
    try:
        call = run_in_process(
            *("skew", topic.name, "--watch", "5s", "--format", "json", "--bootstrap-server", servers),
            cwd=tmp_path,
        ).needs(0)
    finally:
        stop.set()
        writer.join()
    (result,) = json.loads(call.out)["topics"]
    assert "watching compacted-clean until" in call.err
    assert result["spread"] == UNEVEN
    assert "keys_withheld" not in result
    assert result["hot_keys"][0]["share"]["value"] == pytest.approx(0.3, abs=0.05)
    (period, *_) = result["arrivals"]
    assert 4_000 < period["until_ms"] - period["since_ms"] < 60_000
    assert sum(period["counts"]) == result["sample"]["population"]
