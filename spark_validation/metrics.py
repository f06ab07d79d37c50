"""The metrics of a report as rows, and the tables of Spark that keep them: Parquet, Delta or Iceberg.

A row is one metric of a topic, or of one of its partitions, in one report. Rows are only ever appended;
`cluster_id`, `topic`, `partition`, `metric` and `sampled_at` together identify one.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from spark_validation.errors import JobFailed, SkewError, java_causes
from spark_validation.results import Estimate, Imbalance

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from spark_validation.results import SkewReport, TopicResult


MAX_MEAN_RATIO = "by_records.max_mean_ratio"
HOTTEST_KEY_SHARE = "hottest_key_share"
DISTINCT_KEYS = "distinct_keys"


@dataclass(frozen=True, slots=True)
class MetricRow:
    """One metric at one time.

    Attributes:
        cluster_id: The cluster's own id; None where the records came from files.
        topic: Its name.
        partition: Its number; None where the metric is of the topic.
        metric: Where the JSON report has it, such as `by_records.gini`; or `hottest_key_share`,
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
        yield None, kind, _sum(getattr(partition, kind) for partition in topic.partitions)
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
    for period in topic.arrivals or ():
        yield None, f"arrivals.{period.name}.records", Estimate.exact(period.total)
        if period.ratio is not None:
            yield None, f"arrivals.{period.name}.max_mean_ratio", Estimate.exact(period.ratio)
    for name, part in topic.partitioners.items():
        yield None, f"partitioners.{name}", Estimate.exact(part)
    for partition in topic.partitions:
        for name in ("records", "share", "bytes", "byte_share"):
            yield partition.partition, name, getattr(partition, name)
        yield partition.partition, "log_records", Estimate.exact(partition.log_records)
        if partition.log_bytes is not None:
            yield partition.partition, "log_bytes", Estimate.exact(partition.log_bytes)


def _sum(estimates: Iterable[Estimate]) -> Estimate:
    """The sum of estimates; its interval holds however they depend on each other, and is wide for it."""
    every = tuple(estimates)
    return Estimate(
        sum(estimate.value for estimate in every),
        sum(estimate.low for estimate in every),
        sum(estimate.high for estimate in every),
    )


FORMATS = ("parquet", "delta", "iceberg")
_MOST_READ = 200_000
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
        place: The path of its folder; of Iceberg the table's name, such as `lake.kafka.skew`.
        format: One of FORMATS.
    """

    place: str
    format: str = "parquet"

    def check(self, spark: SparkSession) -> None:
        """Find out before topics are read whether rows can be appended, as far as reading can tell.

        Raises:
            SkewError: The format's jars are not there, or the table has other columns.
        """
        with self._one_line("read"):
            self._existing(spark)

    def append(self, spark: SparkSession, rows: Sequence[MetricRow]) -> None:
        """Append rows: one file for each day.

        Raises:
            SkewError: They cannot be written, or the table has other columns.
        """
        with self._one_line("written"):
            exists = self._existing(spark) is not None
            frame = _frame(spark, rows)
            if self.format == "iceberg":
                table = frame.writeTo(self.place)
                if exists:
                    table.append()
                else:
                    table.using("iceberg").partitionedBy(frame["day"]).create()
            else:
                # INT96, Spark's default, is what other readers of Parquet warn of.
                spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
                frame.write.format(self.format).mode("append").partitionBy("day").save(self.place)

    def read(
        self, spark: SparkSession, cluster_id: str | None, topics: Collection[str], metrics: Collection[str]
    ) -> tuple[MetricRow, ...]:
        """Read metrics of topics, not of their partitions: the newest, at most 200,000 rows.

        Raises:
            SkewError: The table cannot be read, or has other columns.
        """
        from pyspark.sql import functions as F  # noqa: N812 - as everybody names it

        with self._one_line("read"):
            table = self._existing(spark)
            if table is None:
                return ()
            rows = table.where(
                F.col("partition").isNull()
                & F.col("cluster_id").eqNullSafe(F.lit(cluster_id))
                & F.col("topic").isin(*topics)
                & F.col("metric").isin(*metrics)
            )
            at = F.unix_micros("sampled_at").alias("at")
            newest = rows.select("topic", "metric", "value", "low", "high", at).orderBy(F.desc("at"))
            found = newest.limit(_MOST_READ).collect()
        return tuple(
            MetricRow(
                cluster_id,
                topic,
                None,
                metric,
                Estimate(value, low, high),
                datetime.fromtimestamp(micros / 1e6, UTC),
            )
            for topic, metric, value, low, high, micros in found
        )

    def _existing(self, spark: SparkSession) -> DataFrame | None:
        """The table as it is; None if there is none yet."""
        if self.format == "parquet" and _loaded(spark, "text", f"{self.place}/_delta_log") is not None:
            # Spark would add files of which Delta knows nothing.
            raise JobFailed(f"{self.place} is a Delta table", hint="give --metrics-format delta")
        table = _loaded(spark, self.format, self.place)
        if table is None:
            return None
        found = {field.name: field.dataType.simpleString() for field in table.schema.fields}
        if found != _COLUMNS:
            raise JobFailed(
                f"{self.place} has other columns than metrics have: {_difference(found)}",
                hint=f"give --metrics a place of its own; its columns are {_DDL}",
            )
        return table

    @contextmanager
    def _one_line(self, action: str) -> Iterator[None]:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            yield
        except (Py4JError, PySparkException) as error:
            raise self._failed(error, action) from error

    def _failed(self, error: Exception, action: str) -> SkewError:
        import pyspark

        causes = java_causes(error)
        text = " ".join([str(error), *(cause.line for cause in causes)])
        spark = ".".join(pyspark.__version__.split(".")[:2])
        if self.format in _PACKAGES and any(sign in text for sign in _NO_JARS):
            package = _PACKAGES[self.format].format(spark=spark)
            return JobFailed(
                f"Spark has no {self.format.capitalize()}: its jars or its settings are missing",
                hint=f"--spark-conf spark.jars.packages={package}:VERSION (the one for Spark {spark}), and "
                f"{_CONFIGURED[self.format]}",
            )
        reason = causes[-1].line if causes else next(iter(str(error).splitlines()), type(error).__name__)
        return JobFailed(
            f"metrics cannot be {action}: {self.place}: {reason}",
            hint="give a path or a table that Spark is configured for and this account may write to",
        )


_NO_JARS = (
    "DATA_SOURCE_NOT_FOUND",
    "CATALOG_NOT_FOUND",
    "Cannot find catalog plugin class",
    "DELTA_CONFIGURE_SPARK_SESSION_WITH_EXTENSION_AND_CATALOG",
    "REQUIRES_SINGLE_PART_NAMESPACE",
)


def _loaded(spark: SparkSession, kind: str, place: str) -> DataFrame | None:
    """What is at a place; None if nothing is."""
    from pyspark.errors import AnalysisException

    try:
        table = spark.read.table(place) if kind == "iceberg" else spark.read.format(kind).load(place)
        # Over Spark Connect, only this asks the server.
        _ = table.schema
    except AnalysisException as error:
        if (error.getCondition() or "").partition(".")[0] in _ABSENT:
            return None
        raise
    return table


def _difference(found: dict[str, str]) -> str:
    names = [name for name in (*_COLUMNS, *found) if found.get(name) != _COLUMNS.get(name)]
    return ", ".join(f"{name} {found.get(name, 'missing')}" for name in dict.fromkeys(names))


def _frame(spark: SparkSession, rows: Sequence[MetricRow]) -> DataFrame:
    """Rows as a frame of one partition, and so of one file for each day."""
    import pyarrow as pa

    def column(values: Iterable[Any], kind: Any) -> Any:
        return pa.array(values, kind)

    estimates = [row.estimate for row in rows]
    table = pa.table(
        {
            "cluster_id": column((row.cluster_id for row in rows), pa.string()),
            "topic": column((row.topic for row in rows), pa.string()),
            "partition": column((row.partition for row in rows), pa.int32()),
            "metric": column((row.metric for row in rows), pa.string()),
            "value": column((estimate.value for estimate in estimates), pa.float64()),
            "low": column((estimate.low for estimate in estimates), pa.float64()),
            "high": column((estimate.high for estimate in estimates), pa.float64()),
            "sampled_at": column((row.sampled_at for row in rows), pa.timestamp("us", tz="UTC")),
            "day": column((row.sampled_at.astimezone(UTC).date() for row in rows), pa.date32()),
        }
    )
    return spark.createDataFrame(table).coalesce(1)
