"""The translations of client properties, in front of a broker that asks for a login."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Mapping

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

import kafkaform.config.client_properties as cp
from kafkaform.devcluster.cluster import DevCluster
from tests.support.kafka_fixtures import ODD_PASSWORD, TIMEOUT_S

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its own schemas the old way
    from kafka.admin import KafkaAdminClient
    from kafka.errors import KafkaError


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


def through_kafka_python(values: Mapping[str, str], timeout_s: float) -> str:
    with KafkaAdminClient(bootstrap_timeout_ms=int(timeout_s * 1000), **cp.to_kafka_python(values)) as client:
        found: str = client.describe_cluster()["cluster_id"]
        return found


Connect = Callable[[Mapping[str, str], float], str]
ACCOUNTS = [("PLAIN", "plain-user", ODD_PASSWORD), ("SCRAM-SHA-512", "scram-user", "simple-pw")]


@pytest.mark.parametrize("connect", [through_librdkafka, through_kafka_python])
@pytest.mark.parametrize(("mechanism", "username", "password"), ACCOUNTS)
def test_the_right_password_lets_both_clients_in(
    kafka_acl: DevCluster, connect: Connect, mechanism: str, username: str, password: str
) -> None:
    given = resolved(kafka_acl, mechanism, username, password)
    assert connect(given, TIMEOUT_S) == kafka_acl.cluster_id


@pytest.mark.parametrize("connect", [through_librdkafka, through_kafka_python])
def test_a_wrong_password_lets_nobody_in_and_is_not_in_the_error(
    kafka_acl: DevCluster, connect: Connect
) -> None:
    with pytest.raises((KafkaException, KafkaError)) as caught:
        connect(resolved(kafka_acl, "SCRAM-SHA-512", "scram-user", "wrong-hunter2"), 2.0)
    assert "wrong-hunter2" not in str(caught.value)
