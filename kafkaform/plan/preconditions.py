"""The comparison of planned changes with the live cluster: remaining, done, or superseded."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from kafkaform.core.model import CONFIG_PREFIX, Create, Delete, Recreate, Update
from kafkaform.core.values import Value, replace
from kafkaform.resources import GROUP, KINDS, is_group
from kafkaform.resources.base import FieldOutcome

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkaform.core.model import Change, FieldChange, FieldValue, Observation, Observed, State

NEW_PLAN = "make a new plan, and review it"
_MAX_VALUE_LENGTH = 200
"""The most characters of a value in a message: the replicas of a large topic fill pages."""


class RemainingChange(Value):
    """The part of a change that the cluster still lacks.

    Attributes:
        change: The remaining change; None if all of it is done.
        deferred: Fields that still differ, and that this version does not change.
    """

    change: Change | None
    deferred: tuple[FieldChange, ...] = ()


class Superseded(Value):
    """The reason why a change no longer fits the cluster, and a hint."""

    reason: str
    hint: str = NEW_PLAN


REPLACED = Superseded(
    "it was deleted and created again since the plan: this is another topic of the same name"
)


def list_fields(change: Change) -> State:
    """List the fields that `find_remaining` compares, with the values that they are to have."""
    match change:
        case Create(state=state) | Recreate(state=state):
            return state
        case Update(fields=fields):
            return {field.path: field.after for field in fields}
        case Delete():
            return {}


def hide_offsets(observation: Observation, changes: Iterable[Change]) -> Observation:
    """Return a reading without the offsets in topics that changes have yet to recreate.

    They are deleted with the topic, so that groups need first offsets again.
    """
    topics = {
        change.ref.name
        for change in changes
        if isinstance(change, Recreate)
        and (observed := observation.resources.get(change.ref)) is not None
        and observed.uid == change.uid
    }
    if not topics:
        return observation
    groups = {
        ref: GROUP.hide_offsets(observed, topics)
        for ref, observed in observation.resources.items()
        if is_group(ref)
    }
    return replace(observation, resources={**observation.resources, **groups})


def find_remaining(
    change: Change, observation: Observation, *, unseen_is_open: bool = False
) -> RemainingChange | Superseded:
    """Compare a change with a reading of the cluster that covers its resource, and the fields concerned.

    If a live value is neither the one before nor the one after the change, something else has set it: the
    resource must not be changed.

    Args:
        unseen_is_open: Whether a field remains if the reading does not show whether it is done, as that of a
            password: before it is sent. Afterwards, the acknowledgement of the brokers counts.
    """
    if change.ref in observation.invisible:
        return Superseded(
            f"it is no longer visible to this account: {observation.invisible[change.ref]}",
            "grant Describe and DescribeConfigs on it",
        )
    observed = observation.resources.get(change.ref)
    remaining = _compare(change, observed, unseen_is_open=unseen_is_open)
    if observed is None or isinstance(remaining, Superseded) or remaining.change is None:
        return remaining
    # Only for what remains: a change that is done has nothing in its way.
    obstacle = GROUP.find_obstacle(remaining.change, observed)
    return remaining if obstacle is None else Superseded(*obstacle)


def _compare(
    change: Change, observed: Observed | None, *, unseen_is_open: bool
) -> RemainingChange | Superseded:
    match change:
        case Create():
            return _find_remaining_create(change, observed)
        case Update():
            return _find_remaining_update(change, observed, unseen_is_open=unseen_is_open)
        case Delete(uid=uid):
            if observed is None:
                return RemainingChange(None)
            return RemainingChange(change) if observed.uid == uid else REPLACED
        case Recreate(ref, uid, state=state):
            if observed is not None and observed.uid == uid:
                return RemainingChange(change)
            # Killed after the deletion, an apply leaves the creation to be done.
            remaining = _find_remaining_create(Create(ref, state), observed)
            return REPLACED if isinstance(remaining, Superseded) else remaining
        case _:
            assert_never(change)


def _find_remaining_create(change: Create, observed: Observed | None) -> RemainingChange | Superseded:
    if observed is None:
        return RemainingChange(change)
    kind = KINDS[change.ref.kind]
    differences = [
        f"{_name(path)} {_format_value(live)} instead of {_format_value(wanted)}"
        for path, wanted in change.state.items()
        if not kind.field(path).equal(live := kind.field(path).live(observed), wanted)
    ]
    return (
        Superseded(f"it now exists, with {', '.join(differences)}") if differences else RemainingChange(None)
    )


def _find_remaining_update(
    change: Update, observed: Observed | None, *, unseen_is_open: bool
) -> RemainingChange | Superseded:
    if observed is None:
        # A commit creates its group. Kafka 2.8 deletes a group with its last offset, as that in a topic that
        # is recreated.
        if GROUP.first_offsets(change).keys() == {field.path for field in change.fields}:
            return RemainingChange(change)
        # A group that only had configs is gone with the last of them.
        emptied = change.uid is None and all(field.after is None for field in change.fields)
        return RemainingChange(None) if emptied else Superseded("it was deleted since the plan")
    # The id, not the name, identifies a topic (KIP-516): one that was created again is another one.
    if observed.uid != change.uid:
        return REPLACED
    kind = KINDS[change.ref.kind]
    open_parts: list[FieldChange] = []
    moved: list[str] = []
    for field in change.fields:
        compared = kind.field(field.path)
        match compared.remaining(field, observed):
            case FieldOutcome.DONE:
                if unseen_is_open and compared.is_unseen(field, compared.live(observed)):
                    open_parts.append(field)
            case FieldOutcome.MOVED:
                live, saw, wants = map(_format_value, (compared.live(observed), field.before, field.after))
                moved.append(f"{_name(field.path)} is now {live}; the plan saw {saw} and sets {wants}")
            case rest:
                open_parts.append(rest)
    # One field that was changed since stops the whole resource, as its fields were reviewed together.
    if moved:
        return Superseded("; ".join(moved))
    open_fields = tuple(field for field in open_parts if field.deferred is None)
    deferred = tuple(field for field in open_parts if field.deferred is not None)
    if not open_fields:
        return RemainingChange(None, deferred)
    return RemainingChange(
        change if open_fields == change.fields else replace(change, fields=open_fields), deferred
    )


def _name(path: str) -> str:
    return path.removeprefix(CONFIG_PREFIX)


def _format_value(value: FieldValue) -> str:
    if value is None:
        return "unset"
    text = str(value) if value != "" else '""'
    return text if len(text) <= _MAX_VALUE_LENGTH else f"{text[:_MAX_VALUE_LENGTH]}…"
