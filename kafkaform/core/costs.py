"""Prices of data and partitions, and what they add up to."""

from __future__ import annotations

from kafkaform.core.values import Value

_GIGABYTE = 10**9


class Costs(Value):
    """The prices of a cluster.

    Attributes:
        currency: A word, such as EUR.
        gigabyte_month: The price of a gigabyte (10^9 bytes) of a replica for a month.
        partition_month: The price of a replica of a partition for a month.
    """

    currency: str
    gigabyte_month: float = 0.0
    partition_month: float = 0.0

    def compute(self, replicas: int, size: int) -> float:
        """Return the price of replicas of partitions that hold so many bytes together, for a month."""
        return replicas * self.partition_month + size / _GIGABYTE * self.gigabyte_month


class CostChange(Value):
    """The price of the changes of a plan.

    Attributes:
        currency: The currency.
        per_month: The amount for a month, with two decimals; negative if the plan saves money.
        replicas: The number of replicas of partitions that it adds.
        bytes: The bytes that it adds, in all replicas.
        uncounted: What is not counted.
    """

    currency: str
    per_month: str
    replicas: int = 0
    bytes: int = 0
    uncounted: tuple[str, ...] = ()
