"""`kafkaform import`."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
import yaml

from kafkaform.cli.fleet import Answer, Fleet, ask_all, path_part
from kafkaform.cli.options import (
    KINDS_BY_NOUN,
    SectionedCommand,
    Where,
    all_clusters_option,
    kinds_option,
    match_option,
    where_options,
)
from kafkaform.cli.output import show
from kafkaform.cli.session import Session
from kafkaform.config.manifests.files import manifest_files
from kafkaform.config.manifests.loader import load
from kafkaform.core.errors import KafkaformError, UsageError
from kafkaform.core.files import write_files
from kafkaform.core.model import Location
from kafkaform.core.printable import printable
from kafkaform.core.wording import command, nearest
from kafkaform.inspect.importing import By, ImportedFile, ImportLayout, make_import, shared_values
from kafkaform.inspect.resource_status import Selection, check_visible
from kafkaform.plan.planning import check_identity
from kafkaform.plan.policy import is_own
from kafkaform.report.edits import problems_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkaform.config.manifests.loader import Context
    from kafkaform.core.errors import Problem
    from kafkaform.core.model import Observation
    from kafkaform.inspect.importing import Import

_EACH = Path("clusters")
"""Where folders of clusters go: not below `manifests:`, where a topic of two of them is declared twice."""


def _labels(_context: click.Context, _option: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    """Read labels; raises UsageError if one has no name or no value."""
    labels = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not (name.strip() and equals and value.strip()):
            raise UsageError(f"--label {text}: not NAME=VALUE", hint="write e.g. --label team=checkout")
        labels[name.strip()] = value.strip()
    return labels


@click.command("import", cls=SectionedCommand)
@where_options
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="The folder to write to.  [default: the first of `manifests:` in kafkaform.yaml, or topics; with "
    "--all-clusters: clusters]",
)
@all_clusters_option("Import every cluster of kafkaform.yaml, each into a folder of its name below --out.")
@match_option
@kinds_option
@click.option(
    "--by",
    type=click.Choice([by.value for by in By]),
    default=By.TOPIC.value,
    show_default=True,
    help="One file per resource, or one per name prefix (up to the first dot).",
)
@click.option(
    "--overwrite",
    is_flag=True,
    help="Replace existing files, with everything that people wrote there. Otherwise an existing file is "
    "an error.",
)
@click.option(
    "--label",
    "labels",
    multiple=True,
    callback=_labels,
    metavar="NAME=VALUE",
    help="Give every manifest this label (repeatable), such as team=checkout; with --match, those of a team.",
)
@click.option(
    "--defaults",
    is_flag=True,
    help="Print the values that most topics share, as `defaults:` for kafkaform.yaml, and write no files. An "
    "import afterwards leaves them out of the manifests.",
)
@click.option("--dry-run", is_flag=True, help="Show which files would be written, without writing them.")
def import_(
    where: Where,
    out: Path | None,
    all_clusters: bool,
    globs: tuple[str, ...],
    kinds: tuple[str, ...],
    by: str,
    overwrite: bool,
    labels: Mapping[str, str],
    defaults: bool,
    dry_run: bool,
) -> int:
    """Write manifests for the topics and groups of a live cluster.

    The manifests contain each resource's own values, without those that equal the defaults of kafkaform.yaml.
    A plan made right after an import is empty. Resources that a manifest already declares are skipped.
    """
    selected = Selection(globs, tuple(KINDS_BY_NOUN[kind] for kind in kinds or KINDS_BY_NOUN))
    options = _Options(selected, By(by), overwrite, dry_run, labels)
    if all_clusters and defaults:
        raise UsageError("--defaults is about one cluster", hint="name one: --cluster")
    if all_clusters:
        ask = partial(_import_one, options=options, parent=out or _EACH)
        return ask_all(where, ask, Fleet("import", "text"))
    session = Session.start(where)
    session.require_cluster()
    session.tell()
    if defaults:
        return _print_defaults(session, options)
    folder = out or session.settings.manifests[0]
    made = _import(session, folder, session.settings.manifests, options)
    _tell(made, folder, session, dry_run=dry_run)
    return _code(made)


@dataclass(frozen=True, slots=True)
class _Options:
    """The resources to import, and how their files are written."""

    selection: Selection
    by: By
    overwrite: bool
    dry_run: bool
    labels: Mapping[str, str]


def _print_defaults(session: Session, options: _Options) -> int:
    """Print the values that most of the live resources share, for the configuration file."""
    context = session.settings.context(session.environment)
    observation, _ = _observe(session, options)
    shared = shared_values(observation, context)
    if not shared:
        click.echo(
            "no value is shared by more than half of the topics, besides the existing defaults", err=True
        )
        return 0
    click.echo(yaml.safe_dump({"defaults": {KINDS_BY_NOUN["topic"]: shared}}, sort_keys=False), nl=False)
    if session.settings.defaults:
        click.echo(f"note: {session.settings.file} has defaults: merge the two by hand", err=True)
    return 0


def _import_one(session: Session, *, options: _Options, parent: Path) -> Answer:
    """Import one of several clusters into a folder of its own, which alone holds what is declared for it."""
    name = session.require_cluster().name
    folder = parent / path_part(name, "--all-clusters")
    made = _import(session, folder, [folder], options)

    def print_next() -> None:
        if made.files and not options.dry_run:
            click.echo(printable(f"Next: {command('plan', str(folder), options=('--cluster', name))}"))
        for line in problems_of(made):
            click.echo(f"cluster {printable(name)}: {line}", err=True)

    return Answer(made, _code(made), {"folder": folder, "dry_run": options.dry_run}, print_next)


def _code(made: Import) -> int:
    return 1 if made.unread or made.unlike else 0


def _import(session: Session, folder: Path, manifests: Sequence[Path], options: _Options) -> Import:
    """Write manifests of a live cluster, but for what other manifests declare."""
    context = session.settings.context(session.environment)
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file", hint="give a folder: --out DIR")
    present = [path for path in manifests if _with_manifests(path)]
    declared = {one.ref: one.location for one in load(present, context)}
    observation, selection = _observe(session, options)
    layout = ImportLayout(
        folder, options.by, _schemas(session.settings.file), options.overwrite, options.labels
    )
    made = make_import(observation, selection, declared, context, layout)
    _check_files(made.files, context, overwrite=options.overwrite)
    if not options.dry_run:
        write_files({file.path: file.text for file in made.files}, overwrite=options.overwrite)
    return made


def _observe(session: Session, options: _Options) -> tuple[Observation, Selection]:
    """Read what is selected in detail, and return the selection with what the configuration ignores."""
    target = session.require_cluster()
    selection = replace(options.selection, ignore=session.settings.ignore)
    with session.cluster() as cluster:
        if target.cluster_id is not None:
            check_identity(cluster.facts(), target)
        observation = cluster.observe(
            (), lambda ref: selection.takes(ref) and not is_own(ref), kinds=selection.kinds
        )
        if not any(ref.kind in selection.kinds for ref in observation.inventory):
            check_visible(cluster, selection)
    _require_matches(observation, selection)
    return observation, selection


def _with_manifests(path: Path) -> bool:
    """Whether there is anything to load; a folder that has no manifest yet is where an import begins."""
    if not path.exists():
        return False
    problems: list[Problem] = []
    files = manifest_files([path], problems)
    elsewhere = any(problem.location != Location(str(path)) for problem in problems)
    return bool(files) or elsewhere or not os.access(path, os.R_OK | os.X_OK)


def _require_matches(observation: Observation, selection: Selection) -> None:
    names = [ref.name for ref in observation.inventory if ref.kind in selection.kinds]
    for glob in selection.globs:
        if not any(Selection((glob,), selection.kinds).takes(ref) for ref in observation.inventory):
            near = nearest(glob, names)
            hint = f"did you mean {near}?" if near else "kafkaform get topics and get groups list the names"
            raise KafkaformError(f"nothing on the cluster matches {glob!r}; nothing was written", hint=hint)


def _schemas(config_file: str | None) -> Path | None:
    """The schemas that `kafkaform init` wrote beside the configuration file, if it did."""
    schemas = (Path(config_file).parent if config_file else Path()) / "schemas"
    return schemas if (schemas / "topic.schema.json").exists() else None


def _check_files(files: Sequence[ImportedFile], context: Context, *, overwrite: bool) -> None:
    """Refuse to replace what nobody allowed to be replaced, or what would be lost."""
    present = [file for file in files if os.path.lexists(file.path)]
    if present and not overwrite:
        more = f" and {len(present) - 1:,} more" if len(present) > 1 else ""
        raise KafkaformError(
            f"{present[0].path}{more} already exists; nothing was written",
            hint="choose another --out, or replace with --overwrite (this loses what people wrote there)",
        )
    for file in present:
        lost = sorted({one.ref for one in load([file.path], context)} - {*file.refs})
        if lost:
            names = ", ".join(map(str, lost[:3])) + (", …" if len(lost) > 3 else "")
            raise KafkaformError(
                f"{file.path} also declares {names}, which would be lost; nothing was written",
                hint="move those manifests to another file, or choose another --out",
            )


def _tell(made: Import, folder: Path, session: Session, *, dry_run: bool) -> None:
    show("import", "text", made, folder=folder, dry_run=dry_run)
    if made.files and not dry_run:
        known = any(folder.resolve().is_relative_to(path.resolve()) for path in session.settings.manifests)
        click.echo(printable(f"Next: {command('plan', *(() if known else (str(folder),)))}"))
        if not known and session.settings.file is not None:
            click.echo(
                printable(
                    f"Note: {folder} is not listed in `manifests:` of the configuration: give its "
                    f"path to plan"
                ),
                err=True,
            )
    for line in problems_of(made):
        click.echo(line, err=True)
