"""Analyses in a Spark session, and the output of their reports."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from kafkaform.cli.output import show
from kafkaform.cli.terminal import progress_bar
from kafkaform.core.errors import KafkaformError
from kafkaform.core.printable import printable
from kafkaform.core.values import Value, field
from kafkaform.inspect import skew_folder
from kafkaform.inspect.skew_analysis import convert_error, skew_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from kafkaform.cli.skew_options import SkewOptions
    from spark_validation.configuration import SessionSettings
    from spark_validation.errors import SkewError
    from spark_validation.metrics import MetricRow
    from spark_validation.results import SkewReport, TopicResult

Tell: TypeAlias = "Callable[[int, int, str], None]"
"""A function of the tasks that are done, all tasks, and the phase; called from another thread."""

_PACKAGES = ("pyspark", "numpy", "pandas", "pyarrow")


class AnalysisResults(Value):
    """The results of analyses.

    Attributes:
        report: The report on topics with a result.
        failed: The topics without a result, and why.
        past: The earlier metrics of these topics, if trends are drawn from a table.
        metrics_error: The error of reading or appending metrics; None without one.
    """

    report: SkewReport
    failed: Mapping[str, KafkaformError] = field(default_factory=dict)
    past: Sequence[MetricRow] = ()
    metrics_error: KafkaformError | None = None


def require_spark() -> None:
    """Raise a KafkaformError if Spark, or a package that it needs, is not installed."""
    missing = []
    for name in _PACKAGES:
        try:
            # Each is imported, as an installed package may still fail to import, such as numpy for another
            # Python.
            __import__(name)
        except ImportError:
            missing.append(name)
    if missing:
        raise KafkaformError(
            f"`kafkaform skew` counts keys with Spark; not installed: {', '.join(missing)}",
            hint="`pip install 'kafkaform[spark]'`",
        )


Progress: TypeAlias = "Callable[[str], AbstractContextManager[Tell | None]]"
"""A context manager for a title, which yields the function that shows progress; None to show nothing."""


def run(
    analyse: Callable[[Any, Progress], Mapping[str, TopicResult | SkewError]],
    settings: SessionSettings,
    report: Callable[[Iterable[TopicResult]], SkewReport],
    options: SkewOptions,
) -> AnalysisResults:
    """Start Spark, and analyse topics in it.

    Args:
        analyse: A function of the session that returns the result or error of each topic.
        settings: The settings of the session.
        report: A function that builds the report from results.
        options: The options, with the tables of metrics.

    Raises:
        KafkaformError: Spark does not start, or the table of metrics is not valid.
    """
    from spark_validation.errors import SkewError
    from spark_validation.session import start

    results: list[TopicResult] = []
    failed: dict[str, KafkaformError] = {}
    with skew_errors(), _progress() as progress, start(settings) as spark:
        if options.history.table is not None:
            # Before the analysis, which may take minutes: a table that is not valid ends the run here.
            options.history.table.check(spark)
        for topic, result in analyse(spark, progress).items():
            if isinstance(result, SkewError):
                failed[topic] = convert_error(result)
            else:
                results.append(result)
        made = report(results)
        past, unkept = _exchange_metrics(spark, made, options)
    # After the session has ended, so that the archive is not made at the expense of the analysis.
    _make_class_archive(settings, options)
    return AnalysisResults(made, failed, past, unkept)


def class_archive_folder() -> Path:
    """Return the folder of the archives of Spark's classes, in the user's cache folder."""
    from kafkaform.core.files import get_cache_directory

    return get_cache_directory() / "spark"


def _make_class_archive(settings: SessionSettings, options: SkewOptions) -> None:
    """Build the archive of Spark's classes for the next run, in the background; not in CI."""
    from spark_validation.class_archive import archive_file, build_in_background

    if not settings.local or options.class_archive != "auto" or os.environ.get("CI"):
        return
    build_in_background(archive_file(class_archive_folder(), settings.java_home), settings.java_home)


def _exchange_metrics(
    spark: Any, report: SkewReport, options: SkewOptions
) -> tuple[Sequence[MetricRow], KafkaformError | None]:
    """Read the earlier metrics of a report's topics and append its own; returns them and any error."""
    from kafkaform.report.skew_charts import TREND_METRICS
    from spark_validation.errors import SkewError
    from spark_validation.metrics import metric_rows

    past: Sequence[MetricRow] = ()
    table = options.history.table
    if table is None or not report.topics:
        return past, None
    try:
        topics = [topic.name for topic in report.topics]
        past = table.read(spark, report.cluster_id, topics, TREND_METRICS)
        table.append(spark, metric_rows(report))
    except SkewError as error:
        return past, convert_error(error)
    return past, None


@contextmanager
def _progress() -> Iterator[Progress]:
    """Yield the progress of analyses: a bar on an animated terminal, a line elsewhere."""
    bar = progress_bar()
    if bar is None:
        click.echo("starting Spark, which then reads the records: this may take minutes", err=True)

        @contextmanager
        def silent(_: str) -> Iterator[None]:
            yield None

        yield silent
        return
    from rich.markup import escape

    with bar:
        task = bar.add_task("Starting Spark", total=None)

        @contextmanager
        def show_title(title: str) -> Iterator[Tell]:
            bar.update(task, description=escape(title), completed=0, total=None)

            def tell(done: int, total: int, phase: str) -> None:
                bar.update(task, description=escape(f"{title}: {phase}"), completed=done, total=total)

            yield tell

        yield show_title


def publish(report: SkewReport, options: SkewOptions, past: Sequence[MetricRow]) -> None:
    """Print a report, and write it to files and to the folder of reports, as the options say.

    Earlier reports are read first, for the trend.

    Args:
        past: The earlier metrics of its topics; with a folder of reports, they are read from there.

    Raises:
        KafkaformError: A file cannot be written.
    """
    from spark_validation.metrics import metric_rows

    if options.history.folder is not None:
        names = [topic.name for topic in report.topics]
        reports = skew_folder.read_reports(options.history.folder, report.cluster_id, names)
        for reason in reports.damaged:
            click.echo(printable(f"not read: an earlier report: {reason}"), err=True)
        past = [row for kept in reports.reports for row in metric_rows(kept)]
        # Kept after the earlier reports were read, so that the trend does not contain this report twice.
        skew_folder.keep_report(options.history.folder, report)
    for path, output_format in options.files.items():
        show("skew", output_format, report, out=path, history=past, verbose=options.verbose)
    if options.output_format is not None:
        show(
            "skew",
            options.output_format,
            report,
            history=past,
            verbose=options.verbose,
            what_if=options.job.what_if,
        )
