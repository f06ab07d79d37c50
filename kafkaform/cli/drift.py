"""`kafkaform drift`."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from kafkaform.cli.options import (
    SectionedCommand,
    Where,
    paths_argument,
    report_option,
    require_files,
    target_option,
    where_options,
)
from kafkaform.cli.output import (
    header,
    print_text,
    put,
    telling_problems,
    verbose_option,
    workspace,
)
from kafkaform.cli.session import Session
from kafkaform.cli.terminal import prose_width
from kafkaform.core.errors import AuditError, KafkaformError, UsageError
from kafkaform.core.files import write_file
from kafkaform.inspect.drift import Drift, Unmanaged, Verdict, find_drift, has_drift
from kafkaform.plan.planning import Request, build_plan
from kafkaform.report.drift_ways import Reach
from kafkaform.resources import KINDS
from kafkaform.rules import plugins

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from kafkaform.audit.trail import Trail
    from kafkaform.cluster.protocol import Cluster
    from kafkaform.config.settings import ClusterSettings
    from kafkaform.core.model import Desired, Plan
    from kafkaform.plan.plan_header import PlanHeader

_CODES = {Verdict.CLEAN: 0, Verdict.UNKNOWN: 1, Verdict.DRIFT: 2}


@click.command(cls=SectionedCommand)
@paths_argument
@where_options
@target_option
@click.option(
    "--unmanaged",
    type=click.Choice([choice.value for choice in Unmanaged]),
    help="Topics and groups that no manifest declares: not looked for, told, or counted as drift.  "
    "[default: report; with a part of the manifests: ignore]",
)
@click.option("--adopt", is_flag=True, help="Write what the cluster has into the manifests.")
@click.option("--dry-run", is_flag=True, help="With --adopt: show the edits, and write nothing.")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json", "markdown", "prometheus", "github"]),
    default="text",
    show_default=True,
    help="text for people, json for programs (schemas/drift.schema.json), markdown for an issue, prometheus "
    "for the textfile collector of node_exporter, github for annotations.",
)
@report_option
@verbose_option
def drift(
    paths: tuple[Path, ...],
    where: Where,
    targets: tuple[str, ...],
    unmanaged: str | None,
    adopt: bool,
    dry_run: bool,
    output_format: str,
    out: Path | None,
    verbose: bool,
) -> int:
    """Say how the live cluster differs from the manifests, since when, and how to settle it.

    PATHs are manifests or folders of them; without any, those of kafkaform.yaml (or topics/). Brokers are
    asked for readings alone. Exits 0 if all is as declared, 2 if not, 1 if it could not tell.
    """
    if dry_run and not adopt:
        raise UsageError("--dry-run belongs to --adopt", hint="drift itself changes nothing")
    if adopt and (output_format != "text" or out is not None):
        raise UsageError("--adopt shows the edits, and no report", hint="leave out --format and --out")
    if adopt:
        require_files(paths, "--adopt writes into manifests")
    recorded = not adopt and output_format != "prometheus"
    with telling_problems(output_format):
        session = Session.start(where)
        target = session.require_cluster()
        plugins.load()
        with _telling_failure(target.name, output_format, out):
            subset = session.is_subset(paths, targets)
            looked_for = _looked_for(unmanaged, subset=subset)
            with session.cluster() as cluster:
                desired = session.manifests(paths, targets, found=cluster.begin())
                plan = _plan(session, cluster, desired, looked_for, subset=subset)
                trail = _record(target, cluster, plan) if recorded else "it was not asked for"
    found = find_drift(plan, desired, trail, unmanaged=looked_for)
    if adopt:
        return _adopt(found, session.manifests(paths), session, dry_run=dry_run)
    _report(found, session, _reach(paths, session), output_format, out, verbose=verbose)
    return _CODES[found.verdict]


def _looked_for(unmanaged: str | None, *, subset: bool) -> Unmanaged:
    if not subset:
        return Unmanaged(unmanaged or Unmanaged.REPORT)
    if unmanaged not in {None, Unmanaged.IGNORE}:
        raise UsageError(
            f"--unmanaged {unmanaged} needs all manifests: with a part of them, everything else would look "
            "undeclared",
            hint="leave out --target and PATH",
        )
    return Unmanaged.IGNORE


def _plan(
    session: Session, cluster: Cluster, desired: Sequence[Desired], unmanaged: Unmanaged, *, subset: bool
) -> Plan:
    inventory = ("Topic",) if unmanaged is Unmanaged.IGNORE else tuple(KINDS)
    request = Request(desired, subset, environment=session.environment, inventory=inventory, reading=True)
    return build_plan(request, cluster, session.settings, session.target)


def _record(target: ClusterSettings, cluster: Cluster, plan: Plan) -> Trail | str:
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


@contextmanager
def _telling_failure(name: str, output_format: str, out: Path | None) -> Iterator[None]:
    """Tell whoever scrapes that a run failed: they must not go on reading that all is as declared."""
    try:
        yield
    except KafkaformError:
        if output_format == "prometheus":
            from kafkaform.report.drift_prometheus import drift_metrics

            put(drift_metrics(None, name, time.time()), out)
        raise


def _report(
    found: Drift, session: Session, reach: Reach, output_format: str, out: Path | None, *, verbose: bool
) -> None:
    about = header(session)
    match output_format:
        case "json":
            from kafkaform.report.drift_json import drift_to_json

            put(drift_to_json(found, about, reach), out)
        case "markdown":
            from kafkaform.report.drift_markdown import render_drift_markdown

            put(render_drift_markdown(found, about, reach), out)
        case "prometheus":
            from kafkaform.report.drift_prometheus import drift_metrics

            put(drift_metrics(found, session.require_cluster().name, time.time()), out)
        case "github":
            from kafkaform.report.drift_json import drift_commands

            put(drift_commands(found, reach, workspace()), out)
        case _:
            _report_text(found, about, reach, out, verbose=verbose)


def _report_text(found: Drift, about: PlanHeader, reach: Reach, out: Path | None, *, verbose: bool) -> None:
    from kafkaform.report.drift_text import render_drift

    width = prose_width(sys.stdout) if out is None else None
    text = render_drift(found, about, reach, verbose=verbose, width=width)
    if out is None:
        print_text(text)
    else:
        write_file(out, text.plain + "\n")


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
    from kafkaform.report.edits import render_adoption

    wanted = adoption(found)
    editing = edit(wanted.edits, desired, session.settings.context(session.environment))
    if not dry_run:
        write(editing)
    print_text(render_adoption(wanted, editing, written=not dry_run))
    return 1 if wanted.refused or editing.refused else 0
