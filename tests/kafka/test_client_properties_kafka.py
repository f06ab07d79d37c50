"""The translations of client properties, in front of a broker that asks for a login."""

from __future__ import annotations

import logging
import warnings

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

import kafkaform.client_properties as cp
from kafkaform.devcluster.cluster import DevCluster

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its own schemas the old way
    from kafka.admin import KafkaAdminClient
    from kafka.errors import KafkaError

from collections.abc import Iterator, Mapping

PASSWORD = "p'w\\d;$x="


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    with DevCluster.start(
        tmp_path_factory.mktemp("client-properties"),
        sasl_users={"plain-user": PASSWORD},
        format_args=("--add-scram", "SCRAM-SHA-512=[name=scram-user,password=simple-pw]"),
    ) as started:
        yield started


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


def through_librdkafka(values: Mapping[str, str]) -> str:
    quiet = logging.Logger("quiet")
    quiet.addHandler(logging.NullHandler())
    client = AdminClient(cp.to_librdkafka(values), logger=quiet)
    found: str = client.describe_cluster(request_timeout=5).result(10).cluster_id
    return found


def through_kafka_python(values: Mapping[str, str]) -> str:
    with KafkaAdminClient(bootstrap_timeout_ms=5000, **cp.to_kafka_python(values)) as client:
        found: str = client.describe_cluster()["cluster_id"]
        return found


ACCOUNTS = [("PLAIN", "plain-user", PASSWORD), ("SCRAM-SHA-512", "scram-user", "simple-pw")]


@pytest.mark.parametrize("connect", [through_librdkafka, through_kafka_python])
@pytest.mark.parametrize(("mechanism", "username", "password"), ACCOUNTS)
def test_the_right_password_lets_both_clients_in(
    cluster: DevCluster, connect: object, mechanism: str, username: str, password: str
) -> None:
    assert callable(connect)
    assert connect(resolved(cluster, mechanism, username, password)) == cluster.cluster_id


@pytest.mark.parametrize("connect", [through_librdkafka, through_kafka_python])
def test_a_wrong_password_lets_nobody_in_and_is_not_in_the_error(
    cluster: DevCluster, connect: object
) -> None:
    assert callable(connect)
    with pytest.raises((KafkaException, KafkaError)) as caught:
        connect(resolved(cluster, "SCRAM-SHA-512", "scram-user", "wrong-hunter2"))
    assert "wrong-hunter2" not in str(caught.value)
