"""The vocabulary of kafkaform: states, changes and risks, as immutable data.

Nothing here does I/O or imports a Kafka client. Desired and observed resources have the same `State`, so a
plan, drift detection and the verification after an apply are the same diff.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias, TypeVar

from kafkaform.core.values import Value, compare_fields, field, replace
from kafkaform.core.wording import counted

if TYPE_CHECKING:
    from kafkaform.core.partitions import Broker

_Part = TypeVar("_Part")

FieldValue: TypeAlias = int | str | None
"""The value of one managed field: counts are ints, Kafka configs are canonical strings, None is unset."""

State: TypeAlias = Mapping[str, FieldValue]
"""The managed fields of one resource by path, such as `partitions` or `config.retention.ms`."""

CONFIG_PREFIX = "config."
"""The prefix of the paths of fields that are Kafka configs."""

_TEAM_LABELS = ("team", "owner")


def to_integer(value: FieldValue) -> int | None:
    """Return a value as a whole number; None if it is not one."""
    try:
        return None if value is None else int(value)
    except ValueError:
        return None


class Risk(IntEnum):
    """The risk of a change, in order; `max()` over the fields gates a resource."""

    SAFE = 0
    DISRUPTIVE = 1
    DESTRUCTIVE = 2
    IMPOSSIBLE = 3

    @property
    def label(self) -> str:
        """The name used in plans and on the command line."""
        return self.name.lower()


class Status(StrEnum):
    """The status of a change in a plan."""

    PLANNED = "planned"
    NEEDS_CONSENT = "needs_consent"
    REFUSED = "refused"


class Severity(StrEnum):
    """The severity of a diagnostic."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Undeclared(StrEnum):
    """The treatment of live configs that the manifest does not mention."""

    REPORT = "report"
    RESET = "reset"
    KEEP = "keep"


class ResourceRef(NamedTuple):
    """A resource by kind and name; written `Topic/orders.v1`."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


class Location(NamedTuple):
    """A location in a file; lines and columns start at 1."""

    file: str
    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class Diagnostic(Value):
    """A finding that is not a change: of a rule, or a note.

    Attributes:
        code: The code of the rule or note, which `kafkaform rules CODE` explains.
        message: One line.
        location: The location in a manifest.
        suggestion: What to do about it.
        waived: The reason why the manifest waives the rule; None if it does not. A waived finding is shown,
            but has no effect.
        ref: The resource; None if it is about several of them, or the cluster.
        by_branch: Whether it is caused by the branch of a plan; False if that was not determined.
    """

    code: str
    severity: Severity
    message: str
    location: Location | None = None
    suggestion: str | None = None
    waived: str | None = None
    ref: ResourceRef | None = None
    by_branch: bool = False

    @property
    def quote(self) -> str:
        """The finding as the reason of a refused change quotes it."""
        return f"{self.code}: {self.message}"


# --- desired and observed resources ----------------------------------------------------------------


class Intent(Value):
    """The intended use of a resource, for rules and risk; it is not sent to the cluster.

    Attributes:
        keyed: Whether the order of records per key matters. None means not set, and is treated as "yes,
            if records have keys".
        labels: The manifest's labels.
        allow: The reasons by consent, such as `retention-cut from 7d`.
        waivers: The reasons by code of the rules that are waived for this resource.
        deletion_protection: Whether the resource is never deleted by this tool.
        undeclared: What to do with live configs that the manifest does not mention.
        spec: The normalised manifest spec, for what only rules read.
    """

    keyed: bool | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    allow: Mapping[str, str] = field(default_factory=dict)
    waivers: Mapping[str, str] = field(default_factory=dict)
    deletion_protection: bool = False
    undeclared: Undeclared = Undeclared.REPORT
    spec: Mapping[str, object] = field(default_factory=dict)

    @property
    def profile(self) -> str | None:
        """The profile that the manifest names; None without one."""
        profile = self.spec.get("profile")
        return profile if isinstance(profile, str) else None

    @property
    def recreate(self) -> str | None:
        """The id of the live topic that the manifest has deleted and created again; None without one."""
        uid = self.spec.get("recreate")
        return uid if isinstance(uid, str) else None

    @property
    def team(self) -> str:
        """The team that owns the resource, from the label `team` or `owner`; empty without one."""
        return next((team for label in _TEAM_LABELS if (team := self.labels.get(label, ""))), "")


class Locations(Protocol):
    """The locations of a manifest's fields, by paths such as `config.retention.ms` or `metadata.name`."""

    def __call__(self, path: str) -> Location:
        """Return the location of a field, or of its nearest parent that the manifest has."""

    def keys(self, path: str) -> tuple[str, ...] | None:
        """Return the keys that lead to a field; None if the manifest does not set it."""

    def nearest(self, keys: Sequence[str | int]) -> Location:
        """Return the location of the value below these keys, or of its nearest parent."""

    def find_layer(self, path: str, /) -> str | None:
        """Return the layer under the manifest that sets a field; empty for the manifest, None for none."""


class Desired(Value):
    """A resource as its manifest declares it.

    Attributes:
        ref: Kind and name.
        state: The managed fields; None for a tombstone (`state: absent`).
        intent: The intended use of the resource.
        location: The start of the manifest.
        locations: The locations of fields in the manifest.
        invalid: Whether the manifest has problems, so that only its name is known.
    """

    ref: ResourceRef
    state: State | None
    intent: Intent = Intent()
    location: Location | None = None
    locations: Locations | None = None
    invalid: bool = False

    # Two manifests that declare the same are equal wherever they are written.
    __eq__, __hash__ = compare_fields("ref", "state", "intent", "location", "invalid")

    def locate(self, path: str) -> Location | None:
        """Return the location of a field (`config.retention.ms`, `members.expected`, `metadata.name`).

        If the manifest does not set it, as with a default of kafkaform.yaml, it is the nearest parent's.
        """
        return self.locations(path) if self.locations is not None else self.location

    def keys(self, path: str) -> tuple[str, ...] | None:
        """Return the keys that lead to a field; None if the manifest does not set it."""
        return self.locations.keys(path) if self.locations is not None else None

    def nearest(self, keys: Sequence[str | int]) -> Location | None:
        """Return the location of the value below these keys, or of its nearest parent."""
        return self.locations.nearest(keys) if self.locations is not None else self.location


class Live(Value):
    """The base class of live data that is specific to a kind; the kind's package defines and reads it."""

    @property
    def unread(self) -> str:
        """The reason why a part could not be read; empty if all was."""
        return ""

    @property
    def recorded(self) -> Mapping[str, int]:
        """The numbers of a changed resource that the record of applies keeps, by name."""
        return {}


class Observed(Value):
    """A resource as the live cluster has it.

    Attributes:
        ref: Kind and name.
        uid: The topic's id, which differs from that of an earlier topic of the same name; None for other
            kinds, and on brokers without topic ids (before KIP-516).
        state: The resource's own values, without configs that only have a default.
        effective: The effective values of every config, own or inherited.
        internal: Whether it is internal to Kafka.
        live: The data that is specific to its kind; None if there is none.
    """

    ref: ResourceRef
    uid: str | None
    state: State
    effective: State = field(default_factory=dict)
    internal: bool = False
    live: Live | None = None


UNLISTED = "KF430"
NOT_KNOWN = "KF433"
"""The code of the note about what only a later kafkaform can read."""


class Observation(Value):
    """One reading of the cluster.

    Attributes:
        resources: The requested resources that exist, in detail.
        inventory: Every resource that this account can see.
        invisible: The requested resources whose existence this account cannot determine, and why.
        diagnostics: Notes about what could not be read.
        parts: Facts about the whole cluster that changes of one kind are assessed by; see `Facts.parts`.
    """

    resources: Mapping[ResourceRef, Observed]
    inventory: frozenset[ResourceRef] = frozenset()
    invisible: Mapping[ResourceRef, str] = field(default_factory=dict)
    diagnostics: tuple[Diagnostic, ...] = ()
    parts: tuple[object, ...] = ()


def merge_observations(readings: Collection[Observation]) -> Observation:
    """Return one reading of what several have read of different kinds."""
    return Observation(
        {ref: resource for reading in readings for ref, resource in reading.resources.items()},
        frozenset().union(*(reading.inventory for reading in readings)),
        {ref: why for reading in readings for ref, why in reading.invisible.items()},
        tuple(note for reading in readings for note in reading.diagnostics),
        tuple(part for reading in readings for part in reading.parts),
    )


BEING_CREATED = "being created: it exists, but the brokers do not show it yet"
"""The reason in `Observation.invisible` that no right is missing for."""


class Setting(Value):
    """A value that an apply set a field to.

    Attributes:
        value: The value; None if it was removed.
        at: The time (RFC 3339 in UTC).
        who: The user who applied.
        commit: The Git commit of the manifests, if known.
        run: The id of the apply.
        certain: Whether the apply is known to have set it; otherwise there was no response, or no result
            was recorded.
        before: The previous value.
        unended: Whether the apply recorded no result at all: it died, or is still running.
    """

    value: FieldValue
    at: str
    who: str
    commit: str | None
    run: str
    certain: bool = True
    before: FieldValue = None
    unended: bool = False


class DataSize(Value):
    """The amount of data that a resource holds.

    Attributes:
        bytes: The size in bytes, counting one replica of each partition.
        partitions: The number of partitions.
        unread: The number of partitions that could not be read, so that `bytes` is a lower limit.
        silent: The brokers that have the unread partitions and do not answer.
    """

    bytes: int
    partitions: int = 0
    unread: int = 0
    silent: tuple[int, ...] = ()

    @property
    def gap(self) -> str:
        """The description of the partitions that could not be read; empty if all were."""
        if not self.unread:
            return ""
        brokers = ", ".join(map(str, self.silent))
        verb = "does not answer" if len(self.silent) == 1 else "do not answer"
        noun = "broker" if len(self.silent) == 1 else "brokers"
        why = f" ({noun} {brokers} {verb})" if self.silent else ""
        return f"{self.unread:,} of {counted(self.partitions, 'partition')} could not be read{why}"


class ManifestScope(Value):
    """The scope of a plan.

    Attributes:
        is_part: Whether it covers a part of the manifests only.
    """

    is_part: bool = False


class Facts(Value):
    """The data about a cluster that planning needs besides its resources.

    Attributes:
        config_defaults: The cluster's default of every config, by kind; a kind is missing if the account
            may not read them.
        diagnostics: Notes, such as about brokers whose defaults differ.
        sizes: The amount of data of the requested resources.
        parts: Data that only some kinds need, by its type.
        group_protocols: The protocols that brokers support; None if unknown.
        offset_retention_ms: The least time for which brokers keep the offsets of a group without members
            (`offsets.retention.minutes`); None if unknown.
        restricted: Whether this account may not describe the cluster, and so may not see all resources.
    """

    cluster_id: str
    brokers: tuple[Broker, ...] = ()
    config_defaults: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)
    diagnostics: tuple[Diagnostic, ...] = ()
    sizes: Mapping[ResourceRef, DataSize] = field(default_factory=dict)
    # By type, as this room is below the kinds and cannot import what only some of them need.
    parts: Mapping[type, object] = field(default_factory=dict)
    group_protocols: frozenset[str] | None = None
    offset_retention_ms: int | None = None
    restricted: bool = False

    def get(self, part: type[_Part]) -> _Part:
        """Return data that only some kinds need, such as `ReplicaFacts`; empty if it was not read."""
        value = self.parts.get(part)
        # The part's defaults stand for "not read", so that callers need no case for it.
        return value if isinstance(value, part) else part()

    def add_part(self, part: object) -> Facts:
        """Return the facts with this part, in place of one of the same type."""
        return replace(self, parts={**self.parts, type(part): part})

    def config_default(self, kind: str, name: str) -> str | None:
        """Return the cluster's default of a config; None if there is none, or it is unknown."""
        return self.config_defaults.get(kind, {}).get(name)


# --- changes ---------------------------------------------------------------------------------------


# A hazard of its own: a consent to lose 1 GiB does not cover data whose size is unknown.
UNREAD_DATA = "unread-data"
"""The hazard of losing data whose size could not be read in full."""


class RiskAssessment(Value):
    """The risk of a change, and the reason.

    Attributes:
        hazard: The name to consent to, such as `retention-cut`; empty for a safe change.
        reason: What will happen, computed from the actual values; often empty for a safe change.
        remedy: What to do instead, or to make it safe.
        data_unread: Whether the amount of data at risk is unknown, as a part could not be read.
        figure: The part of the reason that is an amount of this resource alone, such as `1.2 GiB`. Reports
            write it after the name, if several resources have the same reason except for it.
        also: Further hazards of the same level, where the parts of a resource have different ones.
    """

    risk: Risk = Risk.SAFE
    hazard: str = ""
    reason: str = ""
    remedy: str | None = None
    data_unread: bool = False
    figure: str = ""
    also: tuple[str, ...] = ()

    @property
    def hazards(self) -> tuple[str, ...]:
        """All of its hazards; empty for a safe change."""
        return (self.hazard, *self.also) if self.hazard else ()


SAFE = RiskAssessment()


class FieldChange(Value):
    """One field of an update.

    Attributes:
        before: Its own value before; None if it is unset.
        after: Its own value after; None if it is to be unset.
        effective_before: The value in force before, own or inherited; None if unknown.
        effective_after: The value in force after; None if unknown.
        assessment: The risk of the change.
        deferred: The reason why an apply does not carry it out; None if it does.
    """

    path: str
    before: FieldValue
    after: FieldValue
    effective_before: FieldValue = None
    effective_after: FieldValue = None
    assessment: RiskAssessment = SAFE
    deferred: str | None = None


class Create(Value):
    """The creation of a resource; it has no before."""

    ref: ResourceRef
    state: State
    assessment: RiskAssessment = SAFE


class Update(Value):
    """The update of a resource that differs in at least one field."""

    ref: ResourceRef
    uid: str | None
    fields: tuple[FieldChange, ...]


class Delete(Value):
    """The deletion of a resource; it has no after."""

    ref: ResourceRef
    uid: str | None
    state: State
    assessment: RiskAssessment


class Recreate(Value):
    """The deletion of a resource, and the creation of an empty one of its name.

    Attributes:
        uid: The id of the resource to delete.
        state: The state of the new one.
        assessment: The risk of the deletion.
    """

    ref: ResourceRef
    uid: str
    before: State
    state: State
    assessment: RiskAssessment = SAFE


Change: TypeAlias = Create | Update | Delete | Recreate
"""The closed algebra of changes: match on it exhaustively."""


def assessments(change: Change) -> tuple[RiskAssessment, ...]:
    """Return all risk assessments of a change, in the order of its fields."""
    match change:
        case Create() | Delete() | Recreate():
            return (change.assessment,)
        case Update():
            return tuple(f.assessment for f in change.fields)


def risk_of(change: Change) -> Risk:
    """Return the highest risk of a change."""
    return max(assessment.risk for assessment in assessments(change))
