"""Records in Parquet or JSON files: a sample of a topic that was taken elsewhere."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Window as Frame
from pyspark.sql import functions as F  # noqa: N812 - its customary name
from pyspark.sql import types as T  # noqa: N812

from spark_validation import analysis, wording
from spark_validation.errors import ReadingFailed
from spark_validation.job import ProgressCallback, report_progress, task_slots
from spark_validation.key_counts import CountsLayout, candidate_counts
from spark_validation.measure import count_records
from spark_validation.windows import MAX_PER_PARTITION, SamplePlan, Span, Window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from spark_validation.options import JobSettings
    from spark_validation.results import SkewLimits, TopicResult

_SUFFIX = r"\.(parquet|json|jsonl|ndjson)(\.(gz|zst|bz2|lz4|snappy|deflate))?$"
_WHOLE = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
_NEEDED = ("partition", "size")
_COUNTS = (*_NEEDED, "offset")
_HINT = "the columns are key, partition and size, and optionally offset, timestamp and topic"
NO_TIME = -1
"""The time of a record that has none, in milliseconds."""


def find_formats(spark: SparkSession, path: str) -> set[str]:
    """Return the formats of the files at a path by their names: `parquet`, `json`; contents are not read."""
    files = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(path)
    kind = F.regexp_extract(F.lower("path"), _SUFFIX, 1).alias("kind")
    kinds = {str(row[0]) for row in files.select(kind).distinct().collect()}
    return {"json" if kind in {"jsonl", "ndjson"} else kind for kind in kinds if kind}


def is_json_list(spark: SparkSession, path: str) -> bool:
    """Return whether a JSON file is one list of records, and not a record a line."""
    text = spark.read.option("recursiveFileLookup", "true").text(path)
    first = text.select(F.ltrim("value").alias("value")).where(F.col("value") != "").head(1)
    return bool(first) and str(first[0][0]).startswith("[")


def normalise_columns(raw: DataFrame, path: str) -> DataFrame:
    """Return records as `topic`, `partition` (int), `offset`, `key` (binary), `size` and `at` (long).

    A column `flawed` names the first column of a record whose value is invalid; it is null where all are
    valid.
    `topic` and `offset` are left out where the files have none; a record without a time has NO_TIME.

    Raises:
        ReadingFailed: A column is missing, or of an unusable type.
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
        raise _make_type_error("topic", present, path, "text")
    key, given = _key_columns(present, path)
    columns = {
        "partition": _number_column("partition", present, path).cast("int"),
        "size": _number_column("size", present, path),
        "key": key,
        "at": F.coalesce(_time_column(present, path), F.lit(NO_TIME)).cast("long"),
        **({"offset": _number_column("offset", present, path)} if "offset" in present else {}),
        **({"topic": F.col("topic")} if "topic" in present else {}),
    }
    counts = [(name, columns[name]) for name in _COUNTS if name in columns]
    flaws = [F.when(column.isNull() | (column < 0), name) for name, column in counts]
    flaws.append(F.when(given.isNotNull() & key.isNull(), "key_base64"))
    named = [column.alias(name) for name, column in columns.items()]
    return raw.select(*named, F.coalesce(*flaws).alias("flawed"))


def _number_column(name: str, present: dict[str, T.DataType], path: str) -> Column:
    """Return a column as whole numbers, which JSON has as text; null where a value is none."""
    if isinstance(present[name], _WHOLE):
        return F.col(name).cast("long")
    if isinstance(present[name], T.StringType):
        # A plain cast fails in Spark 4 (ANSI mode), with an error that repeats the value.
        return F.expr(f"try_cast({name} AS bigint)")
    raise _make_type_error(name, present, path, "a whole number")


def _key_columns(present: dict[str, T.DataType], path: str) -> tuple[Column, Column]:
    """Return the column of key bytes, and the one that they come from."""
    if "key_base64" in present:
        if not isinstance(present["key_base64"], T.StringType | T.NullType):
            raise _make_type_error("key_base64", present, path, "text")
        # With to_binary, Spark's error for a key that is not Base64 would repeat the key.
        return F.try_to_binary(F.col("key_base64").cast("string"), F.lit("base64")), F.col("key_base64")
    kind, given = present["key"], F.col("key")
    if isinstance(kind, T.BinaryType):
        return given, given
    if isinstance(kind, T.StringType | T.NullType):
        # Text is hashed as producers send it: Kafka's StringSerializer writes UTF-8 by default.
        return F.encode(given.cast("string"), "UTF-8"), given
    raise _make_type_error("key", present, path, "bytes or text")


def _time_column(present: dict[str, T.DataType], path: str) -> Column:
    """Return the milliseconds since 1970 of a column that is a time, such a number, or either as text."""
    if "timestamp" not in present or isinstance(present["timestamp"], T.NullType):
        return F.lit(None).cast("long")
    kind = present["timestamp"]
    if isinstance(kind, T.TimestampType):
        return F.unix_millis("timestamp")
    if isinstance(kind, T.TimestampNTZType):
        # A time without a zone counts as one of the session's zone, as Spark casts it.
        return F.unix_millis(F.col("timestamp").cast("timestamp"))
    if isinstance(kind, _WHOLE):
        return F.col("timestamp").cast("long")
    if isinstance(kind, T.StringType):
        # A number first: as a timestamp, Spark takes text of four digits for a year.
        as_time = F.unix_millis(F.expr("try_cast(timestamp AS timestamp)"))
        return F.coalesce(F.expr("try_cast(timestamp AS bigint)"), as_time)
    raise _make_type_error("timestamp", present, path, "a time, or milliseconds since 1970")


def _make_type_error(name: str, present: dict[str, T.DataType], path: str, wanted: str) -> ReadingFailed:
    return ReadingFailed(
        f"{path}: column {name} is of type {present[name].simpleString()[:60]}, not {wanted}", hint=_HINT
    )


_NAMED = 5
_MAX_PARTITIONS = 100_000
_DAMAGED = "_not_json"
_SPARK_ERRORS = (PySparkException, Py4JError)
_COUNT = "a whole number of at least 0"
_EXPECTED = {"key_base64": "Base64"}


@dataclass(frozen=True, slots=True)
class FilePlan(SamplePlan):
    """A plan of the records of files: a sample of a topic whose number of records is unknown.

    No offset of the log was read, every record counts once, and no partition counts as read whole.
    """

    @property
    def read_whole(self) -> tuple[bool, ...]:
        """False for each partition: it may have more records than these."""
        return (False,) * len(self.spans)

    @property
    def offsets_read(self) -> tuple[int, ...]:
        """0 for each partition: the part of it that was read is unknown."""
        return (0,) * len(self.spans)

    @property
    def weights(self) -> tuple[float, ...]:
        """1 for each partition: a record stands for itself."""
        return (1.0,) * len(self.spans)


@dataclass(frozen=True, slots=True, eq=False)
class RecordFiles:
    """Files of records whose format and columns have been checked.

    Attributes:
        name: Their name in messages.
        rows: Their records, with the columns of `normalise_columns`.
        topics: The topics of their records, or the one assumed.
        by_topic: Whether a column names the topic.
        ordered: Whether a column has the offset.
    """

    name: str
    rows: DataFrame
    topics: tuple[str, ...]
    by_topic: bool
    ordered: bool


def open_files(
    spark: SparkSession, path: str, topics: Sequence[str] = (), *, called: str | None = None
) -> RecordFiles:
    """Open files, and check their format and columns.

    Args:
        path: A file or a folder, as Spark takes it.
        topics: The topics to take by the column `topic`, or the only topic's name where there is no such
            column.
        called: The name of the files in messages; None for the path.

    Raises:
        ReadingFailed: They cannot be read, or lack columns or topics.
    """
    name, topics = called or path, tuple(dict.fromkeys(topics))
    try:
        raw = _read_rows(spark, path, name)
        rows = normalise_columns(raw, name)
    except _SPARK_ERRORS as error:
        raise _make_read_error(name, error) from None
    ordered = "offset" in raw.columns
    if "topic" not in raw.columns:
        if len(topics) > 1:
            raise ReadingFailed(
                f"{name} has no column topic, and {len(topics)} topics are named",
                hint="name only the topic that its records belong to",
            )
        return RecordFiles(name, rows, topics or (_stem(name),), by_topic=False, ordered=ordered)
    try:
        names = [row[0] for row in rows.select("topic").distinct().collect()]
    except _SPARK_ERRORS as error:
        raise _make_read_error(name, error) from None
    if None in names:
        raise ReadingFailed(
            f"{name} has records without a topic",
            hint="set the topic of every record, or leave the column out",
        )
    names.sort()
    missing = [topic for topic in topics if topic not in names]
    if missing:
        raise ReadingFailed(
            f"{name} has no records of topic {missing[0]}", hint=f"it has records of {_list_names(names)}"
        )
    return RecordFiles(name, rows, topics or tuple(names), by_topic=True, ordered=ordered)


@dataclass(frozen=True, slots=True)
class FileTopic:
    """The declared facts about a topic whose records lie in files.

    Attributes:
        limits: The topic's policy, for advice.
        partitions: The partition count given; None if none is.
        declared_partitions: The count that its manifest declares, unless records lie beyond it.
        groups: Declared groups that read the topic, as `analysis.analyse` takes them.
    """

    limits: SkewLimits
    partitions: int | None = None
    declared_partitions: int | None = None
    groups: Sequence[Any] = ()


def run_file(
    spark: SparkSession,
    files: RecordFiles,
    topic: str,
    settings: JobSettings,
    declared: FileTopic,
    on_progress: ProgressCallback | None = None,
) -> TopicResult:
    """Analyse the records of one topic.

    Args:
        files: The files of `open_files`.
        topic: One of their topics.
        settings: The settings of the job.
        declared: The declared facts about the topic.
        on_progress: Called with Spark's progress.

    Raises:
        ReadingFailed: The records are invalid, or cannot be read.
    """
    rows = files.rows.where(F.col("topic") == topic) if files.by_topic else files.rows
    try:
        counts = _count_partitions(rows, files.name)
        count, notes = _choose_partition_count(
            files.name, counts, declared.partitions, declared.declared_partitions
        )
        # Two at least: a standard error needs a difference.
        replicates = max(2, min(MAX_PER_PARTITION, sum(counts.values())))
        plan = _make_plan(counts, count, replicates, settings.seed)
        layout = CountsLayout(
            count,
            replicates,
            plan.weights,
            plan.read_whole,
            tuple(candidate_counts(count, settings.what_if)),
            settings.show_keys,
        )
        slots = task_slots(spark)
        with report_progress(spark, on_progress):
            counted = count_records(
                _add_replicates(rows, files, replicates, settings.seed),
                layout,
                count=plan.records,
                slots=slots,
            )
    except _SPARK_ERRORS as error:
        raise _make_read_error(files.name, error) from None
    notes.append(wording.FILES_PARTIAL)
    if not files.ordered:
        notes.append(wording.FILES_UNORDERED)
    context = analysis.AnalysisContext("file", declared.limits, declared.groups, notes=tuple(notes))
    return analysis.analyse(topic, counted, plan, layout, context)


def _read_rows(spark: SparkSession, path: str, name: str) -> DataFrame:
    kinds = find_formats(spark, path)
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
    # With multiLine, Spark reads a file in one task: only where a list may go over several lines.
    rows = reader.option("multiLine", str(is_json_list(spark, path)).lower()).json(path)
    if _DAMAGED in rows.columns:
        raise ReadingFailed(
            f"{name} has records that are not JSON objects",
            hint="write one record per line, or one JSON array",
        )
    return rows


def _count_partitions(rows: DataFrame, name: str) -> dict[int, int]:
    """Return the records of each partition, after checking every record."""
    sums = F.count(F.lit(1)), F.count("flawed"), F.min("flawed")
    # Where the column is not the partition, it may have as many values as records: the driver takes no more
    # than a topic can have, and one to see that there are more.
    groups = rows.groupBy("partition").agg(*sums).limit(_MAX_PARTITIONS + 1).collect()
    if not groups:
        raise ReadingFailed(f"{name} contains no records", hint="there is nothing to analyse")
    flaws = {flaw for *_, flaw in groups if flaw is not None}
    if flaws:
        total, bad = sum(row[1] for row in groups), sum(row[2] for row in groups)
        column = min(flaws)
        raise ReadingFailed(
            f"{name}: column {column} is not {_EXPECTED.get(column, _COUNT)} in {bad:,} of {total:,} records",
            hint="give each record's partition, and the bytes of its key and value as its size",
        )
    return {partition: records for partition, records, *_ in groups}


def _choose_partition_count(
    path: str, counts: dict[int, int], given: int | None, declared: int | None
) -> tuple[int, list[str]]:
    """Return the topic's partition count, and notes on it."""
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
    if least > _MAX_PARTITIONS:
        raise ReadingFailed(
            f"{path} has records of partition {least - 1}", hint="no topic has that many partitions"
        )
    return least, [wording.note_assumed_partitions(least)]


def _make_plan(counts: dict[int, int], count: int, replicates: int, seed: int) -> FilePlan:
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


def _add_replicates(rows: DataFrame, files: RecordFiles, replicates: int, seed: int) -> DataFrame:
    """Return the records with a replicate: runs of neighbours where offsets are known, else at random."""
    if files.ordered:
        # As windows do in a log, a replicate has neighbours: these are alike, and random ones would hide it.
        along = Frame.partitionBy("partition").orderBy("offset")
        number = F.ntile(replicates).over(along) - 1
    else:
        number = F.floor(F.rand(seed) * replicates)
    return rows.select("partition", number.cast("int").alias("replicate"), "key", "size", "at")


def _make_read_error(name: str, error: Exception) -> ReadingFailed:
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


def _list_names(names: Sequence[str]) -> str:
    further = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + further
