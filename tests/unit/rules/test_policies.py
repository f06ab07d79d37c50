"""Policies of kafkaform.yaml: whom they are about, what they ask, and what is wrong with them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kafkaform import rules
from kafkaform.config.manifests.loader import load
from kafkaform.config.settings import Settings, read_settings
from kafkaform.core.errors import InvalidInput
from kafkaform.core.model import Diagnostic, Facts, Severity
from kafkaform.rules import RuleContext
from tests.support.golden import wording

HEAD = "apiVersion: kafkaform/v1\nkind: Config\nenvironments: [dev, prod]\n"
TOPIC = """\
apiVersion: kafkaform/v1
kind: Topic
metadata:
  name: checkout.orders
  labels: {team: checkout, tier: critical}
spec:
  partitions: 6
  replicationFactor: 3
  retention: 60d
"""


@pytest.fixture(autouse=True)
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def settings(policies: str) -> Settings:
    Path("kafkaform.yaml").write_text(f"{HEAD}policies:\n{policies}")
    return read_settings(Path("kafkaform.yaml"))


def found(
    policies: str, manifest: str = TOPIC, *, environment: str | None = "prod", facts: Facts | None = None
) -> list[Diagnostic]:
    """What the policies alone say about a manifest."""
    read = settings(policies)
    Path("a.yaml").write_text(manifest)
    scene = RuleContext(
        tuple(load([Path("a.yaml")], read.build_context(environment))), facts, environment=environment
    )
    return [
        diagnostic
        for diagnostic in rules.check(scene, read.rules, more=read.policies)
        if diagnostic.code.startswith("policy/")
    ]


def messages(require: str, manifest: str = TOPIC, *, facts: Facts | None = None) -> list[str]:
    """What a policy that requires this says, without its own message."""
    policy = f"- {{name: p, message: No., require: {{{require}}}}}\n"
    return [finding.message.removeprefix("No: ") for finding in found(policy, manifest, facts=facts)]


def fields(fields: str, manifest: str = TOPIC, *, facts: Facts | None = None) -> list[str]:
    return messages(f"fields: {{{fields}}}", manifest, facts=facts)


def changed(before: str, after: str) -> str:
    assert before in TOPIC
    return TOPIC.replace(before, after)


# --- what a policy is ------------------------------------------------------------------------------


def test_a_policy_is_a_rule_with_severities_and_waivers() -> None:
    # A policy is a rule with a code a message and a place.
    (finding,) = found(
        "- name: keep\n  message: Records are kept a month at most.\n  severity: warning\n"
        "  require: {fields: {config.retention.ms: {max: 30d}}}\n"
    )
    assert (finding.code, finding.severity, finding.message) == ("policy/keep", Severity.WARNING, wording)
    assert str(finding.location) == "a.yaml:9:3"
    # Severities of kafkaform yaml and waivers hold for policies.
    policy = "- {name: p, message: No, require: {labels: [owner]}}\n"
    assert [one.severity for one in found(policy)] == [Severity.ERROR]
    assert [one.severity for one in found(policy + "rules: {policy/p: info}\n")] == [Severity.INFO]
    assert found(policy + "rules: {policy/p: off}\n") == []
    manifest = TOPIC.replace("  labels", "  annotations: {kafkaform/waive.policy/p: it has none}\n  labels")
    (waived,) = found(policy, manifest)
    assert (waived.severity, waived.waived) == (Severity.INFO, "it has none")


def test_a_policy_explains_itself() -> None:
    (rule,) = settings(
        "- name: keep\n  message: |\n    Records are kept\n    a month at most.\n"
        "  match: {name: 'a.*', labels: {tier: critical}}\n  environments: [prod]\n"
        "  require:\n    name: '^x'\n    labels: [team]\n"
        "    fields: {config.retention.ms: {min: 1d, max: 30d}, partitions: {multipleOf: 3, oneOf: [3, 6]}}\n"
    ).policies
    assert (rule.summary, rule.severity) == (wording, Severity.ERROR)
    assert rule.explanation.splitlines()[2:] == wording


# --- whom it is about ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("about", "trips"),
    [
        ("match: {name: 'checkout.*'}", True),
        ("match: {name: 'Checkout.*'}", False),
        ("match: {name: 'payments.*'}", False),
        ("match: {labels: {tier: critical}}", True),
        ("match: {labels: {tier: critical, team: checkout}}", True),
        ("match: {labels: {tier: critical, team: payments}}", False),
        ("match: {labels: {owner: checkout}}", False),
        ("environments: [prod]", True),
        ("environments: [dev, prod]", True),
        ("environments: [dev]", False),
    ],
)
def test_a_policy_is_about_what_it_matches(about: str, trips: bool) -> None:
    policy = f"- {{name: p, message: No, {about}, require: {{labels: [owner]}}}}\n"
    assert bool(found(policy)) is trips


def test_a_policy_asks_the_labels_of_its_environment_and_no_tombstone() -> None:
    policy = "- {name: p, message: No, environments: [prod], require: {labels: [owner]}}\n"
    assert found(policy, environment=None) == []
    policy = "- {name: p, message: No, match: {labels: {tier: 010}}, require: {labels: [owner]}}\n"
    assert found(policy, changed("tier: critical", "tier: 010"))
    assert not found(policy, changed("tier: critical", "tier: 8"))
    tombstone = TOPIC.partition("spec:")[0] + "spec: {state: absent}\n"
    assert messages("labels: [owner], name: '^x', fields: {partitions: {min: 9}}", tombstone) == []
    # An override of the environment counts and is pointed to.
    manifest = TOPIC + "  overrides:\n    prod: {partitions: 2}\n"
    policy = "- {name: p, message: No, require: {fields: {partitions: {min: 3}}}}\n"
    assert found(policy, manifest, environment="dev") == []
    (finding,) = found(policy, manifest, environment="prod")
    assert str(finding.location) == "a.yaml:11:12"


def test_names_are_matched_with_labels_as_text_that_must_be_there() -> None:
    # Names are matched with the labels in the pattern.
    assert messages(r'name: "^{labels.team}\\."') == []
    assert messages(r'name: "^{labels.tier}\\."') == [wording]
    assert messages(r'name: "^[a-z]{8}\\."') == []
    assert messages("name: orders$") == []
    assert messages("name: ^orders") == [wording]
    assert messages('name: "^{labels.owner}"') == [wording]
    manifest = changed("team: checkout", "team: 'check.*'")
    assert messages(r'name: "^{labels.team}\\."', manifest) == [wording]
    assert messages("labels: [team, tier]") == []
    assert messages("labels: [team, owner]") == [wording]
    assert messages("labels: [team, tier]", changed("team: checkout", "team: ' '")) == [wording]
    assert messages("labels: [a, b]") == [wording]
    assert fields("labels.tier: {oneOf: [critical, standard]}") == []
    assert fields("labels.tier: {oneOf: [low, standard]}") == [wording]
    assert fields("labels.owner: {oneOf: [a]}") == [wording]


# --- fields ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bounds", "wanted"),
    [
        ("min: 6", None),
        ("max: 6", None),
        ("min: 7", "at least 7"),
        ("max: 5", "at most 5"),
        ("multipleOf: 3", None),
        ("multipleOf: 4", "a multiple of 4"),
        ("oneOf: [6, 12]", None),
        ("oneOf: [3, 12]", "one of 3 | 12"),
        ("min: 7, multipleOf: 4", "at least 7 and a multiple of 4"),
    ],
)
def test_bounds_of_a_count(bounds: str, wanted: str | None) -> None:
    expected = [f"partitions is 6; it must be {wanted}"] if wanted else []
    assert fields(f"partitions: {{{bounds}}}") == expected


def test_bounds_are_compared_as_kafka_compares_values() -> None:
    assert fields("config.retention.ms: {min: 60d, max: 5184000000}") == []
    assert fields("config.max.message.bytes: {max: 1MiB}") == [
        "max.message.bytes is 1048588 (Kafka's default); it must be at most 1 MiB"
    ]
    manifest = changed("retention: 60d", "retention: unlimited")
    assert fields("config.retention.ms: {min: 60d}", manifest) == []
    assert fields("config.retention.ms: {max: 60d}", manifest) == [wording]
    assert fields("config.retention.ms: {max: unlimited}", manifest) == []
    # Values are compared as kafka compares them.
    manifest = TOPIC + "  config: {cleanup.policy: [delete, compact], min.cleanable.dirty.ratio: 0.50}\n"
    assert fields("config.cleanup.policy: {oneOf: ['compact,delete']}", manifest) == []
    assert fields("config.cleanup.policy: {oneOf: [delete]}", manifest) == [wording]
    assert fields("config.min.cleanable.dirty.ratio: {oneOf: [0.5], max: .5}", manifest) == []
    assert fields("config.min.cleanable.dirty.ratio: {min: 0.51}", manifest) == [
        "min.cleanable.dirty.ratio is 0.5; it must be at least 0.51"
    ]


def test_what_a_manifest_does_not_say_is_the_default_if_it_is_known() -> None:
    # What a manifest does not say is the default of the cluster or of kafka.
    manifest = changed("  retention: 60d\n", "")
    assert fields("config.retention.ms: {max: 7d}", manifest) == []
    assert fields("config.retention.ms: {max: 6d}", manifest) == [wording]
    facts = Facts("c", config_defaults={"Topic": {"retention.ms": "86400000"}})
    assert fields("config.retention.ms: {max: 6d}", manifest, facts=facts) == []
    assert fields("config.retention.ms: {min: 6d}", manifest, facts=facts) == [wording]
    # What nobody says is not what is asked.
    assert fields("keyed: {oneOf: [true]}") == [wording]
    assert fields("keyed: {oneOf: [true]}", TOPIC + "  keyed: true\n") == []
    assert fields("keyed: {oneOf: [true]}", TOPIC + "  keyed: false\n") == [wording]
    assert fields("skew.maxKeyShare: {max: 0.2}", TOPIC + "  skew: {maxKeyShare: 0.3}\n") == [wording]
    assert fields("skew.maxKeyShare: {max: 0.2}") == [wording]


# --- groups ----------------------------------------------------------------------------------------

GROUP = """\
apiVersion: kafkaform/v1
kind: ConsumerGroup
metadata: {name: aggregator, labels: {team: checkout}}
spec:
  topics: [orders]
  members: {expected: 6, max: null}
  config: {consumer.session.timeout.ms: 50s}
  client: {max.poll.records: 200, partition.assignment.strategy: cooperative-sticky}
  processing: {maxTimePerRecord: 200ms}
  offsets: {initial: earliest}
"""


def of_group(fields: str, manifest: str = GROUP) -> list[str]:
    about = f"- {{name: p, kind: ConsumerGroup, message: No, require: {{fields: {{{fields}}}}}}}\n"
    return [one.message.removeprefix("No: ") for one in found(about, manifest)]


@pytest.mark.parametrize(
    "fields",
    [
        "members.expected: {min: 2, max: 6}",
        "members.expected: {max: 5}",
        "members.max: {max: 12}",
        "config.consumer.session.timeout.ms: {max: 1m}",
        "config.consumer.session.timeout.ms: {max: 45s}",
        "client.max.poll.records: {max: 200}",
        "client.max.poll.records: {max: 100}",
        "client.max.poll.interval.ms: {max: 1m}",
        "client.partition.assignment.strategy: {oneOf: [cooperative-sticky]}",
        "processing.maxTimePerRecord: {max: 1s}",
        "processing.maxTimePerRecord: {max: 100ms}",
        "protocol: {oneOf: [consumer]}",
        "labels.team: {oneOf: [checkout]}",
    ],
)
def test_fields_of_groups(fields: str) -> None:
    assert of_group(fields) == wording


def test_assignors_have_short_names_and_policies_of_topics_leave_groups() -> None:
    manifest = GROUP.replace(", partition.assignment.strategy: cooperative-sticky", "")
    (said,) = of_group("client.partition.assignment.strategy: {oneOf: [cooperative-sticky]}", manifest)
    assert said == wording
    assert messages("labels: [owner]", GROUP) == []


# --- each ACL, fields that select, and names that are exempt -----------------------------------------

ACCESS = """\
apiVersion: kafkaform/v1
kind: Access
metadata: {name: a}
spec:
  principals: [User:a]
  produces: [orders]
  acls:
    - {resource: cluster, operations: [Describe, Alter]}
    - {resource: cluster, operations: [All], permission: deny}
    - {resource: topic, name: "*", operations: [Read], hosts: ["*", 10.0.0.1]}
"""


def test_each_acl_is_checked_by_itself_as_the_page_says() -> None:
    page = Path(__file__).parents[3] / "docs" / "access.md"
    (policies,) = re.findall(r"```yaml\npolicies:\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    said = found(policies, ACCESS)
    assert [(finding.message, finding.location and finding.location.line) for finding in said] == wording
    by_admin = found(policies, ACCESS.replace("User:a]", "User:admin]"))
    assert [finding.code for finding in by_admin] == ["policy/no-access-to-everything-from-everywhere"]
    (rule, _) = settings(policies).policies
    assert rule.explanation == wording


def test_a_resource_is_checked_only_if_its_fields_are_those_of_match() -> None:
    narrow = "- {name: p, message: No., match: {fields: {partitions: {min: 7}}}, require: {labels: [x]}}\n"
    assert found(narrow) == []
    assert len(found(narrow, TOPIC.replace("partitions: 6", "partitions: 7"))) == 1
    assert found(narrow.replace("{min: 7}", "{noneOf: [6]}")) == []
    assert found("- {name: p, message: No., match: {except: ['checkout.*']}, require: {labels: [x]}}\n") == []


# --- policies that are wrong -----------------------------------------------------------------------


def policy(rest: str) -> str:
    return f"- {{name: p, message: No, {rest}}}\n"


def requiring(require: str) -> str:
    return policy(f"require: {{{require}}}")


def on_fields(fields: str) -> str:
    return requiring(f"fields: {{{fields}}}")


BAD = {
    "name": "- {name: A b, message: No, require: {labels: [a]}}\n",
    "two of a name": requiring("labels: [a]") * 2,
    "environment": policy("environments: [dev, prd], require: {labels: [a]}"),
    "kind": policy("kind: Topik, require: {labels: [a]}"),
    "severity": policy("severity: loud, require: {labels: [a]}"),
    "no message": "- {name: p, require: {labels: [a]}}\n",
    "asks nothing": requiring(""),
    "regular expression": requiring("name: '('"),
    "unknown placeholder": requiring("name: '^{team}'"),
    "unknown field": on_fields("partitons: {min: 3}"),
    "unknown config": on_fields("config.retention.mss: {min: 3}"),
    "unknown bound": on_fields("partitions: {mim: 3}"),
    "a field of another kind": on_fields("client.max.poll.records: {max: 1}"),
    "no bound": on_fields("partitions: {}"),
    "min above max": on_fields("config.retention.ms: {min: 8d, max: 7d}"),
    "not a number": on_fields("partitions: {min: many}"),
    "not a duration": on_fields("config.retention.ms: {max: 7x}"),
    "no such value": on_fields("config.cleanup.policy: {oneOf: [delet]}"),
    "a bound of a text": on_fields("config.cleanup.policy: {min: 1}"),
    "a multiple of nothing": on_fields("partitions: {multipleOf: 0}"),
    "a multiple of a fraction": on_fields("skew.maxKeyShare: {multipleOf: 2}"),
    "no such operation": policy("kind: Access, require: {fields: {acl.operation: {noneOf: [Alte]}}}"),
    "unknown field of match": policy("match: {fields: {partition: {min: 1}}}, require: {labels: [a]}"),
    "values outside of the bounds": on_fields("partitions: {min: 5, oneOf: [3, 4]}"),
}


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_what_is_wrong_is_told_with_its_place(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        settings(text)
    assert [*map(str, caught.value.problems)] == wording


def test_every_field_of_a_topic_can_be_asked_about() -> None:
    from kafkaform.rules.policy_fields import field_key

    for path in ("partitions", "replicationFactor", "keyed", "deletionProtection", "undeclared", "skew.by"):
        assert field_key("Topic", path) is not None, path
    for path in ("config.retention.ms", "config.confluent.tier.enable", "labels.x", "labels.a.b"):
        assert field_key("Topic", path) is not None, path
    for path in ("state", "overrides", "retention", "config", "labels.", "name", "config.nope", "skew"):
        assert field_key("Topic", path) is None, path
