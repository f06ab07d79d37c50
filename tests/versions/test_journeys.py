"""The main journeys on real brokers of each version of Apache Kafka.

KAFKA_VERSIONS names the versions, as `make test-kafka VERSIONS="3.9 4.0"` does; without it, the nightly
tests take a part of the journeys on 3.9. KAFKAFORM_BROKERS_TABLE names the file that gets the results:
docs/brokers.json, from which docs/brokers.md has its table. Without it, a result that is not recorded fails.
"""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from kafkaform.devcluster.cluster import DevCluster
from kafkaform.devcluster.releases import parse_minor_version, resolve_version
from tests.support.cli.project import ROOT, Project
from tests.support.clusters.fixtures import remove_topics, start_guarded
from tests.support.clusters.journeys import JOURNEYS, TABLE, Limit, Site, check_recorded, list_taken, take
from tests.support.clusters.vendor_profiles import PROFILES

pytestmark = pytest.mark.nightly("brokers of an earlier version; make test-kafka has all versions")

DAILY_VERSION = "3.9"

TAKEN = list_taken(DAILY_VERSION, lambda name: name not in PROFILES)


def limits(versions: Sequence[str], name: str) -> dict[str, Limit]:
    """Return the limits of brokers of these versions in a journey, by step; the first bootstraps."""
    oldest, asked = min(map(parse_minor_version, versions)), parse_minor_version(versions[0])
    return {
        step: limit
        for (taken, step), (first, before, limit) in LIMITS.items()
        if taken == name
        and parse_minor_version(first) <= (asked if step == "notes" else oldest) < parse_minor_version(before)
    }


def since(version: str, what: str, cell: str) -> tuple[str, str, Limit]:
    """The limit of what brokers offer from a version on."""
    line = f"refused: KF216: this cluster does not support {what} with Kafka {version}"
    return "2.8", version, Limit(f"{cell} {version} on", line, code=1)


# By the journey and its step: the first version with the limit, and the first one after it.
LIMITS = {
    ("consumer groups (KIP-848)", "apply"): since("4.0", "the consumer protocol: it came", "from"),
    ("group configs", "apply"): since("4.0", "configs of groups: they came", "from"),
    ("share and streams groups", "share"): since("4.1", "the share protocol: it came", "share from"),
    ("share and streams groups", "streams"): since("4.2", "the streams protocol: it came", "streams from"),
    ("status", "notes"): (
        "4.0",
        "4.1",
        Limit(
            "groups that have only configs are not listed",
            "the brokers do not list groups that have only configs (Kafka 4.1 does)",
            code=0,
        ),
    ),
}


@pytest.fixture(scope="module")
def brokers(request: pytest.FixtureRequest) -> Iterator[DevCluster]:
    """Three brokers of a version; for `4.0+3.9` one of 4.0, which is the bootstrap server, and two of 3.9."""
    first, last = (request.param.split("+") * 2)[:2]
    # With users, brokers have an authorizer; clients of the other listener are super users.
    with start_guarded(3, heap_mb=256, kafka_version=(first, last, last), sasl_users={"a": "b"}) as cluster:
        yield cluster


@pytest.fixture
def site(brokers: DevCluster, name: str, tmp_path: Path, prefix: str) -> Iterator[Site]:
    versions = [node.kafka_version for node in brokers.nodes]
    project = Project(tmp_path, brokers.nodes[0].address, prefix)
    yield Site(project, brokers.bootstrap_servers, limits(versions, name))
    remove_topics(brokers.bootstrap_servers, prefix)


@pytest.mark.parametrize(("brokers", "name"), TAKEN, indirect=["brokers"], scope="module")
def test_journey_result_matches_recorded_version_table(site: Site, brokers: DevCluster, name: str) -> None:
    cell = take(name, site)
    column = "+".join(dict.fromkeys(node.kafka_version for node in brokers.nodes))
    check_recorded("versions", column, name, cell)


@pytest.mark.parametrize(("brokers", "name"), [(DAILY_VERSION, "")], indirect=["brokers"], scope="module")
def test_error_without_a_change_exits_1(site: Site) -> None:
    """KF216 needs the live cluster, and a group without settings has nothing to change."""
    project = site.project
    second = project.topic("other")
    group = project.group("new", protocol="consumer", topics=[second])
    clusters = {"dev": {"client": {"bootstrap.servers": project.servers}}}
    project.config(clusters=clusters)
    for arguments in (["plan"], ["plan", "--clusters", "*"], ["plan", "--out", "plan.json"]):
        call = project.process(*arguments).needs(1)
        assert "KF216" in call.out
        project.process(*arguments, "--no-strict").needs(0)
    fleet = project.process("plan", "--clusters", "*").needs(1).out
    assert fleet.splitlines()[1].split() == ["dev", "1", "error,", "1", "change", "to", "apply"]
    assert fleet.endswith("1 cluster: 1 change on 1, 1 error.\n")
    for target in (["plan.json"], [], ["plan.json"]):
        call = project.process("apply", *target, "--auto-approve").needs(1)
        assert "1 error of rules. Not complete." in call.out
        assert "next: " in call.out
    found = project.process("apply", "--auto-approve", "--format", "json").needs(1).json
    assert [(error["code"], error["resource"]) for error in found["errors"]] == [
        ("KF216", f"ConsumerGroup/{group}")
    ]
    site.shows(second.removeprefix(project.prefix), partitions=1)


def test_tables_have_every_journey_for_every_version_and_vendor() -> None:
    """Of those that `make test-kafka` and CI take."""
    [taken] = re.findall(r"^VERSIONS \?= (.*)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    columns = {
        name if name in PROFILES else "+".join(map(resolve_version, name.split("+")))
        for name in taken.split()
    }
    tables = json.loads(TABLE.read_text("utf-8"))
    recorded_cells = {**tables["versions"], **tables["vendors"]}
    assert {column: [*cells] for column, cells in recorded_cells.items()} == {
        column: [*JOURNEYS] for column in columns
    }
