"""Topics, groups, records and configs of a real cluster, made and changed by other means than kafkaform's."""

from collections.abc import Iterable, Mapping

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from kafkaform.cluster.protocol import Cluster
from kafkaform.cluster.wire.messages import ALTER_CONFIGS
from kafkaform.core.values import replace
from kafkaform.resources.replicas.layout import Assignment
from tests.support.clusters.contract import create_topics, new_topic
from tests.support.clusters.fixtures import TIMEOUT_S, admin_client, eventually, open_connection


def make_topic(
    cluster: Cluster,
    name: str,
    partitions: int = 1,
    replicas: int = 1,
    places: Assignment = (),
    **configs: str,
) -> str:
    """Create a topic, and wait until it is seen and each log is open; configs have `_` for a dot."""
    create_topics(cluster, replace(new_topic(name, partitions, replicas, **configs), assignment=places))
    logs = [(name, number) for number in range(partitions)]
    eventually(lambda: len(cluster.log_spans(logs)), lambda count: count == partitions)
    return name


def place_topic(cluster: Cluster, name: str, places: Assignment, **configs: str) -> str:
    return make_topic(cluster, name, len(places), len(places[0]), places, **configs)


def delete_records(servers: str, below: Mapping[tuple[str, int], int]) -> None:
    wanted = [TopicPartition(*partition, offset) for partition, offset in below.items()]
    admin = admin_client(servers)
    for future in admin.delete_records(wanted).values():
        future.result(TIMEOUT_S)


def delete_topic(servers: str, name: str) -> None:
    admin = admin_client(servers)
    admin.delete_topics([name])[name].result(TIMEOUT_S)
    eventually(lambda: admin.list_topics(timeout=TIMEOUT_S).topics, lambda topics: name not in topics)


def delete_group(servers: str, name: str) -> None:
    """Delete the offsets of a group, as their expiry does."""
    admin = admin_client(servers)
    admin.delete_consumer_groups([name], request_timeout=TIMEOUT_S)[name].result(TIMEOUT_S)


def alter_configs(
    admin: AdminClient, kind: ResourceType, names: Iterable[str], configs: Mapping[str, str | None]
) -> None:
    """Set configs of topics, groups or brokers; None takes one away."""
    entries = [
        ConfigEntry(
            key,
            value,
            incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
        )
        for key, value in configs.items()
    ]
    for name in names:  # librdkafka takes one broker a call
        resource = ConfigResource(kind, name, incremental_configs=entries)
        for future in admin.incremental_alter_configs([resource], request_timeout=TIMEOUT_S).values():
            future.result(TIMEOUT_S)


def alter_all_brokers(servers: str, name: str, value: str | None) -> None:
    """Set or unset a config of the resource of all brokers, whose name is empty: no client offers it."""
    config = {"name": name, "operation": int(value is None), "value": value}
    request = {"resources": [{"type": 4, "name": "", "configs": [config]}], "validate_only": False}
    with open_connection(servers) as connection:
        answer = connection.send_to_controller(ALTER_CONFIGS, request, TIMEOUT_S)
    assert [response["error_code"] for response in answer["resources"]] == [0]
