"""Reading, setting and clearing the replication throttles of a real cluster (KIP-73).

They are dynamic configs: rates of each broker, and lists of throttled replicas of each topic. A broker
describes and alters only its own configs, so the rates of one that is down can be neither read nor changed.
All alterations are incremental (KIP-339): entries are appended and subtracted, so that concurrent changes by
others are not lost.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from kafkaform.cluster.kafka.topic_sources import TopicRequests
from kafkaform.cluster.protocol import make_broker_down_error
from kafkaform.cluster.transport.broker_socket import READ_TIMEOUT_S
from kafkaform.cluster.transport.rights import name_right
from kafkaform.cluster.transport.translation import one_line, translate_code, translate_response
from kafkaform.cluster.wire.error_codes import ErrorCode
from kafkaform.cluster.wire.large_responses import BROKER_CONFIGS, METADATA, TOPIC_CONFIGS, DescribedConfigs
from kafkaform.cluster.wire.messages import ALTER_CONFIGS, AlterConfigOperation
from kafkaform.core.errors import ClusterError, NotOffered, OutcomeUnknown, RequestRejected
from kafkaform.core.health import ThrottleConfigs
from kafkaform.core.values import Value
from kafkaform.resources.replicas.moves import (
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
    from kafkaform.core.lock import Guard


def read_throttles(connection: Connection, topics: Collection[str]) -> Throttles:
    """Read dynamic throttles, as `Cluster.throttles` does."""
    rates = read_rates(connection)
    for error in rates.values():
        if isinstance(error, ClusterError):
            raise error
    lists = {
        name: ThrottledReplicas(_parse_entries(own, LEADER_REPLICAS), _parse_entries(own, FOLLOWER_REPLICAS))
        for name, own in read_lists(connection, topics).items()
    }
    return Throttles(
        {broker: rate for broker, rate in rates.items() if isinstance(rate, Rates) and rate != Rates()},
        {name: replicas for name, replicas in lists.items() if replicas != ThrottledReplicas()},
    )


def read_throttle_configs(connection: Connection, topics: Collection[str]) -> tuple[ThrottleConfigs, ...]:
    """Read the configs of throttles, as `Cluster.throttle_configs` does."""
    lists = [ThrottleConfigs("topics", *topic) for topic in read_lists(connection, topics).items()]
    rates = []
    for broker, rate in read_rates(connection).items():
        if isinstance(rate, ClusterError):
            raise rate
        if own := {config: str(value) for config, value in rate.to_configs().items()}:
            rates.append(ThrottleConfigs("brokers", str(broker), own))
    # KIP-226: the broker without a name has what is set for all of them. Managed services refuse it.
    ((default,),) = connection.send(BROKER_CONFIGS, [{"": [LEADER_RATE, FOLLOWER_RATE]}])
    if default.error_code == ErrorCode.INVALID_REQUEST:
        return (*lists, *rates)
    if default.error_code:
        raise name_right(translate_code(default.error_code, default.message), BROKER_CONFIGS.name)
    if default.configs.effective:
        values = {config: value or "" for config, value in default.configs.effective.items()}
        rates.append(ThrottleConfigs("brokers", "", values))
    return (*lists, *rates)


def read_rates(
    connection: Connection, brokers: Collection[int] | None = None
) -> dict[int, Rates | ClusterError]:
    """Read the rates that were set dynamically for each live broker, or its error.

    Args:
        brokers: The brokers; those that are down are left out. None: all.
    """
    (metadata,) = connection.send(METADATA, [()])
    live = sorted(metadata.brokers)
    request = {str(broker): [LEADER_RATE, FOLLOWER_RATE] for broker in live}
    responses = connection.send_to_each(BROKER_CONFIGS, request, READ_TIMEOUT_S)
    # The same request goes to all brokers: each responds for itself, and refuses the other entries. A broker
    # that has come up since is not in the request.
    rates = {
        broker: _parse_own_rates(broker, response) for broker, response in responses.items() if broker in live
    }
    rates = {
        broker: name_right(rate, BROKER_CONFIGS.name) if isinstance(rate, ClusterError) else rate
        for broker, rate in rates.items()
    }
    return {broker: rate for broker, rate in rates.items() if brokers is None or broker in brokers}


def _parse_own_rates(
    broker: int, response: Sequence[DescribedConfigs] | ClusterError
) -> Rates | ClusterError:
    """Parse the rates in a broker's response about itself."""
    if isinstance(response, ClusterError):
        return response
    result = next((described for described in response if described.name == str(broker)), None)
    if result is None:
        return ClusterError(f"broker {broker} returned the configs of other brokers instead of its own")
    if result.error_code:
        return translate_code(result.error_code, result.message)
    try:
        own = {name: int(value) for name, value in result.configs.own.items() if value is not None}
    except ValueError as error:
        return ClusterError(f"broker {broker} returned a rate that is not a number: {one_line(str(error))}")
    return Rates(own.get(LEADER_RATE), own.get(FOLLOWER_RATE))


def read_lists(connection: Connection, topics: Collection[str]) -> dict[str, dict[str, str]]:
    """Read the lists of throttled replicas that are set, by topic and config."""
    if not topics:
        return {}
    responses = TopicRequests(connection).configs(sorted(topics))
    for name, error in responses.denied.items():
        raise name_right(error, TOPIC_CONFIGS.name, name)
    lists = {
        name: {
            key: configs.own[key] or "" for key in (LEADER_REPLICAS, FOLLOWER_REPLICAS) if key in configs.own
        }
        for name, configs in responses.found.items()
    }
    return {name: own for name, own in lists.items() if own}


def _parse_entries(own: Mapping[str, str], config: str) -> frozenset[str]:
    """Return the entries of a list."""
    return frozenset(filter(None, (entry.strip() for entry in own.get(config, "").split(","))))


TIMEOUT_S = 30.0
"""The time that a broker may take to alter configs."""
SETTLE_TIMEOUT_S = 10.0
"""The time until brokers must show a change."""
HIDDEN_S = 1.0
"""The time until a broker must show that a list is set."""
# The controller writes one record for each config, and refuses requests that need over 10,000.
BATCH = 1_000
"""The most topics that one request alters."""
ENTRIES = 1_000
"""The most list entries in one request: brokers accept values of up to 32,767 bytes."""

_UNTHROTTLED = (
    "if the brokers do not support replication throttles, like Redpanda's: apply with --throttle none"
)

_TOPIC, _BROKER = 2, 4  # ConfigResource.Type
_PAUSE_S = 0.05


class _Alteration(Value):
    """An alteration of one config."""

    config: str
    operation: AlterConfigOperation
    value: str | None = None


def set_throttles(connection: Connection, throttles: Throttles, guard: Guard) -> None:
    """Set throttles, as `Cluster.set_throttles` does; returns once the brokers show them."""
    rates = {
        broker: [
            _Alteration(config, AlterConfigOperation.SET, str(value))
            for config, value in rate.to_configs().items()
        ]
        for broker, rate in throttles.rates.items()
    }
    # Rates first: a list without a rate throttles nothing.
    failures = _alter_brokers(connection, rates, guard)
    for failure in failures:
        if isinstance(failure, RequestRejected | NotOffered):
            failure.hint = failure.hint or _UNTHROTTLED
    _raise_first(failures)
    present = read_lists(connection, throttles.replicas)
    missing = {
        name: {
            config: list_entries
            for config, list_entries in replicas.to_configs().items()
            # `*` must be the only entry of its list, and includes these replicas already.
            if ALL not in _parse_entries(present.get(name, {}), config)
        }
        for name, replicas in throttles.replicas.items()
    }
    _raise_first(_alter_lists(connection, AlterConfigOperation.APPEND, missing, guard).values())
    _wait_until_shown(connection, throttles)


def clear_throttles(connection: Connection, throttles: Throttles, guard: Guard) -> None:
    """Remove throttles, as `Cluster.clear_throttles` does."""
    # Lists first: without them, the rates that remain on a broker that is down throttle nothing.
    failures = _clear_lists(connection, throttles, guard)
    if throttles.rates:
        failures += _clear_rates(connection, throttles, guard)
    _raise_first(failures)


def _clear_lists(connection: Connection, throttles: Throttles, guard: Guard) -> list[ClusterError]:
    """Remove entries from lists, then unset empty lists; returns the errors."""
    # Not read first: a reading may lag behind a recent change, and subtracting a missing entry is harmless.
    lists = {name: replicas.to_configs() for name, replicas in throttles.replicas.items()}
    failures = _alter_lists(connection, AlterConfigOperation.SUBTRACT, lists, guard)
    # A topic that was deleted meanwhile has no throttle to remove.
    errors = [error for error in failures.values() if not _is_gone(error)]
    # The entries of a topic whose alteration failed would be waited for in vain.
    cleared = {name: replicas for name, replicas in throttles.replicas.items() if name not in failures}
    try:
        # A subtraction may leave an empty list, which counts as set. A second request unsets it, once brokers
        # show what it still contains.
        emptied = _find_empty_lists(connection, cleared)
    except ClusterError as error:
        return [*errors, error]
    failures = _alter_topics(connection, emptied, guard)
    return errors + [error for error in failures.values() if not _is_gone(error)]


def _clear_rates(connection: Connection, throttles: Throttles, guard: Guard) -> list[ClusterError]:
    """Unset the rates that still have the given values; returns the errors."""
    present = read_rates(connection, throttles.rates)
    failures: list[ClusterError] = []
    deletions = {}
    for broker, ours in sorted(throttles.rates.items()):
        rates = present.get(broker, make_broker_down_error(broker))
        if isinstance(rates, ClusterError):
            failures.append(rates)
            continue
        # A rate with another value was set by another program since: it stays.
        unchanged = rates.to_configs().items() & ours.to_configs().items()
        deletions[broker] = [
            _Alteration(config, AlterConfigOperation.DELETE) for config, _ in sorted(unchanged)
        ]
    return failures + _alter_brokers(connection, deletions, guard)


def _wait_until_shown(connection: Connection, throttles: Throttles) -> None:
    """Wait until brokers show the throttles: until then, they throttle nothing."""
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    while not (_rates_shown(connection, throttles) and _lists_shown(connection, throttles)):
        if time.monotonic() > deadline:
            text = f"throttles were set, but brokers do not show them after {SETTLE_TIMEOUT_S:.0f} s"
            raise OutcomeUnknown(text)
        time.sleep(_PAUSE_S)


def _rates_shown(connection: Connection, throttles: Throttles) -> bool:
    if not throttles.rates:
        return True
    present = read_rates(connection, throttles.rates)
    return all(
        isinstance(shown := present.get(broker), Rates)
        and rate.to_configs().items() <= shown.to_configs().items()
        for broker, rate in throttles.rates.items()
    )


def _lists_shown(connection: Connection, throttles: Throttles) -> bool:
    lists = read_lists(connection, throttles.replicas)
    return all(
        ALL in (present := _parse_entries(lists.get(name, {}), config)) or wanted <= present
        for name, replicas in throttles.replicas.items()
        for config, wanted in replicas.to_configs().items()
    )


def _find_empty_lists(
    connection: Connection, throttled: Mapping[str, ThrottledReplicas]
) -> dict[str, list[_Alteration]]:
    """Return the alterations that unset empty lists, once brokers show that the entries are removed."""
    started = time.monotonic()
    deadline = started + SETTLE_TIMEOUT_S
    while True:
        lists = read_lists(connection, throttled)
        cleared = [
            (lists.get(name, {}), config, listed)
            for name, replicas in throttled.items()
            for config, listed in replicas.to_configs().items()
            if listed
        ]
        remaining = any(_parse_entries(own, config) & listed for own, config, listed in cleared)
        # A subtraction creates an empty list where there was none, which brokers may show only later.
        hidden = any(config not in own for own, config, _ in cleared)
        now = time.monotonic()
        if now >= deadline or not (remaining or (hidden and now - started < HIDDEN_S)):
            break
        time.sleep(_PAUSE_S)
    return {
        name: [
            _Alteration(config, AlterConfigOperation.DELETE)
            for config in own
            if not _parse_entries(own, config)
        ]
        for name, own in lists.items()
    }


def _alter_brokers(
    connection: Connection, alterations: Mapping[int, Sequence[_Alteration]], guard: Guard
) -> list[ClusterError]:
    """Alter the configs of brokers, each by a request to itself; returns the errors."""
    changed = {broker: changes for broker, changes in alterations.items() if changes}
    if not changed:
        return []
    guard()
    (metadata,) = connection.send(METADATA, [()])
    requests = {
        broker: [_make_request(_BROKER, {str(broker): changes})]
        for broker, changes in sorted(changed.items())
        if broker in metadata.brokers
    }
    failures: list[ClusterError] = [
        make_broker_down_error(broker) for broker in sorted(changed.keys() - requests.keys())
    ]
    # As Kafka's own clients do: a broker validates its configs before the controller stores them.
    for response in connection.send_to_nodes(ALTER_CONFIGS, requests, TIMEOUT_S).values():
        failures += (
            [response] if isinstance(response, ClusterError) else _collect_refusals(response[0]).values()
        )
    return failures


def _alter_lists(
    connection: Connection,
    operation: AlterConfigOperation,
    lists: Mapping[str, Mapping[str, frozenset[str]]],
    guard: Guard,
) -> dict[str, ClusterError]:
    """Add or remove entries of topics' lists; returns the errors by topic."""
    failures: dict[str, ClusterError] = {}
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
        failures |= _alter_topics(connection, alterations, guard)
    return failures


def _alter_topics(
    connection: Connection, alterations: Mapping[str, Sequence[_Alteration]], guard: Guard
) -> dict[str, ClusterError]:
    """Alter the configs of topics; returns the errors by topic."""
    changed = [(name, changes) for name, changes in alterations.items() if changes]
    failures: dict[str, ClusterError] = {}
    for start in range(0, len(changed), BATCH):
        batch = dict(changed[start : start + BATCH])
        guard()
        try:
            (response,) = connection.send(ALTER_CONFIGS, [_make_request(_TOPIC, batch)], timeout_s=TIMEOUT_S)
        except ClusterError as error:
            failures |= dict.fromkeys(batch, error)
        else:
            failures |= _collect_refusals(response)
    return failures


def _make_request(kind: int, alterations: Mapping[str, Sequence[_Alteration]]) -> Mapping[str, Any]:
    resources = [
        {
            "type": kind,
            "name": name,
            "configs": [
                {"name": change.config, "operation": change.operation, "value": change.value}
                for change in changes
            ],
        }
        for name, changes in alterations.items()
    ]
    return {"resources": resources, "validate_only": False}


def _collect_refusals(response: Mapping[str, Any]) -> dict[str, ClusterError]:
    return {
        resource["name"]: name_right(translate_response(resource), ALTER_CONFIGS.name, resource["name"])
        for resource in response["resources"]
        if resource["error_code"]
    }


def _is_gone(error: ClusterError) -> bool:
    return isinstance(error, RequestRejected) and error.code == "UNKNOWN_TOPIC_OR_PART"


def _raise_first(failures: Collection[ClusterError]) -> None:
    for failure in failures:
        raise failure
