"""Each kind goes through the whole command line, on a broker with an authorizer and SCRAM listeners."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafkaform.cluster.kafka.cluster import KafkaCluster
from kafkaform.cluster.protocol import Cluster
from kafkaform.cluster.schema_registry import open_registry
from kafkaform.cluster.services import Services
from kafkaform.config.client_properties import to_librdkafka, to_transport
from kafkaform.devcluster.cluster import DevCluster
from tests.support.cli.project import Project
from tests.support.clusters.fixtures import Account, connect
from tests.support.kinds import ENVIRONMENT, KIND_CASES, KindCase, KindJourney, prepare_project
from tests.support.schema_registry import run_registry

RIGHTS = ("CLUSTER:kafka-cluster:ALL", "TOPIC:*:ALL", "GROUP:*:ALL")


@pytest.fixture
def cluster(kafka_acl: DevCluster) -> Iterator[Cluster]:
    """The cluster of a super user."""
    with connect(kafka_acl.bootstrap_servers) as cluster:
        yield cluster


KAFKA_CASES = [case for case in KIND_CASES if case.service == "brokers"]
(SUBJECT,) = (case for case in KIND_CASES if case.service == "schema registry")


@pytest.mark.parametrize("case", KAFKA_CASES, ids=lambda case: case.kind)
def test_kind_journey_on_kafka(
    case: KindCase,
    cluster: Cluster,
    tmp_path: Path,
    account: Callable[..., Account],
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    login = account(*RIGHTS)
    project = prepare_project(Project(tmp_path, login.servers, prefix), client=login.client)
    KindJourney(case, project, cluster).take()


def test_subject_journey_with_registry(
    kafka_acl: DevCluster, tmp_path: Path, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    with run_registry(tmp_path / "registry") as url:
        client = {"bootstrap.servers": kafka_acl.bootstrap_servers, "schema.registry.url": url}
        project = prepare_project(Project(tmp_path, kafka_acl.bootstrap_servers, prefix), client=client)
        services = Services({SUBJECT.kind: lambda: open_registry(client)})
        with KafkaCluster(to_librdkafka(client), lambda: to_transport(client), services=services) as cluster:
            KindJourney(SUBJECT, project, cluster).take()
