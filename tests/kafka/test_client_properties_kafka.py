"""The translations of client properties, in front of a broker that asks for a login."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

import kafkaform.config.client_properties as cp
from kafkaform.cluster.transport.brokers import Brokers
from kafkaform.cluster.wire.large_answers import METADATA
from kafkaform.core.errors import AuthenticationFailed
from kafkaform.devcluster.cluster import DevCluster
from tests.support.kafka_fixtures import ODD_PASSWORD, TIMEOUT_S


def resolved(cluster: DevCluster, mechanism: str, username: str, password: str) -> cp.Resolved:
    raw = {
        "bootstrap.servers": cluster.sasl_bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": username,
        "sasl.password": "${env:PASSWORD}",
    }
    properties, problems = cp.parse(raw, lambda _: None)
    assert problems == []
    return cp.resolve(properties, {"PASSWORD": password}, cp.read_secret_file)


def through_librdkafka(values: Mapping[str, str], timeout_s: float) -> str:
    quiet = logging.Logger("quiet")
    quiet.addHandler(logging.NullHandler())
    client = AdminClient(cp.to_librdkafka(values), logger=quiet)
    found: str = client.describe_cluster(request_timeout=timeout_s).result().cluster_id
    return found


def through_the_transport(values: Mapping[str, str], timeout_s: float) -> str:
    brokers = Brokers(cp.to_transport(values))
    try:
        return brokers.ask(METADATA, [()], timeout_s=timeout_s)[0].cluster_id
    finally:
        brokers.close()


Connect = Callable[[Mapping[str, str], float], str]
ACCOUNTS = [("PLAIN", "plain-user", ODD_PASSWORD), ("SCRAM-SHA-512", "scram-user", "simple-pw")]


@pytest.mark.parametrize("connect", [through_librdkafka, through_the_transport])
@pytest.mark.parametrize(("mechanism", "username", "password"), ACCOUNTS)
def test_the_right_password_lets_both_clients_in(
    kafka_acl: DevCluster, connect: Connect, mechanism: str, username: str, password: str
) -> None:
    given = resolved(kafka_acl, mechanism, username, password)
    assert connect(given, TIMEOUT_S) == kafka_acl.cluster_id


@pytest.mark.parametrize("connect", [through_librdkafka, through_the_transport])
def test_a_wrong_password_lets_nobody_in_and_is_not_in_the_error(
    kafka_acl: DevCluster, connect: Connect
) -> None:
    with pytest.raises((KafkaException, AuthenticationFailed)) as caught:
        connect(resolved(kafka_acl, "SCRAM-SHA-512", "scram-user", "wrong-hunter2"), 2.0)
    assert "wrong-hunter2" not in str(caught.value)
