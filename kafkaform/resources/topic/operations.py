"""The operations that carry out a change of a Topic."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, assert_never, cast

from kafkaform.core.model import CONFIG_PREFIX, Change, Create, Delete, Recreate, Update
from kafkaform.core.operations import AlterConfigs, Deletion, FieldFormatter, Operation, Phase
from kafkaform.core.values import replace
from kafkaform.core.wording import counted
from kafkaform.resources.replicas.facts import MIN_ISR, PLACEMENT
from kafkaform.resources.replicas.layout import Assignment, parse_assignment
from kafkaform.resources.replicas.operations import AlterConfigsInSync, PartitionCreation, Reassign
from kafkaform.resources.replicas.placement import initial_replicas

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from kafkaform.core.model import FieldChange, FieldValue, ResourceRef, State

MAX_NAME_LENGTH = 249
"""The length to which Kafka limits the names of topics."""
_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+")
_REHEARSED = ".kafkaform-validation"
"""The end of a name that no topic has."""


def is_legal_name(name: str) -> bool:
    """Return whether Kafka accepts a name for a topic (`Topic.validate` of Kafka)."""
    return name not in {".", ".."} and len(name) <= MAX_NAME_LENGTH and bool(_LEGAL_NAME.fullmatch(name))


class CreateTopic(PartitionCreation):
    """Create a topic; a replication factor or partition count of -1 is the broker's default.

    Attributes:
        partitions: The number of partitions.
        replication_factor: The number of replicas of each.
        assignment: The brokers of each partition; if empty, the controller chooses.
        phase: REPLACE if a topic of the name is deleted first.
    """

    partitions: int
    replication_factor: int
    configs: Mapping[str, str]
    assignment: Assignment = ()
    phase: Phase = Phase.CREATE

    step = "create"

    @property
    def rehearsal(self) -> CreateTopic:
        """The same with another name: brokers refuse the name of a topic that is not deleted yet."""
        if self.phase is Phase.CREATE:
            return self
        name = f"{self.ref.name[: MAX_NAME_LENGTH - len(_REHEARSED)]}{_REHEARSED}"
        return replace(self, ref=self.ref._replace(name=name))

    @property
    def weight(self) -> int:
        """One for the topic, one for each partition and config."""
        # The broker's default number of partitions, for which -1 stands, is not known here.
        return 1 + max(self.partitions, 1) + len(self.configs)

    def words(self, _format_field: FieldFormatter) -> str:
        """Return the numbers of partitions and replicas."""
        return f"{counted(self.partitions, 'partition')}, {counted(self.replication_factor, 'replica')} each"

    def paths(self, changed: Collection[str]) -> Iterable[str]:
        """Return all fields of the change."""
        return changed


class AddPartitions(PartitionCreation):
    """Raise a topic's partition count from `present` to `total`.

    Attributes:
        present: The present number of partitions.
        total: The new number of partitions.
        assignment: The brokers of each new one; if empty, the controller chooses.
    """

    present: int
    total: int
    assignment: Assignment = ()

    # Before the reassignment, which moves the new partitions as well.
    phase = Phase.EXTEND

    @property
    def weight(self) -> int:
        """One for each new partition."""
        return 1 + self.total - self.present

    def words(self, _format_field: FieldFormatter) -> str:
        """Return the counts before and after."""
        return f"partitions {self.present:,} → {self.total:,}"

    def paths(self, changed: Collection[str]) -> Iterable[str]:
        """Return the fields of the count and the placement."""
        return ["partitions", PLACEMENT] if PLACEMENT in changed else ["partitions"]

    def is_open(self, missing: Collection[str]) -> bool:
        """Return whether the count is not reached: a reassignment moves the rest of the placement."""
        return "partitions" in missing


class DeleteOffsets(Operation):
    """Delete the offsets that groups have committed in a topic, while no member of any group reads it."""

    phase = Phase.FORGET
    step = "delete-offsets"

    @property
    def weight(self) -> int:
        """None: coordinators keep offsets."""
        return 0

    def words(self, _format_field: FieldFormatter) -> str:
        """Return the kind of what is deleted."""
        return "committed offsets deleted"

    def paths(self, changed: Collection[str]) -> Iterable[str]:
        """Return all fields of the change."""
        return changed


class DeleteTopic(Deletion):
    """Delete the topic with this id, and no other of its name; without an id, any topic of the name.

    Attributes:
        phase: REMOVE if it is created again; the deletion then ends once it is gone on every broker.
    """

    uid: str | None
    # Last, as nothing brings the records back.
    phase: Phase = Phase.DELETE

    @property
    def weight(self) -> int:
        """One for the topic."""
        return 1

    @property
    def subject(self) -> object:
        """Its id, or its reference without one."""
        # DeleteTopics names a topic by its id or by its name, so duplicates are found by the same.
        return self.uid or self.ref


def operations(change: Change) -> tuple[Operation, ...]:
    """Return the operations of a change, in order: those that can be undone come first."""
    match change:
        case Create(ref, state):
            return (_create(ref, state, Phase.CREATE),)
        case Update():
            return _update(change)
        case Delete(ref, uid):
            return (DeleteTopic(ref, uid),)
        case Recreate(ref, uid, state=state):
            # Offsets first, as brokers refuse to delete them in a topic that is gone. By those that remain,
            # groups would skip the first records of the new topic.
            deletions = DeleteOffsets(ref), DeleteTopic(ref, uid, Phase.REMOVE)
            return (*deletions, _create(ref, state, Phase.REPLACE))
        case _:
            assert_never(change)


def _create(ref: ResourceRef, state: State, phase: Phase) -> CreateTopic:
    configs = {
        path.removeprefix(CONFIG_PREFIX): str(value)
        for path, value in state.items()
        if path.startswith(CONFIG_PREFIX) and value is not None
    }
    partitions, replicas = cast("int", state["partitions"]), cast("int", state["replicationFactor"])
    placement = state.get(PLACEMENT)
    assignment = parse_assignment(str(placement)) if placement is not None else ()
    return CreateTopic(ref, partitions, replicas, configs, assignment, phase)


def _update(change: Update) -> tuple[Operation, ...]:
    """Return partitions and configs first, then replicas; a higher min ISR waits for these to be in sync."""
    fields = {field.path: field for field in change.fields if field.deferred is None}
    partitions, placement = fields.get("partitions"), fields.get(PLACEMENT)
    configs = {
        path.removeprefix(CONFIG_PREFIX): field.after
        for path, field in fields.items()
        if path.startswith(CONFIG_PREFIX)
    }
    raised = _raised_min_isr(fields.get(MIN_ISR))
    min_isr = MIN_ISR.removeprefix(CONFIG_PREFIX)
    # Raised before the new replicas are in sync, it stopped every write with acks=all (measured on 4.3.1).
    # Lowered, it goes with the other configs, and so before replicas are dropped.
    late = {min_isr: configs.pop(min_isr)} if raised else {}
    steps: list[Operation] = []
    # Configs first: they can be set back if a later step fails.
    if configs:
        steps.append(_build_alteration(change, configs))
    before, after = _parse_assignments(placement)
    if partitions is not None:
        present, total = cast("int", partitions.before), cast("int", partitions.after)
        steps.append(AddPartitions(change.ref, present, total, initial_replicas(before, after)))
    # Partitions that are added start where AddPartitions places them, and are moved from there if need be.
    before = (*before, *initial_replicas(before, after))
    moved = [number for number, replicas in enumerate(before) if after[number] != replicas]
    if moved:
        sides = ({number: side[number] for number in moved} for side in (before, after))
        steps.append(Reassign(change.ref, *sides))
    if late:
        alteration = _build_alteration(change, late)
        steps.append(AlterConfigsInSync(change.ref, alteration.set, alteration.unset, raised))
    return tuple(steps)


def _build_alteration(change: Update, configs: Mapping[str, FieldValue]) -> AlterConfigs:
    given = {name: str(value) for name, value in configs.items() if value is not None}
    return AlterConfigs(change.ref, given, tuple(name for name, value in configs.items() if value is None))


def _raised_min_isr(min_isr: FieldChange | None) -> int:
    """Return the value to which min.insync.replicas is raised; 0 if it is not."""
    if min_isr is None:
        return 0
    # Assume the worst, 1, of a default that this account may not read.
    before, after = (int(v or 1) for v in (min_isr.effective_before, min_isr.effective_after))
    return after if after > before else 0


def _parse_assignments(placement: FieldChange | None) -> tuple[Assignment, Assignment]:
    """Return the assignments before and after."""
    if placement is None:
        return (), ()
    return parse_assignment(str(placement.before)), parse_assignment(str(placement.after))
