"""`kafkaform revert`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafkaform.cli.history import record_of, record_option, tell_problems
from kafkaform.cli.options import SectionedCommand, Where, paths_argument, require_files, where_options
from kafkaform.cli.output import show
from kafkaform.cli.session import Session
from kafkaform.config.manifest_text import LiveManifest, file_names, live_manifest
from kafkaform.config.manifests.loader import merge
from kafkaform.core.errors import KafkaformError, UsageError
from kafkaform.core.printable import clipped
from kafkaform.core.wording import counted, nearest, quoted
from kafkaform.inspect.reversal import reversal
from kafkaform.plan.resets import write_offsets
from kafkaform.resources import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafkaform.audit.entries import AuditEntry, AuditRecord
    from kafkaform.config.manifests.loader import Context
    from kafkaform.core.model import Observed
    from kafkaform.inspect.reversal import Reversal

_LONGEST = 1200


@click.command(cls=SectionedCommand)
@click.argument("change_id", metavar="ID")
@paths_argument
@where_options
@record_option
@click.option("--dry-run", is_flag=True, help="Show the edits without writing them.")
@click.option(
    "--force",
    is_flag=True,
    help="Also undo changes that were changed again later, or that may not have been applied.",
)
def revert(
    change_id: str,
    paths: tuple[Path, ...],
    where: Where,
    file: Path | None,
    dry_run: bool,
    force: bool,
) -> int:
    """Change manifests back to the values before an apply. Changes no cluster.

    ID is the id of a change, or of an apply with all its changes, as shown by kafkaform history. PATHs are
    manifests or folders of manifests; the default is `manifests:` of kafkaform.yaml, or topics/. Treat the
    edits like any others: review, plan, apply. Exits 1 if a part of the change cannot be undone.
    """
    from kafkaform.config.manifests.edit_files import EditedFile
    from kafkaform.config.manifests.editing import edit, write

    require_files(paths, "revert writes into manifests")
    log = record_of(where, file, tells=True)
    changes = _chosen(log, change_id)
    session = Session.start(_there(where, changes))
    desired = session.manifests(paths)
    found = reversal(changes, log.entries, {declared.ref: declared for declared in desired}, force=force)
    context = session.settings.context(session.environment)
    editing = edit(found.edits, desired, context)
    new = []
    for one, path in _new_files(found.restored, session.paths(paths)):
        manifest = _manifest(one, context)
        new.append(EditedFile(path, "", manifest.to_yaml()))
        found.notes += [f"{one.ref}: not part of its new manifest: {line}" for line in manifest.left_out]
    files = [*editing.files, *new]
    if files:
        show("edits", "text", files)
    if not dry_run:
        write(editing)
        for made in new:
            _write_new(made.path, made.after)
    _save_offsets(found, dry_run=dry_run)
    tell_problems(log)
    refused = [*found.refused, *(f"{one.ref}: {one.path}: {why}" for one, why in editing.refused)]
    _tell("note", found.notes)
    if new and session.settings.environments:
        _tell("note", ["a new manifest applies to all environments: see spec.overrides"])
    _tell("not undone", refused)
    _tell_end(len(files), dry_run=dry_run)
    return 1 if refused else 0


def _chosen(log: AuditRecord, change_id: str) -> list[AuditEntry]:
    """The change of that id, or all of the apply of that id, the latest first."""
    wanted = change_id.lower()
    chosen = [entry for entry in reversed(log.entries) if wanted in {entry.id, entry.run}]
    if not chosen:
        near = nearest(wanted, [name for entry in log.entries for name in (entry.id, entry.run)])
        raise KafkaformError(
            f"no change or apply {quoted(change_id)} is recorded",
            hint=f"did you mean {near}?" if near else "kafkaform history shows the ids",
        )
    return chosen


def _there(where: Where, changes: Sequence[AuditEntry]) -> Where:
    """The same, in the environment in which the changes were made."""
    made_in = changes[0].environment
    if where.environment is not None and made_in is not None and where.environment != made_in:
        raise UsageError(
            f"{changes[0].id} was made in environment {quoted(made_in)}, not {where.environment}",
            hint=where.without("environment"),
        )
    return replace(where, environment=where.environment or made_in)


def _new_files(restored: Sequence[Observed], paths: Sequence[Path]) -> list[tuple[Observed, Path]]:
    """A file for each resource that no manifest declares; raises KafkaformError where one is in the way."""
    home = paths[0] if paths[0].is_dir() or not paths[0].suffix else paths[0].parent
    found = []
    for one in restored:
        path = home / KINDS[one.ref.kind].folder / file_names([one.ref.name])[one.ref.name]
        if path.exists():
            raise KafkaformError(
                f"{path} exists, and does not declare {one.ref}",
                hint="move it away: existing files are not overwritten",
            )
        found.append((one, path))
    return found


def _manifest(deleted: Observed, context: Context) -> LiveManifest:
    """The manifest of a resource that was deleted."""
    under = merge([{"undeclared": context.undeclared.value}, *context.defaults.get(deleted.ref.kind, ())])
    return live_manifest(deleted, under)


def _save_offsets(found: Reversal, *, dry_run: bool) -> None:
    """Write the earlier offsets of each group into a file, and say which reset takes them from there."""
    names = file_names([ref.name for ref in found.offsets])
    for ref, offsets in found.offsets.items():
        path = Path(names[ref.name]).with_suffix(".csv")
        if not dry_run:
            _write_new(path, write_offsets(offsets))
        found.refuse_offsets(ref, len(offsets), "--from-file", str(path))


def _write_new(path: Path, content: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as stream:
            stream.write(content)
    except OSError as error:
        raise KafkaformError(f"cannot write {path}: {error.strerror}") from error


def _tell(lead: str, lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(f"{lead}: {clipped(line, _LONGEST)}", err=True)


def _tell_end(count: int, *, dry_run: bool) -> None:
    if not count:
        click.echo("nothing to change in the manifests", err=True)
    elif dry_run:
        click.echo(f"{counted(count, 'file')} would change; nothing was written", err=True)
    else:
        click.echo(
            f"{counted(count, 'file')} changed; review the edits: kafkaform plan shows what an apply will do",
            err=True,
        )
