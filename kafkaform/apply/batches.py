"""Cutting work into requests that a controller takes.

A KRaft controller writes at most 10,000 records for one request and fails the whole request beyond that
(POLICY_VIOLATION, measured on 4.3.1); of 11,000 reassignments it starts 10,000, and answers UNKNOWN to the
others. A topic takes one record, and so does each of its partitions and configs, so requests are cut by that
weight, at half the limit. How many replicas a partition has makes no difference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from kafkaform.core.operations import (
    AddPartitions,
    AlterConfigs,
    CommitInitialOffsets,
    CreateTopic,
    DeleteGroup,
    DeleteTopic,
    Operation,
    Reassign,
    ResetOffsets,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_WEIGHT = 5_000
"""The most controller records that one request may ask for."""


def weight(operation: Operation) -> int:
    """How many records the controller writes for an operation, or a little more."""
    match operation:
        case CreateTopic(partitions=partitions, configs=configs):
            return 1 + max(partitions, 1) + len(configs)
        case AlterConfigs(set=given, unset=unset):
            return 1 + len(given) + len(unset)
        case AddPartitions(present=present, total=total):
            return 1 + total - present
        case Reassign(after=after):
            return 1 + len(after)
        case CommitInitialOffsets(topics=topics):
            return 1 + len(topics)
        case ResetOffsets(offsets=offsets):
            return 1 + len(offsets)
        case DeleteGroup(configs=configs):
            return 1 + len(configs)
        case DeleteTopic():
            return 1
        case _:
            assert_never(operation)


def batches(operations: Iterable[Operation], max_weight: int = MAX_WEIGHT) -> Iterator[list[Operation]]:
    """Cut operations into batches, in order; one that is too heavy by itself goes alone."""
    batch: list[Operation] = []
    total = 0
    for operation in operations:
        added = weight(operation)
        if batch and total + added > max_weight:
            yield batch
            batch, total = [], 0
        batch.append(operation)
        total += added
    if batch:
        yield batch
