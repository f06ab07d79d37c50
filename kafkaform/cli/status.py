"""`kafkaform status`."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

import click
from rich.text import Text

from kafkaform.cli import completion
from kafkaform.cli.options import KINDS_BY_NOUN, SectionedCommand, Where, where_options
from kafkaform.cli.output import print_text
from kafkaform.cli.session import Session
from kafkaform.cli.terminal import is_terminal
from kafkaform.cli.watching import watch, watch_option
from kafkaform.core.errors import InvalidInput, KafkaformError, UsageError
from kafkaform.core.printable import printable
from kafkaform.inspect.resource_status import BOTH, TOPIC, Selection, read_standing
from kafkaform.plan.planning import check_identity
from kafkaform.report.status import render_status, status_to_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkaform.cluster.protocol import Cluster
    from kafkaform.core.model import Desired
    from kafkaform.inspect.resource_status import Standing


@click.command(cls=SectionedCommand)
@click.argument("globs", nargs=-1, metavar="[GLOB]...", shell_complete=completion.names)
@where_options
@click.option("--kind", type=click.Choice([*KINDS_BY_NOUN, *BOTH]), help="Only topics, or only groups.")
@click.option("--all", "everything", is_flag=True, help="Also what ignore: of kafkaform.yaml leaves out.")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="json prints, with --watch, a document a line.",
)
@watch_option
def status(
    globs: tuple[str, ...],
    where: Where,
    kind: str | None,
    everything: bool,
    output_format: str,
    pause_s: float | None,
) -> int:
    """Show topics with their readers, and groups with their members and lag.

    GLOBs choose by name. The full name of one group shows each of its partitions too. What manifests say
    (team, members expected) is shown beside it where there are manifests.
    """
    session = Session.start(where)
    target = session.require_cluster()
    if output_format == "text":
        session.tell()
    desired = declared_if_any(session)
    kinds = (KINDS_BY_NOUN.get(kind, kind),) if kind else BOTH
    selection = Selection(globs, kinds, () if everything else session.settings.ignore)
    with session.cluster() as cluster:
        if target.cluster_id is not None:
            check_identity(cluster.facts(), target)

        def read() -> Standing:
            return _read(cluster, desired, selection)

        if pause_s is None:
            _print(read(), selection, output_format)
        elif output_format == "json":
            watch(lambda: Text(status_to_json(read(), indent=None)), pause_s, redraw=False)
        else:
            watch(lambda: _rendered(read(), selection, notes=True), pause_s)
    return 0


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


def _read(cluster: Cluster, desired: Sequence[Desired] | None, selection: Selection) -> Standing:
    standing = read_standing(cluster, desired, selection)
    for glob, near in (standing.missed or {}).items():
        hint = (
            f"did you mean {near}?"
            if near
            else "kafkaform get topics and kafkaform get groups list the names"
        )
        if standing.hidden:
            hint = "ignore: of kafkaform.yaml leaves some out; --all shows them"
        what = " or ".join("topic" if one == TOPIC else "group" for one in selection.kinds)
        raise KafkaformError(f"no {what} matches {glob!r}", hint=hint)
    return standing


def _rendered(standing: Standing, selection: Selection, *, notes: bool = False) -> Text:
    names = {group.name for group in standing.groups} & {*selection.globs}
    width = shutil.get_terminal_size().columns if is_terminal(sys.stdout) else None
    text = render_status(standing, width=width, partitions=len(names) == 1)
    for line in _remarks(standing) if notes else ():
        text.append(f"\n{line}", "yellow")
    return text


def _print(standing: Standing, selection: Selection, output_format: str) -> None:
    if output_format == "json":
        click.echo(status_to_json(standing))
    else:
        print_text(_rendered(standing, selection))
    for line in _remarks(standing):
        click.echo(line, err=True)


def _remarks(standing: Standing) -> list[str]:
    said = [*(f"not read: {line}" for line in standing.unread), *(f"note: {line}" for line in standing.notes)]
    return [printable(line) for line in said]
