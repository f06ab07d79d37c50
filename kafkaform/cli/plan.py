"""`kafkaform plan`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from kafkaform.cli.options import (
    SectionedCommand,
    Where,
    all_clusters_option,
    allow_option,
    in_milliseconds,
    manifests_option,
    paths_argument,
    prune_option,
    require_files,
    target_option,
    where_options,
)
from kafkaform.cli.output import (
    changed_files,
    header,
    plan_format_option,
    problems_as_annotations,
    show,
    tell,
    verbose_option,
)
from kafkaform.cli.session import Session, is_target
from kafkaform.cli.show import Saving, out_option, sign_for_option, sign_key_option
from kafkaform.core.errors import UsageError
from kafkaform.core.model import Plan, Status
from kafkaform.plan.plan_signature import Purpose
from kafkaform.plan.planning import Request, build_plan
from kafkaform.plan.policy import idle_grants
from kafkaform.resources.consent import Grant
from kafkaform.resources.values import is_deferred
from kafkaform.rules import plugins

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkaform.cluster.kafka.cluster import KafkaCluster
    from kafkaform.core.model import Desired
    from kafkaform.plan.plan_header import PlanHeader
    from kafkaform.vcs.branch import BranchComparison
    from spark_validation.results import SkewReport


strict_option = click.option(
    "--strict/--no-strict",
    default=True,
    show_default=True,
    help="Exit 1 if applying this plan would: a change is refused, needs consent or cannot be completed, "
    "or a rule reports an error.",
)


@click.command(cls=SectionedCommand)
@paths_argument
@where_options
@manifests_option
@target_option
@allow_option
@prune_option
@click.option(
    "--changed-since",
    metavar="REF",
    help="Separate the changes that this branch causes, since it diverged from REF, from those that were "
    "due before.",
)
@all_clusters_option("Plan every cluster of kafkaform.yaml; --out plan.json then saves plan.CLUSTER.json.")
@click.option(
    "--skew",
    "skew_report",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="REPORT.json",
    help="Judge partition increases by this report of kafkaform skew; refuse those that a topic's skew "
    "policy forbids.",
)
@click.option(
    "--max-age",
    callback=in_milliseconds,
    metavar="DURATION",
    default="7d",
    show_default=True,
    help="The maximum age of that report.",
)
@out_option
@sign_key_option
@sign_for_option
@plan_format_option
@verbose_option
@click.option("--detailed-exitcode", is_flag=True, help="Exit 2 if there are changes, 0 if there are none.")
@strict_option
def plan(
    paths: tuple[Path, ...],
    where: Where,
    manifests_from: Path | None,
    targets: tuple[str, ...],
    allow: tuple[str, ...],
    prune: bool,
    changed_since: str | None,
    all_clusters: bool,
    skew_report: Path | None,
    max_age: int,
    out: Path | None,
    sign_key: Path | None,
    sign_for: str | None,
    output_format: str,
    verbose: bool,
    detailed_exitcode: bool,
    strict: bool,
) -> int:
    """Show what would change on the cluster. Changes nothing.

    PATHs are manifests or folders of manifests, or - for standard input; the default is `manifests:` of
    kafkaform.yaml, or topics/.
    """
    saving = _saving(out, sign_key, sign_for, manifests_from)
    if changed_since is not None:
        require_files(paths, "--changed-since compares files with a commit")
    if all_clusters:
        require_files(paths, "--all-clusters reads the manifests once for each cluster")
    age_source = click.get_current_context().get_parameter_source("max_age")
    if skew_report is None and age_source is ParameterSource.COMMANDLINE:
        raise UsageError(
            "--max-age limits the age of the report of --skew", hint="also use --skew REPORT.json"
        )
    scope = Scope(paths, targets, tuple(map(Grant.parse, allow)), prune, changed_since=changed_since)
    if skew_report is not None:
        scope = replace(scope, skew=_read_skew(skew_report, max_age, all_clusters=all_clusters))
    make = partial(_made, scope=scope, exact=out is not None, purpose=saving.signed_for)
    judge = partial(exit_code, detailed=detailed_exitcode, strict=strict)
    if all_clusters:
        from kafkaform.cli.fleet import Answer, Fleet, ask_all, plan_path

        def ask(session: Session) -> Answer:
            made, about = make(session)
            file = out and plan_path(out, session.require_cluster().name)
            return Answer(made, judge(made), {"header": about}, partial(saving.save, made, about, file))

        fleet = Fleet("plan", output_format, verbose, manifests_from=manifests_from)
        return ask_all(where, ask, fleet)
    with problems_as_annotations(output_format):
        session = Session.start(where, manifests_from=manifests_from)
        made, about = make(session)
    saving.save(made, about)
    policies = {policy.code: policy for policy in session.settings.policies}
    changed = changed_files(session.settings, paths, changed_since) if output_format == "github" else None
    show("plan", output_format, made, header=about, verbose=verbose, policies=policies, changed=changed)
    if out is not None:
        saving.tell(made, session.where)
    return judge(made)


def _saving(
    out: Path | None, sign_key: Path | None, sign_for: str | None, manifests_from: Path | None
) -> Saving:
    """Where and how the plan is saved; raises UsageError for what must not be signed, or cannot be."""
    purpose = Purpose(sign_for or Purpose.REVIEW)
    if purpose is Purpose.APPLY and manifests_from is not None:
        raise UsageError(
            "--sign-for apply does not go with --manifests-from: manifests of a branch that is not trusted "
            "are signed for review only",
            hint="merge the branch, and plan from the merged manifests",
        )
    saving = Saving.prepared(out, sign_key, purpose)
    if sign_for is not None and saving.key is None:
        raise UsageError(
            "--sign-for needs a key to sign with",
            hint="use --out FILE and --sign-key FILE, or set KAFKAFORM_SIGN_KEY",
        )
    return saving


def _made(session: Session, *, scope: Scope, exact: bool, purpose: Purpose | None) -> tuple[Plan, PlanHeader]:
    session.require_cluster()
    with session.cluster() as cluster:
        made, _ = plan_now(session, cluster, scope)
    return made, header(session, scope.paths, exact=exact, purpose=purpose)


def _read_skew(file: Path, max_age: int, *, all_clusters: bool) -> SkewReport:
    if all_clusters:
        raise UsageError("--skew: a report is about one cluster", hint="plan only that cluster")
    from kafkaform.plan.skew_report import read_skew_report

    return read_skew_report(file, max_age=timedelta(milliseconds=max_age))


@dataclass(frozen=True, slots=True)
class Scope:
    """What a plan is asked to cover, as the command line says.

    Attributes:
        paths: Manifests or folders of them; none: those of the configuration.
        targets: Only these resources.
        grants: Consents.
        prune: Whether undeclared topics are to be deleted.
        skew: What was measured of topics' records.
        changed_since: Where the branch began whose changes are to be told from drift.
    """

    paths: tuple[Path, ...] = ()
    targets: tuple[str, ...] = ()
    grants: tuple[Grant, ...] = ()
    prune: bool = False
    skew: SkewReport | None = None
    changed_since: str | None = None


def plan_now(session: Session, cluster: KafkaCluster, scope: Scope) -> tuple[Plan, Sequence[Desired]]:
    """Read the manifests and the cluster, and plan; returns what is declared, too."""
    plugins.load()
    subset = session.is_subset(scope.paths, scope.targets)
    _check_prune(session, scope, subset=subset)
    desired = session.manifests(scope.paths, scope.targets, found=cluster.prefetch())
    comparison = _compare_branch(desired, session, scope)
    desired = [*comparison.desired] if comparison is not None else desired
    request = Request(desired, subset, scope.prune, scope.grants, session.environment, scope.skew)
    made = build_plan(request, cluster, session.settings, session.target, tell=tell)
    for idle in idle_grants(scope.grants, made, [declared.ref for declared in desired]):
        tell(idle)
    if comparison is not None:
        made = comparison.attribute(made)
    if session.settings.branch is not None:
        from kafkaform.vcs.branch import describe_configuration

        notes = describe_configuration(session.settings, session.require_cluster().name)
        made = replace(made, diagnostics=(*notes, *made.diagnostics))
    return made, desired


def _check_prune(session: Session, scope: Scope, *, subset: bool) -> None:
    if not scope.prune:
        return
    if subset or scope.changed_since is not None:
        raise UsageError(
            "--prune needs all manifests: with a subset, everything else would look undeclared",
            hint="leave out --target, PATH and --changed-since",
        )
    if not session.settings.owns:
        raise UsageError(
            "--prune deletes only inside owns:, which is empty", hint="set owns: in kafkaform.yaml"
        )


def _compare_branch(desired: Sequence[Desired], session: Session, scope: Scope) -> BranchComparison | None:
    if scope.changed_since is None:
        return None
    from kafkaform.vcs.branch import compare_branch

    paths = session.paths(scope.paths)
    select = partial(is_target, targets=scope.targets)
    return compare_branch(
        scope.changed_since, desired, paths, session.settings, session.environment, select=select
    )


def exit_code(made: Plan, *, detailed: bool, strict: bool) -> int:
    """The exit code of a plan: 1 incomplete, or (strict) held back or with errors; 2 changes (detailed)."""
    if made.unknown or (strict and made.open_errors):
        return 1
    if strict and any(one.status is not Status.PLANNED or is_deferred(one) for one in made.changes):
        return 1
    return 2 if detailed and made.changes else 0
