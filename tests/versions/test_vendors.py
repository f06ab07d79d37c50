"""The main journeys through a proxy that offers what services offer: see tests/support/vendor_profiles.

KAFKA_VERSIONS names the services, too, as `make test-kafka VERSIONS="3.9 redpanda"` does; without it, the
nightly tests take a part of the journeys on one. Results are kept as those of the versions are: see
test_journeys.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.support.cli.project import Project
from tests.support.clusters.fixtures import admin_client, remove_topics, start_behind_proxy
from tests.support.clusters.journeys import Limit, Site, check_recorded, list_taken, take
from tests.support.clusters.vendor_profiles import PROFILES
from tests.support.clusters.vendor_proxy import VendorProxy

pytestmark = pytest.mark.nightly("as versions; make test-kafka has all services")

DAILY_VENDOR = "event-hubs"

TAKEN = list_taken(DAILY_VENDOR, PROFILES.__contains__)
PATIENCE_S = 60.0
"""A journey that waits for what never comes takes longer: 30 s for a verification, and more for retries."""


def limit_refusal(cell: str, line: str) -> Limit:
    """A step that ends with exit code 1 and this line."""
    return Limit(cell, line, code=1)


def lacks(what: str, says: str = "KF216", cell: str = "no") -> Limit:
    """A step that ends with exit code 1, as the service does not have something."""
    return limit_refusal(cell, f"{says}: this cluster does not support {what}")


_BY_NAME = limit_refusal("by name, with consent to it", "needs consent to delete-by-name")
NO_TOPIC_IDS = {
    "delete": {"apply": _BY_NAME},
    "recreate": {"plan": limit_refusal("no", "is not recreated: these brokers have no topic ids")},
    "succession": {"delete": replace(_BY_NAME, cell="the old topic is deleted by name, with consent to it")},
}
OLD_GROUPS = {
    "consumer groups (KIP-848)": {"apply": lacks("the consumer protocol")},
    "group configs": {"apply": lacks("configs of groups")},
    "share and streams groups": {
        "share": lacks("the share protocol"),
        "streams": lacks("the streams protocol"),
    },
}
NO_USERS = {
    "client quotas": {"apply": lacks("AlterClientQuotas", "create refused")},
    "access": {"apply": lacks("DescribeAcls", "create refused")},
}
NO_REASSIGNMENTS = {
    "replication factor": dict.fromkeys(
        ("apply", "unthrottled"), lacks("AlterPartitionReassignments", "update refused")
    ),
    "rebalance": {"plan": lacks("AlterPartitionReassignments", "Error")},
}
NO_SIZES = Limit(
    "no sizes", "not read: the sizes of topics: this cluster does not support DescribeLogDirs", 0
)
NO_CONFIGS = lacks("IncrementalAlterConfigs", "update refused", "no change of configs")
UNTOLD_MOVES = "running reassignments are not told"
REDPANDA_THROTTLE = limit_refusal(
    "with --throttle none", "Setting broker properties on named brokers is unsupported (INVALID_CONFIG)"
)
POLICY = "refused by the brokers: Topic replication factor must be 3 (POLICY_VIOLATION)"

LIMITS: dict[str, dict[str, dict[str, Limit]]] = {
    "redpanda": {
        **OLD_GROUPS,
        **NO_TOPIC_IDS,
        "doctor": {
            "min.insync.replicas": limit_refusal(
                "min.insync.replicas is ignored", "it now exists, with min.insync.replicas unset instead of 2"
            )
        },
        "replication factor": {"apply": REDPANDA_THROTTLE},
        "rebalance": {"apply": REDPANDA_THROTTLE},
    },
    "msk-serverless": {
        **OLD_GROUPS,
        **NO_USERS,
        **NO_REASSIGNMENTS,
        "status": {"sizes": NO_SIZES},
        "doctor": {
            "min.insync.replicas": limit_refusal(
                "min.insync.replicas is refused",
                "refused by the brokers: Amazon MSK Serverless can't set topic configuration"
                " min.insync.replicas at creation.",
            ),
            "doctor": Limit(
                "throttles are not told",
                "not checked KF313 replication throttles: Broker configurations cannot be described",
                code=0,
            ),
        },
    },
    "confluent-cloud": {
        "status": {
            "sizes": Limit("no sizes", "not read: the size of topic {prefix}orders: not visible", code=0)
        },
        "replication factor": {"create": limit_refusal("always 3", POLICY)},
        "rebalance": {"create": limit_refusal("no", POLICY)},
    },
    "event-hubs": {
        **OLD_GROUPS,
        **NO_USERS,
        **NO_TOPIC_IDS,
        **NO_REASSIGNMENTS,
        "apply": {"configs": replace(NO_CONFIGS, cell="configs only at creation")},
        "saved plan": {"plan": NO_CONFIGS},
        "history": {"apply": NO_CONFIGS},
        "revert": {"apply": NO_CONFIGS},
        "status": {
            "sizes": NO_SIZES,
            "notes": Limit(
                UNTOLD_MOVES,
                "could not read running reassignments"
                " (this cluster does not support ListPartitionReassignments)",
                code=0,
            ),
        },
        "doctor": {
            "doctor": Limit(
                UNTOLD_MOVES,
                "not checked KF309 running reassignments: this cluster does not support"
                " ListPartitionReassignments",
                code=0,
            )
        },
    },
}
"""What a service does not do in a journey, by step."""


@dataclass(frozen=True)
class VendorProject(Project):
    """A project whose tests change things beside kafkaform without the service's limits."""

    direct: str = ""

    @cached_property
    def _admin(self) -> AdminClient:
        return admin_client(self.direct)


@pytest.fixture(scope="module")
def proxy() -> Iterator[VendorProxy]:
    """Three brokers behind a proxy."""
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    properties = {"authorizer.class.name": authorizer, "super.users": "User:ANONYMOUS"}
    with start_behind_proxy(3, heap_mb=256, properties=properties) as running:
        yield running


@pytest.fixture
def site(proxy: VendorProxy, vendor: str, name: str, tmp_path: Path, prefix: str) -> Iterator[Site]:
    project = VendorProject(tmp_path, proxy.bootstrap_servers, prefix, proxy.direct)
    with proxy.offering(PROFILES[vendor]):
        yield Site(project, proxy.direct, LIMITS[vendor].get(name, {}))
    remove_topics(proxy.direct, prefix)
    remove_topics(proxy.direct, "__kafkaform")  # the record, which is made anew under each service's limits


@pytest.mark.parametrize(("vendor", "name"), TAKEN)
def test_journey_result_matches_vendor_table(site: Site, proxy: VendorProxy, vendor: str, name: str) -> None:
    begun = time.monotonic()
    cell = take(name, site)
    took = time.monotonic() - begun
    assert not proxy.closed, "nothing is asked that the service does not have"
    if name != "skew":  # it starts Spark
        assert took < PATIENCE_S, f"it took {took:.0f} s"
    check_recorded("vendors", vendor, name, cell)
