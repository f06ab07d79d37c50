"""The result of an apply to several clusters in stages."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from kafkaform.core.wording import counted
from kafkaform.report.document import Column, ReportDocument, Role, Table, TextSpan
from kafkaform.report.page import render_page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkaform.report.document import Row
    from kafkaform.report.page import Page


class StageOutcome(Enum):
    """The outcome for one cluster, as reports word it."""

    APPLIED = "complete"
    INCOMPLETE = "not complete: see above"
    FAILED = "failed: see above"
    UNHEALTHY = "applied, but not healthy"
    NOT_STARTED = "not started"


_ROLES = {StageOutcome.APPLIED: Role.GOOD, StageOutcome.NOT_STARTED: Role.MUTED}


def render_stages(outcomes: Sequence[tuple[int, str, StageOutcome]], *, width: int | None = None) -> Page:
    """Render a table of stages and clusters, and what to do next.

    Args:
        outcomes: The number of the stage, the cluster and its outcome, in order.
        width: The columns at which the table folds; None for no limit.
    """
    rows: list[Row] = [
        [str(number), TextSpan(name, Role.NAME), TextSpan(outcome.value, _ROLES.get(outcome, Role.BAD))]
        for number, name, outcome in outcomes
    ]
    stopped = [number for number, _, outcome in outcomes if outcome not in _ROLES]
    complete = sum(outcome is StageOutcome.APPLIED for _, _, outcome in outcomes)
    summary = f"{counted(complete, 'cluster')} of {len(outcomes)} complete."
    if stopped:
        summary += f" Stopped after stage {stopped[0]}: the same command goes on from there."
    columns = [Column("Stage", right=True), Column("Cluster", least=16), Column("Result", least=16)]
    return render_page(ReportDocument("", [Table(columns, rows)], summary=summary, indent=0), width=width)
