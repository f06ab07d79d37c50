"""Running analyses in one Spark session, and where their reports go."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from kafkaform.cli.output import show
from kafkaform.cli.terminal import progress_bar
from kafkaform.core.errors import KafkaformError
from kafkaform.core.files import write_file
from kafkaform.core.printable import printable
from kafkaform.core.units import rounded_size
from kafkaform.inspect import skew

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Collection,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )
    from contextlib import AbstractContextManager
    from pathlib import Path

    from kafkaform.cli.skew_options import SkewOptions
    from spark_validation.configuration import SessionSettings
    from spark_validation.errors import SkewError
    from spark_validation.metrics import MetricRow
    from spark_validation.results import SkewReport, TopicResult


Tell: TypeAlias = "Callable[[int, int, str], None]"
"""Takes tasks that are done, tasks in all, and the phase; called from another thread."""

_NEEDED = ("pyspark", "numpy", "pandas", "pyarrow")


@dataclass(frozen=True, slots=True)
class AnalysisResults:
    """The results of analyses.

    Attributes:
        report: Of the topics whose analyses came to an end.
        failed: Why a topic has no result.
        past: The earlier metrics of these topics, where trends are drawn from a table.
        metrics_error: Why metrics were not read or appended; None if they were, or were not asked for.
    """

    report: SkewReport
    failed: Mapping[str, KafkaformError] = field(default_factory=dict)
    past: Sequence[MetricRow] = ()
    metrics_error: KafkaformError | None = None


def require_spark() -> None:
    """Raise a KafkaformError where Spark, or what it needs here, is not installed."""
    missing = []
    for name in _NEEDED:
        try:
            __import__(name)
        except ImportError:
            missing.append(name)
    if missing:
        raise KafkaformError(
            f"kafkaform skew counts keys with Spark, but {', '.join(missing)} is not installed",
            hint="pip install 'kafkaform[spark]'",
        )


Progress: TypeAlias = "Callable[[str], AbstractContextManager[Tell | None]]"
"""Takes a title; gives what to tell of the progress under it (None for nobody)."""


def run(
    analyse: Callable[[Any, Progress], Mapping[str, TopicResult | SkewError]],
    settings: SessionSettings,
    report: Callable[[Iterable[TopicResult]], SkewReport],
    options: SkewOptions,
) -> AnalysisResults:
    """Start Spark, and analyse topics in it.

    Args:
        analyse: Takes the session, and gives the result of each topic, or why it has none.
        settings: How Spark runs.
        report: Makes the report of results.
        options: Say where metrics are kept.

    Raises:
        KafkaformError: There is no session, or the table of metrics cannot be one.
    """
    from spark_validation.errors import SkewError
    from spark_validation.session import start

    results: list[TopicResult] = []
    failed: dict[str, KafkaformError] = {}
    with _progress() as progress:
        try:
            with start(settings) as spark:
                for table in filter(None, {options.metrics, options.past}):
                    table.check(spark)
                for topic, result in analyse(spark, progress).items():
                    if isinstance(result, SkewError):
                        failed[topic] = ours(result)
                    else:
                        results.append(result)
                made = report(results)
                past, unkept = _exchanged(spark, made, options)
        except SkewError as error:
            raise ours(error) from error
    _make_class_archive(settings, options)
    return AnalysisResults(made, failed, past, unkept)


def class_archive_folder() -> Path:
    """The folder of the archives of Spark's classes, in the user's cache folder."""
    from kafkaform.devcluster.jars.cache import cache_directory

    return cache_directory() / "spark"


def keep_class_archive(action: str) -> int:
    """Make the archive of Spark's classes anew, or remove all of them; returns the exit code.

    Args:
        action: `make` or `remove`.

    Raises:
        KafkaformError: Spark does not run here, or the folder cannot be written to.
    """
    from kafkaform.devcluster.jars.java import find_java
    from spark_validation.class_archive import archive_file, make, remove_all
    from spark_validation.errors import SkewError

    require_spark()
    folder = class_archive_folder()
    try:
        if action == "remove":
            size = remove_all(folder)
            click.echo(f"Removed {rounded_size(size)}." if size else "There was no archive to remove.")
            return 0
        home = find_java().path.parent.parent
        file = archive_file(folder, home)
        if not make(file, home):
            raise KafkaformError("another process is making the archive", hint="wait for it")
        click.echo(printable(f"Made {file} ({rounded_size(file.stat().st_size)})."))
    except SkewError as error:
        raise ours(error) from error
    except OSError as error:
        raise KafkaformError(f"cannot write to {folder}: {error.strerror}") from error
    return 0


def _make_class_archive(settings: SessionSettings, options: SkewOptions) -> None:
    """Make the archive of Spark's classes for the next run, in the background, but not in CI."""
    from spark_validation.class_archive import archive_file, make_later

    if not settings.local or options.class_archive != "auto" or os.environ.get("CI"):
        return
    make_later(archive_file(class_archive_folder(), settings.java_home), settings.java_home)


def _exchanged(
    spark: Any, report: SkewReport, options: SkewOptions
) -> tuple[Sequence[MetricRow], KafkaformError | None]:
    """Read the earlier metrics of a report's topics, append its own, and say what kept it from that."""
    from kafkaform.report.skew_trend import SHOWN
    from spark_validation.errors import SkewError
    from spark_validation.metrics import metric_rows

    past: Sequence[MetricRow] = ()
    if not report.topics:
        return past, None
    try:
        if options.past is not None:
            topics = [topic.name for topic in report.topics]
            past = options.past.read(spark, report.cluster_id, topics, SHOWN)
        if options.metrics is not None:
            options.metrics.append(spark, metric_rows(report))
    except SkewError as error:
        return past, ours(error)
    return past, None


def ours(error: SkewError) -> KafkaformError:
    """An error of `spark_validation` as kafkaform's own."""
    return KafkaformError(error.message, hint=error.hint)


@contextmanager
def _progress() -> Iterator[Progress]:
    """What shows how far analyses are: a bar on a terminal that moves its cursor, nothing elsewhere."""
    bar = progress_bar()
    if bar is None:

        @contextmanager
        def silent(_: str) -> Iterator[None]:
            yield None

        yield silent
        return
    from rich.markup import escape

    with bar:
        task = bar.add_task("Starting Spark", total=None)

        @contextmanager
        def shown(title: str) -> Iterator[Tell]:
            bar.update(task, description=escape(title), completed=0, total=None)

            def tell(done: int, total: int, phase: str) -> None:
                bar.update(task, description=escape(f"{title}: {phase}"), completed=done, total=total)

            yield tell

        yield shown


def earlier(folder: Path, cluster_id: str | None, topics: Collection[str]) -> skew.EarlierReports:
    """The reports that a folder keeps on one of some topics of a cluster, however old they are."""
    from kafkaform.plan.skew_report import read_skew_report

    read = partial(read_skew_report, now=datetime.now(UTC), max_age=None)
    return skew.earlier(folder, cluster_id, topics, read)


def publish(report: SkewReport, options: SkewOptions, past: Sequence[MetricRow]) -> None:
    """Print a report, write it into files, and keep it, as asked for.

    What was kept before is read first: a page shows the trend.

    Args:
        report: The report.
        options: Say where.
        past: Earlier metrics of its topics; those of a folder of reports are read here.

    Raises:
        KafkaformError: A file cannot be written.
    """
    from spark_validation.metrics import metric_rows
    from spark_validation.results import to_json

    if options.history is not None:
        found = earlier(options.history, report.cluster_id, [topic.name for topic in report.topics])
        for reason in found.damaged:
            click.echo(printable(f"not read: an earlier report: {reason}"), err=True)
        past = [row for kept in found.reports for row in metric_rows(kept)]
        skew.keep(options.history, report, to_json(report), write_file)
    for output_format, path in options.artefacts.items():
        show("skew", output_format, report, out=path, history=past)
    show("skew", options.output_format, report, out=options.out, history=past, verbose=options.verbose)
