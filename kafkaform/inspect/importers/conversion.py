"""The conversion of another tool's manifests into the resources that a cluster made by them would have."""

from __future__ import annotations

import re
from collections import Counter
from math import isfinite
from typing import TYPE_CHECKING, TypeAlias

from kafkaform.config.manifest_text import Additions
from kafkaform.core.acl_fields import write_path, write_value
from kafkaform.core.acls import CLUSTER_NAME, WILDCARD, Acl, ResourceType, parse_operation, parse_principal
from kafkaform.core.errors import Problem, UsageError
from kafkaform.core.kafka_configs import canonical, find_topic_config
from kafkaform.core.model import CONFIG_PREFIX, FieldValue, Location, Observation, Observed, ResourceRef
from kafkaform.core.wording import command, counted, listed, quoted
from kafkaform.inspect.importers.fields import Fields, Notes, ScalarReading
from kafkaform.inspect.importing import ODD_VALUE, Import
from kafkaform.resources import ACCESS, topic_ref
from kafkaform.resources.client_quota import ClientQuotaKind
from kafkaform.resources.client_quota.entity import TYPES, build_entity
from kafkaform.resources.client_quota.spec import value_text
from kafkaform.resources.replicas.facts import REPLICATION_FACTOR, LiveReplicas
from kafkaform.resources.replicas.layout import Strategy
from kafkaform.resources.subject import SubjectKind
from kafkaform.resources.subject.fields import COMPATIBILITY, GUARANTEES, SCHEMA
from kafkaform.resources.subject.schema import AVRO, RegisteredSchema, SchemaReference, compact
from kafkaform.resources.topic.operations import is_legal_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

Right: TypeAlias = tuple[str, str, str, tuple[str, ...]]
"""Operations on resources of a type: the type, the name, `literal` or `prefixed`, and the operations."""

_TYPES = {each.replace("-", ""): each for each in ResourceType}
_NOUNS = {"jikkou": "provider", "julieops": "context"}
"""What a tool calls the clusters in its files."""
_MAX_CLUSTERS = 20
_WHOLE = re.compile(r"[-+]?[0-9]+", re.ASCII)
_LIMIT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?", re.ASCII)
_PATTERNS = {"literal": False, "prefixed": True, "prefix": True}


def fill_rights(fields: Fields, defaults: Mapping[str, str], rights: Iterable[Right]) -> list[Right]:
    """Return rights with names that are templates, such as `{group-id}`.

    Args:
        fields: The fields that the templates refer to.
        defaults: For each such field, the value if it is missing; empty if it must not be.
    """
    values = {
        name: fields.name(name, default) if default else fields.require(name)
        for name, default in defaults.items()
    }
    return [
        (kind, name.format_map(values), pattern, operations) for kind, name, pattern, operations in rights
    ]


def principal_ref(principal: str) -> ResourceRef:
    """Return the reference to the ACLs of a principal."""
    return ResourceRef(ACCESS.name, principal)


class Conversion:
    """The resources that the files of another tool declare.

    Args:
        tool: The name of the tool.
        reading: Its reader of YAML.
        source_cluster: The name of the cluster in the files whose resources are taken; None if they are of
            one cluster.

    Attributes:
        notes: What is wrong in the files, and what is left out.
        files: The files that were read.
        additions: The parts of manifests that no cluster stores, by resource.
    """

    def __init__(
        self, tool: str = "", reading: ScalarReading = ScalarReading.SOURCE, source_cluster: str | None = None
    ) -> None:
        self.notes = Notes(tool, reading)
        self.files: tuple[Path, ...] = ()
        self._source_cluster = source_cluster
        self._noun = _NOUNS.get(tool, "cluster")
        self._clusters: Counter[tuple[str, ...]] = Counter()
        self._declared: dict[str, Location] = {}
        self.additions: dict[ResourceRef, Additions] = {}
        self._resources: dict[ResourceRef, Observed] = {}
        self._acls: dict[ResourceRef, dict[str, FieldValue]] = {}
        self._locations: dict[ResourceRef, Location] = {}

    @property
    def observation(self) -> Observation:
        """The resources, as a cluster would have them."""
        access = {ref: Observed(ref, None, state) for ref, state in self._acls.items()}
        resources = {**self._resources, **access}
        return Observation(resources, frozenset(resources))

    def takes(self, fields: Fields, *cluster: str) -> bool:
        """Return whether a resource is of the cluster that is imported.

        Args:
            cluster: The name of its cluster, and what else tells clusters apart; empty texts are unknown.
        """
        self._clusters[cluster] += 1
        if self._source_cluster is None or _has_name(cluster, self._source_cluster):
            return True
        first, *_ = cluster
        # Another one, or one of which not enough is known.
        if first and ("" not in cluster or not self._source_cluster.startswith(f"{first}/")):
            fields.skip()
        else:
            fields.leave_out_all(f"it does not say whether it is of the {self._noun} {self._source_cluster}")
        return False

    def check_cluster(self) -> None:
        """Check that the resources are of one cluster.

        Raises:
            UsageError: They are of several, and none of them was chosen.
        """
        # A cluster that is named in part is the one of this name that is named in full.
        clusters = [
            cluster
            for cluster in self._clusters
            if any(cluster) and not any(_is_refined(cluster, candidate) for candidate in self._clusters)
        ]
        firsts = Counter(cluster[0] for cluster in clusters)
        names = {
            cluster: cluster[0] if cluster[0] and firsts[cluster[0]] == 1 else _join_name(cluster)
            for cluster in clusters
        }
        chosen = clusters
        if (source := self._source_cluster) is not None:
            chosen = [cluster for cluster in clusters if _has_name(cluster, source)]
            if not chosen:
                known = (
                    f"they are of {listed([*names.values()], _MAX_CLUSTERS)}" if names else "they name none"
                )
                raise UsageError(f"the files have nothing of the {self._noun} {quoted(source)}", hint=known)
        if len(chosen) > 1:
            options = ("--source-cluster", names[chosen[0]], "--out", "DIR")
            which = listed([names[cluster] for cluster in chosen], _MAX_CLUSTERS)
            raise UsageError(
                f"these files are of {counted(len(chosen), self._noun)}: {which}",
                hint=f"take one, into a folder of its own: {command('import', 'FILE', options=options)}",
            )
        for cluster in clusters:
            if cluster not in chosen:
                count = counted(self._clusters[cluster], "resource")
                self.notes.remark(f"{count} of the {self._noun} {names[cluster]}: skipped")

    def declare(self, fields: Fields, name: str) -> None:
        """Report that something with a unique name is declared twice."""
        if name in self._declared:
            hint = f"first declared at {self._declared[name]}; import the files of one cluster at a time"
            fields.reject(f"{name} is declared twice", hint)
        self._declared.setdefault(name, fields.location)

    def add_topic(
        self,
        fields: Fields,
        name: str,
        counts: tuple[int | None, int | None],
        configs: Mapping[str, str],
        *,
        strategy: Strategy = Strategy.BALANCED,
        replicas: Sequence[Sequence[int]] = (),
    ) -> ResourceRef:
        """Add a topic; returns its reference.

        Args:
            counts: The number of its partitions and of replicas; None for the broker's default.
            strategy: The strategy of its placement.
            replicas: The brokers of each partition, with the strategy STATIC.
        """
        ref = topic_ref(name)
        if not is_legal_name(name):
            fields.leave_out_part(f"topic {quoted(name)}: Kafka accepts no topic of this name")
            return ref
        state: dict[str, FieldValue] = {
            path: count
            for path, count in zip(("partitions", REPLICATION_FACTOR), counts, strict=True)
            if count
        }
        for key, value in configs.items():
            if _has_unit(key, value):
                fields.leave_out_part(f"topic {quoted(name)}: Kafka refuses {quoted(value)} for {key}")
            else:
                state[CONFIG_PREFIX + key] = value
        live = LiveReplicas(tuple(map(tuple, replicas))) if replicas else None
        self._add(fields, Observed(ref, None, state, live=live))
        if strategy is not Strategy.BALANCED:
            lists = {"replicas": [[*row] for row in replicas]} if replicas else {}
            self._add_to(ref).spec["placement"] = {"strategy": strategy.value, **lists}
        return ref

    def add_acl(
        self,
        fields: Fields,
        principal: str,
        resource: tuple[str, str],
        operations: Sequence[str],
        *,
        pattern: str = "literal",
        host: str = WILDCARD,
        permission: str = "allow",
    ) -> None:
        """Add an ACL for each operation, all in any usual spelling: `TRANSACTIONAL_ID`, `DescribeConfigs`.

        What Kafka or a manifest does not support is named as left out.

        Args:
            resource: The type of the resources, and their name or prefix.
            pattern: Whether it is a name or a prefix.
            host: The host of the client.
            permission: Whether it is allowed or denied.
        """
        type_name, name = resource
        given = {"principal": principal, "type of resource": type_name, "name of a resource": name}
        given |= {
            "pattern type": pattern,
            "host": host,
            "permission": permission,
            "operation": "".join(operations),
        }
        if missing := [noun for noun, value in given.items() if not value.strip()]:
            fields.leave_out_part(f"ACL of {principal or 'nobody'}: it has no {' and no '.join(missing)}")
            return
        resource_type = _TYPES.get(_normalise(type_name))
        is_prefix = _PATTERNS.get(_normalise(pattern))
        is_allowed = {"allow": True, "deny": False}.get(_normalise(permission))
        if resource_type is None or is_prefix is None or is_allowed is None:
            named = f"{permission} on {pattern} {type_name} {quoted(name)}"
            fields.leave_out_part(f"ACL of {principal}: Kafka has no such ACL: {named}")
            return
        if resource_type is ResourceType.CLUSTER and (name, is_prefix) != (CLUSTER_NAME, False):
            fields.leave_out_part(f"ACL of {principal}: the only cluster is {CLUSTER_NAME}")
            return
        for text in operations:
            try:
                operation = parse_operation(text, resource_type)
                parse_principal(principal)
            except ValueError as error:
                fields.leave_out_part(f"ACL of {principal}: {error}")
                continue
            acl = Acl(resource_type, name, is_prefix, principal, host, operation, is_allowed)
            ref = principal_ref(principal)
            self._locations.setdefault(ref, fields.location)
            # Kafka has each ACL once, however many services need it.
            self._acls.setdefault(ref, {})[write_path(acl)] = write_value(acl)

    def add_right(self, fields: Fields, principal: str, right: Right) -> None:
        """Add the ACLs that allow a principal some operations, from every host."""
        resource_type, name, pattern, operations = right
        self.add_acl(fields, principal, (resource_type, name), operations, pattern=pattern)

    def add_quota(
        self, fields: Fields, parts: Mapping[str, str | None], limits: Mapping[str, str]
    ) -> ResourceRef | None:
        """Add a quota; returns its reference, or None if it has no limit.

        Args:
            parts: The name of each type of its entity; None for the default of the type.
            limits: The limits by Kafka's names; numbers in any notation.
        """
        for type_ in parts.keys() - {*TYPES}:
            fields.reject(f"{quoted(type_)} is not a type of quota", f"types: {', '.join(TYPES)}")
            return None
        state: dict[str, FieldValue] = {}
        for name, text in limits.items():
            if _LIMIT.fullmatch(text) and isfinite(float(text)):
                state[CONFIG_PREFIX + name] = value_text(name, float(text))
            else:
                fields.reject(f"{name} must be a number, not {quoted(text)}")
        if not limits:
            fields.leave_out_part("a quota without limits, which Kafka does not keep")
        if not state:
            return None
        try:
            entity = build_entity(parts)
        except ValueError as error:
            fields.reject(str(error))
            return None
        ref = ResourceRef(ClientQuotaKind.name, entity.name)
        self._add(fields, Observed(ref, None, state))
        return ref

    def add_subject(
        self,
        fields: Fields,
        name: str,
        text: str,
        *,
        schema_type: str = AVRO,
        references: Sequence[SchemaReference] = (),
        level: str = "",
    ) -> ResourceRef | None:
        """Add a subject of a schema registry; returns its reference, or None if no manifest can declare it.

        Args:
            schema_type: The type of the schema, in upper or lower case.
            references: The schemas that this one uses.
            level: Its compatibility level; empty for that of the registry.
        """
        ref = ResourceRef(SubjectKind.name, name)
        schema_type = schema_type.upper()
        try:
            schema = RegisteredSchema(compact(text, schema_type), schema_type, tuple(references))
        except ValueError as error:
            fields.leave_out_part(f"schema of {name}: {error}")
            return None
        state: dict[str, FieldValue] = {SCHEMA: schema.to_value()}
        if level in GUARANTEES:
            state[COMPATIBILITY] = level
        elif level:
            fields.leave_out_part(f"subject {name}: {quoted(level)} is not a compatibility level")
        if (known := self._resources.get(ref)) is None:
            self._add(fields, Observed(ref, None, state))
        elif known.state != state:
            fields.leave_out_part(f"subject {name}: another schema of it is at {self._locations[ref]}")
        return ref

    def list_unconverted(self, made: Import) -> tuple[Problem, ...]:
        """List what the manifests of an import lack, by place: also what no manifest can declare."""
        problems = [
            Problem(f"{ref}: {line}", self._locations[ref])
            for ref, line in (*made.partial, *made.not_converged.items(), *made.undeclarable.items())
            if line != ODD_VALUE  # which it is, is in another line
        ]
        # A role, or a list of consumers, may be read several times.
        distinct = dict.fromkeys([*self.notes.left_out, *problems])
        return tuple(sorted(distinct, key=lambda problem: problem.location or ()))

    def leave_out_credential(self, fields: Fields, user: str) -> None:
        """Name a SCRAM credential as left out."""
        fields.leave_out_all(f"the SCRAM credential of {user}: declare it as a User, with its password")

    def describe(
        self, ref: ResourceRef, labels: Mapping[str, str], annotations: Mapping[str, str] | None = None
    ) -> None:
        """Add labels and annotations to a manifest; of several values of a name, all are kept."""
        added = self._add_to(ref)
        for target, given in ((added.labels, labels), (added.annotations, annotations or {})):
            for name, value in given.items():
                known = target.get(name, "").split(", ") if name in target else []
                target[name] = ", ".join(dict.fromkeys([*known, value]))

    def _add_to(self, ref: ResourceRef) -> Additions:
        return self.additions.setdefault(ref, Additions())

    def _add(self, fields: Fields, observed: Observed) -> None:
        self._locations.setdefault(observed.ref, fields.location)
        self.declare(fields, str(observed.ref))
        self._resources[observed.ref] = observed


def _has_unit(key: str, value: str) -> bool:
    """Return whether a manifest of kafkaform may have a value, such as `7d`, that brokers refuse."""
    known = find_topic_config(key)
    if known is None or known.unit is None or _WHOLE.fullmatch(value.strip()):
        return False
    try:
        canonical(known, value)
    except ValueError:
        return False  # the manifest could not be read, either
    return True


def _join_name(cluster: Sequence[str]) -> str:
    return "/".join(filter(None, cluster))


def _has_name(cluster: Sequence[str], name: str) -> bool:
    return name in (cluster[0], _join_name(cluster))


def _is_refined(cluster: Sequence[str], other: Sequence[str]) -> bool:
    """Return whether another cluster may be the same one, and has more of its name."""
    return cluster != other and all(part in ("", known) for part, known in zip(cluster, other, strict=True))


def _normalise(text: str) -> str:
    return text.replace("-", "").replace("_", "").lower()
