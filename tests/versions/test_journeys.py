"""The main journeys on real brokers of each version of Apache Kafka.

KAFKA_VERSIONS names the versions, as `make test-kafka VERSIONS="3.9 4.0"` does; without it, a part of the
journeys is taken on 3.9. KAFKAFORM_BROKERS_TABLE names the file that gets the results: docs/brokers.json,
from which docs/brokers.md has its table. Without it, a result that is not the recorded one fails.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkaform.devcluster.cluster import DevCluster
from kafkaform.devcluster.releases import minor
from tests.support.cli_helpers import ROOT, Project
from tests.support.journeys import DAILY, JOURNEYS, Limit, Site, record, recorded, take
from tests.support.kafka_fixtures import group_clusters, remove_topics
from tests.support.vendor_profiles import PROFILES

TABLE = ROOT / "docs" / "brokers.json"
DAILY_VERSION = "3.9"

ASKED = os.environ.get("KAFKA_VERSIONS", "").split()
TAKEN = [
    (version, name)
    for version in ([version for version in ASKED if version not in PROFILES] if ASKED else [DAILY_VERSION])
    for name in (JOURNEYS if ASKED else DAILY)
]


def limits(version: str, name: str) -> dict[str, Limit]:
    """What brokers of this version do not do in a journey, by step."""
    return {
        step: limit
        for (taken, step, since), limit in LIMITS.items()
        if taken == name and minor(version) < minor(since)
    }


# By the journey, its step, and the version from which on it works.
LIMITS = {
    ("consumer groups (KIP-848)", "apply", "4.0"): Limit(
        cell="from 4.0 on",
        line="refused: KF216: this cluster does not offer the consumer protocol: it came with Kafka 4.0",
        code=1,
    ),
    ("group configs", "apply", "4.0"): Limit(
        cell="from 4.0 on",
        line="refused: KF216: this cluster does not offer configs of groups: they came with Kafka 4.0",
        code=1,
    ),
    ("share and streams groups", "share", "4.1"): Limit(
        cell="share from 4.1 on",
        line="refused: KF216: this cluster does not offer the share protocol: it came with Kafka 4.1",
        code=1,
    ),
    ("share and streams groups", "streams", "4.2"): Limit(
        cell="streams from 4.2 on",
        line="refused: KF216: this cluster does not offer the streams protocol: it came with Kafka 4.2",
        code=1,
    ),
}


@pytest.fixture
def brokers(request: pytest.FixtureRequest) -> DevCluster:
    """Three brokers of a version; for `4.0+3.9` one of 4.0, which is the bootstrap server, and two of 3.9."""
    first, last = (request.param.split("+") * 2)[:2]
    return group_clusters.running(f"kafka-{request.param}", 3, kafka_version=(first, last, last))


@pytest.fixture
def site(brokers: DevCluster, name: str, tmp_path: Path) -> Iterator[Site]:
    prefix = f"t{uuid.uuid4().hex[:10]}."
    first = brokers.nodes[0]
    project = Project(tmp_path, first.address, prefix)
    yield Site(project, brokers.bootstrap_servers, limits(first.kafka_version, name))
    remove_topics(brokers.bootstrap_servers, prefix)


@pytest.mark.parametrize(("brokers", "name"), TAKEN, indirect=["brokers"])
def test_a_journey(site: Site, brokers: DevCluster, name: str) -> None:
    cell = take(name, site)
    column = "+".join(dict.fromkeys(node.kafka_version for node in brokers.nodes))
    if written := os.environ.get("KAFKAFORM_BROKERS_TABLE"):
        record(ROOT / written, "versions", column, name, cell)
    elif TABLE.exists():
        assert cell == recorded(TABLE, "versions", column, name)
