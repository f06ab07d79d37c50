"""Quotas of clients: what manifests and names mean, and what a change of a limit does to clients."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from kafkaform.audit.trail import read_record
from kafkaform.config.manifest_text import build_live_manifest
from kafkaform.config.manifests.yaml12 import read_documents
from kafkaform.config.settings import AuditSettings
from kafkaform.core.errors import RequestRejected
from kafkaform.core.model import Create, Facts, Intent, Observed, ResourceRef, Risk, Status
from kafkaform.core.printable import is_plain, printable
from kafkaform.core.values import replace
from kafkaform.inspect.reversal import plan_reversal
from kafkaform.report.plan import render_plan
from kafkaform.resources import KINDS
from kafkaform.resources.base import UpdateContext
from kafkaform.resources.client_quota.entity import (
    CLIENT_ID,
    IP,
    USER,
    QuotaEntity,
    parse_entity,
    read_entity,
    write_entity,
)
from kafkaform.resources.client_quota.operations import AlterQuota
from tests.support.builds import builds
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.manifests import ManifestFile
from tests.support.plans.risk import join_reasons, judge_deletion, list_assessments, render_catalogue

KIND = KINDS["ClientQuota"]
ALICE = ResourceRef("ClientQuota", "user=alice")
PRODUCER = "config.producer_byte_rate"
TEXT = """\
apiVersion: kafkaform/v1
kind: ClientQuota
metadata:
  name: user=alice
  labels: {team: checkout}
spec:
  config:
    producer_byte_rate: 1000000
    consumer_byte_rate: 2000000
"""


@pytest.fixture
def file(tmp_path: Path, memory: MemoryCluster) -> ManifestFile:
    path = tmp_path / "alice.yaml"
    path.write_text(TEXT)
    return ManifestFile(path, memory)


@pytest.fixture
def applied(file: ManifestFile) -> ManifestFile:
    file.apply()
    return file


PROBLEMS = {
    "unknown field": ("config:", "confg:"),
    "unknown limit, like a known one": ("producer_byte_rate", "producer_byterate"),
    "unknown limit": ("producer_byte_rate", "bytes_out"),
    "negative": ("1000000", "-1"),
    "not a size": ("1000000", "fast"),
    "ambiguous unit": ("1000000", "10M"),
    "percentage of bytes": ("1000000", "50%"),
    "list": ("1000000", "[1, 2]"),
    "unknown entity": ("user=alice", "usr=alice"),
    "name of another entity": ("spec:", "spec:\n  entity: {user: bob}"),
    "name of a default": ("spec:", "spec:\n  entity: {user: {default: true}}"),
    "user and ip": ("spec:", "spec:\n  entity: {user: alice, ip: 10.0.0.1}"),
    "user is a number": ("spec:", "spec:\n  entity: {user: 7}"),
    "unknown part of an entity": ("spec:", "spec:\n  entity: {usr: alice}"),
    "limit of an ip": ("producer_byte_rate", "connection_creation_rate"),
    "limit of a user": ("user=alice\n", "ip=10.0.0.1\n"),
    "no limit": ("1000000\n    consumer_byte_rate: 2000000", "null"),
}


def test_manifest_problem_messages_match_golden(file: ManifestFile, golden: SnapshotAssertion) -> None:
    texts = {name: TEXT.replace(before, after) for name, (before, after) in PROBLEMS.items()}
    named = TEXT.replace("user=alice", "alice").replace("spec:", "spec:\n  entity: {user: alice}")
    texts["entity in another spelling"] = named
    catalogue = render_catalogue({name: file.describe_problems(text) for name, text in texts.items()})
    assert catalogue == golden(name="manifest_problems.txt")


RATE, NO_RATE = "    producer_byte_rate: 1000000\n", "    producer_byte_rate: null\n"
CUT, RAISED = (Risk.DISRUPTIVE, "quota-cut"), (Risk.SAFE, "")
ABSENT = ("spec:\n", "spec:\n  state: absent\n")
# A change of the manifest, its assessments, and whether a limit of 512 KiB/s of a default is in force, too.
CHANGES = {
    "lower limit": (RATE, "    producer_byte_rate: 512KiB\n", [CUT], False),
    "higher limit": (RATE, "    producer_byte_rate: 10MiB\n", [RAISED], False),
    "removed limit": (RATE, NO_RATE, [RAISED], False),
    "first share of a thread": (RATE, f"{RATE}    request_percentage: 150%\n", [CUT], False),
    "first mutation rate": (RATE, f"{RATE}    controller_mutation_rate: 10\n", [CUT], False),
    "deletion": (*ABSENT, [RAISED], False),
    "removed limit above a default": (RATE, NO_RATE, [CUT], True),
    "lower limit above a default": (RATE, "    producer_byte_rate: 600000\n", [CUT], True),
    "deletion above a default": (*ABSENT, [CUT], True),
}


@pytest.mark.parametrize(("before", "after", "expected", "has_default"), CHANGES.values(), ids=CHANGES)
def test_lower_limit_is_a_cut(
    memory: MemoryCluster,
    applied: ManifestFile,
    snapshot: SnapshotAssertion,
    before: str,
    after: str,
    expected: list[tuple[Risk, str]],
    has_default: bool,
) -> None:
    if has_default:
        default = ResourceRef("ClientQuota", "user=<default>")
        memory.execute([AlterQuota(default, {"producer_byte_rate": "524288"})])
    applied.edit(before, after)
    plan = applied.plan()
    assert list_assessments(plan) == expected
    assert plan.changes[0].status is Status.PLANNED
    assert join_reasons(plan) == snapshot


@pytest.mark.parametrize("name", ["user=<default>", "user=alice,client-id=<default>", "client-id=<default>"])
def test_default_quota_removal_needs_consent(file: ManifestFile, name: str) -> None:
    ref = ResourceRef("ClientQuota", name)
    file.edit("user=alice", name)
    file.apply()
    file.edit("producer_byte_rate: 1000000", "producer_byte_rate: null")
    plan = file.plan()
    assert (plan.changes[0].status, plan.changes[0].missing) == (Status.NEEDS_CONSENT, ("quota-removal",))
    assert "which protects the cluster" in render_plan(plan).plain
    file.consent("quota-removal from 1MB: TICKET-1")
    file.apply()
    file.edit("consumer_byte_rate: 2000000", "consumer_byte_rate: null\n    request_percentage: 1")
    assert file.plan().changes[0].status is Status.NEEDS_CONSENT
    file.edit("spec:\n", "spec:\n  state: absent\n")
    deletion = file.plan()
    assert (deletion.changes[0].status, deletion.changes[0].missing) == (Status.NEEDS_CONSENT, ("delete",))
    assert "loses the limits consumer_byte_rate" in join_reasons(deletion)
    file.apply(f"{ref}:delete")
    assert file.cluster.observe([ref]).resources == {}


def test_edited_quota_plan_is_judged(memory: MemoryCluster, file: ManifestFile) -> None:
    (planned,) = file.plan().changes
    assert isinstance(planned.change, Create)
    odd = replace(planned.change, ref=ResourceRef("ClientQuota", "alice"), state={"config.speed": "fast"})
    assert KIND.judge(odd, None, memory.facts()).risk is Risk.DISRUPTIVE
    (operation,) = KIND.operations(odd)
    (objection,) = memory.validate([operation])
    assert isinstance(objection, RequestRejected)
    assert objection.code == "INVALID_REQUEST"
    context = UpdateContext(ALICE, {PRODUCER: "1"}, {PRODUCER: "x"}, Intent(), memory.facts())
    assert KIND.field(PRODUCER).judge(context).hazard == "unknown-config"


LIMITS = st.none() | st.integers(0, 10**9)


@given(LIMITS, LIMITS, LIMITS, st.sampled_from(["user=alice", "user=<default>"]))
def test_quota_change_is_safe_unless_effective_limit_decreases(
    before: int | None, after: int | None, fallback: int | None, name: str
) -> None:
    own = {PRODUCER: str(before)} if before is not None else {}
    inherited = {"fallback.producer_byte_rate": str(fallback)} if fallback is not None else {}
    wanted = {**inherited, PRODUCER: None if after is None else str(after)}
    ref = ResourceRef("ClientQuota", name)
    context = UpdateContext(ref, {**inherited, **own}, wanted, Intent(), Facts("c"))
    assessment = KIND.field(PRODUCER).judge(context)
    in_force, then = (fallback if value is None else value for value in (before, after))
    if then is None:
        protects = name == "user=<default>" and in_force is not None
        assert assessment.risk is (Risk.DESTRUCTIVE if protects else Risk.SAFE)
    elif in_force is None or then < in_force:
        assert (assessment.risk, assessment.hazard) == CUT
        assert "is throttled above" in assessment.reason
    else:
        assert assessment.risk is Risk.SAFE


@pytest.mark.parametrize(
    ("limit", "odd"),
    [
        ("producer_byte_rate", "nan"),
        ("producer_byte_rate", "5e-324"),
        ("request_percentage", "nan"),
        ("request_percentage", "inf"),
    ],
)
def test_invalid_live_limit_is_judged_and_not_adopted(limit: str, odd: str) -> None:
    """Brokers keep NaN and infinity (4.3.1): as a limit of its own, and as that of a default."""
    path, fallback = f"config.{limit}", f"fallback.{limit}"
    for before, after in (
        ({path: odd}, {path: "5"}),
        ({path: "5", fallback: odd}, {path: None, fallback: odd}),
    ):
        context = UpdateContext(ALICE, before, after, Intent(), Facts("x"))
        assert KIND.field(path).judge(context).hazard == "unknown-config"
    deleted = Observed(ALICE, None, {path: "5"}, {path: "5", fallback: odd})
    assert judge_deletion(deleted, Facts("x")).hazard == "unknown-config"
    assert KIND.field(path).undeclarable(odd) is not None
    assert KIND.field(path).undeclarable("5") is None


NAMES = st.one_of(
    st.sampled_from(["alice", "default", "<default>", "%3Cdefault%3E", "a,b", "CN=a, OU=b", "ünï", " ", "%"]),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
)
PARTS = st.none() | NAMES
ENTITIES = st.one_of(
    builds(lambda user: ((USER, user),), PARTS),
    builds(lambda client: ((CLIENT_ID, client),), PARTS),
    builds(lambda user, client: ((USER, user), (CLIENT_ID, client)), PARTS, PARTS),
    builds(lambda ip: ((IP, ip),), PARTS),
).map(QuotaEntity)


@given(ENTITIES)
def test_entity_name_is_parsed_back(entity: QuotaEntity) -> None:
    assert parse_entity(entity.name) == entity
    assert read_entity(write_entity(entity)) == entity


@given(ENTITIES)
def test_entity_name_is_printable_and_valid_yaml(entity: QuotaEntity) -> None:
    assert printable(entity.name) == entity.name
    assert all(is_plain(char) and not char.isspace() for char in entity.name)
    problems: list[object] = []
    (document,) = read_documents(
        f"name: '{entity.name.replace(chr(39), chr(39) * 2)}'".encode(),
        "f",
        problems.append,
        verbatim=frozenset(),
    )
    assert problems == []
    assert document.data == {"name": entity.name}


@given(st.text() | builds(lambda entity, junk: entity.name + junk, ENTITIES, st.text(max_size=3)))
def test_text_is_canonical_entity_name_or_refused(text: str) -> None:
    try:
        entity = parse_entity(text)
    except ValueError:
        return
    assert entity.name == text


INVALID = (
    *("alice", "usr=alice", "", "user=", "user=a,user=b", "client-id=app,user=alice", "user=%61lice"),
    *("user=a%2cb", "user=<Default>", "user=50%", "user=%FF", "user=alice,ip=10.0.0.1"),
)


@pytest.mark.parametrize("name", INVALID)
def test_invalid_entity_names_suggest_valid_ones(name: str, snapshot: SnapshotAssertion) -> None:
    with pytest.raises(ValueError, match=r".") as refused:
        parse_entity(name)
    assert str(refused.value) == snapshot


BOTH, CLIENTS = "user=<default>,client-id=<default>", "client-id=<default>"


@pytest.mark.parametrize(
    ("name", "fallbacks"),
    [
        (
            "user=a,client-id=b",
            f"user=a,{CLIENTS} user=a user=<default>,client-id=b {BOTH} user=<default> client-id=b {CLIENTS}",
        ),
        ("user=a,client-id=<default>", f"user=a {BOTH} user=<default> client-id=<default>"),
        ("user=a", f"{BOTH} user=<default> client-id=<default>"),
        ("user=<default>,client-id=b", f"{BOTH} user=<default> client-id=b client-id=<default>"),
        (BOTH, "user=<default> client-id=<default>"),
        ("user=<default>", "client-id=<default>"),
        ("client-id=<default>", ""),
        ("ip=::1", "ip=<default>"),
    ],
)
def test_fallbacks_of_entity_follow_kafka_order(name: str, fallbacks: str) -> None:
    """The order of Kafka's documentation, of those that hold for all clients of an entity."""
    assert [entity.name for entity in parse_entity(name).fallbacks()] == fallbacks.split()


def test_deleted_quota_is_restored_by_new_manifest(memory: MemoryCluster, applied: ManifestFile) -> None:
    applied.edit("spec:\n", "spec:\n  state: absent\n")
    run = applied.apply()
    log = read_record(memory, AuditSettings())
    reversal = plan_reversal([entry for entry in log.entries if entry.run == run], log.entries, {})
    (restored,) = reversal.restored
    assert build_live_manifest(restored).data["spec"] == {
        "entity": {"user": "alice"},
        "config": {"consumer_byte_rate": "2MB", "producer_byte_rate": "1MB"},
    }
