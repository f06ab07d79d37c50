"""`kafkaform apply`: steps 1 to 6 of an apply; those of its execution, 5.1 to 5.6, are in the executor."""

from __future__ import annotations

import os
import sys
import time
from contextlib import contextmanager
from functools import partial
from threading import Event
from typing import TYPE_CHECKING

import click

from kafkaform.audit.record import Author, detect_author
from kafkaform.cli.moving import override_throttle, throttle_option
from kafkaform.cli.notification import NotifiedEvent, Notifier, notify_option
from kafkaform.cli.options import (
    ClusterSelector,
    SectionedCommand,
    allow_option,
    clusters_option,
    option_group,
    paths_argument,
    prune_option,
    require_files,
    target_option,
    where_options,
)
from kafkaform.cli.output import format_option, header, show, tell, verbose_option
from kafkaform.cli.plan import Scope, plan_now
from kafkaform.cli.plan_verification import TrustPolicy, enter_plan_environment, require_same, trust_options
from kafkaform.cli.progress import ended_by_sigterm, interruptible, progress
from kafkaform.cli.safeguards import Safeguards, record_results, refuse_undone, safeguard_options
from kafkaform.cli.session import Session
from kafkaform.cli.show import PLAN_SUFFIX, read_plan_file
from kafkaform.cli.terminal import is_terminal, read_answer
from kafkaform.config.settings import ClusterSettings, find_settings
from kafkaform.core.errors import AuditError, InvalidInput, KafkaformError, PlanFileError, UsageError
from kafkaform.core.model import Delete, Recreate, Risk, Status, risk_of
from kafkaform.core.printable import printable
from kafkaform.core.values import Value, replace
from kafkaform.core.wording import command, counted, short_commit
from kafkaform.plan.conclusion import narrow
from kafkaform.plan.difference import SavedPlan
from kafkaform.plan.gate import find_idle_grants, moves_data, refuse_while_unhealthy
from kafkaform.plan.plan_file import compute_plan_digest
from kafkaform.plan.plan_header import PlanHeader, describe_environment
from kafkaform.plan.planning import check_identity, judge_saved_plan
from kafkaform.plan.summary import describe_extent, summary_sentence
from kafkaform.resources import GROUP, suggest_reference
from kafkaform.resources.consent import Grant
from kafkaform.resources.succession import find_predecessor
from kafkaform.rules import plugins

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from kafkaform.apply.change_execution import Journal
    from kafkaform.apply.earlier import EarlierApplies
    from kafkaform.apply.moves.throttle_journal import ThrottleJournal
    from kafkaform.audit.journal import AuditJournal
    from kafkaform.cluster.kafka.cluster import KafkaCluster
    from kafkaform.cluster.protocol import ClusterWriter, HealthReader, ResourceReader
    from kafkaform.core.apply_result import ApplyReport
    from kafkaform.core.lock import Guard
    from kafkaform.core.model import Facts, Intent, Observation, ResourceRef
    from kafkaform.core.plans import Plan
    from kafkaform.resources.replicas.moves import MoveOptions


@contextmanager
def _nothing_applied() -> Iterator[None]:
    """Add to errors of the input that nothing was applied: they are found before any change."""
    try:
        yield
    except InvalidInput as error:
        # The message is changed in place: a new exception would lose the class, the list of problems and the
        # exit code.
        error.message = f"{error.message}; nothing was applied"
        raise


class ApplyScope(Value):
    """The resources to apply.

    Attributes:
        targets: Only these resources.
        allow: Consents, as they are written.
        prune: Whether undeclared resources inside `owns` are to be deleted.
        clusters: The selected clusters; empty for one.
    """

    targets: tuple[str, ...]
    allow: tuple[str, ...]
    prune: bool
    clusters: tuple[str, ...]


class ApplyOutput(Value):
    """The confirmation of an apply, and the format of its result.

    Attributes:
        apply_while_unhealthy: Whether data is deleted and moved while the cluster is not healthy.
        auto_approve: Whether nobody is asked for confirmation.
        output_format: The format of the report.
        verbose: Whether everything is listed.
        notify: Whether a failure is reported to the webhook.
    """

    apply_while_unhealthy: bool
    auto_approve: bool
    output_format: str
    verbose: bool
    notify: bool


@click.command(cls=SectionedCommand)
@paths_argument
@where_options
@option_group(
    ApplyScope,
    "scope",
    target_option,
    allow_option,
    prune_option,
    clusters_option(
        "They are applied in the `stages:` of kafkaform.yaml, up to a stage that is not complete. PLAN.json "
        "is then the set of their plans."
    ),
)
@trust_options
@safeguard_options
@throttle_option
@option_group(
    ApplyOutput,
    "output",
    click.option(
        "--apply-while-unhealthy",
        is_flag=True,
        help="Also delete data and add partitions while partitions are offline or under-replicated.",
    ),
    click.option("--auto-approve", is_flag=True, help="Do not ask for confirmation."),
    format_option("apply", "json and markdown print only the result on stdout."),
    verbose_option,
    notify_option,
)
@_nothing_applied()
def apply(
    paths: tuple[Path, ...],
    where: ClusterSelector,
    scope: ApplyScope,
    trust: TrustPolicy,
    safeguards: Safeguards,
    throttle: str | None,
    output: ApplyOutput,
) -> int:
    """Apply a plan, and verify it by reading the cluster again.

    PATH is a plan saved by `plan --out` (PLAN.json). Or PATHs are manifests, folders of manifests, or - for
    standard input: apply plans them, shows the plan, asks for confirmation, and applies exactly what it
    showed.
    """
    given = _ApplyCommand(paths, where, scope, trust, safeguards, throttle, output)
    if scope.clusters:
        return _apply_to_clusters(given)
    return 0 if _apply(given).complete else 1


class _ApplyCommand(Value):
    """The arguments and options of an apply.

    Attributes:
        paths: The plan, or the manifests.
        where: The options that choose the cluster.
        scope: The resources to apply.
        trust: The requirements for a plan that was saved.
        safeguards: The lock and the record.
        throttle: The limit of a throttle, as it is written.
        output: The confirmation, and the format of the result.
    """

    paths: tuple[Path, ...]
    where: ClusterSelector
    scope: ApplyScope
    trust: TrustPolicy
    safeguards: Safeguards
    throttle: str | None
    output: ApplyOutput


def _apply_to_clusters(given: _ApplyCommand) -> int:
    """Apply a set of plans, or manifests, to several clusters; returns the exit code."""
    from kafkaform.cli.fleet import plan_path
    from kafkaform.cli.stages import apply_in_stages, select_stages

    require_files(given.paths, "--clusters reads the manifests once for each cluster")
    saved = _saved_plan_path(given.paths, prune=given.scope.prune)
    trust, output_format = given.trust, given.output.output_format
    file = saved or trust.reviewed
    stages = select_stages(given.scope.clusters, given.where)
    # Before anything is applied: a plan that is missing or exchanged stops all of them.
    clusters = {cluster.name: cluster for _, chosen in stages for cluster in chosen}
    plan_set = trust.check_set(file, clusters) if file is not None else None

    def apply_to_one(cluster: ClusterSettings) -> ApplyReport:
        name = cluster.name
        return _apply(
            replace(
                given,
                paths=given.paths if saved is None else (plan_path(saved, name),),
                where=replace(given.where, cluster_name=name),
                scope=replace(given.scope, clusters=()),
                trust=replace(trust, reviewed=trust.reviewed and plan_path(trust.reviewed, name)),
            ),
            # Text is printed while it goes on; the other formats are one document.
            silent=output_format != "text",
            # Checked again: the file may have been exchanged since.
            check=partial(plan_set.require_plan, name) if plan_set is not None else None,
        )

    return apply_in_stages(stages, given.where, apply_to_one, output_format)


def _apply(
    given: _ApplyCommand, *, silent: bool = False, check: Callable[[bytes, str], None] | None = None
) -> ApplyReport:
    """Apply a plan or manifests to one cluster.

    Args:
        silent: Whether the caller prints the result.
        check: Called with the content and the name of the file of a saved plan; may raise PlanFileError.
    """
    # 1. The options: what is applied, to which cluster, and whether a plan file can be trusted.
    scope, trust, output = given.scope, given.trust, given.output
    saved = _saved_plan_path(given.paths, prune=scope.prune)
    # Parsed before the file is read, so that a wrong --allow is an error of usage.
    grants = tuple(map(Grant.parse, scope.allow))
    path = saved or trust.reviewed
    file = read_plan_file(path, check) if path is not None else None
    request = ApplyRequest(Scope(given.paths, scope.targets, grants, scope.prune), trust, saved, file)
    session = _start_session(request, given.where, given.throttle)
    commit = file[1].commit if saved and file else header(session, given.paths).commit
    notifier = Notifier.prepare(session, commit, wanted=output.notify)
    with notifier.report_errors(NotifiedEvent.APPLY_FAILED):
        if file is not None and path is not None:
            # Before the first connection: a plan that is not trusted must not choose where credentials are
            # sent.
            trust.check(file[1], path, session, session.require_cluster())
        author = detect_author(os.environ)
        report = carry_out(request, session, given.safeguards, output, author, silent=silent)
    if not report.complete:
        from kafkaform.report.apply import summarise_apply

        notifier.send(NotifiedEvent.APPLY_FAILED, summarise_apply(report))
    return report


def carry_out(
    request: ApplyRequest,
    session: Session,
    safeguards: Safeguards,
    output: ApplyOutput,
    author: Author,
    check: Callable[[KafkaCluster, str], object] | None = None,
    stop: Event | None = None,
    *,
    silent: bool = False,
) -> ApplyReport:
    """Plan, confirm, apply and report, under the lock of the cluster.

    Args:
        request: The plan or manifests; a plan file is verified already.
        safeguards: The lock and the record.
        output: The confirmation, and the format of the result.
        author: The user that applies, for the lock and the record.
        check: Called under the lock with the cluster and its id, before anything is changed; may raise.
        stop: Set by a Ctrl-C or SIGTERM during the execution, also by one that came too late to stop it.
        silent: Whether the caller prints the result.
    """
    target = session.require_cluster()
    with session.cluster() as cluster:
        # Before the lock: a plan for another cluster must not wait for the lock of this one, or hold it.
        facts = _check_cluster(*request.file, session, cluster) if request.file is not None else None
        # The lock is taken before planning, so that no other apply changes the cluster between the plan and
        # its execution. By default, SIGTERM, as a cancelled job gets, would end Python without releasing the
        # lock.
        with ended_by_sigterm(), safeguards.hold_lock(cluster, target, request.purpose, author) as guard:
            # 2. The plan: a saved one is judged by what is live now, manifests are planned now.
            if request.saved is not None:
                candidate = _judge_saved(request, session, cluster, facts)
            else:
                candidate = _plan_manifests(request, session, cluster)
            # 3. Verification: nothing is done twice, and no data is moved while the cluster is unhealthy.
            # The record is read after the plan: it needs the id of the cluster, which the plan contains.
            if check is not None:
                check(cluster, candidate.plan.cluster_id)
            earlier = safeguards.earlier(
                cluster, target, candidate.plan.cluster_id, saved=request.file is not None
            )
            if request.file is not None:
                made_at = request.file[1].created_at
                candidate = _drop_applied_changes(candidate, earlier, made_at, again=request.trust.again)
            if candidate.plan.select_by_status(Status.PLANNED):
                # Connecting takes time, which overlaps with the health check and the confirmation.
                safeguards.begin(cluster, target)
            if not output.apply_while_unhealthy:
                # Before the confirmation, as changes that are held back are not applied, and the plan must
                # show that.
                candidate = replace(candidate, plan=_hold_back_moves(candidate.plan, session, cluster))
            # 4. Confirmation: exactly what is shown is applied.
            # Who is asked for confirmation must see all of it; others have seen it in the review.
            reviewed = request.file[0] if request.file is not None and output.auto_approve else None
            _show_plan(
                candidate,
                session,
                output.output_format,
                verbose=output.verbose,
                reviewed=reviewed if request.trust.reviewed is not None else None,
            )
            if candidate.shown.select_by_status(Status.PLANNED) and not output.auto_approve:
                _confirm(candidate.shown, session)
                candidate = replace(candidate, observation=None)  # the answer may have taken long
            # The last reading before the first write: what changed meanwhile is refused here, not
            # overwritten.
            candidate = _judge_again(candidate, request, session, cluster)
            # 5. Execution, on record.
            journal = safeguards.journal(
                cluster, target, candidate.plan, candidate.about, candidate.digest, author
            )
            # Before the first change: the results of earlier applies are read from the cluster, and a change
            # of this apply would be taken for one of theirs.
            record_results(earlier, cluster, journal.run)
            throttle_journal = safeguards.throttle_journal(cluster, target, candidate.plan, journal.run)
            report = _execute(
                candidate, cluster, guard, journal, throttle_journal, target.moves, stop or Event()
            )
            # 6. The report.
            # The result is printed before it is recorded: it must reach the user even if the record fails.
            if not silent:
                _show_result(report, output.output_format, verbose=output.verbose)
            _record_result(journal, report)
    return report


def _record_result(journal: AuditJournal, report: ApplyReport) -> None:
    """Record the results of the changes; an apply that was carried out does not fail if that fails.

    The next apply finds the intent without a result, and records the result that the cluster shows.
    """
    try:
        journal.conclude(report)
    except AuditError as error:
        tell(f"{error.message}; the next apply to this cluster records what was carried out")
        return
    if journal.written:
        tell(f"recorded: {command('history', journal.run)}")


class ApplyRequest(Value):
    """The plan or manifests to apply, from the command line.

    Attributes:
        scope: The manifests, and the resources of them or of a saved plan.
        trust: The requirements for saved and reviewed plans.
        saved: The file of the saved plan to apply; None to plan manifests now.
        file: The plan that was read from a file: the saved one, or a reviewed one to compare with.
        plan_again: The command that makes a new reviewed plan, where this apply is not run by hand.
    """

    scope: Scope
    trust: TrustPolicy
    saved: Path | None
    file: tuple[Plan, PlanHeader] | None
    plan_again: str | None = None

    def commands(self, reviewed: Path, session: Session) -> tuple[str, Callable[[Sequence[str]], str] | None]:
        """Return the command that makes a new plan to review, and the one that repeats this apply."""
        if self.plan_again is not None:
            return self.plan_again, None
        paths = [*map(str, self.scope.paths)]
        options = [*self.scope.options(), *session.where.options()]
        key = self.trust.verify_key
        own = [
            "--reviewed",
            str(reviewed),
            *options,
            *(["--verify-key", str(key)] if key is not None else []),
        ]

        def apply_again(targets: Sequence[str]) -> str:
            chosen = [word for target in targets for word in ("--target", target)]
            return command("apply", *paths, options=[*own, *chosen])

        return command("plan", *paths, options=["--out", str(reviewed), *options]), apply_again

    @property
    def digest(self) -> str | None:
        """The digest of the plan that was read from a file."""
        return self.file[1].digest if self.file is not None else None

    @property
    def purpose(self) -> str:
        """The purpose of the lock, as shown to others that wait for it."""
        if self.file is None or self.digest is None:
            return "apply of manifests"
        # Twelve digits of the digest are enough to find the plan: the text is shown to people who wait for
        # the lock.
        commit = f" from commit {short_commit(self.file[1].commit)}" if self.file[1].commit else ""
        return f"apply of plan {self.digest.removeprefix('sha256:')[:12]}{commit}"


class _Candidate(Value):
    """A plan on its way to be applied.

    Attributes:
        digest: Its digest, for the record.
        intents: The declared intents of its resources.
        observation: The reading of the cluster that it was judged by; None if that is too old.
        read_at: The time of that reading, by `time.monotonic`.
        done: The changes that an earlier apply made, and that are not shown.
    """

    plan: Plan
    about: PlanHeader
    digest: str
    intents: Mapping[ResourceRef, Intent]
    observation: Observation | None
    read_at: float
    done: Collection[ResourceRef] = ()

    @property
    def shown(self) -> Plan:
        """The plan without the changes that are already done."""
        return replace(self.plan, changes=tuple(c for c in self.plan.changes if c.ref not in self.done))


# --- options -----------------------------------------------------------------------------------------


def _start_session(request: ApplyRequest, where: ClusterSelector, throttle: str | None) -> Session:
    """Return the session for the cluster of the plan file, or for the chosen one."""
    saved = request.saved
    session = Session.start(where) if request.file is None else _session_for(request.file[1], where)
    target = session.require_cluster()
    # Contradicting options are reported first: a missing plan is then not mistaken for a bad signature.
    request.trust.check_options(saved, target)
    return replace(session, target=replace(target, moves=override_throttle(target.moves, throttle)))


def _saved_plan_path(paths: tuple[Path, ...], *, prune: bool) -> Path | None:
    plans = [path for path in paths if path.suffix == PLAN_SUFFIX]
    if not plans:
        return None
    if len(paths) > 1:
        raise UsageError(
            "a saved plan cannot be combined with other paths", hint="give one PLAN.json, or manifests"
        )
    if prune:
        raise UsageError(
            "--prune cannot be used with a saved plan", hint="use it with `kafkaform plan --out FILE`"
        )
    return plans[0]


def _session_for(about: PlanHeader, where: ClusterSelector) -> Session:
    """Start a session for the cluster and the environment of a saved plan."""
    if where.environment is not None and where.environment != about.environment:
        raise PlanFileError(
            f"the plan was made for {describe_environment(about.environment)}, not {where.environment}",
            hint=f"{where.describe_removal('environment')}, or make a new plan",
        )
    if where.cluster_name is None and where.bootstrap_server is None:
        # With an address on the command line, the plan must not choose the credentials that go there.
        is_configured = about.cluster_name in find_settings(where.config_file).clusters
        where = replace(where, cluster_name=about.cluster_name if is_configured else None)
    return enter_plan_environment(Session.start(where), about)


# --- the plan ----------------------------------------------------------------------------------------


def _plan_manifests(request: ApplyRequest, session: Session, cluster: KafkaCluster) -> _Candidate:
    """Plan the manifests, and check that the plan matches the reviewed one, if there is one."""
    result, desired = plan_now(session, cluster, request.scope)
    # The header is made after the plan, so that edits of manifests during the planning mark the commit as
    # changed.
    about = header(session, request.scope.paths, exact=True)
    if request.file is not None and request.trust.reviewed is not None:
        plan_again, apply_again = request.commands(request.trust.reviewed, session)
        require_same(request.file, (result.plan, about), desired, plan_again, apply_again)
    intents = {declared.ref: declared.intent for declared in desired}
    # An apply of a reviewed plan is recorded under its digest: it is what was consented to, once.
    digest = request.digest or compute_plan_digest(result.plan, about)
    return _Candidate(result.plan, about, digest, intents, result.observation, result.read_at)


def _judge_saved(
    request: ApplyRequest, session: Session, cluster: KafkaCluster, facts: Facts | None
) -> _Candidate:
    """Judge the saved plan by the current state of the cluster."""
    if request.file is None or request.digest is None:
        # For the type checker: `apply` sets `file` wherever it sets `saved`.
        raise TypeError("there is no saved plan")
    plan, about = request.file
    # After the verification: the signature covers the whole plan, and a selection of it is not signed.
    plan = _select_targets(plan, request.scope.targets)
    plugins.load()
    intents = _read_intents(plan, about, session)
    grants = request.scope.grants
    saved = SavedPlan(plan, intents)
    result = judge_saved_plan(saved, cluster, session.settings, session.target, allow=grants, facts=facts)
    for line in find_idle_grants(grants, result.plan, ()):
        tell(line)
    return _Candidate(result.plan, about, request.digest, intents, result.observation, result.read_at)


_FRESH_S = 5.0
"""The maximum age of the reading by which a plan was judged, to apply the plan without a new reading.

Kafka has no conditional writes, and reads lag writes by seconds: a concurrent change by somebody else is
overwritten, however soon after a reading a request is sent.
"""


def _judge_again(
    candidate: _Candidate, request: ApplyRequest, session: Session, cluster: KafkaCluster
) -> _Candidate:
    """Judge the plan by a new reading, unless the last one is fresh."""
    # Without a confirmation, the plan was made moments ago; a second reading of a large cluster takes
    # seconds.
    if candidate.observation is not None and time.monotonic() - candidate.read_at <= _FRESH_S:
        return candidate
    saved = SavedPlan(candidate.plan, candidate.intents)
    grants = request.scope.grants
    result = judge_saved_plan(saved, cluster, session.settings, session.target, allow=grants)
    return replace(candidate, plan=result.plan, observation=result.observation, read_at=result.read_at)


def _select_targets(plan: Plan, targets: tuple[str, ...]) -> Plan:
    for target in targets:
        if not narrow(plan, [target]).changes:
            raise UsageError(
                f"--target {target!r} matches no change of the plan",
                hint=suggest_reference(target, (c.ref for c in plan.changes)),
            )
    return narrow(plan, targets) if targets else plan


def _read_intents(plan: Plan, about: PlanHeader, session: Session) -> Mapping[ResourceRef, Intent]:
    """Read the intents of a saved plan's resources where manifests can only make the plan stricter.

    That is the deletionProtection of resources it deletes, the keys of topics it takes for not keyed, and the
    successions that its deletions and first offsets have to wait for.
    """
    deleted = {planned.ref for planned in plan.changes if isinstance(planned.change, Delete | Recreate)}
    refs = deleted.union(planned.ref for planned in plan.changes if planned.keyed is False)
    starts = any(GROUP.first_offsets(planned.change) for planned in plan.changes)
    # A saved plan is often applied by a job without a checkout, where there are no manifests to read.
    if not (refs or starts) or not any(path.exists() for path in session.paths(())):
        return {}
    try:
        # In the environment of the plan, as an override may set deletionProtection for that one only.
        desired = replace(session, environment=about.environment).manifests(())
    # Only a note: the plan was reviewed, and is complete without the manifests.
    except KafkaformError as error:
        tell(f"the manifests cannot be read, so deletionProtection cannot be checked: {error.message}")
        return {}
    return {
        declared.ref: declared.intent
        for declared in desired
        if declared.ref in refs or find_predecessor(declared) is not None
    }


# --- verification ------------------------------------------------------------------------------------


def _check_cluster(plan: Plan, about: PlanHeader, session: Session, cluster: ResourceReader) -> Facts:
    facts = cluster.facts()
    check_identity(facts, session.target)
    # Kafka creates the id when the cluster is formatted. Addresses and names of clusters are reused, ids are
    # not.
    if facts.cluster_id != plan.cluster_id:
        name = f" ({about.cluster_name})" if about.cluster_name else ""
        raise PlanFileError(
            f"the plan was made for cluster {plan.cluster_id}{name}; this is {facts.cluster_id}",
            hint=f"{session.name_left_overs()}choose the right --cluster or --bootstrap-server, or make a "
            "new plan",
        )
    return facts


def _drop_applied_changes(
    candidate: _Candidate, earlier: EarlierApplies, made_at: str, *, again: bool
) -> _Candidate:
    """Drop the changes that an earlier apply of the plan file made, unless `again` is set."""
    # Plans with the same content have the same digest. The creation time shows whether this one was made
    # after that apply, and is a new plan.
    spent = {} if again else earlier.find_spent(candidate.digest, made_at)
    if candidate.observation is None:
        raise TypeError("the plan was not assessed")
    plan, done = refuse_undone(candidate.plan, spent, candidate.observation)
    return replace(candidate, plan=plan, done=done)


def _hold_back_moves(plan: Plan, session: Session, cluster: HealthReader) -> Plan:
    """Hold back the changes that must wait until the cluster is healthy."""
    # The health check takes further requests, and changes of configs do not wait for it.
    if not any(moves_data(planned.change) for planned in plan.select_by_status(Status.PLANNED)):
        return plan
    from kafkaform.inspect.health_check import critical_findings

    return refuse_while_unhealthy(plan, critical_findings(cluster, session.settings, session.target))


# --- confirmation ------------------------------------------------------------------------------------


def _show_plan(
    candidate: _Candidate, session: Session, output_format: str, *, verbose: bool, reviewed: Plan | None
) -> None:
    """Show the plan; of one that is as reviewed, only its summary."""
    shown = candidate.shown
    if reviewed is not None and not verbose:
        statuses = {change.ref: change.status for change in reviewed.changes}
        if all(statuses.get(change.ref) is change.status for change in shown.changes):
            done = f" ({counted(len(candidate.done), 'change')} done before)" if candidate.done else ""
            text = f"As reviewed{done}, --verbose lists it. {summary_sentence(shown)}"
            click.echo(text, err=output_format != "text")
            return
    # An empty plan is shown, unless it is empty only because an earlier apply already made all its changes.
    if shown.changes or not candidate.done:
        # The header names the cluster of this apply, also for a saved plan.
        here = replace(candidate.about, configuration=session.config_file, servers=session.servers)
        show("plan", "text", shown, header=here, verbose=verbose, err=output_format != "text")


def _confirm(plan: Plan, session: Session) -> None:
    """Ask for confirmation on the terminal; for destructive changes, by the cluster's name."""
    # An answer that is piped in, such as by `yes |`, is no confirmation: nobody has seen the plan.
    if not is_terminal(sys.stdin):
        raise KafkaformError(
            "apply asks for confirmation, and there is no terminal to ask on",
            hint="review the plan, then use --auto-approve",
        )
    # The worst change decides, not their number. Consents to hazards (--allow) were checked by the plan.
    ready = plan.select_by_status(Status.PLANNED)
    worst = max(risk_of(planned.change) for planned in ready)
    extent, them = describe_extent(plan), ""
    if extent:
        extent = f"{extent}.\n"
        them = "this change" if len(ready) == 1 else f"these {len(ready):,} changes"
    # `yes` is typed by habit. The name of the cluster shows that its user expects to be on this one.
    if worst >= Risk.DESTRUCTIVE:
        expected = session.target.name if session.target else plan.cluster_id
        question = (
            f"This destroys data. Type the cluster's name ({printable(expected)}) to apply {them or 'it'}: "
        )
    else:
        expected = "yes"
        question = f"Type yes to apply {them or 'exactly this'}: "
    # Not click.prompt: it also writes to stdout, which is for the result only.
    try:
        click.echo(f"\n{extent}{question}", nl=False, err=True)
        answer = read_answer()
    except KeyboardInterrupt:
        click.echo(err=True)
        raise KafkaformError("interrupted; nothing was applied") from None
    # The end of input leaves the cursor behind the question.
    if not answer.endswith("\n"):
        click.echo(err=True)
    if answer.strip() != expected:
        raise KafkaformError("not confirmed; nothing was applied")


# --- execution and report ----------------------------------------------------------------------------


def _execute(
    candidate: _Candidate,
    cluster: ClusterWriter,
    guard: Guard,
    journal: Journal,
    throttle_journal: ThrottleJournal,
    moves: MoveOptions,
    stop: Event,
) -> ApplyReport:
    from kafkaform.apply.executor import ApplyOptions
    from kafkaform.apply.executor import apply as execute

    # From here on, a first Ctrl-C or SIGTERM must not interrupt a request: its outcome would be unknown.
    with progress() as observer, interruptible(observer, stop):
        options = ApplyOptions(
            observer=observer,
            stop=stop,
            guard=guard,
            journal=journal,
            moves=moves,
            throttle_journal=throttle_journal,
            done=candidate.done,
        )
        return execute(candidate.plan, cluster, options, candidate.observation)


def _show_result(report: ApplyReport, output_format: str, *, verbose: bool) -> None:
    if output_format == "text":
        # The plan that was shown already reports that there is nothing to do.
        if not report.results and not report.unknown and not report.errors:
            return
        click.echo()
    show("apply", output_format, report, verbose=verbose)
