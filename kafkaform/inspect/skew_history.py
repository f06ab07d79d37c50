"""A folder of earlier reports: kept under the time they were made at, and never overwritten."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkaform.core.errors import KafkaformError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from spark_validation.results import SkewReport


_PREFIX = "skew-"
_SUFFIX = ".json"
_MOST_OF_ONE_SECOND = 1000


@dataclass(frozen=True, slots=True)
class EarlierReports:
    """What a folder has of earlier reports.

    Attributes:
        reports: Those of the same cluster that have one of the same topics, oldest first.
        damaged: Why a file was left out, a line each.
    """

    reports: tuple[SkewReport, ...] = ()
    damaged: tuple[str, ...] = ()


def earlier(folder: Path, report: SkewReport, read: Callable[[Path], SkewReport]) -> EarlierReports:
    """The reports of a folder that a trend of this report can be drawn with.

    Args:
        folder: It may not exist yet.
        report: The one that was just made.
        read: Reads the report of one file.

    Raises:
        KafkaformError: The folder cannot be read.
    """
    topics = {topic.name for topic in report.topics}
    found: list[SkewReport] = []
    damaged: list[str] = []
    for file in _files(folder):
        try:
            one = read(file)
        except KafkaformError as error:
            damaged.append(error.message)
            continue
        same = one.cluster_id == report.cluster_id
        if same and not topics.isdisjoint(topic.name for topic in one.topics):
            found.append(one)
    return EarlierReports(tuple(sorted(found, key=lambda one: one.created_at)), tuple(damaged))


def keep(folder: Path, report: SkewReport, text: str, write: Callable[[Path, str], None]) -> Path:
    """Keep a report; a second one of the same second gets a number.

    Args:
        folder: Made if it does not exist.
        report: The report.
        text: The report as JSON.
        write: Writes a file whole or not at all.

    Returns:
        The file.

    Raises:
        KafkaformError: It cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = _reserved(folder, re.sub(r"[^0-9A-Za-z]", "", report.created_at))
    except OSError as error:
        raise KafkaformError(f"cannot write into {folder}: {error.strerror}") from error
    try:
        write(file, text)
    except BaseException:
        file.unlink(missing_ok=True)
        raise
    return file


def _reserved(folder: Path, time: str) -> Path:
    """A new, empty file: whoever else keeps a report at the same time gets another."""
    for number in range(1, _MOST_OF_ONE_SECOND):
        again = f"-{number}" if number > 1 else ""
        file = folder / f"{_PREFIX}{time}{again}{_SUFFIX}"
        try:
            file.touch(exist_ok=False)
        except FileExistsError:
            continue
        return file
    raise KafkaformError(f"{folder} has {_MOST_OF_ONE_SECOND:,} reports of the same second")


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(folder.glob(f"{_PREFIX}*{_SUFFIX}")) if folder.is_dir() else []
    except OSError as error:
        raise KafkaformError(f"cannot read {folder}: {error.strerror}") from error
