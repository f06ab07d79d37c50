"""The diff of declared and live resources, and of a saved plan and the cluster.

Resources and fields are compared here, once for all kinds; each kind defines how its fields compare.
The result does not depend on the order of the input.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from kafkaform.core.authorizer import AuthorizerSettings
from kafkaform.core.model import (
    BEING_CREATED,
    CONFIG_PREFIX,
    SAFE,
    Change,
    Create,
    Delete,
    Desired,
    Diagnostic,
    Facts,
    FieldChange,
    FieldValue,
    Intent,
    Location,
    Observation,
    Observed,
    Recreate,
    ResourceRef,
    RiskAssessment,
    Severity,
    State,
    Status,
    Undeclared,
    Update,
)
from kafkaform.core.plans import Consent, Plan, PlannedChange, UndeclaredConfig
from kafkaform.core.rights import grant
from kafkaform.core.values import Value, replace
from kafkaform.core.wording import code, counted, listed
from kafkaform.plan.policy import Policy, find_protection, is_own
from kafkaform.plan.preconditions import RemainingChange, find_remaining, hide_offsets, list_fields
from kafkaform.resources import GROUP, KINDS, kind_order, topic_ref
from kafkaform.resources.base import Kind, UpdateContext, field_order, list_reading_rights
from kafkaform.resources.consent import find_covering

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


class RiskIncrease(Value):
    """A risk of a change that is higher than in the saved plan.

    Attributes:
        text: A sentence for people.
    """

    text: str
    assessment: RiskAssessment


class Proposal(Value):
    """A change that passes through the stages of planning.

    Attributes:
        change: The change; `judge` assesses its risk.
        desired: The declared resource.
        observed: The live resource; None if there is none.
        before: Of an update, the effective values now, for every field that can be read.
        after: Of an update, the effective values after it; None where a default is unknown.
        saved: The change of the saved plan of which this is the remainder; None in a new plan.
        riskier: The risks that are higher now than in the saved plan.
        earlier: The consents that the saved plan contains for it.
    """

    change: Change
    desired: Desired
    observed: Observed | None
    before: State = MappingProxyType({})
    after: State = MappingProxyType({})
    saved: PlannedChange | None = None
    riskier: tuple[RiskIncrease, ...] = ()
    earlier: tuple[Consent, ...] = ()

    @property
    def ref(self) -> ResourceRef:
        """The resource that changes."""
        return self.change.ref

    @property
    def planned(self) -> PlannedChange:
        """The whole change, before the gate has set its status."""
        if self.saved is not None:
            return self.saved
        layer, location = _find_origin(self)
        intent = self.desired.intent
        # A saved plan is judged without manifests, and the risk of a partition increase depends on this.
        keyed = intent.keyed if isinstance(self.change, Update) else None
        return PlannedChange(
            self.change, Status.PLANNED, location, keyed=keyed, team=intent.team, layer=layer
        )

    @property
    def judged(self) -> tuple[Change, ...]:
        """The changes that must be allowed: the remaining one and, of a saved plan, the whole one too."""
        return (self.change,) if self.saved is None else (self.change, self.saved.change)


class Diff(Value):
    """The differences between declared and live resources.

    Attributes:
        proposals: The changes that would remove the differences, by kind and name, not yet assessed.
        compared: The declared resources that could be compared.
        unmanaged: Live resources that no manifest declares.
        undeclared: Configs of declared resources that no manifest declares.
        unknown: Declared resources that this account may not see: they may or may not exist.
        diagnostics: Resources that could not be read or compared, or need not be created.
    """

    proposals: tuple[Proposal, ...]
    compared: tuple[Desired, ...]
    unmanaged: frozenset[ResourceRef] = frozenset()
    undeclared: tuple[UndeclaredConfig, ...] = ()
    unknown: tuple[ResourceRef, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


class SavedPlan(Value):
    """A plan that was made earlier and is to be applied.

    Attributes:
        intents: The intents of its resources from manifests, if there are any; they replace the plan's own.
    """

    plan: Plan
    intents: Mapping[ResourceRef, Intent]

    @property
    def targets(self) -> Mapping[ResourceRef, State]:
        """The values that its changes set."""
        return {planned.ref: list_fields(planned.change) for planned in self.plan.changes}

    @property
    def refs(self) -> frozenset[ResourceRef]:
        """The resources that it may change, and the topics in which it commits first offsets."""
        changes = [planned.change for planned in self.plan.changes if planned.status is not Status.REFUSED]
        return frozenset(change.ref for change in changes).union(
            *(map(topic_ref, GROUP.first_offsets(change).values()) for change in changes)
        )


def add_tombstones(
    desired: Iterable[Desired], observation: Observation, policy: Policy
) -> tuple[Desired, ...]:
    """Return the declared resources, and with `--prune` tombstones of the undeclared ones.

    A protected or internal resource stays unmanaged: a refused change would fail every apply.
    """
    declared = tuple(desired)
    if not policy.prune:
        return declared
    refs = observation.inventory.difference(resource.ref for resource in declared)
    tombstones = (Desired(ref, None) for ref in list_unmanaged(refs, policy))
    return declared + tuple(
        tombstone
        for tombstone in tombstones
        if (observed := observation.resources.get(tombstone.ref)) is not None
        and KINDS[tombstone.ref.kind].scope.prunable
        and policy.owns.match(tombstone.ref)
        and find_protection(tombstone, observed, policy) is None
    )


def diff(desired: Iterable[Desired], observation: Observation, facts: Facts, *, unseen: bool) -> Diff:
    """Compare declared resources with live ones.

    Args:
        desired: The declared resources, in any order, each once.
        observation: A reading of the cluster that covers all of them.
        facts: The facts of the cluster, such as its defaults and the target placements.
        unseen: Whether fields that a reading does not show in full, such as passwords, are set where a
            manifest consents to that.
    """
    wanted = sorted(desired, key=lambda declared: resource_order(declared.ref))
    proposals: list[Proposal] = []
    compared: list[Desired] = []
    undeclared: list[UndeclaredConfig] = []
    unknown: list[ResourceRef] = []
    hidden: list[Desired] = []
    diagnostics = list(observation.diagnostics)
    recreations = {
        declared.ref: recreation
        for declared in wanted
        if (recreation := _find_recreation(declared, observation.resources.get(declared.ref))) is not None
    }
    observation = hide_offsets(observation, recreations.values())
    for declared in wanted:
        if declared.ref in observation.invisible:
            unknown.append(declared.ref)
            why = observation.invisible[declared.ref]
            if why == BEING_CREATED:
                hidden.append(declared)
            else:
                diagnostics.append(_describe_invisible(declared, why, facts))
            continue
        compared.append(declared)
        observed = observation.resources.get(declared.ref)
        recreation = recreations.get(declared.ref)
        if recreation is not None:
            proposals.append(Proposal(recreation, declared, observed))
            continue
        if _asks_in_vain(declared, observed):
            diagnostics.append(_describe_missing_id(declared))
        proposal = _diff_resource(declared, observed, facts, unseen=unseen)
        if proposal is not None:
            proposals.append(proposal)
        elif observed is None and declared.state is not None:
            diagnostics.append(describe_unset_resource(declared))
        if observed is not None and declared.state is not None:
            undeclared += _report_undeclared(declared, declared.state, observed)
    if hidden:
        diagnostics.append(_describe_hidden(hidden))
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
    """Compare fields of one existing resource with target values that no manifest declares.

    Args:
        desired: The resource, with the consents that hold for it.
        target: The target values by field.
        observation: A reading of the cluster in which the resource exists.
        facts: The facts of the cluster.
    """
    proposal = _diff_fields(desired, target, observation.resources[desired.ref], facts)
    proposals = () if proposal is None else (proposal,)
    return Diff(proposals, (desired,), diagnostics=observation.diagnostics)


def diff_saved(saved: SavedPlan, observation: Observation, facts: Facts) -> tuple[Proposal, ...]:
    """Find the changes of a saved plan that remain to be carried out.

    A change that is done, or that no longer fits the cluster, is not among the proposals.
    """
    consents: dict[str, list[Consent]] = {}
    for consent in saved.plan.consents:
        consents.setdefault(consent.resource, []).append(consent)
    proposals = []
    planned_changes = [each.change for each in saved.plan.changes if each.status is not Status.REFUSED]
    observation = hide_offsets(observation, planned_changes)
    for planned in saved.plan.changes:
        if planned.status is Status.REFUSED:
            continue
        # A superseded change is not judged: the apply refuses it in any case.
        remaining = find_remaining(planned.change, observation, unseen_is_open=True)
        if isinstance(remaining, RemainingChange) and remaining.change is not None:
            intent = saved.intents.get(planned.ref) or Intent(keyed=planned.keyed)
            # Consents in manifests count when a plan is made; those that it used are in the saved plan.
            if intent.allow:
                intent = replace(intent, allow={})
            desired = Desired(planned.ref, None, intent, planned.location)
            observed = observation.resources.get(planned.ref)
            fields = remaining.change.fields if isinstance(remaining.change, Update) else ()
            live, target = {f.path: f.before for f in fields}, {f.path: f.after for f in fields}
            before, after = _complete_values(observed, live, target, facts)
            earlier = tuple(consents.get(str(planned.ref), ()))
            proposals.append(
                Proposal(remaining.change, desired, observed, before, after, planned, earlier=earlier)
            )
    return tuple(proposals)


def _diff_resource(
    desired: Desired, observed: Observed | None, facts: Facts, *, unseen: bool
) -> Proposal | None:
    kind = KINDS[desired.ref.kind]
    if desired.state is None:
        if observed is None:
            return None
        return Proposal(Delete(desired.ref, observed.uid, observed.state, SAFE), desired, observed)
    if observed is None:
        own = _select_own(kind, desired.state)
        return Proposal(Create(desired.ref, own), desired, None) if own else None
    # Without what cannot be applied now, such as first offsets of a group that has members; with the planned
    # replicas.
    state = kind.reconcile(desired.state, observed, facts)
    if desired.intent.undeclared is Undeclared.KEEP:
        # Such as ACLs of `User:*`, of which only the manifest of a topic declares one.
        state = {path: value for path, value in state.items() if value is not None or path in desired.state}
    target: dict[str, FieldValue] = {**state}
    if desired.intent.undeclared is Undeclared.RESET:
        # None unsets a config, so that the broker's default is in force again.
        target.update(dict.fromkeys(_find_undeclared_configs(kind, state, observed)))
    return _diff_fields(desired, target, observed, facts, unseen=unseen)


def _select_own(kind: Kind, state: State) -> State:
    """Return only the fields that have a value, in the order of plans."""
    return {path: state[path] for path in sorted(state, key=field_order(kind)) if state[path] is not None}


def _find_recreation(desired: Desired, observed: Observed | None) -> Recreate | None:
    """Return the recreation of a topic whose manifest names the id of the live one; None for no such."""
    if observed is None or desired.state is None:
        return None
    uid, kind = observed.uid, KINDS[desired.ref.kind]
    # Another id is that of an earlier topic, or of one on another cluster.
    if uid is None or desired.intent.recreate != uid:
        return None
    live = {path: value for path, value in observed.state.items() if not kind.field(path).ignored}
    return Recreate(desired.ref, uid, live, _select_own(kind, desired.state))


def _asks_in_vain(desired: Desired, observed: Observed | None) -> bool:
    """Return whether a manifest names an id, but the brokers have none."""
    asks = desired.state is not None and desired.intent.recreate is not None
    return asks and observed is not None and observed.uid is None


def _diff_fields(
    desired: Desired,
    target: Mapping[str, FieldValue],
    observed: Observed,
    facts: Facts,
    *,
    unseen: bool = False,
) -> Proposal | None:
    """Return an update of the fields that differ from their targets, in order; None if none does."""
    kind = KINDS[desired.ref.kind]
    live = {
        path: now
        for path, value in target.items()
        if not (field := kind.field(path)).ignored
        and (
            not field.equal(now := field.live(observed, facts), value)
            or (unseen and _is_set_by_consent(desired, FieldChange(path, now, value)))
        )
    }
    if not live:
        return None
    before, after = _complete_values(observed, live, target, facts)
    context = UpdateContext(desired.ref, before, after, desired.intent, facts)
    fields = (
        FieldChange(path, live[path], target[path], deferred=kind.field(path).explain_deferral(context))
        for path in sorted(live, key=field_order(kind))
    )
    return Proposal(Update(desired.ref, observed.uid, tuple(fields)), desired, observed, before, after)


def _is_set_by_consent(desired: Desired, change: FieldChange) -> bool:
    """Return whether a manifest consents to set a value that may be the live one already."""
    kind = KINDS[desired.ref.kind]
    field = kind.field(change.path)
    if field.unseen_hazard is None or not field.is_unseen(change, change.before):
        return False
    return find_covering(desired.intent.allow, field.unseen_hazard, field.bind(change)) is not None


def _find_undeclared_configs(kind: Kind, state: State, observed: Observed) -> dict[str, FieldValue]:
    """Find the configs set on a resource that its declared state does not mention."""
    return {
        path: value
        for path, value in observed.state.items()
        if path.startswith(CONFIG_PREFIX) and path not in state and not kind.field(path).ignored
    }


def _report_undeclared(desired: Desired, state: State, observed: Observed) -> Iterator[UndeclaredConfig]:
    """Yield the undeclared configs that a plan reports."""
    if desired.intent.undeclared is Undeclared.REPORT:
        for path, value in _find_undeclared_configs(KINDS[desired.ref.kind], state, observed).items():
            yield UndeclaredConfig(desired.ref, path, str(value))


def _describe_hidden(hidden: Sequence[Desired]) -> Diagnostic:
    """Describe resources that are being created: one finding, as they are often thousands."""
    first = hidden[0]
    names = f"{first.ref} is"
    if len(hidden) > 1:
        nouns = counted(len(hidden), KINDS[first.ref.kind].words.noun)
        names = f"{nouns} ({listed([declared.ref.name for declared in hidden])}) are"
    pronoun = "it" if len(hidden) == 1 else "them"
    return Diagnostic(
        "KF410",
        Severity.ERROR,
        f"{names} being created: the brokers do not show {pronoun} yet",
        first.location,
        f"plan again in a minute; if that does not help, grant Describe on {pronoun}",
        ref=first.ref if len(hidden) == 1 else None,
    )


def _describe_invisible(desired: Desired, why: str, facts: Facts) -> Diagnostic:
    rights = list_reading_rights(KINDS[desired.ref.kind], desired.ref.name)
    remedy = f"; grant it: {code(grant(*rights))}" if rights else ""
    settings = facts.get(AuthorizerSettings)
    if settings.principal in (settings.super_users or ()):
        # Brokers do not show super.users: only a refusal shows that the declared ones are outdated.
        remedy = (
            f"; {settings.principal} is a super user in kafkaform.yaml, but not for the brokers: correct one"
        )
    return Diagnostic(
        "KF410",
        Severity.ERROR,
        f"{desired.ref} is not visible to this account: {why}",
        desired.location,
        f"until then it is neither created nor changed{remedy}",
        ref=desired.ref,
    )


def _describe_missing_id(desired: Desired) -> Diagnostic:
    return Diagnostic(
        "KF445",
        Severity.WARNING,
        f"{desired.ref} is not recreated: these brokers have no topic ids, so `recreate` names no topic",
        desired.locate("recreate"),
        "brokers have topic ids from Kafka 2.8 on; here, delete the topic with `state: absent`, then declare "
        "it again",
        ref=desired.ref,
    )


def describe_unset_resource(desired: Desired) -> Diagnostic:
    """Describe a resource that does not exist and whose manifest sets nothing."""
    return Diagnostic(
        "KF420",
        Severity.INFO,
        f"{desired.ref} does not exist, and its manifest sets nothing on the cluster",
        desired.location,
        "its first member creates it; so does an apply, once its manifest has first offsets or a config",
        ref=desired.ref,
    )


def list_unmanaged(refs: Iterable[ResourceRef], policy: Policy) -> list[ResourceRef]:
    """List the undeclared resources that a plan reports, sorted."""
    reported = (ref for ref in refs if not is_own(ref) and not policy.ignore.match(ref))
    return sorted(reported, key=resource_order)


def resource_order(ref: ResourceRef) -> tuple[int, str]:
    """Return the sort key of a resource in plans: by kind, then by name."""
    return kind_order(ref.kind), ref.name


def _find_origin(proposal: Proposal) -> tuple[str, Location | None]:
    """Return the layer that all fields of a change come from, and its place; empty, and the manifest's."""
    desired = proposal.desired
    if isinstance(proposal.change, Update) and desired.locations is not None:
        fields = [field for field in proposal.change.fields if field.deferred is None]
        sources = [(field, desired.locations.find_layer(field.path)) for field in fields]
        # What nothing declares was chosen for the change, as the brokers of new partitions are; but a value
        # that is removed is removed because the manifest lacks it.
        layers = {layer: field for field, layer in sources if layer is not None or field.after is None}
        # A change of a profile would otherwise be reported once for each of a thousand manifests, at lines
        # that do not have it.
        if len(layers) == 1 and (layer := next(iter(layers))):
            return layer, desired.locate(layers[layer].path)
    return "", desired.location


def _complete_values(
    observed: Observed | None, live: State, target: State, facts: Facts
) -> tuple[State, State]:
    """Return the effective values of a whole resource, before and after fields change.

    The risk of one field depends on others, such as that of retention.ms on cleanup.policy.
    """
    if observed is None:
        return {}, {}
    kind = KINDS[observed.ref.kind]
    before = {**observed.effective, **observed.state}
    before.update((path, now) for path, now in live.items() if now is not None)
    after = {path: kind.field(path).default(facts) if target[path] is None else target[path] for path in live}
    return before, {**before, **after}
