"""Where replicas belong: a pure function of where they are and of what is wanted."""

from __future__ import annotations

from kafkaform.core.layout import Strategy
from kafkaform.plan.placement.broker_load import Placements, Want
from kafkaform.plan.placement.placing import place
from kafkaform.plan.placement.rebalancing import Balance, Moves, balance, moves, rebalance

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
