"""Where replicas belong: a pure function of where they are and of what is wanted."""

from __future__ import annotations

from kafkaform.core.layout import Strategy
from kafkaform.plan.placement.broker_load import PlacementRequest, Placements
from kafkaform.plan.placement.placing import place
from kafkaform.plan.placement.rebalancing import Balance, Moves, balance, moves, rebalance

__all__ = [
    "Balance",
    "Moves",
    "PlacementRequest",
    "Placements",
    "Strategy",
    "balance",
    "moves",
    "place",
    "rebalance",
]
