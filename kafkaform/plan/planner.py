"""The stages of a plan that ask nobody anything: each is a function from a value to a value.

`diff` says what differs, `judge` how risky that is, `gate` what may be done of it, and `conclude` puts the
plan together. `plan_from` is all of them in a row; `planning` reads the cluster between them. Set arithmetic
over resources and fields is written once, here; what a field means is its kind's business. The same input
gives the same plan, whatever the order it comes in.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, assert_never

from kafkaform.core.model import (
    CONFIG_PREFIX,
    SAFE,
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
    risk_of,
)
from kafkaform.core.rights import Right, grant
from kafkaform.plan.policy import (
    Policy,
    consented,
    idle_consents,
    is_own,
    matches,
    nothing_to_make,
    protection,
    refusal,
    refusal_of_riskier,
)
from kafkaform.resources import KINDS, kind_order
from kafkaform.resources.base import Kind, UpdateContext
from kafkaform.resources.consent import Consents
from kafkaform.resources.topic import topic_ref
from kafkaform.resources.topic.copying import TOGETHER, together

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from kafkaform.core.model import Location
    from kafkaform.plan.policy import Riskier


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change on its way through the stages.

    Attributes:
        change: What there is to do; `judge` says how risky it is.
        desired: What is declared of the resource.
        saved: The change of a saved plan of which this is left; None in a new plan.
        riskier: What is riskier about it now than the saved plan says.
        earlier: The consents that the saved plan has for it.
    """

    change: Change
    desired: Desired
    saved: PlannedChange | None = None
    riskier: tuple[Riskier, ...] = ()
    earlier: tuple[Consent, ...] = ()

    @property
    def ref(self) -> ResourceRef:
        """The resource that changes."""
        return self.change.ref


@dataclass(frozen=True, slots=True)
class Diff:
    """What differs between what is declared and what is.

    Attributes:
        proposals: The changes that would make it the same, by kind and name; nobody has judged them.
        compared: The declared resources that could be compared.
        unmanaged: Live resources that nobody declares.
        undeclared: Configs of declared resources that no manifest declares.
        unknown: Declared resources of which this account cannot tell whether they exist.
        diagnostics: What could not be read or compared, and what need not be made.
    """

    proposals: tuple[Proposal, ...]
    compared: tuple[Desired, ...]
    unmanaged: frozenset[ResourceRef] = frozenset()
    undeclared: tuple[UndeclaredConfig, ...] = ()
    unknown: tuple[ResourceRef, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True)
class GatedChanges:
    """What may be done of proposals.

    Attributes:
        changes: The changes with their status, in the order of the proposals.
        consents: The consents that they needed and got.
    """

    changes: tuple[PlannedChange, ...]
    consents: frozenset[Consent]


def plan_from(
    desired: Iterable[Desired], observation: Observation, facts: Facts, policy: Policy | None = None
) -> Plan:
    """Plan from what was read already: all the stages in a row.

    Args:
        desired: The declared resources, in any order, each once.
        observation: A reading of the cluster that covers all of them.
        facts: What is known of the cluster.
        policy: What is allowed.
    """
    policy = policy or Policy()
    wanted = with_pruned(desired, observation, policy)
    return plan_of(diff(wanted, observation, facts), observation, facts, policy)


def plan_of(difference: Diff, observation: Observation, facts: Facts, policy: Policy) -> Plan:
    """The stages that follow a diff, for `plan_from` and for what no manifest asks for."""
    proposals = judge(difference.proposals, observation, facts)
    gated = gate(proposals, observation, facts, policy)
    return conclude(difference, gated, facts, policy)


# --- what differs ------------------------------------------------------------------------------------


def with_pruned(desired: Iterable[Desired], observation: Observation, policy: Policy) -> tuple[Desired, ...]:
    """What is declared, and with `--prune` that undeclared resources which are ours to delete are absent.

    One that is protected or internal stays unmanaged: a refused change would fail every apply.
    """
    declared = tuple(desired)
    if not policy.prune:
        return declared
    refs = observation.inventory.difference(resource.ref for resource in declared)
    tombstones = (Desired(ref, None) for ref in _unmanaged(refs, policy))
    return declared + tuple(
        tombstone
        for tombstone in tombstones
        if (observed := observation.resources.get(tombstone.ref)) is not None
        and KINDS[tombstone.ref.kind].prunable
        and matches(tombstone.ref.name, policy.owns)
        and protection(tombstone, observed, policy) is None
    )


def diff(desired: Iterable[Desired], observation: Observation, facts: Facts) -> Diff:
    """Compare what is wanted with what is.

    Args:
        desired: The declared resources, in any order, each once.
        observation: A reading of the cluster that covers all of them.
        facts: What is known of the cluster: its defaults, and where replicas are to be.
    """
    wanted = sorted(desired, key=lambda declared: _order(declared.ref))
    proposals: list[Proposal] = []
    compared: list[Desired] = []
    undeclared: list[UndeclaredConfig] = []
    unknown: list[ResourceRef] = []
    diagnostics = list(observation.diagnostics)
    for declared in wanted:
        if declared.ref in observation.invisible:
            unknown.append(declared.ref)
            diagnostics.append(_not_visible(declared, observation.invisible[declared.ref]))
            continue
        compared.append(declared)
        observed = observation.resources.get(declared.ref)
        change = _change(declared, observed, facts)
        if change is not None:
            proposals.append(Proposal(change, declared))
        elif observed is None and declared.state is not None:
            diagnostics.append(nothing_to_make(declared))
        if observed is not None and declared.state is not None:
            undeclared += _undeclared(declared, declared.state, observed)
    return Diff(
        tuple(proposals),
        tuple(compared),
        observation.inventory.difference(declared.ref for declared in wanted),
        tuple(sorted(undeclared)),
        tuple(unknown),
        tuple(diagnostics),
    )


def diff_update(
    desired: Desired, target: Mapping[str, FieldValue], observation: Observation, facts: Facts
) -> Diff:
    """Compare fields of one existing resource with what they are to be, though no manifest says so.

    Args:
        desired: The resource, with the consents that hold for it.
        target: What the fields are to be.
        observation: A reading of the cluster in which the resource exists.
        facts: What is known of the cluster.
    """
    change = _update(desired, target, observation.resources[desired.ref], facts)
    proposals = (Proposal(change, desired),) if change is not None else ()
    return Diff(proposals, (desired,), diagnostics=observation.diagnostics)


def _change(desired: Desired, observed: Observed | None, facts: Facts) -> Change | None:
    kind = KINDS[desired.ref.kind]
    if desired.state is None:
        return None if observed is None else Delete(desired.ref, observed.uid, observed.state, SAFE)
    if observed is None:
        state = _in_order(kind, desired.state)
        return Create(desired.ref, state) if state else None
    state = kind.applicable(desired.state, observed, facts)
    target: dict[str, FieldValue] = {**state}
    if desired.intent.undeclared is Undeclared.RESET:
        target.update(dict.fromkeys(_extra(kind, state, observed)))
    return _update(desired, target, observed, facts)


def _update(
    desired: Desired, target: Mapping[str, FieldValue], observed: Observed, facts: Facts
) -> Update | None:
    """The fields of a resource that differ from what they are to be, in order."""
    kind = KINDS[desired.ref.kind]
    live = {
        path: now
        for path, value in target.items()
        if not kind.ignores(path) and not kind.equal(path, now := kind.live(path, observed, facts), value)
    }
    if not live:
        return None
    context = _context(observed, live, target, desired.intent, facts)
    fields = (
        FieldChange(path, live[path], target[path], deferred=kind.deferred(path, context))
        for path in sorted(live, key=kind.field_order)
    )
    return Update(desired.ref, observed.uid, tuple(fields))


def _extra(kind: Kind, state: State, observed: Observed) -> dict[str, FieldValue]:
    """The own configs of a resource that its declared state does not mention."""
    return {
        path: value
        for path, value in observed.state.items()
        if path.startswith(CONFIG_PREFIX) and path not in state and not kind.ignores(path)
    }


def _undeclared(desired: Desired, state: State, observed: Observed) -> Iterator[UndeclaredConfig]:
    """The undeclared configs that a plan tells of."""
    if desired.intent.undeclared is Undeclared.REPORT:
        for path, value in _extra(KINDS[desired.ref.kind], state, observed).items():
            yield UndeclaredConfig(desired.ref, path, str(value))


def _unmanaged(refs: Iterable[ResourceRef], policy: Policy) -> list[ResourceRef]:
    """The resources of which a plan tells that nobody declares them."""
    shown = (ref for ref in refs if not is_own(ref) and not matches(ref.name, policy.ignore))
    return sorted(shown, key=_order)


def _not_visible(desired: Desired, why: str) -> Diagnostic:
    noun, name = KINDS[desired.ref.kind].noun, desired.ref.name
    rights = [Right(operation, noun, name) for operation in ("Describe", "DescribeConfigs")]
    return Diagnostic(
        "KF410",
        Severity.ERROR,
        f"{desired.ref} is not visible to this account: {why}",
        desired.location,
        f"until then it is neither created nor changed; grant it: {grant(*rights)}",
        ref=desired.ref,
    )


# --- how risky it is ---------------------------------------------------------------------------------


def judge(proposals: Iterable[Proposal], observation: Observation, facts: Facts) -> tuple[Proposal, ...]:
    """Say how risky changes are, by live values and by all that is known of the cluster."""
    return tuple(
        Proposal(
            _judged(proposal.change, proposal.desired.intent, observation, facts),
            proposal.desired,
            proposal.saved,
            proposal.riskier,
            proposal.earlier,
        )
        for proposal in proposals
    )


def _judged(change: Change, intent: Intent, observation: Observation, facts: Facts) -> Change:
    kind = KINDS[change.ref.kind]
    match change:
        case Create(ref, state):
            return Create(ref, state, kind.judge_create(ref, state, facts))
        case Delete(ref, uid, state):
            return Delete(ref, uid, state, kind.judge_delete(observation.resources[ref], facts))
        case Update(ref, uid, fields):
            context = context_of(change, intent, observation, facts)
            judged = (
                FieldChange(
                    field.path,
                    field.before,
                    field.after,
                    context.before.get(field.path),
                    context.after.get(field.path),
                    kind.judge(field.path, context),
                    field.deferred,
                )
                for field in fields
            )
            return Update(ref, uid, tuple(judged))
        case _:
            assert_never(change)


def is_risky(proposal: Proposal, observation: Observation, facts: Facts) -> bool:
    """Whether a change is not safe: a quick judgement of it, which ends at the first risk."""
    change, kind = proposal.change, KINDS[proposal.ref.kind]
    if isinstance(change, Update):
        context = context_of(change, proposal.desired.intent, observation, facts)
        return any(kind.judge(field.path, context).risk > Risk.SAFE for field in change.fields)
    return risk_of(_judged(change, proposal.desired.intent, observation, facts)) > Risk.SAFE


def context_of(change: Update, intent: Intent, observation: Observation, facts: Facts) -> UpdateContext:
    """What the fields of an update are judged by."""
    before = {field.path: field.before for field in change.fields}
    after = {field.path: field.after for field in change.fields}
    return _context(observation.resources[change.ref], before, after, intent, facts)


def _context(
    observed: Observed,
    live: Mapping[str, FieldValue],
    target: Mapping[str, FieldValue],
    intent: Intent,
    facts: Facts,
) -> UpdateContext:
    """What a change of fields is judged by.

    Args:
        observed: The resource.
        live: What the fields that change are.
        target: What fields are to be.
        intent: What the manifest says of the resource.
        facts: What is known of the cluster.
    """
    kind = KINDS[observed.ref.kind]
    before = {**observed.effective, **observed.state}
    before.update((path, now) for path, now in live.items() if now is not None)
    after = dict(before)
    for path in live:
        after[path] = kind.default(path, facts) if target[path] is None else target[path]
    return UpdateContext(observed.ref, before, after, intent, facts)


# --- what may be done of it --------------------------------------------------------------------------


def gate(
    proposals: Iterable[Proposal], observation: Observation, facts: Facts, policy: Policy
) -> GatedChanges:
    """Say what an apply may do of changes that were judged: nothing, without consent, or as they are."""
    changes: list[PlannedChange] = []
    consents: set[Consent] = set()
    for proposal in proposals:
        change, given = _gated(proposal, observation.resources.get(proposal.ref), facts, policy)
        changes.append(change)
        consents.update(given)
    return GatedChanges(tuple(changes), frozenset(consents))


def _place_of(proposal: Proposal) -> Location | None:
    """Return where a change is declared: in kafkaform.yaml, if all it changes comes from the defaults."""
    desired = proposal.desired
    manifest = desired.location
    if isinstance(proposal.change, Update) and manifest is not None:
        places = [desired.place(field.path) for field in proposal.change.fields if field.deferred is None]
        if places and all(place is not None and place.file != manifest.file for place in places):
            return places[0]
    return manifest


def _gated(
    proposal: Proposal, observed: Observed | None, facts: Facts, policy: Policy
) -> tuple[PlannedChange, Iterable[Consent]]:
    desired = proposal.desired
    planned = proposal.saved or PlannedChange(
        proposal.change, Status.PLANNED, _place_of(proposal), team=desired.intent.team
    )
    # What is left of a saved plan's change must be allowed, and so must all of it, as the plan says it is.
    changes = (proposal.change,) if proposal.saved is None else (proposal.change, planned.change)
    refusals = (refusal(change, desired, observed, facts, policy) for change in changes)
    found = next(filter(None, refusals), None) or refusal_of_riskier(proposal.ref, proposal.riskier, policy)
    if found is not None:
        reason, remedy = found
        return replace(planned, status=Status.REFUSED, reason=reason, remedy=remedy), proposal.earlier
    earlier = {consent.hazard: consent.reason for consent in proposal.earlier}
    consents = Consents(policy.allow, desired.intent.allow, earlier)
    status, waiting, given = consented(planned.change, consents)
    keyed = planned.keyed
    if proposal.saved is None and isinstance(proposal.change, Update):
        keyed = desired.intent.keyed
    return replace(planned, status=status, reason=waiting, remedy=None, keyed=keyed), given


# --- the plan ----------------------------------------------------------------------------------------


def conclude(difference: Diff, gated: GatedChanges, facts: Facts, policy: Policy) -> Plan:
    """Put together what differs, what may be done of it, and what is said of both."""
    changing = {planned.ref: planned.change for planned in gated.changes}
    diagnostics = [*difference.diagnostics, *facts.diagnostics, *together(gated.changes, facts)]
    for desired in difference.compared:
        if desired.intent.allow:
            diagnostics += idle_consents(changing.get(desired.ref), desired)
    severities = list(Severity)
    return Plan(
        cluster_id=facts.cluster_id,
        changes=gated.changes,
        unchanged=len(difference.compared) - len(difference.proposals),
        unmanaged=tuple(_unmanaged(difference.unmanaged, policy)),
        undeclared=difference.undeclared,
        consents=tuple(sorted(gated.consents)),
        diagnostics=tuple(
            sorted(
                diagnostics,
                key=lambda d: (severities.index(d.severity), d.code, d.message, str(d.location)),
            )
        ),
        unknown=difference.unknown,
    )


def _order(ref: ResourceRef) -> tuple[int, str]:
    return kind_order(ref.kind), ref.name


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
        undeclared=tuple(config for config in plan.undeclared if matches(str(config.ref), targets)),
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
        replace(reader, topics=tuple(name for name in reader.topics if topic_ref(name) in changing))
        for reader in readers
    )
    return tuple(reader for reader in found if reader.topics)
