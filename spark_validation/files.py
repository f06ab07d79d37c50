"""Records that lie in parquet or JSON files: a sample of a topic that was taken elsewhere."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Window as Frame
from pyspark.sql import functions as F  # noqa: N812 - as everybody names it
from pyspark.sql import types as T  # noqa: N812

from spark_validation import analysis
from spark_validation.errors import ReadingFailed
from spark_validation.job import reporting_progress, task_slots
from spark_validation.key_counts import CountsLayout, candidate_counts
from spark_validation.measure import count_records
from spark_validation.windows import (
    MOST_PER_PARTITION,
    SamplePlan,
    Span,
    Window,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from spark_validation.job import JobSettings, ProgressCallback
    from spark_validation.results import SkewLimits, TopicResult


_SUFFIX = r"\.(parquet|json|jsonl|ndjson)(\.(gz|zst|bz2|lz4|snappy|deflate))?$"
_WHOLE = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
_NEEDED = ("partition", "size")
_COUNTS = (*_NEEDED, "offset")
_HINT = "the columns are key, partition and size, and optionally offset, timestamp and topic"
NO_TIME = -1
"""In milliseconds: a record whose time nobody tells."""


def suffixes(spark: SparkSession, path: str) -> set[str]:
    """The formats of the files at a path, by their names: `parquet`, `json`; their content is not read."""
    files = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(path)
    kind = F.regexp_extract(F.lower("path"), _SUFFIX, 1).alias("kind")
    found = {str(row[0]) for row in files.select(kind).distinct().collect()}
    return {"json" if kind in {"jsonl", "ndjson"} else kind for kind in found if kind}


def is_json_list(spark: SparkSession, path: str) -> bool:
    """Return whether a JSON file is one list of records, and not a record a line."""
    text = spark.read.option("recursiveFileLookup", "true").text(path)
    first = text.select(F.ltrim("value").alias("value")).where(F.col("value") != "").head(1)
    return bool(first) and str(first[0][0]).startswith("[")


def normalised(raw: DataFrame, path: str) -> DataFrame:
    """Records as `topic`, `partition` (int), `offset`, `key` (binary), `size` and `at` (long).

    A column `flawed` names the first column of a record whose value cannot be; it is null where all can.
    `topic` and `offset` are left out where they are not there; a record without a time has NO_TIME.

    Raises:
        ReadingFailed: A column is missing, or of a type that says nothing.
    """
    if not raw.columns:
        raise ReadingFailed(f"{path} contains no records", hint=_HINT)
    present = {field.name: field.dataType for field in raw.schema.fields}
    missing = [name for name in _NEEDED if name not in present]
    if not {"key", "key_base64"} & present.keys():
        missing.insert(0, "key")
    if missing:
        there = ", ".join(sorted(present)[:10])
        raise ReadingFailed(f"{path} has no column {', '.join(missing)}; it has {there}", hint=_HINT)
    if "topic" in present and not isinstance(present["topic"], T.StringType):
        raise _wrong("topic", present, path, "text")
    key, given = _key(present, path)
    columns = {
        "partition": _number("partition", present, path).cast("int"),
        "size": _number("size", present, path),
        "key": key,
        "at": F.coalesce(_time(present, path), F.lit(NO_TIME)).cast("long"),
        **({"offset": _number("offset", present, path)} if "offset" in present else {}),
        **({"topic": F.col("topic")} if "topic" in present else {}),
    }
    counts = [(name, columns[name]) for name in _COUNTS if name in columns]
    flaws = [F.when(column.isNull() | (column < 0), name) for name, column in counts]
    flaws.append(F.when(given.isNotNull() & key.isNull(), "key_base64"))
    named = [column.alias(name) for name, column in columns.items()]
    return raw.select(*named, F.coalesce(*flaws).alias("flawed"))


def _number(name: str, present: dict[str, T.DataType], path: str) -> Column:
    """A column of whole numbers, which JSON gives as text; null where it holds none."""
    if isinstance(present[name], _WHOLE):
        return F.col(name).cast("long")
    if isinstance(present[name], T.StringType):
        return F.expr(f"try_cast({name} AS bigint)")
    raise _wrong(name, present, path, "a whole number")


def _key(present: dict[str, T.DataType], path: str) -> tuple[Column, Column]:
    """The bytes of keys, and what they were given as."""
    if "key_base64" in present:
        if not isinstance(present["key_base64"], T.StringType | T.NullType):
            raise _wrong("key_base64", present, path, "text")
        return F.try_to_binary(F.col("key_base64").cast("string"), F.lit("base64")), F.col("key_base64")
    kind, given = present["key"], F.col("key")
    if isinstance(kind, T.BinaryType):
        return given, given
    if isinstance(kind, T.StringType | T.NullType):
        return F.encode(given.cast("string"), "UTF-8"), given
    raise _wrong("key", present, path, "bytes or text")


def _time(present: dict[str, T.DataType], path: str) -> Column:
    """Milliseconds since 1970 of a column that is a time, such a number, or either as text."""
    if "timestamp" not in present or isinstance(present["timestamp"], T.NullType):
        return F.lit(None).cast("long")
    kind = present["timestamp"]
    if isinstance(kind, T.TimestampType):
        return F.unix_millis("timestamp")
    if isinstance(kind, T.TimestampNTZType):
        return F.unix_millis(F.col("timestamp").cast("timestamp"))
    if isinstance(kind, _WHOLE):
        return F.col("timestamp").cast("long")
    if isinstance(kind, T.StringType):
        as_time = F.unix_millis(F.expr("try_cast(timestamp AS timestamp)"))
        return F.coalesce(F.expr("try_cast(timestamp AS bigint)"), as_time)
    raise _wrong("timestamp", present, path, "a time, or milliseconds since 1970")


def _wrong(name: str, present: dict[str, T.DataType], path: str, wanted: str) -> ReadingFailed:
    return ReadingFailed(
        f"{path}: column {name} is of type {present[name].simpleString()[:60]}, not {wanted}", hint=_HINT
    )


_NAMED = 5
_MOST_PARTITIONS = 100_000
_DAMAGED = "_not_json"
_SPARKS = (PySparkException, Py4JError)
_COUNT = "a whole number of at least 0"
_MEANT = {"key_base64": "Base64"}


@dataclass(frozen=True, slots=True)
class FilePlan(SamplePlan):
    """The records of files as a plan: a sample of a topic of which nobody knows how many records it has.

    No offset of the log was read, every record counts once, and no partition is known whole.
    """

    @property
    def read_whole(self) -> tuple[bool, ...]:
        """For each partition, that there may be more records than these."""
        return (False,) * len(self.spans)

    @property
    def offsets_read(self) -> tuple[int, ...]:
        """For each partition, that nobody knows which part of it this is: hardly any."""
        return (0,) * len(self.spans)

    @property
    def weights(self) -> tuple[float, ...]:
        """For each partition, that a record stands for itself."""
        return (1.0,) * len(self.spans)


@dataclass(frozen=True, slots=True, eq=False)
class RecordFiles:
    """Files of records whose format and columns have been checked.

    Attributes:
        name: What messages call them.
        rows: Their records, with the columns of `normalised`.
        topics: The topics that they hold records of, or are taken to.
        by_topic: Whether a column names the topic.
        ordered: Whether a column tells the offset.
    """

    name: str
    rows: DataFrame
    topics: tuple[str, ...]
    by_topic: bool
    ordered: bool


def open_files(
    spark: SparkSession, path: str, topics: Sequence[str] = (), *, called: str | None = None
) -> RecordFiles:
    """Look at files: what they are, and whether they have the columns that are needed.

    Args:
        spark: The session.
        path: A file or a folder, as Spark takes it.
        topics: Those of a column `topic` to take, or where there is none the name of the only one.
        called: What messages call the path; None for the path itself.

    Raises:
        ReadingFailed: They cannot be read, or are not what they should be.
    """
    name, topics = called or path, tuple(dict.fromkeys(topics))
    try:
        raw = _read(spark, path, name)
        rows = normalised(raw, name)
    except _SPARKS as error:
        raise _unreadable(name, error) from None
    ordered = "offset" in raw.columns
    if "topic" not in raw.columns:
        if len(topics) > 1:
            raise ReadingFailed(
                f"{name} has no column topic, and {len(topics)} topics are named",
                hint="name only the topic that its records belong to",
            )
        return RecordFiles(name, rows, topics or (_stem(name),), by_topic=False, ordered=ordered)
    try:
        found = [row[0] for row in rows.select("topic").distinct().collect()]
    except _SPARKS as error:
        raise _unreadable(name, error) from None
    if None in found:
        raise ReadingFailed(
            f"{name} has records without a topic",
            hint="set the topic of every record, or leave the column out",
        )
    found.sort()
    missing = [topic for topic in topics if topic not in found]
    if missing:
        raise ReadingFailed(
            f"{name} has no records of topic {missing[0]}", hint=f"it has records of {_listed(found)}"
        )
    return RecordFiles(name, rows, topics or tuple(found), by_topic=True, ordered=ordered)


def run_file(
    spark: SparkSession,
    files: RecordFiles,
    topic: str,
    settings: JobSettings,
    *,
    partitions: int | None = None,
    declared: int | None = None,
    limits: SkewLimits,
    groups: Sequence[Any] = (),
    on_progress: ProgressCallback | None = None,
) -> TopicResult:
    """Analyse the records of one topic.

    Args:
        spark: The session.
        files: Of `opened`.
        topic: One of theirs.
        settings: What is said of it.
        partitions: How many it has; None if nobody says.
        declared: How many its manifest declares, which holds if it can be.
        limits: The topic's policy, for advice.
        groups: Declared groups that read the topic.
        on_progress: Called with how far Spark is.

    Raises:
        ReadingFailed: The records are not what they should be.
    """
    rows = files.rows.where(F.col("topic") == topic) if files.by_topic else files.rows
    try:
        counts = _counts(rows, files.name)
        count, notes = _partitions(files.name, counts, partitions, declared)
        replicates = max(2, min(MOST_PER_PARTITION, sum(counts.values())))
        plan = _plan(counts, count, replicates, settings.seed)
        layout = CountsLayout(
            count,
            replicates,
            plan.weights,
            plan.read_whole,
            tuple(candidate_counts(count, settings.what_if)),
            settings.show_keys,
        )
        slots = task_slots(spark)
        with reporting_progress(spark, on_progress):
            counted = count_records(
                _with_replicate(rows, files, replicates, settings.seed),
                layout,
                count=plan.records,
                slots=slots,
            )
    except _SPARKS as error:
        raise _unreadable(files.name, error) from None
    notes.append(
        "the shares of partitions are those in the files: it is not known whether these"
        " contain the same part of each partition"
    )
    if not files.ordered:
        notes.append(
            "the files have no offsets, so records were divided into replicates at random: intervals assume"
            " that records are independent, and are too narrow where the records of a key come together"
        )
    return analysis.analyse(
        topic, counted, plan, layout, mode="file", limits=limits, groups=groups, since_ms=None,
        precision=None, notes=tuple(notes),
    )  # fmt: skip


def _read(spark: SparkSession, path: str, name: str) -> DataFrame:
    kinds = suffixes(spark, path)
    if not kinds:
        raise ReadingFailed(
            f"{name} contains no parquet or JSON files, or only empty ones",
            hint="file names must end in .parquet, .json, .jsonl or .ndjson",
        )
    if len(kinds) > 1:
        raise ReadingFailed(
            f"{name} contains files of several formats ({', '.join(sorted(kinds))})",
            hint="use files of one format",
        )
    if kinds == {"parquet"}:
        return spark.read.parquet(path)
    # An error of Spark's own would repeat the record, and with it the key.
    reader = spark.read.option("primitivesAsString", "true").option("columnNameOfCorruptRecord", _DAMAGED)
    rows = reader.option("multiLine", str(is_json_list(spark, path)).lower()).json(path)
    if _DAMAGED in rows.columns:
        raise ReadingFailed(
            f"{name} has records that are not JSON objects",
            hint="write one record per line, or one JSON array",
        )
    return rows


def _counts(rows: DataFrame, name: str) -> dict[int, int]:
    """Records by partition, after a look at each."""
    sums = F.count(F.lit(1)), F.count("flawed"), F.min("flawed")
    found = rows.groupBy("partition").agg(*sums).limit(_MOST_PARTITIONS + 1).collect()
    if not found:
        raise ReadingFailed(f"{name} contains no records", hint="there is nothing to analyse")
    flaws = {flaw for *_, flaw in found if flaw is not None}
    if flaws:
        total, bad = sum(row[1] for row in found), sum(row[2] for row in found)
        column = min(flaws)
        raise ReadingFailed(
            f"{name}: column {column} is not {_MEANT.get(column, _COUNT)} in {bad:,} of {total:,} records",
            hint="give each record's partition, and the bytes of its key and value as its size",
        )
    return {partition: records for partition, records, *_ in found}


def _partitions(
    path: str, counts: dict[int, int], given: int | None, declared: int | None
) -> tuple[int, list[str]]:
    """Return how many partitions the topic has, and notes on that."""
    least = max(counts) + 1
    if given is not None:
        if given < least:
            raise ReadingFailed(
                f"{path} has records of partition {least - 1}, but --partitions {given} allows only"
                f" partitions up to {given - 1}",
                hint="give the partition count that the topic had when the records were taken",
            )
        return given, []
    if declared is not None and declared >= least:
        return declared, []
    if least > _MOST_PARTITIONS:
        raise ReadingFailed(
            f"{path} has records of partition {least - 1}", hint="no topic has that many partitions"
        )
    assumed = f"{least:,} partition{'s' if least > 1 else ''}"
    return least, [f"the topic is assumed to have {assumed}: its records are on no higher one"]


def _plan(counts: dict[int, int], count: int, replicates: int, seed: int) -> FilePlan:
    spans = tuple(Span(number, 0, counts.get(number, 0)) for number in range(count))
    windows = tuple(
        Window(
            span.partition,
            number,
            span.records * number // replicates,
            span.records * (number + 1) // replicates,
        )
        for span in spans
        for number in range(replicates)
        if span.records * (number + 1) // replicates > span.records * number // replicates
    )
    return FilePlan(spans, replicates, windows, seed)


def _with_replicate(rows: DataFrame, files: RecordFiles, replicates: int, seed: int) -> DataFrame:
    """The records with their replicate: runs of neighbours where offsets are known, else any."""
    if files.ordered:
        along = Frame.partitionBy("partition").orderBy("offset")
        number = F.ntile(replicates).over(along) - 1
    else:
        number = F.floor(F.rand(seed) * replicates)
    return rows.select("partition", number.cast("int").alias("replicate"), "key", "size", "at")


def _unreadable(name: str, error: Exception) -> ReadingFailed:
    """Return the error of files that cannot be read; never in Spark's own words, which may repeat records."""
    condition = (error.getCondition() if isinstance(error, PySparkException) else None) or ""
    if condition.startswith("PATH_NOT_FOUND"):
        return ReadingFailed(f"{name}: no such file or folder", hint="give a file, or a folder of files")
    why = f" ({condition})" if condition else ""
    return ReadingFailed(
        f"{name} cannot be read{why}", hint="it may be damaged, or not in the format that its name says"
    )


def _stem(path: str) -> str:
    name = path.rstrip("/").rpartition("/")[2]
    return re.sub(r"(\.(parquet|json|jsonl|ndjson|snappy|gz|zst|bz2|lz4))+$", "", name) or name


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
