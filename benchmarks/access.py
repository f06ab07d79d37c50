"""Compare plans of a cluster with 80,000 ACLs of 9,000 principals with a raw description of all ACLs.

Each principal is an application: it produces to topics, consumes others with a group, and has a transactional
id. It is declared by a file of its own, in the words of applications. The raw call is confluent-kafka's
describe_acls of everything in a process of its own: one request, as in a plan. "plan" finds every ACL as
declared; "plan of a change" finds a new right and a lost one of one principal in a hundred; "plan of a tenth"
has the files of a tenth of the principals, and the same cluster; `can` decides from all ACLs;
"import" writes a file for each principal; "validate" reads the files only.

Rounds alternate and medians are compared, so that other load on the machine affects all of them alike.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from benchmarks import scene
from benchmarks.rounds import KAFKAFORM, RAW, Figures, compare_medians, measure_process
from benchmarks.table import report_rows
from kafkaform.core.acl_fields import parse_path
from kafkaform.core.model import ResourceRef
from kafkaform.resources.access.operations import GrantAccess

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

TOPICS = 2_000
"""The number of topics that the applications share."""

CALLS = """
import sys
from confluent_kafka.admin import *
admin = AdminClient({"bootstrap.servers": sys.argv[1]})
any_acl = AclBindingFilter(
    ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
)
acls = admin.describe_acls(any_acl, request_timeout=120).result()
assert len(acls) == int(sys.argv[2]), len(acls)
"""

HEADINGS = ("ACLs", "", "seconds", "to raw call", "CPU s", "peak MB")


def main() -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--acls", type=int, default=80_000)
    parser.add_argument("--principals", type=int, default=9_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with scene.start_brokers(TOPICS) as (folder, kafka):
        address = kafka.bootstrap_servers
        scene.create_topics(kafka, TOPICS, partitions=1)
        rights = share_acls(options.acls, options.principals)
        create_acls(address, rights)
        write_manifests(folder / "all", rights)
        write_manifests(folder / "tenth", rights[: len(rights) // 10])
        write_manifests(folder / "changed", rights, 100)
        taken = measure(address, folder, options.acls, options.rounds)
    rows: list[dict[str, float | str]] = [
        {
            "acls": options.acls,
            "way": way,
            "seconds": figures.seconds,
            "ratio": figures.seconds / taken["raw call"].seconds,
            "cpu": figures.cpu,
            "peak": figures.peak,
        }
        for way, figures in taken.items()
    ]
    report_rows("access", HEADINGS, *rows)
    return 0


def share_acls(acls: int, principals: int) -> list[list[str]]:
    """Return the topics of each principal, besides its group and its transactional ids."""
    each, extra = divmod(acls - 2 * principals, principals)
    rights = []
    topic = 0
    for number in range(principals):
        count = each + (number < extra)
        rights.append([f"{scene.PREFIX}{(topic + i) % TOPICS:05d}" for i in range(count)])
        topic += count
    return rights


def create_acls(address: str, rights: Sequence[Sequence[str]]) -> None:
    """Create the ACLs of each principal."""

    def list_grants() -> Iterator[GrantAccess]:
        for number, topics in enumerate(rights):
            principal = name_principal(number)
            paths = [
                f"allow Read on group {scene.PREFIX}group-{number}",
                f"allow Write on transactional-id prefix {scene.PREFIX}app-{number}-",
                *(f"allow {'Read' if i % 2 else 'Write'} on topic {name}" for i, name in enumerate(topics)),
            ]
            acls = tuple(parse_path(path, principal) for path in paths)
            yield GrantAccess(ResourceRef("Access", principal), acls)

    with scene.connect(address) as cluster:
        scene.execute(cluster, list_grants())


def name_principal(number: int) -> str:
    """Return the principal of an application."""
    return f"User:{scene.PREFIX}app-{number}"


def write_manifests(folder: Path, rights: Sequence[Sequence[str]], every: int = 0) -> None:
    """Write a file for each principal; every so many-th has one right less and another one more."""
    folder.mkdir()
    for number, topics in enumerate(rights):
        produces, consumes = list(topics[::2]), list(topics[1::2])
        if every and number % every == 0:
            produces[0] = f"{scene.PREFIX}new"
        (folder / f"app-{number}.yaml").write_text(
            f"apiVersion: kafkaform/v1\nkind: Access\nmetadata:\n  name: app-{number}\n"
            f"spec:\n  principals: ['{name_principal(number)}']\n"
            f"  produces: [{', '.join(produces)}]\n"
            f"  consumes:\n    - group: {scene.PREFIX}group-{number}\n      topics: [{', '.join(consumes)}]\n"
            f"  transactional: [{{prefix: {scene.PREFIX}app-{number}-}}]\n"
        )


def measure(address: str, folder: Path, acls: int, rounds: int) -> dict[str, Figures]:
    """Measure the medians of each command and of the raw call."""

    def run(name: str, *arguments: str, expect: int = 0) -> Figures:
        return measure_process([*KAFKAFORM, name, "--bootstrap-server", address, *arguments], expect)

    def plan(manifests: str, expect: int = 0) -> Figures:
        shown = ("--format", "json", "--detailed-exitcode", "--no-strict")
        return run("plan", str(folder / manifests), *shown, expect=expect)

    topic = f"{scene.PREFIX}00000"
    return compare_medians(
        {
            "plan": lambda _: plan("all"),
            "plan of a change": lambda _: plan("changed", 2),
            "plan of a tenth": lambda _: plan("tenth"),
            "validate": lambda _: measure_process([*KAFKAFORM, "validate", str(folder / "all")]),
            "can": lambda _: run("can", name_principal(0), "write", topic),
            "can anyone": lambda _: run("can", "anyone", "read", topic),
            "import": lambda n: run("import", "--kind", "access", "--out", str(folder / f"import-{n}")),
            "raw call": lambda _: measure_process([*RAW, CALLS, address, str(acls)]),
        },
        rounds,
    )


if __name__ == "__main__":
    sys.exit(main())
