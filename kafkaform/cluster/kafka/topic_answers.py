"""What brokers answer about topics, however it was asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import (
    TYPE_CHECKING,
    Generic,
    Protocol,
    TypeVar,
)

from kafkaform.core.errors import PermissionDenied

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkaform.core.errors import ClusterError
    from kafkaform.core.layout import Replicas


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Description:
    """A topic's identity and replicas.

    Attributes:
        uid: The topic's id as Kafka's own tools write it.
        internal: Whether Kafka itself owns the topic.
        replicas: The brokers that hold each partition.
    """

    uid: str
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
