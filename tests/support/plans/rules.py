"""What single rules say of declared topics, without the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
from tests.support.plans.scenes import declared, topic


@dataclass(frozen=True)
class Said:
    """One finding, as tests compare it: `path` is the field that it points at."""

    name: str | None
    severity: str
    message: str
    suggestion: str | None
    path: str | None

    def __str__(self) -> str:
        return f"{self.name} {self.severity}"


def only(codes: str) -> dict[str, str]:
    """Severities that switch off all rules but those whose codes start like this."""
    return {code: "off" for code in rules.RULES if not code.startswith(codes)}


class PathAsLocation:
    """The places of a manifest whose fields are in files named like their paths."""

    def __call__(self, path: str) -> Location:
        return Location(path)

    def keys(self, _path: str) -> None:
        return None

    def nearest(self, keys: Sequence[str | int]) -> Location:
        return Location(".".join(map(str, keys)))


def diagnostics(
    scene: rules.RuleContext, code: str, severities: Mapping[str, str] | None = None
) -> list[tuple[ResourceRef | None, Diagnostic]]:
    """The findings of one rule, with the field in place of the file."""
    pointed = tuple(
        replace(desired, locations=PathAsLocation()) if desired.locations is None else desired
        for desired in scene.desired
    )
    found = rules.check(replace(scene, desired=pointed), {**only(code), **(severities or {})})
    return [(one.ref, one) for one in found]


def said(code: str, scene: rules.RuleContext) -> list[Said]:
    """What one rule says of a scene."""
    return [
        Said(
            ref.name if ref is not None else None,
            one.severity.value,
            one.message,
            one.suggestion,
            one.location.file if one.location is not None else None,
        )
        for ref, one in diagnostics(scene, code)
    ]


def silent(code: str, scene: rules.RuleContext) -> bool:
    """Whether a rule has nothing to say."""
    return not diagnostics(scene, code)


def observed(
    name: str, partitions: int = 3, replicas: FieldValue = 3, *, inherited: str | None = None, **configs: str
) -> Observed:
    """A live topic with own configs, by Kafka's name with underscores for dots.

    Args:
        name: Its name.
        partitions: How many it has.
        replicas: How many replicas each has, such as 3, or "1-3" where they differ.
        inherited: A default that is in force for min.insync.replicas.
        configs: Its own configs.
    """
    own: dict[str, FieldValue] = {CONFIG_PREFIX + k.replace("_", "."): value for k, value in configs.items()}
    state: dict[str, FieldValue] = {"partitions": partitions, "replicationFactor": replicas, **own}
    effective: dict[str, FieldValue] = {f"{CONFIG_PREFIX}min.insync.replicas": inherited, **own}
    return Observed(topic(name), "id", state, effective)


def facts(**defaults: str) -> Facts:
    """Facts of a cluster with defaults of topics, by Kafka's name with underscores for dots."""
    named = {name.replace("_", "."): value for name, value in defaults.items()}
    return Facts("c", config_defaults={"Topic": named})


def configured(configs: Mapping[str, str | None]) -> Desired:
    """A declared topic with configs by Kafka's names."""
    desired = declared("a")
    own = {CONFIG_PREFIX + name: value for name, value in configs.items()}
    return replace(desired, state={**(desired.state or {}), **own})


def living(*resources: Observed) -> dict[ResourceRef, Observed]:
    """Live resources, as a scene has them."""
    return {resource.ref: resource for resource in resources}


def group(
    name: str,
    topics: Sequence[str] = ("a",),
    protocol: str = "classic",
    *,
    tombstone: bool = False,
    **members: int,
) -> Desired:
    """A declared consumer group."""
    spec = {"topics": list(topics), "protocol": protocol, "members": members}
    return Desired(ResourceRef("ConsumerGroup", name), None if tombstone else {}, Intent(spec=spec))
