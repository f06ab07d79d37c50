"""`kafkaform plan`."""

from __future__ import annotations

import shlex
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafkaform.cli.options import (
    Where,
    allow_option,
    paths_argument,
    prune_option,
    target_option,
    where_options,
)
from kafkaform.cli.output import (
    header,
    plan_format_option,
    print_plan,
    tell,
    telling_problems,
    verbose_option,
    write_file,
)
from kafkaform.cli.session import Session
from kafkaform.cli.show import PLAN_SUFFIX
from kafkaform.consent import Grant
from kafkaform.errors import UsageError
from kafkaform.model import Plan, Status
from kafkaform.planning import Request, make_plan
from kafkaform.report.printable import printable
from kafkaform.rules import plugins
from kafkaform.skew_report import read_skew_report
from kafkaform.units import parse_duration

if TYPE_CHECKING:
    from kafkaform.cluster.protocol import Cluster
    from spark_validation.results import Report


@click.command()
@paths_argument
@where_options
@target_option
@allow_option
@prune_option
@click.option(
    "--skew",
    "skew_report",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="REPORT.json",
    help="Judge partition increases by this report of kafkaform skew, and refuse those that a topic's skew "
    "policy forbids.",
)
@click.option(
    "--max-age",
    metavar="DURATION",
    default="7d",
    show_default=True,
    help="How old that report may be.",
)
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Also save the plan, for apply and show.",
)
@plan_format_option
@verbose_option
@click.option("--detailed-exitcode", is_flag=True, help="Exit 2 if there are changes, 0 if there are none.")
@click.option("--strict", is_flag=True, help="Exit 1 if a change is refused or needs consent.")
def plan(
    paths: tuple[Path, ...],
    where: Where,
    targets: tuple[str, ...],
    allow: tuple[str, ...],
    prune: bool,
    skew_report: Path | None,
    max_age: str,
    out: Path | None,
    output_format: str,
    verbose: bool,
    detailed_exitcode: bool,
    strict: bool,
) -> int:
    """Show what would change on the cluster, and change nothing.

    PATHs are manifests or folders of them; without any, those of kafkaform.yaml (or topics/).
    """
    if out is not None and out.suffix != PLAN_SUFFIX:
        raise UsageError(f"--out {out}: the name of a saved plan ends in {PLAN_SUFFIX}")
    grants = tuple(map(Grant.parse, allow))
    oldest = _oldest(max_age)
    with telling_problems(output_format):
        session = Session.start(where)
        session.require_cluster()
        skew = None
        if skew_report is not None:
            skew = read_skew_report(skew_report, max_age=oldest)
        with session.cluster() as cluster:
            made = plan_now(session, cluster, paths, targets, grants, prune=prune, skew=skew)
    about = header(session)
    if out is not None:
        from kafkaform.plan_file import plan_to_json

        write_file(out, plan_to_json(made, about))
    policies = {policy.code: policy for policy in session.settings.policies}
    print_plan(made, about, output_format, verbose=verbose, policies=policies)
    if out is not None:
        file = printable(shlex.quote(str(out)))
        click.echo(f"saved: kafkaform apply {file} carries out exactly this", err=True)
    return exit_code(made, detailed=detailed_exitcode, strict=strict)


def plan_now(
    session: Session,
    cluster: Cluster,
    paths: tuple[Path, ...],
    targets: tuple[str, ...],
    grants: tuple[Grant, ...],
    *,
    prune: bool,
    skew: Report | None = None,
) -> Plan:
    """Read the manifests and the cluster, and plan."""
    plugins.load()
    subset = session.is_subset(paths, targets)
    if prune and subset:
        raise UsageError(
            "--prune needs all manifests: with a part of them, everything else would look undeclared",
            hint="leave out --target and PATH",
        )
    if prune and not session.settings.owns:
        raise UsageError(
            "--prune deletes only inside owns:, which is empty", hint="set owns: in kafkaform.yaml"
        )
    desired = session.manifests(paths, targets)
    request = Request(desired, subset, prune, grants, session.environment, skew)
    return make_plan(request, cluster, session.settings, session.target, tell=tell)


def _oldest(max_age: str) -> timedelta:
    try:
        return timedelta(milliseconds=parse_duration(max_age))
    except (ValueError, OverflowError) as error:
        raise UsageError(f"--max-age: {error}") from error


def exit_code(made: Plan, *, detailed: bool, strict: bool) -> int:
    """The exit code of a plan: 1 could not tell or (strict) held back, 2 changes (detailed), else 0."""
    if made.unknown:
        return 1
    if strict and (made.with_status(Status.REFUSED) or made.with_status(Status.NEEDS_CONSENT)):
        return 1
    return 2 if detailed and made.changes else 0
