"""`kafkaform drift`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from kafkaform.cli.fleet import Answer, Fleet, ask_all
from kafkaform.cli.options import (
    SectionedCommand,
    Where,
    all_clusters_option,
    paths_argument,
    report_option,
    require_files,
    target_option,
    where_options,
)
from kafkaform.cli.output import (
    failure_as_metrics,
    format_option,
    header,
    problems_as_annotations,
    show,
    verbose_option,
)
from kafkaform.cli.session import Session
from kafkaform.core.errors import AuditError, UsageError
from kafkaform.inspect.drift import Drift, DriftVerdict, Unmanaged, find_drift, has_drift
from kafkaform.plan.planning import Request, build_plan
from kafkaform.report.drift_ways import Reach
from kafkaform.resources import KINDS
from kafkaform.rules import plugins

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from kafkaform.audit.trail import Trail
    from kafkaform.cluster.protocol import AuditReader, ClusterReader
    from kafkaform.config.settings import ClusterSettings
    from kafkaform.core.model import Desired, Plan

_CODES = {DriftVerdict.CLEAN: 0, DriftVerdict.UNKNOWN: 1, DriftVerdict.DRIFT: 2}


@click.command(cls=SectionedCommand)
@paths_argument
@where_options
@target_option
@click.option(
    "--unmanaged",
    type=click.Choice([choice.value for choice in Unmanaged]),
    help="Topics and groups that no manifest declares: ignore them, list them, or count them as drift.  "
    "[default: report; ignore for a subset of the manifests]",
)
@all_clusters_option("Compare every cluster of kafkaform.yaml with the manifests.")
@click.option("--adopt", is_flag=True, help="Write the live values into the manifests.")
@click.option("--dry-run", is_flag=True, help="With --adopt: show the edits without writing them.")
@format_option(
    "drift",
    "text for people, json for programs (schemas/drift.schema.json), markdown for an issue, prometheus "
    "for the textfile collector of node_exporter, github for annotations.",
)
@report_option
@verbose_option
def drift(
    paths: tuple[Path, ...],
    where: Where,
    targets: tuple[str, ...],
    unmanaged: str | None,
    all_clusters: bool,
    adopt: bool,
    dry_run: bool,
    output_format: str,
    out: Path | None,
    verbose: bool,
) -> int:
    """Show how the cluster differs from the manifests, since when, and how to fix it.

    PATHs are manifests or folders of manifests; the default is `manifests:` of kafkaform.yaml, or topics/.
    Reads from the brokers only. Exits 0 if everything is as declared, 2 on drift, 1 if that could not be
    determined.
    """
    if dry_run and not adopt:
        raise UsageError("--dry-run needs --adopt", hint="drift without --adopt changes nothing")
    if adopt and (output_format != "text" or out is not None):
        raise UsageError("--adopt prints the edits instead of a report", hint="leave out --format and --out")
    if adopt:
        require_files(paths, "--adopt writes into manifests")
    recorded = not adopt and output_format != "prometheus"
    compare = partial(_compare, paths=paths, targets=targets, unmanaged=unmanaged, recorded=recorded)
    if all_clusters:
        return _compare_all(where, compare, paths, Fleet("drift", output_format, verbose, out), adopt=adopt)
    with problems_as_annotations(output_format):
        session = Session.start(where)
        target = session.require_cluster()
        plugins.load()
        with failure_as_metrics("drift", output_format, target.name, out):
            found = compare(session)
    if adopt:
        return _adopt(found, session.manifests(paths), session, dry_run=dry_run)
    options = _options(paths, session)
    show("drift", output_format, found, out=out, name=target.name, verbose=verbose, **options)
    return _CODES[found.verdict]


def _compare_all(
    where: Where, compare: Callable[[Session], Drift], paths: Sequence[Path], fleet: Fleet, *, adopt: bool
) -> int:
    """Compare every cluster of the configuration with the manifests."""
    if adopt:
        raise UsageError("--adopt writes what one cluster has", hint="leave out --all-clusters")
    require_files(paths, "--all-clusters reads the manifests once for each cluster")

    def ask(session: Session) -> Answer:
        found = compare(session)
        return Answer(found, _CODES[found.verdict], _options(paths, session))

    return ask_all(where, ask, fleet)


def _compare(
    session: Session,
    *,
    paths: tuple[Path, ...],
    targets: tuple[str, ...],
    unmanaged: str | None,
    recorded: bool,
) -> Drift:
    """Compare one cluster with the manifests."""
    target = session.require_cluster()
    subset = session.is_subset(paths, targets)
    looked_for = _looked_for(unmanaged, subset=subset)
    with session.cluster() as cluster:
        desired = session.manifests(paths, targets, found=cluster.prefetch())
        plan = _plan(session, cluster, desired, looked_for, subset=subset)
        trail = _record(target, cluster, plan) if recorded else "the record was not read"
    return find_drift(plan, desired, trail, unmanaged=looked_for)


def _options(paths: Sequence[Path], session: Session) -> dict[str, Any]:
    """Return what the renderers of drift need."""
    return {"header": header(session), "reach": _reach(paths, session)}


def _looked_for(unmanaged: str | None, *, subset: bool) -> Unmanaged:
    if not subset:
        return Unmanaged(unmanaged or Unmanaged.REPORT)
    if unmanaged not in {None, Unmanaged.IGNORE}:
        raise UsageError(
            f"--unmanaged {unmanaged} needs all manifests: with a subset, everything else would look "
            "undeclared",
            hint="leave out --target and PATH",
        )
    return Unmanaged.IGNORE


def _plan(
    session: Session,
    cluster: ClusterReader,
    desired: Sequence[Desired],
    unmanaged: Unmanaged,
    *,
    subset: bool,
) -> Plan:
    request = Request(desired, subset, environment=session.environment, reading=True)
    if unmanaged is not Unmanaged.IGNORE:
        request = replace(request, inventory=tuple(KINDS))
    return build_plan(request, cluster, session.settings, session.target)


def _record(target: ClusterSettings, cluster: AuditReader, plan: Plan) -> Trail | str:
    """What applies did, or why that is not known: no reason to keep quiet about drift."""
    if not has_drift(plan):
        return "nothing drifted"
    from kafkaform.audit.trail import read_trail

    if not target.audit.enabled:
        return "applies to this cluster are not recorded (audit: in kafkaform.yaml)"
    try:
        return read_trail(cluster, target.audit, plan.cluster_id)
    except AuditError as error:
        return error.message


def _reach(paths: Sequence[Path], session: Session) -> Reach:
    """What a command needs to be about the same manifests and cluster."""
    where = session.where
    given = {
        "--config": where.config_file,
        "--cluster": where.cluster_name,
        "--bootstrap-server": where.bootstrap_server,
        "--command-config": where.command_config,
        "--environment": where.environment,
    }
    options = [word for name, value in given.items() if value is not None for word in (name, str(value))]
    several = len(session.settings.environments or ()) > 1
    return Reach(tuple(map(str, paths)), tuple(options), session.environment if several else None)


def _adopt(found: Drift, desired: Sequence[Desired], session: Session, *, dry_run: bool) -> int:
    """Write what the cluster has into the manifests; exits 1 where a part of it cannot be.

    Args:
        found: What drifted.
        desired: All that the manifests declare: a file is edited as a whole.
        session: The session.
        dry_run: Whether to show the edits only.
    """
    from kafkaform.config.manifests.editing import edit, write
    from kafkaform.inspect.drift import adoption

    wanted = adoption(found)
    editing = edit(wanted.edits, desired, session.settings.context(session.environment))
    if not dry_run:
        write(editing)
    show("adoption", "text", wanted, editing=editing, written=not dry_run)
    return 1 if wanted.refused or editing.refused else 0
