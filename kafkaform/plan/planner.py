"""The planner: a pure function from desired and observed state to a plan.

Set arithmetic over resources and fields is written once, here; what a field means is its kind's business.
The same input gives the same plan, whatever the order it comes in.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kafkaform.core.model import (
    CONFIG_PREFIX,
    Change,
    Consent,
    Create,
    Delete,
    Desired,
    Diagnostic,
    Facts,
    FieldChange,
    FieldValue,
    Intent,
    Observation,
    Observed,
    Plan,
    PlannedChange,
    Reader,
    ResourceRef,
    Risk,
    Severity,
    State,
    Status,
    Undeclared,
    UndeclaredConfig,
    Update,
)
from kafkaform.plan.policy import (
    PRUNED,
    Policy,
    due,
    gate,
    idle_consents,
    is_own,
    matches,
    nothing_to_make,
    refusal_by,
)
from kafkaform.resources import KINDS, kind_order
from kafkaform.resources.base import Kind, UpdateContext
from kafkaform.resources.consent import Consents
from kafkaform.resources.topic.copying import TOGETHER, together

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping


def diff(
    desired: Iterable[Desired], observation: Observation, facts: Facts, policy: Policy | None = None
) -> Plan:
    """Compare what is wanted with what is.

    Args:
        desired: The declared resources, in any order, each once.
        observation: A reading of the cluster that covers all of them.
        facts: What is known of the cluster.
        policy: What is allowed.
    """
    policy = policy or Policy()
    wanted = {resource.ref: resource for resource in desired}
    planner = Planner(observation, facts, policy)
    for ref in sorted(wanted, key=_order):
        planner.consider(wanted[ref])
    unmanaged = sorted(
        (
            ref
            for ref in observation.inventory
            if ref not in wanted and not is_own(ref) and not matches(ref.name, policy.ignore)
        ),
        key=_order,
    )
    if policy.prune:
        unmanaged = [ref for ref in unmanaged if not planner.prune(ref)]
    return planner.plan(unmanaged)


def plan_update(
    desired: Desired,
    target: Mapping[str, FieldValue],
    observation: Observation,
    facts: Facts,
    policy: Policy,
) -> Plan:
    """Plan one update that no manifest asks for, judged and gated as one that a manifest does.

    Args:
        desired: The resource, with the consents that hold for it.
        target: What fields are to be.
        observation: A reading of the cluster in which the resource exists.
        facts: What is known of the cluster.
        policy: What is allowed.
    """
    planner = Planner(observation, facts, policy)
    observed = observation.resources[desired.ref]
    fields = planner.compare(desired, target, observed)
    planner.settle(Update(desired.ref, observed.uid, fields) if fields else None, desired)
    return planner.plan([])


def _order(ref: ResourceRef) -> tuple[int, str]:
    return kind_order(ref.kind), ref.name


class Planner:
    """Collects the parts of one plan, and says what may be done of it."""

    def __init__(self, observation: Observation, facts: Facts, policy: Policy) -> None:
        self._observation = observation
        self._facts = facts
        self._policy = policy
        self._changes: list[PlannedChange] = []
        self._consents: set[Consent] = set()
        self._undeclared: list[UndeclaredConfig] = []
        self._unknown: list[ResourceRef] = []
        self._diagnostics: list[Diagnostic] = []
        self._unchanged = 0

    def consider(self, desired: Desired) -> None:
        """Plan one declared resource."""
        ref = desired.ref
        if ref in self._observation.invisible:
            self._unknown.append(ref)
            self._diagnostics.append(
                Diagnostic(
                    "KF410",
                    Severity.ERROR,
                    f"{ref} is not visible to this account: {self._observation.invisible[ref]}",
                    desired.location,
                    "grant Describe and DescribeConfigs on it; until then it is neither created nor changed",
                    ref=ref,
                )
            )
            return
        change = self._change(desired, self._observation.resources.get(ref))
        self._diagnostics.extend(idle_consents(change, desired))
        self.settle(change, desired)

    def settle(self, change: Change | None, desired: Desired) -> None:
        """Take in what there is to do for a resource, and say whether it may be done."""
        if change is None:
            self._unchanged += 1
        else:
            self._changes.append(replace(self._status(change, desired), team=desired.intent.team))

    def prune(self, ref: ResourceRef) -> bool:
        """Plan the deletion of an undeclared resource, if it is ours to delete.

        One that is protected or internal stays unmanaged: a refused change would fail every apply.
        """
        observed = self._observation.resources.get(ref)
        if ref.kind != PRUNED or observed is None or not matches(ref.name, self._policy.owns):
            return False
        undeclared = Desired(ref, None)
        change = _deletion(undeclared, observed, self._facts)
        if self._protection(change, undeclared.intent) is not None:
            return False
        self._changes.append(self._status(change, undeclared))
        return True

    def plan(self, unmanaged: list[ResourceRef]) -> Plan:
        """The finished plan."""
        severities = list(Severity)
        changes = tuple(sorted(self._changes, key=lambda change: _order(change.ref)))
        self._diagnostics.extend(together(changes, self._facts))
        return Plan(
            cluster_id=self._facts.cluster_id,
            changes=changes,
            unchanged=self._unchanged,
            unmanaged=tuple(unmanaged),
            undeclared=tuple(sorted(self._undeclared)),
            consents=tuple(sorted(self._consents)),
            diagnostics=tuple(
                sorted(
                    (*self._diagnostics, *self._observation.diagnostics, *self._facts.diagnostics),
                    key=lambda d: (severities.index(d.severity), d.code, d.message, str(d.location)),
                )
            ),
            unknown=tuple(self._unknown),
        )

    def _change(self, desired: Desired, observed: Observed | None) -> Change | None:
        kind = KINDS[desired.ref.kind]
        if desired.state is None:
            return None if observed is None else _deletion(desired, observed, self._facts)
        if observed is None:
            state = _in_order(kind, desired.state)
            if not state:
                self._diagnostics.append(nothing_to_make(desired))
                return None
            return Create(desired.ref, state, kind.judge_create(desired.ref, state, self._facts))
        fields = self._fields(kind, desired, desired.state, observed)
        return Update(desired.ref, observed.uid, fields) if fields else None

    def _fields(
        self, kind: Kind, desired: Desired, state: State, observed: Observed
    ) -> tuple[FieldChange, ...]:
        state = kind.applicable(state, observed, self._facts)
        target = {**state, **self._settle_undeclared(kind, desired, state, observed)}
        return self.compare(desired, target, observed)

    def compare(
        self, desired: Desired, target: Mapping[str, FieldValue], observed: Observed
    ) -> tuple[FieldChange, ...]:
        """The fields of a resource that differ from what they are to be, in order."""
        kind = KINDS[desired.ref.kind]
        live = {
            path: now
            for path, value in target.items()
            if not kind.ignores(path)
            and not kind.equal(path, now := kind.live(path, observed, self._facts), value)
        }
        if not live:
            return ()
        context = self.context(observed, live, target, desired.intent)
        return tuple(
            FieldChange(
                path,
                live[path],
                target[path],
                context.before.get(path),
                context.after.get(path),
                kind.judge(path, context),
                kind.deferred(path, context),
            )
            for path in sorted(live, key=kind.field_order)
        )

    def context(
        self,
        observed: Observed,
        live: Mapping[str, FieldValue],
        target: Mapping[str, FieldValue],
        intent: Intent,
    ) -> UpdateContext:
        """What a change of fields is judged by.

        Args:
            observed: The resource.
            live: What the fields that change are.
            target: What fields are to be.
            intent: What the manifest says of the resource.
        """
        kind = KINDS[observed.ref.kind]
        before = {**observed.effective, **observed.state}
        before.update((path, now) for path, now in live.items() if now is not None)
        after: dict[str, FieldValue] = dict(before)
        for path in live:
            after[path] = kind.default(path, self._facts) if target[path] is None else target[path]
        return UpdateContext(observed.ref, before, after, intent, self._facts)

    def _settle_undeclared(
        self, kind: Kind, desired: Desired, state: State, observed: Observed
    ) -> dict[str, None]:
        extra = {
            path: value
            for path, value in observed.state.items()
            if path.startswith(CONFIG_PREFIX) and path not in state and not kind.ignores(path)
        }
        match desired.intent.undeclared:
            case Undeclared.KEEP:
                return {}
            case Undeclared.RESET:
                return dict.fromkeys(extra)
            case Undeclared.REPORT:
                self._undeclared.extend(
                    UndeclaredConfig(desired.ref, path, str(value)) for path, value in extra.items()
                )
                return {}

    def _status(self, change: Change, desired: Desired) -> PlannedChange:
        refusal = self.refusal(change, desired)
        if refusal is not None:
            return PlannedChange(change, Status.REFUSED, desired.location, *refusal)
        status, reason, given = gate(change, Consents(self._policy.allow, desired.intent.allow))
        self._consents.update(given)
        keyed = desired.intent.keyed if isinstance(change, Update) else None
        return PlannedChange(change, status, desired.location, reason, keyed=keyed)

    def refusal(self, change: Change, desired: Desired) -> tuple[str, str | None] | None:
        """Why a change must not be done whatever the consent, and what to do instead; None if it may."""
        blocked = self._policy.blocked.get(change.ref, ())
        at_stake = due(change)
        if self._policy.brake is not None and any(judgement.risk > Risk.SAFE for judgement in at_stake):
            blocked = (*blocked, self._policy.brake)
        if blocked:
            return refusal_by(blocked)
        if change.ref in self._facts.unplaceable:
            return self._facts.unplaceable[change.ref], None
        observed = self._observation.resources.get(change.ref)
        if observed is not None and (obstacle := KINDS[change.ref.kind].obstacle(change, observed)):
            return obstacle
        for judgement in at_stake:
            if judgement.risk is Risk.IMPOSSIBLE:
                return judgement.reason, judgement.remedy
        for judgement in at_stake:
            if judgement.hazard and matches(judgement.hazard, self._policy.forbid):
                return f"{judgement.hazard} is forbidden on this cluster", _FORBIDDEN
        match change:
            case Delete():
                return self._protection(change, desired.intent)
            case Update(fields=fields) if not at_stake:
                return "; ".join(dict.fromkeys(f.deferred for f in fields if f.deferred)), None
        return None

    def _protection(self, change: Delete, intent: Intent) -> tuple[str, str | None] | None:
        observed = self._observation.resources.get(change.ref)
        if observed is not None and observed.internal:
            return "it is internal to Kafka", "remove the manifest"
        if matches(change.ref.name, self._policy.protected):
            return "its name is protected in kafkaform.yaml", "change protected: in a reviewed commit first"
        if intent.deletion_protection:
            return "spec.deletionProtection is true", "take it out in a reviewed commit first"
        return None


_FORBIDDEN = "see forbid: in kafkaform.yaml (of any cluster, where --cluster names none)"


def _deletion(desired: Desired, observed: Observed, facts: Facts) -> Delete:
    judgement = KINDS[desired.ref.kind].judge_delete(desired.ref, observed.state, facts)
    return Delete(desired.ref, observed.uid, observed.state, judgement)


def _in_order(kind: Kind, state: State) -> State:
    """What is set, in the order of plans."""
    return {path: state[path] for path in sorted(state, key=kind.field_order) if state[path] is not None}


def narrow(plan: Plan, targets: Collection[str]) -> Plan:
    """A plan of only those resources whose `KIND/NAME` one of the globs matches."""
    changes = tuple(change for change in plan.changes if matches(str(change.ref), targets))
    return replace(
        plan,
        changes=changes,
        subset=plan.subset or len(changes) < len(plan.changes),
        # What was said of all changes together does not hold for some of them.
        diagnostics=tuple(
            found
            for found in plan.diagnostics
            if (found.code != TOGETHER or len(changes) == len(plan.changes))
            and (found.ref is None or matches(str(found.ref), targets))
        ),
        unknown=tuple(ref for ref in plan.unknown if matches(str(ref), targets)),
        undeclared=tuple(one for one in plan.undeclared if matches(str(one.ref), targets)),
        readers=_of_topics(plan.readers, changes),
    )


def readers_of(changes: Iterable[PlannedChange], desired: Iterable[Desired]) -> tuple[Reader, ...]:
    """The declared groups that read topics which change, by name."""
    reading = (
        Reader(declared.ref, topics, declared.intent.team)
        for declared in desired
        if declared.state is not None and (topics := KINDS[declared.ref.kind].reads(declared.intent))
    )
    return _of_topics(sorted(reading, key=lambda reader: _order(reader.ref)), changes)


def _of_topics(readers: Iterable[Reader], changes: Iterable[PlannedChange]) -> tuple[Reader, ...]:
    """The readers of topics that change, each with those topics only."""
    changing = {change.ref for change in changes}
    found = (
        replace(
            reader, topics=tuple(name for name in reader.topics if ResourceRef("Topic", name) in changing)
        )
        for reader in readers
    )
    return tuple(reader for reader in found if reader.topics)
