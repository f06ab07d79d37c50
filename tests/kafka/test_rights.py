"""Every right that docs/permissions.md lists is enough, is needed, and is named where it is missing."""

import json
import re
import shlex
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from kafkaform.devcluster.cluster import DevCluster
from tests.support.cli.project import ROOT, Call, Project, login_project, manifest
from tests.support.clusters.fixtures import MakeAccount
from tests.support.clusters.group_clients import produce

PAGE = (ROOT / "docs" / "permissions.md").read_text("utf-8")
CLUSTER = "CLUSTER:kafka-cluster"
LOCK, RECORD = "__kafkaform_lock", "__kafkaform_audit"


def read_grants(user: str, prefix: str) -> list[str]:
    """The grants of the lines of the page for an account, as the fixture `account` takes them."""
    grants = []
    for line in re.findall(rf"^kafka-acls .*User:{user} .*$", PAGE, re.MULTILINE):
        words = iter(shlex.split(line)[1:])
        operations, resources, prefixed = [], [], False
        for word in words:
            match word:
                case "--add":
                    pass
                case "--bootstrap-server" | "--allow-principal":
                    next(words)
                case "--operation":
                    operations.append(re.sub(r"(?<!^)(?=[A-Z])", "_", next(words)).upper())
                case "--resource-pattern-type":
                    prefixed = next(words) == "prefixed"
                case "--cluster":
                    resources.append(CLUSTER)
                case "--topic" | "--group":
                    resources.append(f"{word[2:].upper()}:{next(words)}")
                case _:
                    raise AssertionError(word)
        names = [name.replace("orders.", f"{prefix}*") if prefixed else name for name in resources]
        grants += [f"{name}:{operation}" for name in names for operation in operations]
    assert grants
    return grants


@dataclass
class Owned:
    """A project of an account under test, and one of an account with all rights.

    Attributes:
        owner: The project that logs in nowhere.
        account: Makes an account with some grants.
        prefix: What all names start with.
    """

    owner: Project
    account: MakeAccount
    prefix: str
    folder: Path

    def declare(self) -> None:
        """Write the manifests of what is live, and no others."""
        shutil.rmtree(self.folder / "topics", ignore_errors=True)
        self.owner.topic("live", partitions=1, retention="7d", keyed=False)
        config = {"consumer.session.timeout.ms": "50s"}
        self.owner.group("reader", topics=[f"{self.prefix}live"], config=config)

    def build_project(self, *grants: str) -> Project:
        """A project over the same manifests of an account that has these rights."""
        return login_project(self.folder, self.account(*grants), self.prefix, manifests=["topics"])

    def build_access_project(self, **spec: object) -> Project:
        """The same of an account that has what an Access manifest declares."""
        account = self.account()
        spec["principals"] = [account.principal]
        # Without that, the first ACL of a resource would be refused: it closes it for the one who applies.
        administrator = Project(self.folder / "access", self.owner.servers, self.prefix)
        administrator.config(
            clusters={
                "acl": {
                    "client": {"bootstrap.servers": self.owner.servers},
                    "authorizer": {"superUsers": ["User:ANONYMOUS"]},
                }
            },
            ignore=["*"],
        )
        administrator.write("access.yaml", manifest("own", spec, kind="Access"))
        administrator.run("apply", "access.yaml", "--auto-approve", "--allow", "destructive").needs(0)
        return login_project(self.folder, account, self.prefix, manifests=["topics"])


KEPT = {"KAFKAFORM_LOCK": "true", "KAFKAFORM_AUDIT": "true"}


@pytest.fixture
def owned(kafka_acl: DevCluster, prefix: str, tmp_path: Path, account: MakeAccount) -> Owned:
    made = Owned(Project(tmp_path, kafka_acl.bootstrap_servers, prefix), account, prefix, tmp_path)
    made.declare()
    made.owner.run("apply", "topics", "--auto-approve", env=KEPT).needs(0)
    return made


def plan(project: Project) -> Call:
    return project.run("plan", "--no-strict", "--verbose")


def history(project: Project) -> Call:
    return project.run("history", env=KEPT)


def apply(project: Project) -> Call:
    return project.run("apply", "--auto-approve", "--allow", "destructive", env=KEPT)


def create(project: Project) -> Call:
    project.topic("new")
    return apply(project)


def add_partitions(project: Project) -> Call:
    project.topic("live", partitions=2, retention="7d", keyed=False)
    return apply(project)


def change(project: Project) -> Call:
    project.topic("live", partitions=1, retention="8d", keyed=False)
    return apply(project)


def delete(project: Project) -> Call:
    project.topic("live", state="absent")
    return apply(project)


def change_group(project: Project) -> Call:
    project.group("reader", topics=[f"{project.prefix}live"], config={"consumer.session.timeout.ms": "55s"})
    return apply(project)


def commit(project: Project) -> Call:
    project.group("starter", topics=[f"{project.prefix}live"], offsets={"initial": "earliest"})
    return apply(project)


READING = {
    "TOPIC:*:DESCRIBE": (plan, "Describe on topic {prefix}live"),
    "TOPIC:*:DESCRIBE_CONFIGS": (plan, "DescribeConfigs on topic {prefix}live"),
    "GROUP:*:DESCRIBE": (plan, "Describe on group {prefix}reader"),
    "GROUP:*:DESCRIBE_CONFIGS": (plan, "DescribeConfigs on group {prefix}reader"),
    f"{CLUSTER}:DESCRIBE": (plan, "Describe on the cluster"),
    f"{CLUSTER}:DESCRIBE_CONFIGS": (plan, "DescribeConfigs on the cluster"),
    f"TOPIC:{RECORD}:READ": (history, f"Read on topic {RECORD}"),
}
APPLYING = {
    "TOPIC:{prefix}*:CREATE": (create, "Create on topic {prefix}new"),
    "TOPIC:{prefix}*:ALTER": (add_partitions, "Alter on topic {prefix}live"),
    "TOPIC:{prefix}*:ALTER_CONFIGS": (change, "AlterConfigs on topic {prefix}live"),
    "TOPIC:{prefix}*:DELETE": (delete, "Delete on topic {prefix}live"),
    "TOPIC:{prefix}*:READ": (commit, "Read on topic {prefix}live"),
    "GROUP:{prefix}*:READ": (commit, "Read on group {prefix}starter"),
    "GROUP:{prefix}*:ALTER_CONFIGS": (change_group, "AlterConfigs on group {prefix}reader"),
    f"TOPIC:{LOCK}:READ": (change, f"Read on topic {LOCK}"),
    f"GROUP:{LOCK}:READ": (change, f"Read on group {LOCK}"),
    f"TOPIC:{RECORD}:WRITE": (change, f"Write on topic {RECORD}"),
}


def parse_grant(line: str) -> str:
    """The right that a line of `kafka-acls` grants, in the words of a message."""
    words = shlex.split(line)
    resource = words.index("--cluster") if "--cluster" in words else words.index("--operation") + 2
    name = "the cluster" if words[resource] == "--cluster" else f"{words[resource][2:]} {words[resource + 1]}"
    return f"{words[words.index('--operation') + 1]} on {name}"


@pytest.mark.parametrize(("user", "rights"), [("kafkaform-plan", READING), ("kafkaform-apply", APPLYING)])
def test_missing_right_is_named(
    owned: Owned, user: str, rights: Mapping[str, tuple[Callable[[Project], Call], str]]
) -> None:
    grants = read_grants(user, owned.prefix)
    for right, (command, named) in rights.items():
        missing, named = right.format(prefix=owned.prefix), named.format(prefix=owned.prefix)
        assert missing in grants
        owned.declare()
        call = command(owned.build_project(*(grant for grant in grants if grant != missing)))
        text = call.words
        assert {named} == set(re.findall(r"it lacks (\w+ on (?:the cluster|\w+ [\w.]*\w))", text)), text
        assert "processor=" not in text
        assert "authorization failed" not in text
        if rights is APPLYING:
            call.needs(1)
            operation, resource = named.split(" on ")
            assert re.search(rf"kafka-acls .* --operation {operation} .*--{re.escape(resource)}\b", text)


QUOTA: dict[str, object] = {"config": {"producer_byte_rate": "10MiB"}}
USER: dict[str, object] = {"scram": [{"mechanism": "SCRAM-SHA-512", "password": "${env:CHECKOUT}"}]}
APPLY = ("apply", "--auto-approve", "--no-lock")
OF_CLUSTER: dict[str, tuple[str, dict[str, object], tuple[str, ...], tuple[str, ...], str]] = {
    "read quotas": ("ClientQuota", QUOTA, ("DESCRIBE",), ("plan",), "DescribeConfigs"),
    "set quotas": ("ClientQuota", QUOTA, ("DESCRIBE", "DESCRIBE_CONFIGS"), APPLY, "AlterConfigs"),
    "read users": ("User", USER, ("DESCRIBE_CONFIGS",), ("plan",), "Describe"),
    "set users": ("User", USER, ("DESCRIBE",), APPLY, "Alter"),
}
"""A kind, its spec, the rights that an account has on the cluster, a command, and the right that it lacks."""


@pytest.mark.parametrize(
    ("kind", "spec", "rights", "command", "missing"), OF_CLUSTER.values(), ids=OF_CLUSTER
)
def test_missing_right_on_the_cluster_is_named(
    account: MakeAccount,
    prefix: str,
    tmp_path: Path,
    kind: str,
    spec: dict[str, object],
    rights: tuple[str, ...],
    command: tuple[str, ...],
    missing: str,
) -> None:
    given = account(*(f"{CLUSTER}:{right}" for right in rights))
    project = login_project(tmp_path, given, prefix, manifests=["topics"])
    name = f"user={prefix}" if kind == "ClientQuota" else prefix
    project.write("topics/a.yaml", manifest(name, spec, kind=kind))
    call = project.run(*command, env={"CHECKOUT": "s3cr3t"}).needs(1)
    assert f"lacks {missing} on the cluster" in call.words
    assert f"--operation {missing} --cluster" in call.both


def test_quotas_are_changed_with_required_rights(account: MakeAccount, prefix: str, tmp_path: Path) -> None:
    given = account(*(f"{CLUSTER}:{right}" for right in ("DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS")))
    project = login_project(tmp_path, given, prefix, manifests=["topics"])
    for spec, done in ((QUOTA, "created"), ({"state": "absent"}, "deleted")):
        project.write("topics/a.yaml", manifest(f"user={prefix}", spec, kind="ClientQuota"))
        assert f"Apply: 1 {done}. Verified" in project.run("apply", "--auto-approve").needs(0).out


def test_planning_account_reads_everything_and_changes_nothing(owned: Owned) -> None:
    looking = owned.build_access_project(kafkaform="plan")
    owned.owner.topic("live", partitions=2, retention="8d", keyed=False)
    for arguments in (["plan"], ["drift"], ["status"], ["doctor"], ["history"]):
        call = looking.run(*arguments, env=KEPT)
        assert "Error: " not in call.err, arguments
        if arguments != ["history"]:  # which has what others were refused
            complaints = re.findall(r"it lacks (\w+) on ", call.both)
            assert {*complaints} <= {"Alter", "AlterConfigs"}, arguments
    validated = looking.run("plan", "--format", "json").json["diagnostics"]
    notes = [note for note in validated if note["code"] == "KF414"]
    assert len(notes) == 2
    assert all(note["suggestion"].startswith("an account that only plans does not need it") for note in notes)
    assert {parse_grant(note["suggestion"].partition(": ")[2].strip("`")) for note in notes} == {
        f"Alter on topic {owned.prefix}live",
        f"AlterConfigs on topic {owned.prefix}live",
    }
    assert looking.run("get", "topic", f"{owned.prefix}live").needs(0)
    before = owned.owner.live()
    for safeguards in (KEPT, None):
        assert "it lacks" in looking.run("apply", "--auto-approve", env=safeguards).needs(1).words
    assert owned.owner.live() == before


def test_applying_account_has_sufficient_rights(owned: Owned) -> None:
    applying = owned.build_access_project(kafkaform="apply", manages=[{"prefix": owned.prefix}])
    for command in (create, add_partitions, change_group, commit, delete):
        call = command(applying)
        assert "it lacks" not in call.both
        if command is not delete:
            call.needs(0)
    assert "live" not in owned.owner.live()
    call = applying.run("plan", "--format", "json")
    assert json.loads(call.out)["broker_validated"] is True


def test_right_to_read_producers_is_named(owned: Owned) -> None:
    old = f"{owned.prefix}live"
    owned.owner.topic("new", partitions=1, succeeds=old)
    produce(owned.owner.servers, old, {0: 1})
    grants = read_grants("kafkaform-plan", owned.prefix)
    assert f"it lacks Read on topic {old}" in owned.build_project(*grants).run("succession").words
    reading = owned.build_project(*grants, f"TOPIC:{owned.prefix}*:READ").run("succession")
    assert "it lacks" not in reading.words
    assert "only idempotent and transactional ones have one" in reading.words
