"""The metrics of a report as rows: which there are, what they are called, and what is not among them."""

import json
from dataclasses import replace
from datetime import UTC, datetime

from spark_validation.metrics import MetricRow, metric_rows
from spark_validation.results import ArrivalPeriod, Estimate, to_json
from tests.support.skew import samples


def index_by_metric(rows: tuple[MetricRow, ...], partition: int | None = None) -> dict[str, Estimate]:
    found = [row for row in rows if row.partition == partition]
    assert len({row.metric for row in found}) == len(found)
    return {row.metric: row.estimate for row in found}


def test_topic_metric_names_match_json_report() -> None:
    report = samples.report(samples.hot())
    found = index_by_metric(metric_rows(report))
    (topic,) = json.loads(to_json(report))["topics"]
    derived = {"records", "bytes", "hottest_key_share", "hottest_key_byte_share"}
    for name in found.keys() - derived:
        value = topic
        for part in name.split("."):
            value = value[part]
        expected = value if isinstance(value, dict) else dict.fromkeys(("value", "low", "high"), value)
        assert (found[name].value, found[name].low, found[name].high) == tuple(expected.values()), name
    assert derived < found.keys()
    assert {
        f"by_{kind}.{measure}"
        for kind in ("records", "bytes")
        for measure in ("max_mean_ratio", "cv", "gini", "entropy", "effective_parallelism")
    } < found.keys()
    assert {"distinct_keys", "null_key_share", "partitioners.murmur2", "sample.records"} < found.keys()
    assert found["hottest_key_share"] == report.topics[0].hot_keys[0].share


def test_arrivals_have_a_row_for_each_period() -> None:
    periods = (ArrivalPeriod("common", 1_000, 9_000, (30, 10)), ArrivalPeriod("made", None, 9_000, (0, 0)))
    found = index_by_metric(metric_rows(samples.report(replace(samples.hot(), arrivals=periods))))
    assert {name: row.value for name, row in found.items() if name.startswith("arrivals.")} == {
        "arrivals.common.records": 40.0,
        "arrivals.common.max_mean_ratio": 1.5,
        "arrivals.made.records": 0.0,
    }


def test_partition_rows_add_up_to_topic() -> None:
    topic = samples.hot()
    rows = metric_rows(samples.report(topic))
    numbers = {row.partition for row in rows} - {None}
    assert numbers == {partition.partition for partition in topic.partitions}
    per_partition = [index_by_metric(rows, partition.partition) for partition in topic.partitions]
    assert per_partition[0].keys() == {"records", "share", "bytes", "byte_share", "log_records", "log_bytes"}
    whole = index_by_metric(rows)
    for kind in ("records", "bytes"):
        assert sum(item[kind].value for item in per_partition) == whole[kind].value
        assert whole[kind].low < whole[kind].value < whole[kind].high
    unknown = replace(topic, partitions=(replace(topic.partitions[0], log_bytes=None),))
    assert "log_bytes" not in index_by_metric(metric_rows(samples.report(unknown)), 0)


def test_rows_have_the_reports_time_and_cluster() -> None:
    report = replace(samples.report(samples.hot()), created_at="2026-11-01T01:30:00+02:00")
    assert {(row.cluster_id, row.topic, row.sampled_at) for row in metric_rows(report)} == {
        (report.cluster_id, "payments.v1", datetime(2026, 10, 31, 23, 30, tzinfo=UTC))
    }
    naive = replace(report, created_at="2026-11-01T00:00:00")
    assert {row.sampled_at for row in metric_rows(naive)} == {datetime(2026, 11, 1, tzinfo=UTC)}


def test_rows_have_neither_keys_nor_hashes() -> None:
    key = samples.key("jane.doe", 0.3, shown=True)
    text = repr(metric_rows(samples.report(replace(samples.hot(), hot_keys=(key,)))))
    assert "jane" not in text
    assert key.key_hash not in text


def test_topic_without_records_has_sample_rows_only() -> None:
    rows = metric_rows(samples.report(samples.empty("a")))
    assert [(row.metric, row.estimate.value) for row in rows] == [
        ("sample.records", 0),
        ("sample.population", 0),
    ]
    assert metric_rows(samples.report()) == ()
