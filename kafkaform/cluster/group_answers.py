"""What coordinators answer about groups, however it was asked."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from confluent_kafka import KafkaError, KafkaException

from kafkaform.cluster.translation import MOVING, translate
from kafkaform.core.errors import RequestRejected

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from concurrent.futures import Future

    from kafkaform.core.errors import ClusterError

T = TypeVar("T")

COORDINATOR_TIMEOUT_S = 30.0
"""How long a coordinator may be on the move, or busy with reading its log."""

_MISSING = frozenset(
    KafkaError(code).name() for code in (KafkaError.GROUP_ID_NOT_FOUND, KafkaError.INVALID_GROUP_ID)
)


@dataclass(slots=True)
class GroupAnswers(Generic[T]):
    """Answers by group: what was told, and why the rest was not."""

    found: dict[str, T] = field(default_factory=dict)
    failed: dict[str, ClusterError] = field(default_factory=dict)

    def update(self, others: GroupAnswers[T]) -> None:
        """Take in answers about other groups."""
        self.found.update(others.found)
        self.failed.update(others.failed)


def is_missing(error: ClusterError) -> bool:
    """Whether a coordinator says that there is no such group, or cannot be."""
    return isinstance(error, RequestRejected) and error.code in _MISSING


def is_moving(error: ClusterError) -> bool:
    """Whether a coordinator is not ready yet."""
    return isinstance(error, RequestRejected) and error.code in MOVING


def gathered(futures: Mapping[str, Future[Any]], convert: Callable[[Any], T]) -> GroupAnswers[T]:
    """What the futures of librdkafka bring."""
    answers: GroupAnswers[T] = GroupAnswers()
    for name, future in futures.items():
        try:
            answers.found[name] = convert(future.result())
        except KafkaException as error:
            answers.failed[name] = translate(error)
    return answers


def settled(names: Collection[str], ask: Callable[[Collection[str]], GroupAnswers[T]]) -> GroupAnswers[T]:
    """The answers about groups; those whose coordinator is not ready yet are asked for again."""
    answers: GroupAnswers[T] = GroupAnswers()
    deadline = time.monotonic() + COORDINATOR_TIMEOUT_S
    pause = 0.05
    while names:
        for name in names:
            answers.failed.pop(name, None)  # it may be in no answer at all this time: it is not there
        answers.update(ask(names))
        names = [name for name, error in answers.failed.items() if is_moving(error)]
        if not names or time.monotonic() > deadline:
            break
        time.sleep(pause)
        pause = min(pause * 2, 1.0)
    return answers
