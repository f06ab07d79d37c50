"""`kafkaform status`, once or again and again."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.live import Live
from rich.text import Text

from kafkaform.cli import completion
from kafkaform.cli.fleet import ClusterOutcome, Fleet, combine_exit_codes, run_on_clusters
from kafkaform.cli.options import (
    ClusterSelector,
    SectionedCommand,
    clusters_option,
    option_group,
    parse_milliseconds,
    where_options,
)
from kafkaform.cli.output import format_option, print_text, show
from kafkaform.cli.session import Session
from kafkaform.cli.terminal import is_animated, table_width
from kafkaform.core.errors import InvalidInput, KafkaformError, UsageError
from kafkaform.core.printable import printable
from kafkaform.core.values import Value, asdict, replace
from kafkaform.core.wording import join_alternatives
from kafkaform.inspect.resource_status import (
    Order,
    Selection,
    StatusReport,
    add_arrivals,
    add_usage,
    check_visible,
    list_shown_kinds,
    read_status,
)
from kafkaform.plan.planning import check_identity
from kafkaform.report.status import render_status, status_to_json
from kafkaform.resources import GROUP, KINDS, TOPIC
from kafkaform.resources.name_globs import NO_GLOBS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kafkaform.cluster.protocol import ClusterReader
    from kafkaform.config.settings import ClusterSettings
    from kafkaform.core.model import Desired

_DEFAULT_PAUSE_S = 2.0
_MIN_PAUSE_S = 0.1
_KINDS = {KINDS[kind].words.noun: kind for kind in KINDS} | {kind: kind for kind in KINDS}


def _parse_seconds(_context: click.Context, _option: click.Parameter, given: str | None) -> float | None:
    """Parse the seconds between two readings; raises UsageError."""
    if given is None:
        return None
    try:
        seconds = float(given)
    except ValueError:
        seconds = 0.0
    # float() also accepts inf and nan; every comparison with nan is false, so that it is refused here, too.
    if not _MIN_PAUSE_S <= seconds < float("inf"):
        raise UsageError(
            f"--watch {given}: not a number of seconds (at least {_MIN_PAUSE_S})",
            hint="write names before --watch",
        )
    return seconds


watch_option = click.option(
    "--watch",
    "pause_s",
    is_flag=False,
    flag_value=f"{_DEFAULT_PAUSE_S:g}",
    callback=_parse_seconds,
    metavar="[SECONDS]",
    help=f"Refresh at this interval, until Ctrl-C.  [default: {_DEFAULT_PAUSE_S:g}]",
)
"""Adds `--watch` to a command, as the argument `pause_s`; None to read once."""


def watch(read: Callable[[], Text], pause_s: float, *, redraw: bool = True) -> None:
    """Show readings until Ctrl-C.

    A terminal is redrawn; elsewhere, texts follow each other. The error of a reading is shown, and the
    reading repeated, as the cluster may be restarting; only the first reading must succeed.

    Args:
        read: A function that makes a reading.
        pause_s: The seconds between two readings.
        redraw: Whether to redraw a terminal, and print the time above each text; False for programs.

    Raises:
        KafkaformError: The first reading failed.
    """
    try:
        shown = read()
        with _screen(redraw=redraw) as show:
            show(shown, None)
            while True:
                time.sleep(pause_s)
                try:
                    shown = read()
                except KafkaformError as error:
                    show(shown, error)
                else:
                    show(shown, None)
    except KeyboardInterrupt:
        return


@contextmanager
def _screen(*, redraw: bool) -> Iterator[Callable[[Text, KafkaformError | None], None]]:
    """Yield a function that shows a reading, or the previous one with an error."""
    # Programs read one document per line, and a file keeps each reading: neither can be redrawn.
    if not redraw or not is_animated(sys.stdout):
        yield partial(_follow, timed=redraw)
        return
    console = Console(markup=False, highlight=False, emoji=False)
    # Without `auto_refresh`, which would draw the same text four times a second.
    with Live(console=console, auto_refresh=False) as live:

        def draw(shown: Text, error: KafkaformError | None) -> None:
            text = Text.assemble((f"{_clock()}  Ctrl-C ends\n\n", "dim"), shown)
            if error is not None:
                text.append(f"\n{_failure(error)}", "red")
            live.update(text, refresh=True)

        yield draw


def _follow(shown: Text, error: KafkaformError | None, *, timed: bool) -> None:
    if error is not None:
        click.echo(_failure(error), err=True)
    elif timed:
        click.echo(_clock())
        print_text(shown)
        click.echo()
    else:
        click.echo(shown.plain)


def _failure(error: KafkaformError) -> str:
    return printable(f"not read at {_clock()}: {error.message}")


def _clock() -> str:
    return datetime.now().astimezone().strftime("%H:%M:%S")


class StatusOptions(Value):
    """The resources to show, and their order.

    Attributes:
        kind: Only resources of this kind.
        order: The field to sort by.
        lagging: Only groups with lag.
        stale_ms: The period, in milliseconds, in which unused topics were not used; None for all topics.
        clusters: The selected clusters; empty for one. Each is shown.
        overview: Whether each of them is summed up in one line.
        everything: Whether ignored resources are shown, too.
        output_format: The format of the report.
        pause_s: The seconds between two readings; None for one reading.
    """

    kind: str | None
    order: str | None
    lagging: bool
    stale_ms: int | None
    clusters: tuple[str, ...]
    overview: bool
    everything: bool
    output_format: str
    pause_s: float | None


@click.command(cls=SectionedCommand)
@click.argument("globs", nargs=-1, metavar="[GLOB]...", shell_complete=completion.names)
@where_options
@option_group(
    StatusOptions,
    "options",
    click.option(
        "--kind",
        type=click.Choice(list(_KINDS)),
        metavar="KIND",
        help="Only resources of this kind: topic, group, quota, user, access, subject.",
    ),
    click.option(
        "--sort",
        "order",
        type=click.Choice([order.value for order in Order]),
        help="Topics by size, or by skew: how unevenly records arrive in partitions; or groups by lag. The "
        "largest come first.  [default: name]",
    ),
    click.option("--lagging", is_flag=True, help="Only groups with lag."),
    click.option(
        "--stale",
        "stale_ms",
        callback=parse_milliseconds,
        metavar="DURATION",
        help="Only topics without new records or without readers for this long, such as 30d.",
    ),
    clusters_option(),
    click.option(
        "--overview",
        is_flag=True,
        help="With --clusters: one line for each, with changes, consents, drift, health and version.",
    ),
    click.option("--all", "everything", is_flag=True, help="Include what `ignore:` in kafkaform.yaml hides."),
    format_option("status", "With --watch, json prints one document per line."),
    watch_option,
)
def status(globs: tuple[str, ...], where: ClusterSelector, options: StatusOptions) -> int:
    """Show topics, consumer groups with their lag, and quotas.

    GLOBs select by name. The full name of one group also shows each of its partitions. Where there are
    manifests, what they declare (team, expected members) is shown too.
    """
    if options.overview:
        further = replace(options, clusters=(), overview=False, output_format="")
        if globs or not options.clusters or any(asdict(further).values()):
            raise UsageError("--overview sums up clusters", hint="use it with --clusters and --format alone")
        fleet = Fleet(options.clusters, "overview", options.output_format, report="overview")
        return run_on_clusters(where, _sum_up, fleet)
    arrangement = _Arrangement(
        Order(options.order or Order.NAME), lagging=options.lagging, stale_ms=options.stale_ms
    )
    kind = _KINDS[options.kind] if options.kind else None
    selected = Selection(globs, arrangement.kinds(kind, None))
    if options.clusters:
        if options.pause_s is not None:
            raise UsageError("--watch shows one cluster", hint="leave out --clusters")
        run = partial(
            _run_on_cluster,
            selected=selected,
            kind=kind,
            arrangement=arrangement,
            everything=options.everything,
        )
        return run_on_clusters(where, run, Fleet(options.clusters, "status", options.output_format))
    if options.pause_s is not None and options.output_format == "markdown":
        raise UsageError("--watch prints text or json", hint="leave out --format markdown")
    session = Session.start(where)
    target = session.require_cluster()
    if options.output_format == "text":
        session.tell()
    desired = declared_if_any(session)
    ignore = NO_GLOBS if options.everything else session.settings.ignore
    selection = replace(selected, kinds=arrangement.kinds(kind, desired), ignore=ignore)
    with session.cluster() as cluster:
        if target.cluster_id is not None:
            check_identity(cluster.facts(), target)

        def read() -> StatusReport:
            return arrangement.arrange(cluster, target, _read(cluster, desired, selection))

        if options.pause_s is None:
            report = read()
            show("status", options.output_format, report, globs=globs)
            for line in _list_notes(report):
                click.echo(line, err=True)
        elif options.output_format == "json":
            watch(lambda: Text(status_to_json(read(), indent=None)), options.pause_s, redraw=False)
        else:
            watch(lambda: _text(read(), selection), options.pause_s)
    return 0


class _Arrangement(Value):
    """The rows that are shown, and their order."""

    order: Order
    lagging: bool
    stale_ms: int | None

    def kinds(self, chosen: str | None, desired: Sequence[Desired] | None) -> tuple[str, ...]:
        """Return the kinds to show: the chosen ones that support the order, and have lag if that is required.

        Args:
            chosen: The chosen kind; None for all.
            desired: The declared resources; None if not known.

        Raises:
            UsageError: None of the chosen kinds does.
        """
        kinds = (chosen,) if chosen else list_shown_kinds(desired)
        needed = {"--lagging": GROUP.name} if self.lagging else {}
        if self.stale_ms is not None:
            needed["--stale"] = TOPIC.name
        if self.order is not Order.NAME:
            kind = GROUP.name if self.order is Order.LAG else TOPIC.name
            needed[f"--sort {self.order}"] = kind
        for option, kind in needed.items():
            if kind not in kinds:
                noun = KINDS[kind].words.noun
                raise UsageError(
                    f"{option} shows {noun}s only, which the other options leave out", hint="use one of them"
                )
            kinds = (kind,)
        return kinds

    def arrange(self, cluster: ClusterReader, target: ClusterSettings, report: StatusReport) -> StatusReport:
        """Filter and sort the report, after reading what else is shown."""
        report = replace(report, costs=target.costs)
        now_ms = time.time_ns() // 1_000_000
        if self.order is Order.SKEW:
            report = add_arrivals(cluster, report, now_ms)
        if self.stale_ms is not None:
            report = add_usage(cluster, report, self.stale_ms, now_ms)
        return (report.only_lagging() if self.lagging else report).sorted_by(self.order)


def _sum_up(session: Session) -> ClusterOutcome:
    """Plan and examine one of several clusters; exits 2 if it differs from the manifests or is unhealthy."""
    from kafkaform.cli.doctor import HEALTH_CODES, examine_cluster
    from kafkaform.cli.drift import DRIFT_CODES, compare_cluster
    from kafkaform.report.fleet import ClusterOverview

    overview = ClusterOverview(compare_cluster(session), examine_cluster(session))
    codes = DRIFT_CODES[overview.drift.verdict], HEALTH_CODES[overview.health.verdict]
    return ClusterOutcome(overview, combine_exit_codes(codes))


def _run_on_cluster(
    session: Session, *, selected: Selection, kind: str | None, arrangement: _Arrangement, everything: bool
) -> ClusterOutcome:
    """Read one of several clusters; its notes begin with its name."""
    target = session.require_cluster()
    desired = declared_if_any(session)
    ignore = NO_GLOBS if everything else session.settings.ignore
    selection = replace(selected, kinds=arrangement.kinds(kind, desired), ignore=ignore)
    with session.cluster() as cluster:
        if target.cluster_id is not None:
            check_identity(cluster.facts(), target)
        report = arrangement.arrange(cluster, target, _read(cluster, desired, selection))

    def print_notes() -> None:
        for line in _list_notes(report):
            click.echo(f"cluster {printable(target.name)}: {line}", err=True)

    return ClusterOutcome(report, 0, {"globs": selection.globs}, print_notes)


def declared_if_any(session: Session) -> list[Desired] | None:
    """Return the declared resources; None if there are no manifests, or invalid ones, with a line on stderr.

    A live cluster is shown even if manifests are invalid.
    """
    paths = session.paths(())
    if session.settings.file is None and not any(path.exists() for path in paths):
        return None
    try:
        return session.manifests(())
    except (InvalidInput, UsageError) as error:
        problems = error.problems if isinstance(error, InvalidInput) else ()
        reason = str(problems[0]) if problems else error.message
        suffix = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
        click.echo(printable(f"not read: the manifests: {reason}{suffix}"), err=True)
        return None


def _read(cluster: ClusterReader, desired: Sequence[Desired] | None, selection: Selection) -> StatusReport:
    report = read_status(cluster, desired, selection)
    for glob, near in (report.missed or {}).items():
        hint = (
            f"did you mean {near}?"
            if near
            else "`kafkaform get topics` and `kafkaform get groups` list the names"
        )
        if report.hidden:
            hint = "ignore: of kafkaform.yaml hides some; --all shows them"
        nouns = join_alternatives([KINDS[kind].words.noun for kind in selection.kinds])
        raise KafkaformError(f"no {nouns} matches {glob!r}", hint=hint)
    if not (report.topics or report.groups or report.others or report.hidden):
        check_visible(cluster, selection)
    return report


def _text(report: StatusReport, selection: Selection) -> Text:
    """Render the text for --watch, with its notes below."""
    text = render_status(report, selection.globs, width=table_width(sys.stdout)).text
    for line in _list_notes(report):
        text.append(f"\n{line}", "yellow")
    return text


def _list_notes(report: StatusReport) -> list[str]:
    lines = [*(f"not read: {line}" for line in report.unread), *(f"note: {line}" for line in report.notes)]
    return [printable(line) for line in lines]
