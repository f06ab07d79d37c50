"""What brokers answer about topics and groups, however it was asked."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Protocol,
    TypeVar,
)

from confluent_kafka import (
    KafkaError,
    KafkaException,
)

from kafkaform.cluster.transport.translation import MOVING, translate
from kafkaform.core.errors import ClusterError, PermissionDenied, RequestRejected, Unreachable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from concurrent.futures import Future

    from kafkaform.core.errors import ClusterError
    from kafkaform.core.layout import Replicas


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Description:
    """A topic's identity and replicas.

    Attributes:
        uid: The topic's id as Kafka's own tools write it; None where brokers have none (before Kafka 2.8).
        internal: Whether Kafka itself owns the topic.
        replicas: The brokers that hold each partition.
    """

    uid: str | None
    internal: bool
    replicas: Mapping[int, Replicas]


@dataclass(frozen=True, slots=True)
class Configs:
    """A topic's configs: its own, and the values in force. May be shared between topics: read-only."""

    own: Mapping[str, str | None]
    effective: Mapping[str, str | None]


@dataclass(slots=True)
class Answers(Generic[T]):
    """Answers by topic: what is there, what this account may not see, and what nobody knows."""

    found: dict[str, T] = field(default_factory=dict)
    denied: dict[str, PermissionDenied] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)

    def deny(self, name: str, error: ClusterError) -> None:
        """Note that this account may not see a topic; any other error is raised."""
        if not isinstance(error, PermissionDenied):
            raise error
        self.denied[name] = error

    def update(self, later: Answers[T]) -> None:
        """Take in answers to what was left open; what is missing in those is missing."""
        self.found.update(later.found)
        self.denied.update(later.denied)
        self.missing = later.missing


class TopicSource(Protocol):
    """A way of asking about topics. Errors that concern more than one topic are raised as ClusterError."""

    def names(self) -> list[str]:
        """All topics that this account can see."""

    def configs(self, names: Sequence[str]) -> Answers[Configs]:
        """The configs of topics."""

    def descriptions(self, names: Sequence[str]) -> Answers[Description]:
        """Identity and replicas of topics."""


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


def is_transient(error: ClusterError) -> bool:
    """Whether a coordinator is not ready yet, or may be restarting: another broker takes its place."""
    moving = isinstance(error, RequestRejected) and error.code in MOVING
    return moving or isinstance(error, Unreachable)


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
        names = [name for name, error in answers.failed.items() if is_transient(error)]
        if not names or time.monotonic() > deadline:
            break
        time.sleep(pause)
        pause = min(pause * 2, 1.0)
    return answers
