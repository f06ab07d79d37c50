"""`kafkaform status`, once or again and again."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.live import Live
from rich.text import Text

from kafkaform.cli import completion
from kafkaform.cli.fleet import Answer, Fleet, ask_all
from kafkaform.cli.options import (
    SectionedCommand,
    Where,
    all_clusters_option,
    where_options,
)
from kafkaform.cli.output import format_option, print_text, show
from kafkaform.cli.session import Session
from kafkaform.cli.terminal import is_animated, table_width
from kafkaform.core.errors import InvalidInput, KafkaformError, UsageError
from kafkaform.core.printable import printable
from kafkaform.inspect.resource_status import (
    SHOWN,
    Order,
    Selection,
    add_arrivals,
    check_visible,
    read_status,
)
from kafkaform.plan.planning import check_identity
from kafkaform.report.status import render_status, status_to_json
from kafkaform.resources import KINDS
from kafkaform.resources.consumer_group import ConsumerGroupKind
from kafkaform.resources.topic import TopicKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kafkaform.cluster.protocol import ClusterReader
    from kafkaform.core.model import Desired
    from kafkaform.inspect.resource_status import StatusReport


_DEFAULT_PAUSE_S = 2.0
_LEAST_PAUSE_S = 0.1
_KINDS = {KINDS[kind].noun: kind for kind in SHOWN} | {kind: kind for kind in SHOWN}


def _seconds(_context: click.Context, _option: click.Parameter, given: str | None) -> float | None:
    """The pause between two readings; raises UsageError if it is no number of seconds."""
    if given is None:
        return None
    try:
        seconds = float(given)
    except ValueError:
        seconds = 0.0
    if not _LEAST_PAUSE_S <= seconds < float("inf"):
        raise UsageError(
            f"--watch {given}: not a number of seconds (at least {_LEAST_PAUSE_S})",
            hint="write names before --watch",
        )
    return seconds


watch_option = click.option(
    "--watch",
    "pause_s",
    is_flag=False,
    flag_value=f"{_DEFAULT_PAUSE_S:g}",
    callback=_seconds,
    metavar="[SECONDS]",
    help=f"Refresh at this interval, until Ctrl-C.  [default: {_DEFAULT_PAUSE_S:g}]",
)
"""Gives a command the pause that `watch` takes as its argument `pause_s`; None to read once."""


def watch(read: Callable[[], Text], pause_s: float, *, redraw: bool = True) -> None:
    """Show what `read` returns, and read again; returns when somebody presses Ctrl-C.

    A terminal is drawn anew each time; elsewhere texts follow each other. A reading that fails is told and
    tried again, as a cluster that is watched may well be restarting; only the first one must succeed.

    Args:
        read: Makes a reading.
        pause_s: Seconds between two readings.
        redraw: Draw a terminal anew, and write the time above each text; else texts follow each other as
            they are, for programs.

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
    """What shows a reading; with an error, the one before it."""
    if not redraw or not is_animated(sys.stdout):
        yield partial(_follow, timed=redraw)
        return
    console = Console(markup=False, highlight=False, emoji=False)
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


@click.command(cls=SectionedCommand)
@click.argument("globs", nargs=-1, metavar="[GLOB]...", shell_complete=completion.names)
@where_options
@click.option(
    "--kind",
    type=click.Choice(list(_KINDS)),
    help="Only topics, or only groups.",
)
@click.option(
    "--sort",
    "order",
    type=click.Choice([order.value for order in Order]),
    help="Sort by name; topics, without groups, by size, or by skew: how unevenly records arrive in "
    "partitions; or groups, without topics, by lag. The largest come first.  [default: name]",
)
@click.option("--lagging", is_flag=True, help="Only groups with lag.")
@all_clusters_option("Show every cluster of kafkaform.yaml.")
@click.option("--all", "everything", is_flag=True, help="Include what `ignore:` in kafkaform.yaml hides.")
@format_option("status", "With --watch, json prints one document per line.")
@watch_option
def status(
    globs: tuple[str, ...],
    where: Where,
    kind: str | None,
    order: str | None,
    lagging: bool,
    all_clusters: bool,
    everything: bool,
    output_format: str,
    pause_s: float | None,
) -> int:
    """Show topics with their consumer groups, and groups with members and lag.

    GLOBs select by name. The full name of one group also shows each of its partitions. Where there are
    manifests, what they declare (team, expected members) is shown too.
    """
    arrangement = _Arrangement(Order(order or Order.NAME), lagging=lagging)
    selected = Selection(globs, arrangement.kinds((_KINDS[kind],) if kind else SHOWN))
    if all_clusters:
        if pause_s is not None:
            raise UsageError("--watch shows one cluster", hint="leave out --all-clusters")
        ask = partial(_answer, selected=selected, arrangement=arrangement, everything=everything)
        return ask_all(where, ask, Fleet("status", output_format))
    session = Session.start(where)
    target = session.require_cluster()
    if output_format == "text":
        session.tell()
    desired = declared_if_any(session)
    selection = selected if everything else replace(selected, ignore=session.settings.ignore)
    with session.cluster() as cluster:
        if target.cluster_id is not None:
            check_identity(cluster.facts(), target)

        def read() -> StatusReport:
            return arrangement.arrange(cluster, _read(cluster, desired, selection))

        if pause_s is None:
            report = read()
            show("status", output_format, report, globs=globs)
            for line in _remarks(report):
                click.echo(line, err=True)
        elif output_format == "json":
            watch(lambda: Text(status_to_json(read(), indent=None)), pause_s, redraw=False)
        else:
            watch(lambda: _text(read(), selection), pause_s)
    return 0


@dataclass(frozen=True, slots=True)
class _Arrangement:
    """The rows that are shown, and their order."""

    order: Order
    lagging: bool

    def kinds(self, chosen: tuple[str, ...]) -> tuple[str, ...]:
        """Return the kinds that can be sorted so, or have lag.

        Raises:
            UsageError: None of those that were chosen can.
        """
        needed = {"--lagging": ConsumerGroupKind.name} if self.lagging else {}
        if self.order is not Order.NAME:
            kind = ConsumerGroupKind.name if self.order is Order.LAG else TopicKind.name
            needed[f"--sort {self.order}"] = kind
        for option, kind in needed.items():
            if kind not in chosen:
                noun = KINDS[kind].noun
                raise UsageError(
                    f"{option} shows {noun}s only, which the other options leave out", hint="use one of them"
                )
            chosen = (kind,)
        return chosen

    def arrange(self, cluster: ClusterReader, report: StatusReport) -> StatusReport:
        """Leave out and sort, by what has yet to be read for it."""
        if self.order is Order.SKEW:
            report = add_arrivals(cluster, report, time.time_ns() // 1_000_000)
        return (report.only_lagging() if self.lagging else report).sorted_by(self.order)


def _answer(session: Session, *, selected: Selection, arrangement: _Arrangement, everything: bool) -> Answer:
    """Read one of several clusters; notes about the reading name it."""
    target = session.require_cluster()
    selection = selected if everything else replace(selected, ignore=session.settings.ignore)
    desired = declared_if_any(session)
    with session.cluster() as cluster:
        if target.cluster_id is not None:
            check_identity(cluster.facts(), target)
        report = arrangement.arrange(cluster, _read(cluster, desired, selection))

    def print_notes() -> None:
        for line in _remarks(report):
            click.echo(f"cluster {printable(target.name)}: {line}", err=True)

    return Answer(report, 0, {"globs": selection.globs}, print_notes)


def declared_if_any(session: Session) -> list[Desired] | None:
    """What the repository declares; None where it has no manifests, or (said on stderr) bad ones.

    Who looks at a live cluster wants to see it, whatever is wrong with a file.
    """
    paths = session.paths(())
    if session.settings.file is None and not any(path.exists() for path in paths):
        return None
    try:
        return session.manifests(())
    except (InvalidInput, UsageError) as error:
        problems = error.problems if isinstance(error, InvalidInput) else ()
        why = str(problems[0]) if problems else error.message
        more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
        click.echo(printable(f"not read: the manifests: {why}{more}"), err=True)
        return None


def _read(cluster: ClusterReader, desired: Sequence[Desired] | None, selection: Selection) -> StatusReport:
    report = read_status(cluster, desired, selection)
    for glob, near in (report.missed or {}).items():
        hint = (
            f"did you mean {near}?"
            if near
            else "kafkaform get topics and kafkaform get groups list the names"
        )
        if report.hidden:
            hint = "ignore: of kafkaform.yaml hides some; --all shows them"
        what = " or ".join(KINDS[kind].noun for kind in selection.kinds)
        raise KafkaformError(f"no {what} matches {glob!r}", hint=hint)
    if not (report.topics or report.groups or report.hidden):
        check_visible(cluster, selection)
    return report


def _text(report: StatusReport, selection: Selection) -> Text:
    """The text that is watched, with its notes below."""
    text = render_status(report, selection.globs, width=table_width(sys.stdout))
    for line in _remarks(report):
        text.append(f"\n{line}", "yellow")
    return text


def _remarks(report: StatusReport) -> list[str]:
    said = [*(f"not read: {line}" for line in report.unread), *(f"note: {line}" for line in report.notes)]
    return [printable(line) for line in said]
