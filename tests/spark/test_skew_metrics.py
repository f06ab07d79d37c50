"""Tables of metrics: appended to and read back by Spark, read by others, and refused in one line."""

from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession

from kafkaform.report.skew_charts import TREND_METRICS
from spark_validation.errors import SkewError
from spark_validation.metrics import MetricsTable, metric_rows
from spark_validation.results import SkewReport
from tests.support.skew import samples

LATE = "2026-11-01T23:59:59.123456+00:00"
NEXT_DAY = "2026-11-02T00:00:00Z"


def report(created_at: str) -> SkewReport:
    return samples.report(samples.hot(), samples.empty("nothing"), created_at=created_at)


def test_each_run_adds_file_to_day_partition(spark: SparkSession, tmp_path: Path) -> None:
    place = tmp_path / "a folder" / "metrics"
    table = MetricsTable(str(place))
    table.check(spark)
    assert not place.exists()
    files: set[Path] = set()
    for number, created_at in enumerate((LATE, NEXT_DAY, NEXT_DAY), 1):
        table.append(spark, metric_rows(report(created_at)))
        now = set(place.rglob("*.parquet"))
        assert files < now
        assert len(now) == number
        files = now
    assert {file.parent.name for file in files} == {"day=2026-11-01", "day=2026-11-02"}
    assert len(list((place / "day=2026-11-02").glob("*.parquet"))) == 2


def test_metrics_rows_have_documented_schema(spark: SparkSession, tmp_path: Path) -> None:
    rows = metric_rows(report(LATE))
    MetricsTable(str(tmp_path / "metrics")).append(spark, rows)
    table = ds.dataset(tmp_path / "metrics", partitioning="hive").to_table()
    kinds = {field.name: str(field.type) for field in table.schema if field.name != "day"}
    assert kinds == {
        "cluster_id": "string", "topic": "string", "partition": "int32", "metric": "string",
        "value": "double", "low": "double", "high": "double", "sampled_at": "timestamp[us, tz=UTC]",
    }  # fmt: skip
    found = {(row["topic"], row["partition"], row["metric"]): row for row in table.to_pylist()}
    assert len(found) == len(rows)
    for row in rows:
        there = found[row.topic, row.partition, row.metric]
        values = (there["value"], there["low"], there["high"])
        assert values == (row.estimate.value, row.estimate.low, row.estimate.high)
        assert there["sampled_at"] == datetime(2026, 11, 1, 23, 59, 59, 123456, tzinfo=UTC)
        assert there["day"] == "2026-11-01"
        assert there["cluster_id"] == row.cluster_id
    again = spark.read.parquet(str(tmp_path / "metrics"))
    assert dict(again.dtypes)["day"] == "date"
    assert again.select("day").distinct().collect()[0][0] == date(2026, 11, 1)


def test_metrics_of_a_trend_are_read_back(spark: SparkSession, tmp_path: Path) -> None:
    table = MetricsTable(str(tmp_path / "metrics"))
    assert table.read(spark, "any", ["payments.v1"], TREND_METRICS) == ()
    rows = metric_rows(report(LATE))
    table.append(spark, rows)
    table.append(spark, metric_rows(report(NEXT_DAY)))
    second = samples.report(samples.hot(), created_at=LATE)
    table.append(spark, metric_rows(SkewReport("", None, None, second.created_at, second.topics)))
    found = table.read(spark, rows[0].cluster_id, ["payments.v1", "other"], TREND_METRICS)
    assert len(found) == 2 * len(TREND_METRICS)
    assert {row for row in found if row.sampled_at == rows[0].sampled_at} == {
        row
        for row in rows
        if row.topic == "payments.v1" and row.partition is None and row.metric in TREND_METRICS
    }
    files = table.read(spark, None, ["payments.v1"], TREND_METRICS)
    assert len(files) == len(TREND_METRICS)
    assert table.read(spark, rows[0].cluster_id, ["other"], TREND_METRICS) == ()


def test_table_with_other_schema_is_refused_and_unchanged(spark: SparkSession, tmp_path: Path) -> None:
    place = tmp_path / "other"
    spark.range(3).selectExpr("id", "cast(id as int) as value").write.parquet(str(place))
    before = sorted(place.rglob("*"))
    table = MetricsTable(str(place))
    for refused in (table.check, partial(table.append, rows=metric_rows(report(LATE)))):
        with pytest.raises(SkewError, match=r"value int.*id bigint") as raised:
            refused(spark)
        assert raised.value.hint
        assert "sampled_at timestamp" in raised.value.hint
    assert sorted(place.rglob("*")) == before


def test_parquet_is_not_written_into_delta_table(spark: SparkSession, tmp_path: Path) -> None:
    table = MetricsTable(str(tmp_path))
    table.append(spark, metric_rows(report(LATE)))
    (tmp_path / "_delta_log").mkdir()
    (tmp_path / "_delta_log" / "00000000000000000000.json").write_text("{}")
    with pytest.raises(SkewError, match="is a Delta table") as raised:
        table.check(spark)
    assert raised.value.hint == "give delta as the format"


CANNOT: dict[str, tuple[MetricsTable, str, str]] = {
    "delta": (MetricsTable("/tmp/x", "delta"), "Spark has no Delta", "io.delta:delta-spark_2.13"),
    "iceberg": (
        MetricsTable("lake.kafka.skew", "iceberg"),
        "Spark has no Iceberg",
        "org.apache.iceberg:iceberg-spark-runtime-4.",
    ),
    "a folder that cannot be": (MetricsTable("/proc/none/x"), "/proc/none/x: ", "may write to"),
    "a file system that is not there": (
        MetricsTable("nosuch://x/y"),
        'No FileSystem for scheme "nosuch"',
        "path",
    ),
}


@pytest.mark.parametrize("case", CANNOT)
def test_unwritable_table_is_reported(spark: SparkSession, case: str) -> None:
    table, message, hint = CANNOT[case]
    with pytest.raises(SkewError) as raised:
        table.append(spark, metric_rows(report(LATE)))
    assert message in raised.value.message
    assert "\n" not in raised.value.message
    assert hint in str(raised.value.hint)
