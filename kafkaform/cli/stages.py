"""An apply to several clusters, stage by stage."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from kafkaform.cli.doctor import examine_cluster
from kafkaform.cli.error_handler import ErrorHandler
from kafkaform.cli.fleet import check_selector
from kafkaform.cli.output import show, tell
from kafkaform.cli.session import Session
from kafkaform.config.settings import ApplyStage, find_settings
from kafkaform.core.errors import ClusterError, KafkaformError, UsageError
from kafkaform.core.units import format_duration
from kafkaform.core.values import replace
from kafkaform.inspect.health_check import HealthVerdict
from kafkaform.report.fleet import StageOutcome, StageResult
from kafkaform.rules import plugins

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kafkaform.cli.options import ClusterSelector
    from kafkaform.config.settings import ClusterSettings, Settings
    from kafkaform.core.apply_result import ApplyReport


def apply_in_stages(
    selectors: Sequence[str],
    where: ClusterSelector,
    check: Callable[[Mapping[str, ClusterSettings]], None],
    apply: Callable[[ClusterSelector], ApplyReport],
    output_format: str = "text",
) -> int:
    """Apply to the selected clusters, and stop after the first stage that is not complete.

    The clusters of a stage are independent: if one fails, the others of the stage are still applied. Each is
    locked only while it is applied. Run again, clusters that are complete have nothing left to change.

    Args:
        selectors: The clusters, by globs of names or by labels.
        where: The options of the command line; they may not choose a cluster.
        check: Called with the clusters before anything is applied; may raise.
        apply: Applies to one cluster, given the options that choose it.
        output_format: The format of the report on all clusters.

    Raises:
        UsageError: The selection is wrong, or a selected cluster is in no stage.
    """
    check_selector(where)
    settings = find_settings(where.config_file)
    stages = [*_divide(settings, selectors)]
    check(settings.select_clusters(selectors))
    results = {
        name: StageResult(number, name) for number, (_, names) in enumerate(stages, 1) for name in names
    }
    for number, (stage, names) in enumerate(stages, 1):
        for name in names:
            tell(f"stage {number} of {len(stages)}: cluster {name}")
            chosen = replace(where, cluster_name=name)
            is_first = all(result.outcome is StageOutcome.NOT_STARTED for result in results.values())
            results[name] = _run(partial(apply, chosen), results[name], is_first=is_first)
        failed = any(results[name].outcome is not StageOutcome.APPLIED for name in names)
        # Health is waited for between stages: after the last one, nothing depends on it.
        if not failed and stage.wait_ms is not None and number < len(stages):
            for name in names:
                if not _is_healthy(replace(where, cluster_name=name), stage.wait_ms):
                    results[name], failed = replace(results[name], outcome=StageOutcome.UNHEALTHY), True
        if failed:
            break
    show("stages", output_format, [*results.values()])
    return int(any(result.outcome is not StageOutcome.APPLIED for result in results.values()))


def _divide(settings: Settings, selectors: Sequence[str]) -> Iterator[tuple[ApplyStage, list[str]]]:
    """Yield each stage with the selected clusters that are in no earlier one."""
    remaining = settings.select_clusters(selectors)
    for stage in settings.stages or [ApplyStage((name,)) for name in remaining]:
        names = [name for name, each in remaining.items() if any(map(each.matches, stage.selectors))]
        if names:
            yield stage, names
        remaining = {name: each for name, each in remaining.items() if name not in names}
    if remaining:
        raise UsageError(
            f"{', '.join(remaining)}: in no stage of {settings.file}", hint="add a stage, or select others"
        )


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
