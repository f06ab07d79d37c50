"""Cutting work into requests that a controller takes.

A KRaft controller writes at most 10,000 records for one request and fails the whole request beyond that
(POLICY_VIOLATION, measured on 4.3.1); of 11,000 reassignments it starts 10,000, and answers UNKNOWN to the
others. A topic takes one record, and so does each of its partitions and configs, so requests are cut by that
weight, at half the limit. How many replicas a partition has makes no difference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkaform.core.operations import Operation

MAX_WEIGHT = 5_000
"""The most controller records that one request may ask for."""


def batches(operations: Iterable[Operation], max_weight: int = MAX_WEIGHT) -> Iterator[list[Operation]]:
    """Cut operations into batches, in order; one that is too heavy by itself goes alone."""
    batch: list[Operation] = []
    total = 0
    for operation in operations:
        if batch and total + operation.weight > max_weight:
            yield batch
            batch, total = [], 0
        batch.append(operation)
        total += operation.weight
    if batch:
        yield batch
