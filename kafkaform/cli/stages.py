"""An apply to several clusters, stage by stage."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import click

from kafkaform.cli.doctor import examine_cluster
from kafkaform.cli.error_handler import ErrorHandler
from kafkaform.cli.fleet import check_selector
from kafkaform.cli.output import show, tell
from kafkaform.cli.session import Session
from kafkaform.config.settings import ApplyStage, ClusterSettings, find_settings
from kafkaform.core.errors import ClusterError, KafkaformError, UsageError
from kafkaform.core.units import format_duration
from kafkaform.core.values import replace
from kafkaform.inspect.health_check import HealthVerdict
from kafkaform.report.fleet import StageOutcome, StageResult
from kafkaform.rules import plugins

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkaform.cli.options import ClusterSelector
    from kafkaform.core.apply_result import ApplyReport

Stage: TypeAlias = "tuple[ApplyStage, list[ClusterSettings]]"
"""A stage with its clusters."""


def select_stages(selectors: Sequence[str], where: ClusterSelector) -> list[Stage]:
    """Return the stages with the selected clusters that are in no earlier one.

    Args:
        selectors: The clusters, by globs of names or by labels.
        where: The options of the command line; they may not choose a cluster.

    Raises:
        UsageError: The selection is wrong, or a selected cluster is in no stage.
    """
    check_selector(where)
    settings = find_settings(where.config_file)
    remaining = [*settings.select_clusters(selectors).values()]
    if not settings.stages:
        return [(ApplyStage(()), [cluster]) for cluster in remaining]
    stages: list[Stage] = []
    for stage in settings.stages:
        chosen = [each for each in remaining if any(map(each.matches, stage.selectors))]
        remaining = [each for each in remaining if each not in chosen]
        if chosen:
            stages.append((stage, chosen))
    if remaining:
        names = ", ".join(each.name for each in remaining)
        hint = "add a stage, or select others"
        raise UsageError(f"{names}: in no stage of {settings.file}", hint=hint)
    return stages


def apply_in_stages(
    stages: Sequence[Stage],
    where: ClusterSelector,
    apply: Callable[[ClusterSettings], ApplyReport],
    output_format: str = "text",
) -> int:
    """Apply to the clusters of stages, and stop after the first stage that is not complete.

    The clusters of a stage are independent: if one fails, the others of the stage are still applied. Each is
    locked only while it is applied. Run again, clusters that are complete have nothing left to change.

    Args:
        stages: The stages with their clusters.
        where: The options of the command line.
        apply: Applies to one cluster.
        output_format: The format of the report on all clusters.
    """
    results = {
        each.name: StageResult(number, each.name)
        for number, (_, clusters) in enumerate(stages, 1)
        for each in clusters
    }
    for number, (stage, clusters) in enumerate(stages, 1):
        names = [each.name for each in clusters]
        for cluster in clusters:
            name = cluster.name
            tell(f"stage {number} of {len(stages)}: cluster {name}")
            is_first = all(result.outcome is StageOutcome.NOT_STARTED for result in results.values())
            results[name] = _run(partial(apply, cluster), results[name], is_first=is_first)
        failed = any(results[name].outcome is not StageOutcome.APPLIED for name in names)
        # Health is waited for between stages: after the last one, nothing depends on it.
        if not failed and stage.wait_ms is not None and number < len(stages):
            for name in names:
                if not _is_healthy(replace(where, cluster_name=name), stage.wait_ms):
                    results[name], failed = replace(results[name], outcome=StageOutcome.UNHEALTHY), True
        if failed:
            break
    if output_format == "text":
        click.echo()  # below the report on the last cluster
    show("stages", output_format, [*results.values()])
    return int(any(result.outcome is not StageOutcome.APPLIED for result in results.values()))


def _run(apply: Callable[[], ApplyReport], started: StageResult, *, is_first: bool) -> StageResult:
    try:
        report = apply()
    except KafkaformError as error:
        # A wrong option is wrong for every cluster.
        if is_first and isinstance(error, UsageError):
            raise
        # One cluster that is down stops no other of its stage.
        error_handler = click.get_current_context().find_object(ErrorHandler) or ErrorHandler()
        error_handler.tell(error)
        return replace(started, outcome=StageOutcome.FAILED, error=error_handler.redact(error.message))
    outcome = StageOutcome.APPLIED if report.complete else StageOutcome.INCOMPLETE
    return replace(started, outcome=outcome, report=report)


def _is_healthy(where: ClusterSelector, wait_ms: int) -> bool:
    session = Session.start(where)
    name = session.require_cluster().name
    tell(f"waiting up to {format_duration(wait_ms)} until cluster {name} is healthy")
    plugins.load()
    try:
        return examine_cluster(session, timeout_s=wait_ms / 1000).verdict is HealthVerdict.HEALTHY
    except ClusterError as error:
        tell(f"cluster {name} cannot be read: {error.message}")
        return False
