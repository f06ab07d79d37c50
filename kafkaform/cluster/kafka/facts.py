"""Reading what is known of a cluster besides its resources."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException
from confluent_kafka.admin import ConfigResource

from kafkaform.cluster.transport.rights import name_right
from kafkaform.cluster.transport.translation import translate
from kafkaform.core.errors import (
    ClusterError,
    KafkaformError,
    NotOffered,
    OutcomeUnknown,
    PermissionDenied,
    RequestRejected,
    Unreachable,
)
from kafkaform.core.layout import Broker
from kafkaform.core.model import Diagnostic, Facts, Severity
from kafkaform.resources import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkaform.cluster.transport.connection import Connection
    from kafkaform.cluster.wire.message_schema import Offered


BROKER_TIMEOUT_S = 10.0
"""The time that a single broker may take to tell its configs; all are asked at once."""
_REFUSED = frozenset({"UNSUPPORTED_VERSION", "INVALID_REQUEST", "UNKNOWN_TOPIC_OR_PART"})
"""How services that keep their brokers' configs to themselves refuse them; the last is Azure Event Hubs."""

_HEARTBEATS = {"consumer": (68, 1), "share": (76, 1), "streams": (88, 0)}
"""By group protocol, the key of its heartbeats and their first version that is not a preview."""
_OFFSET_RETENTION = "offsets.retention.minutes"
_ENABLED = "group.coordinator.rebalance.protocols"
"""Of brokers since 3.7, where it has `consumer` from 4.0 on."""


def read_facts(connection: Connection) -> Facts:
    """Read the cluster's id, brokers and config defaults (each broker is asked for its own)."""
    cluster = connection.cluster
    if cluster.cluster_id is None:
        raise ClusterError("the brokers returned no cluster id", hint="kafkaform needs Kafka 0.10.1 or later")
    brokers = tuple(sorted((Broker(node.id, node.rack) for node in cluster.nodes), key=lambda b: b.id))
    futures = {
        broker.id: next(
            iter(
                connection.admin.describe_configs(
                    [ConfigResource(ConfigResource.Type.BROKER, str(broker.id))],
                    request_timeout=BROKER_TIMEOUT_S,
                ).values()
            )
        )
        for broker in brokers
    }
    configs: dict[int, Mapping[str, str | None]] = {}
    failures: dict[int, ClusterError] = {}
    for broker_id, future in futures.items():
        try:
            entries = future.result()
        except KafkaException as exception:
            failures[broker_id] = name_right(translate(exception), "DescribeConfigs")
            continue
        configs[broker_id] = {name: entry.value for name, entry in entries.items()}
    diagnostics = _missing(failures, answered=bool(configs))
    protocols = _group_protocols(connection, configs)
    restricted = any(isinstance(failure, PermissionDenied) for failure in failures.values())
    if not configs:
        return Facts(
            cluster.cluster_id,
            brokers,
            diagnostics=diagnostics,
            group_protocols=protocols,
            restricted=restricted,
        )
    agreed: dict[str, Mapping[str, str | None]] = {}
    for name, kind in KINDS.items():
        inherited = {broker: kind.inherited(own) for broker, own in configs.items()}
        agreed[name], differing = _agree(inherited, kind.noun)
        diagnostics = (*diagnostics, *differing)
    return Facts(
        cluster.cluster_id,
        brokers,
        agreed,
        diagnostics,
        group_protocols=protocols,
        offset_retention_ms=_offset_retention_ms(configs.values()),
        restricted=restricted,
    )


def _offset_retention_ms(configs: Iterable[Mapping[str, str | None]]) -> int | None:
    """Return the shortest time for which a broker keeps offsets; None if one does not say."""
    minutes = [own.get(_OFFSET_RETENTION) or "" for own in configs]
    return min(map(int, minutes)) * 60_000 if all(map(str.isdecimal, minutes)) else None


def _group_protocols(
    connection: Connection, configs: Mapping[int, Mapping[str, str | None]]
) -> frozenset[str] | None:
    """The protocols whose members all brokers take; None where they do not say what they offer."""
    enabled = {broker: (own.get(_ENABLED) or "").split(",") for broker, own in configs.items()}
    # Only one broker is asked what it offers: in a rolling upgrade, the configs of the others tell.
    if any(names != [""] for names in enabled.values()) and not all(
        "consumer" in n for n in enabled.values()
    ):
        return frozenset({"classic"})
    try:
        return group_protocols(connection.offered())
    except KafkaformError:  # librdkafka has connected: plans go on without what only we can ask
        return None


def group_protocols(offered: Offered) -> frozenset[str]:
    """The protocols whose members a broker takes. Configs of groups came with `consumer`."""
    newer = (name for name, (key, first) in _HEARTBEATS.items() if offered.get(key, (0, -1))[1] >= first)
    return frozenset({"classic", *newer})


def _missing(failures: Mapping[int, ClusterError], *, answered: bool) -> tuple[Diagnostic, ...]:
    """The notes of brokers that did not tell their configs; raises what no plan can do without."""
    diagnostics = []
    for broker_id, error in failures.items():
        match error:
            case PermissionDenied():
                return (_defaults_hidden(error.message, error.hint),)
            case NotOffered():
                return (_defaults_hidden("this cluster does not offer it"),)
            case RequestRejected(code=code) if code in _REFUSED:
                return (_defaults_hidden("this cluster does not let clients read them"),)
            case Unreachable() | OutcomeUnknown() if answered:
                diagnostics.append(
                    Diagnostic(
                        "KF415",
                        Severity.WARNING,
                        f"broker {broker_id} did not tell its configs ({error.message}): the defaults are "
                        "those of the other brokers",
                        suggestion="see whether it is down, or cannot be reached from here",
                    )
                )
            case _:
                raise error
    return tuple(diagnostics)


def _defaults_hidden(why: str, suggestion: str | None = None) -> Diagnostic:
    return Diagnostic(
        "KF412",
        Severity.INFO,
        f"the brokers' configs were not read ({why}): resetting a config is judged as if it lost data",
        suggestion=suggestion,
    )


def _agree(
    defaults: Mapping[int, Mapping[str, str | None]], noun: str
) -> tuple[dict[str, str | None], list[Diagnostic]]:
    """One default for each config, and a warning where brokers differ (the most common one is taken)."""
    names = sorted({name for of_broker in defaults.values() for name in of_broker})
    agreed: dict[str, str | None] = {}
    diagnostics = []
    for name in names:
        by_broker = {broker: of_broker.get(name) for broker, of_broker in defaults.items()}
        agreed[name] = Counter(by_broker.values()).most_common(1)[0][0]
        if len(set(by_broker.values())) > 1:
            said = ", ".join(f"broker {broker}: {value}" for broker, value in sorted(by_broker.items()))
            diagnostics.append(
                Diagnostic(
                    "KF411",
                    Severity.WARNING,
                    f"brokers differ in their default of {name} ({said}): a {noun} without an own value has "
                    "another one on each broker",
                    suggestion=f"give all brokers one default, or declare the value on the {noun}s",
                )
            )
    return agreed, diagnostics
