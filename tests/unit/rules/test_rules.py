"""The catalogue of rules, how severities are chosen, and rules on manifests and measurements as they are."""

import re
from pathlib import Path
from typing import Any

import pytest

import kafkaform
from kafkaform import rules
from kafkaform.config.manifests.loader import Context, load, load_all
from kafkaform.config.settings import read_settings
from kafkaform.core.acls import Acl, ResourceType
from kafkaform.core.authorizer import AccessReading, AuthorizerSettings
from kafkaform.core.model import Desired, Diagnostic, Facts, Location, ResourceRef, Severity
from kafkaform.core.values import replace
from kafkaform.resources.access.risk import AccessFacts
from kafkaform.rules import RuleContext, Stage, check
from kafkaform.rules.catalogue import Finding, rule
from kafkaform.rules.health import CRITICAL
from spark_validation.results import Estimate, NewestPart
from tests.support.cli.project import ROOT, manifest
from tests.support.plans.rules import check_rule, scene, select_rule
from tests.support.plans.scenes import declare_topic
from tests.support.skew.scenes import FINE, SURE, build_result, declare_policy
from tests.support.skew.scenes import scene as measured_scene
from tests.unit.rules.rows.groups import members, slow
from tests.unit.rules.rows.topics import build_partitions

PLACE = Location("topics/a.yaml", 3)


def check_topic(desired: Desired, severities: dict[str, str]) -> list[Diagnostic]:
    return list(rules.check(rules.RuleContext((desired,)), severities))


def test_configured_severities_apply_to_rules() -> None:
    both = replace(declare_topic("a b", 3, 3, min_insync_replicas="3"), location=PLACE)
    severities = {"KF101": "info", "KF109": "error"}
    assert [(f.code, f.severity, f.location) for f in check_topic(both, severities)] == [
        ("KF101", Severity.INFO, PLACE),
        ("KF109", Severity.ERROR, PLACE),
    ]
    assert [f.code for f in check_topic(both, {"KF101": "off"})] == ["KF109"]
    assert check_topic(both, {"KF101": "off", "KF109": "off"}) == []


@pytest.mark.parametrize("code", sorted(rules.list_entries()))
def test_every_code_is_explained(code: str) -> None:
    entry = rules.list_entries()[code]
    assert entry.code == code
    first, empty, *remaining = entry.explanation.split("\n")
    assert entry.summary == first
    assert first.endswith(".")
    assert not re.search(r"[.!?] ", first)
    assert empty == ""
    assert len(" ".join(remaining)) > 60


def test_every_code_is_unique_and_used() -> None:
    assert not rules.RULES.keys() & rules.NOTES.keys()
    for code in rules.RULES:
        with pytest.raises(ValueError, match=f"{code} is already used"):
            rule(code, Severity.INFO)(lambda _: list[Finding]())
    texts = [path.read_text("utf-8") for path in Path(kafkaform.__file__).parent.rglob("*.py")]
    used = {code for text in texts for code in re.findall(r'"(KF\d{3})"', text)}
    assert used == rules.list_entries().keys()
    assert used >= {code for text in texts for code in re.findall(r"\bKF[0-9]{3}\b", text)}


def test_critical_rules_are_errors() -> None:
    assert {rules.RULES[code].severity for code in CRITICAL} == {Severity.ERROR}


def test_what_brokers_refuse_and_most_findings_about_health_cannot_be_waived() -> None:
    unwaivable = {code for code, rule in rules.RULES.items() if not rule.waivable}
    of_health = {code for code, rule in rules.RULES.items() if rule.stage is Stage.HEALTH}
    assert of_health - unwaivable == {"KF306", "KF307", "KF314", "KF315"}
    assert unwaivable - of_health == {"KF101", "KF120", "KF211", "KF215", "KF409", "KF611"}


@pytest.mark.parametrize("partitions", [5, 7, 9, 12, 17, 60])
def test_suggested_numbers_of_members_divide_the_partitions(partitions: int) -> None:
    for number in range(2, partitions):
        for finding in check_rule("KF202", scene(declare_topic("orders", partitions), members(number))):
            suggested = str(finding.suggestion).partition(" members,")[0]
            for better in map(int, re.findall(r"\d+", suggested)):
                assert partitions % better == 0 or better == number


@pytest.mark.parametrize("each", [600, 601, 7_001, 299_999])
def test_suggested_batch_is_the_largest_that_fits(each: int) -> None:
    (finding,) = check_rule("KF203", slow(each))
    (fitting,) = map(int, re.findall(r"max\.poll\.records: (\d+)", str(finding.suggestion)))
    assert not check_rule("KF203", slow(each, client={"max.poll.records": str(fitting)}))
    assert check_rule("KF203", slow(each, client={"max.poll.records": str(fitting + 1)}))


@pytest.mark.parametrize("environment", ["dev", "prod"])
def test_example_manifests_have_no_findings(environment: str) -> None:
    settings = read_settings(ROOT / "kafkaform.yaml")
    (desired,) = load_all(settings.manifests, [settings.build_context(environment)])
    for brokers in (None, 1 if environment == "dev" else 3):
        scene = RuleContext(tuple(desired), environment=environment, brokers=brokers)
        assert [item for item in rules.check(scene, select_rule("KF1")) if item.waived is None] == []


NEAREST = ((5, 6), (7, 8), (9, 12), (14, 12), (25, 24), (50, 48), (100, 120), (200, 180), (359, 360))


@pytest.mark.parametrize(
    ("partitions", "brokers", "live", "better"),
    [
        *((count, None, None, better) for count, better in NEAREST),
        # It spreads over the brokers.
        *((7, 3, None, 6), (15, 4, None, 12), (10, 5, None, None), (25, 5, None, 30), (10, 0, None, 12)),
        # No partition of a live topic can be taken away.
        *((25, None, 25, 30), (25, None, 12, 24), (50, None, 50, 60), (10, None, 12, 12)),
    ],
)
def test_suggested_partition_count(
    partitions: int, brokers: int | None, live: int | None, better: int | None
) -> None:
    context = replace(build_partitions(partitions, brokers, live), facts=Facts("c"))
    found = [str(finding.suggestion) for finding in check_rule("KF104", context)]
    counts = [int(re.findall(r"partitions: (\d+)", suggestion)[0]) for suggestion in found]
    assert counts == ([] if better is None else [better])


@pytest.mark.parametrize(
    ("of", "ratio", "newest", "severity"),
    [
        ("period", FINE, SURE, "warning"),
        ("now", FINE, SURE, "error"),
        ("period", SURE, FINE, "error"),
        ("now", SURE, FINE, "warning"),
        ("now", FINE, FINE, None),
    ],
)
def test_policy_judges_its_period(of: str, ratio: Estimate, newest: Estimate, severity: str | None) -> None:
    share = Estimate.exact(1 / 3)
    part = NewestPart(0, 1, (share,) * 3, (share,) * 3, newest, newest)
    result = replace(build_result(ratio=ratio), now=part)
    policy = declare_policy(maxPartitionRatio=2.0, of=of)
    findings = list(rules.check(measured_scene(policy, result), {}, (Stage.SKEW,)))
    severities = {finding.severity.value for finding in findings}
    assert max(severities, key=["warning", "error"].index, default=None) == severity
    assert not severities or "warning" in severities, "the two disagree"
    second = "period" if of == "now" else "now"
    doubts = [finding.suggestion for finding in findings if finding.severity is Severity.WARNING]
    assert all(f"write `skew: {{of: {second}}}` " in str(hint) for hint in doubts)


def diagnose(
    folder: Path,
    *manifests: tuple[str, str, dict[str, Any]],
    live: tuple[str, ...] = (),
    facts: Facts | None = None,
    is_offline: bool = False,
) -> list[Diagnostic]:
    """The findings of the rules of access; all manifests are of one team."""
    team = {"labels": {"team": "shop"}}
    texts = [manifest(name, spec, team, kind=kind) for name, kind, spec in manifests]
    (folder / "all.yaml").write_text("---\n".join(texts))
    inventory = frozenset(ResourceRef("Topic", name) for name in live)
    given = None if is_offline else facts or Facts("x")
    context = RuleContext(tuple(load([folder], Context())), given, inventory)
    findings = check(context, {}, (Stage.MANIFESTS,) if is_offline else (Stage.MANIFESTS, Stage.LIVE))
    return [each for each in findings if each.code.startswith("KF6")]


def find(folder: Path, *manifests: tuple[str, str, dict[str, Any]], **scene: Any) -> set[tuple[str, str]]:
    return {(each.code, str(each.ref)) for each in diagnose(folder, *manifests, **scene)}


def access(principal: str = "User:a", name: str = "access", **spec: Any) -> tuple[str, str, dict[str, Any]]:
    return (name, "Access", {"principals": [principal], **spec})


def consume(group: object, *topics: object, principal: str = "User:a") -> tuple[str, str, dict[str, Any]]:
    return access(principal, consumes=[{"group": group, "topics": [*topics]}])


ORDERS = {"resource": "topic", "name": "orders"}
READ = {"resource": "topic", "operations": ["Read"]}
READ_ALL = {**READ, "name": "*"}
GROUP, USER = {"resource": "group", "name": "g"}, {"resource": "user", "name": "u"}
DENIED = {"resource": "topic", "prefix": "g", "operations": ["All"], "permission": "deny"}
BILLING = ("billing", "ConsumerGroup", {"topics": ["orders"]})


@pytest.mark.parametrize(
    ("declared", "live", "expected"),
    [
        ([access("User:*", acls=[{**ORDERS, "operations": ["Describe"]}])], ("orders",), set()),
        ([access(produces=[{"prefix": "orders"}])], ("orders.v1", "orders-internal"), {"KF602"}),
        ([access(produces=[{"prefix": "orders"}])], ("orders", "orders.v1"), set()),
        ([access(produces=["misspelt"])], ("orders",), {"KF604"}),
        ([access(connect={"groupId": "sinks"})], ("orders",), set()),
        ([access(produces=["*", {"prefix": "x."}])], ("orders",), {"KF605"}),
        ([access(produces=["orders"], acls=[{**READ, "name": "orders"}])], ("orders",), set()),
        ([BILLING, consume("billing", "orders", "x")], ("orders", "x"), {"KF606"}),
        ([BILLING, access(consumes=[{"group": "billing"}], acls=[READ_ALL])], ("orders",), {"KF605"}),
        ([BILLING, consume({"prefix": "bill."}, "x")], ("x",), set()),
        ([access(produces=["gone"]), access("User:*", "all", acls=[DENIED])], ("gone",), {"KF609"}),
        ([access(acls=[{**DENIED, "operations": ["Read"]}], produces=["gone"])], ("gone",), set()),
        ([access(produces=[{"prefix": "orders_"}])], ("orders_v1", "invoices.v1"), set()),
        ([access(acls=[{**USER, "operations": ["Read", "All"]}])], (), {"KF605", "KF612"}),
        ([access(acls=[{**GROUP, "operations": ["Delete", "All"]}])], (), {"KF605"}),
        ([access(acls=[{**DENIED, "hosts": ["10.0.0.1", "fe80:0:0:0:0:0:0:1%2"]}])], (), set()),
        ([access(acls=[{**DENIED, "hosts": ["kafka.example.com", "fe80::1"]}])], (), {"KF613"}),
    ],
)
def test_access_rules_have_expected_findings(
    tmp_path: Path, declared: list[Any], live: tuple[str, ...], expected: set[str]
) -> None:
    found = find(tmp_path, *declared, live=live)
    assert {code for code, _ in found} == expected
    assert all(ref.startswith("Access/User:") for _, ref in found)


@pytest.mark.parametrize(
    ("spec", "is_found"),
    [
        ({"produces": ["ordres.v1"]}, True),
        ({"consumes": [{"group": "billing", "topics": ["orders.v1", "ordres.v1"]}]}, True),
        ({"acls": [{**READ, "name": "ordres.v1", "operations": ["Read", "Write"]}]}, True),
        ({"produces": ["of-another-repository"]}, False),
        ({"produces": [{"prefix": "ordres.v1"}, "*"]}, False),
        ({"acls": [{**READ, "name": "ordres.v1", "operations": ["Read", "Create"]}]}, False),
        ({"consumes": [{"group": "misspelt"}]}, False),  # KF210 reports it at the group
    ],
)
def test_misspelt_topic_is_found_offline(tmp_path: Path, spec: dict[str, Any], is_found: bool) -> None:
    declared = [
        access(**spec),
        ("orders.v1", "Topic", {"partitions": 1, "replicationFactor": 1}),
        ("billing", "ConsumerGroup", {"topics": ["orders.v1"]}),
        ("misspelt", "ConsumerGroup", {"topics": ["orders.v11"]}),
    ]
    found = [each for each in diagnose(tmp_path, *declared, is_offline=True) if each.code == "KF604"]
    assert [each.suggestion for each in found] == ["did you mean 'orders.v1'?"] * is_found


def test_acls_of_undeclared_principals_on_absent_topic_are_reported(tmp_path: Path) -> None:
    acls = [Acl(ResourceType.TOPIC, "gone", False, f"User:{name}", "*", "Read", True) for name in "ab"]
    facts = Facts("x").add_part(AccessFacts(AccessReading(tuple(acls), AuthorizerSettings())))
    absent = ("gone", "Topic", {"state": "absent"})
    assert find(tmp_path, absent, facts=facts) == {("KF608", "Topic/gone")}
    assert find(tmp_path, absent, access(), access("User:b", "b"), facts=facts) == set()
