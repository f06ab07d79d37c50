"""Whether a planned change still fits the live cluster: what is left of it, or why it must not be forced."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, assert_never

from kafkaform.core.model import CONFIG_PREFIX, Create, Delete, Update
from kafkaform.resources import KINDS
from kafkaform.resources.base import FieldOutcome

if TYPE_CHECKING:
    from collections.abc import Collection

    from kafkaform.core.model import Change, FieldChange, FieldValue, Observation, Observed

_NEW_PLAN = "make a new plan, and review it"
_LONGEST = 200
"""The most characters that are shown of one value: the replicas of a large topic fill pages."""


@dataclass(frozen=True, slots=True)
class Left:
    """What the cluster still lacks of a change.

    Attributes:
        change: What there is to do; None if all of it is done.
        deferred: Fields that still differ, and that this version leaves as they are.
    """

    change: Change | None
    deferred: tuple[FieldChange, ...] = ()


@dataclass(frozen=True, slots=True)
class Moved:
    """Why a change does not fit any more, and what to do about it."""

    reason: str
    hint: str = _NEW_PLAN


REPLACED = Moved("it was deleted and created again since the plan: this is another topic of the same name")


def concerned(change: Change) -> Collection[str]:
    """The paths of the fields that `remaining` looks at."""
    match change:
        case Create(state=state):
            return state.keys()
        case Update(fields=fields):
            return [field.path for field in fields]
        case Delete():
            return ()


def remaining(change: Change, observation: Observation) -> Left | Moved:
    """Compare a change with a reading of the cluster that covers its resource, and the fields concerned.

    A live value that is neither what the plan saw nor what it wants was set by somebody else: then
    nothing of the resource is to be touched.
    """
    if change.ref in observation.invisible:
        return Moved(
            f"it is no longer visible to this account: {observation.invisible[change.ref]}",
            "grant Describe and DescribeConfigs on it",
        )
    observed = observation.resources.get(change.ref)
    left = _compared(change, observed)
    if observed is None or isinstance(left, Moved) or left.change is None:
        return left
    obstacle = KINDS[change.ref.kind].obstacle(left.change, observed)
    return left if obstacle is None else Moved(obstacle[0], obstacle[1] or _NEW_PLAN)


def _compared(change: Change, observed: Observed | None) -> Left | Moved:
    match change:
        case Create():
            return _remaining_create(change, observed)
        case Update():
            return _remaining_update(change, observed)
        case Delete(uid=uid):
            if observed is None:
                return Left(None)
            return Left(change) if observed.uid == uid else REPLACED
        case _:
            assert_never(change)


def _remaining_create(change: Create, observed: Observed | None) -> Left | Moved:
    if observed is None:
        return Left(change)
    kind = KINDS[change.ref.kind]
    others = [
        f"{_name(path)} {_shown(live)} instead of {_shown(wanted)}"
        for path, wanted in change.state.items()
        if not kind.equal(path, live := kind.live(path, observed), wanted)
    ]
    return Moved(f"it now exists, with {', '.join(others)}") if others else Left(None)


def _remaining_update(change: Update, observed: Observed | None) -> Left | Moved:
    if observed is None:
        # A group that only had configs is gone with the last of them.
        emptied = change.uid is None and all(field.after is None for field in change.fields)
        return Left(None) if emptied else Moved("it was deleted since the plan")
    if observed.uid != change.uid:
        return REPLACED
    kind = KINDS[change.ref.kind]
    left: list[FieldChange] = []
    moved: list[str] = []
    for field in change.fields:
        match kind.remaining(field, observed):
            case FieldOutcome.DONE:
                pass
            case FieldOutcome.MOVED:
                live, saw, wants = map(_shown, (kind.live(field.path, observed), field.before, field.after))
                moved.append(f"{_name(field.path)} is now {live}; the plan saw {saw} and sets {wants}")
            case rest:
                left.append(rest)
    if moved:
        return Moved("; ".join(moved))
    open_fields = tuple(field for field in left if field.deferred is None)
    deferred = tuple(field for field in left if field.deferred is not None)
    if not open_fields:
        return Left(None, deferred)
    return Left(change if open_fields == change.fields else replace(change, fields=open_fields), deferred)


def _name(path: str) -> str:
    return path.removeprefix(CONFIG_PREFIX)


def _shown(value: FieldValue) -> str:
    if value is None:
        return "unset"
    text = str(value) if value != "" else '""'
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
