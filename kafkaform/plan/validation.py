"""The validation of a plan's operations by the brokers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kafkaform.core.errors import ClusterError, NotOffered, PermissionDenied, RequestRejected
from kafkaform.core.model import BEING_CREATED, Diagnostic, ResourceRef, Severity, Status, Update
from kafkaform.core.operations import Operation, batches
from kafkaform.core.rights import Right, grant
from kafkaform.core.values import replace
from kafkaform.core.wording import code, counted, listed
from kafkaform.resources import KINDS
from kafkaform.resources.replicas.facts import PLACEMENT
from kafkaform.resources.replicas.operations import PartitionCreation, Reassign

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from kafkaform.cluster.protocol import ResourceReader
    from kafkaform.core.model import Observation, State
    from kafkaform.core.plans import Plan, PlannedChange
    from kafkaform.core.progress import Progress

SHOWN_TIMEOUT_S = 10.0
"""How long a plan waits for what the brokers are creating: 12,000 partitions took them 11 to 36 s."""
_MIN_PAUSE_S, _MAX_PAUSE_S = 0.25, 2.0
_EXISTS = "TOPIC_ALREADY_EXISTS"


def validate_plan(
    plan: Plan, cluster: ResourceReader, fixed: Collection[ResourceRef] = ()
) -> tuple[Plan, frozenset[ResourceRef]]:
    """Let the brokers validate every change that is not refused yet; refuse those that they reject.

    An account without the right to alter may not validate either, and a request can go unanswered: the plan
    then contains a note, and stays valid. Brokers that accept new partitions, but no placement for them
    (Redpanda), place them themselves, unless a manifest places all replicas.

    Args:
        fixed: The resources whose manifests place all replicas.

    Returns:
        The plan, and the resources that it creates although they exist: the brokers are still creating them.
    """
    operations = [
        operation
        for change in plan.changes
        if change.status is not Status.REFUSED
        for operation in change.operations or ()
    ]
    # AlterPartitionReassignments has no validate_only: only whether the cluster offers the request can be
    # checked.
    moves = [operation for operation in operations if isinstance(operation, Reassign)]
    operations = [operation for operation in operations if not isinstance(operation, Reassign)]
    # In batches: a validation of more than 10,000 controller records fails as a whole, too.
    requests: list[Sequence[Operation]] = [*batches(operations), *([moves] if moves else [])]
    objections: dict[ResourceRef, list[tuple[Operation, RequestRejected | NotOffered]]] = {}
    failures: list[ClusterError] = []
    unvalidated: dict[ResourceRef, None] = {}
    for batch in requests:
        answers = cluster.validate([operation.rehearsal for operation in batch])
        for operation, objection in zip(batch, answers, strict=True):
            if isinstance(objection, RequestRejected | NotOffered):
                objections.setdefault(operation.ref, []).append((operation, objection))
            elif objection is not None:
                # Not a refusal: the brokers may still accept the change when it is applied.
                failures.append(objection)
                unvalidated[operation.ref] = None
    changes = []
    notes = plan.diagnostics
    for change in plan.changes:
        if change.ref not in objections:
            changes.append(change)
            continue
        refused = [operation for operation, _ in objections[change.ref]]
        _, objection = objections[change.ref][0]
        if change.ref not in fixed and (unplaced := _drop_placement(change, refused, cluster)) is not None:
            text = (
                f"the brokers place the new partitions of {change.ref.name} themselves: {objection.message}"
            )
            notes = (*notes, Diagnostic("KF441", Severity.INFO, text, ref=change.ref))
            changes.append(unplaced)
        else:
            changes.append(_refuse(change, objection))
    if failures:
        notes = (*notes, *_describe_unvalidated(failures, len(operations)))
    hidden = {ref for ref, pairs in objections.items() for _, objection in pairs if _is_existing(objection)}
    validated = replace(
        plan,
        changes=tuple(changes),
        broker_validated=not failures,
        diagnostics=notes,
        unvalidated=(*unvalidated,),
    )
    return validated, frozenset(hidden)


def _is_existing(objection: RequestRejected | NotOffered) -> bool:
    return isinstance(objection, RequestRejected) and objection.code == _EXISTS


def read_hidden(
    refs: frozenset[ResourceRef],
    observation: Observation,
    cluster: ResourceReader,
    declared: Mapping[ResourceRef, State],
    tell: Progress,
) -> Observation:
    """Add resources that the brokers are creating to a reading, once they show them.

    Controllers know of a topic before brokers have opened its logs, and show it: after a mass create, that
    takes them many seconds. Those that remain hidden are in the reading as not visible.
    """
    tell(f"waiting until the brokers show {counted(len(refs), 'new topic')}")
    deadline, pause = time.monotonic() + SHOWN_TIMEOUT_S, _MIN_PAUSE_S
    while not refs <= cluster.observe_fields({ref: {} for ref in refs}).resources.keys():
        if time.monotonic() >= deadline:
            break
        time.sleep(pause)
        pause = min(pause * 1.5, _MAX_PAUSE_S)
    shown = cluster.observe(refs, declared={ref: declared[ref] for ref in refs})
    hidden = dict.fromkeys(refs - shown.resources.keys(), BEING_CREATED)
    return replace(
        observation,
        resources={**observation.resources, **shown.resources},
        inventory=observation.inventory | shown.inventory,
        invisible={**observation.invisible, **hidden, **shown.invisible},
        diagnostics=tuple(dict.fromkeys((*observation.diagnostics, *shown.diagnostics))),
    )


def _describe_unvalidated(failures: Sequence[ClusterError], operations: int) -> Iterator[Diagnostic]:
    """Describe why operations were not validated, with one note per reason or missing right."""
    reasons: dict[str, list[ClusterError]] = {}
    for error in failures:
        right = _missing_right(error)
        key = f"{right.operation} {right.resource}" if right is not None else error.message
        reasons.setdefault(key, []).append(error)
    for errors in reasons.values():
        count = f"{len(errors):,} of {counted(operations, 'operation')}"
        message = f"the brokers did not validate {count}: {errors[0].message}"
        rights = [*map(_missing_right, errors)]
        if names := [right.name for right in rights[1:] if right is not None]:
            message += f", and on {listed(names)}"
        right = rights[0]
        yield Diagnostic(
            "KF414",
            Severity.INFO,
            message,
            suggestion=errors[0].hint
            if right is None
            else "an account that only plans does not need it; the one that applies does: "
            + code(grant(right)),
        )


def _missing_right(error: ClusterError) -> Right | None:
    return error.right if isinstance(error, PermissionDenied) else None


def _drop_placement(
    change: PlannedChange, refused: Collection[Operation], cluster: ResourceReader
) -> PlannedChange | None:
    """Return the change without the placement of new partitions, if the brokers reject nothing else."""
    # Anything else that they refuse has nothing to do with placement.
    update = change.change
    if not isinstance(update, Update) or not all(
        isinstance(o, PartitionCreation) and o.assignment for o in refused
    ):
        return None
    unplaced = replace(update, fields=tuple(field for field in update.fields if field.path != PLACEMENT))
    kind = KINDS[change.ref.kind]
    # A change that also moves replicas depends on the placement as a whole.
    if any(isinstance(operation, Reassign) for operation in kind.operations(update)):
        return None
    added = [o for o in kind.operations(unplaced) if isinstance(o, PartitionCreation)]
    # Only if the same partitions pass without places is the placement the reason.
    if any(objection is not None for objection in cluster.validate(added)):
        return None
    return replace(change, change=unplaced, operations=kind.operations(unplaced))


def _refuse(change: PlannedChange, objection: RequestRejected | NotOffered) -> PlannedChange:
    by_brokers = isinstance(objection, RequestRejected)
    service = KINDS[change.ref.kind].words.service
    reason = f"refused by the {service}: {objection.message}" if by_brokers else objection.message
    return replace(change, status=Status.REFUSED, reason=reason, remedy=objection.hint)
