"""Plans, as immutable data: changes, their status, and their consents."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from kafkaform.core.model import Change, Diagnostic, Location, ResourceRef, Severity, Status
from kafkaform.core.values import Value, compare_fields, field

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkaform.core.operations import Operation


class Consent(Value, order=True):
    """A consent to a hazard of a resource; `reason` is the text of the manifest, or the flag that gave it."""

    resource: str
    hazard: str
    reason: str


class Binding(Value):
    """The scope to which a manifest limits a consent, such as one old value or one topic id.

    Attributes:
        text: The text after the hazard, such as `from 7d` or `of TOPIC-ID`.
        fits: Returns whether another text means the same.
    """

    text: str
    fits: Callable[[str], bool]


class RequiredConsent(Value):
    """A consent that a change needs.

    Attributes:
        hazard: The hazard to consent to.
        bindings: The scope of a consent in the manifest, for each part of the change that has the hazard;
            None where naming the hazard is enough.
        given: The consent that was given; None if it is missing.
    """

    hazard: str
    bindings: tuple[Binding | None, ...] = ()
    given: Consent | None = None


class ChangeOrigin(StrEnum):
    """The origin of a change: the branch, drift, or both."""

    BRANCH = "branch"
    DRIFT = "drift"
    MIXED = "mixed"


class PlannedChange(Value):
    """A change, and what an apply will do with it.

    Attributes:
        status: What an apply will do with it.
        location: The start of its manifest, or the place in kafkaform.yaml that it comes from.
        reason: The reason for its status.
        remedy: What to do instead of a refused change.
        origin: Whether it is caused by the branch (`BRANCH`) or not (`DRIFT`); None if that was not
            determined.
        earlier: The fields of a `MIXED` change that are not caused by the branch.
        keyed: Whether the manifest says that the order of records per key matters, on which the risk of an
            update depends; None if it does not say.
        team: The team that owns the resource, from its manifest's labels; empty without one.
        layer: The layer under the manifest that all of it comes from, such as `profile/events`; empty if the
            manifest asks for a part of it.
        consents: The consents that it needs, sorted by hazard, with those that were given.
        operations: The operations that carry it out; None until they have been determined.
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
    layer: str = ""
    consents: tuple[RequiredConsent, ...] = ()
    operations: tuple[Operation, ...] | None = None

    # Later stages fill in consents and operations: a change equals itself before and after that.
    __eq__, __hash__ = compare_fields(
        "change", "status", "location", "reason", "remedy", "origin", "earlier", "keyed", "team", "layer"
    )

    @property
    def ref(self) -> ResourceRef:
        """The resource that changes."""
        return self.change.ref

    @property
    def given(self) -> tuple[Consent, ...]:
        """The consents that were given."""
        return tuple(required.given for required in self.consents if required.given is not None)

    @property
    def missing(self) -> tuple[str, ...]:
        """The hazards that still need consent; empty unless the status is NEEDS_CONSENT."""
        if self.status is not Status.NEEDS_CONSENT:
            return ()
        return tuple(required.hazard for required in self.consents if required.given is None)


class UndeclaredConfig(Value, order=True):
    """A live config that no manifest mentions and that this plan does not change."""

    ref: ResourceRef
    path: str
    value: str


class AffectedConsumer(Value):
    """A declared group that reads topics which change.

    Attributes:
        team: The team that owns the group, from its manifest's labels; empty without one.
    """

    ref: ResourceRef
    topics: tuple[str, ...]
    team: str = ""


class CostChange(Value):
    """The price of the changes of a plan.

    Attributes:
        per_month: The amount for a month, with two decimals; negative if the plan saves money.
        replicas: The number of replicas of partitions that it adds.
        bytes: The bytes that it adds, in all replicas.
        uncounted: What is not counted.
    """

    currency: str
    per_month: str
    replicas: int = 0
    bytes: int = 0
    uncounted: tuple[str, ...] = ()


class PlannedSuccession(Value):
    """The topic that another one succeeds, and the durations of its manifest, in milliseconds."""

    predecessor: str
    quiet_ms: int
    recovery_ms: int


class Plan(Value):
    """The changes that turn the observed into the desired state, in a stable order.

    Attributes:
        changes: The changes, by kind and name.
        unchanged: The number of declared resources without a change.
        unmanaged: Resources on the cluster that no manifest declares.
        undeclared: Configs of declared resources that no manifest declares.
        consents: The consents that changes needed and were given.
        diagnostics: Findings of rules, and notes about what could not be read.
        broker_validated: Whether the brokers validated every change that an apply would carry out.
        unknown: Declared resources whose existence this account cannot determine.
        unvalidated: The resources with operations that the brokers did not validate, as far as known.
        subset: Whether it covers only a part of the managed resources, as requested.
        readers: Declared groups that read topics which change.
        cost: What the changes cost; None if no prices are declared.
        successions: The topics that succeed others which exist, by name.
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
    readers: tuple[AffectedConsumer, ...] = ()
    unvalidated: tuple[ResourceRef, ...] = ()
    cost: CostChange | None = None
    successions: Mapping[str, PlannedSuccession] = field(default_factory=dict)

    def select_by_status(self, status: Status) -> tuple[PlannedChange, ...]:
        """Return the changes of one status, in order."""
        return tuple(c for c in self.changes if c.status is status)

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """The errors of rules, without waived ones."""
        return tuple(d for d in self.diagnostics if d.severity is Severity.ERROR and d.waived is None)

    @property
    def open_errors(self) -> tuple[Diagnostic, ...]:
        """The errors that no change is refused for, such as those of a resource without a change."""
        # An error about a resource that changes, or cannot be seen, already shows as the status of that
        # resource.
        changing = {*self.unknown, *(change.ref for change in self.changes)}
        refuses = bool(self.select_by_status(Status.REFUSED))
        return tuple(d for d in self.errors if (not refuses if d.ref is None else d.ref not in changing))
