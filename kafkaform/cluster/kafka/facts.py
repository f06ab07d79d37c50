"""Reading a cluster's id, brokers, config defaults and group protocols."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kafkaform.cluster.transport.rights import name_right
from kafkaform.cluster.transport.translation import translate_code
from kafkaform.cluster.wire.large_responses import BROKER_CONFIGS
from kafkaform.core.authorizer import AuthorizerSettings
from kafkaform.core.errors import (
    ClusterError,
    NotOffered,
    OutcomeUnknown,
    PermissionDenied,
    RequestRejected,
    Unreachable,
)
from kafkaform.core.model import Diagnostic, Facts, Severity
from kafkaform.core.partitions import Broker
from kafkaform.resources import KINDS
from kafkaform.resources.base import Configured

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkaform.cluster.transport.connection import Connection
    from kafkaform.cluster.wire.message_schema import Offered


BROKER_TIMEOUT_S = 10.0
"""The time that a broker may take to describe its configs; all are asked concurrently."""
_REFUSED = frozenset({"UNSUPPORTED_VERSION", "INVALID_REQUEST", "UNKNOWN_TOPIC_OR_PART"})
"""The codes of services that do not let clients read broker configs; the last is Azure Event Hubs'."""

_HEARTBEATS = {"consumer": (68, 1), "share": (76, 1), "streams": (88, 0)}
"""By group protocol, the API key of its heartbeat and the first version that is not a preview."""
_OFFSET_RETENTION = "offsets.retention.minutes"
_ENABLED = "group.coordinator.rebalance.protocols"
"""A broker config since 3.7; its default includes `consumer` since 4.0."""


def read_facts(connection: Connection) -> Facts:
    """Read the cluster's facts; each broker is asked for its own configs."""
    cluster = connection.cluster
    if not cluster.cluster_id:
        raise ClusterError("the brokers returned no cluster id", hint="kafkaform needs Kafka 0.10.1 or later")
    brokers = tuple(Broker(number, broker.rack) for number, broker in sorted(cluster.brokers.items()))
    # Brokers may differ in their static defaults, and then describe one topic differently: each is asked
    # about itself.
    requests = {broker.id: [{str(broker.id): None}] for broker in brokers}
    configs: dict[int, Mapping[str, str | None]] = {}
    failures: dict[int, ClusterError] = {}
    for number, responses in connection.send_to_nodes(BROKER_CONFIGS, requests, BROKER_TIMEOUT_S).items():
        if isinstance(responses, ClusterError):
            failures[number] = responses
            continue
        ((described,),) = responses
        if described.error_code:
            error = translate_code(described.error_code, described.message)
            failures[number] = name_right(error, BROKER_CONFIGS.name)
        else:
            configs[number] = described.configs.effective
    diagnostics = _explain_missing(failures, answered=bool(configs))
    protocols = _read_group_protocols(connection, configs)
    restricted = any(isinstance(failure, PermissionDenied) for failure in failures.values())
    parts: dict[type, object] = {
        AuthorizerSettings: AuthorizerSettings(principal=find_own_principal(connection))
    }
    if not configs:
        return Facts(
            cluster.cluster_id,
            brokers,
            diagnostics=diagnostics,
            group_protocols=protocols,
            restricted=restricted,
            parts=parts,
        )
    agreed: dict[str, Mapping[str, str | None]] = {}
    for kind in KINDS.having(Configured):
        inherited = {broker: kind.find_defaults(own) for broker, own in configs.items()}
        agreed[kind.name], differing = _merge_defaults(inherited, kind.words.noun)
        diagnostics = (*diagnostics, *differing)
    return Facts(
        cluster.cluster_id,
        brokers,
        agreed,
        diagnostics,
        group_protocols=protocols,
        offset_retention_ms=_find_offset_retention_ms(configs.values()),
        restricted=restricted,
        parts=parts,
    )


def _find_offset_retention_ms(configs: Iterable[Mapping[str, str | None]]) -> int | None:
    """Return the shortest offset retention of the brokers; None if one is unknown."""
    # Any broker may coordinate a group, so that only the shortest retention is certain.
    minutes = [own.get(_OFFSET_RETENTION) or "" for own in configs]
    return min(map(int, minutes)) * 60_000 if all(map(str.isdecimal, minutes)) else None


def _read_group_protocols(
    connection: Connection, configs: Mapping[int, Mapping[str, str | None]]
) -> frozenset[str]:
    """Return the group protocols that all brokers accept."""
    enabled = {broker: (own.get(_ENABLED) or "").split(",") for broker, own in configs.items()}
    # Only one broker is asked for its API versions: in a rolling upgrade, the configs of the others decide.
    if any(names != [""] for names in enabled.values()) and not all(
        "consumer" in n for n in enabled.values()
    ):
        return frozenset({"classic"})
    return find_group_protocols(connection.read_api_versions())


def find_group_protocols(offered: Offered) -> frozenset[str]:
    """Return the group protocols that a broker accepts. Group configs came with `consumer`."""
    newer = (name for name, (key, first) in _HEARTBEATS.items() if offered.get(key, (0, -1))[1] >= first)
    return frozenset({"classic", *newer})


def _explain_missing(failures: Mapping[int, ClusterError], *, answered: bool) -> tuple[Diagnostic, ...]:
    """Return the notes on brokers whose configs could not be read; raises errors that no plan survives."""
    diagnostics = []
    for broker_id, error in failures.items():
        match error:
            case PermissionDenied():
                # One note is enough: rights and services are the same for all brokers.
                return (_make_hidden_note(error.message, error.hint),)
            case NotOffered():
                return (_make_hidden_note("this cluster does not support it"),)
            case RequestRejected(code=code) if code in _REFUSED:
                return (_make_hidden_note("this cluster does not let clients read them"),)
            # A plan goes on without one broker. If none answers, the cluster itself is the problem.
            case Unreachable() | OutcomeUnknown() if answered:
                diagnostics.append(
                    Diagnostic(
                        "KF415",
                        Severity.WARNING,
                        f"cannot read the configs of broker {broker_id} ({error.message}); using the "
                        "defaults of the other brokers",
                        suggestion="check whether it is down, or cannot be reached from here",
                    )
                )
            case _:
                raise error
    return tuple(diagnostics)


def _make_hidden_note(why: str, suggestion: str | None = None) -> Diagnostic:
    return Diagnostic(
        "KF412",
        Severity.INFO,
        f"could not read the brokers' configs ({why}): resetting a config is assessed as if it lost data",
        suggestion=suggestion,
    )


def _merge_defaults(
    defaults: Mapping[int, Mapping[str, str | None]], noun: str
) -> tuple[dict[str, str | None], list[Diagnostic]]:
    """Return the most common default of each config, and warnings where brokers differ."""
    names = sorted({name for of_broker in defaults.values() for name in of_broker})
    agreed: dict[str, str | None] = {}
    diagnostics = []
    for name in names:
        by_broker = {broker: of_broker.get(name) for broker, of_broker in defaults.items()}
        # A plan needs one default: that of most brokers is the one that a topic most often has.
        agreed[name] = Counter(by_broker.values()).most_common(1)[0][0]
        if len(set(by_broker.values())) > 1:
            values = ", ".join(f"broker {broker}: {value}" for broker, value in sorted(by_broker.items()))
            diagnostics.append(
                Diagnostic(
                    "KF411",
                    Severity.WARNING,
                    f"brokers differ in their default of {name} ({values}): a {noun} without its own value "
                    "has a different one on each broker",
                    suggestion=f"give all brokers the same default, or declare the value on the {noun}s",
                )
            )
    return agreed, diagnostics


def find_own_principal(connection: Connection) -> str | None:
    """Return the principal of this account, as the default principal builder names it; None if unknown.

    Kafka has no request for it. That of a certificate follows ssl.principal.mapping.rules of the broker, and
    that of a token its claims.
    """
    protocol, mechanism = (
        connection.properties.get(name) for name in ("security.protocol", "sasl.mechanism")
    )
    if str(protocol).lower().startswith("sasl"):
        user = connection.properties.get("sasl.username")
        # DefaultKafkaPrincipalBuilder takes the name that PLAIN and SCRAM authenticate as it is.
        is_by_name = str(mechanism).upper().startswith(("PLAIN", "SCRAM"))
        return f"User:{user}" if user and is_by_name else None
    # A connection without authentication has KafkaPrincipal.ANONYMOUS.
    return "User:ANONYMOUS" if str(protocol or "plaintext").lower() == "plaintext" else None
