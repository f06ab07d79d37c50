"""The rules of a controller for topics and reassignments in memory: pure, answered as real brokers answer.

The codes, and which objection comes first where there are several, were seen on Apache Kafka 4.3.1.
"""

import re
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, assert_never

from kafkaform.core import kafka_configs
from kafkaform.core.config_values import ConfigKey, ConfigType
from kafkaform.core.errors import RequestRejected
from kafkaform.core.operations import AlterConfigs, Operation
from kafkaform.core.partitions import Replicas
from kafkaform.core.values import replace
from kafkaform.resources.replicas.layout import Assignment, Reassignment
from kafkaform.resources.topic.operations import AddPartitions, CreateTopic, DeleteTopic

TopicOperation: TypeAlias = CreateTopic | AlterConfigs | AddPartitions | DeleteTopic
"""The operations on a topic."""

MAX_RECORDS = 10_000
"""The most records that a controller writes for one request."""

_MANUAL = "The manual partition assignment"
_LEGAL_NAME = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
_INTEGERS = frozenset({ConfigType.SHORT, ConfigType.INT, ConfigType.LONG})


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic: its id, the brokers that hold each partition (the preferred leader first), its own configs."""

    uid: str
    replicas: tuple[tuple[int, ...], ...]
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Move:
    """The reassignment of one partition.

    Attributes:
        reassignment: Where it leads.
        filled: How many steps each new replica has been filled for.
    """

    reassignment: Reassignment
    filled: Mapping[int, int] = field(default_factory=dict)

    def list_unfilled(self, steps: int) -> frozenset[int]:
        """The new replicas that are not full yet, where filling one takes so many steps."""
        return frozenset(b for b in self.reassignment.adding if self.filled.get(b, 0) < steps)

    def filled_by(self, steps: int, alive: Collection[int]) -> "Move":
        """The same after so many more steps, in which only brokers that live got anything."""
        filled = {b: self.filled.get(b, 0) + steps * (b in alive) for b in self.reassignment.adding}
        return Move(self.reassignment, filled)

    def done(self, isr: Collection[int]) -> bool:
        """Return whether it is over: all new replicas are in sync, and at least one of those that stay."""
        staying = {*isr} - self.reassignment.removing
        return bool(staying) and self.reassignment.adding <= staying


def start_move(shown: Replicas, running: Move | None, target: Replicas) -> tuple[Replicas, Move]:
    """Return the replicas that metadata shows from now on, and what is running instead of `running`."""
    adding = frozenset(target) - {*shown}
    removing = tuple(broker for broker in shown if broker not in target)
    if running is None:
        return (*target, *removing), Move(Reassignment(target, adding, frozenset(removing)))
    # Kafka keeps the brokers of the former one where the new one has none to add, or none to remove. One
    # that is both added and removed then is never in sync: such a reassignment ends only if it is cancelled.
    former = running.reassignment
    reassignment = Reassignment(target, adding or former.adding, frozenset(removing) or former.removing)
    return (*target, *removing), Move(reassignment, running.filled)


def cancel_move(shown: Replicas, running: Move) -> Replicas:
    """The replicas of a partition whose reassignment is given up: those that it had."""
    return tuple(broker for broker in shown if broker not in running.reassignment.adding)


def result(
    topics: Mapping[str, Topic], operation: TopicOperation, *, brokers: Sequence[int], number: int
) -> tuple[str, Topic | None]:
    """Return the name of the topic that an operation changes, and what becomes of it: None if it is deleted.

    The number of a new topic gives it its id, and its first broker.
    """
    name = operation.ref.name
    match operation:
        case CreateTopic():
            return name, _build_topic(topics, operation, brokers, number)
        case AlterConfigs():
            return name, _alter_topic(topics, operation)
        case AddPartitions():
            return name, _extend_topic(topics, operation, brokers)
        case DeleteTopic(uid=doomed):
            for name, topic in topics.items():
                if topic.uid == doomed:
                    return name, None
            raise build_rejection("UNKNOWN_TOPIC_ID", "this server does not host this topic id")
        case _:
            assert_never(operation)


def records(before: Topic | None, after: Topic | None) -> int:
    """The number of records that a controller writes to get from one to the other."""
    if after is None:
        return 1
    if before is None:
        return 1 + len(after.replicas) + len(after.configs)
    changed = {name for name, _ in before.configs.items() ^ after.configs.items()}
    return len(after.replicas) - len(before.replicas) + len(changed)


def too_large(operation: Operation) -> RequestRejected:
    """The answer to an operation in a request of more than MAX_RECORDS."""
    if isinstance(operation, AddPartitions):
        # A real controller fails in its midst, and keeps the new partitions up to the limit.
        return build_rejection("UNKNOWN", "unknown broker error")
    return build_rejection("POLICY_VIOLATION", "unable to perform excessively large batch operation")


def build_rejection(code: str, text: str) -> RequestRejected:
    """A broker's refusal, worded as the translation of a real one is."""
    return RequestRejected(f"{text} ({code})", code=code)


def topic_id(number: int) -> str:
    """A topic id as Kafka writes it: 16 bytes in 22 characters."""
    return urlsafe_b64encode(uuid.UUID(int=number).bytes).decode().rstrip("=")


def place_replicas(counts: Sequence[int], brokers: Sequence[int], first: int) -> tuple[tuple[int, ...], ...]:
    """Place the replicas of partitions in turn over the brokers, from the broker at this place on."""
    return tuple(
        tuple(brokers[(first + partition + replica) % len(brokers)] for replica in range(count))
        for partition, count in enumerate(counts)
    )


def check_replicas(replicas: Replicas, brokers: Collection[int]) -> None:
    """Raise what speaks against a partition on these brokers, of all that there are."""
    if not replicas:
        raise _refuse_assignment("The manual partition assignment includes an empty replica list.")
    for broker in sorted(replicas):
        if broker not in brokers:
            raise _refuse_assignment(f"{_MANUAL} includes broker {broker}, but no such broker is registered.")
        if replicas.count(broker) > 1:
            raise _refuse_assignment(f"{_MANUAL} includes the broker {broker} more than once.")


def _check_assignment(assignment: Assignment, brokers: Collection[int], count: int) -> None:
    """The same for new partitions, which must all have so many replicas."""
    for replicas in assignment:
        check_replicas(replicas, brokers)
        if len(replicas) != count:
            raise _refuse_assignment(
                f"{_MANUAL} includes a partition with {len(replicas)} replica(s), but this is not "
                f"consistent with previous partitions, which have {count} replica(s)."
            )


def _refuse_assignment(text: str) -> RequestRejected:
    return build_rejection("INVALID_REPLICA_ASSIGNMENT", text)


def store_config(keys: Mapping[str, ConfigKey], sort: str, name: str, text: str) -> str:
    """Return a config of a `topic` or `group` as brokers give it back: parsed, but a list in its order."""
    key = keys.get(name)
    if key is None:
        raise build_rejection("INVALID_CONFIG", f"unknown {sort} config name: {name}")
    try:
        value = kafka_configs.canonical(key, text)
        if key.type in _INTEGERS:
            int(text)  # people's units are not Kafka's
    except ValueError as error:
        raise build_rejection(
            "INVALID_CONFIG", f"invalid value {text} for configuration {name}: {error}"
        ) from error
    match key.type:
        case ConfigType.LIST:
            return ",".join(dict.fromkeys(element.strip() for element in text.split(",")))
        case ConfigType.DOUBLE:
            return str(float(value))
        case _:
            return value


def _build_topic(
    topics: Mapping[str, Topic], operation: CreateTopic, brokers: Sequence[int], number: int
) -> Topic:
    name, partitions, replicas = operation.ref.name, operation.partitions, operation.replication_factor
    _check_name(name)
    if name in topics:
        raise build_rejection("TOPIC_ALREADY_EXISTS", f"topic {name!r} already exists")
    configs = {config: _store_topic_config(config, value) for config, value in operation.configs.items()}
    if replicas == 0 or replicas < -1:
        raise build_rejection("INVALID_REPLICATION_FACTOR", "replication factor must be larger than 0, or -1")
    if partitions == 0 or partitions < -1:
        raise build_rejection("INVALID_PARTITIONS", "number of partitions was set to a non-positive value")
    if operation.assignment:
        _check_assignment(operation.assignment, brokers, len(operation.assignment[0]))
        return Topic(topic_id(number), operation.assignment, configs)
    if replicas > len(brokers):
        text = (
            f"replication factor {replicas} cannot be reached: only {len(brokers)} broker(s) are registered"
        )
        raise build_rejection("INVALID_REPLICATION_FACTOR", text)
    # What -1 stands for, num.partitions and default.replication.factor, is 1 unless a broker says otherwise.
    assignment = place_replicas((abs(replicas),) * abs(partitions), brokers, number)
    return Topic(topic_id(number), assignment, configs)


def _alter_topic(topics: Mapping[str, Topic], operation: AlterConfigs) -> Topic:
    _check_name(operation.ref.name)
    topic = _existing(topics, operation)
    kept = {name: value for name, value in topic.configs.items() if name not in operation.unset}
    given = {name: _store_topic_config(name, value) for name, value in operation.set.items()}
    return replace(topic, configs={**kept, **given})


def _extend_topic(topics: Mapping[str, Topic], operation: AddPartitions, brokers: Sequence[int]) -> Topic:
    topic = _existing(topics, operation)
    missing = operation.total - len(topic.replicas)
    if missing <= 0:
        text = f"the topic {operation.ref.name} currently has {len(topic.replicas)} partition(s)"
        raise build_rejection("INVALID_PARTITIONS", f"{text}; {operation.total} would not be an increase")
    first = topic.replicas[0]
    if operation.assignment:
        if len(operation.assignment) != missing:
            text = f"but only {len(operation.assignment)} assignment(s) were specified."
            raise _refuse_assignment(f"Attempted to add {missing} additional partition(s), {text}")
        _check_assignment(operation.assignment, brokers, len(first))
        return replace(topic, replicas=topic.replicas + operation.assignment)
    following = brokers.index(first[0]) + len(topic.replicas)
    return replace(
        topic, replicas=topic.replicas + place_replicas((len(first),) * missing, brokers, following)
    )


def _existing(topics: Mapping[str, Topic], operation: Operation) -> Topic:
    topic = topics.get(operation.ref.name)
    if topic is None:
        raise build_rejection("UNKNOWN_TOPIC_OR_PART", f"the topic {operation.ref.name!r} does not exist")
    return topic


def _check_name(name: str) -> None:
    if not _LEGAL_NAME.fullmatch(name):
        raise build_rejection("TOPIC_EXCEPTION", f"topic name is invalid: {name!r}")


def _store_topic_config(name: str, text: str) -> str:
    return store_config(kafka_configs.topic_configs(), "topic", name, text)
