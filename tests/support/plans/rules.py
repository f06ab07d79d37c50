"""Rows of rules: a context, and the findings that a rule has of it; and builders of contexts."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafkaform import rules
from kafkaform.core.model import (
    CONFIG_PREFIX,
    Desired,
    Diagnostic,
    Facts,
    FieldValue,
    Intent,
    Location,
    Observed,
    ResourceRef,
)
from kafkaform.core.values import replace
from kafkaform.rules import RuleContext, Stage
from tests.support.plans.scenes import declare_topic, topic


@dataclass(frozen=True)
class Row:
    """A rule, a context, and the findings that the rule has of it.

    Attributes:
        code: The rule.
        context: The manifests and what is known about the cluster.
        findings: The resource, severity and field of each finding: `a warning config.retention.ms`.
        name: Under which the sentences are in the catalogue; empty if they differ by values alone.
    """

    code: str
    context: RuleContext
    findings: tuple[str, ...]
    name: str = ""

    def __str__(self) -> str:
        return f"{self.code} {self.name or ('trips' if self.findings else 'quiet')}"


def trips(rule: str, context: RuleContext, *findings: str) -> Row:
    """Build a row of a context that has these findings; `KF303 one stopped` is its rule and name."""
    assert findings
    code, _, name = rule.partition(" ")
    return Row(code, context, findings, name)


def is_quiet(code: str, *contexts: RuleContext) -> list[Row]:
    """Build a row of each context that has no finding."""
    return [Row(code, context, ()) for context in contexts]


def select_rule(codes: str) -> dict[str, str]:
    """Return the severities that switch off all rules but those whose codes start like this."""
    return {code: "off" for code in rules.RULES if not code.startswith(codes)}


class PathAsLocation:
    """The locations of a manifest whose fields are in files named like their paths."""

    def __call__(self, path: str) -> Location:
        return Location(path)

    def keys(self, _path: str) -> None:
        return None

    def nearest(self, keys: Sequence[str | int]) -> Location:
        return Location(".".join(map(str, keys)))

    def find_layer(self, _path: str) -> str | None:
        return ""


def check_rule(
    code: str, context: RuleContext, severities: Mapping[str, str] | None = None
) -> list[Diagnostic]:
    """Return the findings of the rules whose codes start so, with the field in place of the file."""
    located = tuple(
        replace(desired, locations=PathAsLocation()) if desired.locations is None else desired
        for desired in context.desired
    )
    context = replace(context, desired=located)
    return list(rules.check(context, {**select_rule(code), **(severities or {})}, tuple(Stage)))


def describe_findings(findings: Iterable[Diagnostic]) -> list[str]:
    """Return the resource, severity and field of each finding."""
    parts = (
        (each.ref and each.ref.name, each.severity.value, each.location and each.location.file)
        for each in findings
    )
    return [" ".join(filter(None, found)) for found in parts]


def write_catalogue(rows: Iterable[Row]) -> str:
    """Return the sentences of all rows that have a name, by code."""
    lines: list[str] = []
    for row in sorted(filter(lambda row: row.name, rows), key=lambda row: row.code):
        for finding in check_rule(row.code, row.context):
            lines.append(f"{row.code} {row.name}: {finding.message}")
            lines += [f"  {finding.suggestion}"] if finding.suggestion is not None else []
    return "\n".join((*lines, ""))


def scene(*desired: Desired, **more: Any) -> RuleContext:
    """Build the context of manifests, offline if nothing else is given."""
    return RuleContext(desired, **more)


def build_observed(
    name: str, partitions: int = 3, replicas: FieldValue = 3, *, inherited: str | None = None, **configs: str
) -> Observed:
    """Build a live topic with own configs, by Kafka's name with underscores for dots.

    Args:
        name: Its name.
        partitions: Its number of partitions.
        replicas: The replicas that each of them has, such as 3, or "1-3" where they differ.
        inherited: A default that is in force for min.insync.replicas.
        configs: Its own configs.
    """
    own: dict[str, FieldValue] = {CONFIG_PREFIX + k.replace("_", "."): value for k, value in configs.items()}
    state: dict[str, FieldValue] = {"partitions": partitions, "replicationFactor": replicas, **own}
    effective: dict[str, FieldValue] = {f"{CONFIG_PREFIX}min.insync.replicas": inherited, **own}
    return Observed(topic(name), "id", state, effective)


def facts(**defaults: str) -> Facts:
    """Build the facts of a cluster with defaults of topics, by Kafka's name with underscores for dots."""
    named = {name.replace("_", "."): value for name, value in defaults.items()}
    return Facts("c", config_defaults={"Topic": named})


def declare_configs(configs: Mapping[str, str | None], *, keyed: bool | None = False) -> Desired:
    """Build a declared topic with configs by Kafka's names."""
    desired = declare_topic("a")
    own = {CONFIG_PREFIX + name: value for name, value in configs.items()}
    state = {**(desired.state or {}), **own}
    return replace(desired, state=state, intent=replace(desired.intent, keyed=keyed))


def waive_rules(desired: Desired, *codes: str) -> Desired:
    """Return a resource with waivers of rules."""
    return replace(desired, intent=replace(desired.intent, waivers=dict.fromkeys(codes, "we like it")))


def living(*resources: Observed) -> dict[ResourceRef, Observed]:
    """Return live resources as a context has them."""
    return {resource.ref: resource for resource in resources}


def inventory(*names: str) -> frozenset[ResourceRef]:
    """Return the topics that an account can see."""
    return frozenset(map(topic, names))


def group(
    topics: Collection[str] = ("orders",), protocol: str | None = "classic", *, name: str = "g", **spec: Any
) -> Desired:
    """Build a declared consumer group as its kind hands it to rules."""
    own = {} if protocol is None else {"protocol": protocol}
    return Desired(
        ResourceRef("ConsumerGroup", name), {}, Intent(spec={"topics": list(topics), **own, **spec})
    )
