"""Tests of the use of topics in a period: what offsets prove, and what stays unknown."""

from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from kafkaform.core.errors import Unreachable
from kafkaform.core.partitions import LogSpan
from kafkaform.core.values import replace
from kafkaform.inspect.resource_status import Selection, StatusReport, add_usage, read_status
from kafkaform.report.status import render_status, status_to_json, status_to_markdown
from kafkaform.resources.topic.operations import CreateTopic
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.scenes import topic

DAY = 86_400_000
NOW = 20_000 * DAY
OLD, NEW = NOW - 60 * DAY, NOW - DAY


class Cluster(MemoryCluster):
    """A cluster with one topic of two partitions, t, of which the offsets of groups are kept for a year."""

    def __init__(self, *times: int, partition: int = 0, **configs: str) -> None:
        super().__init__(now_ms=lambda: NOW)
        self.offset_retention_ms = 365 * DAY
        named = {name.replace("_", "."): value for name, value in configs.items()}
        assert self.execute([CreateTopic(topic("t"), 2, 3, named)]) == [None]
        for time in times:
            self.write("t", partition, timestamp_ms=time)

    def use(self, period_ms: int = 30 * DAY) -> tuple[str, str]:
        usage = read_report(self, period_ms).topics[0].usage
        assert usage is not None
        return usage.records, usage.readers


def read_report(cluster: MemoryCluster, period_ms: int = 30 * DAY) -> StatusReport:
    report = read_status(cluster, None, Selection(kinds=("Topic",)))
    return add_usage(cluster, report, period_ms, NOW)


@pytest.mark.parametrize(
    ("cluster", "records"),
    [
        (Cluster(OLD), "none"),
        (Cluster(OLD, NEW), "yes"),
        # Out of order: the newest record is not the last one.
        (Cluster(NEW, OLD), "yes"),
        (Cluster(OLD, NOW + DAY), "unknown"),
        (Cluster(), "unknown"),
        (Cluster(OLD, cleanup_policy="compact"), "unknown"),
        (Cluster(OLD, cleanup_policy="compact", delete_retention_ms=str(40 * DAY)), "none"),
    ],
)
def test_new_records_are_judged_by_offsets(cluster: Cluster, records: str) -> None:
    assert cluster.use()[0] == records
    for number in range(2):  # what has been removed may have been new
        cluster.expire("t", number, cluster.log_spans([("t", number)])["t", number].end)
    assert cluster.use()[0] == "unknown"


def test_partition_without_response_makes_usage_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(OLD)

    def answer_in_part(*_: object) -> dict[tuple[str, int], LogSpan]:
        return {("t", 0): LogSpan(0, 1, 1)}

    def fail(*_: object) -> Any:
        raise Unreachable("no broker answers")

    for answer, reason in ((answer_in_part, "some partitions"), (fail, "no broker answers")):
        monkeypatch.setattr(cluster, "log_spans", answer)
        (status,) = read_report(cluster).topics
        assert status.usage is not None
        assert (status.usage.records, status.usage.readers) == ("unknown", "none")
        assert reason in status.usage.reasons[0]


@pytest.mark.parametrize(
    ("committed", "times", "period", "readers"),
    [
        (1, (OLD, OLD), 30 * DAY, "none"),  # behind, and nothing was read for long
        (2, (OLD, OLD), 30 * DAY, "unknown"),  # there was nothing to read
        (2, (OLD, NEW), 30 * DAY, "yes"),
        (1, (OLD, NEW), 30 * DAY, "none"),
        (1, (OLD, OLD), 400 * DAY, "yes"),  # its offsets would have expired
    ],
)
def test_usage_of_group_without_members_follows_offsets(
    committed: int, times: tuple[int, ...], period: int, readers: str
) -> None:
    cluster = Cluster(*times)
    cluster.commit("g", {("t", 0): committed})
    assert cluster.use(period)[1] == readers
    cluster.join("g", ["t"])
    assert cluster.use(period)[1] == "yes"


def test_restricted_account_makes_consumers_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(OLD)
    assert cluster.use() == ("none", "none")
    facts = replace(cluster.facts(), restricted=True)
    monkeypatch.setattr(cluster, "facts", lambda: facts)
    assert cluster.use() == ("none", "unknown")


def test_unused_topics_are_listed_in_every_format(golden: SnapshotAssertion) -> None:
    cluster = Cluster(OLD)
    for name in ("busy", "new"):
        cluster.execute([CreateTopic(topic(name), 1, 3, {})])
    cluster.write("busy", 0, timestamp_ms=NEW)
    cluster.join("g", ["busy"])
    report = read_report(cluster)
    texts = render_status(report, width=80).plain, status_to_markdown(report), status_to_json(report)
    assert "\n".join(texts) == golden(name="report.txt")
