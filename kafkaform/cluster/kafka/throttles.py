"""Reading, setting and clearing the replication throttles of a real cluster (KIP-73).

They are dynamic configs: a rate of each broker, and a list of throttled replicas of each topic. A broker
describes and alters its own configs alone, so the rates of one that is down can be neither read, nor set, nor
cleared. All alterations are incremental (KIP-339): entries are appended and subtracted, so that what somebody
else sets at the same time is not lost.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from confluent_kafka.admin import AlterConfigOpType

from kafkaform.cluster.kafka.topics import topic_source
from kafkaform.cluster.protocol import broker_down
from kafkaform.cluster.transport.broker_socket import READ_TIMEOUT_S
from kafkaform.cluster.transport.rights import name_right
from kafkaform.cluster.transport.translation import one_line, refusal, translate_code
from kafkaform.cluster.wire.large_answers import BROKER_CONFIGS, METADATA, TOPIC_CONFIGS
from kafkaform.cluster.wire.messages import ALTER_CONFIGS
from kafkaform.core.errors import ClusterError, NotOffered, OutcomeUnknown, RequestRejected
from kafkaform.core.moves import (
    ALL,
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    Rates,
    ThrottledReplicas,
    Throttles,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from kafkaform.cluster.transport.connection import Connection
    from kafkaform.cluster.wire.large_answers import DescribedConfigs
    from kafkaform.core.lock import Guard


def read_throttles(connection: Connection, topics: Collection[str]) -> Throttles:
    """See `Cluster.throttles`."""
    rates = read_rates(connection)
    for error in rates.values():
        if isinstance(error, ClusterError):
            raise error
    lists = {
        name: ThrottledReplicas(entries(own, LEADER_REPLICAS), entries(own, FOLLOWER_REPLICAS))
        for name, own in read_lists(connection, topics).items()
    }
    return Throttles(
        {broker: rate for broker, rate in rates.items() if isinstance(rate, Rates) and rate != Rates()},
        {name: listed for name, listed in lists.items() if listed != ThrottledReplicas()},
    )


def read_rates(
    connection: Connection, brokers: Collection[int] | None = None
) -> dict[int, Rates | ClusterError]:
    """Read the rates of live brokers, as they were set dynamically for each alone, or why one cannot be read.

    Args:
        connection: The cluster.
        brokers: Which; those that are down are left out. None: all.
    """
    (metadata,) = connection.ask(METADATA, [()])
    live = sorted(metadata.brokers)
    request = {str(broker): [LEADER_RATE, FOLLOWER_RATE] for broker in live}
    answers = connection.ask_each(BROKER_CONFIGS, request, READ_TIMEOUT_S)
    # One request for all brokers, sent to each: a broker answers for itself, and refuses the rest one by one.
    # One that has come up meanwhile was not asked about itself.
    rates = {broker: _own_rates(broker, answer) for broker, answer in answers.items() if broker in live}
    rates = {
        broker: name_right(rate, BROKER_CONFIGS.name) if isinstance(rate, ClusterError) else rate
        for broker, rate in rates.items()
    }
    return {broker: rate for broker, rate in rates.items() if brokers is None or broker in brokers}


def _own_rates(broker: int, answer: Sequence[DescribedConfigs] | ClusterError) -> Rates | ClusterError:
    """The rates in a broker's answer about itself; asked about others, it refuses."""
    if isinstance(answer, ClusterError):
        return answer
    result = next((described for described in answer if described.name == str(broker)), None)
    if result is None:
        return ClusterError(f"broker {broker} returned the configs of other brokers instead of its own")
    if result.error_code:
        return translate_code(result.error_code, one_line(result.message))
    try:
        own = {name: int(value) for name, value in result.configs.own.items() if value is not None}
    except ValueError as error:
        return ClusterError(f"broker {broker} returned a rate that is not a number: {one_line(str(error))}")
    return Rates(own.get(LEADER_RATE), own.get(FOLLOWER_RATE))


def read_lists(connection: Connection, topics: Collection[str]) -> dict[str, dict[str, str]]:
    """Read the lists of throttled replicas by topic and config, as they are set; others have none."""
    if not topics:
        return {}
    answers = topic_source(connection).configs(sorted(topics))
    for name, error in answers.denied.items():
        raise name_right(error, TOPIC_CONFIGS.name, name)
    lists = {
        name: {
            key: configs.own[key] or "" for key in (LEADER_REPLICAS, FOLLOWER_REPLICAS) if key in configs.own
        }
        for name, configs in answers.found.items()
    }
    return {name: own for name, own in lists.items() if own}


def entries(own: Mapping[str, str], config: str) -> frozenset[str]:
    """The entries of a list."""
    return frozenset(filter(None, (entry.strip() for entry in own.get(config, "").split(","))))


TIMEOUT_S = 30.0
"""The time that a broker may take to alter configs."""
SETTLE_TIMEOUT_S = 10.0
"""The time that brokers may go on showing what was there before a change."""
HIDDEN_S = 1.0
"""The time in which a broker may not show yet that a list is set."""
BATCH = 1_000
"""The most topics that one request alters."""
ENTRIES = 1_000
"""The most entries of a list in one request: brokers take no value of more than 32,767 bytes."""

_UNTHROTTLED = "where brokers take no replication throttles, as Redpanda's: apply with --throttle none"

_TOPIC, _BROKER = 2, 4  # ConfigResource.Type
_PAUSE_S = 0.05


@dataclass(frozen=True, slots=True)
class _Alteration:
    """An alteration of one config."""

    config: str
    operation: AlterConfigOpType
    value: str | None = None


def set_throttles(connection: Connection, throttles: Throttles, guard: Guard) -> None:
    """See `Cluster.set_throttles`; returns once the brokers show it."""
    rates = {
        broker: [
            _Alteration(config, AlterConfigOpType.SET, str(value))
            for config, value in rate.by_config().items()
        ]
        for broker, rate in throttles.rates.items()
    }
    # Rates first: a list without a rate holds nothing back, and its partitions would be copied unthrottled.
    failures = _alter_brokers(connection, rates, guard)
    for failure in failures:
        if isinstance(failure, RequestRejected | NotOffered):
            failure.hint = failure.hint or _UNTHROTTLED
    _raise_first(failures)
    present = read_lists(connection, throttles.replicas)
    missing = {
        name: {
            config: listed
            for config, listed in replicas.by_config().items()
            # `*` stands alone in its list, and holds for these replicas already.
            if ALL not in entries(present.get(name, {}), config)
        }
        for name, replicas in throttles.replicas.items()
    }
    _raise_first(_alter_lists(connection, AlterConfigOpType.APPEND, missing, guard))
    _settle(connection, throttles)


def clear_throttles(connection: Connection, throttles: Throttles, guard: Guard) -> None:
    """See `Cluster.clear_throttles`."""
    # Lists first: without them, rates that stay because a broker is down hold nothing back.
    failures = _clear_lists(connection, throttles, guard)
    if throttles.rates:
        failures += _clear_rates(connection, throttles, guard)
    _raise_first(failures)


def _clear_lists(connection: Connection, throttles: Throttles, guard: Guard) -> list[ClusterError]:
    """Take entries out of lists, then unset lists that are empty; returns what went wrong."""
    # Nothing is read first: a reading may lag behind what was just set, and a list is not hurt by an entry
    # that it does not have.
    lists = {name: replicas.by_config() for name, replicas in throttles.replicas.items()}
    failures = _alter_lists(connection, AlterConfigOpType.SUBTRACT, lists, guard)
    try:
        # A subtraction leaves an empty list behind, which counts as set: it is deleted in a second request,
        # once brokers show what is left in it.
        emptied = _emptied(connection, throttles, patient=not failures)
    except ClusterError as error:
        return [*failures, error]
    failures += _alter_topics(connection, emptied, guard)
    return [error for error in failures if not _gone(error)]


def _clear_rates(connection: Connection, throttles: Throttles, guard: Guard) -> list[ClusterError]:
    """Unset the rates that are still as named; returns what went wrong."""
    present = read_rates(connection, throttles.rates)
    failures: list[ClusterError] = []
    unchanged = {}
    for broker, ours in sorted(throttles.rates.items()):
        rates = present.get(broker, broker_down(broker))
        if isinstance(rates, ClusterError):
            failures.append(rates)
            continue
        # A rate with another value was set by somebody else since.
        still = rates.by_config().items() & ours.by_config().items()
        unchanged[broker] = [_Alteration(config, AlterConfigOpType.DELETE) for config, _ in sorted(still)]
    return failures + _alter_brokers(connection, unchanged, guard)


def _settle(connection: Connection, throttles: Throttles) -> None:
    """Wait until brokers show what was set: readings lag writes, and before that, nothing is held back."""
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    while not (_rates_shown(connection, throttles) and _lists_shown(connection, throttles)):
        if time.monotonic() > deadline:
            text = f"throttles were set, and brokers do not show them {SETTLE_TIMEOUT_S:.0f} s later"
            raise OutcomeUnknown(text)
        time.sleep(_PAUSE_S)


def _rates_shown(connection: Connection, throttles: Throttles) -> bool:
    if not throttles.rates:
        return True
    present = read_rates(connection, throttles.rates)
    return all(
        isinstance(shown := present.get(broker), Rates)
        and rate.by_config().items() <= shown.by_config().items()
        for broker, rate in throttles.rates.items()
    )


def _lists_shown(connection: Connection, throttles: Throttles) -> bool:
    lists = read_lists(connection, throttles.replicas)
    return all(
        ALL in (present := entries(lists.get(name, {}), config)) or wanted <= present
        for name, replicas in throttles.replicas.items()
        for config, wanted in replicas.by_config().items()
    )


def _emptied(connection: Connection, throttles: Throttles, *, patient: bool) -> dict[str, list[_Alteration]]:
    """The alterations that unset lists without an entry, once brokers show that those to clear are gone."""
    begun = time.monotonic()
    deadline = begun + SETTLE_TIMEOUT_S * patient
    while True:
        lists = read_lists(connection, throttles.replicas)
        cleared = [
            (lists.get(name, {}), config, listed)
            for name, replicas in throttles.replicas.items()
            for config, listed in replicas.by_config().items()
            if listed
        ]
        left = any(entries(own, config) & listed for own, config, listed in cleared)
        # A subtraction leaves a list behind also where there was none: one that is not shown is shown later.
        hidden = any(config not in own for own, config, _ in cleared)
        now = time.monotonic()
        if now >= deadline or not (left or (hidden and now - begun < HIDDEN_S)):
            break
        time.sleep(_PAUSE_S)
    return {
        name: [_Alteration(config, AlterConfigOpType.DELETE) for config in own if not entries(own, config)]
        for name, own in lists.items()
    }


def _alter_brokers(
    connection: Connection, alterations: Mapping[int, Sequence[_Alteration]], guard: Guard
) -> list[ClusterError]:
    """Alter configs of brokers, each asked itself; returns what went wrong."""
    changed = {broker: changes for broker, changes in alterations.items() if changes}
    if not changed:
        return []
    guard()
    (metadata,) = connection.ask(METADATA, [()])
    requests = {
        broker: [_request(_BROKER, {str(broker): changes})]
        for broker, changes in sorted(changed.items())
        if broker in metadata.brokers
    }
    failures: list[ClusterError] = [
        broker_down(broker) for broker in sorted(changed.keys() - requests.keys())
    ]
    for answer in connection.ask_nodes(ALTER_CONFIGS, requests, TIMEOUT_S).values():
        failures += [answer] if isinstance(answer, ClusterError) else _refusals(answer[0])
    return failures


def _alter_lists(
    connection: Connection,
    operation: AlterConfigOpType,
    lists: Mapping[str, Mapping[str, frozenset[str]]],
    guard: Guard,
) -> list[ClusterError]:
    """Add entries to lists of topics or take them away; returns what went wrong."""
    failures: list[ClusterError] = []
    longest = max((len(listed) for sides in lists.values() for listed in sides.values()), default=0)
    for start in range(0, longest, ENTRIES):
        alterations = {
            name: [
                _Alteration(config, operation, ",".join(part))
                for config, listed in sides.items()
                if (part := sorted(listed)[start : start + ENTRIES])
            ]
            for name, sides in lists.items()
        }
        failures += _alter_topics(connection, alterations, guard)
    return failures


def _alter_topics(
    connection: Connection, alterations: Mapping[str, Sequence[_Alteration]], guard: Guard
) -> list[ClusterError]:
    """Alter configs of topics; returns what went wrong."""
    changed = [(name, changes) for name, changes in alterations.items() if changes]
    failures: list[ClusterError] = []
    for start in range(0, len(changed), BATCH):
        batch = dict(changed[start : start + BATCH])
        guard()
        try:
            (answer,) = connection.ask(ALTER_CONFIGS, [_request(_TOPIC, batch)], timeout_s=TIMEOUT_S)
        except ClusterError as error:
            failures.append(error)
        else:
            failures += _refusals(answer)
    return failures


def _request(kind: int, alterations: Mapping[str, Sequence[_Alteration]]) -> Mapping[str, Any]:
    resources = [
        {
            "type": kind,
            "name": name,
            "configs": [
                {"name": change.config, "operation": change.operation.value, "value": change.value}
                for change in changes
            ],
        }
        for name, changes in alterations.items()
    ]
    return {"resources": resources, "validate_only": False}


def _refusals(answer: Mapping[str, Any]) -> list[ClusterError]:
    return [
        name_right(refusal(resource), ALTER_CONFIGS.name, resource["name"])
        for resource in answer["resources"]
        if resource["error_code"]
    ]


def _gone(error: ClusterError) -> bool:
    return isinstance(error, RequestRejected) and error.code == "UNKNOWN_TOPIC_OR_PART"


def _raise_first(failures: Collection[ClusterError]) -> None:
    for failure in failures:
        raise failure
