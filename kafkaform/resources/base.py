"""What the planner, the loader and the executor need to know of a kind of resource.

Config values of a manifest, in canonical spelling; the same for every kind that has configs.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import (
    TYPE_CHECKING,
    Literal,
    Protocol,
    TypeAlias,
)

from kafkaform.core import kafka_configs
from kafkaform.core.kafka_configs import ConfigType
from kafkaform.core.model import CONFIG_PREFIX, SAFE, UNREAD_DATA, Observed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkaform.core.config_values import ConfigKey
    from kafkaform.core.model import (
        Change,
        Facts,
        FieldChange,
        FieldValue,
        Intent,
        ResourceRef,
        RiskAssessment,
        State,
    )
    from kafkaform.core.operations import Operation


Shape: TypeAlias = Literal["cylinder", "box"]
"""The shape of a resource in a graph, by Graphviz's name."""

Layer: TypeAlias = dict[str, object]
"""A manifest's spec, or a part of one, in the kind's normal form: one spelling for each setting."""


class ReportProblem(Protocol):
    """Takes a problem of a spec."""

    def __call__(
        self, path: tuple[str | int, ...], message: str, hint: str | None, /, *, key: bool = False
    ) -> None:
        """Report it: the path of the value (or, with `key`, of its name), the message, and a hint."""


@dataclass(frozen=True, slots=True)
class Binding:
    """What a consent in a manifest to a hazard is for, besides the resource: it covers nothing else.

    Attributes:
        text: As it is written behind the hazard, such as `from 7d` or `of TOPIC-ID`.
        fits: Whether another text means the same.
    """

    text: str
    fits: Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Shorthand:
    """A second place in a spec for a config: `section: {field: value}`.

    Attributes:
        section: The key of the spec.
        field: The key below it.
        is_main: Whether `section: value` means this field.
    """

    section: str
    field: str
    is_main: bool = False


@dataclass(frozen=True, slots=True)
class NoWayBack:
    """The reason why no manifest gives a field its earlier value again.

    Attributes:
        reason: The reason, and what to do instead.
        is_needless: Whether nothing has to be done: the value follows from other fields.
        offset: The topic, the partition and the offset that `kafkaform reset` can set; None of other fields.
    """

    reason: str
    is_needless: bool = False
    offset: tuple[str, int, int] | None = None


class FieldOutcome(Enum):
    """What became of a planned change of a field of which nothing is left to do."""

    DONE = "the live value is the planned one"
    MOVED = "somebody else changed the value"


@dataclass(frozen=True, slots=True)
class UpdateContext:
    """What a judgement of one field may look at: the whole resource, before and after.

    Attributes:
        ref: The resource.
        before: The values in force now, for every field that can be read.
        after: The values in force once the update is done; None where a default is not known.
        intent: What the manifest says about the use of the resource.
        facts: What is known of the cluster.
    """

    ref: ResourceRef
    before: State
    after: State
    intent: Intent
    facts: Facts


class Kind(Protocol):
    """One kind of resource: pure functions over its specs, states and changes.

    Where a method has an answer here, it is that of most kinds; the others override it.

    Attributes:
        name: As in `kind:` of a manifest.
        schema: The name of its JSON Schema in schemas/.
        collection: Its name in the plural, for messages.
        noun: What one is called on the command line, in messages, and as a label of metrics.
        folder: Where `import` puts its manifests, below the folder of all; empty for that folder itself.
        contents: What is lost with one that is deleted, for messages.
        endings: How one may have gone that no apply deleted, for messages.
        shape: How one is drawn in a graph.
        nowhere: A spec with values that no manifest can have.
        hazards: The names by which its changes can be consented to or forbidden.
        includes: Hazards that include another one: whoever consents to one has to consent to the other, too.
        config_resource: Kafka's word for the resources that have its configs (ConfigResource.Type); empty
            where Kafka has no configs of the kind.
        prunable: Whether `--prune` may delete one that nobody declares.
        placed: Whether it has replicas on brokers, and data of a size that they tell.
        counts: The fields that are whole numbers, and that every resource of the kind has.
        shorthands: The second places of configs in a spec, by field.
        verbatim: The keys of a spec below which scalars keep their source text, besides `config`: what they
            mean is for the kind to say.
    """

    name: str
    schema: str
    collection: str
    noun: str
    folder: str
    contents: str
    endings: str
    shape: Shape
    nowhere: Layer
    hazards: frozenset[str]
    includes: Mapping[str, str] = MappingProxyType({})
    config_resource: str = ""
    prunable: bool = False
    placed: bool = False
    counts: frozenset[str] = frozenset()
    shorthands: Mapping[str, Shorthand] = MappingProxyType({})
    verbatim: frozenset[str] = frozenset()

    def hazards_of(self, assessment: RiskAssessment) -> tuple[str, ...]:
        """The hazard of a judgement, behind the one that it includes."""
        included = self.includes.get(assessment.hazard)
        return (assessment.hazard,) if included is None else (included, assessment.hazard)

    def consents_of(self, assessment: RiskAssessment) -> tuple[str, ...]:
        """Return the hazards to consent to.

        Where a part of the data could not be read, it is this alone: a consent that was given without
        knowing the data does not hold once the data can be read, and the other way round.
        """
        return (UNREAD_DATA,) if assessment.data_unread else self.hazards_of(assessment)

    def configs(self) -> Mapping[str, ConfigKey]:
        """Kafka's configs of the kind, by name."""

    def inherited(self, _broker_configs: Mapping[str, str | None]) -> Mapping[str, str | None]:
        """The value that a resource without an own one has, for every config, by what a broker is set to."""
        return {}

    def normalise(self, layer: Mapping[str, object], report: ReportProblem) -> Layer:
        """Bring a spec that fits the schema into normal form; settings with bad values are reported."""

    def written(
        self,
        observed: Observed,
        config: dict[str, object],
        under: Mapping[str, object],
        left_out: list[str],
    ) -> dict[str, object]:
        """The spec with which a manifest declares a live resource, without `config`.

        Args:
            observed: The resource.
            config: Its own configs as manifests write them; what the spec says in another way is taken out.
            under: The defaults that will lie under the manifest.
            left_out: Gets a line for each thing that no manifest can say.
        """

    def idle(self, _observed: Observed) -> bool:
        """Whether a live resource has nothing yet that a manifest must say of it."""
        return False

    def resolve(self, layer: Layer, report: ReportProblem) -> tuple[State | None, Intent]:
        """Split a merged, normalised spec into the state to reach (None: absent) and the intent."""

    def field_order(self, path: str) -> tuple[int, str]:
        """The sort key of a field in plans."""

    def ignores(self, _path: str) -> bool:
        """Whether a live field belongs to somebody else and is never compared."""
        return False

    def equal(self, path: str, a: FieldValue, b: FieldValue) -> bool:
        """Whether two values of a field mean the same to Kafka."""

    def live(self, path: str, observed: Observed, _facts: Facts | None = None) -> FieldValue:
        """The value of a field that a live resource has; None if it has no own one."""
        return observed.state.get(path)

    def remaining(self, field: FieldChange, observed: Observed) -> FieldChange | FieldOutcome:
        """What is left to do of the change of a field, from the value that the live resource has now."""
        return compared(self, field, observed)

    def on_the_way(self, _field: FieldChange, _value: FieldValue) -> bool:
        """Whether a change of a field that stopped half-way can leave this value behind."""
        return False

    def default(self, path: str, facts: Facts) -> FieldValue:
        """The value that is in force when the field has no own one; None if it is not known."""
        return facts.config_default(self.name, path.removeprefix(CONFIG_PREFIX))

    def judge(self, path: str, context: UpdateContext) -> RiskAssessment:
        """How risky the change of one field is."""

    def judge_create(self, _ref: ResourceRef, _state: State, _facts: Facts) -> RiskAssessment:
        """How risky the creation of a resource is."""
        return SAFE

    def judge_delete(self, observed: Observed, facts: Facts) -> RiskAssessment:
        """How risky the deletion of a resource is."""

    def binding(self, _change: Change, _field: FieldChange | None) -> Binding | None:
        """What a consent in a manifest to a hazard of a change has to say that it is for.

        Args:
            change: The change.
            field: The field of an update that has the hazard; None for a create or a delete.

        Returns:
            None if there is nothing to tell this change from the next one by: naming the hazard is enough.
        """
        return None

    def deferred(self, _path: str, _context: UpdateContext) -> str | None:
        """Why a change is shown but not carried out, or None if it is."""
        return None

    def operations(self, change: Change) -> tuple[Operation, ...]:
        """What the cluster is asked to do for a change, deferred fields left out, in order."""

    def reads(self, _intent: Intent) -> tuple[str, ...]:
        """The topics that a resource reads."""
        return ()

    def applicable(self, state: State, _observed: Observed, _facts: Facts) -> State:
        """The part of a declared state that an existing resource can still be brought to.

        With it comes what no manifest says, and was chosen for this cluster.
        """
        return state

    def obstacle(self, _change: Change, _observed: Observed) -> tuple[str, str | None] | None:
        """What of the live resource stands against a change, and what to do about it; None if nothing does.

        Asked when a plan is made, and once more right before it is carried out.
        """
        return None

    def concerns_readers(self, _change: Change) -> bool:
        """Whether the groups that read a resource must know of a change of it."""
        return False

    def is_watched(self, _change: Change, _observed: Observed) -> bool:
        """Whether a resource is read twice before a change, as somebody unseen may be using it."""
        return False

    def first_offsets(self, _change: Change) -> Mapping[str, ResourceRef]:
        """The fields of a change that commit first offsets, each with the topic that it is for."""
        return {}

    def policy_fields(self) -> Mapping[str, ConfigKey]:
        """The fields that a policy can ask about besides configs and single values of a spec, by path."""
        return {}

    def is_vendor_config(self, _name: str) -> bool:
        """Tell whether policies can ask about a config that Apache Kafka does not know, as a vendor may."""
        return False

    def described(
        self, _path: str, _before: FieldValue, _after: FieldValue
    ) -> tuple[str, tuple[str, ...]] | None:
        """Describe the change of a field, as a whole and part by part; None where its values say it best.

        Args:
            path: The field.
            before: The value before; None in a create.
            after: The value afterwards.
        """
        return None

    def undeclarable(self, _path: str, _value: FieldValue) -> str | None:
        """The reason why no manifest can say that a field has a live value; None if one can."""
        return None

    def no_way_back(
        self, _ref: ResourceRef, _field: FieldChange, _declared: State | None
    ) -> NoWayBack | None:
        """The reason why a manifest cannot undo the change of a field; None if it can.

        Args:
            ref: The resource.
            field: What was changed.
            declared: What its manifest declares now; None if it declares nothing.
        """
        return None

    def restored(self, ref: ResourceRef, state: State) -> Observed:
        """A deleted resource as its last state tells it, as far as a manifest can bring it back."""
        return Observed(ref, None, state, own_configs(state))

    def not_restored(self, _state: State, _record: str) -> str | None:
        """Name what no manifest brings back of a deleted resource; None if there is nothing.

        Args:
            state: Its last state.
            record: The command that shows it.
        """
        return None


def unclassified(name: str, *, known: bool) -> str:
    """The reason why a config that its kind neither judges nor lists as harmless is not safe to change.

    Args:
        name: The config.
        known: Whether Apache Kafka knows it.
    """
    if known:
        return f"this version of kafkaform does not know what a change of {name} does"
    return f"Apache Kafka does not know {name}: what the change does is up to the broker's vendor"


def compared(kind: Kind, field: FieldChange, observed: Observed) -> FieldChange | FieldOutcome:
    """What is left of the change of a field that changes at once; see `Kind.remaining`."""
    value = kind.live(field.path, observed)
    if kind.equal(field.path, value, field.after):
        return FieldOutcome.DONE
    if kind.equal(field.path, value, field.before):
        return field
    return FieldOutcome.MOVED


def own_configs(state: State) -> State:
    """The configs in a state."""
    return {path: value for path, value in state.items() if path.startswith(CONFIG_PREFIX)}


BAD = object()
"""What stands for a value that has been reported."""


def canonical_value(
    key: ConfigKey | None, name: str, value: object, path: tuple[str, ...], report: ReportProblem
) -> object:
    """The canonical text of a value, None for null, or BAD for one that has been reported.

    Args:
        key: What Kafka knows of the config; None if nothing.
        name: The config's name.
        value: What the manifest says: a scalar, a list, or null.
        path: Where it says so.
        report: Takes what is wrong.
    """
    if value is None:
        return None
    if isinstance(value, list):
        if key is not None and key.type is not ConfigType.LIST:
            report(path, f"{name}: is not a list", "write one value")
            return BAD
        value = ",".join(map(str, value))
    try:
        return kafka_configs.canonical(key, str(value))
    except ValueError as error:
        report(path, str(error), None)
        return BAD
