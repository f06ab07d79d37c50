"""Records of parquet and JSON files: counted to the record, and clear words where something is wrong."""

import base64
import json
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from spark_validation.errors import ReadingFailed
from spark_validation.files import FileTopic, open_files, run_file
from spark_validation.hashing import PARTITIONERS, Keys
from spark_validation.options import JobSettings
from spark_validation.results import SkewLimits, TopicResult

PARTITIONS = 4
NOON = 1_700_000_000_000


def records(count: int = 400) -> list[dict[str, Any]]:
    """Records of a topic of four partitions: one key has three tenths, a tenth has none."""
    made: list[dict[str, Any]] = []
    offsets: Counter[int] = Counter()
    for number in range(count):
        key = None if number % 10 == 0 else "hot" if number % 10 < 4 else f"key-{number % 83}"
        partition = number // 10 % PARTITIONS if key is None else place_key(key)
        made.append(
            {
                "key": key,
                "partition": partition,
                "size": 100 + number % 7,
                "offset": 1000 + offsets[partition],
                "timestamp": NOON + number,
            }
        )
        offsets[partition] += 1
    return made


def place_key(key: str) -> int:
    """Return the partition of a key by Kafka's Java producer."""
    return int(PARTITIONERS["murmur2"](Keys.from_list([key.encode()]))[0]) % PARTITIONS


def lines(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def run(spark: SparkSession, path: Path, *topics: str, **more: Any) -> TopicResult:
    """The result of the only topic that is analysed."""
    files = open_files(spark, str(path), topics)
    (name,) = files.topics
    settings = JobSettings(what_if=(6,), show_keys=True)
    return run_file(spark, files, name, settings, FileTopic(SkewLimits(), **more))


def strip_prose(result: TopicResult) -> tuple[Any, ...]:
    """Return the counts and estimates."""
    return result.partitions, result.by_records, result.by_bytes, result.hot_keys, result.null_key_share


def test_json_lines_are_counted_exactly(spark: SparkSession, tmp_path: Path) -> None:
    rows = records()
    result = run(spark, lines(tmp_path / "orders.jsonl", rows))
    by_partition = Counter(row["partition"] for row in rows)
    assert result.name == "orders"
    assert result.sample.mode == "file"
    assert (result.sample.records, result.sample.seed) == (len(rows), 0)
    assert [partition.sampled_records for partition in result.partitions] == [
        by_partition[n] for n in range(PARTITIONS)
    ]
    assert [partition.bytes.value for partition in result.partitions] == [
        sum(row["size"] for row in rows if row["partition"] == n) for n in range(PARTITIONS)
    ]
    assert result.sampled_distinct_keys == len({row["key"] for row in rows} - {None})
    assert result.null_key_share.value == pytest.approx(0.1)
    hot = result.hot_keys[0]
    assert (hot.key, hot.partitions) == ("hot", (place_key("hot"),))
    assert hot.share.value == pytest.approx(0.3)
    assert result.partitioners["murmur2"] == 1.0
    assert 6 in {item.partitions for item in result.what_if}
    assert not any("at random" in note for note in result.sample.notes)


def test_file_formats_give_equal_results(spark: SparkSession, tmp_path: Path) -> None:
    rows = records()
    prose = strip_prose(run(spark, lines(tmp_path / "lines.ndjson", rows)))
    (tmp_path / "list.json").write_text("\n " + json.dumps(rows, indent=1), "utf-8")
    coded = [
        {
            **{name: value for name, value in row.items() if name != "key"},
            "key_base64": row["key"] and base64.b64encode(row["key"].encode()).decode(),
            "timestamp": datetime.fromtimestamp(row["timestamp"] / 1000, UTC).isoformat(),
        }
        for row in rows
    ]
    lines(tmp_path / "coded.json", coded)
    folder = tmp_path / "folder"
    folder.mkdir()
    table = pa.Table.from_pylist([{**row, "key": row["key"] and row["key"].encode()} for row in rows])
    times = pa.array([row["timestamp"] for row in rows], pa.timestamp("ms", "UTC"))
    table = table.set_column(table.schema.get_field_index("timestamp"), "timestamp", times)
    pq.write_table(table.slice(0, 150), folder / "a.parquet")
    pq.write_table(table.slice(150), folder / "b.snappy.parquet")
    for name in ("list.json", "coded.json", "folder"):
        assert strip_prose(run(spark, tmp_path / name)) == prose, name


def test_records_without_offsets_are_noted_as_spread_at_random(spark: SparkSession, tmp_path: Path) -> None:
    rows = [{name: row[name] for name in ("key", "partition", "size")} for row in records()]
    result = run(spark, lines(tmp_path / "orders.json", rows))
    assert any("at random" in note and "independent" in note for note in result.sample.notes)
    share = result.hot_keys[0].share
    assert 0.15 < share.low < 0.3 < share.high < 0.5
    assert result.sample.records == len(rows)


def test_partition_count_is_from_option_declaration_or_records(spark: SparkSession, tmp_path: Path) -> None:
    path = lines(tmp_path / "orders.json", records())
    assert len(run(spark, path, partitions=6, declared_partitions=8).partitions) == 6
    assert len(run(spark, path, declared_partitions=8).partitions) == 8
    result = run(spark, path, declared_partitions=2)
    assert len(result.partitions) == PARTITIONS
    assert any("4 partitions" in note for note in result.sample.notes)
    with pytest.raises(ReadingFailed, match="--partitions 2"):
        run(spark, path, partitions=2)


def test_topic_column_selects_records(spark: SparkSession, tmp_path: Path) -> None:
    rows = [{**row, "topic": "b" if n % 4 else "a"} for n, row in enumerate(records())]
    path = lines(tmp_path / "some.json", rows)
    assert open_files(spark, str(path)).topics == ("a", "b")
    result = run(spark, path, "a", partitions=PARTITIONS)
    assert (result.name, result.sample.records) == ("a", 100)
    with pytest.raises(ReadingFailed, match="topic c"):
        open_files(spark, str(path), ("a", "c"))
    plain = lines(tmp_path / "plain.json", records(8))
    assert open_files(spark, str(plain), ("orders.v1",)).topics == ("orders.v1",)
    with pytest.raises(ReadingFailed, match="no column topic"):
        open_files(spark, str(plain), ("a", "b"))


GOOD = {"key": "PERSON", "partition": 0, "size": 1}
BAD: dict[str, tuple[str, str]] = {
    "no key": (json.dumps({"keys": "PERSON", "partition": 0, "size": 1}), "has no column key; it has keys"),
    "no partition": (json.dumps({"key": "PERSON", "size": 1}), "has no column partition"),
    "structure as key": (json.dumps({**GOOD, "key": {"id": 1}}), "column key is of type struct"),
    "partition as list": (json.dumps({**GOOD, "partition": [1]}), "column partition is of type array"),
    "partition not a number": (
        json.dumps({**GOOD, "partition": "PERSON"}),
        "column partition is not a whole number of at least 0 in 1 of 2 records",
    ),
    "negative size": (
        json.dumps({**GOOD, "size": -1}),
        "column size is not a whole number of at least 0 in 1 of 2",
    ),
    "size missing in one": (json.dumps({"key": "PERSON", "partition": 0}), "column size is not a"),
    "not base64": (json.dumps({**GOOD, "key_base64": "PERSON!"}), "column key_base64 is not Base64 in 1"),
    "not JSON": ('{"key": "PERSON", "partition"', "has records that are not JSON objects"),
}


@pytest.mark.parametrize("case", BAD)
def test_invalid_record_is_reported_without_content(spark: SparkSession, tmp_path: Path, case: str) -> None:
    text, why = BAD[case]
    alone = case.startswith(("no ", "structure", "partition as"))
    path = tmp_path / "bad.json"
    path.write_text(text + "\n" + (text if alone else json.dumps(GOOD)) + "\n", "utf-8")
    with pytest.raises(ReadingFailed) as caught:
        run(spark, path)
    assert why in caught.value.message
    assert caught.value.hint
    assert "\n" not in caught.value.message
    assert "PERSON" not in caught.value.message + str(caught.value.__cause__)


def test_unusable_files_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    wrong = {
        "missing.json": "no such file or folder",
        "notes.txt": "contains no parquet or JSON files",
        "empty.json": "only empty ones",
        "broken.parquet": "cannot be read",
        "mixed": r"contains files of several formats \(json, parquet\)",
    }
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "empty.json").write_text("")
    (tmp_path / "broken.parquet").write_text("PERSON")
    (tmp_path / "mixed").mkdir()
    (tmp_path / "mixed" / "a.json").write_text("{}\n")
    (tmp_path / "mixed" / "b.parquet").write_text("x")
    for name, why in wrong.items():
        with pytest.raises(ReadingFailed, match=why) as caught:
            run(spark, tmp_path / name)
        assert name in caught.value.message
        assert "PERSON" not in caught.value.message
