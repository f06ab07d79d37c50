"""The contract of a kind of resource with the loader, the planner and the executor."""

from __future__ import annotations

from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias

from kafkaform.core import kafka_configs
from kafkaform.core.kafka_configs import ConfigType
from kafkaform.core.model import CONFIG_PREFIX, SAFE, UNREAD_DATA, Observed
from kafkaform.core.rights import Right
from kafkaform.core.values import Value, field, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kafkaform.core.config_values import ConfigKey
    from kafkaform.core.errors import Problem
    from kafkaform.core.model import (
        Change,
        Desired,
        Diagnostic,
        Facts,
        FieldChange,
        FieldValue,
        Intent,
        ResourceRef,
        RiskAssessment,
        Setting,
        State,
    )
    from kafkaform.core.operations import Operation
    from kafkaform.core.plans import Binding


Shape: TypeAlias = Literal["cylinder", "box"]
"""The shape of a resource in a graph, by Graphviz's name."""

Layer: TypeAlias = dict[str, object]
"""A manifest's spec, or a part of one, in the kind's normal form: one spelling for each setting."""

ReadTopics: TypeAlias = "Callable[[str], Sequence[str] | None]"
"""Returns the topics that a declared group reads; None if they are not declared."""

# None is a valid value (it unsets a config), so another object has to mark an invalid one.
BAD = object()
"""Replaces a value whose problem has been reported."""


class ReportProblem(Protocol):
    """Reports a problem of a spec."""

    def __call__(
        self, path: tuple[str | int, ...], message: str, hint: str | None, /, *, key: bool = False
    ) -> None:
        """Report a problem: the path of the value (or, with `key`, of its name), the message, and a hint."""


class Shorthand(Value):
    """A second way to write a config in a spec: `section: {field: value}`.

    Attributes:
        section: The key of the spec.
        field: The key below it.
        is_main: Whether `section: value` means this field.
    """

    section: str
    field: str
    is_main: bool = False


class Irreversible(Value):
    """The reason why a manifest cannot restore the earlier value of a field.

    Attributes:
        reason: The reason, and what to do instead.
        is_derived: Whether nothing has to be done, as the value follows from other fields.
        offset: The topic, partition and offset that `kafkaform reset` can set; None for other fields.
    """

    reason: str
    is_derived: bool = False
    offset: tuple[str, int, int] | None = None


class ListItem(Value):
    """An item of a list in a manifest, to be added or removed.

    Attributes:
        item: The item, in normal form.
        added: Whether it is added.
    """

    item: Mapping[str, object]
    added: bool


class ManifestEdit(Value):
    """The edit of one manifest by which a field of a resource gets another value.

    Attributes:
        manifest: The manifest, as the resource of its name.
        path: A field, `state`, or a list of the spec.
        value: The value; None to remove it.
    """

    manifest: Desired
    path: str
    value: FieldValue | ListItem


class FieldOutcome(Enum):
    """The outcome of a planned change of a field that has nothing left to do."""

    DONE = "the live value is the planned one"
    MOVED = "the value was changed since the plan"


class AffectedGroups(Enum):
    """The groups that a change of a resource affects."""

    NONE = "no group"
    READERS = "the groups that read the resource"
    ITSELF = "the resource, a group that may be in use without a member: it is read twice"


class Restoration(NamedTuple):
    """A deleted resource as a manifest can restore it.

    Attributes:
        observed: The resource.
        lost: What no manifest restores; None if there is nothing.
    """

    observed: Observed
    lost: str | None = None


class UpdateContext(Value):
    """The input of the risk assessment of a field: the whole resource, before and after.

    Attributes:
        ref: The resource.
        before: The effective values now, for every field that can be read.
        after: The effective values after the update; None where a default is unknown.
        intent: The intended use of the resource.
        facts: The data about the cluster.
    """

    ref: ResourceRef
    before: State
    after: State
    intent: Intent
    facts: Facts


class RecordFacts(Value):
    """The data that a plan takes from the record of applies.

    Attributes:
        lost: The values that earlier applies set and that are gone, by resource and path.
    """

    lost: Mapping[ResourceRef, Mapping[str, Setting]] = field(default_factory=dict)


class PolicyPart(NamedTuple):
    """A part of a resource that policies check by itself; usually, a resource is one part.

    Attributes:
        path: Its field; empty for the whole resource.
        values: The fields that only it has, for policies.
    """

    path: str
    values: Mapping[str, str]


class UsageFacts(Value):
    """The topics and groups that can be used on a cluster, and the declared use of them.

    Attributes:
        topics: The topics that exist, sorted.
        groups: The groups that were listed or are declared, sorted.
        live_groups: The groups that were listed.
        readers: The topics that each declared group reads.
    """

    topics: Sequence[str] = ()
    groups: Sequence[str] = ()
    live_groups: frozenset[str] = frozenset()
    readers: Mapping[str, Sequence[str]] = field(default_factory=dict)


class KindWords(Value):
    """The words for the resources of a kind.

    Attributes:
        collection: The plural, for messages.
        noun: The singular on the command line, in messages, and as a label of metrics.
        folder: The subfolder into which `import` writes manifests; empty for none.
        contents: The contents that a deletion loses, for messages.
        endings: The ways in which one may disappear without an apply, for messages.
        shape: The shape in a graph.
    """

    collection: str
    noun: str
    folder: str
    contents: str
    endings: str
    shape: Shape


class Hazards(Value):
    """The hazards of the changes of a kind.

    Attributes:
        names: The names by which changes can be consented to or forbidden.
        includes: Hazards that include another one: a consent to both is needed.
    """

    names: frozenset[str]
    includes: Mapping[str, str] = field(default_factory=dict)

    def list_names(self, assessment: RiskAssessment) -> tuple[str, ...]:
        """Return the hazards of an assessment, each preceded by the one that it includes."""
        pairs = ((self.includes.get(hazard), hazard) for hazard in assessment.hazards)
        return tuple(name for pair in pairs for name in pair if name is not None)

    def to_consent(self, assessment: RiskAssessment) -> tuple[str, ...]:
        """Return the hazards to consent to.

        If a part of the data could not be read, it is only that: a consent that was given without knowing
        the amount of data must not hold once it is known, and vice versa.
        """
        return (UNREAD_DATA,) if assessment.data_unread else self.list_names(assessment)


class ConfigSet:
    """Kafka's configs of a kind; this one has none.

    Attributes:
        resource: Kafka's type of the resources that have them (ConfigResource.Type); empty without any.
    """

    resource = ""

    def keys(self) -> Mapping[str, ConfigKey]:
        """Return the configs by name."""
        return {}

    def find_defaults(self, _broker_configs: Mapping[str, str | None]) -> Mapping[str, str | None]:
        """Return the default of every config, given a broker's configs."""
        return {}

    def is_vendor(self, _name: str) -> bool:
        """Return whether a config is of a vendor other than Apache Kafka, so that policies can use it."""
        return False


class ManifestFormat(Protocol):
    """The `spec` of the manifests of a kind.

    Attributes:
        schema: The name of its JSON Schema in schemas/.
        sentinel_spec: A spec whose values no manifest can have: placeholders for unknown defaults.
        shorthands: The shorthands of configs, by field.
        verbatim: The keys below which scalars keep their source text, besides `config`: the kind parses them.
        secrets: The keys whose value is a reference to a secret, `${env:NAME}` or `${file:PATH}`.
        counts: The fields that are whole numbers, and that every resource of the kind has.
    """

    schema: str
    sentinel_spec: Layer
    shorthands: Mapping[str, Shorthand] = MappingProxyType({})
    verbatim: frozenset[str] = frozenset()
    secrets: frozenset[str] = frozenset()
    counts: frozenset[str] = frozenset()

    def normalise(self, layer: Mapping[str, object], report: ReportProblem) -> Layer:
        """Normalise a spec that matches the schema; report settings with invalid values."""

    def resolve(self, layer: Layer, report: ReportProblem) -> tuple[State | None, Intent]:
        """Split a merged, normalised spec into the desired state (None: absent) and the intent."""

    def combine(
        self, manifests: Sequence[Desired], _read_by: ReadTopics
    ) -> tuple[Sequence[Desired], Sequence[Problem]]:
        """Return the resources that all manifests of the kind declare together, and the problems of that.

        Args:
            manifests: The manifests, each as the resource of its name.
            read_by: Returns the topics that a declared group reads; None if they are not declared.
        """
        return manifests, ()

    def find_problems(self, _desired: Desired) -> Iterable[Problem]:
        """Find problems of a manifest that its parts alone do not show, such as a wrong name."""
        return ()

    def write(
        self, observed: Observed, config: dict[str, object], under: Mapping[str, object], left_out: list[str]
    ) -> dict[str, object]:
        """Return the spec that declares a live resource, without `config`.

        Args:
            observed: The resource.
            config: Its own configs as manifests write them; those that a shorthand replaces are removed.
            under: The defaults that will apply to the manifest.
            left_out: Gets a line for each property that a manifest cannot declare.
        """

    def is_idle(self, _observed: Observed) -> bool:
        """Return whether a live resource has nothing yet that its manifest has to declare."""
        return False

    def policy_fields(self) -> Mapping[str, ConfigKey]:
        """Return the fields that policies can use besides configs and single values of a spec."""
        return {}

    def list_policy_parts(self, _desired: Desired) -> Iterable[PolicyPart]:
        """List the parts of a resource that policies check one by one."""
        return [PolicyPart("", {})]


class Field:
    """One field of the resources of a kind: the meaning of its values, and the risk of changing them.

    The methods have defaults that suit most fields.

    Attributes:
        kind: The kind.
        path: The field, such as `partitions` or `config.retention.ms`.
        ending: The way in which its value may disappear without an apply, for messages.
        unseen_hazard: The hazard of setting a value of which readings do not show whether it is the live one;
            None if they do. A consent to it in the manifest is a reason to set the value.
    """

    __slots__ = ("kind", "path")

    ending = "removed"
    unseen_hazard: str | None = None

    def __init__(self, kind: Kind, path: str) -> None:
        self.kind = kind
        self.path = path

    @property
    def order(self) -> tuple[int, str]:
        """Its sort key in plans."""
        return 0, self.path

    @property
    def ignored(self) -> bool:
        """True if something other than manifests manages it, so that it is never compared."""
        return False

    def equal(self, a: FieldValue, b: FieldValue) -> bool:
        """Return whether two values are the same to Kafka."""
        return a == b

    def live(self, observed: Observed, _facts: Facts | None = None) -> FieldValue:
        """Return the value of a live resource; None if it has no own one."""
        return observed.state.get(self.path)

    def visible(self, value: FieldValue) -> FieldValue:
        """Return the part of a value that a reading of the cluster shows."""
        return value

    def is_unseen(self, _change: FieldChange, _value: FieldValue) -> bool:
        """Return whether a live value does not show whether a change was made."""
        return False

    def describe_later_change(self, _change: FieldChange) -> str:
        """Describe how a value became another one than the last apply set, for drift."""
        return "changed since, but not by a recorded apply"

    def remaining(self, change: FieldChange, observed: Observed) -> FieldChange | FieldOutcome:
        """Return the part of a change that is left to do, by the live value, or the outcome."""
        value = self.live(observed)
        # Compared with the target first: a plan that was applied half-way can be applied again.
        if self.equal(value, change.after):
            return FieldOutcome.DONE
        if self.equal(value, change.before):
            return change
        # In between, as after an apply that was killed: the rest of the change starts there.
        if self.is_intermediate(change, value):
            return replace(change, before=value)
        return FieldOutcome.MOVED

    def is_intermediate(self, _change: FieldChange, _value: FieldValue) -> bool:
        """Return whether a change that stopped half-way can leave this value behind."""
        return False

    def default(self, facts: Facts) -> FieldValue:
        """Return the effective value of a resource without an own one; None if unknown."""
        return facts.config_default(self.kind.name, self.path.removeprefix(CONFIG_PREFIX))

    def judge(self, _context: UpdateContext) -> RiskAssessment:
        """Assess the risk of a change."""
        return SAFE

    def explain_deferral(self, _context: UpdateContext) -> str | None:
        """Return the reason why a change is shown but not carried out; None if it is."""
        return None

    def describe(self, _before: FieldValue, _after: FieldValue) -> tuple[str, tuple[str, ...]] | None:
        """Describe a change, as a whole and part by part; None if before and after are clearer.

        The value before is None in a create.
        """
        return None

    def undeclarable(self, _value: FieldValue) -> str | None:
        """Return the reason why a manifest cannot declare a live value; None if it can."""
        return None

    def explain_irreversible(self, _change: FieldChange, _declared: State | None) -> Irreversible | None:
        """Return the reason why a manifest cannot undo a change; None if it can.

        The declared state is that of the current manifest; None without one.
        """
        return None


class ConfigField(Field):
    """A field that is a Kafka config."""

    def equal(self, a: FieldValue, b: FieldValue) -> bool:
        """Compare two values by the type of the config."""
        if a == b or a is None or b is None:
            return a == b
        return kafka_configs.equal(self._key, str(a), str(b))

    def undeclarable(self, value: FieldValue) -> str | None:
        """Return why the value is not valid: brokers keep some that manifests must not have."""
        try:
            if value is not None:
                kafka_configs.canonical(self._key, str(value))
        except ValueError as error:
            return str(error)
        return None

    @property
    def _key(self) -> ConfigKey | None:
        """Its description; None if Kafka's catalogue lacks it, as with a vendor's: its values are text."""
        return self.kind.configs.keys().get(self.path.removeprefix(CONFIG_PREFIX))


class Kind(Protocol):
    """One kind of resource: pure functions over its specs, states and changes.

    The methods have defaults that suit most kinds.

    Attributes:
        name: The `kind:` of a manifest.
        words: The words for its resources.
        format: The `spec` of its manifests.
        configs: Its configs.
        hazards: The hazards of its changes.
        listed: Whether drift and graphs list undeclared resources even if no manifest declares any of the
            kind.
        prunable: Whether `--prune` may delete undeclared resources.
        itemized: Whether each field is a thing of its own, such as an ACL, and no property of the resource.
        names_principals: Whether its names are principals, which have globs of their own in kafkaform.yaml.
        has_replicas: Whether it has replicas on brokers, and data whose size they report.
        has_members: Whether it reads what has replicas, with members and committed offsets.
        plan_wide_codes: The codes of its notes about the changes of a plan together.
    """

    name: str
    words: KindWords
    format: ManifestFormat
    configs: ConfigSet
    hazards: Hazards
    listed: bool = True
    prunable: bool = False
    itemized: bool = False
    names_principals: bool = False
    has_replicas: bool = False
    has_members: bool = False
    plan_wide_codes: frozenset[str] = frozenset()

    def field(self, path: str) -> Field:
        """Return the field with this path."""

    def reading_rights(self, name: str) -> tuple[Right, ...]:
        """Return the rights that reading a resource requires."""
        return tuple(Right(operation, self.words.noun, name) for operation in ("Describe", "DescribeConfigs"))

    def foresee(self, _changes: Iterable[Change], facts: Facts) -> Facts:
        """Return the facts with the effect of all changes of a plan together, if each is assessed by it."""
        return facts

    def note_plan_wide(self, _changes: Sequence[Change], _facts: Facts) -> Iterable[Diagnostic]:
        """Return notes about the changes of a plan together, without refused ones; see `plan_wide_codes`."""
        return ()

    def judge_create(self, _ref: ResourceRef, _state: State, _facts: Facts) -> RiskAssessment:
        """Assess the risk of creating a resource."""
        return SAFE

    def judge_delete(self, observed: Observed, facts: Facts) -> RiskAssessment:
        """Assess the risk of deleting a resource."""

    def binding(self, _change: Change, _field: FieldChange | None) -> Binding | None:
        """Return the scope that a consent in a manifest to a hazard of a change must name.

        Args:
            change: The change.
            field: The field of an update that has the hazard; None for a create or a delete.

        Returns:
            None if nothing distinguishes this change from a later one: naming the hazard is enough.
        """
        return None

    def operations(self, change: Change) -> tuple[Operation, ...]:
        """Return the operations that carry out a change, without deferred fields, in order."""

    def locate_edit(self, desired: Desired, path: str, value: FieldValue) -> ManifestEdit | str | None:
        """Return the edit of a manifest that gives a field a value, or the reason why there is none.

        It is None if the manifests already declare the value.
        """
        return ManifestEdit(desired, path, value)

    def reads(self, _intent: Intent) -> tuple[str, ...]:
        """Return the topics that a resource reads."""
        return ()

    def applicable(self, state: State, _observed: Observed, _facts: Facts) -> State:
        """Return the part of a declared state that can be applied to an existing resource.

        It includes what is not declared but was chosen for this cluster.
        """
        return state

    def obstacle(self, _change: Change, _observed: Observed) -> tuple[str, str | None] | None:
        """Return why the live resource prevents a change, and what to do; None if it does not.

        It is called when a plan is made, and again right before it is applied.
        """
        return None

    def affected_groups(self, _change: Change, _observed: Observed | None) -> AffectedGroups:
        """Return which groups a change affects: they are read before it is carried out."""
        return AffectedGroups.NONE

    def comparable_state(self, observed: Observed) -> State:
        """Return the fields of a live resource by which two clusters are compared."""
        return {path: value for path, value in observed.state.items() if not self.field(path).ignored}

    def first_offsets(self, _change: Change) -> Mapping[str, str]:
        """Return the fields of a change that commit first offsets, each with the name of its topic."""
        return {}

    def restore(self, ref: ResourceRef, state: State, _record: str) -> Restoration:
        """Return a deleted resource from its last state, as far as a manifest can restore it.

        Args:
            ref: The resource.
            state: Its last state.
            record: The command that shows it.
        """
        return Restoration(Observed(ref, None, state, own_configs(state)))


def field_order(kind: Kind) -> Callable[[str], tuple[int, str]]:
    """Return the sort key of the fields of a kind, by path."""
    return lambda path: kind.field(path).order


def explain_unclassified(name: str, *, known: bool) -> str:
    """Return the reason why changing a config that its kind has not classified is not safe.

    Args:
        name: The config.
        known: Whether it is a config of Apache Kafka.
    """
    if known:
        return f"the effect of changing {name} is unknown to this version of kafkaform"
    version = kafka_configs.kafka_version()
    return (
        f"{name} is unknown to Apache Kafka {version}: its effect depends on the broker's vendor or version"
    )


def own_configs(state: State) -> State:
    """Return the configs of a state."""
    return {path: value for path, value in state.items() if path.startswith(CONFIG_PREFIX)}


def canonical_value(
    key: ConfigKey | None, name: str, value: object, path: tuple[str, ...], report: ReportProblem
) -> object:
    """Return the canonical text of a manifest's config value, None for null, or BAD after reporting it.

    Args:
        key: The config; None if it is not one of Apache Kafka's.
        name: The config's name.
        value: The value in the manifest: a scalar, a list, or null.
        path: The path of the value.
        report: Reports a problem.
    """
    if value is None:
        return None
    if isinstance(value, list):
        if key is not None and key.type is not ConfigType.LIST:
            report(path, f"{name}: is not a list", "write one value")
            return BAD
        # Kafka has no lists: the value of a LIST config is one text with commas.
        value = ",".join(map(str, value))
    try:
        return kafka_configs.canonical(key, str(value))
    except ValueError as error:
        report(path, str(error), None)
        return BAD
