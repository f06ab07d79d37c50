"""Policies of kafkaform.yaml: whom they are about, what they ask, and what is wrong with them."""

import re
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from kafkaform import rules
from kafkaform.config.manifests.loader import load
from kafkaform.config.settings import Settings, read_settings
from kafkaform.core.errors import InvalidInput
from kafkaform.core.model import Diagnostic, Facts, Severity
from kafkaform.rules import RuleContext
from tests.support.golden import list_texts

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


def write_settings(policies: str) -> Settings:
    Path("kafkaform.yaml").write_text(f"{HEAD}policies:\n{policies}")
    return read_settings(Path("kafkaform.yaml"))


def check_policies(
    policies: str, manifest: str = TOPIC, *, environment: str | None = "prod", facts: Facts | None = None
) -> list[Diagnostic]:
    """Return the findings of the policies alone about a manifest."""
    read = write_settings(policies)
    Path("a.yaml").write_text(manifest)
    scene = RuleContext(
        tuple(load([Path("a.yaml")], read.build_context(environment))), facts, environment=environment
    )
    return [
        diagnostic
        for diagnostic in rules.check(scene, read.rules, more=read.policies)
        if diagnostic.code.startswith("policy/")
    ]


def list_failures(require: str, manifest: str = TOPIC, facts: Facts | None = None) -> list[str]:
    """Return what a policy of the manifest's kind that requires this says, without its own message."""
    kind = manifest.split("kind: ")[1].split("\n")[0]
    policy = f"- {{name: p, kind: {kind}, message: No., require: {{{require}}}}}\n"
    return [finding.message.removeprefix("No: ") for finding in check_policies(policy, manifest, facts=facts)]


def change_topic(before: str, after: str) -> str:
    assert before in TOPIC
    return TOPIC.replace(before, after)


def test_policy_explanation_matches_golden(golden: SnapshotAssertion) -> None:
    (rule,) = write_settings(
        "- name: keep\n  message: |\n    Records are kept\n    a month at most.\n"
        "  match: {name: 'a.*', labels: {tier: critical}}\n  environments: [prod]\n"
        "  require:\n    name: '^x'\n    labels: [team]\n"
        "    fields: {config.retention.ms: {min: 1d, max: 30d}, partitions: {multipleOf: 3, in: [3, 6]}}\n"
    ).policies
    assert (rule.summary, rule.severity) == ("Records are kept a month at most.", Severity.ERROR)
    assert rule.explanation == golden(name="explanation.txt")


@pytest.mark.parametrize(
    ("about", "trips"),
    [
        ("match: {name: 'checkout.*'}", True),
        ("match: {name: 'Checkout.*'}", False),
        ("match: {labels: {tier: critical, team: checkout}}", True),
        ("match: {labels: {tier: critical, team: payments}}", False),
        ("environments: [dev, prod]", True),
        ("environments: [dev]", False),
    ],
)
def test_policy_applies_to_matching_resources(about: str, trips: bool) -> None:
    policy = f"- {{name: p, message: No, {about}, require: {{labels: [owner]}}}}\n"
    assert bool(check_policies(policy)) is trips


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
UNKEPT = change_topic("  retention: 60d\n", "")
UNLIMITED = change_topic("retention: 60d", "retention: unlimited")
VARIED = TOPIC + "  config: {cleanup.policy: [delete, compact], min.cleanable.dirty.ratio: 0.50}\n"
ONE_DAY = Facts("c", config_defaults={"Topic": {"retention.ms": "86400000"}})

FAILS: list[tuple[str, str, Facts | None]] = [
    (r'name: "^{labels.tier}\\."', TOPIC, None),
    ("name: ^orders", TOPIC, None),
    ('name: "^{labels.owner}"', TOPIC, None),
    (r'name: "^{labels.team}\\."', change_topic("team: checkout", "team: 'check.*'"), None),
    ("labels: [team, owner]", TOPIC, None),
    ("labels: [team, tier]", change_topic("team: checkout", "team: ' '"), None),
    ("labels: [a, b]", TOPIC, None),
    ("fields: {labels.tier: {in: [low, standard]}}", TOPIC, None),
    ("fields: {labels.owner: {in: [a]}}", TOPIC, None),
    ("fields: {partitions: {min: 7}}", TOPIC, None),
    ("fields: {partitions: {multipleOf: 4}}", TOPIC, None),
    ("fields: {partitions: {in: [3, 12]}}", TOPIC, None),
    ("fields: {partitions: {min: 7, multipleOf: 4}}", TOPIC, None),
    ("fields: {config.max.message.bytes: {max: 1MiB}}", TOPIC, None),
    ("fields: {config.retention.ms: {max: 60d}}", UNLIMITED, None),
    ("fields: {config.cleanup.policy: {in: [delete]}}", VARIED, None),
    ("fields: {config.min.cleanable.dirty.ratio: {min: 0.51}}", VARIED, None),
    ("fields: {config.retention.ms: {max: 6d}}", UNKEPT, None),
    ("fields: {config.retention.ms: {min: 6d}}", UNKEPT, ONE_DAY),
    ("fields: {keyed: {in: [true]}}", TOPIC, None),
    ("fields: {keyed: {in: [true]}}", TOPIC + "  keyed: false\n", None),
    ("fields: {skew.maxKeyShare: {max: 0.2}}", TOPIC + "  skew: {maxKeyShare: 0.3}\n", None),
    ("fields: {skew.maxKeyShare: {max: 0.2}}", TOPIC, None),
    ("fields: {members.max: {max: 12}}", GROUP, None),
    ("fields: {config.consumer.session.timeout.ms: {max: 45s}}", GROUP, None),
    ("fields: {client.max.poll.records: {max: 100}}", GROUP, None),
    ("fields: {client.max.poll.interval.ms: {max: 1m}}", GROUP, None),
    ("fields: {processing.maxTimePerRecord: {max: 100ms}}", GROUP, None),
    ("fields: {protocol: {in: [consumer]}}", GROUP, None),
    (
        "fields: {client.partition.assignment.strategy: {in: [cooperative-sticky]}}",
        GROUP.replace(", partition.assignment.strategy: cooperative-sticky", ""),
        None,
    ),
]
"""What a policy requires, and a manifest that does not have it."""


def test_policy_messages_match_golden(golden: SnapshotAssertion) -> None:
    texts = [(require, list_failures(require, *remaining)) for require, *remaining in FAILS]  # type: ignore[arg-type]
    assert "".join(list_texts({require: found}) for require, found in texts) == golden(name="messages.txt")


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


def test_acls_are_checked_individually() -> None:
    page = Path(__file__).parents[3] / "docs" / "access.md"
    (policies,) = re.findall(r"```yaml\npolicies:\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    findings = check_policies(policies, ACCESS)
    assert [(finding.code, finding.location and finding.location.line) for finding in findings] == [
        ("policy/cluster-is-for-admins", 8),
        ("policy/no-access-to-everything-from-everywhere", 10),
    ]
    assert "(allow Alter on cluster)" in findings[0].message
    by_admin = check_policies(policies, ACCESS.replace("User:a]", "User:admin]"))
    assert [finding.code for finding in by_admin] == ["policy/no-access-to-everything-from-everywhere"]
    (rule, _) = write_settings(policies).policies
    assert "except User:admin" in rule.explanation


def policy(rest: str) -> str:
    return f"- {{name: p, message: No, {rest}}}\n"


def requiring(require: str) -> str:
    return policy(f"require: {{{require}}}")


def require_fields(fields: str) -> str:
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
    "unknown field": require_fields("partitons: {min: 3}"),
    "unknown config": require_fields("config.retention.mss: {min: 3}"),
    "a bound by another name": require_fields("config.cleanup.policy: {oneOf: [delete]}"),
    "unknown bound": require_fields("partitions: {mim: 3}"),
    "a field of another kind": require_fields("client.max.poll.records: {max: 1}"),
    "no bound": require_fields("partitions: {}"),
    "min above max": require_fields("config.retention.ms: {min: 8d, max: 7d}"),
    "not a number": require_fields("partitions: {min: many}"),
    "not a duration": require_fields("config.retention.ms: {max: 7x}"),
    "no such value": require_fields("config.cleanup.policy: {in: [delet]}"),
    "a bound of a text": require_fields("config.cleanup.policy: {min: 1}"),
    "a multiple of nothing": require_fields("partitions: {multipleOf: 0}"),
    "a multiple of a fraction": require_fields("skew.maxKeyShare: {multipleOf: 2}"),
    "no such operation": policy("kind: Access, require: {fields: {acl.operation: {notIn: [Alte]}}}"),
    "unknown field of match": policy("match: {fields: {partition: {min: 1}}}, require: {labels: [a]}"),
    "values outside of the bounds": require_fields("partitions: {min: 5, in: [3, 4]}"),
}


def read_problems(text: str) -> list[str]:
    with pytest.raises(InvalidInput) as caught:
        write_settings(text)
    return [*map(str, caught.value.problems)]


def test_invalid_policy_messages_match_golden(golden: SnapshotAssertion) -> None:
    assert list_texts({name: read_problems(text) for name, text in BAD.items()}) == golden(name="invalid.txt")
