"""Deleting groups on a real cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.cluster.group_answers import GroupAnswers, gathered, is_missing, settled
from kafkaform.core.errors import LockLost

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from kafkaform.cluster.connection import Connection
    from kafkaform.core.errors import ClusterError
    from kafkaform.core.lock import Guard
    from kafkaform.core.operations import DeleteGroup

DELETE_TIMEOUT_S = 30.0
"""How long the deletion of groups may take."""


def delete_groups(
    connection: Connection, operations: Sequence[DeleteGroup], guard: Guard
) -> dict[int, ClusterError | None]:
    """Delete groups with their offsets, not their configs; returns each operation's outcome by its `id`.

    A group that is gone already is fine. Each takes a request of its own.
    """

    def ask(names: Collection[str]) -> GroupAnswers[None]:
        answers: GroupAnswers[None] = GroupAnswers()
        for name in names:
            try:
                guard()
            except LockLost as lost:
                answers.failed[name] = lost
                continue
            futures = connection.reached.delete_consumer_groups([name], request_timeout=DELETE_TIMEOUT_S)
            answers.update(gathered(futures, lambda _: None))
        return answers

    failed = settled([o.ref.name for o in operations], ask).failed
    outcomes: dict[int, ClusterError | None] = {}
    for operation in operations:
        error = failed.get(operation.ref.name)
        outcomes[id(operation)] = None if error is None or is_missing(error) else error
    return outcomes
