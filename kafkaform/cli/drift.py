"""`kafkaform drift`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from kafkaform.cli.fleet import ClusterOutcome, Fleet, run_on_clusters
from kafkaform.cli.notification import NotifiedEvent, Notifier, notify_option
from kafkaform.cli.options import (
    ClusterSelector,
    SectionedCommand,
    clusters_option,
    manifests_option,
    option_group,
    paths_argument,
    report_option,
    require_files,
    target_option,
    where_options,
)
from kafkaform.cli.output import (
    ReportOutput,
    failure_as_metrics,
    format_option,
    header,
    problems_as_annotations,
    show,
    verbose_option,
)
from kafkaform.cli.session import Session
from kafkaform.core.errors import AuditError, UsageError
from kafkaform.core.values import Value, replace
from kafkaform.inspect.drift import Drift, DriftVerdict, Unmanaged, find_drift, has_drift
from kafkaform.plan.planning import Request, build_plan
from kafkaform.report.remediation import CommandContext
from kafkaform.resources import listed_kinds
from kafkaform.rules import plugins

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from kafkaform.audit.trail import Trail
    from kafkaform.cluster.protocol import AuditReader
    from kafkaform.config.settings import ClusterSettings
    from kafkaform.core.model import Desired
    from kafkaform.core.plans import Plan

_EVENTS = {DriftVerdict.DRIFT: NotifiedEvent.DRIFT, DriftVerdict.UNKNOWN: NotifiedEvent.DRIFT_UNKNOWN}
DRIFT_CODES = {DriftVerdict.CLEAN: 0, DriftVerdict.UNKNOWN: 1, DriftVerdict.DRIFT: 2}
"""The exit codes by verdict."""


class DriftOptions(Value):
    """The resources to compare, and the edits of manifests.

    Attributes:
        manifests_from: The folder of manifests of a branch that is not trusted.
        targets: Only these resources.
        unmanaged: The treatment of resources that no manifest declares.
        clusters: The selected clusters; empty for one. Each is compared.
        adopt: Whether live values are written into manifests.
        dry_run: Whether these edits are only shown.
        notify: Whether drift is reported to the webhook.
    """

    manifests_from: Path | None
    targets: tuple[str, ...]
    unmanaged: str | None
    clusters: tuple[str, ...]
    adopt: bool
    dry_run: bool
    notify: bool


@click.command(cls=SectionedCommand)
@paths_argument
@where_options
@option_group(
    DriftOptions,
    "given",
    manifests_option,
    target_option,
    click.option(
        "--unmanaged",
        type=click.Choice([choice.value for choice in Unmanaged]),
        help="Topics and groups that no manifest declares: ignore them, list them, or count them as drift. "
        "[default: report; ignore for a subset of the manifests]",
    ),
    clusters_option(),
    click.option("--adopt", is_flag=True, help="Write the live values into the manifests."),
    click.option("--dry-run", is_flag=True, help="With --adopt: show the edits without writing them."),
    notify_option,
)
@option_group(
    ReportOutput,
    "output",
    format_option(
        "drift",
        "json has schemas/drift.schema.json, markdown is for an issue, prometheus for the textfile "
        "collector of node_exporter, github for annotations.",
    ),
    report_option,
    verbose_option,
)
def drift(paths: tuple[Path, ...], where: ClusterSelector, given: DriftOptions, output: ReportOutput) -> int:
    """Show how the cluster differs from the manifests.

    PATHs are manifests or folders of manifests; the default is `manifests:` of kafkaform.yaml, or topics/.
    Also shows since when, and how to settle it. Changes nothing without --adopt. Exits 0 if everything is as
    declared, 2 on drift, 1 if that could not be determined.
    """
    if given.dry_run and not given.adopt:
        raise UsageError("--dry-run needs --adopt", hint="drift without --adopt changes nothing")
    if given.adopt and (output.output_format != "text" or output.out is not None or given.notify):
        raise UsageError(
            "--adopt prints the edits instead of a report", hint="leave out --format, --out and --notify"
        )
    if given.adopt:
        require_files(paths, "--adopt writes into manifests")
    recorded = not given.adopt and output.output_format != "prometheus"
    compare = partial(
        compare_cluster, paths=paths, targets=given.targets, unmanaged=given.unmanaged, recorded=recorded
    )
    if given.clusters:
        return _compare_all(
            where,
            compare,
            paths,
            Fleet(
                given.clusters,
                "drift",
                output.output_format,
                output.verbose,
                output.out,
                given.manifests_from,
            ),
            adopt=given.adopt,
            notify=given.notify,
        )
    with problems_as_annotations(output.output_format):
        session = Session.start(where, manifests_from=given.manifests_from)
        target = session.require_cluster()
        plugins.load()
        notifier = Notifier.prepare(session, wanted=given.notify)
        with (
            notifier.report_errors(NotifiedEvent.DRIFT_UNKNOWN),
            failure_as_metrics("drift", output.output_format, target.name, output.out),
        ):
            result = compare(session)
    if given.adopt:
        complete = not session.is_subset(paths, ())
        return _adopt(result, session.manifests(paths), session, complete=complete, dry_run=given.dry_run)
    options = _build_renderer_options(paths, session)
    show(
        "drift",
        output.output_format,
        result,
        out=output.out,
        name=target.name,
        verbose=output.verbose,
        **options,
    )
    _notify(notifier, result, options["header"].commit)
    return DRIFT_CODES[result.verdict]


def _notify(notifier: Notifier, drift: Drift, commit: str | None) -> None:
    event = _EVENTS.get(drift.verdict)
    if event is not None:
        from kafkaform.report.drift_wording import summary_sentence

        replace(notifier, commit=commit).send(event, summary_sentence(drift))


def _compare_all(
    where: ClusterSelector,
    compare: Callable[[Session], Drift],
    paths: Sequence[Path],
    fleet: Fleet,
    *,
    adopt: bool,
    notify: bool,
) -> int:
    """Compare every cluster of the configuration with the manifests."""
    if adopt:
        raise UsageError("--adopt writes what one cluster has", hint="leave out --clusters")
    require_files(paths, "--clusters reads the manifests once for each cluster")

    def run(session: Session) -> ClusterOutcome:
        notifier = Notifier.prepare(session, wanted=notify)
        with notifier.report_errors(NotifiedEvent.DRIFT_UNKNOWN):
            result = compare(session)
        options = _build_renderer_options(paths, session)
        finish = partial(_notify, notifier, result, options["header"].commit)
        return ClusterOutcome(result, DRIFT_CODES[result.verdict], options, finish)

    return run_on_clusters(where, run, fleet)


def compare_cluster(
    session: Session,
    *,
    paths: tuple[Path, ...] = (),
    targets: tuple[str, ...] = (),
    unmanaged: str | None = None,
    recorded: bool = True,
) -> Drift:
    """Compare one cluster with the manifests.

    Args:
        session: The session of the cluster.
        paths: The manifests; empty for those of the configuration.
        targets: Only these resources; empty for all.
        unmanaged: The treatment of resources that no manifest declares; None for the default.
        recorded: Whether the record of applies is read.
    """
    target = session.require_cluster()
    subset = session.is_subset(paths, targets)
    unmanaged_mode = _choose_unmanaged(unmanaged, subset=subset)
    with session.cluster() as cluster:
        desired = session.manifests(paths, targets, found=cluster.prefetch())
        partial = session.is_subset(paths, ())
        request = Request(desired, subset, environment=session.environment, reading=True, partial=partial)
        if unmanaged_mode is not Unmanaged.IGNORE:
            request = replace(request, inventory=listed_kinds(declared.ref for declared in desired))
        plan = build_plan(request, cluster, session.settings, session.target)
        trail = _read_history(target, cluster, plan) if recorded else "the record was not read"
    return find_drift(plan, desired, trail, unmanaged=unmanaged_mode)


def _build_renderer_options(paths: Sequence[Path], session: Session) -> dict[str, Any]:
    """Return what the renderers of drift need."""
    several = len(session.settings.environments or ()) > 1
    override = session.environment if several else None
    if (chosen := session.build_context()).find_sibling(()) is not None:
        override = chosen.cluster  # a value of the environment would change other clusters, too
    context = CommandContext(tuple(map(str, paths)), session.where.options(), override)
    return {"header": header(session), "context": context}


def _choose_unmanaged(unmanaged: str | None, *, subset: bool) -> Unmanaged:
    if not subset:
        return Unmanaged(unmanaged or Unmanaged.REPORT)
    if unmanaged not in {None, Unmanaged.IGNORE}:
        raise UsageError(
            f"--unmanaged {unmanaged} needs all manifests: with a subset, everything else would look "
            "unmanaged",
            hint="leave out --target and PATH",
        )
    return Unmanaged.IGNORE


def _read_history(target: ClusterSettings, cluster: AuditReader, plan: Plan) -> Trail | str:
    """Read the record of applies; returns the reason if that fails, as drift is reported without it too."""
    if not has_drift(plan):
        return "nothing drifted"
    from kafkaform.audit.trail import read_trail

    if not target.audit.enabled:
        return "applies to this cluster are not recorded (audit: in kafkaform.yaml)"
    try:
        return read_trail(cluster, target.audit, plan.cluster_id)
    except AuditError as error:
        return error.message


def _adopt(
    drift: Drift, desired: Sequence[Desired], session: Session, *, complete: bool, dry_run: bool
) -> int:
    """Write the live values into the manifests; returns the exit code, 1 if a part cannot be written.

    Args:
        desired: All declared resources: a file is edited as a whole.
        complete: Whether these are the resources of the whole repository.
        dry_run: Whether to show the edits only.
    """
    from kafkaform.config.layer_edits import edit_declarations
    from kafkaform.config.manifests.editing import write_edits
    from kafkaform.inspect.drift import plan_adoption

    result = plan_adoption(drift)
    editing = edit_declarations(
        result.edits, desired, session.settings, session.build_context(), complete=complete
    )
    _warn_of_own_changes([file.path for file in editing.files])
    if not dry_run:
        write_edits(editing)
    show("adoption", "text", result, editing=editing, written=not dry_run)
    return 1 if result.refused or editing.refused else 0


def _warn_of_own_changes(files: Sequence[Path]) -> None:
    """Warn of files that the branch has changed: what was not applied yet looks like drift."""
    from kafkaform.core.errors import RepositoryError
    from kafkaform.core.printable import printable
    from kafkaform.vcs.branch import find_changed_files

    for ref in ("origin/HEAD", "main", "master", "HEAD"):
        try:
            changed = find_changed_files(ref, files, None) if files else ()
        except RepositoryError:
            continue  # there is no such branch, or no repository
        for path in files:
            if path.resolve() in changed:
                text = (
                    f"warning: {path} has changes of this branch; the edits below undo those not applied yet"
                )
                click.echo(printable(text), err=True)
        return
