"""Policies of kafkaform.yaml: whom they are about, what they ask, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkaform import rules
from kafkaform.config.manifests.loader import load
from kafkaform.config.settings import Settings, read_settings
from kafkaform.core.errors import InvalidInput
from kafkaform.core.model import Diagnostic, Facts, Severity
from kafkaform.rules import RuleContext

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
    policies: str,
    manifest: str = TOPIC,
    *,
    environment: str | None = "prod",
    facts: Facts | None = None,
) -> list[Diagnostic]:
    """What the policies alone say about a manifest."""
    read = settings(policies)
    Path("a.yaml").write_text(manifest)
    scene = RuleContext(
        tuple(load([Path("a.yaml")], read.context(environment))), facts, environment=environment
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


def test_a_policy_is_a_rule_with_a_code_a_message_and_a_place() -> None:
    (finding,) = found(
        "- name: keep\n  message: Records are kept a month at most.\n  severity: warning\n"
        "  require: {fields: {config.retention.ms: {max: 30d}}}\n"
    )
    assert (finding.code, finding.severity) == ("policy/keep", Severity.WARNING)
    assert finding.message == "Records are kept a month at most: retention.ms is 60d; it must be at most 30d"
    assert str(finding.location) == "a.yaml:9:3"


def test_a_policy_explains_itself() -> None:
    (rule,) = settings(
        "- name: keep\n  message: |\n    Records are kept\n    a month at most.\n"
        "  match: {name: 'a.*', labels: {tier: critical}}\n  environments: [prod]\n"
        "  require:\n    name: '^x'\n    labels: [team]\n"
        "    fields: {config.retention.ms: {min: 1d, max: 30d}, partitions: {multipleOf: 3, oneOf: [3, 6]}}\n"
    ).policies
    assert rule.summary == "Records are kept a month at most."
    assert rule.severity is Severity.ERROR
    assert rule.explanation.splitlines()[2:] == [
        "A policy of kafkaform.yaml. Of every Topic named a.* with tier: critical in prod it asks that",
        "",
        "- the name matches ^x",
        "- there is a label team",
        "- retention.ms is at least 1d and at most 30d",
        "- partitions is a multiple of 3 and one of 3 | 6",
    ]


def test_severities_of_kafkaform_yaml_and_waivers_hold_for_policies() -> None:
    policy = "- {name: p, message: No, require: {labels: [owner]}}\n"
    assert [one.severity for one in found(policy)] == [Severity.ERROR]
    assert [one.severity for one in found(policy + "rules: {policy/p: info}\n")] == [Severity.INFO]
    assert found(policy + "rules: {policy/p: off}\n") == []
    manifest = TOPIC.replace("  labels", "  annotations: {kafkaform/waive.policy/p: it has none}\n  labels")
    (waived,) = found(policy, manifest)
    assert (waived.severity, waived.waived) == (Severity.INFO, "it has none")


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


def test_a_policy_of_an_environment_says_nothing_where_none_is_chosen() -> None:
    policy = "- {name: p, message: No, environments: [prod], require: {labels: [owner]}}\n"
    assert found(policy, environment=None) == []


def test_labels_that_look_like_numbers_are_texts() -> None:
    policy = "- {name: p, message: No, match: {labels: {tier: 010}}, require: {labels: [owner]}}\n"
    assert found(policy, changed("tier: critical", "tier: 010"))
    assert not found(policy, changed("tier: critical", "tier: 8"))


def test_a_tombstone_is_asked_nothing() -> None:
    tombstone = TOPIC.partition("spec:")[0] + "spec: {state: absent}\n"
    assert messages("labels: [owner], name: '^x', fields: {partitions: {min: 9}}", tombstone) == []


def test_an_override_of_the_environment_counts_and_is_pointed_to() -> None:
    manifest = TOPIC + "  overrides:\n    prod: {partitions: 2}\n"
    policy = "- {name: p, message: No, require: {fields: {partitions: {min: 3}}}}\n"
    assert found(policy, manifest, environment="dev") == []
    (finding,) = found(policy, manifest, environment="prod")
    assert str(finding.location) == "a.yaml:11:12"


# --- names and labels ------------------------------------------------------------------------------


def test_names_are_matched_with_the_labels_in_the_pattern() -> None:
    assert messages(r'name: "^{labels.team}\\."') == []
    assert messages(r'name: "^{labels.tier}\\."') == [
        r"the name is checkout.orders; it must match ^critical\."
    ]
    assert messages(r'name: "^[a-z]{8}\\."') == []
    assert messages("name: orders$") == []
    assert messages("name: ^orders") == ["the name is checkout.orders; it must match ^orders"]
    assert messages('name: "^{labels.owner}"') == [
        "the name must match ^{labels.owner}, but the label owner is missing"
    ]


def test_a_label_in_a_pattern_is_no_pattern_itself() -> None:
    manifest = changed("team: checkout", "team: 'check.*'")
    assert messages(r'name: "^{labels.team}\\."', manifest) == [
        r"the name is checkout.orders; it must match ^check\.\*\."
    ]


def test_required_labels_must_say_something() -> None:
    assert messages("labels: [team, tier]") == []
    assert messages("labels: [team, owner]") == ["the label owner of checkout.orders is missing"]
    assert messages("labels: [team, tier]", changed("team: checkout", "team: ' '")) == [
        "the label team of checkout.orders is missing"
    ]
    assert messages("labels: [a, b]") == ["the labels a and b of checkout.orders are missing"]


def test_labels_are_fields_too() -> None:
    assert fields("labels.tier: {oneOf: [critical, standard]}") == []
    assert fields("labels.tier: {oneOf: [low, standard]}") == [
        "labels.tier is critical; it must be one of low | standard"
    ]
    assert fields("labels.owner: {oneOf: [a]}") == ["labels.owner is not set; it must be a"]


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


def test_bounds_are_in_human_units() -> None:
    assert fields("config.retention.ms: {min: 60d, max: 5184000000}") == []
    assert fields("config.max.message.bytes: {max: 1MiB}") == [
        "max.message.bytes is 1048588 (Kafka's default); it must be at most 1 MiB"
    ]


def test_unlimited_is_more_than_any_bound() -> None:
    manifest = changed("retention: 60d", "retention: unlimited")
    assert fields("config.retention.ms: {min: 60d}", manifest) == []
    assert fields("config.retention.ms: {max: 60d}", manifest) == [
        "retention.ms is unlimited; it must be at most 60d"
    ]
    assert fields("config.retention.ms: {max: unlimited}", manifest) == []


def test_values_are_compared_as_kafka_compares_them() -> None:
    manifest = TOPIC + "  config: {cleanup.policy: [delete, compact], min.cleanable.dirty.ratio: 0.50}\n"
    assert fields("config.cleanup.policy: {oneOf: ['compact,delete']}", manifest) == []
    assert fields("config.cleanup.policy: {oneOf: [delete]}", manifest) == [
        "cleanup.policy is compact,delete; it must be delete"
    ]
    assert fields("config.min.cleanable.dirty.ratio: {oneOf: [0.5], max: .5}", manifest) == []
    assert fields("config.min.cleanable.dirty.ratio: {min: 0.51}", manifest) == [
        "min.cleanable.dirty.ratio is 0.5; it must be at least 0.51"
    ]


def test_what_a_manifest_does_not_say_is_the_default_of_the_cluster_or_of_kafka() -> None:
    manifest = changed("  retention: 60d\n", "")
    assert fields("config.retention.ms: {max: 7d}", manifest) == []
    assert fields("config.retention.ms: {max: 6d}", manifest) == [
        "retention.ms is 7d (Kafka's default); it must be at most 6d"
    ]
    facts = Facts("c", config_defaults={"Topic": {"retention.ms": "86400000"}})
    assert fields("config.retention.ms: {max: 6d}", manifest, facts=facts) == []
    assert fields("config.retention.ms: {min: 6d}", manifest, facts=facts) == [
        "retention.ms is 1d (the cluster's default); it must be at least 6d"
    ]


def test_what_nobody_says_is_not_what_is_asked() -> None:
    assert fields("keyed: {oneOf: [true]}") == ["keyed is not set; it must be true"]
    assert fields("keyed: {oneOf: [true]}", TOPIC + "  keyed: true\n") == []
    assert fields("keyed: {oneOf: [true]}", TOPIC + "  keyed: false\n") == ["keyed is false; it must be true"]
    assert fields("skew.maxKeyShare: {max: 0.2}", TOPIC + "  skew: {maxKeyShare: 0.3}\n") == [
        "skew.maxKeyShare is 0.3; it must be at most 0.2"
    ]
    assert fields("skew.maxKeyShare: {max: 0.2}") == ["skew.maxKeyShare is not set; it must be at most 0.2"]


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
    ("fields", "said"),
    [
        ("members.expected: {min: 2, max: 6}", None),
        ("members.expected: {max: 5}", "members.expected is 6; it must be at most 5"),
        ("members.max: {max: 12}", "members.max is not set; it must be at most 12"),
        ("config.consumer.session.timeout.ms: {max: 1m}", None),
        (
            "config.consumer.session.timeout.ms: {max: 45s}",
            "consumer.session.timeout.ms is 50s; it must be at most 45s",
        ),
        ("client.max.poll.records: {max: 200}", None),
        ("client.max.poll.records: {max: 100}", "client.max.poll.records is 200; it must be at most 100"),
        (
            "client.max.poll.interval.ms: {max: 1m}",
            "client.max.poll.interval.ms is 5m (the default of Java consumers); it must be at most 1m",
        ),
        ("client.partition.assignment.strategy: {oneOf: [cooperative-sticky]}", None),
        ("processing.maxTimePerRecord: {max: 1s}", None),
        (
            "processing.maxTimePerRecord: {max: 100ms}",
            "processing.maxTimePerRecord is 200ms; it must be at most 100ms",
        ),
        ("protocol: {oneOf: [consumer]}", "protocol is classic; it must be consumer"),
        ("labels.team: {oneOf: [checkout]}", None),
    ],
)
def test_fields_of_groups(fields: str, said: str | None) -> None:
    assert of_group(fields) == ([said] if said else [])


def test_the_assignors_of_a_client_that_does_not_say_are_told_by_their_short_names() -> None:
    manifest = GROUP.replace(", partition.assignment.strategy: cooperative-sticky", "")
    (said,) = of_group("client.partition.assignment.strategy: {oneOf: [cooperative-sticky]}", manifest)
    assert said == (
        "client.partition.assignment.strategy is range,cooperative-sticky (the default of Java consumers); "
        "it must be cooperative-sticky"
    )


def test_a_policy_of_topics_says_nothing_about_groups() -> None:
    assert messages("labels: [owner]", GROUP) == []


# --- policies that are wrong -----------------------------------------------------------------------


def policy(rest: str) -> str:
    return f"- {{name: p, message: No, {rest}}}\n"


def requiring(require: str) -> str:
    return policy(f"require: {{{require}}}")


def on_fields(fields: str) -> str:
    return requiring(f"fields: {{{fields}}}")


BAD = {
    "name": (
        "- {name: A b, message: No, require: {labels: [a]}}\n",
        "5:10: 'A b' is not a valid policy name",
    ),
    "two of a name": (requiring("labels: [a]") * 2, "6:10: there are two policies named p"),
    "environment": (
        policy("environments: [dev, prd], require: {labels: [a]}"),
        "5:46: unknown environment 'prd' (did you mean 'prod'?)",
    ),
    "kind": (policy("kind: Topik, require: {labels: [a]}"), "5:32: policies.0.kind must be one of"),
    "severity": (
        policy("severity: loud, require: {labels: [a]}"),
        "5:36: policies.0.severity must",
    ),
    "no message": ("- {name: p, require: {labels: [a]}}\n", "5:3: policies.0.message is missing"),
    "asks nothing": (requiring(""), "5:35: policies.0.require must not be empty"),
    "regular expression": (requiring("name: '('"), "5:42: '(' is not a regular expression: missing )"),
    "unknown placeholder": (
        requiring("name: '^{team}'"),
        "5:42: nothing is known of {team} in a pattern (a label is written {labels.team})",
    ),
    "unknown field": (
        on_fields("partitons: {min: 3}"),
        "5:45: a Topic has no field 'partitons' (did you mean 'partitions'?)",
    ),
    "unknown config": (
        on_fields("config.retention.mss: {min: 3}"),
        "5:45: a Topic has no field 'config.retention.mss' (did you mean 'config.retention.ms'?)",
    ),
    "unknown bound": (
        on_fields("partitions: {mim: 3}"),
        "5:58: unknown field 'mim' in policies.0.require.fields.partitions",
    ),
    "a field of another kind": (
        on_fields("client.max.poll.records: {max: 1}"),
        "5:45: a Topic has no field 'client.max.poll.records'",
    ),
    "no bound": (on_fields("partitions: {}"), "5:57: policies.0.require.fields.partitions must not be empty"),
    "min above max": (
        on_fields("config.retention.ms: {min: 8d, max: 7d}"),
        "5:81: max is 7d, below min, which is 8d: nothing fits",
    ),
    "not a number": (
        on_fields("partitions: {min: many}"),
        "5:63: partitions: 'many' is not",
    ),
    "not a duration": (
        on_fields("config.retention.ms: {max: 7x}"),
        "5:72: retention.ms: '7x' is not a duration",
    ),
    "no such value": (
        on_fields("config.cleanup.policy: {oneOf: [delet]}"),
        "5:76: cleanup.policy: 'delet' is not valid; one of compact, delete; did you mean 'delete'?",
    ),
    "a bound of a text": (
        on_fields("config.cleanup.policy: {min: 1}"),
        "5:74: cleanup.policy is not a number: write oneOf",
    ),
    "a multiple of nothing": (
        on_fields("partitions: {multipleOf: 0}"),
        "5:70: multipleOf must be at least 1, not 0",
    ),
    "a multiple of a fraction": (
        on_fields("skew.maxKeyShare: {multipleOf: 2}"),
        "5:76: skew.maxKeyShare is not a whole number",
    ),
    "values outside of the bounds": (
        on_fields("partitions: {min: 5, oneOf: [3, 4]}"),
        "5:73: none of these values fits the other bounds",
    ),
}


@pytest.mark.parametrize(("text", "expected"), BAD.values(), ids=BAD)
def test_what_is_wrong_is_told_with_its_place(text: str, expected: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        settings(text)
    (problem,) = map(str, caught.value.problems)
    assert problem.startswith(f"kafkaform.yaml:{expected}")


def test_every_field_of_a_topic_can_be_asked_about() -> None:
    from kafkaform.rules.policy_fields import field_key

    for path in ("partitions", "replicationFactor", "keyed", "deletionProtection", "undeclared", "skew.by"):
        assert field_key("Topic", path) is not None, path
    for path in ("config.retention.ms", "config.confluent.tier.enable", "labels.x", "labels.a.b"):
        assert field_key("Topic", path) is not None, path
    for path in ("state", "overrides", "retention", "config", "labels.", "name", "config.nope", "skew"):
        assert field_key("Topic", path) is None, path
