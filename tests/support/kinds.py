"""One case of each kind, and the journey that all of them take: a new kind adds a case to `KIND_CASES`.

The journey runs on the cluster in memory (tests/unit/resources) and on a real Kafka (tests/kafka), through
the command line: validate, plan, save, show, apply, history, revert, drift, adopt, import, compare, delete.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from kafkaform.cluster.protocol import Cluster
from kafkaform.core.acl_fields import parse_path
from kafkaform.core.model import ResourceRef
from kafkaform.core.operations import AlterConfigs, Operation
from kafkaform.resources.access.operations import GrantAccess
from kafkaform.resources.client_quota.operations import AlterQuota
from kafkaform.resources.subject.operations import AlterSubject
from kafkaform.resources.subject.schema import RegisteredSchema
from kafkaform.resources.topic.operations import CreateTopic
from kafkaform.resources.user.operations import SetCredentials
from tests.support.cli.project import Call, Project, manifest
from tests.support.clusters.fixtures import eventually
from tests.support.plans.scenes import QUIET

MANIFEST = "topics/case.yaml"
PREFIX = "{prefix}"
"""In the texts of a case: what the names of a test start with."""
DECLARED_PASSWORD, OTHER_PASSWORD = "declared-s3cr3t", "other-s3cr3t"
_SCRAM = "scram.SCRAM-SHA-512"
ENVIRONMENT = {
    "KAFKAFORM_AUDIT": "true",
    "KAFKAFORM_CLUSTER": "dev",
    "DECLARED_PASSWORD": DECLARED_PASSWORD,
    "OTHER_PASSWORD": OTHER_PASSWORD,
}


@dataclass(frozen=True, kw_only=True)
class KindCase:
    """A resource of a kind, and what is expected of it; `{prefix}` stands for that of a test's names.

    Attributes:
        word: The kind as `--kind` takes it.
        manifest_name: The name of its manifest, if it is another one.
        topics: Topics that must exist, as a manifest of this kind names them.
        edit: The spec after an edit.
        is_reversible: Whether `revert` undoes the edit; what brokers do not show cannot come back.
        by_hand: The operation of somebody who changes the resource without kafkaform.
        drifted: The field that differs then.
        adopted: The spec after `drift --adopt`; None where a manifest cannot say what is live.
        delete_hazard: The hazard of its deletion, which needs consent.
    """

    kind: str
    word: str
    name: str
    manifest_name: str | None = None
    topics: tuple[str, ...] = ()
    spec: Mapping[str, Any]
    create_hazards: frozenset[str] = frozenset()
    edit: Mapping[str, Any]
    edit_hazards: frozenset[str] = frozenset()
    is_reversible: bool = True
    by_hand: Callable[[ResourceRef], Operation]
    drifted: str
    adopted: Mapping[str, Any] | None
    absent: Mapping[str, Any] = field(default_factory=lambda: {"state": "absent"})
    delete_hazard: str
    service: str = "brokers"


def _quota(**limits: object) -> dict[str, Any]:
    return {"config": limits}


def _group(timeout: str) -> dict[str, Any]:
    config = {"consumer.session.timeout.ms": timeout}
    start = {"initial": "earliest"}
    return {"topics": ["{prefix}orders"], "protocol": "consumer", "offsets": start, "config": config}


def _topic(retention: str) -> dict[str, Any]:
    return {"partitions": 2, "replicationFactor": 1, "config": {"retention.ms": retention}}


def _user(iterations: int) -> dict[str, Any]:
    password = "${env:DECLARED_PASSWORD}"
    return {"scram": [{"mechanism": "SCRAM-SHA-512", "iterations": iterations, "password": password}]}


def _access(*topics: str, **more: object) -> dict[str, Any]:
    return {"principals": ["User:{prefix}app"], "produces": [PREFIX + topic for topic in topics], **more}


def _subject(*fields: str, compatibility: str = "BACKWARD") -> dict[str, Any]:
    schema = RegisteredSchema(_write_avro(*fields))
    return {"schema": schema.text, "compatibility": compatibility}


def _write_avro(*fields: str) -> str:
    listed = [{"name": name, "type": "long", "default": 0} for name in fields]
    return json.dumps({"type": "record", "name": "Order", "fields": listed}, separators=(",", ":"))


def _read(group: str) -> dict[str, Any]:
    return {"resource": "group", "name": group, "operations": ["Read"]}


_ACCESS = _access("orders", acls=[_read("old")])

KIND_CASES = (
    KindCase(
        kind="Topic",
        word="topic",
        name="{prefix}orders",
        spec=_topic("7d"),
        edit=_topic("1d"),
        edit_hazards=frozenset({"retention-cut"}),
        by_hand=lambda ref: AlterConfigs(ref, {"retention.ms": "864000000"}),
        drifted="config.retention.ms",
        adopted=_topic("10d"),
        delete_hazard="delete",
    ),
    KindCase(
        kind="ConsumerGroup",
        word="group",
        name="{prefix}billing",
        topics=("{prefix}orders",),
        spec=_group("50s"),
        edit=_group("46s"),
        edit_hazards=frozenset({"session-timeout-cut"}),
        by_hand=lambda ref: AlterConfigs(ref, {"consumer.session.timeout.ms": "55000"}),
        drifted="config.consumer.session.timeout.ms",
        adopted=_group("55s"),
        delete_hazard="delete",
    ),
    KindCase(
        kind="Access",
        word="access",
        name="User:{prefix}app",
        manifest_name="{prefix}app",
        spec=_ACCESS,
        edit=_access("orders"),
        edit_hazards=frozenset({"access-removal"}),
        by_hand=lambda ref: GrantAccess(ref, (parse_path("allow Read on group by-hand", ref.name),)),
        drifted="allow Read on group by-hand",
        adopted=_access("orders", acls=[_read("old"), _read("by-hand")]),
        absent={**_ACCESS, "state": "absent"},
        delete_hazard="access-removal",
    ),
    KindCase(
        kind="ClientQuota",
        word="quota",
        name="user={prefix}%3Calice%3E,client-id=<default>",
        spec=_quota(producer_byte_rate="10MiB", request_percentage="50%"),
        create_hazards=frozenset({"quota-cut"}),
        edit=_quota(producer_byte_rate="5MiB", request_percentage="50%"),
        edit_hazards=frozenset({"quota-cut"}),
        by_hand=lambda ref: AlterQuota(ref, {"producer_byte_rate": "20971520"}),
        drifted="config.producer_byte_rate",
        adopted=_quota(producer_byte_rate="20MiB", request_percentage="50%"),
        delete_hazard="delete",
    ),
    KindCase(
        kind="User",
        word="user",
        name="{prefix}checkout",
        spec=_user(8192),
        edit=_user(4096),
        is_reversible=False,
        by_hand=lambda ref: SetCredentials(ref, {_SCRAM: "iterations=8192,password=${env:OTHER_PASSWORD}"}),
        drifted=_SCRAM,
        adopted=None,
        delete_hazard="credential-removal",
    ),
    KindCase(
        kind="Subject",
        word="subject",
        name="{prefix}orders-value",
        spec=_subject("id"),
        edit=_subject("id", compatibility="NONE"),
        edit_hazards=frozenset({"compatibility-lowered"}),
        by_hand=lambda ref: AlterSubject(ref, RegisteredSchema(_write_avro("id", "total"))),
        drifted="schema",
        adopted=_subject("id", "total"),
        delete_hazard="delete",
        service="schema registry",
    ),
)


@dataclass(frozen=True)
class KindJourney:
    """The steps of a case on a cluster, in the order of `take`."""

    case: KindCase
    project: Project
    cluster: Cluster

    def take(self) -> None:
        for name in self.case.topics:
            topic = ResourceRef("Topic", self.fill(name))
            assert self.cluster.execute([CreateTopic(topic, 2, 1, {})]) == [None]
        self.create()
        self.edit_and_revert()
        self.drift_and_adopt()
        self.import_and_compare()
        self.delete()

    def create(self) -> None:
        """Validate, plan, save, show and apply the manifest, and apply the same plan once more."""
        self.declare(self.case.spec)
        self.run("validate").needs(0)
        self.run("plan", "--out", "plan.json").needs(0)
        for format_ in ("text", "markdown"):
            assert str(self.ref) in self.run("show", "plan.json", "--format", format_).needs(0).out
        change = self.plan_change("plan.json")
        assert (change["action"], list_hazards(change)) == ("create", self.case.create_hazards)
        assert "1 created. Verified" in self.run("apply", "plan.json", "--auto-approve").needs(0).out
        self.run("plan", "--detailed-exitcode").needs(0)
        assert "1 already done" in self.run("apply", "plan.json", "--auto-approve").needs(0).out

    def edit_and_revert(self) -> None:
        """Apply an edit with its consent, find it in the history, and undo it in the manifest."""
        self.declare(self.case.edit)
        change = self.plan_change()
        assert (change["action"], list_hazards(change)) == ("update", self.case.edit_hazards)
        if change["status"] == "needs_consent":
            self.run("apply", "--auto-approve").needs(1)
        assert "1 updated. Verified" in self.apply_with_consent(*self.case.edit_hazards).needs(0).out
        edit, creation = self.run("history", str(self.ref), "--format", "json").needs(0).json["changes"]
        assert (edit["action"], creation["action"]) == ("update", "create")
        assert str(self.ref) in self.run("history").needs(0).out
        self.run("revert", edit["id"]).needs(0 if self.case.is_reversible else 1)
        assert self.read_spec() == self.fill(self.case.spec if self.case.is_reversible else self.case.edit)
        self.declare(self.case.spec)
        self.apply_with_consent(*list_hazards(self.plan_change())).needs(0)

    def drift_and_adopt(self) -> None:
        """Find a change that was made by hand, and adopt it, or apply the manifest again."""
        self.run("drift").needs(0)
        assert self.cluster.execute([self.case.by_hand(self.ref)]) == [None]
        eventually(lambda: self.run("drift").code, lambda code: code == 2)
        (drifted,) = self.run("drift", "--format", "json").needs(2).json["resources"]
        assert (drifted["kind"], drifted["name"]) == (self.ref.kind, self.ref.name)
        assert [each["path"] for each in drifted["fields"]] == [self.case.drifted]
        for format_ in ("text", "markdown", "prometheus"):
            assert self.ref.name in self.run("drift", "--format", format_).needs(2).out
        adoption = self.run("drift", "--adopt")
        if self.case.adopted is None:
            assert self.read_spec() == self.fill(self.case.spec), adoption.both
        else:
            assert self.read_spec() == self.fill(self.case.adopted)
            self.run("drift").needs(0)

    def import_and_compare(self) -> None:
        """Write the manifest of what is live, whose plan is empty, and compare the cluster with itself."""
        (self.project.folder / MANIFEST).unlink()
        listed = ("--kind", self.case.word, "--match", f"*{self.project.prefix}*")
        self.run("import", *listed, "--out", "live").needs(0)
        self.run("plan", "live", "--detailed-exitcode").needs(0)
        shown = self.run("get", self.case.word, self.ref.name, "--format", "json").needs(0).json
        assert shown["kind"] == self.case.kind
        for command in ("get", "status --kind"):
            assert self.ref.name in self.run(*command.split(), self.case.word).needs(0).out
        self.run("compare", "dev", "same", "--kind", self.case.word).needs(0)

    def delete(self) -> None:
        self.declare(self.case.absent)
        change = self.plan_change()
        assert (change["action"], change["status"]) == ("delete", "needs_consent")
        self.run("apply", "--auto-approve").needs(1)
        assert "1 deleted. Verified" in self.apply_with_consent(self.case.delete_hazard).needs(0).out
        self.run("get", self.case.word, self.ref.name).needs(1)

    # --- what the steps use ------------------------------------------------------------------------

    @property
    def ref(self) -> ResourceRef:
        return ResourceRef(self.case.kind, self.fill(self.case.name))

    def fill(self, value: Any) -> Any:
        if isinstance(value, str):
            return value.replace(PREFIX, self.project.prefix)
        if isinstance(value, Mapping):
            return {key: self.fill(each) for key, each in value.items()}
        return [self.fill(each) for each in value] if isinstance(value, list) else value

    def declare(self, spec: Mapping[str, Any]) -> None:
        name = self.fill(self.case.manifest_name or self.case.name)
        self.project.write(MANIFEST, manifest(name, self.fill(spec), kind=self.case.kind))

    def read_spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = yaml.safe_load((self.project.folder / MANIFEST).read_text())["spec"]
        return spec

    def plan_change(self, file: str | None = None) -> dict[str, Any]:
        """Return the only change of a plan file, or of a new plan, as JSON has it."""
        call = self.run("show", file, "--format", "json") if file else self.run("plan", "--format", "json")
        (change,) = call.json["changes"]
        assert (change["kind"], change["name"]) == (self.ref.kind, self.ref.name)
        return dict(change)

    def apply_with_consent(self, *hazards: str) -> Call:
        allow = [f"--allow={self.ref}:{hazard}" for hazard in hazards]
        return self.run("apply", "--auto-approve", *allow)

    def run(self, *arguments: object) -> Call:
        """Call kafkaform; no output has a password."""
        call = self.project.run(*arguments, env=ENVIRONMENT)
        assert DECLARED_PASSWORD not in call.both
        assert OTHER_PASSWORD not in call.both
        return call


def list_hazards(change: Mapping[str, Any]) -> frozenset[str]:
    hazards = {change.get("hazard")} | {each.get("hazard") for each in change.get("fields", ())}
    return frozenset(hazard for hazard in hazards if hazard)


def prepare_project(project: Project, **cluster: Any) -> Project:
    """Write a configuration in which one cluster has two names, and return the project."""
    project.config(clusters={"dev": cluster, "same": cluster}, rules=QUIET)
    return project
