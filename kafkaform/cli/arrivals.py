"""`kafkaform arrivals`."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

import click

from kafkaform.cli import completion
from kafkaform.cli.fleet import ClusterOutcome, Fleet, run_on_clusters
from kafkaform.cli.options import (
    ClusterSelector,
    SectionedCommand,
    clusters_option,
    option_group,
    report_option,
    where_options,
)
from kafkaform.cli.output import ReportOutput, format_option, show, verbose_option
from kafkaform.cli.session import Session
from kafkaform.cli.skew_options import JSON, URL, ResultHistory, find_history, shared_option
from kafkaform.core.errors import UsageError
from kafkaform.core.printable import printable
from kafkaform.inspect.arrivals import mark_transactional, read_arrivals
from kafkaform.inspect.skew_analysis import skew_errors
from kafkaform.inspect.skew_folder import keep_rows, read_earlier_ratios
from kafkaform.inspect.skew_input import choose, choose_by_pattern, is_glob
from kafkaform.plan.planning import check_identity
from spark_validation.arrivals import Spread
from spark_validation.metrics import ARRIVALS_RATIO, FORMATS, arrival_rows
from spark_validation.options import HISTORY, SINCE

if TYPE_CHECKING:
    from collections.abc import Collection


@click.command(cls=SectionedCommand)
@click.argument("topics", nargs=-1, metavar="[TOPIC]...", shell_complete=completion.topics)
@where_options
@clusters_option()
@shared_option(SINCE)
@shared_option(HISTORY)
@click.option(
    "--history-format",
    type=click.Choice([JSON, FORMATS[0]]),
    help="The format of the figures in that folder.  [default: what is there, else json]",
)
@option_group(ReportOutput, "output", format_option("arrivals"), report_option, verbose_option)
def arrivals(
    topics: tuple[str, ...],
    where: ClusterSelector,
    clusters: tuple[str, ...],
    since: int | None,
    history: str | None,
    history_format: str | None,
    output: ReportOutput,
) -> int:
    """List the topics whose records arrive unevenly, by offsets.

    TOPICs are names or globs; the default is every topic. No record is read. Counts what was written, also if
    it has been removed since. Exits 1 if a topic could not be read.
    """
    place = _find_place(history, history_format)
    run = partial(_count, topics=topics, since_ms=since, place=place)
    if clusters:
        fleet = Fleet(clusters, "arrivals", output.output_format, output.verbose, output.out)
        return run_on_clusters(where, run, fleet)
    session = Session.start(where)
    session.require_cluster()
    if output.output_format == "text":
        session.tell()
    outcome = run(session)
    verbose = output.verbose or not any(map(is_glob, topics or ("*",)))
    show(
        "arrivals",
        output.output_format,
        outcome.content,
        out=output.out,
        verbose=verbose,
        earlier=outcome.options["earlier"],
    )
    if outcome.finish is not None:
        outcome.finish()
    return outcome.code


def _count(
    session: Session, *, topics: tuple[str, ...], since_ms: int | None, place: ResultHistory
) -> ClusterOutcome:
    """Count the arrivals of one cluster; its figures are stored after the report."""
    at = datetime.now(UTC)
    with session.cluster() as cluster:
        facts = cluster.facts()
        check_identity(facts, session.target)
        requested, ignore = topics or ("*",), session.settings.ignore.names
        patterns_only = all(map(is_glob, requested))
        chosen = (
            choose_by_pattern(cluster, requested, ignore)
            if patterns_only
            else choose(cluster, requested, (), ignore)
        )
        spreads = read_arrivals(cluster, chosen.topics, time.time_ns() // 1_000_000, since_ms)
        judged = [topic.name for topic in spreads if topic.spread is Spread.UNEVEN or topic.name in topics]
        # Only topics whose spread is reported as uneven, or that are named: the check takes a request to each
        # leader.
        spreads = mark_transactional(cluster, spreads, judged)
    for name, error in chosen.failed.items():
        click.echo(
            printable(f"not read: {session.require_cluster().name}: {name}: {error.message}"), err=True
        )
    earlier = _read_earlier_ratios(place, facts.cluster_id, [topic.name for topic in spreads])

    # Stored after the earlier figures were read, so that a run is not compared with itself; and not by
    # several threads.
    def store() -> None:
        rows = arrival_rows(facts.cluster_id, spreads, at)
        if place.table is not None:
            with skew_errors():
                place.table.append_file(rows)
        if place.folder is not None:
            keep_rows(place.folder, rows, at)

    failed = bool(chosen.failed) or any(topic.spread is Spread.UNKNOWN for topic in spreads)
    return ClusterOutcome(spreads, int(failed), {"earlier": earlier}, store)


def _find_place(history: str | None, history_format: str | None) -> ResultHistory:
    """Return the place of earlier figures; raises KafkaformError if it cannot be used."""
    place = find_history(history, history_format)
    if place.table is not None:
        if URL.match(place.table.location):
            raise UsageError(
                "arrivals starts no Spark, and keeps its figures in folders of this machine alone",
                hint="give a folder",
            )
        with skew_errors():
            # A table that cannot be used is reported before the cluster is read.
            place.table.check_files()
    return place


def _read_earlier_ratios(
    place: ResultHistory, cluster_id: str | None, topics: Collection[str]
) -> dict[str, float] | None:
    """Read the newest stored ratio of each topic; None without --history."""
    if place.table is not None:
        with skew_errors():
            rows = place.table.read_files(cluster_id, ARRIVALS_RATIO)
        return {row.topic: row.estimate.value for row in rows}
    if place.folder is None:
        return None
    earlier, damaged = read_earlier_ratios(place.folder, cluster_id, topics)
    for reason in damaged:
        click.echo(printable(f"not read: earlier figures: {reason}"), err=True)
    return earlier
