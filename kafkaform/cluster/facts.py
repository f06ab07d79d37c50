"""Reading what is known of a cluster besides its resources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from confluent_kafka import KafkaException
from confluent_kafka.admin import ConfigResource

from kafkaform import kafka_configs
from kafkaform.cluster.connection import READ_TIMEOUT_S, Connection
from kafkaform.cluster.translation import translate
from kafkaform.errors import PermissionDenied
from kafkaform.model import Broker, Diagnostic, Facts, Severity


def read_facts(connection: Connection) -> Facts:
    """Read the cluster's id, brokers and topic defaults (each broker is asked for its own)."""
    cluster = connection.cluster
    brokers = tuple(sorted((Broker(node.id, node.rack) for node in cluster.nodes), key=lambda b: b.id))
    futures = {
        broker.id: next(
            iter(
                connection.admin.describe_configs(
                    [ConfigResource(ConfigResource.Type.BROKER, str(broker.id))],
                    request_timeout=READ_TIMEOUT_S,
                ).values()
            )
        )
        for broker in brokers
    }
    defaults: dict[int, Mapping[str, str | None]] = {}
    diagnostics: list[Diagnostic] = []
    for broker_id, future in futures.items():
        try:
            entries = future.result()
        except KafkaException as exception:
            error = translate(exception)
            if not isinstance(error, PermissionDenied):
                raise error from exception
            diagnostics = [_defaults_hidden()]
            continue
        defaults[broker_id] = kafka_configs.cluster_defaults({n: e.value for n, e in entries.items()})
    if not defaults:
        return Facts(cluster.cluster_id, brokers, None, tuple(diagnostics))
    agreed, differing = _agree(defaults)
    return Facts(cluster.cluster_id, brokers, agreed, (*diagnostics, *differing))


def _defaults_hidden() -> Diagnostic:
    return Diagnostic(
        "KF412",
        Severity.INFO,
        "this account may not read the brokers' configs: resetting a config is judged as if it lost data",
        suggestion="grant DescribeConfigs on the cluster",
    )


def _agree(
    defaults: Mapping[int, Mapping[str, str | None]],
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
                    f"brokers differ in their default of {name} ({said}): a topic without an own value has "
                    "another one on each broker",
                    suggestion="give all brokers one default, or declare the value on the topics",
                )
            )
    return agreed, diagnostics
