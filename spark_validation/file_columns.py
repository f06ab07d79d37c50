"""What files of records look like: their format by their names, and their columns brought into one form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everybody names it
from pyspark.sql import types as T  # noqa: N812

from spark_validation.errors import ReadingFailed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_SUFFIX = r"\.(parquet|json|jsonl|ndjson)(\.(gz|zst|bz2|lz4|snappy|deflate))?$"
_WHOLE = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
_NEEDED = ("partition", "size")
_COUNTS = (*_NEEDED, "offset")
_HINT = "columns are key, partition and size, and if known offset, timestamp and topic"
NO_TIME = -1
"""In milliseconds: a record whose time nobody tells."""


def suffixes(spark: SparkSession, path: str) -> set[str]:
    """The formats of the files at a path, by their names: `parquet`, `json`; their content is not read."""
    files = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(path)
    kind = F.regexp_extract(F.lower("path"), _SUFFIX, 1).alias("kind")
    found = {str(row[0]) for row in files.select(kind).distinct().collect()}
    return {"json" if kind in {"jsonl", "ndjson"} else kind for kind in found if kind}


def is_json_list(spark: SparkSession, path: str) -> bool:
    """Whether a JSON file is one list of records, and not a record a line."""
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
        raise ReadingFailed(f"{path} holds no record", hint=_HINT)
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
