"""How replicas and leaders lie on brokers, before a rebalance and after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.core.units import rounded_size
from kafkaform.core.wording import counted
from kafkaform.report.tables import Cell, Column, table

if TYPE_CHECKING:
    from rich.text import Text

    from kafkaform.plan.placement import Moves
    from kafkaform.plan.rebalancing import Rebalance

_COLUMNS = (
    Column("BROKER", right=True),
    Column("RACK", least=6),
    Column("REPLICAS", right=True),
    Column("PREFERRED LEADERS", right=True),
)


def render_balance(made: Rebalance, width: int | None = None) -> Text:
    """A row for each broker, and what the way from one to the other costs.

    Args:
        made: The rebalance.
        width: The characters of a line of the terminal; None where no terminal reads it.
    """
    rows = [
        (
            Cell(str(broker.id)),
            Cell(broker.rack or "-"),
            Cell(_change(made.before.replicas[broker.id], made.after.replicas[broker.id])),
            Cell(_change(made.before.leaders[broker.id], made.after.leaders[broker.id])),
        )
        for broker in sorted(made.brokers, key=lambda broker: broker.id)
    ]
    text = table(_COLUMNS, rows, width)
    text.append(f"\n{_cost(made.moves)}")
    if made.before.narrow != made.after.narrow:
        narrow = f"{made.before.narrow:,} → {made.after.narrow:,}"
        text.append(f"; partitions on fewer racks than could be: {narrow}")
    return text


def _change(before: int, after: int) -> str:
    return f"{before:,} → {after:,}" if before != after else f"{before:,}"


def _cost(moves: Moves) -> str:
    copied = f"{counted(moves.replicas, 'replica')} to copy"
    size = f", {rounded_size(moves.size)}" if moves.replicas else ""
    leaders = (
        f", {counted(moves.leaders, 'partition')} with another preferred leader" if moves.leaders else ""
    )
    return f"{copied}{size}{leaders}"
