"""`kafkaform apply`."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
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
from kafkaform.cli.output import format_option, header, show, tell, verbose_option
from kafkaform.cli.plan_verification import Trust, require_same, trust_options
from kafkaform.cli.progress import ended_by_sigterm, interruptible, progress
from kafkaform.cli.safeguards import Safeguards, safeguard_options, settle, unspent
from kafkaform.cli.session import Session
from kafkaform.cli.show import PLAN_SUFFIX, read_plan_file
from kafkaform.cli.terminal import is_terminal
from kafkaform.config.settings import find_settings
from kafkaform.core.errors import InvalidInput, KafkaformError, PlanFileError, UsageError
from kafkaform.core.model import Delete, Plan, Risk, Status, risk_of
from kafkaform.core.printable import printable
from kafkaform.core.wording import command, short_commit
from kafkaform.plan.plan_file import digest_of_plan
from kafkaform.plan.planner import narrow
from kafkaform.plan.planning import check_identity, judged_again
from kafkaform.plan.policy import Policy, hold_back, idle_grants, moves_data
from kafkaform.plan.rejudging import Grounds, rejudged
from kafkaform.resources.consent import Grant
from kafkaform.rules import plugins

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

    from kafkaform.apply.change_execution import Journal
    from kafkaform.apply.moves.throttle_journal import ThrottleJournal
    from kafkaform.cli.plan import Scope
    from kafkaform.cluster.kafka.cluster import KafkaCluster
    from kafkaform.cluster.protocol import ClusterWriter, HealthReader, ResourceReader
    from kafkaform.core.apply_result import ApplyReport
    from kafkaform.core.lock import Guard
    from kafkaform.core.model import Facts, Intent, ResourceRef
    from kafkaform.core.moves import MoveOptions
    from kafkaform.plan.plan_header import PlanHeader


@contextmanager
def _nothing_applied() -> Iterator[None]:
    """Say of wrong input what it means here: it is found before anything is changed."""
    try:
        yield
    except InvalidInput as error:
        error.message = f"{error.message}; nothing was applied"
        raise


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
@click.option(
    "--auto-approve",
    is_flag=True,
    help="Do not ask for confirmation. For CI, where the plan was already reviewed.",
)
@format_option("apply", "json prints only the result on stdout; the plan goes to stderr.")
@verbose_option
@_nothing_applied()
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
    """Apply a plan, and verify it by reading the cluster again.

    PATH is a plan saved by `plan --out` (PLAN.json), which is applied as it was reviewed. Or PATHs are
    manifests, folders of manifests, or - for standard input: they are planned now. apply shows the plan, asks
    for confirmation, and applies exactly what it showed.
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
        facts = _check_cluster(*given, session, cluster) if given is not None else None
        digest = digest_of_plan(*given) if given is not None else None
        with ended_by_sigterm(), safeguards.held(cluster, target, _purpose(given, digest)) as guard:
            if saved is None or given is None or digest is None or facts is None:
                from kafkaform.cli.plan import Scope

                scope = Scope(paths, targets, grants, prune)
                plan, about, intents = _planned(session, cluster, scope, given, trust)
                digest = digest_of_plan(plan, about)
                grounds = None
            else:
                plan, about = given
                plan = _narrowed(plan, targets)
                plugins.load()
                intents = _declared(plan, about, session)
                plan, grounds = judged_again(
                    plan, cluster, session.settings, target, facts, intents=intents, allow=grants
                )
                for idle in idle_grants(grants, plan, ()):
                    tell(idle)
            earlier = safeguards.earlier(cluster, target, plan.cluster_id, saved=saved is not None)
            there: Collection[ResourceRef] = ()
            if saved is not None:
                spent = {} if trust.again else earlier.spent(digest, about.created_at)
                plan, there = unspent(plan, spent, cluster)
            if plan.with_status(Status.PLANNED):
                safeguards.begin(cluster, target)
            if not apply_while_unhealthy:
                plan = _checked(plan, session, cluster)
            shown = replace(plan, changes=tuple(c for c in plan.changes if c.ref not in there))
            if shown.changes or not there:
                # Of a saved plan, too, what counts is where it is applied now.
                here = replace(about, configuration=session.config_file, servers=session.servers)
                show("plan", "text", shown, header=here, verbose=verbose, err=output_format == "json")
            if shown.with_status(Status.PLANNED) and not auto_approve:
                _confirm(shown, session)
                if grounds is None:  # nobody knows how long the answer took
                    policy = Policy(forbid=target.forbid, protected=session.settings.protected, allow=grants)
                    grounds = Grounds(cluster.facts(), policy, intents)
            journal = safeguards.journal(cluster, target, plan, about, digest)
            settle(earlier, cluster, journal.run)
            throttle_journal = safeguards.throttle_journal(cluster, target, plan, journal.run)
            report = _carry_out(plan, cluster, guard, journal, moves, throttle_journal, grounds)
            _show_result(report, output_format)
            journal.conclude(report)
            if journal.written:
                tell(f"recorded: {command('history', journal.run)}")
    return 0 if report.complete else 1


def _planned(
    session: Session,
    cluster: KafkaCluster,
    scope: Scope,
    reviewed: tuple[Plan, PlanHeader] | None,
    trust: Trust,
) -> tuple[Plan, PlanHeader, Mapping[ResourceRef, Intent]]:
    """A plan made now, which must do what the reviewed one did, if there was one; and what manifests say."""
    from kafkaform.cli.plan import plan_now

    plan, desired = plan_now(session, cluster, scope)
    about = header(session, scope.paths, exact=True)
    if reviewed is not None and trust.reviewed is not None:
        require_same(reviewed, (plan, about), desired, trust.reviewed)
    return plan, about, {one.ref: one.intent for one in desired}


def _declared(plan: Plan, about: PlanHeader, session: Session) -> Mapping[ResourceRef, Intent]:
    """What manifests at hand say of resources of a saved plan where that can only make it stricter.

    That is deletionProtection of what it deletes, and what it takes for not keyed.
    """
    deleted = {one.ref for one in plan.changes if isinstance(one.change, Delete)}
    refs = deleted.union(one.ref for one in plan.changes if one.keyed is False)
    if not refs or not any(path.exists() for path in session.paths(())):
        return {}
    try:
        desired = replace(session, environment=about.environment).manifests(())
    except KafkaformError as error:
        tell(f"the manifests cannot be read, so deletionProtection is not known: {error.message}")
        return {}
    return {one.ref: one.intent for one in desired if one.ref in refs}


def _purpose(given: tuple[Plan, PlanHeader] | None, digest: str | None) -> str:
    """What the lock is wanted for, for whoever waits for it."""
    if given is None or digest is None:
        return "apply of manifests"
    commit = f" from commit {short_commit(given[1].commit)}" if given[1].commit else ""
    return f"apply of plan {digest.removeprefix('sha256:')[:12]}{commit}"


def _saved_plan_path(paths: tuple[Path, ...], *, prune: bool) -> Path | None:
    plans = [path for path in paths if path.suffix == PLAN_SUFFIX]
    if not plans:
        return None
    if len(paths) > 1:
        raise UsageError(
            "a saved plan cannot be combined with other paths", hint="give one PLAN.json, or manifests"
        )
    if prune:
        raise UsageError("--prune cannot be used with a saved plan", hint="use it with kafkaform plan --out")
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


def _checked(plan: Plan, session: Session, cluster: HealthReader) -> Plan:
    """The plan without what must wait until the cluster is healthy."""
    if not any(moves_data(planned.change) for planned in plan.with_status(Status.PLANNED)):
        return plan
    from kafkaform.inspect.health_check import critical_findings

    return hold_back(plan, critical_findings(cluster, session.settings, session.target))


def _check_cluster(plan: Plan, about: PlanHeader, session: Session, cluster: ResourceReader) -> Facts:
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
    return facts


def _narrowed(plan: Plan, targets: tuple[str, ...]) -> Plan:
    for target in targets:
        if not narrow(plan, [target]).changes:
            raise UsageError(
                f"--target {target!r} matches no change of the plan",
                hint="write KIND/NAME as shown in the plan, such as Topic/orders.v1 or 'Topic/orders.*'",
            )
    return narrow(plan, targets) if targets else plan


def _confirm(plan: Plan, session: Session) -> None:
    """Ask on the terminal; where something destructive is planned, for the cluster's name."""
    if not is_terminal(sys.stdin):
        raise KafkaformError(
            "apply asks for confirmation, and there is no terminal to ask on",
            hint="review the plan, then use --auto-approve",
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
    cluster: ClusterWriter,
    guard: Guard,
    journal: Journal,
    moves: MoveOptions,
    throttle_journal: ThrottleJournal,
    grounds: Grounds | None,
) -> ApplyReport:
    from kafkaform.apply.executor import apply as execute

    with progress() as observer, interruptible(observer) as stop:
        return execute(
            plan,
            cluster,
            observer=observer,
            stop=stop,
            guard=guard,
            journal=journal,
            moves=moves,
            throttle_journal=throttle_journal,
            judge=None if grounds is None else partial(rejudged, grounds=grounds),
        )


def _show_result(report: ApplyReport, output_format: str) -> None:
    if output_format == "text":
        if not report.results and not report.unknown:
            return
        click.echo()
    show("apply", output_format, report)
