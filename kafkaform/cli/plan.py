"""`kafkaform plan`."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from kafkaform.cli.options import (
    ClusterSelector,
    SectionedCommand,
    allow_option,
    clusters_option,
    manifests_option,
    option_group,
    parse_milliseconds,
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
from kafkaform.core.model import Desired, Status
from kafkaform.core.values import Value, replace
from kafkaform.plan.gate import find_idle_grants
from kafkaform.plan.plan_signature import Purpose
from kafkaform.plan.planning import PlanningResult, Request, make_plan
from kafkaform.resources.consent import Grant
from kafkaform.resources.name_globs import NO_GLOBS
from kafkaform.resources.values import is_deferred
from kafkaform.rules import plugins

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkaform.cluster.kafka.cluster import KafkaCluster
    from kafkaform.core.plans import Plan
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


class PlanScope(Value):
    """The resources to plan.

    Attributes:
        manifests_from: The folder of manifests of a branch that is not trusted.
        targets: Only these resources.
        allow: Consents, as they are written.
        prune: Whether undeclared resources inside `owns` are to be deleted.
        changed_since: The ref from which the branch diverged whose changes are separated from drift.
        clusters: The selected clusters; empty for one. Each is planned.
        skew_report: A report of kafkaform skew.
        max_age: The maximum age of that report, in milliseconds.
    """

    manifests_from: Path | None
    targets: tuple[str, ...]
    allow: tuple[str, ...]
    prune: bool
    changed_since: str | None
    clusters: tuple[str, ...]
    skew_report: Path | None
    max_age: int


class PlanFiles(Value):
    """The file of a saved plan, and its signature.

    Attributes:
        sign_key: The file of the key.
        sign_for: The purpose of the signature.
    """

    out: Path | None
    sign_key: Path | None
    sign_for: str | None


class PlanOutput(Value):
    """The format of a printed plan, and its exit code.

    Attributes:
        output_format: The format of the report.
        verbose: Whether everything is listed.
        detailed_exitcode: Whether changes give the exit code 2.
        strict: Whether what holds an apply back gives the exit code 1.
    """

    output_format: str
    verbose: bool
    detailed_exitcode: bool
    strict: bool


@click.command(cls=SectionedCommand)
@paths_argument
@where_options
@option_group(
    PlanScope,
    "scope_options",
    manifests_option,
    target_option,
    allow_option,
    prune_option,
    click.option(
        "--changed-since",
        metavar="REF",
        help="Separate the changes that this branch causes, since it diverged from REF, from those that were "
        "due before.",
    ),
    clusters_option("--out plan.json then saves plan.CLUSTER.json, and their set in plan.json."),
    click.option(
        "--skew",
        "skew_report",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="REPORT.json",
        help="Judge partition increases by this report of kafkaform skew.",
    ),
    click.option(
        "--max-age",
        callback=parse_milliseconds,
        metavar="DURATION",
        default="7d",
        show_default=True,
        help="The maximum age of that report.",
    ),
)
@option_group(PlanFiles, "files", out_option, sign_key_option, sign_for_option)
@option_group(
    PlanOutput,
    "output",
    plan_format_option,
    verbose_option,
    click.option(
        "--detailed-exitcode", is_flag=True, help="Exit 2 if there are changes, 0 if there are none."
    ),
    strict_option,
)
def plan(
    paths: tuple[Path, ...],
    where: ClusterSelector,
    scope_options: PlanScope,
    files: PlanFiles,
    output: PlanOutput,
) -> int:
    """Show what would change on the cluster. Changes nothing.

    PATHs are manifests or folders of manifests, or - for standard input; the default is `manifests:` of
    kafkaform.yaml, or topics/.
    """
    saving = _prepare_saving(files.out, files.sign_key, files.sign_for, scope_options.manifests_from)
    if scope_options.changed_since is not None:
        require_files(paths, "--changed-since compares files with a commit")
    if scope_options.clusters:
        require_files(paths, "--clusters reads the manifests once for each cluster")
    age_source = click.get_current_context().get_parameter_source("max_age")
    # --max-age has a default, so its value alone does not show whether it was given.
    if scope_options.skew_report is None and age_source is ParameterSource.COMMANDLINE:
        raise UsageError(
            "--max-age limits the age of the report of --skew", hint="also use --skew REPORT.json"
        )
    scope = Scope(
        paths,
        scope_options.targets,
        tuple(map(Grant.parse, scope_options.allow)),
        scope_options.prune,
        changed_since=scope_options.changed_since,
    )
    if scope_options.skew_report is not None:
        scope = replace(
            scope,
            skew=_read_skew_report(
                scope_options.skew_report, scope_options.max_age, clusters=scope_options.clusters
            ),
        )
    make = partial(_make_plan, scope=scope, exact=files.out is not None, purpose=saving.signed_for)
    judge = partial(exit_code, detailed=output.detailed_exitcode, strict=output.strict)
    if scope_options.clusters:
        from kafkaform.cli.fleet import ClusterOutcome, Fleet, plan_path, run_on_clusters

        digests: dict[str, str] = {}

        def run(session: Session) -> ClusterOutcome:
            made, about = make(session)
            name = session.require_cluster().name
            file = files.out and plan_path(files.out, name)

            def save() -> None:
                if (digest := saving.save(made, about, file)) is not None:
                    digests[name] = digest
                    # The set is saved again with each plan, as it has the signature's purpose from a plan.
                    saving.save_set(digests, about.signed_for)

            return ClusterOutcome(made, judge(made), {"header": about}, save)

        fleet = Fleet(
            scope_options.clusters,
            "plan",
            output.output_format,
            output.verbose,
            manifests_from=scope_options.manifests_from,
        )
        return run_on_clusters(where, run, fleet)
    with problems_as_annotations(output.output_format):
        session = Session.start(where, manifests_from=scope_options.manifests_from)
        made, about = make(session)
    # The file is written before the report: a pipe that closes early, as `| head` does, must not lose the
    # plan.
    saving.save(made, about)
    policies = {policy.code: policy for policy in session.settings.policies}
    changed = (
        # Of the formats, only github treats findings in files of the branch differently, and Git takes time.
        changed_files(session.settings, paths, scope_options.changed_since)
        if output.output_format == "github"
        else None
    )
    show(
        "plan",
        output.output_format,
        made,
        header=about,
        verbose=output.verbose,
        policies=policies,
        changed=changed,
    )
    if files.out is not None:
        saving.tell(made, session.where)
    return judge(made)


def _prepare_saving(
    out: Path | None, sign_key: Path | None, sign_for: str | None, manifests_from: Path | None
) -> Saving:
    """Return the options of the saved plan; raises UsageError if it must not or cannot be signed."""
    purpose = Purpose(sign_for or Purpose.REVIEW)
    # A plan signed for apply is applied as it is. Manifests that anyone may propose must first be merged.
    if purpose is Purpose.APPLY and manifests_from is not None:
        raise UsageError(
            "--sign-for apply cannot be combined with --manifests-from: manifests of a branch that is not "
            "trusted are signed for review only",
            hint="merge the branch, and plan from the merged manifests",
        )
    # Prepared before anything is read: a key that cannot be used is found at once, not after the plan was
    # made.
    saving = Saving.prepare(out, sign_key, purpose)
    if sign_for is not None and saving.key is None:
        raise UsageError(
            "--sign-for needs a key to sign with",
            hint="use --out FILE and --sign-key FILE, or set KAFKAFORM_SIGN_KEY",
        )
    return saving


def _make_plan(
    session: Session, *, scope: Scope, exact: bool, purpose: Purpose | None
) -> tuple[Plan, PlanHeader]:
    session.require_cluster()
    with session.cluster() as cluster:
        # The connection is closed before the header is made, which reads all manifests again for an exact
        # commit.
        made, _ = plan_now(session, cluster, scope)
    return made.plan, header(session, scope.paths, exact=exact, purpose=purpose)


def _read_skew_report(file: Path, max_age: int, *, clusters: tuple[str, ...]) -> SkewReport:
    if clusters:
        raise UsageError("--skew: a report is about one cluster", hint="plan only that cluster")
    from kafkaform.plan.skew_report import read_skew_report

    return read_skew_report(file, max_age=timedelta(milliseconds=max_age))


class Scope(Value):
    """The scope of a plan, from the command line.

    Attributes:
        paths: Manifests or folders of them; empty for those of the configuration.
        targets: Only these resources.
        prune: Whether undeclared resources inside `owns` are to be deleted.
        skew: A report on key skew.
        changed_since: The ref from which the branch diverged whose changes are separated from drift.
    """

    paths: tuple[Path, ...] = ()
    targets: tuple[str, ...] = ()
    grants: tuple[Grant, ...] = ()
    prune: bool = False
    skew: SkewReport | None = None
    changed_since: str | None = None

    def options(self) -> list[str]:
        """Return the options that choose the same resources and give the same consents, for commands."""
        targets = [word for target in self.targets for word in ("--target", target)]
        consents = [word for grant in self.grants for word in ("--allow", grant.text)]
        return [*targets, *consents, *(["--prune"] if self.prune else [])]


def plan_now(
    session: Session, cluster: KafkaCluster, scope: Scope
) -> tuple[PlanningResult, Sequence[Desired]]:
    """Read the manifests and the cluster, and plan; also returns the declared resources."""
    plugins.load()
    subset = session.is_subset(scope.paths, scope.targets)
    _check_prune(session, scope, subset=subset)
    # `prefetch` requests each resource while later manifests are still parsed, so that the brokers answer
    # meanwhile.
    desired = session.manifests(scope.paths, scope.targets, found=cluster.prefetch())
    comparison = _compare_branch(desired, session, scope)
    desired = [*comparison.desired] if comparison is not None else desired
    request = Request(
        desired,
        subset,
        scope.prune,
        scope.grants,
        session.environment,
        scope.skew,
        dropped=comparison.dropped if comparison is not None and not subset else frozenset(),
        partial=session.is_subset(scope.paths, ()),
    )
    result = make_plan(request, cluster, session.settings, session.target, tell=tell)
    plan = result.plan
    for line in find_idle_grants(scope.grants, plan, [declared.ref for declared in desired]):
        tell(line)
    if comparison is not None:
        plan = comparison.attribute(plan, result.context)
    if session.settings.branch is not None:
        from kafkaform.vcs.branch import describe_configuration

        notes = describe_configuration(session.settings, session.require_cluster().name)
        plan = replace(plan, diagnostics=(*notes, *plan.diagnostics))
    return replace(result, plan=plan), desired


def _check_prune(session: Session, scope: Scope, *, subset: bool) -> None:
    if not scope.prune:
        return
    # Only with all manifests is a topic without a manifest unmanaged; with a part, it may be declared
    # elsewhere.
    if subset or scope.changed_since is not None:
        raise UsageError(
            "--prune needs all manifests: with a subset, everything else would look unmanaged",
            hint="leave out --target, PATH and --changed-since",
        )
    # Clusters are shared. Without `owns`, resources of other teams would be deleted.
    if session.settings.owns == NO_GLOBS:
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
        scope.changed_since,
        desired,
        paths,
        session.settings,
        session.environment,
        cluster=session.cluster_name,
        select=select,
    )


def exit_code(made: Plan, *, detailed: bool, strict: bool) -> int:
    """Return the exit code: 1 incomplete, or (strict) held back or with errors; 2 changes (detailed)."""
    # 1 comes first: with parts that could not be read, whether there are changes is not known.
    if made.unknown or (strict and made.open_errors):
        return 1
    if strict and any(c.status is not Status.PLANNED or is_deferred(c) for c in made.changes):
        return 1
    return 2 if detailed and made.changes else 0
