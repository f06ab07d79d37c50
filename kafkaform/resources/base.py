"""The contract of a kind of resource with the loader, the planner and the executor."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from functools import partial
from operator import eq
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias

from kafkaform.core import kafka_configs
from kafkaform.core.kafka_configs import ConfigType
from kafkaform.core.model import CONFIG_PREFIX, SAFE, UNREAD_DATA, Create, Delete, Observed, Recreate
from kafkaform.core.plans import Binding
from kafkaform.core.rights import CLUSTER, Right
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


Shape: TypeAlias = Literal["cylinder", "box"]
"""The shape of a resource in a graph, by Graphviz's name."""

Layer: TypeAlias = dict[str, object]
"""A manifest's spec, or a part of one, in the kind's normal form: one spelling for each setting."""

ReadTopics: TypeAlias = "Callable[[str], Sequence[str] | None]"
"""Returns the topics that a declared group reads; None if they are not declared."""

# None is a valid value (it unsets a config), so another object has to mark an invalid one.
BAD = object()
"""Replaces a value whose problem has been reported."""


BROKERS = "brokers"
"""The service that manages most kinds."""
_KEPT_LENGTH = 10_000
"""The characters that the record keeps of a longer value."""


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
        file_text: The text to write if the manifest names a file with the value.
    """

    manifest: Desired
    path: str
    value: FieldValue | ListItem
    file_text: str = ""


class FieldOutcome(Enum):
    """The outcome of a planned change of a field that has nothing left to do."""

    DONE = "the live value is the planned one"
    MOVED = "the value was changed since the plan"


class Restoration(NamedTuple):
    """A deleted resource as a manifest can restore it.

    Attributes:
        lost: What no manifest restores; None if there is nothing.
    """

    observed: Observed
    lost: str | None = None


class UpdateContext(Value):
    """The input of the risk assessment of a field: the whole resource, before and after.

    Attributes:
        before: The effective values now, for every field that can be read.
        after: The effective values after the update; None where a default is unknown.
        intent: The intended use of the resource.
        facts: The data about the cluster.
        uid: The id of a topic; None for other kinds, and where brokers have none.
    """

    ref: ResourceRef
    before: State
    after: State
    intent: Intent
    facts: Facts
    uid: str | None = None


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


WHOLE = PolicyPart("", MappingProxyType({}))


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
        service: Who manages them.
    """

    collection: str
    noun: str
    folder: str
    contents: str
    endings: str
    shape: Shape
    service: str = BROKERS


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


class KindScope(Value):
    """The resources of a kind that are read and deleted without a manifest, and the right to read them.

    Attributes:
        listed: Whether drift and graphs list undeclared resources even if no manifest declares any of the
            kind.
        prunable: Whether `--prune` may delete undeclared resources.
        names_principals: Whether the names are principals, which have globs of their own in kafkaform.yaml.
        reading_rights: The operations that reading requires, as Kafka's ACLs name them.
        is_cluster_right: Whether they are on the cluster, as single resources have none.
    """

    listed: bool = True
    prunable: bool = False
    names_principals: bool = False
    reading_rights: tuple[str, ...] = ("Describe", "DescribeConfigs")
    is_cluster_right: bool = False


class Written(Value):
    """The spec that declares a live resource.

    Attributes:
        left_out: A line for each property that a manifest cannot declare.
        suffixes: For each text that may be in a file of its own, the end of the file's name.
        name: The name of the manifest; empty for that of the resource.
    """

    spec: Mapping[str, object]
    left_out: tuple[str, ...] = ()
    suffixes: Mapping[str, str] = field(default_factory=dict)
    name: str = ""


class Field:
    """One field of the resources of a kind: the meaning of its values, and the risk of changing them.

    The methods have defaults that suit most fields.

    Attributes:
        path: The field, such as `partitions` or `config.retention.ms`.
        ending: The way in which its value may disappear without an apply, for messages.
        compared: Whether it is compared between two clusters.
        unseen_hazard: The hazard of setting a value of which readings do not show whether it is the live one;
            None if they do. A consent to it in the manifest is a reason to set the value.
    """

    __slots__ = ("kind", "path")

    ending = "removed"
    compared = True
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

    def bind(self, _change: FieldChange) -> Binding | None:
        """Return the scope that a consent in a manifest to a hazard of a change must name.

        None if nothing distinguishes this change from a later one: naming the hazard is enough.
        """
        return None

    def explain_deferral(self, _context: UpdateContext) -> str | None:
        """Return the reason why a change is shown but not carried out; None if it is."""
        return None

    def describe(self, _before: FieldValue, _after: FieldValue) -> tuple[str, tuple[str, ...]] | None:
        """Describe a change, as a whole and part by part; None if before and after are clearer.

        The value before is None in a create.
        """
        return None

    def summarise(self, _value: FieldValue) -> str | None:
        """Return a value that is too long for a line in a few words; None for a short one."""
        return None

    def shorten(self, value: str) -> str:
        """Return what the record of applies keeps of a value that is too long for it."""
        return value[:_KEPT_LENGTH]

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
        return config_keys(self.kind).get(self.path.removeprefix(CONFIG_PREFIX))


class Kind(ABC):
    """One kind of resource: pure functions over its specs, states and changes.

    The life of a resource, and what is called when:

    1. The spec of a manifest, checked by the JSON Schema, and each layer of defaults and overrides is
       normalised (`normalise`); the merged layers become the desired state (`resolve`).
    2. The adapter of the kind in `cluster/` reads the live resource. Its state has the same fields (`field`),
       and `import` and `get` write it as a spec (`write`).
    3. The diff compares what can be applied to the live resource (`reconcile`) field by field.
    4. The risk of each change is assessed: of a field by the field, of a creation or deletion by `judge`. It
       is assessed again right before an apply.
    5. The apply sends what carries a change out (`operations`), and reads the resource again.

    What only some kinds have is a capability, one of the classes below; stages ask `KINDS.having(...)`.

    Attributes:
        name: The `kind:` of a manifest.
        words: The words for its resources.
        schema: The name of the JSON Schema of its manifests in schemas/. Its keywords `x-...` say what the
            loader and the editor need to know of a field; see `core/schema_files.py`.
        hazards: The hazards of its changes.
        scope: The resources that are read and deleted without a manifest.
    """

    name: str
    words: KindWords
    schema: str
    hazards: Hazards
    scope: KindScope

    @abstractmethod
    def normalise(self, layer: Mapping[str, object], report: ReportProblem, /) -> Layer:
        """Normalise a spec that matches the schema; report settings with invalid values."""

    @abstractmethod
    def resolve(self, layer: Layer, report: ReportProblem, /) -> tuple[State | None, Intent]:
        """Split a merged, normalised spec into the desired state (None: absent) and the intent."""

    @abstractmethod
    def write(
        self, observed: Observed, config: Mapping[str, object], under: Mapping[str, object], /
    ) -> Written:
        """Return the spec that declares a live resource.

        Args:
            config: Its own configs as manifests write them.
            under: The defaults that will apply to the manifest.
        """

    @abstractmethod
    def field(self, path: str) -> Field:
        """Return the field with this path."""

    def reconcile(self, state: State, _observed: Observed, _facts: Facts) -> State:
        """Return the part of a declared state that can be applied to an existing resource.

        It includes what is not declared but was chosen for this cluster.
        """
        return state

    @abstractmethod
    def judge(self, change: Create | Delete, observed: Observed | None, facts: Facts) -> RiskAssessment:
        """Assess the risk of creating or deleting a resource; `observed` is the one to delete."""

    @abstractmethod
    def operations(self, change: Change, /) -> tuple[Operation, ...]:
        """Return the operations that carry out a change, without deferred fields, in order."""


class Configured(Kind):
    """A kind whose resources have Kafka configs.

    Attributes:
        config_resource: Kafka's type of these resources (ConfigResource.Type); empty if configs of another
            request are meant, such as quotas.
        shorthands: The shorthands of configs, by field.
    """

    config_resource: str = ""
    shorthands: Mapping[str, Shorthand] = MappingProxyType({})

    @abstractmethod
    def config_keys(self) -> Mapping[str, ConfigKey]:
        """Return the configs by name."""

    def find_defaults(self, _broker_configs: Mapping[str, str | None], /) -> Mapping[str, str | None]:
        """Return the default of every config, given a broker's configs."""
        return {}

    def is_vendor(self, _name: str, /) -> bool:
        """Return whether a config is of a vendor other than Apache Kafka, so that policies can use it."""
        return False


class EditLocator(Kind):
    """A kind whose manifests do not write each field in a line of its own."""

    @abstractmethod
    def locate_edit(self, desired: Desired, path: str, value: FieldValue) -> ManifestEdit | str | None:
        """Return the edit of a manifest that gives a field a value, or the reason why there is none.

        It is None if the manifests already declare the value.
        """


class Itemized(EditLocator):
    """A kind whose fields are things of their own, such as ACLs, which several manifests may declare."""

    @abstractmethod
    def combine(
        self, manifests: Sequence[Desired], read_by: ReadTopics, /
    ) -> tuple[Sequence[Desired], Sequence[Problem]]:
        """Return the resources of the kind that all manifests declare together, and the problems of that.

        Args:
            manifests: The manifests of all kinds, each as the resource of its name.
            read_by: Returns the topics that a declared group reads; None if they are not declared.
        """


class WholeChecked(Kind):
    """A kind whose manifests may have problems that their parts alone do not show, such as a wrong name."""

    @abstractmethod
    def find_problems(self, desired: Desired, /) -> Iterable[Problem]:
        """Find such problems of a manifest."""


class PlanWide(Kind):
    """A kind whose changes of one plan are assessed together.

    Attributes:
        plan_wide_codes: The codes of its notes about them.
    """

    plan_wide_codes: frozenset[str]

    def foresee(self, _changes: Iterable[Change], facts: Facts) -> Facts:
        """Return the facts with the effect of all changes of a plan together, if each is assessed by it."""
        return facts

    @abstractmethod
    def note_plan_wide(self, changes: Sequence[Change], facts: Facts, /) -> Iterable[Diagnostic]:
        """Return notes about the changes of a plan together, without refused ones; see `plan_wide_codes`."""


class Restorable(Kind):
    """A kind whose deleted resources a manifest cannot restore from their last state alone."""

    @abstractmethod
    def restore(self, ref: ResourceRef, state: State, record: str) -> Restoration:
        """Return a deleted resource from its last state, as far as a manifest can restore it.

        Args:
            record: The command that shows it.
        """


class PolicyChecked(Kind):
    """A kind with fields for policies besides its configs and the single values of its spec."""

    @abstractmethod
    def policy_fields(self) -> Mapping[str, ConfigKey]:
        """Return the keys of these fields by path."""

    def list_policy_parts(self, _desired: Desired, /) -> Iterable[PolicyPart]:
        """List the parts of a resource that policies check one by one."""
        return [WHOLE]


def config_keys(kind: Kind) -> Mapping[str, ConfigKey]:
    """Return the configs of a kind by name; empty if it has none."""
    return kind.config_keys() if isinstance(kind, Configured) else {}


def list_shorthands(kind: Kind) -> Mapping[str, Shorthand]:
    """Return the shorthands of the configs of a kind, by field."""
    return kind.shorthands if isinstance(kind, Configured) else {}


def list_reading_rights(kind: Kind, name: str) -> tuple[Right, ...]:
    """Return the rights that reading a resource requires."""
    resource = (CLUSTER,) if kind.scope.is_cluster_right else (kind.words.noun, name)
    return tuple(Right(operation, *resource) for operation in kind.scope.reading_rights)


def bind_consent(kind: Kind, change: Change, field: FieldChange | None) -> Binding | None:
    """Return the scope that a consent in a manifest to a hazard of a change must name.

    Args:
        kind: The kind of the resource.
        field: The field of an update that has the hazard; None for other changes.

    Returns:
        None if nothing distinguishes this change from a later one: naming the hazard is enough.
    """
    if field is not None:
        return kind.field(field.path).bind(field)
    # A resource that is created again under the name has another id, and its deletion needs another consent.
    if isinstance(change, Delete | Recreate) and change.uid is not None:
        return Binding(f"of {change.uid}", partial(eq, f"of {change.uid}"))
    # The same consent is meant if other ACLs of the principal exist.
    if isinstance(change, Create) and isinstance(kind, Itemized) and len(change.state) == 1:
        scope = f"of {next(iter(change.state))}"
        return Binding(scope, {"", scope}.__contains__)
    return None


def locate_edit(kind: Kind, desired: Desired, path: str, value: FieldValue) -> ManifestEdit | str | None:
    """Return the edit of a manifest that gives a field a value, or the reason why there is none."""
    if isinstance(kind, EditLocator):
        return kind.locate_edit(desired, path, value)
    return ManifestEdit(desired, path, value)


def restore(kind: Kind, ref: ResourceRef, state: State, record: str) -> Restoration:
    """Return a deleted resource from its last state, as far as a manifest can restore it."""
    if isinstance(kind, Restorable):
        return kind.restore(ref, state, record)
    return restore_state(ref, state)


def restore_state(ref: ResourceRef, state: State) -> Restoration:
    """Return a deleted resource with its last state."""
    return Restoration(Observed(ref, None, state, own_configs(state)))


def field_order(kind: Kind) -> Callable[[str], tuple[int, str]]:
    """Return the sort key of the fields of a kind, by path."""
    return lambda path: kind.field(path).order


def explain_unclassified(name: str, *, known: bool) -> str:
    """Return the reason why changing a config that its kind has not classified is not safe.

    Args:
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
