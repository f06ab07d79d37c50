"""One command for several clusters of the configuration at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

import click
from click.globals import pop_context, push_context

from kafkaform.cli.error_handler import ErrorHandler
from kafkaform.cli.output import RENDERERS, render, show
from kafkaform.cli.session import Session, SharedManifests
from kafkaform.config.settings import find_settings
from kafkaform.core.errors import InvalidInput, KafkaformError, UsageError
from kafkaform.core.values import Value, field, replace
from kafkaform.rules import plugins

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from kafkaform.cli.options import ClusterSelector
    from kafkaform.report.fleet import FailedCluster
    from kafkaform.report.page import Page

_AT_ONCE = 8
"""The number of clusters that are read at the same time."""
_PRECEDENCE = (1, 2, 0)
"""The exit codes by precedence: an error, then changes, drift or bad health, then success."""


class ClusterOutcome(Value):
    """The outcome of a command for one cluster.

    Attributes:
        content: The content of the report.
        code: The exit code of the command for this cluster alone.
        options: The options of the renderers.
        finish: A function that saves a file or prints notes on stderr; called after the report, one cluster
            at a time.
    """

    content: object
    code: int
    options: Mapping[str, object] = field(default_factory=dict)
    finish: Callable[[], None] | None = None


class Fleet(Value):
    """The command and output of a report on several clusters.

    Attributes:
        selectors: The selected clusters, by globs of names or by labels.
        command: The command, and the name of its report.
        output_format: text, json or markdown.
        verbose: Whether everything is listed.
        out: The file for the report; None for stdout.
        manifests_from: See `Session.start`.
        without: A cluster that is left out, if it is selected.
        report: How the clusters are put together, a key of RENDERERS.
    """

    selectors: tuple[str, ...]
    command: str
    output_format: str
    verbose: bool = False
    out: Path | None = None
    manifests_from: Path | None = None
    without: str | None = None
    report: str = "fleet"


def run_on_clusters(where: ClusterSelector, run: Callable[[Session], ClusterOutcome], fleet: Fleet) -> int:
    """Run a command for the selected clusters, and print one report.

    If it fails for one cluster, it still runs for the others.

    Args:
        where: The options of the command line; they may not choose a cluster or an environment.
        run: A function that runs the command for one cluster; called in a thread of its own.
        fleet: The command and its output.

    Returns:
        The worst exit code: 1, then 2, then 0.

    Raises:
        UsageError: A cluster or an environment was chosen, the format cannot hold several reports, or the
            call is wrong for every cluster.
    """
    from kafkaform.report.fleet import ClusterReport

    check_selector(where)
    _check_format(fleet)
    clusters = find_settings(where.config_file).select_clusters(fleet.selectors)
    clusters = {name: cluster for name, cluster in clusters.items() if name != fleet.without}
    if not clusters:
        raise UsageError(f"--clusters selects only {fleet.without}", hint="select other clusters, too")
    plugins.load()  # once, and not from several threads
    context, shared = click.get_current_context(), SharedManifests()
    with ThreadPoolExecutor(min(len(clusters), _AT_ONCE)) as pool:
        outcomes = list(
            pool.map(partial(_run_on_cluster, context, where, run, fleet.manifests_from, shared), clusters)
        )
    errors = [outcome for outcome in outcomes if isinstance(outcome, UsageError)]
    # A wrong option is wrong for every cluster: one error, and not one per cluster. If it fails for some
    # only, such as one without manifests, the others are reported.
    if len(errors) == len(outcomes):
        raise errors[0]
    # Failures are part of the report, so they do not pass the error handler on their way to stderr.
    error_handler = context.find_object(ErrorHandler) or ErrorHandler()
    members = [
        ClusterReport(name, cluster.environment, outcome.content, partial(_render, fleet, outcome))
        if isinstance(outcome, ClusterOutcome)
        else _build_failed(name, cluster.environment, outcome, error_handler)
        for (name, cluster), outcome in zip(clusters.items(), outcomes, strict=True)
    ]
    # One report at the end, however fast each cluster answers; first those that need somebody.
    members.sort(key=lambda member: isinstance(member, ClusterReport))
    show(
        fleet.report,
        fleet.output_format,
        members,
        out=fleet.out,
        command=fleet.command,
        verbose=fleet.verbose,
    )
    for outcome in outcomes:
        if isinstance(outcome, ClusterOutcome) and outcome.finish is not None:
            outcome.finish()
    return combine_exit_codes(
        outcome.code if isinstance(outcome, ClusterOutcome) else 1 for outcome in outcomes
    )


def combine_exit_codes(codes: Iterable[int]) -> int:
    """Return the most severe exit code."""
    return min(codes, key=_PRECEDENCE.index, default=0)


def path_part(cluster: str, option: str) -> str:
    """Return the name of a cluster as a part of a path.

    Raises:
        UsageError: The name is not valid there.
    """
    # Names of clusters are free text in kafkaform.yaml: `../x` must not leave the folder.
    if "/" in cluster or "\0" in cluster or cluster in {".", ".."}:
        raise UsageError(f"{option}: the name of cluster {cluster!r} cannot be part of a path")
    return cluster


def plan_path(out: Path, cluster: str) -> Path:
    """Return the file of the plan of one of several clusters: `out` with the cluster in its name.

    Raises:
        UsageError: The cluster's name cannot be part of a file name.
    """
    return out.with_name(f"{out.stem}.{path_part(cluster, '--out')}{out.suffix}")


def check_selector(where: ClusterSelector) -> None:
    """Raise a UsageError if a cluster or an environment is chosen besides the selected clusters."""
    chosen = {
        where.source(name): getattr(where, name)
        for name in ("cluster_name", "environment", "bootstrap_server", "command_config")
    }
    for option, value in chosen.items():
        if value is not None:
            raise UsageError(
                f"--clusters selects clusters of kafkaform.yaml; {option} chooses one",
                hint="use only one of the two",
            )


def _check_format(fleet: Fleet) -> None:
    formats = [name for name in RENDERERS["fleet"] if name in RENDERERS[fleet.command]]
    if fleet.output_format not in formats:
        raise UsageError(
            f"--clusters has no --format {fleet.output_format}",
            hint=f"choose {' or '.join(formats)}, or one cluster at a time",
        )


def _run_on_cluster(
    context: click.Context,
    where: ClusterSelector,
    run: Callable[[Session], ClusterOutcome],
    manifests_from: Path | None,
    shared: SharedManifests,
    name: str,
) -> ClusterOutcome | KafkaformError:
    # click's context is per thread; without it, secrets of this thread would not be redacted.
    push_context(context)
    try:
        session = Session.start(replace(where, cluster_name=name), manifests_from=manifests_from)
        return run(replace(session, shared=shared))
    except KafkaformError as error:
        return error
    finally:
        pop_context()


def _render(fleet: Fleet, outcome: ClusterOutcome, **options: object) -> Page | str:
    return render(fleet.command, fleet.output_format, outcome.content, **{**outcome.options, **options})


def _build_failed(
    name: str, environment: str | None, error: KafkaformError, error_handler: ErrorHandler
) -> FailedCluster:
    from kafkaform.report.fleet import FailedCluster

    problems = error.problems if isinstance(error, InvalidInput) else ()
    lines = tuple(error_handler.redact(str(problem)) for problem in problems)
    return FailedCluster(name, environment, error_handler.redact(error.message), error.hint, lines)
