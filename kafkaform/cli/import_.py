"""`kafkaform import`."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
import yaml

from kafkaform.cli.fleet import ClusterOutcome, Fleet, path_part, run_on_clusters
from kafkaform.cli.options import (
    KINDS_BY_NOUN,
    ClusterSelector,
    SectionedCommand,
    clusters_option,
    kinds_option,
    match_option,
    option_group,
    where_options,
)
from kafkaform.cli.output import render
from kafkaform.cli.session import Session
from kafkaform.cli.terminal import echo_prose
from kafkaform.config.manifests.files import find_manifest_files
from kafkaform.config.manifests.loader import Context, load
from kafkaform.config.settings import DEFAULT_IGNORE
from kafkaform.config.starter import find_schemas, list_missing_support
from kafkaform.core.errors import KafkaformError, Problem, UsageError
from kafkaform.core.files import write_files
from kafkaform.core.model import Location, Observation
from kafkaform.core.printable import printable
from kafkaform.core.values import Value, replace
from kafkaform.core.wording import command, counted
from kafkaform.inspect.importers import AUTO, IMPORTERS, read_foreign
from kafkaform.inspect.importing import (
    MIN_PROFILE_SIZE,
    NOTHING_ADDED,
    FileGrouping,
    Import,
    ImportedFile,
    ImportLayout,
    find_profiles,
    make_import,
    shared_values,
)
from kafkaform.inspect.resource_status import Selection, check_visible
from kafkaform.plan.planning import check_identity
from kafkaform.plan.policy import is_own
from kafkaform.report.edits import list_problems
from kafkaform.resources import TOPIC, nearest_name

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from kafkaform.inspect.importers.conversion import Conversion

_PARENT_OF_CLUSTERS = Path("clusters")
"""The parent of the folders of clusters, outside `manifests:`: there, a topic of two clusters would clash."""


def _parse_labels(
    _context: click.Context, _option: click.Parameter, given: tuple[str, ...]
) -> dict[str, str]:
    """Parse labels; raises UsageError if one has no name or no value."""
    labels = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not (name.strip() and equals and value.strip()):
            raise UsageError(f"--label {text}: not NAME=VALUE", hint="write e.g. --label team=checkout")
        labels[name.strip()] = value.strip()
    return labels


class ImportOptions(Value):
    """The resources to import, and their files.

    Attributes:
        files: The files of another tool, instead of a cluster.
        tool: The tool; None if none was given.
        source_cluster: The cluster in these files whose resources are taken.
        out: The folder to write to.
        clusters: The selected clusters; empty for one. Each is imported.
        globs: Only resources with these names.
        kinds: Only resources of these kinds.
        by: The division of resources into files.
        overwrite: Whether existing files are replaced.
        labels: The labels that every manifest gets.
        defaults: Whether shared values are printed instead.
        profiles: Whether profiles are printed instead.
        dry_run: Whether nothing is written.
    """

    files: tuple[Path, ...]
    tool: str | None
    source_cluster: str | None
    out: Path | None
    clusters: tuple[str, ...]
    globs: tuple[str, ...]
    kinds: tuple[str, ...]
    by: str
    overwrite: bool
    labels: Mapping[str, str]
    defaults: bool
    profiles: bool
    dry_run: bool


@click.command("import", cls=SectionedCommand)
@where_options
@option_group(
    ImportOptions,
    "given",
    click.argument("files", nargs=-1, type=click.Path(path_type=Path), metavar="[FILE]..."),
    click.option(
        "--from",
        "tool",
        type=click.Choice([AUTO, *IMPORTERS]),
        help="Read the manifests of another tool from FILE, a folder or -, without a cluster.  [default: "
        "auto, if there are files]",
    ),
    click.option(
        "--source-cluster",
        metavar="NAME",
        help="Of files of several clusters, take the resources of this one.",
    ),
    click.option(
        "-o",
        "--out",
        type=click.Path(path_type=Path, file_okay=False),
        metavar="DIR",
        help="The folder to write to.  [default: the first of `manifests:` in kafkaform.yaml, or topics; "
        "with --clusters: clusters]",
    ),
    clusters_option("Each gets a folder of its name below --out."),
    match_option,
    kinds_option,
    click.option(
        "--by",
        type=click.Choice([by.value for by in FileGrouping]),
        default=FileGrouping.TOPIC.value,
        show_default=True,
        help="One file per resource, or one per name prefix (up to the first dot).",
    ),
    click.option(
        "--overwrite",
        is_flag=True,
        help="Replace existing files, with everything in them. Otherwise an existing file is an error.",
    ),
    click.option(
        "--label",
        "labels",
        multiple=True,
        callback=_parse_labels,
        metavar="NAME=VALUE",
        help="Give every manifest this label (repeatable), such as team=checkout.",
    ),
    click.option(
        "--defaults",
        is_flag=True,
        help="Print the values that most topics share, as `defaults:` for kafkaform.yaml, and write no "
        "files.",
    ),
    click.option(
        "--profiles",
        is_flag=True,
        help="Print the settings that five topics or more have alike, as `profiles:` for kafkaform.yaml, "
        "and write no files.",
    ),
    click.option("--dry-run", is_flag=True, help="Show which files would be written, without writing them."),
)
def import_(where: ClusterSelector, given: ImportOptions) -> int:
    """Write manifests for the resources of a cluster.

    With FILEs, write what the files of another tool mean; what has no counterpart is listed.

    Written are each resource's own values, without those that equal the defaults of kafkaform.yaml. A plan
    right after an import is empty. Declared resources are skipped.
    """
    selected = Selection(given.globs, tuple(KINDS_BY_NOUN[kind] for kind in given.kinds or KINDS_BY_NOUN))
    conversion = _read_files(given)
    options = _Options(
        selected, FileGrouping(given.by), given.overwrite, given.dry_run, given.labels, conversion
    )
    if given.clusters and (given.defaults or given.profiles):
        raise UsageError("--defaults and --profiles are about one cluster", hint="name one: --cluster")
    if given.clusters:
        run = partial(_import_one, options=options, parent=given.out or _PARENT_OF_CLUSTERS)
        return run_on_clusters(where, run, Fleet(given.clusters, "import", "text"))
    session = Session.start(where) if conversion is None else Session.start_offline(where)
    if conversion is None:
        session.require_cluster()
    session.tell()
    if given.defaults or given.profiles:
        return _print_shared(session, options, profiles=given.profiles)
    # By default, a folder that plans read: the import can be planned without further options.
    folder = given.out or session.settings.manifests[0]
    made = _import(session, folder, session.settings.manifests, options)
    _tell(made, folder, session, dry_run=given.dry_run)
    return _exit_code(made)


def _read_files(given: ImportOptions) -> Conversion | None:
    """Read the files of another tool; None if a cluster is imported."""
    if not given.files:
        if given.tool is not None:
            raise UsageError("--from needs files", hint=f"give their paths: --from {given.tool} FILE")
        if given.source_cluster is not None:
            raise UsageError(
                "--source-cluster is a cluster in files", hint="for a live cluster: --cluster NAME"
            )
        return None
    if given.clusters:
        raise UsageError("--clusters is about clusters, not files", hint="leave out one of them")
    return read_foreign(given.files, given.tool or AUTO, given.source_cluster)


class _Options(Value):
    """The resources to import, and the options of their files; with a conversion, no cluster is read."""

    selection: Selection
    by: FileGrouping
    overwrite: bool
    dry_run: bool
    labels: Mapping[str, str]
    conversion: Conversion | None


def _print_shared(session: Session, options: _Options, *, profiles: bool) -> int:
    """Print the values that live topics share, as defaults or as profiles, for the configuration file."""
    context, settings = session.build_context(), session.settings
    observation, _ = _observe(session, options)
    present: Mapping[str, object]
    if profiles:
        name, shared, present = "profiles", find_profiles(observation, context), settings.profiles
        nothing = (
            f"no settings are equal in {counted(MIN_PROFILE_SIZE, 'topic')}, besides those of the profiles"
        )
    else:
        values = shared_values(observation, context)
        name, shared, present = "defaults", {TOPIC.name: values} if values else {}, settings.defaults
        nothing = "no value is shared by more than half of the topics, besides the existing defaults"
    if not shared:
        click.echo(nothing, err=True)
        return 0
    # Printed, not written: an edit would lose the comments and the order of the configuration file.
    click.echo(yaml.safe_dump({name: shared}, sort_keys=False), nl=False)
    if present:
        click.echo(f"note: {settings.file} has {name}: merge the two by hand", err=True)
    return 0


def _import_one(session: Session, *, options: _Options, parent: Path) -> ClusterOutcome:
    """Import one of several clusters into a folder of its own, whose manifests are the only ones read."""
    name = session.require_cluster().name
    folder = parent / path_part(name, "--clusters")
    made = _import(session, folder, [folder], options)

    def print_problems_and_next() -> None:
        for line in list_problems(made):
            echo_prose(f"cluster {printable(name)}: {line}", err=True)
        if made.files and not options.dry_run:
            click.echo(printable(f"Next: {command('plan', str(folder), options=('--cluster', name))}"))

    return ClusterOutcome(
        made, _exit_code(made), {"folder": folder, "dry_run": options.dry_run}, print_problems_and_next
    )


def _exit_code(made: Import) -> int:
    problems = made.unread or made.undeclarable or made.not_converged or made.unconverted
    return int(bool(problems) or not made.is_complete)


def _import(session: Session, folder: Path, manifests: Sequence[Path], options: _Options) -> Import:
    """Write manifests of a live cluster, except for resources that are already declared."""
    context = session.build_context()
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file", hint="give a folder: --out DIR")
    # Before the cluster is read, so that an error in an existing manifest is reported at once. Without a list
    # of the declared resources, an import would declare them a second time.
    present = [path for path in manifests if _has_manifests(path)]
    if options.conversion is not None:
        present = _exclude_sources(present, options.conversion.files, folder)
    declared = {resource.ref: resource.location for resource in load(present, context)}
    observation, selection = _observe(session, options)
    # In a repository without them, so that editors help with what was imported.
    support = list_missing_support(session.settings.file)
    home = next((path.parent for path in support), find_schemas(session.settings.file))
    layout = ImportLayout(folder, options.by, home, options.overwrite, options.labels)
    conversion = options.conversion
    additions = conversion.additions if conversion is not None else NOTHING_ADDED
    made = make_import(observation, selection, declared, context, layout, additions)
    if conversion is not None:
        made = replace(
            made,
            partial=(),
            not_converged={},
            undeclarable={},
            unconverted=conversion.list_unconverted(made),
            notes=tuple(map(str, conversion.notes.remarks)),
        )
    made = replace(made, support=tuple(support), ignored_by_default=selection.ignore == DEFAULT_IGNORE)
    # All files are checked before the first is written, so that an error leaves no partial import.
    _check_files(made.files, context, overwrite=options.overwrite)
    if not options.dry_run:
        write_files({file.path: file.text for file in made.files}, overwrite=options.overwrite)
        # Replaced, as imports of several clusters at the same time write the same.
        write_files(support, overwrite=True)
    return made


def _observe(session: Session, options: _Options) -> tuple[Observation, Selection]:
    """Read the selected resources in detail; also returns the selection with the configured `ignore`."""
    selection = replace(options.selection, ignore=session.settings.ignore)
    if options.conversion is not None:
        _require_matches(options.conversion.observation, selection, "in the files")
        return options.conversion.observation, selection
    target = session.require_cluster()
    with session.cluster() as cluster:
        if target.cluster_id is not None:
            check_identity(cluster.facts(), target)
        observation = cluster.observe(
            (), lambda ref: selection.takes(ref) and not is_own(ref), kinds=selection.kinds
        )
        # Kafka leaves resources out of lists that the user may not describe: an empty list may mean missing
        # rights.
        if not any(ref.kind in selection.kinds for ref in observation.inventory):
            for note in observation.diagnostics:
                click.echo(printable(f"note: {note.message}"), err=True)
            check_visible(cluster, selection)
    _require_matches(observation, selection, "on the cluster")
    return observation, selection


def _has_manifests(path: Path) -> bool:
    """Return whether a path has files to load; the folder of a first import has none yet."""
    if not path.exists():
        return False
    problems: list[Problem] = []
    files = find_manifest_files([path], problems)
    has_bad_entries = any(problem.location != Location(str(path)) for problem in problems)
    # A folder that cannot be read counts as one with manifests, so that `load` reports it. As an empty
    # folder, it would let the import declare its resources a second time.
    return bool(files) or has_bad_entries or not os.access(path, os.R_OK | os.X_OK)


def _exclude_sources(present: list[Path], sources: Collection[Path], folder: Path) -> list[Path]:
    """Return the paths of manifests without the files of another tool, which may be in the same folder.

    Raises:
        UsageError: The import would write manifests beside these files, and no plan could read the folder.
    """
    resolved = {source.resolve() for source in sources}
    problems: list[Problem] = []
    files = find_manifest_files(present, problems)
    if problems or resolved.isdisjoint(file.resolve() for file in files):
        return present  # loading them reports the problems
    if any(source.is_relative_to(folder.resolve()) for source in resolved):
        raise UsageError(
            f"{folder} has the files to import, and is the folder of manifests",
            hint="write the manifests to another one: --out DIR",
        )
    return [file for file in files if file.resolve() not in resolved]


def _require_matches(observation: Observation, selection: Selection, source: str) -> None:
    names = [ref.name for ref in observation.inventory if ref.kind in selection.kinds]
    for glob in selection.globs:
        if not any(Selection((glob,), selection.kinds).takes(ref) for ref in observation.inventory):
            near = nearest_name(glob, names)
            hint = f"did you mean {near}?" if near else "--dry-run without --match lists the names"
            raise KafkaformError(f"nothing {source} matches {glob!r}; nothing was written", hint=hint)


def _check_files(files: Sequence[ImportedFile], context: Context, *, overwrite: bool) -> None:
    """Refuse to replace files without --overwrite, or with manifests of other resources."""
    # `lexists` also finds a symbolic link without a target.
    present = [file for file in files if os.path.lexists(file.path)]
    if present and not overwrite:
        suffix = f" and {len(present) - 1:,} more" if len(present) > 1 else ""
        raise KafkaformError(
            f"{present[0].path}{suffix} already exists; nothing was written",
            hint="choose another --out, or replace with --overwrite (this loses what people wrote there)",
        )
    for file in present:
        # With --by prefix, one file has several resources. Others in it, by hand, are not part of the import.
        if not file.refs:
            continue  # such as a schema, which no manifest is lost with
        lost = sorted({resource.ref for resource in load([file.path], context)} - {*file.refs})
        if lost:
            names = ", ".join(map(str, lost[:3])) + (", …" if len(lost) > 3 else "")
            raise KafkaformError(
                f"{file.path} also declares {names}, which would be lost; nothing was written",
                hint="move those manifests to another file, or choose another --out",
            )


def _tell(made: Import, folder: Path, session: Session, *, dry_run: bool) -> None:
    echo_prose(str(render("import", "text", made, folder=folder, dry_run=dry_run)))
    for line in list_problems(made):
        echo_prose(line, err=True)
    if made.files and not dry_run:
        is_configured = any(
            folder.resolve().is_relative_to(path.resolve()) for path in session.settings.manifests
        )
        echo_prose(printable(f"Next: {command('plan', *(() if is_configured else (str(folder),)))}"))
        if not is_configured and session.settings.file is not None:
            echo_prose(
                printable(
                    f"Note: {folder} is not listed in `manifests:` of the configuration: give its "
                    f"path to plan"
                ),
                err=True,
            )
