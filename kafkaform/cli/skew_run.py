"""Running analyses in one Spark session, and where their reports go."""

from __future__ import annotations

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
from kafkaform.inspect import skew

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Iterator,
        Mapping,
        Sequence,
    )
    from contextlib import AbstractContextManager

    from kafkaform.cli.skew_options import SkewOptions
    from spark_validation.configuration import SessionSettings
    from spark_validation.errors import SkewError
    from spark_validation.results import SkewReport, TopicResult


Tell: TypeAlias = "Callable[[int, int, str], None]"
"""Takes tasks that are done, tasks in all, and the phase; called from another thread."""

_NEEDED = ("pyspark", "numpy", "pandas", "pyarrow")


@dataclass(slots=True)
class AnalysisResults:
    """What became of analyses.

    Attributes:
        results: Those that came to an end.
        failed: Why a topic has no result.
    """

    results: list[TopicResult] = field(default_factory=list)
    failed: dict[str, KafkaformError] = field(default_factory=dict)


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
    analyse: Callable[[Any, Progress], Mapping[str, TopicResult | SkewError]], settings: SessionSettings
) -> AnalysisResults:
    """Start Spark, and analyse topics in it.

    Args:
        analyse: Takes the session, and gives the result of each topic, or why it has none.
        settings: How Spark runs.

    Raises:
        KafkaformError: There is no session, or no topic can be analysed.
    """
    from spark_validation.errors import SkewError
    from spark_validation.session import start

    outcome = AnalysisResults()
    with _progress() as progress:
        try:
            with start(settings) as spark:
                found = analyse(spark, progress)
        except SkewError as error:
            raise ours(error) from error
    for topic, result in found.items():
        if isinstance(result, SkewError):
            outcome.failed[topic] = ours(result)
        else:
            outcome.results.append(result)
    return outcome


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


def publish(report: SkewReport, options: SkewOptions) -> None:
    """Print a report, write it into files, and keep it, as asked for.

    What was kept before is read first: a page shows the report beside those.

    Raises:
        KafkaformError: A file cannot be written.
    """
    from spark_validation.results import to_json

    before: Sequence[SkewReport] = ()
    if options.history is not None:
        from kafkaform.plan.skew_report import read_skew_report

        read = partial(read_skew_report, now=datetime.now(UTC), max_age=None)
        found = skew.earlier(options.history, report, read)
        for reason in found.damaged:
            click.echo(printable(f"not read: an earlier report: {reason}"), err=True)
        before = found.reports
        skew.keep(options.history, report, to_json(report), write_file)
    for output_format, path in options.artefacts.items():
        show("skew", output_format, report, out=path, history=before)
    show("skew", options.output_format, report, out=options.out, history=before, verbose=options.verbose)
