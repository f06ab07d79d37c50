"""Access: what manifests mean as ACLs, what a plan makes of live ones, and what it holds back."""

from collections.abc import Iterable, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from kafkaform.config.manifests.loader import Context, load
from kafkaform.config.settings import Settings
from kafkaform.core.acl_fields import is_implied, parse_path, write_path, write_value
from kafkaform.core.acls import ALL, ALL_OPERATIONS, CLUSTER_NAME, OPERATIONS, Acl, ResourceType
from kafkaform.core.apply_result import RECORD_TOPIC
from kafkaform.core.authorizer import AccessReading, AccessRequest, Authorizer, AuthorizerSettings
from kafkaform.core.errors import InvalidInput
from kafkaform.core.model import (
    Desired,
    Facts,
    ManifestScope,
    Observed,
    ResourceRef,
    Risk,
    Status,
    Update,
    risk_of,
)
from kafkaform.core.operations import Phase
from kafkaform.core.plans import ChangeOrigin, Plan
from kafkaform.core.values import replace
from kafkaform.inspect.resource_status import Selection
from kafkaform.plan.planning import Request, build_plan, make_plan, plan_from
from kafkaform.report.plan import render_plan
from kafkaform.resources import KINDS
from kafkaform.resources.access import reach
from kafkaform.resources.access.operations import AlterAccess, GrantAccess, RemoveDenials, RevokeAccess
from kafkaform.resources.access.risk import AccessFacts
from kafkaform.resources.access.shorthand import list_rights
from kafkaform.resources.access.spec import find_obstacle, normalise, write_spec
from kafkaform.resources.base import UsageFacts
from kafkaform.resources.name_globs import NameGlobs
from kafkaform.rules import RuleContext
from kafkaform.vcs.branch import attribute_changes
from tests.support.builds import builds
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.scenes import create_topic

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
USER = "User:checkout"
CLOSED = AuthorizerSettings(frozenset(), False, "User:root")
OPEN = AuthorizerSettings(frozenset(), True, "User:root")


def manifest(name: str, kind: str = "Access", **spec: Any) -> dict[str, Any]:
    spec = {"principals": [USER], **spec} if kind == "Access" else spec
    return {"apiVersion": "kafkaform/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def right(resource: str, *operations: str, **more: object) -> dict[str, object]:
    """Return an entry of `acls`."""
    return {"resource": resource, "operations": [*operations], **more}


def load_manifests(folder: Path, *manifests: Mapping[str, Any]) -> list[Desired]:
    (folder / "all.yaml").write_text(yaml.safe_dump_all(manifests))
    return load([folder], Context())


def acl(text: str) -> Acl:
    """Parse `allow Read on topic x`, of USER, or `User:b allow Read on topic x`."""
    principal, _, path = text.partition(" ") if text.startswith("User:") else (USER, "", text)
    return parse_path(path, principal)


def build_cluster(acls: Iterable[Acl | str], settings: AuthorizerSettings = CLOSED) -> MemoryCluster:
    cluster = MemoryCluster()
    cluster.authorizer_settings = settings
    cluster._contents.acls |= {acl(each) if isinstance(each, str) else each for each in acls}
    return cluster


def plan(
    declared: Iterable[Desired],
    acls: Iterable[Acl | str],
    settings: AuthorizerSettings = CLOSED,
    *,
    part: bool = False,
    topics: Iterable[str] = (),
) -> Plan:
    cluster = build_cluster(acls, settings)
    for name in topics:
        create_topic(cluster, name)
    declared = [*declared]
    observation = cluster.observe([each.ref for each in declared], kinds=["Access", "Topic"])
    facts = cluster.facts().add_part(ManifestScope(part))
    for fact in observation.parts:
        facts = facts.add_part(fact)
    return plan_from(declared, observation, facts)


def list_fields(planned: Plan) -> dict[str, tuple[object, str]]:
    """The fields of the updates of a plan: the value after, and the hazard."""
    return {
        field.path: (field.after, field.assessment.hazard)
        for change in planned.changes
        if isinstance(change.change, Update)
        for field in change.change.fields
    }


ORDERS, SECRET = "allow Write on topic orders", "allow Read on topic secret"
PREFIX, OTHER = "allow Write on topic prefix orders.", "allow Read on topic x"
UNKNOWN = AuthorizerSettings(frozenset(), False, None)
PRODUCES: dict[str, Any] = {"produces": ["orders"]}
PRODUCES_PREFIX: dict[str, Any] = {"produces": [{"prefix": "orders."}]}
READS: dict[str, Any] = {"acls": [right("topic", "Read", "Describe", name="orders")]}
DENIED, ALTER = "deny Describe on topic orders", "allow Alter on cluster"
B, WIDER = "User:b", "User:b allow Read on topic prefix ord"
CLOSES = {PREFIX: "closes-access", OTHER: "opens-access"}
DENY = {"operations": ["All"], "permission": "deny"}


OWN_ACCOUNT = {
    f"allow {operation} on {resource}"
    for resource in ("cluster", "topic *", "group *")
    for operation in ("Describe", "DescribeConfigs")
}
TOPIC_RIGHTS = ("Create", "Delete", "Read", "Write")
WORKER_RIGHTS = ("Create", "DescribeConfigs", "Read", "Write")
WORKER_TOPICS = ("connect-configs", "own", "connect-status")


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (
            {
                "produces": ["orders", {"prefix": "checkout."}],
                "consumes": [{"group": "billing", "topics": ["orders", "*"]}],
                "transactional": [{"prefix": "checkout-"}],
                "acls": [right("cluster", "describe-configs", "all", permission="deny")],
            },
            {
                "allow Write on topic orders",
                "allow Write on topic prefix checkout.",
                "allow Read on group billing",
                "allow Read on topic orders",
                "allow Read on topic *",
                "allow Write on transactional-id prefix checkout-",
                "deny DescribeConfigs on cluster",
                "deny All on cluster",
            },
        ),
        (
            {"streams": {"applicationId": "enricher", "reads": ["orders"], "writes": [{"prefix": "out."}]}},
            {
                "allow Read on group enricher",
                "allow Read on topic orders",
                "allow Write on topic prefix out.",
                *(f"allow {operation} on topic prefix enricher-" for operation in TOPIC_RIGHTS),
                "allow Write on transactional-id prefix enricher-",
            },
        ),
        (
            {"connect": {"groupId": "sinks", "storage": {"offset": "own"}, "reads": ["a"], "writes": ["b"]}},
            {
                "allow Read on group sinks",
                *(f"allow {right} on topic {topic}" for topic in WORKER_TOPICS for right in WORKER_RIGHTS),
                "allow Read on group prefix connect-",
                "allow Write on transactional-id connect-cluster-sinks",
                "allow Write on transactional-id prefix sinks-",
                "allow Read on topic a",
                "allow Write on topic b",
            },
        ),
        (
            {"shareGroups": [{"group": "audit", "topics": ["orders"]}]},
            {"allow Read on group audit", "allow Read on topic orders"},
        ),
        ({"kafkaform": "plan"}, {*OWN_ACCOUNT, "allow Read on topic __kafkaform_audit"}),
    ],
)
def test_shorthand_becomes_exact_acls(tmp_path: Path, spec: dict[str, Any], expected: set[str]) -> None:
    (declared,) = load_manifests(tmp_path, manifest("a", **spec))
    assert {*(declared.state or ())} == expected


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"principals": ["checkout"]}, "is not a principal"),
        ({"consumes": [{"group": "nobody"}]}, "are not declared"),
        ({"streams": {"applicationId": "nobody"}}, "are not declared"),
        ({"kafkaform": "plan", "manages": ["*"]}, "without kafkaform: apply"),
        ({"acls": [right("topic", "Read")]}, "needs a name or a prefix"),
        ({"acls": [right("topic", "Produce", name="x")]}, "is not an operation"),
        ({"acls": [right("cluster", "Alter", name="x")]}, "has no name"),
        ({"acls": [right("topic", "Read", name="x", prefix="x")]}, "has a name and a prefix"),
        ({"produces": [{"prefix": ""}]}, "must not be empty"),
        ({"hosts": []}, "must not be empty"),
    ],
)
def test_invalid_spec_is_located(tmp_path: Path, spec: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as error:
        load_manifests(tmp_path, manifest("a", **spec))
    (problem,) = error.value.problems
    assert message in problem.message
    assert problem.location is not None
    assert problem.location.line > 1


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12)


# What brokers keep: tests/kafka/test_access.py asks one.
def draw_acls(names: st.SearchStrategy[str], allowed: st.SearchStrategy[bool]) -> st.SearchStrategy[Acl]:
    hosts = st.sampled_from(["*", "10.0.0.1", "::1", "", '""', "from"])

    def draw_of_type(type_: ResourceType) -> st.SearchStrategy[Acl]:
        name = st.just(CLUSTER_NAME) if type_ is ResourceType.CLUSTER else names
        operations = st.sampled_from([*ALL_OPERATIONS, *OPERATIONS[type_] * 3])
        return builds(Acl, st.just(type_), name, st.booleans(), st.just(USER), hosts, operations, allowed)

    return st.sampled_from(ResourceType).flatmap(draw_of_type)


ACLS = draw_acls(NAMES, st.booleans())


@given(ACLS)
def test_acl_path_is_parsed_back(given_acl: Acl) -> None:
    path = write_path(given_acl)
    assert parse_path(path, USER) == given_acl
    assert path.isprintable()


@pytest.mark.parametrize(
    "path", ["", "allow Read on topic", "allow Fly on topic x", "may Read on topic x", "partitions"]
)
def test_invalid_acl_paths_are_refused(path: str) -> None:
    with pytest.raises(ValueError, match="is not an ACL"):
        parse_path(path, USER)


@pytest.mark.parametrize(
    ("live", "spec"),
    [
        (
            ["Write on topic a", "Describe on topic a", "Create on topic a", "Write on topic prefix b."],
            {"produces": ["a", {"prefix": "b."}], "acls": [right("topic", "Create", name="a")]},
        ),
        (
            ["Read on topic a", "Read on topic prefix b.", "Read on group g", "Write on transactional-id t"],
            {"consumes": [{"group": "g", "topics": ["a", {"prefix": "b."}]}], "transactional": ["t"]},
        ),
        (
            ["Read on topic a", "Read on group g", "Read on group h"],
            {
                "acls": [
                    right("group", "Read", name="g"),
                    right("group", "Read", name="h"),
                    right("topic", "Read", name="a"),
                ]
            },
        ),
        (
            ["Write on topic a from ::1", "Alter on cluster from ::1"],
            {"hosts": ["::1"], "produces": ["a"], "acls": [right("cluster", "Alter")]},
        ),
        (
            ["Write on topic a from ::1", "Write on topic a from ::2", "Write on topic b"],
            {"produces": ["b"], "acls": [right("topic", "Write", name="a", hosts=["::1", "::2"])]},
        ),
    ],
)
def test_acls_are_written_as_exact_shorthand(live: list[str], spec: dict[str, Any]) -> None:
    assert write_spec(USER, [acl(f"allow {right}") for right in live]) == {"principals": [USER], **spec}


def fail(*problem: object, **_: object) -> None:
    raise AssertionError(problem)


@given(
    st.sets(draw_acls(st.sampled_from(["a", "ab", "*"]), st.sampled_from([True] * 5 + [False])), max_size=12)
)
def test_written_spec_has_equivalent_acls(given_acls: set[Acl]) -> None:
    spec = normalise(write_spec(USER, given_acls), fail)
    hosts: Any = spec.get("hosts", ["*"])
    written = {
        each for right, _ in list_rights(spec, lambda _: None, fail) for each in right.list_acls(USER, hosts)
    }
    assert written <= given_acls
    odd = {each for each in given_acls if find_obstacle(each)}
    assert all(is_implied(each, written) for each in given_acls - written - odd)
    state, live = ({write_path(each): "granted" for each in acls} for acls in (written, given_acls))
    left = KINDS["Access"].reconcile(state, Observed(ResourceRef("Access", USER), None, live), Facts("x"))
    assert left == dict.fromkeys(map(write_path, odd)), "nothing is planned after an import but what it named"


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ({"prefix": "topic_"}, "Write on topic prefix topic_test-"),
        ({"prefix": "topic_"}, "Write on topic topic_a"),
        ({"name": "*"}, "Write on topic topic_a"),
        ({"name": "a"}, "Write on topic a from 10.0.0.1"),
        ({"name": "a"}, 'Write on topic a from ""'),
        ({"name": "a", "operations": ["All"]}, "Write on topic a"),
        ({"name": "*"}, "Describe on topic a"),
        # What is denied, or needed by no request, is no right.
        ({"name": "*", "permission": "deny"}, "Write on topic a"),
        ({"prefix": "a", "operations": ["All"], "permission": "deny"}, "Write on topic a from 10.0.0.1"),
        ({"name": "*"}, "ClusterAction on topic a"),
    ],
)
def test_covered_acl_is_removed_without_consent(tmp_path: Path, wide: dict[str, Any], narrow: str) -> None:
    spec = {"resource": "topic", "operations": ["Write"], **wide}
    declared = load_manifests(tmp_path, manifest("a", acls=[spec]))
    live = [acl(path) for path in (f"allow {narrow}", *(declared[0].state or ()))]
    for settings in (CLOSED, AuthorizerSettings()):
        planned = plan(declared, live, settings=settings)
        assert list_fields(planned) == {f"allow {narrow}": (None, "")}
        assert planned.changes[0].status is Status.PLANNED


# A spec, the live ACLs, the settings, and the hazard of each field that changes.
FieldCase = tuple[dict[str, Any], list[str], AuthorizerSettings, dict[str, str]]
FIELDS: dict[str, FieldCase] = {
    "undeclared": (PRODUCES, [ORDERS, SECRET, f"{B} {OTHER}"], CLOSED, {SECRET: "access-removal"}),
    "declared and implied": (READS, ["allow Read on topic orders"], CLOSED, {}),
    "live and implied": (PRODUCES, [ORDERS, "allow Describe on topic orders"], CLOSED, {}),
    "denial that goes": (PRODUCES, [ORDERS, DENIED], CLOSED, {DENIED: ""}),
    "prefix, in part closed": (PRODUCES_PREFIX, [f"{B} allow Write on topic orders.v1", OTHER], OPEN, CLOSES),
    "prefix in a closed one": (PRODUCES_PREFIX, [WIDER, OTHER], OPEN, {**CLOSES, PREFIX: ""}),
    "last ACL": (PRODUCES, [ORDERS, SECRET], OPEN, {SECRET: "opens-access"}),
    "last but one": (PRODUCES, [ORDERS, SECRET, f"{B} {SECRET}"], OPEN, {SECRET: "access-removal"}),
    "unknown account, right on the cluster": (PRODUCES, [ORDERS, ALTER], UNKNOWN, {ALTER: "own-access"}),
    "unknown account, right on a topic": (PRODUCES, [ORDERS, OTHER], UNKNOWN, {OTHER: "access-removal"}),
}


@pytest.mark.parametrize("case", FIELDS.values(), ids=FIELDS)
def test_granted_and_removed_rights_have_hazards(tmp_path: Path, case: FieldCase) -> None:
    spec, live, settings, expected = case
    planned = plan(load_manifests(tmp_path, manifest("a", **spec)), live, settings)
    assert {path: hazard for path, (_, hazard) in list_fields(planned).items()} == expected
    needs_consent = {"access-removal", "closes-access", "opens-access"} & {*expected.values()}
    assert any(each.status is Status.NEEDS_CONSENT for each in planned.changes) is bool(needs_consent)


def test_partial_plan_removes_no_acls(tmp_path: Path) -> None:
    declared = load_manifests(tmp_path, manifest("a", **PRODUCES))
    assert not plan(declared, [ORDERS, SECRET], part=True).changes


def test_grants_precede_revocations_and_deletions_precede_removed_denials(tmp_path: Path) -> None:
    declared = load_manifests(tmp_path, manifest("a", produces=["new"]))
    live = ["allow Write on topic old", "deny Read on topic old"]
    (change,) = plan(declared, live).changes
    operations = KINDS["Access"].operations(change.change)
    granted, revoked, opened = operations
    assert isinstance(granted, GrantAccess)
    assert isinstance(revoked, RevokeAccess)
    assert isinstance(opened, RemoveDenials)
    phases = [granted.phase, revoked.phase, Phase.DELETE, opened.phase]
    assert phases == sorted(phases)
    assert (granted.created, granted.deleted) == ((acl("allow Write on topic new"),), ())
    assert (revoked.created, revoked.deleted) == ((), (acl(live[0]),))
    assert (opened.created, opened.deleted) == ((), (acl(live[1]),))


def test_joint_removal_of_acls_opens_resource(tmp_path: Path) -> None:
    first = manifest("a", **PRODUCES)
    planned = plan(load_manifests(tmp_path, first), [ORDERS, SECRET, "allow Write on topic secret"], OPEN)
    assert set(list_fields(planned).values()) == {(None, "opens-access")}
    # Spread over two principals, one of which is removed as a whole.
    second = manifest("b", principals=[B], state="absent")
    spread = [ORDERS, SECRET, f"{B} allow Write on topic secret"]
    planned = plan(load_manifests(tmp_path, first, second), spread, OPEN)
    assert [c.missing for c in planned.changes] == [("opens-access",), ("opens-access",)]
    # An ACL that replaces the last one keeps it closed.
    planned = plan(load_manifests(tmp_path, first), ["allow Read on topic orders"], OPEN)
    assert list_fields(planned)["allow Read on topic orders"][1] == "access-removal"


def test_right_kept_only_by_removed_acl_is_lost(tmp_path: Path) -> None:
    first, everyone = manifest("a", **PRODUCES), manifest("b", principals=["User:*"], state="absent")
    live = [ORDERS, OTHER, f"User:* {OTHER}"]
    settings = AuthorizerSettings(frozenset({"User:root"}), False, "User:root")
    planned = plan(load_manifests(tmp_path, first, everyone), live, settings)
    assert [change.missing for change in planned.changes] == [("access-removal",), ("access-removal",)]
    assert list_fields(plan(load_manifests(tmp_path, first), live)) == {OTHER: (None, "")}


def test_applying_account_must_keep_rights(tmp_path: Path) -> None:
    settings = AuthorizerSettings(frozenset(), False, USER)
    super_user = AuthorizerSettings(frozenset({USER}), False, USER)
    declared = load_manifests(tmp_path, manifest("a", **PRODUCES))
    everyone = manifest("a", principals=["User:*"], acls=[{"resource": "topic", "name": "*", **DENY}])
    live = [ORDERS, ALTER]
    for desired, acls, account, status in (
        (declared, live, settings, Status.REFUSED),
        (declared, live, super_user, Status.NEEDS_CONSENT),
        (declared, [*live, "User:* allow All on cluster"], settings, Status.PLANNED),  # it keeps the right
        (load_manifests(tmp_path, everyone), [OTHER], settings, Status.REFUSED),
    ):
        (change,) = plan(desired, acls, account).changes
        assert change.status is status


OWN = "User:own"


@pytest.mark.parametrize("allow_everyone", [True, None])
@pytest.mark.parametrize(
    ("spec", "status"),
    [
        ({"acls": [right("cluster", "DescribeConfigs")]}, Status.REFUSED),
        ({"produces": ["*"]}, Status.REFUSED),
        ({"produces": [{"prefix": "__kafka"}]}, Status.REFUSED),
        ({"produces": ["__kafkaform_audit"]}, Status.REFUSED),
        ({"consumes": [{"group": "__kafkaform_lock", "topics": ["orders"]}]}, Status.REFUSED),
        ({"produces": ["orders"]}, Status.NEEDS_CONSENT),
    ],
)
def test_first_acl_closing_resource_needed_by_apply_is_refused(
    tmp_path: Path, spec: dict[str, Any], status: Status, allow_everyone: bool | None
) -> None:
    declared = load_manifests(tmp_path, manifest("a", **spec))
    live = ("orders", RECORD_TOPIC)
    for principal in (OWN, None):
        settings = AuthorizerSettings(frozenset(), allow_everyone, principal)
        (change,) = plan(declared, [], settings, topics=live).changes
        assert change.status is status
    settings = AuthorizerSettings(frozenset({OWN}), allow_everyone, OWN)
    (change,) = plan(declared, [], settings, topics=live).changes
    assert change.missing == ("closes-access",), "a super user loses nothing"


_NEAR = builds(
    Acl,
    st.just(TOPIC),
    st.sampled_from([RECORD_TOPIC, "*", "__", "orders"]),
    st.booleans(),
    st.sampled_from([OWN, "User:*", USER, "User:b"]),
    st.sampled_from(["*", "*", "10.0.0.1"]),
    st.sampled_from([ALL, "Read", "Write", "Describe"]),
    st.sampled_from([True, True, True, False]),
)
_NEAR_SETS = st.frozensets(_NEAR, max_size=5)


@given(_NEAR_SETS, _NEAR_SETS, st.sampled_from([True, False, None]))
@example(
    frozenset({acl(f"{OWN} allow All on topic {RECORD_TOPIC}")}),
    frozenset(acl(f"{principal} allow All on topic {RECORD_TOPIC}") for principal in ("User:*", USER)),
    True,
)
def test_applying_account_keeps_rights_for_any_partial_apply(
    live: frozenset[Acl], wanted: frozenset[Acl], allow_everyone: bool | None
) -> None:
    """By changes that are refused for another reason, or wait for consent, others must not become harmful."""
    settings = AuthorizerSettings(frozenset(), allow_everyone, OWN)
    declared = [
        Desired(ResourceRef("Access", principal), {write_path(a): write_value(a) for a in acls} or None)
        for principal in {each.principal for each in live | wanted}
        for acls in [[each for each in wanted if each.principal == principal]]
    ]
    planned = plan(declared, live, settings).changes
    harmless = [each for each in planned if risk_of(each.change) is not Risk.IMPOSSIBLE]
    needed = [AccessRequest(OWN, operation, TOPIC, RECORD_TOPIC) for operation in ("Read", "Write")]
    for size in range(len(harmless) + 1):
        for part in combinations(harmless, size):
            operations = [each for change in part for each in KINDS["Access"].operations(change.change)]
            assert all(isinstance(each, AlterAccess) for each in operations)
            deleted = {each for made in operations for each in cast("AlterAccess", made).deleted}
            created = {each for made in operations for each in cast("AlterAccess", made).created}
            after = Authorizer(live - deleted | created, settings)
            for request in needed:
                for host in ("", "10.0.0.1"):
                    before = Authorizer(live, settings).decide(request, host).is_allowed
                    assert before is not True or after.decide(request, host).is_allowed is True


def show(planned: Plan, folder: Path | None = None) -> str:
    return render_plan(planned, width=80).plain.replace(str(folder), "TMP")


TOPICS = ("orders.v1", "orders.v2", "payments.v1", "refunds")


def test_plan_of_closed_resources_matches_golden(tmp_path: Path, golden: SnapshotAssertion) -> None:
    declared = load_manifests(
        tmp_path,
        manifest("ui", principals=["User:ui"], acls=[right("topic", "Read", name="*")]),
        manifest("checkout", produces=[{"prefix": "orders."}], consumes=[{"group": "audit"}]),
        manifest("audit", "ConsumerGroup", topics=["payments.v1"]),
        manifest("shipping", "ConsumerGroup", topics=["orders.v1", "orders.v2"]),
    )
    settings = AuthorizerSettings(frozenset({OWN}), True, OWN)
    shown = show(plan(declared, [], settings, topics=TOPICS), tmp_path)
    assert shown == golden(name="closed.txt")


def test_plan_of_stopping_groups_matches_golden(tmp_path: Path, golden: SnapshotAssertion) -> None:
    group = manifest("billing", "ConsumerGroup", topics=["orders.v1", "refunds"])
    live = [
        "allow Read on group billing",
        *(f"allow Read on topic {name}" for name in TOPICS),
        "User:next allow Read on group billing",
        "User:next allow Read on topic refunds",
    ]
    first = manifest("a", consumes=[{"group": "billing", "topics": ["payments.v1"]}])
    shown = show(plan(load_manifests(tmp_path, first, group), live, topics=TOPICS), tmp_path)
    assert shown == golden(name="groups.txt")


def test_plan_of_opened_resources_matches_golden(tmp_path: Path, golden: SnapshotAssertion) -> None:
    declared = load_manifests(tmp_path, manifest("a", produces=["x"], state="absent"))
    live = ["allow Read on topic prefix orders.", "User:b allow Read on topic orders.v2"]
    settings = AuthorizerSettings(frozenset(), None, "User:root")
    shown = show(plan(declared, live, settings, topics=TOPICS), tmp_path)
    assert shown == golden(name="opened.txt")


@given(_NEAR_SETS, _NEAR_SETS, st.sampled_from([True, False, None]))
def test_reach_counts_match_authorizer(
    live: frozenset[Acl], created: frozenset[Acl], allow_everyone: bool | None
) -> None:
    settings = AuthorizerSettings(frozenset({"User:b"}), allow_everyone, OWN)
    deleted = frozenset(sorted(live, key=str)[:2])

    def decide(acls: frozenset[Acl], *request: str) -> bool | None:
        principal, operation, name = request
        return Authorizer(acls, settings).decide(AccessRequest(principal, operation, TOPIC, name)).is_allowed

    names = sorted([RECORD_TOPIC, "__x", "orders", "other"])
    facts = AccessFacts(AccessReading(tuple(live), settings), created, deleted)
    shown = {
        (each.principal, operation): (each.before, each.after)
        for each in reach.compare(facts, UsageFacts(names))
        for operation in each.operations
    }
    changed = {each.principal for each in created | deleted}
    expected = {}
    for principal in (changed - {"User:b"}) | {"User:nobody"} if changed else ():
        for operation in ("Read", "Write", "Delete", "Alter", "AlterConfigs"):
            before, after = (
                sum(decide(acls, principal, operation, name) is not False for name in names)
                for acls in (live, (live - deleted) | created)
            )
            if before != after:
                expected["User:*" if principal == "User:nobody" else principal, operation] = before, after
    assert shown == expected


def test_pruning_takes_owned_principals_with_consent() -> None:
    names = ("User:app-old", "User:app-ignored", "User:other", "User:app-kept")
    cluster = build_cluster(f"{name} allow Read on topic x" for name in names)
    ignore, protected = NameGlobs((), ("*-ignored",)), ("*-kept",)

    def plan_prune(owns: NameGlobs, *, prune: bool = True) -> dict[str, tuple[Status, tuple[str, ...]]]:
        settings = Settings(owns=owns, ignore=ignore, protected=protected)
        planned = build_plan(Request([], prune=prune), cluster, settings, None)
        return {change.ref.name: (change.status, change.missing) for change in planned.changes}

    assert plan_prune(NameGlobs(("*",))) == {}, "a list of names is about topics"
    owned = NameGlobs((), ("User:app-*",))
    assert plan_prune(owned) == {"User:app-old": (Status.NEEDS_CONSENT, ("access-removal",))}
    assert plan_prune(owned, prune=False) == {}
    assert not Selection(ignore=ignore).takes(ResourceRef("Access", "User:app-ignored"))
    declared = [Desired(ResourceRef("Access", "User:app-ignored"), None)]
    planned = build_plan(Request(declared), cluster, Settings(ignore=ignore), None)
    assert [change.ref.name for change in planned.changes] == ["User:app-ignored"], "it is declared"
    assert [ref.name for ref in planned.unmanaged] == ["User:app-kept", "User:app-old", "User:other"]


def test_rights_lost_by_branch_are_attributed_to_branch(tmp_path: Path) -> None:
    first = manifest("a", principals=[USER, "User:next"], produces=["orders", "both", "removed"])
    second = manifest("b", produces=["both"])
    lost, stray = "allow Write on topic removed", "allow Read on topic stray"
    live = [lost, stray, "allow Write on topic orders", "allow Write on topic both"]
    live += [f"User:next {path}" for path in live]
    earlier = load_manifests(tmp_path, first, second)
    shorter = manifest("a", produces=["orders"])
    now = load_manifests(tmp_path, shorter, second)
    cluster = build_cluster(live)
    dropped = frozenset({ResourceRef("Access", "User:next")})
    result = make_plan(Request(now, dropped=dropped), cluster, Settings(), None)
    attributed = attribute_changes(result.plan, earlier, now, result.context)
    (change,), notes = attributed.changes, attributed.diagnostics
    # The other manifest still gives the right on `both`; that on `stray` was undeclared before.
    assert set(list_fields(attributed)) == {lost, stray}
    assert (change.origin, change.earlier) == (ChangeOrigin.MIXED, (stray,))
    (note,) = [note for note in notes if note.code == "KF424"]
    assert "with allow Write on topic both, allow Write on topic orders, allow Write on topic removed" in (
        note.message
    )
    assert "state: absent" in str(note.suggestion)
    attributed = attribute_changes(
        replace(result.plan, unmanaged=()), earlier, now, RuleContext((), invisible=dropped)
    )
    (note,) = [note for note in attributed.diagnostics if note.code == "KF424"]
    assert "this account cannot see" in note.message
