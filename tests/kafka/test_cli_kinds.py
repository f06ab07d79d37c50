"""Each kind goes through the whole command line, on a broker with an authorizer and SCRAM listeners."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafkaform.cluster.protocol import Cluster
from kafkaform.core.model import SAFE, Delete
from kafkaform.devcluster.cluster import DevCluster
from kafkaform.resources import KINDS
from tests.support.cli.project import Project
from tests.support.clusters.fixtures import Account, connect
from tests.support.kinds import ENVIRONMENT, KIND_CASES, KindCase, KindJourney, prepare_project

RIGHTS = ("CLUSTER:kafka-cluster:ALL", "TOPIC:*:ALL", "GROUP:*:ALL")


@pytest.fixture
def cluster(kafka_acl: DevCluster, prefix: str) -> Iterator[Cluster]:
    """The cluster of a super user, without the access, quotas and users of this test afterwards."""
    with connect(kafka_acl.bootstrap_servers) as cluster:
        yield cluster
        left = cluster.observe((), lambda ref: prefix in ref.name, kinds=["Access", "ClientQuota", "User"])
        for ref, live in left.resources.items():
            change = Delete(ref, live.uid, live.state, SAFE)
            assert cluster.execute(KINDS[ref.kind].operations(change)) == [None]


@pytest.mark.parametrize("case", KIND_CASES, ids=lambda case: case.kind)
def test_kind_goes_through_the_command_line(
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
