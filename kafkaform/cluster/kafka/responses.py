"""The responses of brokers about topics and groups, and retries while coordinators move."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from kafkaform.cluster.transport.translation import MOVING
from kafkaform.cluster.wire.error_codes import ErrorCode
from kafkaform.core.errors import ClusterError, PermissionDenied, RequestRejected, Unreachable
from kafkaform.core.model import NOT_KNOWN, UNLISTED, Diagnostic, Observation, ResourceRef, Severity
from kafkaform.core.values import Value
from kafkaform.core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from kafkaform.cluster.wire.large_responses import Configs
    from kafkaform.core.partitions import Replicas

T = TypeVar("T")


def report_unlisted(collection: str, refs: Collection[ResourceRef], error: ClusterError) -> Observation:
    """Return the observation of resources that this account may not list, with a note if none is named."""
    text = f"could not list {collection} ({error.message})"
    note = Diagnostic(UNLISTED, Severity.INFO, text, suggestion=error.hint)
    return Observation({}, frozenset(), dict.fromkeys(refs, error.message), () if refs else (note,))


def note_unknown(count: int, noun: str) -> tuple[Diagnostic, ...]:
    """Return the note that brokers have so many things that only a later kafkaform knows; none for 0."""
    text = f"{counted(count, noun)} of a type or an operation that this version does not know: not considered"
    return (Diagnostic(NOT_KNOWN, Severity.INFO, text, suggestion="use a later kafkaform"),) if count else ()


class Description(Value):
    """A topic's identity and replicas.

    Attributes:
        uid: The topic's id as Kafka's own tools write it; None where brokers have none (before Kafka 2.8).
        internal: Whether Kafka itself owns the topic.
        replicas: The brokers that hold each partition.
    """

    uid: str | None
    internal: bool
    replicas: Mapping[int, Replicas]


@dataclass(slots=True)
class TopicResponses(Generic[T]):
    """Responses by topic: values, refusals, and the topics that do not exist."""

    found: dict[str, T] = field(default_factory=dict)
    denied: dict[str, PermissionDenied] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)

    def deny(self, name: str, error: ClusterError) -> None:
        """Record that this account may not see a topic; raises any other error."""
        if not isinstance(error, PermissionDenied):
            raise error
        self.denied[name] = error

    def update(self, later: TopicResponses[T]) -> None:
        """Add responses to a second request, for the topics that were missing; replaces `missing`."""
        self.found.update(later.found)
        self.denied.update(later.denied)
        self.missing = later.missing


class TopicSource(Protocol):
    """A reader of topics. Errors that concern more than one topic are raised as ClusterError."""

    def names(self) -> list[str]:
        """Return the names of all topics that this account can see."""

    def configs(self, names: Sequence[str]) -> TopicResponses[Configs]:
        """Return the configs of topics."""

    def descriptions(self, names: Sequence[str]) -> TopicResponses[Description]:
        """Return the ids and replicas of topics."""


COORDINATOR_TIMEOUT_S = 30.0
"""How long to wait for a coordinator that is moving or loading its log."""


# Coordinators answer INVALID_GROUP_ID to a name that no group can have, such as an empty one: there is no
# such group either.
_MISSING = frozenset({ErrorCode.GROUP_ID_NOT_FOUND.name, ErrorCode.INVALID_GROUP_ID.name})


@dataclass(slots=True)
class GroupResponses(Generic[T]):
    """Responses by group: values, and the errors of the other groups."""

    found: dict[str, T] = field(default_factory=dict)
    failed: dict[str, ClusterError] = field(default_factory=dict)

    def update(self, others: GroupResponses[T]) -> None:
        """Add responses about other groups."""
        self.found.update(others.found)
        self.failed.update(others.failed)


def is_missing(error: ClusterError) -> bool:
    """Return whether a group does not exist, by the error of its coordinator."""
    return isinstance(error, RequestRejected) and error.code in _MISSING


def is_transient(error: ClusterError) -> bool:
    """Return whether an error may pass: the coordinator is moving, loading, or restarting."""
    # A coordinator that cannot be reached may be restarting: another broker then takes over its groups.
    moving = isinstance(error, RequestRejected) and error.code in MOVING
    return moving or isinstance(error, Unreachable)


def retry_until_ready(
    names: Collection[str], send: Callable[[Collection[str]], GroupResponses[T]]
) -> GroupResponses[T]:
    """Ask about groups, again about those whose coordinator is not ready, for COORDINATOR_TIMEOUT_S."""
    responses: GroupResponses[T] = GroupResponses()
    deadline = time.monotonic() + COORDINATOR_TIMEOUT_S
    pause = 0.05
    while names:
        for name in names:
            responses.failed.pop(name, None)  # the retry may omit it, if the group does not exist
        responses.update(send(names))
        names = [name for name, error in responses.failed.items() if is_transient(error)]
        if not names or time.monotonic() > deadline:
            break
        time.sleep(pause)
        # Coordinators load their groups for milliseconds or for seconds: begin with short pauses, and do not
        # flood a broker that takes long.
        pause = min(pause * 2, 1.0)
    return responses
