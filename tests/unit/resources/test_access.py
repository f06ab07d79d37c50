"""Access: what manifests mean as ACLs, what a plan makes of live ones, and what it holds back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kafkaform.config.manifests.loader import Context, load
from kafkaform.core.acl_fields import covers, parse_path, write_path
from kafkaform.core.acls import ALL, CLUSTER_NAME, OPERATIONS, Acl, ResourceType
from kafkaform.core.authorizer import AccessRequest, Authorizer, AuthorizerSettings
from kafkaform.core.errors import InvalidInput
from kafkaform.core.model import Desired, ManifestScope, ResourceRef, Status, Update
from kafkaform.core.plans import Plan
from kafkaform.plan.planning import plan_from
from kafkaform.resources import KINDS
from kafkaform.resources.access.operations import GrantAccess, RevokeAccess
from kafkaform.resources.access.risk import AccessFacts
from tests.support.memory_cluster.memory import MemoryCluster

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
USER = "User:checkout"
CLOSED = AuthorizerSettings(frozenset(), False, "User:root")
OPEN = AuthorizerSettings(frozenset(), True, "User:root")


def manifest(name: str, kind: str = "Access", **spec: Any) -> dict[str, Any]:
    spec = {"principals": [USER], **spec} if kind == "Access" else spec
    return {"apiVersion": "kafkaform/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def load_manifests(folder: Path, *manifests: Mapping[str, Any]) -> list[Desired]:
    (folder / "all.yaml").write_text(yaml.safe_dump_all(manifests))
    return load([folder], Context())


def paths(folder: Path, **spec: Any) -> set[str]:
    (declared,) = load_manifests(folder, manifest("a", **spec))
    return set(declared.state or ())


def acl(path: str, principal: str = USER) -> Acl:
    return parse_path(path, principal)


def plan(
    declared: Iterable[Desired],
    acls: Iterable[Acl],
    settings: AuthorizerSettings = CLOSED,
    *,
    part: bool = False,
) -> Plan:
    cluster = MemoryCluster()
    cluster.authorizer_settings = settings
    cluster._contents.acls |= {*acls}
    declared = [*declared]
    observation = cluster.observe([each.ref for each in declared], kinds=["Access"])
    facts = cluster.facts().having(ManifestScope(part))
    for fact in observation.parts:
        facts = facts.having(fact)
    return plan_from(declared, observation, facts)


def changes(planned: Plan) -> dict[str, tuple[object, str]]:
    """The fields of the updates of a plan: the value after, and the hazard."""
    return {
        field.path: (field.after, field.assessment.hazard)
        for change in planned.changes
        if isinstance(change.change, Update)
        for field in change.change.fields
    }


# --- manifests -------------------------------------------------------------------------------------


def test_rights_become_exact_acls(tmp_path: Path) -> None:
    assert paths(
        tmp_path,
        produces=["orders", {"prefix": "checkout."}],
        consumes=[{"group": "billing", "topics": ["orders", "*"]}],
        transactional=[{"prefix": "checkout-"}],
        acls=[{"resource": "cluster", "operations": ["describe-configs", "all"], "permission": "deny"}],
    ) == {
        "allow Write on topic orders",
        "allow Write on topic prefix checkout.",
        "allow Read on group billing",
        "allow Read on topic orders",
        "allow Read on topic *",
        "allow Write on transactional-id prefix checkout-",
        "deny DescribeConfigs on cluster",
        "deny All on cluster",
    }


def test_a_group_lends_its_topics_and_hosts_multiply(tmp_path: Path) -> None:
    group = manifest("billing", "ConsumerGroup", topics=["orders", "refunds"])
    declared = load_manifests(
        tmp_path, manifest("a", consumes=[{"group": "billing"}], hosts=["10.0.0.1"]), group
    )
    (access,) = [each for each in declared if each.ref.kind == "Access"]
    assert access.ref == ResourceRef("Access", USER)
    assert set(access.state or ()) == {
        f"allow Read on {resource} from 10.0.0.1"
        for resource in ("group billing", "topic orders", "topic refunds")
    }


def test_manifests_of_one_principal_are_one_resource(tmp_path: Path) -> None:
    first = manifest("a", principals=[USER, "User:next"], produces=["orders"])
    second = manifest("b", produces=["orders", "refunds"])
    absent = manifest("c", principals=["User:gone"], produces=["orders"], state="absent")
    declared = {each.ref.name: each for each in load_manifests(tmp_path, first, second, absent)}
    assert {name: None if each.state is None else set(each.state) for name, each in declared.items()} == {
        USER: {"allow Write on topic orders", "allow Write on topic refunds"},
        "User:next": {"allow Write on topic orders"},
        "User:gone": None,
    }
    places = [declared[USER].place(f"allow Write on topic {name}") for name in ("orders", "refunds")]
    assert places[0] != places[1], "each ACL is shown where it is declared"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"principals": ["checkout"]}, "is not a principal"),
        ({"consumes": [{"group": "nobody"}]}, "are not declared"),
        ({"acls": [{"resource": "topic", "operations": ["Read"]}]}, "needs a name or a prefix"),
        (
            {"acls": [{"resource": "topic", "name": "x", "operations": ["ClusterAction"]}]},
            "is not an operation",
        ),
        ({"acls": [{"resource": "cluster", "name": "x", "operations": ["Alter"]}]}, "has no name"),
        (
            {"acls": [{"resource": "topic", "name": "x", "prefix": "x", "operations": ["Read"]}]},
            "a name or a prefix",
        ),
        ({"produces": [{"prefix": ""}]}, "must not be empty"),
        ({"hosts": []}, "must not be empty"),
    ],
)
def test_specs_that_mean_nothing_are_problems_with_a_place(
    tmp_path: Path, spec: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInput) as error:
        load_manifests(tmp_path, manifest("a", **spec))
    (problem,) = error.value.problems
    assert message in problem.message
    assert problem.location is not None
    assert problem.location.line > 1


# --- paths -----------------------------------------------------------------------------------------

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12)
ACLS = st.sampled_from(ResourceType).flatmap(
    lambda resource_type: st.builds(
        Acl,
        st.just(resource_type),
        st.just(CLUSTER_NAME) if resource_type is ResourceType.CLUSTER else NAMES,
        st.just(False) if resource_type is ResourceType.CLUSTER else st.booleans(),
        st.just(USER),
        st.sampled_from(["*", "10.0.0.1", "::1"]),
        st.sampled_from([ALL, *OPERATIONS[resource_type]]),
        st.booleans(),
    )
)


@given(ACLS)
def test_paths_and_acls_map_one_to_one(given_acl: Acl) -> None:
    path = write_path(given_acl)
    assert parse_path(path, USER) == given_acl
    assert path.isprintable()


@pytest.mark.parametrize(
    "path", ["", "allow Read on topic", "allow Fly on topic x", "may Read on topic x", "partitions"]
)
def test_other_paths_are_no_acls(path: str) -> None:
    with pytest.raises(ValueError, match="is not an ACL"):
        parse_path(path, USER)


@given(st.lists(ACLS, max_size=4), ACLS, st.sampled_from(["a", "ab", "x", "*"]))
def test_what_another_acl_covers_changes_no_decision(others: list[Acl], extra: Acl, name: str) -> None:
    """Covered by one that allows: removing it changes nothing, whatever else there is."""
    broad = next((other for other in others if other.is_allowed and covers(other, extra)), None)
    if broad is None or broad == extra:
        return
    for operation in OPERATIONS[extra.resource_type]:
        request = AccessRequest(USER, operation, extra.resource_type, name)
        decisions = [
            Authorizer(acls, CLOSED).decide(request, "10.0.0.1").is_allowed
            for acls in ([*others, extra], [other for other in others if other != extra])
        ]
        assert decisions[0] == decisions[1]


# --- plans -----------------------------------------------------------------------------------------


def test_live_acls_that_nobody_declares_wait_for_consent(tmp_path: Path) -> None:
    declared = load_manifests(tmp_path, manifest("a", produces=["orders"]))
    live = [
        acl("allow Write on topic orders"),
        acl("allow Read on topic secret"),
        acl("allow Read on topic x", "User:b"),
    ]
    planned = plan(declared, live)
    assert changes(planned) == {"allow Read on topic secret": (None, "access-removal")}
    assert planned.changes[0].status is Status.NEEDS_CONSENT


def test_in_a_plan_of_a_part_nothing_is_removed(tmp_path: Path) -> None:
    declared = load_manifests(tmp_path, manifest("a", produces=["orders"]))
    live = [acl("allow Write on topic orders"), acl("allow Read on topic secret")]
    assert not plan(declared, live, part=True).changes


def test_what_another_acl_includes_is_neither_missing_nor_drift(tmp_path: Path) -> None:
    topic = {"resource": "topic", "name": "orders"}
    declared = load_manifests(tmp_path, manifest("a", acls=[{**topic, "operations": ["Read", "Describe"]}]))
    assert not plan(declared, [acl("allow Read on topic orders")]).changes
    declared = load_manifests(tmp_path, manifest("a", produces=["orders"]))
    assert not plan(
        declared, [acl("allow Write on topic orders"), acl("allow Describe on topic orders")]
    ).changes
    denied = plan(declared, [acl("allow Write on topic orders"), acl("deny Describe on topic orders")])
    assert changes(denied) == {"deny Describe on topic orders": (None, "")}, "to allow more needs no consent"


def test_grants_are_carried_out_before_revocations(tmp_path: Path) -> None:
    declared = load_manifests(tmp_path, manifest("a", produces=["new"]))
    live = [acl("allow Write on topic old"), acl("deny Read on topic old")]
    (change,) = plan(declared, live).changes
    granted, revoked = KINDS["Access"].operations(change.change)
    assert isinstance(granted, GrantAccess)
    assert isinstance(revoked, RevokeAccess)
    assert granted.phase < revoked.phase
    assert (granted.created, granted.deleted) == ((acl("allow Write on topic new"),), (live[1],))
    assert (revoked.created, revoked.deleted) == ((), (live[0],))


@pytest.mark.parametrize(
    ("settings", "hazards"),
    [
        (CLOSED, {""}),
        (OPEN, {"closes-access"}),
        (AuthorizerSettings(frozenset(), None, "User:root"), {"closes-access"}),
    ],
)
def test_the_first_acl_of_a_resource_that_everyone_may_use_needs_consent(
    tmp_path: Path, settings: AuthorizerSettings, hazards: set[str]
) -> None:
    declared = load_manifests(tmp_path, manifest("a", produces=["orders", "known"]))
    planned = plan(declared, [acl("allow Read on topic known")], settings)
    grants = {path: hazard for path, (after, hazard) in changes(planned).items() if after is not None}
    assert grants["allow Write on topic known"] == ""
    assert {grants["allow Write on topic orders"]} == hazards


def test_a_prefix_is_only_closed_already_if_an_acl_covers_all_of_it(tmp_path: Path) -> None:
    declared = load_manifests(tmp_path, manifest("a", produces=[{"prefix": "orders."}]))
    prefix = "allow Write on topic prefix orders."
    kept = "allow Write on topic orders.v1"
    assert (
        changes(plan(declared, [acl(kept, "User:b"), acl("allow Read on topic x")], OPEN))[prefix][1]
        == "closes-access"
    )
    wide = [acl("allow Read on topic prefix ord", "User:b"), acl("allow Read on topic x")]
    assert changes(plan(declared, wide, OPEN))[prefix][1] == ""


def test_the_removal_of_the_last_acl_opens_a_resource(tmp_path: Path) -> None:
    declared = load_manifests(tmp_path, manifest("a", produces=["orders"]))
    live = [acl("allow Write on topic orders"), acl("allow Read on topic secret")]
    assert changes(plan(declared, live, OPEN))["allow Read on topic secret"][1] == "opens-access"
    shared = [*live, acl("allow Read on topic secret", "User:b")]
    assert changes(plan(declared, shared, OPEN))["allow Read on topic secret"][1] == "access-removal"


def test_the_account_that_applies_loses_nothing(tmp_path: Path) -> None:
    settings = AuthorizerSettings(frozenset(), False, USER)
    declared = load_manifests(tmp_path, manifest("a", produces=["orders"]))
    live = [acl("allow Write on topic orders"), acl("allow Alter on cluster")]
    (change,) = plan(declared, live, settings).changes
    assert change.status is Status.REFUSED
    super_user = AuthorizerSettings(frozenset({USER}), False, USER)
    assert plan(declared, live, super_user).changes[0].status is Status.NEEDS_CONSENT
    twice = [*live, acl("allow All on cluster", "User:*")]
    assert plan(declared, twice, settings).changes[0].status is Status.PLANNED, "it keeps the right"
    denied = load_manifests(
        tmp_path,
        manifest(
            "a",
            principals=["User:*"],
            acls=[{"resource": "topic", "name": "*", "operations": ["All"], "permission": "deny"}],
        ),
    )
    (change,) = plan(denied, [acl("allow Read on topic x")], settings).changes
    assert change.status is Status.REFUSED


def test_without_a_known_principal_rights_on_the_cluster_stay(tmp_path: Path) -> None:
    unknown = AuthorizerSettings(frozenset(), False, None)
    declared = load_manifests(tmp_path, manifest("a", produces=["orders"]))
    for path, hazard in (
        ("allow Alter on cluster", "own-access"),
        ("allow Read on topic x", "access-removal"),
    ):
        assert (
            changes(plan(declared, [acl("allow Write on topic orders"), acl(path)], unknown))[path][1]
            == hazard
        )


def test_without_a_reading_settings_are_unknown() -> None:
    assert AccessFacts().reading.settings == AuthorizerSettings(None, None, None)


def test_a_consent_in_a_manifest_is_for_one_acl(tmp_path: Path) -> None:
    consented = manifest("a", produces=["orders"])
    annotation = "access-removal of allow Read on topic secret: the report was retired"
    consented["metadata"]["annotations"] = {"kafkaform/allow": annotation}
    declared = load_manifests(tmp_path, consented)
    kept = acl("allow Write on topic orders")
    for path, status in (
        ("allow Read on topic secret", Status.PLANNED),
        ("allow Read on topic other", Status.NEEDS_CONSENT),
    ):
        (change,) = plan(declared, [kept, acl(path)]).changes
        assert change.status is status
