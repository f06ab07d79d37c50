"""The placement engine: target replicas as a pure function of a layout and requests."""

from __future__ import annotations

from kafkaform.plan.placement.broker_load import PlacementRequest, Placements
from kafkaform.plan.placement.placing import place
from kafkaform.plan.placement.rebalancing import Balance, Moves, balance, moves, rebalance
from kafkaform.resources.replicas.layout import Strategy

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
