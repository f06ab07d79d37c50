"""`kafkaform agent`."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import TYPE_CHECKING

import click

from kafkaform.apply.change_execution import ChangeExecution
from kafkaform.apply.earlier import EarlierApplies
from kafkaform.audit.record import detect_author
from kafkaform.audit.trail import read_record
from kafkaform.cli.apply import ApplyOutput, ApplyRequest, carry_out
from kafkaform.cli.error_handler import ErrorHandler
from kafkaform.cli.notification import NotifiedEvent, Notifier, notify_option
from kafkaform.cli.options import (
    ClusterSelector,
    SectionedCommand,
    option_group,
    parse_milliseconds,
    where_options,
)
from kafkaform.cli.output import show, tell
from kafkaform.cli.plan import Scope, plan_now
from kafkaform.cli.plan_verification import TrustPolicy, enter_plan_environment
from kafkaform.cli.safeguards import Safeguards
from kafkaform.cli.session import Session
from kafkaform.cli.show import read_plan_file
from kafkaform.config.manifests.files import CONFIG_FILE
from kafkaform.core.apply_result import ApplyReport, ResourceResult, Result
from kafkaform.core.errors import KafkaformError, PlanFileError, RepositoryError, UsageError
from kafkaform.core.model import Status
from kafkaform.core.values import Value, replace
from kafkaform.core.wording import command, short_commit
from kafkaform.plan.planning import check_identity
from kafkaform.resources.values import fields_of, is_deferred
from kafkaform.vcs.remote_branch import RemoteBranch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkaform.audit.entries import AuditEntry
    from kafkaform.cluster.kafka.cluster import KafkaCluster
    from kafkaform.core.plans import Plan, PlannedChange
    from kafkaform.vcs.repository import Repository

_SYSTEM = "agent"
"""The CI system in the record of an apply by an agent; its page is the branch."""
# Both are what makes the agent safe, so they are no options: the lock against a second agent, the record
# against a branch that was rewritten, and a plan that is applied twice.
_SAFEGUARDS = Safeguards(lock=True, audit=True)
_OUTPUT = ApplyOutput(
    apply_while_unhealthy=False, auto_approve=True, output_format="text", verbose=False, notify=False
)


class AgentOptions(Value):
    """The branch to follow, and the way to follow it.

    Attributes:
        repository: The address of the repository.
        directory: The folder of the clone; None for a temporary one.
        plan: The path of the plan in the repository; None for plans/CLUSTER.json.
        verify_key: The file of keys, one of which must have signed the plan; None for that of the cluster.
        max_age: The maximum age of a plan that is not applied yet, in milliseconds.
        once: Whether to end after one run.
        interval: The time between two runs, in milliseconds.
        notify: Whether a failure is reported to the webhook.
    """

    repository: str
    branch: str
    directory: Path | None
    plan: Path | None
    verify_key: Path | None
    max_age: int | None
    once: bool
    interval: int
    notify: bool


@click.command(cls=SectionedCommand)
@where_options
@option_group(
    AgentOptions,
    "options",
    click.option(
        "--repository",
        envvar="KAFKAFORM_REPOSITORY",
        show_envvar=True,
        required=True,
        metavar="URL",
        help="The Git repository of the manifests, as for git fetch; without credentials.",
    ),
    click.option("--branch", default="main", show_default=True, metavar="NAME", help="The branch to follow."),
    click.option(
        "--directory",
        type=click.Path(path_type=Path, file_okay=False),
        metavar="DIR",
        help="Keep the clone in this folder.  [default: a temporary folder]",
    ),
    click.option(
        "--plan",
        type=click.Path(path_type=Path),
        metavar="PATH",
        help="The reviewed plan in the repository.  [default: plans/CLUSTER.json]",
    ),
    click.option(
        "--verify-key",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="The public keys (PEM), one of which must have signed the plan.  [default: the cluster's "
        "verifyKey]",
    ),
    click.option(
        "--max-age",
        callback=parse_milliseconds,
        metavar="DURATION",
        help="The maximum age of a plan when it is applied.  [default: the cluster's maxPlanAge]",
    ),
    click.option("--once", is_flag=True, help="End after one run."),
    click.option(
        "--interval",
        callback=parse_milliseconds,
        metavar="DURATION",
        default="1m",
        show_default=True,
        help="Without --once: how long to wait between two runs.",
    ),
    notify_option,
)
def agent(where: ClusterSelector, options: AgentOptions) -> int:
    """Follow a Git branch, and apply its signed, reviewed plan.

    kafkaform.yaml and the keys come from this machine; the clusters of the branch's own kafkaform.yaml are
    not used. A plan is applied once, and never from a branch that was rewritten.
    """
    session = Session.start(where)
    target = session.require_cluster()
    if options.verify_key is None and target.verify_key is None:
        raise UsageError(
            "the agent applies only signed plans, and no key to verify them is given",
            hint=f"set verifyKey for the cluster {target.name} in kafkaform.yaml, or use --verify-key",
        )
    branch = RemoteBranch.parse(options.repository, options.branch)
    notifier = Notifier.prepare(session, wanted=options.notify)
    stop = Event()
    run = partial(_run, branch, session.where, options, notifier, stop)
    error_handler = click.get_current_context().find_object(ErrorHandler) or ErrorHandler()
    while True:
        try:
            report = run()
            if options.once or stop.is_set():
                return 0 if report.complete else 1
        # Such as a cluster that is down: the next run tries again.
        except KafkaformError as error:
            if options.once:
                raise
            error_handler.tell(error)
        time.sleep(options.interval / 1000)


def _run(
    branch: RemoteBranch, where: ClusterSelector, options: AgentOptions, notifier: Notifier, stop: Event
) -> ApplyReport:
    """Fetch the branch, and apply its plan; of one that is applied already, report what it held back."""
    with _open_folder(options.directory) as folder:
        with notifier.report_errors(NotifiedEvent.APPLY_FAILED):
            repository = branch.fetch(folder)
        head = repository.read_head()
        notifier = replace(notifier, commit=head)
        with notifier.report_errors(NotifiedEvent.APPLY_FAILED):
            report, is_applied = _apply_head(repository, branch, where, options, stop)
    if is_applied:
        exception = "" if report.complete else ", except for what is held back"
        tell(f"commit {short_commit(head)} of {branch}: its plan is applied already{exception}")
        if exception:
            show("apply", "text", report)
    elif not report.complete:
        from kafkaform.report.apply import summarise_apply

        notifier.send(NotifiedEvent.APPLY_FAILED, summarise_apply(report))
    return report


@contextmanager
def _open_folder(directory: Path | None) -> Iterator[Path]:
    if directory is not None:
        yield directory
        return
    with TemporaryDirectory(prefix="kafkaform-agent-") as folder:
        yield Path(folder)


def _apply_head(
    repository: Repository, branch: RemoteBranch, where: ClusterSelector, options: AgentOptions, stop: Event
) -> tuple[ApplyReport, bool]:
    """Apply the reviewed plan of the checked-out commit; also returns whether it was applied already."""
    session = Session.start(where, manifests_from=repository.root)
    # That the branch has other clusters is no finding: it is merged, and these are the agent's own for good.
    session = replace(session, settings=replace(session.settings, branch=None))
    target = session.require_cluster()
    path = options.plan or Path("plans", f"{target.name}.json")
    file = repository.root / path
    trust = TrustPolicy(options.max_age, verify_key=options.verify_key, reviewed=file)
    plan, header = read_plan_file(file)
    session = enter_plan_environment(session, header)

    def read_earlier(cluster: KafkaCluster, cluster_id: str) -> EarlierApplies:
        record = read_record(cluster, _SAFEGUARDS.get_audit_settings(target))
        entries = [entry for entry in record.entries if entry.cluster_id == cluster_id]
        _require_descent(entries, repository, branch)
        return EarlierApplies(entries)

    with session.cluster() as cluster:
        facts = cluster.facts()
        check_identity(facts, target)
        spent = read_earlier(cluster, facts.cluster_id).find_spent(header.digest or "", header.created_at)
        planned = {change.ref for change in plan.select_by_status(Status.PLANNED)}
        if planned and planned <= spent.keys():
            # A plan that is applied says nothing about manifests that changed since.
            paths = [*session.settings.manifests, *filter(Path.exists, [repository.root / CONFIG_FILE])]
            if all(_is_same(repository, commit, paths) for commit in {spent[ref].commit for ref in planned}):
                return _report_held_back(plan, session, cluster), True
    # After that check: a plan that is applied may be of any age.
    trust.check(header, file, session, target)
    author = replace(detect_author(os.environ), ci=_SYSTEM, url=str(branch))
    plan_again = command("plan", options=("--out", str(path), "--sign-key", "KEY"))
    request = ApplyRequest(Scope(), trust, None, (plan, header), plan_again)
    # Once more under the lock: another agent may have applied a newer commit meanwhile.
    return carry_out(request, session, _SAFEGUARDS, _OUTPUT, author, read_earlier, stop), False


def _report_held_back(plan: Plan, session: Session, cluster: KafkaCluster) -> ApplyReport:
    """Report what a plan that is applied has held back, and what of it is still a change; changes nothing."""
    held = {
        change.ref for change in plan.changes if change.status is not Status.PLANNED or is_deferred(change)
    }
    if not (held or plan.unknown or plan.open_errors):
        return ApplyReport(())
    now = plan_now(session, cluster, Scope())[0].plan
    results = tuple(_describe_held_back(change) for change in now.changes if change.ref in held)
    return ApplyReport(results, unknown=now.unknown, errors=now.open_errors)


def _describe_held_back(planned: PlannedChange) -> ResourceResult:
    deferred = tuple(field for field in fields_of(planned.change) if field.deferred is not None)
    if planned.status is not Status.PLANNED:
        execution = ChangeExecution(planned)
        execution.skip()
        return execution.build_result()
    if deferred:
        return ResourceResult(planned, Result.ALREADY, deferred=deferred)
    return ResourceResult(
        planned, Result.NOT_TRIED, "the reviewed plan held it back", "make a new plan and review it"
    )


def _require_descent(entries: Sequence[AuditEntry], repository: Repository, branch: RemoteBranch) -> None:
    """Refuse a commit that does not contain the one that was applied last from this branch."""
    applied = [entry for entry in entries if entry.ci == _SYSTEM and entry.url == str(branch)]
    if not applied or applied[-1].commit is None:
        return
    commit = applied[-1].commit
    try:
        if repository.find_merge_base(commit) == commit:
            return
    except RepositoryError:  # the commit is not in the clone, or has no ancestor in common with this one
        pass
    raise PlanFileError(
        f"commit {short_commit(repository.read_head())} of {branch} does not contain commit "
        f"{short_commit(commit)}, which was applied on {applied[-1].at[:16].replace('T', ' ')} UTC: "
        "the branch was rewritten; nothing was applied",
        hint="restore the branch; if it was rewritten on purpose, let the agent follow a new one (--branch)",
    )


def _is_same(repository: Repository, commit: str | None, paths: Sequence[Path]) -> bool:
    """Return whether the manifests are those of a recorded commit."""
    try:
        return commit is not None and not repository.find_changes(commit, paths)
    except RepositoryError:  # a commit of another repository: the plan was applied from there
        return False
