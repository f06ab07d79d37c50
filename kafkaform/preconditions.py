"""Whether a planned change still fits the live cluster: what is left of it, or why it must not be forced."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from kafkaform.kinds import KINDS
from kafkaform.model import Change, Create, Delete, Observation, Observed, Update

_REPLACED = "it was deleted and made again since the plan"


def remaining(change: Change, observation: Observation) -> Change | str | None:
    """What is left of a change: all or a part of it, None if it is done, or why it no longer fits."""
    if change.ref in observation.invisible:
        return f"not visible to this account: {observation.invisible[change.ref]}"
    observed = observation.resources.get(change.ref)
    match change:
        case Create():
            return _remaining_create(change, observed)
        case Update():
            return _remaining_update(change, observed)
        case Delete(uid=uid):
            if observed is None:
                return None
            return change if observed.uid == uid else _REPLACED
        case _:
            assert_never(change)


def _remaining_create(change: Create, observed: Observed | None) -> Change | str | None:
    if observed is None:
        return change
    kind = KINDS[change.ref.kind]
    for path, wanted in change.state.items():
        live = observed.state.get(path)
        if not kind.equal(path, live, wanted):
            return f"it exists by now, with {path} = {live} instead of {wanted}"
    return None


def _remaining_update(change: Update, observed: Observed | None) -> Change | str | None:
    if observed is None:
        return "it is gone since the plan"
    if observed.uid != change.uid:
        return _REPLACED
    kind = KINDS[change.ref.kind]
    left = []
    for one in change.fields:
        live = observed.state.get(one.path)
        if one.deferred is not None or kind.equal(one.path, live, one.after):
            continue
        if not kind.equal(one.path, live, one.before):
            return f"{one.path} is {live} by now; the plan saw {one.before} and wants {one.after}"
        left.append(one)
    return replace(change, fields=tuple(left)) if left else None
