"""`kafkaform history`."""

from __future__ import annotations

from fnmatch import filter as select_matching
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafkaform.audit.record import format_timestamp
from kafkaform.audit.trail import read_record, read_record_file
from kafkaform.cli import completion
from kafkaform.cli.options import ClusterSelector, SectionedCommand, parsed_by, where_options
from kafkaform.cli.output import format_option, show, verbose_option
from kafkaform.cli.session import Session
from kafkaform.core.errors import AuditError, UsageError
from kafkaform.core.printable import clipped
from kafkaform.core.wording import quoted
from kafkaform.resources import KINDS, suggest_reference
from spark_validation.durations import EPOCH, MS
from spark_validation.options import parse_since

if TYPE_CHECKING:
    from kafkaform.audit.entries import AuditEntry, AuditRecord

_MAX_LENGTH = 400

record_option = click.option(
    "--file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="AUDIT.jsonl",
    help="Read the record from this file instead of the cluster.",
)


@click.command(cls=SectionedCommand)
@click.argument("resource", required=False, shell_complete=completion.resources)
@where_options
@record_option
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=50,
    show_default=True,
    metavar="N",
    help="The maximum number of changes to show, latest first.",
)
@click.option(
    "--since",
    callback=parsed_by(parse_since),
    metavar="DURATION|TIME",
    help="Only changes since then: 7d, or 2026-11-01T00:00:00Z.",
)
@format_option("history", "json contains every field of every change.")
@verbose_option
def history(
    resource: str | None,
    where: ClusterSelector,
    file: Path | None,
    limit: int,
    since: int | None,
    output_format: str,
    verbose: bool,
) -> int:
    """Show past changes to the cluster, from the audit record.

    The latest apply comes first. RESOURCE is KIND/NAME or NAME (globs allowed), or the id of an apply or of a
    change. With RESOURCE or --verbose, every field of a change is listed.
    """
    head, slash, _ = (resource or "").partition("/")
    if resource is not None and slash and not select_matching(KINDS, head):
        raise UsageError(
            f"{quoted(resource)} names no kind of resource", hint=suggest_reference(resource, None)
        )
    oldest = "" if since is None else format_timestamp(EPOCH + since * MS)
    log = read_chosen_record(where, file, tells=output_format == "text")
    matching = [
        entry
        # The record is in the order in which it was written.
        for entry in reversed(log.entries)
        if (resource is None or _matches(entry, resource)) and entry.at >= oldest
    ]
    shown = matching[:limit]
    detailed = verbose or resource is not None
    show("history", output_format, shown, log=log, earlier=len(matching) - len(shown), verbose=detailed)
    if output_format == "text":
        tell_problems(log)
    return 0


def read_chosen_record(where: ClusterSelector, file: Path | None, *, tells: bool) -> AuditRecord:
    """Read the record of applies from a file or the cluster.

    Args:
        where: The options that choose the cluster.
        file: The file; None for the cluster.
        tells: Whether to print the name of the cluster on stderr.

    Raises:
        AuditError: The record cannot be read, or is switched off.
    """
    if file is not None:
        if not file.exists():
            raise AuditError(f"{file}: no such file", hint="leave out --file to read the cluster's record")
        return read_record_file(file)
    session = Session.start(where)
    target = session.require_cluster()
    if not target.audit.enabled:
        raise AuditError(
            f"applies to {target.name} are not recorded",
            hint="see `audit:` of the cluster in kafkaform.yaml; --file reads a record from a file",
        )
    if tells:
        session.tell()
    with session.cluster() as cluster:
        return read_record(cluster, target.audit)


def tell_problems(log: AuditRecord) -> None:
    """Print on stderr the parts of the record that could not be read."""
    for problem in log.problems:
        click.echo(f"warning: {clipped(problem, _MAX_LENGTH)}", err=True)


def _matches(entry: AuditEntry, wanted: str) -> bool:
    # Ids come first: they are exact, and unlike names have no globs.
    if wanted in {entry.id, entry.run}:
        return True
    return fnmatchcase(str(entry.ref) if "/" in wanted else entry.ref.name, wanted)
