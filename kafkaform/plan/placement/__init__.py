"""Where replicas belong: a pure function of where they are and of what is wanted."""

from __future__ import annotations

from kafkaform.core.layout import Strategy
from kafkaform.plan.placement.measures import Balance, Moves, balance, moves
from kafkaform.plan.placement.placing import place
from kafkaform.plan.placement.rebalancing import rebalance
from kafkaform.plan.placement.request import Placements, Want

__all__ = [
    "Balance",
    "Moves",
    "Placements",
    "Strategy",
    "Want",
    "balance",
    "moves",
    "place",
    "rebalance",
]
