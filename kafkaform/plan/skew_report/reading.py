"""Reading a skew report (schemas/skew.schema.json), and refusing one that says nothing of here and now."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import TYPE_CHECKING

from kafkaform.core.errors import SkewReportError
from kafkaform.core.freshness import require_fresh
from kafkaform.core.printable import clipped, printable
from kafkaform.core.schema_files import first_problem
from spark_validation.document import FORMAT_VERSION, from_document

if TYPE_CHECKING:
    from pathlib import Path

    from spark_validation.results import Report

_AGAIN = "make it with `kafkaform skew --format json`"
_MEASURE = "measure again with kafkaform skew"
_LONG = 300


def read_skew_report(
    path: Path,
    *,
    max_age: timedelta | None = None,
    cluster_id: str | None = None,
    now: datetime | None = None,
) -> Report:
    """Read a report and make sure that it is one, and fresh.

    Args:
        path: The file.
        max_age: How old it may be; None for any age.
        cluster_id: The cluster that it must be of; None for any. A report that names no cluster is taken.
        now: The time, with its zone; None for this moment.

    Raises:
        SkewReportError: It cannot be read, is no report, of a newer format, of another cluster, too old, or
            from the future.
    """
    report = parse_skew_report(_read(path), str(path))
    require_fresh(
        "the skew report",
        report.created_at,
        max_age,
        now or datetime.now(UTC),
        where=printable(str(path)),
        again=_MEASURE,
        error=SkewReportError,
    )
    if cluster_id is not None:
        require_cluster(report, cluster_id, f"{path}: ")
    return report


def parse_skew_report(text: str, file: str) -> Report:
    """The report that a text holds.

    Args:
        text: The content of the file.
        file: Its name, for messages.

    Raises:
        SkewReportError: It is not JSON, no report, or of a newer format; the message names the first wrong
            place.
    """
    where = printable(file)
    try:
        document = json.loads(text, parse_float=_finite, parse_constant=_finite)
    except json.JSONDecodeError as error:
        raise SkewReportError(
            f"{where}:{error.lineno}:{error.colno}: not JSON: {error.msg}", hint=_AGAIN
        ) from error
    except (ValueError, RecursionError) as error:
        raise SkewReportError(
            f"{where}: not a skew report: a number or a nesting that none holds", hint=_AGAIN
        ) from error
    version = document.get("format_version") if isinstance(document, dict) else None
    if not isinstance(document, dict) or type(version) is not int or version < 1:
        raise SkewReportError(f"{where}: not a skew report: it has no format_version", hint=_AGAIN)
    if version > FORMAT_VERSION:
        raise SkewReportError(
            f"{where}: the skew report is of format {version}, and this kafkaform reads up to format "
            f"{FORMAT_VERSION}",
            hint="use the version of kafkaform that made it, or a newer one",
        )
    wrong = first_problem("skew", document)
    if wrong is not None:
        raise SkewReportError(f"{where}: not a valid skew report: {clipped(wrong, _LONG)}", hint=_AGAIN)
    report = from_document(document)
    names = [topic.name for topic in report.topics]
    if len({*names}) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise SkewReportError(
            f"{where}: not a valid skew report: topic {printable(twice)} is in it twice", hint=_AGAIN
        )
    return report


def require_cluster(report: Report, cluster_id: str, where: str = "") -> None:
    """Raise a SkewReportError where the report is of another cluster."""
    if report.cluster_id is not None and report.cluster_id != cluster_id:
        named = f"{report.cluster_name} ({report.cluster_id})" if report.cluster_name else report.cluster_id
        raise SkewReportError(
            f"{printable(where)}the skew report is of cluster {printable(named)}, not of {cluster_id}",
            hint=f"{_MEASURE} on this cluster",
        )


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise SkewReportError(f"{printable(str(path))}: {error.strerror}", hint=_AGAIN) from error
    except UnicodeDecodeError as error:
        raise SkewReportError(f"{printable(str(path))}: not UTF-8, so no skew report", hint=_AGAIN) from error


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(text)
    return number
