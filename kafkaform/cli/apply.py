"""`kafkaform apply`."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from kafkaform.cli.moving import Moving, moving_options
from kafkaform.cli.options import (
    SectionedCommand,
    Where,
    allow_option,
    paths_argument,
    prune_option,
    target_option,
    where_options,
)
from kafkaform.cli.output import header, print_plan, print_text, tell, verbose_option
from kafkaform.cli.progress import ended_by_sigterm, interruptible, progress
from kafkaform.cli.safeguards import Safeguards, safeguard_options
from kafkaform.cli.session import Session
from kafkaform.cli.show import PLAN_SUFFIX, read_plan_file
from kafkaform.cli.terminal import is_terminal
from kafkaform.cli.trusting import Trust, require_same, trust_options
from kafkaform.consent import Grant
from kafkaform.errors import KafkaformError, PlanFileError, UsageError
from kafkaform.gates import grant, hold_back, moves_data
from kafkaform.model import Plan, Risk, Status, risk_of
from kafkaform.plan_file import digest_of_plan
from kafkaform.planner import narrow
from kafkaform.planning import check_identity
from kafkaform.report.printable import printable
from kafkaform.settings import find_settings

if TYPE_CHECKING:
    from pathlib import Path

    from kafkaform.cli.plan import Scope
    from kafkaform.cluster.protocol import Cluster
    from kafkaform.lock import Guard
    from kafkaform.moves.ledger import ThrottleLedger
    from kafkaform.moves.options import MoveOptions
    from kafkaform.onlookers import Journal
    from kafkaform.outcome import ApplyReport
    from kafkaform.plan_file import PlanHeader


@click.command(cls=SectionedCommand)
@paths_argument
@where_options
@target_option
@allow_option
@prune_option
@trust_options
@safeguard_options
@moving_options
@click.option(
    "--apply-while-unhealthy",
    is_flag=True,
    help="Also delete data and add partitions while partitions are offline or under-replicated.",
)
@click.option("--auto-approve", is_flag=True, help="Do not ask; for CI, where the plan was reviewed before.")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="json prints nothing but the result on stdout; the plan goes to stderr.",
)
@verbose_option
def apply(
    paths: tuple[Path, ...],
    where: Where,
    targets: tuple[str, ...],
    allow: tuple[str, ...],
    prune: bool,
    trust: Trust,
    safeguards: Safeguards,
    moving: Moving,
    apply_while_unhealthy: bool,
    auto_approve: bool,
    output_format: str,
    verbose: bool,
) -> int:
    """Carry out a plan, and prove it by reading the cluster again.

    PATH is a plan saved by `plan --out` (PLAN.json), applied as it was reviewed; or manifests or folders
    of them, or - for standard input, which are planned now. What is shown is asked about, and then exactly
    that is applied.
    """
    saved = _saved_plan_path(paths, prune=prune)
    grants = tuple(map(Grant.parse, allow))
    kept = saved or trust.reviewed
    given = read_plan_file(kept) if kept is not None else None
    session = Session.start(where) if given is None else _session_for(given[1], where, anew=saved is None)
    target = session.require_cluster()
    trust.check_options(saved, target)
    moves = moving.over(target.moves)
    session = replace(session, target=replace(target, moves=moves))
    if given is not None and kept is not None:
        trust.check(given[1], kept, session, target)
    with session.cluster() as cluster:
        if given is not None:
            _check_cluster(*given, session, cluster)
        digest = digest_of_plan(*given) if given is not None else None
        with ended_by_sigterm(), safeguards.held(cluster, target, _purpose(given, digest)) as guard:
            if saved is None or given is None or digest is None:
                from kafkaform.cli.plan import Scope

                scope = Scope(paths, targets, grants, prune)
                plan, about = _planned(session, cluster, scope, given)
                digest = digest_of_plan(plan, about)
            else:
                plan, about = given
                plan = grant(_narrowed(plan, targets), grants)
            if plan.with_status(Status.PLANNED):
                safeguards.begin(cluster, target)
            if not apply_while_unhealthy:
                plan = _checked(plan, session, cluster)
            # Of a saved plan, too, what counts is where it is applied now.
            shown = replace(about, configuration=session.config_file, servers=session.servers)
            print_plan(plan, shown, "text", verbose=verbose, err=output_format == "json")
            if plan.with_status(Status.PLANNED) and not auto_approve:
                _confirm(plan, session)
            journal = safeguards.journal(cluster, target, plan, about, digest)
            ledger = safeguards.ledger(cluster, target, plan, journal.run)
            report = _carry_out(plan, cluster, guard, journal, moves, ledger)
            _print_report(report, output_format)
            journal.conclude(report)
            if journal.written:
                tell(f"recorded: kafkaform history {journal.run}")
    return 0 if report.complete else 1


def _planned(
    session: Session, cluster: Cluster, scope: Scope, reviewed: tuple[Plan, PlanHeader] | None
) -> tuple[Plan, PlanHeader]:
    """A plan made now, which must do what the reviewed one did, if there was one."""
    from kafkaform.cli.plan import plan_now

    plan, desired = plan_now(session, cluster, scope)
    about = header(session, scope.paths, exact=True)
    if reviewed is not None:
        require_same(reviewed, (plan, about), desired)
    return plan, about


def _purpose(given: tuple[Plan, PlanHeader] | None, digest: str | None) -> str:
    """What the lock is wanted for, for whoever waits for it."""
    if given is None or digest is None:
        return "apply of manifests"
    commit = f" from commit {given[1].commit[:12]}" if given[1].commit else ""
    return f"apply of plan {digest.removeprefix('sha256:')[:12]}{commit}"


def _saved_plan_path(paths: tuple[Path, ...], *, prune: bool) -> Path | None:
    plans = [path for path in paths if path.suffix == PLAN_SUFFIX]
    if not plans:
        return None
    if len(paths) > 1:
        raise UsageError("a saved plan is applied alone", hint="give one PLAN.json, or manifests")
    if prune:
        raise UsageError("--prune belongs to making a plan", hint="give it to kafkaform plan --out")
    return plans[0]


def _session_for(about: PlanHeader, where: Where, *, anew: bool) -> Session:
    """A session with the cluster that a saved plan was made for; to plan anew, with its environment too."""
    if where.environment is not None and where.environment != about.environment:
        made_for = f"environment {about.environment}" if about.environment else "no environment"
        raise PlanFileError(
            f"the plan was made for {made_for}, not {where.environment}",
            hint=f"{where.without('environment')}, or make a new plan",
        )
    if where.cluster_name is None and where.bootstrap_server is None:
        # With an address on the command line, the plan must not choose whose credentials go there.
        where = replace(where, cluster_name=_known(where.config_file, about))
    return Session.start(replace(where, environment=about.environment if anew else None))


def _known(config_file: Path | None, about: PlanHeader) -> str | None:
    """The name of the plan's cluster, where the configuration has a cluster of that name."""
    return about.cluster_name if about.cluster_name in find_settings(config_file).clusters else None


def _checked(plan: Plan, session: Session, cluster: Cluster) -> Plan:
    """The plan without what must wait until the cluster is healthy."""
    if not any(moves_data(planned.change) for planned in plan.with_status(Status.PLANNED)):
        return plan
    from kafkaform.checkup import critical_findings

    return hold_back(plan, critical_findings(cluster, session.settings, session.target))


def _check_cluster(plan: Plan, about: PlanHeader, session: Session, cluster: Cluster) -> None:
    facts = cluster.facts()
    check_identity(facts, session.target)
    if facts.cluster_id != plan.cluster_id:
        name = f" ({about.cluster_name})" if about.cluster_name else ""
        chosen_by = [name for name in ("cluster_name", "bootstrap_server") if name in session.where.variables]
        left_over = "".join(f"{session.where.source(name)} chose this cluster; " for name in chosen_by)
        raise PlanFileError(
            f"the plan was made for cluster {plan.cluster_id}{name}; this is {facts.cluster_id}",
            hint=f"{left_over}choose the right --cluster or --bootstrap-server, or make a new plan",
        )


def _narrowed(plan: Plan, targets: tuple[str, ...]) -> Plan:
    for target in targets:
        if not narrow(plan, [target]).changes:
            raise UsageError(
                f"--target {target!r} matches no change of the plan",
                hint="write KIND/NAME as the plan does, such as Topic/orders.v1 or 'Topic/orders.*'",
            )
    return narrow(plan, targets) if targets else plan


def _confirm(plan: Plan, session: Session) -> None:
    """Ask on the terminal; where something destructive is planned, for the cluster's name."""
    if not is_terminal(sys.stdin):
        raise KafkaformError(
            "apply asks before it changes anything, and there is no terminal to ask on",
            hint="review the plan, then give --auto-approve",
        )
    worst = max(risk_of(c.change) for c in plan.with_status(Status.PLANNED))
    if worst >= Risk.DESTRUCTIVE:
        expected = session.target.name if session.target else plan.cluster_id
        question = f"This destroys data. Type the cluster's name ({printable(expected)}) to apply it: "
    else:
        expected = "yes"
        question = "Type yes to apply exactly this: "
    # Not click.prompt: it writes to stdout too, which is for the result alone.
    try:
        click.echo(f"\n{question}", nl=False, err=True)
        answer = sys.stdin.readline()
    except KeyboardInterrupt:
        click.echo(err=True)
        raise KafkaformError("interrupted; nothing was applied") from None
    if not answer.endswith("\n"):
        click.echo(err=True)
    if answer.strip() != expected:
        raise KafkaformError("not confirmed; nothing was applied")


def _carry_out(
    plan: Plan,
    cluster: Cluster,
    guard: Guard,
    journal: Journal,
    moves: MoveOptions,
    ledger: ThrottleLedger,
) -> ApplyReport:
    from kafkaform.executor import apply as execute

    with progress() as observer, interruptible(observer) as stop:
        return execute(
            plan,
            cluster,
            observer=observer,
            stop=stop,
            guard=guard,
            journal=journal,
            moves=moves,
            ledger=ledger,
        )


def _print_report(report: ApplyReport, output_format: str) -> None:
    from kafkaform.report.apply import apply_to_json, render_apply

    if output_format == "json":
        click.echo(apply_to_json(report), nl=False)
    elif report.results or report.unknown:
        click.echo()
        print_text(render_apply(report))
