"""Where replicas belong: a pure function of where they are and of what is wanted."""

from __future__ import annotations

from kafkaform.layout import Strategy
from kafkaform.placement.measures import Balance, Moves, balance, moves
from kafkaform.placement.placing import place
from kafkaform.placement.rebalancing import rebalance
from kafkaform.placement.wants import Placements, Want

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
