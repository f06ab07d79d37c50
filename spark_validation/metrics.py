"""The metrics of a report as rows, and the tables of Spark that keep them: Parquet, Delta or Iceberg.

A row is one metric of a topic, or of one of its partitions, in one report. Rows are only ever appended;
`cluster_id`, `topic`, `partition`, `metric` and `sampled_at` together identify one.
"""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_validation.arrivals import COMMON, TopicArrivals
from spark_validation.errors import JobFailed, SkewError, java_causes
from spark_validation.results import ArrivalPeriod, Estimate, Imbalance, SkewReport, TopicResult

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

MAX_MEAN_RATIO = "by_records.max_mean_ratio"
HOTTEST_KEY_SHARE = "hottest_key_share"
DISTINCT_KEYS = "distinct_keys"
ARRIVALS_RATIO = f"arrivals.{COMMON}.max_mean_ratio"


@dataclass(frozen=True, slots=True)
class MetricRow:
    """One metric at one time.

    Attributes:
        cluster_id: The cluster's own id; None where the records came from files.
        partition: Its number; None where the metric is of the topic.
        metric: Its place in the JSON report, such as `by_records.gini`; or `hottest_key_share`,
            `hottest_key_byte_share` and, of the topic, `records` and `bytes`.
        estimate: The value and its interval.
        sampled_at: The time of the report, with its zone.
    """

    cluster_id: str | None
    topic: str
    partition: int | None
    metric: str
    estimate: Estimate
    sampled_at: datetime

    @property
    def day(self) -> date:
        """The day of `sampled_at` in UTC."""
        return self.sampled_at.astimezone(UTC).date()


def metric_rows(report: SkewReport) -> tuple[MetricRow, ...]:
    """Return the metrics of a report; keys and their hashes are not among them."""
    at = datetime.fromisoformat(report.created_at)
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return tuple(
        MetricRow(report.cluster_id, topic.name, partition, metric, estimate, at)
        for topic in report.topics
        for partition, metric, estimate in _metrics(topic)
    )


def _metrics(topic: TopicResult) -> Iterator[tuple[int | None, str, Estimate]]:
    for name in ("records", "population"):
        yield None, f"sample.{name}", Estimate.exact(getattr(topic.sample, name))
    if topic.diagnosis == "empty" or not topic.partitions:
        return
    for kind in ("records", "bytes"):
        yield None, kind, _add_up(getattr(partition, kind) for partition in topic.partitions)
        imbalance: Imbalance = getattr(topic, f"by_{kind}")
        for measure in fields(Imbalance):
            yield None, f"by_{kind}.{measure.name}", getattr(imbalance, measure.name)
    yield None, DISTINCT_KEYS, topic.distinct_keys
    yield None, "sampled_distinct_keys", Estimate.exact(topic.sampled_distinct_keys)
    yield None, "null_key_share", topic.null_key_share
    for share in ("share", "byte_share"):
        estimates = [getattr(key, share) for key in topic.hot_keys]
        hottest = max(estimates, key=lambda estimate: estimate.value, default=Estimate.exact(0.0))
        yield None, f"hottest_key_{share}", hottest
    for metric, estimate in _arrival_metrics(topic.arrivals or ()):
        yield None, metric, estimate
    for name, part in topic.partitioners.items():
        yield None, f"partitioners.{name}", Estimate.exact(part)
    for partition in topic.partitions:
        for name in ("records", "share", "bytes", "byte_share"):
            yield partition.partition, name, getattr(partition, name)
        yield partition.partition, "log_records", Estimate.exact(partition.log_records)
        if partition.log_bytes is not None:
            yield partition.partition, "log_bytes", Estimate.exact(partition.log_bytes)


def arrival_rows(
    cluster_id: str | None, topics: Iterable[TopicArrivals], at: datetime
) -> tuple[MetricRow, ...]:
    """Return the metrics of arrivals, named as those of a report.

    Args:
        topics: The topics; one with a partition that could not be read has no metrics.
        at: When the offsets were read.
    """
    return tuple(
        MetricRow(cluster_id, topic.name, None, metric, estimate, at)
        for topic in topics
        for metric, estimate in _arrival_metrics(topic.periods)
    )


def _arrival_metrics(periods: Iterable[ArrivalPeriod]) -> Iterator[tuple[str, Estimate]]:
    for period in periods:
        yield f"arrivals.{period.name}.records", Estimate.exact(period.total)
        if period.ratio is not None:
            yield f"arrivals.{period.name}.max_mean_ratio", Estimate.exact(period.ratio)


def _add_up(estimates: Iterable[Estimate]) -> Estimate:
    """Return the sum of estimates; its interval is wide, as it holds however they depend on each other."""
    every = tuple(estimates)
    return Estimate(
        sum(estimate.value for estimate in every),
        sum(estimate.low for estimate in every),
        sum(estimate.high for estimate in every),
    )


FORMATS = ("parquet", "delta", "iceberg")
_MAX_ROWS_READ = 200_000
_DDL = (
    "cluster_id string, topic string, partition int, metric string, value double, low double, high double, "
    "sampled_at timestamp, day date"
)
_COLUMNS = dict(column.split() for column in _DDL.split(", "))
# Nothing is there yet; an empty folder has no schema.
_ABSENT = frozenset(
    {
        "PATH_NOT_FOUND",
        "UNABLE_TO_INFER_SCHEMA",
        "TABLE_OR_VIEW_NOT_FOUND",
        "DELTA_TABLE_NOT_FOUND",
        "DELTA_PATH_DOES_NOT_EXIST",
    }
)
_SCALA = "2.13"
_PACKAGES = {
    "delta": f"io.delta:delta-spark_{_SCALA}",
    "iceberg": f"org.apache.iceberg:iceberg-spark-runtime-{{spark}}_{_SCALA}",
}
_CONFIGURED = {
    "delta": "spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension and "
    "spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "iceberg": "spark.sql.catalog.NAME=org.apache.iceberg.spark.SparkCatalog with its type and warehouse",
}


@dataclass(frozen=True, slots=True)
class MetricsTable:
    """A table of metrics.

    Attributes:
        location: The path of its folder; of Iceberg the table's name, such as `lake.kafka.skew`.
    """

    location: str
    format: str = "parquet"

    def check(self, spark: SparkSession) -> None:
        """Check before topics are read that rows can be appended, as far as reading shows.

        Raises:
            SkewError: The format's jars are missing, or the table has other columns.
        """
        with self._translate_spark_errors("read"):
            self._load_checked(spark)

    def append(self, spark: SparkSession, rows: Sequence[MetricRow]) -> None:
        """Append rows: one file for each day.

        Raises:
            SkewError: They cannot be written, or the table has other columns.
        """
        with self._translate_spark_errors("written"):
            exists = self._load_checked(spark) is not None
            # Of one partition, and so of one file for each day.
            frame = spark.createDataFrame(_arrow_table(rows)).coalesce(1)
            if self.format == "iceberg":
                table = frame.writeTo(self.location)
                # append() fails without a table, and createOrReplace() would drop its rows.
                if exists:
                    table.append()
                else:
                    table.using("iceberg").partitionedBy(frame["day"]).create()
            else:
                # INT96, Spark's default, is what other readers of Parquet warn of.
                spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
                frame.write.format(self.format).mode("append").partitionBy("day").save(self.location)

    def read(
        self, spark: SparkSession, cluster_id: str | None, topics: Collection[str], metrics: Collection[str]
    ) -> tuple[MetricRow, ...]:
        """Read metrics of topics, not of their partitions: the newest, at most 200,000 rows.

        Raises:
            SkewError: The table cannot be read, or has other columns.
        """
        from pyspark.sql import functions as F  # noqa: N812 - its customary name

        with self._translate_spark_errors("read"):
            table = self._load_checked(spark)
            if table is None:
                return ()
            rows = table.where(
                F.col("partition").isNull()
                # Records of files have no cluster, and `=` is never true of null.
                & F.col("cluster_id").eqNullSafe(F.lit(cluster_id))
                & F.col("topic").isin(*topics)
                & F.col("metric").isin(*metrics)
            )
            # As a number: collect() returns timestamps without a zone, in that of this machine.
            at = F.unix_micros("sampled_at").alias("at")
            newest = rows.select("topic", "metric", "value", "low", "high", at).orderBy(F.desc("at"))
            newest_rows = newest.limit(_MAX_ROWS_READ).collect()
        return tuple(
            MetricRow(
                cluster_id,
                topic,
                None,
                metric,
                Estimate(value, low, high),
                datetime.fromtimestamp(micros / 1e6, UTC),
            )
            for topic, metric, value, low, high, micros in newest_rows
        )

    def check_files(self) -> None:
        """Check that `append_file` can add rows, as far as reading shows.

        Raises:
            SkewError: PyArrow is not installed, the folder cannot be read, or it holds another table.
        """
        with self._translate_arrow_errors("read"):
            self._read_schema()

    def append_file(self, rows: Sequence[MetricRow]) -> None:
        """Append rows to a Parquet table of this machine, without Spark: one file for each day.

        Raises:
            SkewError: They cannot be written.
        """
        with self._translate_arrow_errors("written"):
            import pyarrow.parquet as pq

            for day in sorted({row.day for row in rows}):
                folder = Path(self.location) / f"day={day}"
                folder.mkdir(parents=True, exist_ok=True)
                # Readers skip names with an underscore, and so files that are incomplete.
                name = f"part-{uuid.uuid4()}.parquet"
                # The name of the folder has the day, as Spark writes and reads partitions.
                table = _arrow_table([row for row in rows if row.day == day]).drop_columns(["day"])
                pq.write_table(table, folder / f"_{name}")
                (folder / f"_{name}").rename(folder / name)

    def read_files(self, cluster_id: str | None, metric: str) -> tuple[MetricRow, ...]:
        """Read one metric of all topics from a Parquet table of this machine, without Spark; oldest first.

        Raises:
            SkewError: The table cannot be read.
        """
        with self._translate_arrow_errors("read"):
            import pyarrow.dataset as ds

            if self._read_schema() is None:
                return ()
            # Unfinished files are left out by their underscore; to check each would open it once more.
            table = ds.dataset(self.location, format="parquet", exclude_invalid_files=False)
            own = (
                ds.field("cluster_id").is_null()
                if cluster_id is None
                else ds.field("cluster_id") == cluster_id
            )
            wanted = own & (ds.field("metric") == metric) & ds.field("partition").is_null()
            columns = ["topic", "value", "low", "high", "sampled_at"]
            records = table.to_table(columns, filter=wanted).sort_by("sampled_at").to_pylist()
        return tuple(
            MetricRow(
                cluster_id,
                row["topic"],
                None,
                metric,
                Estimate(row["value"], row["low"], row["high"]),
                row["sampled_at"],
            )
            for row in records
        )

    def _read_schema(self) -> Any:
        """Return the schema of a file of the table; None if it has none yet."""
        import pyarrow.parquet as pq

        folder = Path(self.location)
        if (folder / "_delta_log").exists():
            raise JobFailed(
                f"{self.location} is a Delta table", hint="arrivals are appended to Parquet tables alone"
            )
        file = next((file for file in folder.glob("day=*/*.parquet") if not file.name.startswith("_")), None)
        if file is None:
            return None
        wanted = {field.name: field.type for field in _arrow_table(()).schema if field.name != "day"}
        schema = pq.read_schema(file)
        if {field.name: field.type for field in schema} != wanted:
            raise JobFailed(
                f"{self.location} has other columns than metrics have",
                hint=f"give the metrics a place of their own; its columns are {_DDL}",
            )
        return schema

    @contextmanager
    def _translate_arrow_errors(self, action: str) -> Iterator[None]:
        try:
            import pyarrow as pa
        except ImportError as error:
            raise JobFailed(
                "tables of metrics need pyarrow, which is not installed",
                hint="`pip install 'kafkaform[spark]'`",
            ) from error
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            raise JobFailed(f"metrics cannot be {action}: {self.location}: {reason}") from error

    def _load_checked(self, spark: SparkSession) -> DataFrame | None:
        """Return the table; None if there is none yet."""
        if self.format == "parquet" and _load(spark, "text", f"{self.location}/_delta_log") is not None:
            # Spark would add files that are not in Delta's log.
            raise JobFailed(f"{self.location} is a Delta table", hint="give delta as the format")
        table = _load(spark, self.format, self.location)
        if table is None:
            return None
        columns = {field.name: field.dataType.simpleString() for field in table.schema.fields}
        if columns != _COLUMNS:
            raise JobFailed(
                f"{self.location} has other columns than metrics have: {_describe_difference(columns)}",
                hint=f"give the metrics a place of their own; its columns are {_DDL}",
            )
        return table

    @contextmanager
    def _translate_spark_errors(self, action: str) -> Iterator[None]:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            yield
        except (Py4JError, PySparkException) as error:
            raise self._make_error(error, action) from error

    def _make_error(self, error: Exception, action: str) -> SkewError:
        import pyspark

        causes = java_causes(error)
        text = " ".join([str(error), *(cause.line for cause in causes)])
        spark = ".".join(pyspark.__version__.split(".")[:2])
        if self.format in _PACKAGES and any(sign in text for sign in _NO_JARS):
            package = _PACKAGES[self.format].format(spark=spark)
            return JobFailed(
                f"Spark has no {self.format.capitalize()}: its jars or its settings are missing",
                hint=f"`--spark-conf spark.jars.packages={package}:VERSION` (the one for Spark {spark}), and "
                f"{_CONFIGURED[self.format]}",
            )
        reason = causes[-1].line if causes else next(iter(str(error).splitlines()), type(error).__name__)
        return JobFailed(
            f"metrics cannot be {action}: {self.location}: {reason}",
            hint="give a path or a table that Spark is configured for and this account may write to",
        )


_NO_JARS = (
    "DATA_SOURCE_NOT_FOUND",
    "CATALOG_NOT_FOUND",
    "Cannot find catalog plugin class",
    "DELTA_CONFIGURE_SPARK_SESSION_WITH_EXTENSION_AND_CATALOG",
    "REQUIRES_SINGLE_PART_NAMESPACE",
)


def _load(spark: SparkSession, kind: str, location: str) -> DataFrame | None:
    """Return the table at a place; None if there is none."""
    from pyspark.errors import AnalysisException

    try:
        table = spark.read.table(location) if kind == "iceberg" else spark.read.format(kind).load(location)
        # Over Spark Connect, only this asks the server.
        _ = table.schema
    except AnalysisException as error:
        if (error.getCondition() or "").partition(".")[0] in _ABSENT:
            return None
        raise
    return table


def _describe_difference(columns: dict[str, str]) -> str:
    names = [name for name in (*_COLUMNS, *columns) if columns.get(name) != _COLUMNS.get(name)]
    return ", ".join(f"{name} {columns.get(name, 'missing')}" for name in dict.fromkeys(names))


def _arrow_table(rows: Sequence[MetricRow]) -> Any:
    import pyarrow as pa

    def column(values: Iterable[Any], kind: Any) -> Any:
        return pa.array(values, kind)

    estimates = [row.estimate for row in rows]
    return pa.table(
        {
            "cluster_id": column((row.cluster_id for row in rows), pa.string()),
            "topic": column((row.topic for row in rows), pa.string()),
            "partition": column((row.partition for row in rows), pa.int32()),
            "metric": column((row.metric for row in rows), pa.string()),
            "value": column((estimate.value for estimate in estimates), pa.float64()),
            "low": column((estimate.low for estimate in estimates), pa.float64()),
            "high": column((estimate.high for estimate in estimates), pa.float64()),
            # Microseconds: Spark does not read Parquet's nanoseconds as a timestamp.
            "sampled_at": column((row.sampled_at for row in rows), pa.timestamp("us", tz="UTC")),
            "day": column((row.day for row in rows), pa.date32()),
        }
    )
