"""Fitting lists into a report of limited length, and always saying what did not fit."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from kafkaform.core.model import ChangeOrigin, Delete, Risk, Status, Update, risk_of
from kafkaform.core.printable import clipped
from kafkaform.core.wording import listed
from kafkaform.resources import KINDS
from kafkaform.resources.values import action_of, is_deferred, label

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from kafkaform.core.model import PlannedChange

_T = TypeVar("_T")
_K = TypeVar("_K", bound="Hashable")

NOTE = 240
"""More than the longest note on what was left out."""
SEE = "see plan.json or run `kafkaform show --verbose plan.json`"


@dataclass(frozen=True, slots=True)
class Block(Generic[_T]):
    """A list of things, each worded by `show`, between a head and a tail.

    Attributes:
        head: What comes before the first.
        things: What is listed.
        show: The text of one, line break included.
        left_out: The sentence about those that did not fit.
        tail: What comes after the last.
        brief: A shorter `show`, for when not everything fits.
        share: How much of the room that is left this block may take, from 0 to 1.
        most: How many things are listed at most, however much room there is.
    """

    head: str
    things: Sequence[_T]
    show: Callable[[_T], str]
    left_out: Callable[[Sequence[_T]], str]
    tail: str = ""
    brief: Callable[[_T], str] | None = None
    share: float = 1.0
    most: int | None = None

    @property
    def least(self) -> int:
        """The room that the block needs to say at least that everything was left out."""
        return len(self.head) + len(self.tail) + NOTE

    def fit(self, room: int) -> str:
        """The block in at most `room` characters, which must be `least` or more."""
        text, skipped = self._fit(self.show, room)
        return self._fit(self.brief, room)[0] if skipped and self.brief else text

    def _fit(self, show: Callable[[_T], str], room: int) -> tuple[str, int]:
        kept: list[str] = []
        skipped: list[_T] = []
        left = room - len(self.head) - len(self.tail)
        for index, thing in enumerate(self.things):
            # The last thing may use the room for the note, if nothing before it was skipped.
            spare = left if index == len(self.things) - 1 and not skipped else left - NOTE
            text = show(thing) if spare > 0 else ""
            full = self.most is not None and len(kept) >= self.most
            if text and len(text) <= spare and not full:
                kept.append(text)
                left -= len(text)
            else:
                # One that is too long is skipped alone: shorter ones after it still get their chance.
                skipped.append(thing)
        note = f"\n{self.left_out(skipped)}\n" if skipped else ""
        return f"{self.head}{''.join(kept)}{note}{self.tail}", len(skipped)


def fit_all(blocks: Iterable[Block[Any]], room: int) -> str:
    """The blocks one after the other; each may take its share of what the later ones do not need at least."""
    present = [block for block in blocks if block.things]
    reserved = sum(block.least for block in present)
    texts: list[str] = []
    for block in present:
        reserved -= block.least
        spare = room - reserved - block.least
        text = block.fit(block.least + int(spare * block.share))
        room -= len(text)
        texts.append(text)
    return "".join(texts)


def left_out_changes(actions: Iterable[str], what: str) -> str:
    """`… 12 more changes left out: 10 creates, 2 updates; see plan.json …`."""
    counts = Counter(actions)
    total = sum(counts.values())
    by_action = ", ".join(
        f"{counts[action]:,} {action}{'' if counts[action] == 1 else 's'}"
        for action in ("create", "update", "delete")
        if counts[action]
    )
    return f"… {what}{total:,} more change{'' if total == 1 else 's'} left out: {by_action}; {SEE}"


def left_out_others(noun: str, see: str = SEE) -> Callable[[Sequence[object]], str]:
    """`… 12 more configs left out; see plan.json …`."""
    return lambda things: f"… {len(things):,} more {noun}{'' if len(things) == 1 else 's'} left out; {see}"


# --- terminal text: the safe changes of one sort ------------------------------------------------------

SAFE_LISTED = 200
"""How many safe changes of one sort text lists, unless all are wanted."""
Sort: TypeAlias = tuple[str, str]
"""The action and the kind of a safe change."""


def sort_of(planned: PlannedChange) -> Sort | None:
    """Sort a safe change by what it is counted with; None for one that is always listed."""
    safe = (
        planned.status is Status.PLANNED
        and not isinstance(planned.change, Delete)
        and risk_of(planned.change) is Risk.SAFE
        and not is_deferred(planned)
        and planned.origin not in {ChangeOrigin.DRIFT, ChangeOrigin.MIXED}
    )
    return (action_of(planned.change), planned.ref.kind) if safe else None


def divided(
    things: Sequence[_T], sort: Callable[[_T], _K | None], *, verbose: bool
) -> tuple[Sequence[_T], Mapping[_K, Sequence[_T]]]:
    """Divide things into those that text lists, in their order, and by sort those that it only sums up.

    Args:
        things: What there is.
        sort: The sort that a thing is counted with; None for one that is always listed.
        verbose: List everything.
    """
    if verbose or len(things) <= SAFE_LISTED:
        return things, {}
    sorts = [sort(thing) for thing in things]
    counts = Counter(sorts)
    seen: Counter[_K | None] = Counter()
    shown: list[_T] = []
    more: dict[_K, list[_T]] = {}
    for thing, key in zip(things, sorts, strict=True):
        seen[key] += 1
        if key is None or seen[key] <= SAFE_LISTED or counts[key] == SAFE_LISTED + 1:
            shown.append(thing)  # also a single one more: the line that counts it would be no shorter
        else:
            more.setdefault(key, []).append(thing)
    return shown, more


def more_alike(what: str, changes: Sequence[PlannedChange]) -> str:
    """Sum changes up: `… 19,800 more to create: topics a to z (--verbose lists them)`.

    Args:
        what: What the changes have in common, in the words of the report's summary.
        changes: The changes, all of one sort.
    """
    names = [planned.ref.name for planned in changes]
    first, last = (clipped(name, 120) for name in (min(names), max(names)))
    updates = (planned.change for planned in changes if isinstance(planned.change, Update))
    fields = dict.fromkeys(label(field.path) for change in updates for field in change.fields)
    of = f"{listed(fields, noun='field')} of " if fields else ""
    kind = KINDS[changes[0].ref.kind].collection
    return f"… {len(changes):,} more {what}: {of}{kind} {first} to {last} (--verbose lists them)"
