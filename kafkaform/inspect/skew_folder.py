"""A folder of earlier skew reports and of counts of written records, for a trend.

Files are named after their time and never overwritten. Counts are rows of metrics, one JSON object per line.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kafkaform.core.errors import KafkaformError
from kafkaform.core.files import UnsuitableFileError, read_file, write_file
from kafkaform.core.values import Value
from spark_validation.metrics import ARRIVALS_RATIO, MetricRow

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

    from spark_validation.results import SkewReport

_MAX_FILES_PER_SECOND = 1000
_REPORT_AFFIXES = ("skew-", ".json")
_METRIC_AFFIXES = ("arrivals-", ".jsonl")
"""The prefixes and suffixes of the names of files, around the time."""


class EarlierReports(Value):
    """The earlier reports in a folder.

    Attributes:
        reports: The reports of the same cluster on one of the same topics, oldest first.
        damaged: A line for each file that was skipped.
    """

    reports: tuple[SkewReport, ...] = ()
    damaged: tuple[str, ...] = ()


def read_reports(folder: Path, cluster_id: str | None, topics: Collection[str]) -> EarlierReports:
    """Read the reports in a folder that contain one of the topics of a cluster.

    Args:
        folder: The folder; it may not exist yet.
        cluster_id: The cluster; None for reports on files.

    Raises:
        KafkaformError: The folder cannot be read.
    """
    from kafkaform.plan.skew_report import read_skew_report

    reports: list[SkewReport] = []
    damaged: list[str] = []
    for file in _list_reports(folder):
        try:
            report = read_skew_report(file, now=datetime.now(UTC), max_age=None)
        except KafkaformError as error:
            # Reports of other versions may be among them, which this version cannot read.
            damaged.append(error.message)
            continue
        if report.cluster_id == cluster_id and any(topic.name in topics for topic in report.topics):
            reports.append(report)
    return EarlierReports(tuple(sorted(reports, key=lambda report: report.created_at)), tuple(damaged))


def keep_report(folder: Path, report: SkewReport) -> Path:
    """Write a report as JSON to a new file in a folder, as `keep_file` does."""
    from spark_validation.results import to_json

    return keep_file(folder, report.created_at, to_json(report), _REPORT_AFFIXES)


def _list_reports(folder: Path) -> list[Path]:
    try:
        return sorted(folder.glob(f"{_REPORT_AFFIXES[0]}*{_REPORT_AFFIXES[1]}")) if folder.is_dir() else []
    except OSError as error:
        raise KafkaformError(f"cannot read {folder}: {error.strerror}") from error


def keep_file(folder: Path, at: str, text: str, affixes: tuple[str, str]) -> Path:
    """Write a text to a new file named after its time; later files of the same second get a number.

    Args:
        folder: The folder; created if it does not exist.
        at: The time, in ISO 8601.
        affixes: The prefix and suffix of the file's name, around the time.

    Returns:
        The file.

    Raises:
        KafkaformError: The file cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Colons are not allowed in names of files on Windows.
        file = _create_empty_file(folder, re.sub(r"[^0-9A-Za-z]", "", at), affixes)
    except OSError as error:
        raise KafkaformError(f"cannot write into {folder}: {error.strerror}") from error
    try:
        write_file(file, text)
    except BaseException:
        # The empty file only reserves the name: a later run must not take it for a report.
        file.unlink(missing_ok=True)
        raise
    return file


def _create_empty_file(folder: Path, time: str, affixes: tuple[str, str]) -> Path:
    """Create an empty file, so that another process that writes at the same time gets another name."""
    # Creating the file is the test: between a check and the creation, another process could take the name.
    for number in range(1, _MAX_FILES_PER_SECOND):
        suffix = f"-{number}" if number > 1 else ""
        file = folder / f"{affixes[0]}{time}{suffix}{affixes[1]}"
        try:
            file.touch(exist_ok=False)
        except FileExistsError:
            continue
        return file
    raise KafkaformError(f"{folder} has {_MAX_FILES_PER_SECOND:,} reports of the same second")


def keep_rows(folder: Path, rows: Iterable[MetricRow], at: datetime) -> Path:
    """Write rows to a new file in a folder, as `keep_file` does."""
    return keep_file(folder, f"{at:%Y-%m-%dT%H:%M:%SZ}", _rows_to_json_lines(rows), _METRIC_AFFIXES)


def _rows_to_json_lines(rows: Iterable[MetricRow]) -> str:
    """Render rows as JSON objects with the columns of a table of metrics, one per line."""
    return "".join(
        json.dumps(
            {
                "cluster_id": row.cluster_id,
                "topic": row.topic,
                "partition": row.partition,
                "metric": row.metric,
                "value": row.estimate.value,
                "low": row.estimate.low,
                "high": row.estimate.high,
                "sampled_at": f"{row.sampled_at.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}",
                "day": row.day.isoformat(),
            }
        )
        + "\n"
        for row in rows
    )


def read_earlier_ratios(
    folder: Path, cluster_id: str | None, topics: Collection[str]
) -> tuple[dict[str, float], tuple[str, ...]]:
    """Read the newest ratio of each topic of a cluster from a folder of metric files.

    Args:
        folder: The folder; it may not exist yet.

    Returns:
        The ratios by topic, and a line for each file that was skipped.

    Raises:
        KafkaformError: The folder cannot be read.
    """
    wanted, newest, damaged = set(topics), dict[str, float](), []
    try:
        files = sorted(
            folder.glob(f"{_METRIC_AFFIXES[0]}*{_METRIC_AFFIXES[1]}"), key=_parse_time, reverse=True
        )
        for file in files:
            # The newest files come first: all others are older than what was found.
            if not wanted - newest.keys():
                break
            try:
                rows = [json.loads(line) for line in read_file(file).splitlines()]
                ratios = {
                    row["topic"]: float(row["value"])
                    for row in rows
                    if row["metric"] == ARRIVALS_RATIO and row["cluster_id"] == cluster_id
                }
            except (
                UnsuitableFileError,
                ValueError,
                KeyError,
                TypeError,
                OverflowError,
                RecursionError,
            ) as error:
                # A damaged file must not hide the others: the trend has a gap, and the report names the file.
                damaged.append(f"{file}: not a file of metrics ({type(error).__name__})")
                continue
            # What is there already is newer, and stays.
            newest = {name: ratio for name, ratio in ratios.items() if name in wanted} | newest
    except OSError as error:
        raise KafkaformError(f"cannot read {folder}: {error.strerror}") from error
    return newest, tuple(damaged)


def _parse_time(file: Path) -> tuple[str, int]:
    """Return the time in the name of a file, and its number within that second."""
    time, _, number = file.stem.removeprefix(_METRIC_AFFIXES[0]).partition("-")
    return time, int(number) if number.isdecimal() else 1
