"""`kafkaform apply`."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import dataclass, replace
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
from kafkaform.cli.plan import Scope, plan_now
from kafkaform.cli.plan_verification import Trust, require_same, trust_options
from kafkaform.cli.progress import ended_by_sigterm, interruptible, progress
from kafkaform.cli.safeguards import Safeguards, safeguard_options, settle, unspent
from kafkaform.cli.session import Session
from kafkaform.cli.show import PLAN_SUFFIX, read_plan_file
from kafkaform.cli.terminal import is_terminal
from kafkaform.config.settings import find_settings
from kafkaform.core.errors import AuditError, InvalidInput, KafkaformError, PlanFileError, UsageError
from kafkaform.core.model import Delete, Plan, Risk, Status, risk_of
from kafkaform.core.printable import printable
from kafkaform.core.wording import command, short_commit, target_hint
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
    from kafkaform.apply.earlier import EarlierApplies
    from kafkaform.apply.moves.throttle_journal import ThrottleJournal
    from kafkaform.audit.journal import AuditJournal
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
    # 1. The options: what is applied, to which cluster, and whether a plan file can be trusted.
    request = _asked(paths, targets, allow, trust, prune=prune)
    session = _verified_session(request, where, moving)
    target = session.require_cluster()
    with session.cluster() as cluster:
        facts = _check_cluster(*request.file, session, cluster) if request.file is not None else None
        with ended_by_sigterm(), safeguards.held(cluster, target, request.purpose) as guard:
            # 2. The plan: a saved one is judged by what is live now, manifests are planned now.
            if request.saved is not None and facts is not None:
                candidate = _judged_again(request, session, cluster, facts)
            else:
                candidate = _planned(request, session, cluster)
            # 3. Verification: nothing is done twice, and no data is moved while the cluster is unhealthy.
            earlier = safeguards.earlier(
                cluster, target, candidate.plan.cluster_id, saved=request.saved is not None
            )
            if request.saved is not None:
                candidate = _without_what_was_done(candidate, earlier, cluster, again=trust.again)
            if candidate.plan.with_status(Status.PLANNED):
                safeguards.begin(cluster, target)
            if not apply_while_unhealthy:
                candidate = replace(candidate, plan=_held_back(candidate.plan, session, cluster))
            # 4. Confirmation: exactly what is shown is applied.
            _show_plan(candidate, session, output_format, verbose=verbose)
            if candidate.shown.with_status(Status.PLANNED) and not auto_approve:
                _confirm(candidate.shown, session)
                candidate = _with_grounds(candidate, request, session, cluster)
            # 5. Execution, on record.
            journal = safeguards.journal(cluster, target, candidate.plan, candidate.about, candidate.digest)
            settle(earlier, cluster, journal.run)
            throttle_journal = safeguards.throttle_journal(cluster, target, candidate.plan, journal.run)
            report = _carry_out(candidate, cluster, guard, journal, target.moves, throttle_journal)
            # 6. The report.
            _show_result(report, output_format, verbose=verbose)
            _record_result(journal, report)
    return 0 if report.complete else 1


def _record_result(journal: AuditJournal, report: ApplyReport) -> None:
    """Record what became of the changes; an apply that was carried out does not fail by its record.

    The next apply reads the intent without a result, and writes what the cluster shows of it.
    """
    try:
        journal.conclude(report)
    except AuditError as error:
        tell(f"{error.message}; the next apply to this cluster records what was carried out")
        return
    if journal.written:
        tell(f"recorded: {command('history', journal.run)}")


@dataclass(frozen=True, slots=True)
class _ApplyRequest:
    """What is to be applied, as the command line says.

    Attributes:
        scope: The manifests, and what of them or of a saved plan is covered.
        trust: Which saved or reviewed plans are believed.
        saved: The file of the plan that is applied as it is; None: manifests are planned now.
        file: The plan that was read from a file: the saved one, or a reviewed one to compare with.
    """

    scope: Scope
    trust: Trust
    saved: Path | None
    file: tuple[Plan, PlanHeader] | None

    @property
    def digest(self) -> str | None:
        """The digest of the plan that was read from a file."""
        return self.file[1].digest if self.file is not None else None

    @property
    def purpose(self) -> str:
        """What the lock is wanted for, for whoever waits for it."""
        if self.file is None or self.digest is None:
            return "apply of manifests"
        commit = f" from commit {short_commit(self.file[1].commit)}" if self.file[1].commit else ""
        return f"apply of plan {self.digest.removeprefix('sha256:')[:12]}{commit}"


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A plan on its way to be applied.

    Attributes:
        plan: The plan.
        about: What it says of its making.
        digest: Its digest, as the record has it.
        intents: What manifests say of its resources.
        grounds: What it is judged by once more right before it is carried out; None: it is not.
        done: The changes that the cluster has already, as an earlier apply made them: nobody is told of them.
    """

    plan: Plan
    about: PlanHeader
    digest: str
    intents: Mapping[ResourceRef, Intent]
    grounds: Grounds | None = None
    done: Collection[ResourceRef] = ()

    @property
    def shown(self) -> Plan:
        """The plan as it is shown."""
        return replace(self.plan, changes=tuple(c for c in self.plan.changes if c.ref not in self.done))


# --- options -----------------------------------------------------------------------------------------


def _asked(
    paths: tuple[Path, ...],
    targets: tuple[str, ...],
    allow: tuple[str, ...],
    trust: Trust,
    *,
    prune: bool,
) -> _ApplyRequest:
    """What is to be applied; a plan file is read, and not believed yet."""
    saved = _saved_plan_path(paths, prune=prune)
    grants = tuple(map(Grant.parse, allow))
    path = saved or trust.reviewed
    file = read_plan_file(path) if path is not None else None
    return _ApplyRequest(Scope(paths, targets, grants, prune), trust, saved, file)


def _verified_session(request: _ApplyRequest, where: Where, moving: Moving) -> Session:
    """The session for the cluster that is meant, once it is known that the plan file can be trusted."""
    saved, trust = request.saved, request.trust
    if request.file is None:
        session = Session.start(where)
    else:
        session = _session_for(request.file[1], where, anew=saved is None)
    target = session.require_cluster()
    trust.check_options(saved, target)
    session = replace(session, target=replace(target, moves=moving.over(target.moves)))
    path = saved or trust.reviewed
    if request.file is not None and path is not None:
        trust.check(request.file[1], path, session, target)
    return session


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


# --- the plan ----------------------------------------------------------------------------------------


def _planned(request: _ApplyRequest, session: Session, cluster: KafkaCluster) -> _Candidate:
    """A plan made now, which must do what the reviewed one did, if there was one."""
    plan, desired = plan_now(session, cluster, request.scope)
    about = header(session, request.scope.paths, exact=True)
    if request.file is not None and request.trust.reviewed is not None:
        require_same(request.file, (plan, about), desired, request.trust.reviewed)
    intents = {declared.ref: declared.intent for declared in desired}
    return _Candidate(plan, about, digest_of_plan(plan, about), intents)


def _judged_again(
    request: _ApplyRequest, session: Session, cluster: KafkaCluster, facts: Facts
) -> _Candidate:
    """The saved plan, judged by what is live now."""
    if request.file is None or request.digest is None:
        raise TypeError("there is no saved plan")
    plan, about = request.file
    plan = _narrowed(plan, request.scope.targets)
    plugins.load()
    intents = _declared(plan, about, session)
    grants = request.scope.grants
    plan, grounds = judged_again(
        plan, cluster, session.settings, session.target, facts, intents=intents, allow=grants
    )
    for idle in idle_grants(grants, plan, ()):
        tell(idle)
    return _Candidate(plan, about, request.digest, intents, grounds)


def _narrowed(plan: Plan, targets: tuple[str, ...]) -> Plan:
    for target in targets:
        if not narrow(plan, [target]).changes:
            raise UsageError(
                f"--target {target!r} matches no change of the plan",
                hint=target_hint(target),
            )
    return narrow(plan, targets) if targets else plan


def _declared(plan: Plan, about: PlanHeader, session: Session) -> Mapping[ResourceRef, Intent]:
    """What manifests at hand say of resources of a saved plan where that can only make it stricter.

    That is deletionProtection of what it deletes, and what it takes for not keyed.
    """
    deleted = {planned.ref for planned in plan.changes if isinstance(planned.change, Delete)}
    refs = deleted.union(planned.ref for planned in plan.changes if planned.keyed is False)
    if not refs or not any(path.exists() for path in session.paths(())):
        return {}
    try:
        desired = replace(session, environment=about.environment).manifests(())
    except KafkaformError as error:
        tell(f"the manifests cannot be read, so deletionProtection is not known: {error.message}")
        return {}
    return {declared.ref: declared.intent for declared in desired if declared.ref in refs}


# --- verification ------------------------------------------------------------------------------------


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


def _without_what_was_done(
    candidate: _Candidate, earlier: EarlierApplies, cluster: ResourceReader, *, again: bool
) -> _Candidate:
    """The saved plan without what an earlier apply of it did, unless it is applied again on purpose."""
    spent = {} if again else earlier.spent(candidate.digest, candidate.about.created_at)
    plan, done = unspent(candidate.plan, spent, cluster)
    return replace(candidate, plan=plan, done=done)


def _held_back(plan: Plan, session: Session, cluster: HealthReader) -> Plan:
    """The plan without what must wait until the cluster is healthy."""
    if not any(moves_data(planned.change) for planned in plan.with_status(Status.PLANNED)):
        return plan
    from kafkaform.inspect.health_check import critical_findings

    return hold_back(plan, critical_findings(cluster, session.settings, session.target))


# --- confirmation ------------------------------------------------------------------------------------


def _show_plan(candidate: _Candidate, session: Session, output_format: str, *, verbose: bool) -> None:
    shown = candidate.shown
    if shown.changes or not candidate.done:
        # Of a saved plan, too, what counts is where it is applied now.
        here = replace(candidate.about, configuration=session.config_file, servers=session.servers)
        show("plan", "text", shown, header=here, verbose=verbose, err=output_format == "json")


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


def _with_grounds(
    candidate: _Candidate, request: _ApplyRequest, session: Session, cluster: ResourceReader
) -> _Candidate:
    """Have a plan that was made now judged once more: nobody knows how long the answer took."""
    if candidate.grounds is not None:
        return candidate
    forbid = session.target.forbid if session.target is not None else ()
    policy = Policy(forbid=forbid, protected=session.settings.protected, allow=request.scope.grants)
    return replace(candidate, grounds=Grounds(cluster.facts(), policy, candidate.intents))


# --- execution and report ----------------------------------------------------------------------------


def _carry_out(
    candidate: _Candidate,
    cluster: ClusterWriter,
    guard: Guard,
    journal: Journal,
    moves: MoveOptions,
    throttle_journal: ThrottleJournal,
) -> ApplyReport:
    from kafkaform.apply.executor import apply as execute

    grounds = candidate.grounds
    with progress() as observer, interruptible(observer) as stop:
        return execute(
            candidate.plan,
            cluster,
            observer=observer,
            stop=stop,
            guard=guard,
            journal=journal,
            moves=moves,
            throttle_journal=throttle_journal,
            judge=None if grounds is None else partial(rejudged, grounds=grounds),
        )


def _show_result(report: ApplyReport, output_format: str, *, verbose: bool) -> None:
    if output_format == "text":
        if not report.results and not report.unknown and not report.errors:
            return
        click.echo()
    show("apply", output_format, report, verbose=verbose)
