"""`kafkaform revert`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafkaform.cli.history import read_chosen_record, record_option, tell_problems
from kafkaform.cli.options import (
    ClusterSelector,
    SectionedCommand,
    paths_argument,
    require_files,
    where_options,
)
from kafkaform.cli.output import show
from kafkaform.cli.session import Session
from kafkaform.config.manifest_text import LiveManifest, build_live_manifest, choose_file_names
from kafkaform.core.errors import KafkaformError, UsageError
from kafkaform.core.printable import clipped
from kafkaform.core.wording import counted, nearest, quoted
from kafkaform.inspect.resets import write_offsets
from kafkaform.inspect.reversal import Reversal, complete_values, plan_reversal
from kafkaform.resources import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafkaform.audit.entries import AuditEntry, AuditRecord
    from kafkaform.config.manifests.loader import Context
    from kafkaform.core.model import Observed

_MAX_LENGTH = 1200


@click.command(cls=SectionedCommand)
@click.argument("change_id", metavar="ID")
@paths_argument
@where_options
@record_option
@click.option("--dry-run", is_flag=True, help="Show the edits without writing them.")
@click.option(
    "--force",
    is_flag=True,
    help="Also undo changes that were changed again later, or may not have been applied.",
)
def revert(
    change_id: str,
    paths: tuple[Path, ...],
    where: ClusterSelector,
    file: Path | None,
    dry_run: bool,
    force: bool,
) -> int:
    """Change manifests back to the values before an apply.

    Changes no cluster. ID is the id of a change, or of an apply with all its changes, as in kafkaform
    history. PATHs are manifests or folders of manifests; the default is `manifests:` of kafkaform.yaml, or
    topics/. Exits 1 if a part of the change cannot be undone.
    """
    from kafkaform.config.layer_edits import edit_declarations
    from kafkaform.config.manifests.edit_files import EditedFile
    from kafkaform.config.manifests.editing import write_edits

    require_files(paths, "revert writes into manifests")
    log = read_chosen_record(where, file, tells=True)
    changes = _select_changes(log, change_id)
    # The environment decides where an edit belongs: in the base of a manifest or in its overrides.
    session = _start_session(where, changes)
    if any(field.cut for change in changes for field in change.fields):
        with session.cluster() as cluster:
            changes = [complete_values(change, cluster.find_value) for change in changes]
    desired = session.manifests(paths)
    result = plan_reversal(
        changes, log.entries, {declared.ref: declared for declared in desired}, force=force
    )
    context = session.build_context()
    complete = not session.is_subset(paths, ())
    editing = edit_declarations(result.edits, desired, session.settings, context, complete=complete)
    new = []
    for deleted, path in _choose_files(result.restored, session.paths(paths)):
        manifest = _build_manifest(deleted, context)
        new.append(EditedFile(path, "", manifest.to_yaml()))
        result.notes += [f"{deleted.ref}: not part of its new manifest: {line}" for line in manifest.left_out]
    files = [*editing.files, *new]
    if files:
        show("edits", "text", files)
    if not dry_run:
        # After the report, which shows every edit that follows.
        write_edits(editing)
        for made in new:
            _write_new(made.path, made.after)
    _save_offsets(result, dry_run=dry_run)
    tell_problems(log)
    refused = [*result.refused, *(f"{edit.ref}: {edit.path}: {reason}" for edit, reason in editing.refused)]
    _tell("note", result.notes)
    if new and session.settings.environments:
        _tell("note", ["a new manifest applies to all environments: see spec.overrides"])
    _tell("not undone", refused)
    _tell_end(len(files), dry_run=dry_run)
    return 1 if refused else 0


def _select_changes(log: AuditRecord, change_id: str) -> list[AuditEntry]:
    """Return the change with an id, or all changes of the apply with that id, latest first."""
    wanted = change_id.lower()
    chosen = [entry for entry in reversed(log.entries) if wanted in {entry.id, entry.run}]
    if not chosen:
        near = nearest(wanted, [name for entry in log.entries for name in (entry.id, entry.run)])
        raise KafkaformError(
            f"no change or apply {quoted(change_id)} is recorded",
            hint=f"did you mean {near}?" if near else "`kafkaform history` shows the ids",
        )
    return chosen


def _start_session(where: ClusterSelector, changes: Sequence[AuditEntry]) -> Session:
    """Start a session with the environment of the changes."""
    # All changes of an apply have its environment.
    change, session = changes[0], Session.start(where)
    if change.environment is None:
        return session
    if where.environment not in {None, change.environment}:
        raise UsageError(
            f"{change.id} was made in environment {quoted(change.environment)}, not {where.environment}",
            hint=where.describe_removal("environment"),
        )
    return session.enter_environment(change.environment, change.id, UsageError)


def _choose_files(restored: Sequence[Observed], paths: Sequence[Path]) -> list[tuple[Observed, Path]]:
    """Return a new file for each resource; raises KafkaformError if the file exists."""
    home = paths[0] if paths[0].is_dir() or not paths[0].suffix else paths[0].parent
    files = []
    for resource in restored:
        path = (
            home
            / KINDS[resource.ref.kind].words.folder
            / choose_file_names([resource.ref.name])[resource.ref.name]
        )
        if path.exists():
            raise KafkaformError(
                f"{path} exists, and does not declare {resource.ref}",
                hint="move it away: existing files are not overwritten",
            )
        files.append((resource, path))
    return files


def _build_manifest(deleted: Observed, context: Context) -> LiveManifest:
    """Build the manifest of a deleted resource."""
    under = context.merge_underlay(deleted.ref.kind)
    return build_live_manifest(deleted, under)


def _save_offsets(result: Reversal, *, dry_run: bool) -> None:
    """Write the earlier offsets of each group into a file, and name the reset that reads it."""
    names = choose_file_names([ref.name for ref in result.offsets])
    for ref, offsets in result.offsets.items():
        # Offsets are no part of a manifest. `kafkaform reset --from-file` reads them, and shows its own plan.
        path = Path(names[ref.name]).with_suffix(".csv")
        if not dry_run:
            _write_new(path, write_offsets(offsets))
        result.refuse_offsets(ref, len(offsets), "--from-file", str(path))


def _write_new(path: Path, content: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # "x" fails if the file was created since `_choose_files` looked; "w" would replace it.
        with path.open("x", encoding="utf-8") as stream:
            stream.write(content)
    except OSError as error:
        raise KafkaformError(f"cannot write {path}: {error.strerror}") from error


def _tell(lead: str, lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(f"{lead}: {clipped(line, _MAX_LENGTH)}", err=True)


def _tell_end(count: int, *, dry_run: bool) -> None:
    if not count:
        click.echo("nothing to change in the manifests", err=True)
    elif dry_run:
        click.echo(f"{counted(count, 'file')} would change; nothing was written", err=True)
    else:
        click.echo(
            f"{counted(count, 'file')} changed; review them: `kafkaform plan` shows what an apply will do",
            err=True,
        )
