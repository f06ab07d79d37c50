"""The vocabulary of kafkaform: states, changes, risks, operations and plans, as immutable data.

Nothing here does I/O or knows a Kafka client. Desired and observed resources hold the same `State`,
so a plan, drift detection and the verification after an apply are one and the same diff.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from kafkaform.core.wording import counted

if TYPE_CHECKING:
    from kafkaform.core.layout import Broker

FieldValue: TypeAlias = int | str | None
"""The value of one managed field: counts are ints, Kafka configs are canonical strings, None is unset."""

State: TypeAlias = Mapping[str, FieldValue]
"""The managed fields of one resource by path, such as `partitions` or `config.retention.ms`."""

CONFIG_PREFIX = "config."
"""What the path of a field that is a Kafka config starts with."""

_TEAM_LABELS = ("team", "owner")


class Risk(IntEnum):
    """How bad a change can be, in order; `max()` over the fields gates a resource."""

    SAFE = 0
    DISRUPTIVE = 1
    DESTRUCTIVE = 2
    IMPOSSIBLE = 3

    @property
    def label(self) -> str:
        """The name used in plans and on the command line."""
        return self.name.lower()


class Status(StrEnum):
    """What an apply will do with a change."""

    PLANNED = "planned"
    NEEDS_CONSENT = "needs_consent"
    REFUSED = "refused"


class Severity(StrEnum):
    """How loud a diagnostic is."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Undeclared(StrEnum):
    """What happens to a live config that the manifest does not mention."""

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
    """A place in a file; lines and columns start at 1."""

    file: str
    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A finding that is not a change: a rule that tripped, or a fact the reader must know.

    Attributes:
        code: Its rule or note, which `kafkaform rules CODE` explains.
        severity: How loud it is.
        message: What is so, in one line.
        location: Where in a manifest.
        suggestion: What to do about it.
        waived: The reason why the manifest has this rule overlook it; None if it has not. A waived finding
            is shown, and counts for nothing.
        ref: The resource that it is about; None if it is about several of them, or the cluster.
    """

    code: str
    severity: Severity
    message: str
    location: Location | None = None
    suggestion: str | None = None
    waived: str | None = None
    ref: ResourceRef | None = None


# --- what is wanted, and what is -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Intent:
    """What a manifest says about the use of a resource: read by rules and risk, never by the cluster.

    Attributes:
        keyed: Whether the order of records per key matters. None means unsaid, and is taken for "yes,
            if records have keys".
        labels: The manifest's labels.
        allow: What the manifest consents to, such as `retention-cut from 7d`, with the written reasons.
        waivers: Rules that are to overlook this resource, by code, with the written reason of each.
        deletion_protection: The resource is never deleted by this tool.
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
    def team(self) -> str:
        """The team that owns the resource, by its labels `team` or `owner`; empty if they do not say."""
        return next((team for label in _TEAM_LABELS if (team := self.labels.get(label, ""))), "")


class Places(Protocol):
    """Where a manifest sets its fields; a path is such as `config.retention.ms` or `metadata.name`."""

    def __call__(self, path: str) -> Location:
        """The place of a field, or of the nearest thing around it."""

    def keys(self, path: str) -> tuple[str, ...] | None:
        """The keys that lead to a field; None where the manifest does not set it."""

    def nearest(self, keys: Sequence[str]) -> Location:
        """Where these keys lead to, or where the nearest that is there does."""


@dataclass(frozen=True, slots=True)
class Desired:
    """A resource as its manifest wants it.

    Attributes:
        ref: Kind and name.
        state: The managed fields; None for a tombstone (`state: absent`).
        intent: What the manifest says besides.
        location: Where the manifest begins.
        places: Finds fields in the manifest.
    """

    ref: ResourceRef
    state: State | None
    intent: Intent = Intent()
    location: Location | None = None
    places: Places | None = field(default=None, compare=False, repr=False)

    def place(self, path: str) -> Location | None:
        """Where the manifest sets a field (`config.retention.ms`, `members.expected`, `metadata.name`).

        The nearest thing around it where it does not set it, as with a default of kafkaform.yaml.
        """
        return self.places(path) if self.places is not None else self.location

    def keys(self, path: str) -> tuple[str, ...] | None:
        """The keys that lead to a field in the manifest; None where the manifest does not set it."""
        return self.places.keys(path) if self.places is not None else None

    def nearest(self, keys: Sequence[str]) -> Location | None:
        """Where these keys lead to in the manifest, or where the nearest that is there does."""
        return self.places.nearest(keys) if self.places is not None else self.location


class Live:
    """The base of what a kind alone knows of a live resource: its package defines and reads it."""

    __slots__ = ()

    @property
    def unread(self) -> str:
        """Why a part of it could not be read; empty if all was."""
        return ""


@dataclass(frozen=True, slots=True)
class Observed:
    """A resource as the live cluster has it.

    Attributes:
        ref: Kind and name.
        uid: The identity that a re-created resource of the same name does not share (a topic's id).
        state: The resource's own values; a config that only has a default is not in it.
        effective: The values in force for every config, own or inherited.
        internal: Whether Kafka itself owns the resource.
        live: What only its kind knows of it; None where there is nothing.
    """

    ref: ResourceRef
    uid: str | None
    state: State
    effective: State = field(default_factory=dict)
    internal: bool = False
    live: Live | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """One reading of the cluster.

    Attributes:
        resources: The resources that were asked for and exist, in detail.
        inventory: Every resource that this account can see, by name.
        invisible: Resources that were asked for and may or may not exist: why the account cannot tell.
        diagnostics: What could not be read, and what that means.
    """

    resources: Mapping[ResourceRef, Observed]
    inventory: frozenset[ResourceRef] = frozenset()
    invisible: Mapping[ResourceRef, str] = field(default_factory=dict)
    diagnostics: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True)
class Setting:
    """What an apply set a field to.

    Attributes:
        value: The value; None: none of its own.
        at: When (RFC 3339 in UTC).
        who: Whoever applied.
        commit: The Git commit of the manifests, where known.
        run: The id of the apply.
        certain: Whether it did; otherwise it was about to, and no answer came or no result was written.
        before: The value that it found.
        unended: Whether the apply wrote no result at all: it died, or is still at work.
    """

    value: FieldValue
    at: str
    who: str
    commit: str | None
    run: str
    certain: bool = True
    before: FieldValue = None
    unended: bool = False


class KindFacts:
    """The base of what is known of a cluster for one kind alone: its package defines and reads it."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class DataSize:
    """The amount of data that a resource holds, as far as brokers could be asked.

    Attributes:
        bytes: The bytes that were read, one replica of each partition counted.
        partitions: How many partitions the resource has.
        unread: How many of them could not be read, so that `bytes` is the least that it may be.
        silent: The brokers that have the unread partitions and do not answer.
    """

    bytes: int
    partitions: int = 0
    unread: int = 0
    silent: tuple[int, ...] = ()

    @property
    def gap(self) -> str:
        """The partitions that could not be read, in words; empty if all were."""
        if not self.unread:
            return ""
        brokers = ", ".join(map(str, self.silent))
        verb = "does not answer" if len(self.silent) == 1 else "do not answer"
        noun = "broker" if len(self.silent) == 1 else "brokers"
        why = f" ({noun} {brokers} {verb})" if self.silent else ""
        return f"{self.unread:,} of {counted(self.partitions, 'partition')} could not be read{why}"


@dataclass(frozen=True, slots=True)
class Facts:
    """What the planner knows about a cluster besides its resources.

    Attributes:
        cluster_id: The id that the cluster gave itself.
        brokers: All registered brokers.
        config_defaults: By kind, the cluster's default of every config; a kind is missing where the account
            may not read them.
        diagnostics: What is odd, such as brokers whose defaults differ.
        sizes: How much data the resources hold that were asked for.
        of_kinds: What only one kind needs to know, by kind.
        group_protocols: Those that brokers offer; None where that is not known.
        offset_retention_ms: How long the offsets of a group without members are kept at the least
            (`offsets.retention.minutes`); None where that is not known.
        restricted: Whether this account may not describe the cluster, and so may not see all that it has.
    """

    cluster_id: str
    brokers: tuple[Broker, ...] = ()
    config_defaults: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)
    diagnostics: tuple[Diagnostic, ...] = ()
    sizes: Mapping[ResourceRef, DataSize] = field(default_factory=dict)
    of_kinds: Mapping[str, KindFacts] = field(default_factory=dict)
    group_protocols: frozenset[str] | None = None
    offset_retention_ms: int | None = None
    restricted: bool = False

    def config_default(self, kind: str, name: str) -> str | None:
        """The cluster's default of a config; None if it has none, or is not known."""
        return self.config_defaults.get(kind, {}).get(name)


# --- changes ---------------------------------------------------------------------------------------


UNREAD_DATA = "unread-data"
"""The hazard of a loss of data of which a part could not be read."""


@dataclass(frozen=True, slots=True)
class RiskAssessment:
    """How risky a change is, and why.

    Attributes:
        risk: The level.
        hazard: The name that consent uses, such as `retention-cut`; empty for a safe change.
        reason: What will happen, computed from the values at hand; empty for a safe change of which nobody
            measured anything.
        remedy: What to do instead, or to make it safe.
        data_unread: Whether a part of the data at risk could not be read, so that its amount is not known.
        figure: The part of the reason that is an amount of this resource alone, such as `1.2 GiB`; reports
            write it beside the name where several resources have the same reason otherwise.
    """

    risk: Risk = Risk.SAFE
    hazard: str = ""
    reason: str = ""
    remedy: str | None = None
    data_unread: bool = False
    figure: str = ""


SAFE = RiskAssessment()


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One field of an update; `deferred` says why it is shown but not carried out by an apply."""

    path: str
    before: FieldValue
    after: FieldValue
    effective_before: FieldValue = None
    effective_after: FieldValue = None
    assessment: RiskAssessment = SAFE
    deferred: str | None = None


@dataclass(frozen=True, slots=True)
class Create:
    """A resource that is to exist; it has no before."""

    ref: ResourceRef
    state: State
    assessment: RiskAssessment = SAFE


@dataclass(frozen=True, slots=True)
class Update:
    """A resource that exists and differs in at least one field."""

    ref: ResourceRef
    uid: str | None
    fields: tuple[FieldChange, ...]


@dataclass(frozen=True, slots=True)
class Delete:
    """A resource that is to be gone; it has no after."""

    ref: ResourceRef
    uid: str | None
    state: State
    assessment: RiskAssessment


Change: TypeAlias = Create | Update | Delete
"""The closed algebra of changes: match on it exhaustively."""


def assessments(change: Change) -> tuple[RiskAssessment, ...]:
    """Every judgement in a change, fields in order."""
    match change:
        case Create() | Delete():
            return (change.assessment,)
        case Update():
            return tuple(f.assessment for f in change.fields)


def risk_of(change: Change) -> Risk:
    """The worst risk in a change."""
    return max(j.risk for j in assessments(change))


# --- the plan --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, order=True)
class Consent:
    """Somebody's word that a hazard of a resource is meant; `reason` as written, or the flag it came by."""

    resource: str
    hazard: str
    reason: str


class ChangeOrigin(StrEnum):
    """Where a change comes from, as seen from a branch."""

    BRANCH = "branch"
    DRIFT = "drift"
    MIXED = "mixed"


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """A change, and what an apply will do with it; a refused one says why, and what to do instead.

    Attributes:
        change: The change.
        status: What an apply will do with it.
        location: Where its manifest begins, or where kafkaform.yaml has the defaults that it comes from.
        reason: Why it has its status.
        remedy: What to do instead of a refused change.
        origin: Whether the branch's edits ask for it (`BRANCH`), or it would be there without them
            (`DRIFT`); None where nobody asked.
        earlier: The fields of a `MIXED` change that would change without the branch's edits too.
        keyed: What the manifest says of the order of records per key, which an update is judged by.
        team: The team that owns the resource, by its manifest's labels; empty if they do not say.
    """

    change: Change
    status: Status
    location: Location | None = None
    reason: str | None = None
    remedy: str | None = None
    origin: ChangeOrigin | None = None
    earlier: tuple[str, ...] = ()
    keyed: bool | None = None
    team: str = ""

    @property
    def ref(self) -> ResourceRef:
        """The resource that changes."""
        return self.change.ref


@dataclass(frozen=True, slots=True, order=True)
class UndeclaredConfig:
    """A live config that no manifest mentions and that this plan leaves as it is."""

    ref: ResourceRef
    path: str
    value: str


@dataclass(frozen=True, slots=True)
class Reader:
    """A declared group that reads topics which change.

    Attributes:
        ref: The group.
        topics: The topics.
        team: The team that owns the group, by its manifest's labels; empty if they do not say.
    """

    ref: ResourceRef
    topics: tuple[str, ...]
    team: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """What stands between the desired and the observed state, in a stable order.

    Attributes:
        cluster_id: The cluster it was made for.
        changes: By kind and name.
        unchanged: How many declared resources are as they should be.
        unmanaged: Resources on the cluster that no manifest declares.
        undeclared: Configs of declared resources that no manifest declares.
        consents: Every consent that a change needed and got.
        diagnostics: Findings of rules and of the reading.
        broker_validated: Whether the brokers checked every change that an apply would carry out.
        unknown: Declared resources of which this account cannot tell whether they exist.
        subset: Whether it covers only a part of what is managed, as somebody asked for.
        readers: Declared groups that read topics which change.
    """

    cluster_id: str
    changes: tuple[PlannedChange, ...] = ()
    unchanged: int = 0
    unmanaged: tuple[ResourceRef, ...] = ()
    undeclared: tuple[UndeclaredConfig, ...] = ()
    consents: tuple[Consent, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    broker_validated: bool = False
    unknown: tuple[ResourceRef, ...] = ()
    subset: bool = False
    readers: tuple[Reader, ...] = ()

    def with_status(self, status: Status) -> tuple[PlannedChange, ...]:
        """The changes of one status, in order."""
        return tuple(c for c in self.changes if c.status is status)

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """The errors of rules; one that the manifest waives counts for nothing."""
        return tuple(d for d in self.diagnostics if d.severity is Severity.ERROR and d.waived is None)

    @property
    def open_errors(self) -> tuple[Diagnostic, ...]:
        """The errors that refuse no change, as those of a resource that is otherwise as declared."""
        changing = {*self.unknown, *(change.ref for change in self.changes)}
        refuses = bool(self.with_status(Status.REFUSED))
        return tuple(d for d in self.errors if (not refuses if d.ref is None else d.ref not in changing))
