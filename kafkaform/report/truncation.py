"""Fit lists into a report of limited length, with a line on what did not fit."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from kafkaform.core.model import Delete, Risk, Status, Update, risk_of
from kafkaform.core.plans import ChangeOrigin, PlannedChange
from kafkaform.core.printable import clipped
from kafkaform.core.values import Value
from kafkaform.core.wording import listed
from kafkaform.resources import KINDS
from kafkaform.resources.values import action_of, is_deferred, label

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

_T = TypeVar("_T")
_K = TypeVar("_K", bound="Hashable")

NOTE = 240
"""The room for a note on what was left out: more characters than the longest one has."""
SEE = "see plan.json or run `kafkaform show --verbose plan.json`"


class BoundedList(Value, Generic[_T]):
    """A list of items, each formatted by `show`, between a head and a tail.

    Attributes:
        head: The text before the first item.
        show: Formats an item, line break included.
        left_out: Writes the sentence on the items that did not fit.
        tail: The text after the last item.
        brief: A shorter `show`, used when not everything fits.
        share: The part of the remaining room that this list may take, from 0 to 1.
        most: The most items to list, however much room there is.
    """

    head: str
    items: Sequence[_T]
    show: Callable[[_T], str]
    left_out: Callable[[Sequence[_T]], str]
    tail: str = ""
    brief: Callable[[_T], str] | None = None
    share: float = 1.0
    most: int | None = None

    @property
    def least(self) -> int:
        """The characters that the list needs if all of its items are left out."""
        return len(self.head) + len(self.tail) + NOTE

    def fit(self, room: int) -> str:
        """Format the list in at most `room` characters, which must be `least` or more."""
        text, skipped = self._fit(self.show, room)
        # The short form is used for all entries or for none, so that those of one list look alike.
        return self._fit(self.brief, room)[0] if skipped and self.brief else text

    def _fit(self, show: Callable[[_T], str], room: int) -> tuple[str, int]:
        kept: list[str] = []
        skipped: list[_T] = []
        remaining = room - len(self.head) - len(self.tail)
        for index, item in enumerate(self.items):
            # The room for the note is held back, as only the end shows whether it is needed. The last item
            # may use it if nothing before was skipped.
            available = remaining if index == len(self.items) - 1 and not skipped else remaining - NOTE
            # Nothing is formatted once the room is used up: a plan may have thousands of changes.
            text = show(item) if available > 0 else ""
            # Texts that ask for a blank line on both sides share one; the head stands behind a line's end.
            if (kept[-1] if kept else f"\n{self.head}").endswith("\n\n"):
                text = text.removeprefix("\n")
            full = self.most is not None and len(kept) >= self.most
            if text and len(text) <= available and not full:
                kept.append(text)
                remaining -= len(text)
            else:
                # An item that is too long is skipped alone: shorter ones after it may still fit.
                skipped.append(item)
        note = f"\n{self.left_out(skipped)}\n" if skipped else ""
        return f"{self.head}{''.join(kept)}{note}{self.tail}", len(skipped)


def fit_lists(lists: Sequence[BoundedList[Any]], room: int) -> list[str]:
    """Format lists that have items; each may take its share of the room that later ones do not need."""
    # Each list is sure to get its head and its note, so a long first one cannot hide that others exist.
    reserved = sum(bounded.least for bounded in lists)
    texts: list[str] = []
    for bounded in lists:
        reserved -= bounded.least
        spare = room - reserved - bounded.least
        # What a list does not use is left to those after it: `room` falls by the length of the text alone.
        text = bounded.fit(bounded.least + int(spare * bounded.share))
        room -= len(text)
        texts.append(text)
    return texts


def left_out_changes(actions: Iterable[str], what: str) -> str:
    """Count left-out changes: `… 12 more changes left out: 10 creates, 2 updates; see plan.json …`."""
    counts = Counter(actions)
    total = sum(counts.values())
    by_action = ", ".join(
        f"{counts[action]:,} {action}{'' if counts[action] == 1 else 's'}"
        for action in ("create", "update", "recreate", "delete")
        if counts[action]
    )
    return f"… {what}{total:,} more change{'' if total == 1 else 's'} left out: {by_action}; {SEE}"


# --- terminal text: the safe changes of one category ------------------------------------------------------

SAFE_LISTED = 200
"""The most safe changes of one category that text lists unless `verbose`."""
Category: TypeAlias = tuple[str, str]
"""The action and the kind of a safe change."""


def find_category(planned: PlannedChange) -> Category | None:
    """Return the category under which a safe change is counted; None for a change that is always listed."""
    # A delete is listed whatever its risk. So is a change that this branch did not cause: it is approved with
    # the others, and a count would hide it.
    safe = (
        planned.status is Status.PLANNED
        and not isinstance(planned.change, Delete)
        and risk_of(planned.change) is Risk.SAFE
        and not is_deferred(planned)
        and planned.origin not in {ChangeOrigin.DRIFT, ChangeOrigin.MIXED}
    )
    return (action_of(planned.change), planned.ref.kind) if safe else None


def divide_listed(
    items: Sequence[_T], category_of: Callable[[_T], _K | None], *, verbose: bool
) -> tuple[Sequence[_T], Mapping[_K, Sequence[_T]]]:
    """Divide items into those that are listed, in their order, and by category those that are only counted.

    Args:
        category_of: Returns the category under which an item is counted; None for one that is always listed.
        verbose: List everything.
    """
    # No category can be above the limit then, and most reports need not be divided at all.
    if verbose or len(items) <= SAFE_LISTED:
        return items, {}
    # The key is computed once for each item: it looks at every field of a change.
    categories = [category_of(item) for item in items]
    counts = Counter(categories)
    counts_so_far: Counter[_K | None] = Counter()
    shown: list[_T] = []
    counted_items: dict[_K, list[_T]] = {}
    for item, key in zip(items, categories, strict=True):
        counts_so_far[key] += 1
        if key is None or counts_so_far[key] <= SAFE_LISTED or counts[key] == SAFE_LISTED + 1:
            # A single item beyond the limit is listed too: a line that counts it would be no shorter.
            shown.append(item)
        else:
            counted_items.setdefault(key, []).append(item)
    return shown, counted_items


def summarise_alike(phrase: str, changes: Sequence[PlannedChange]) -> str:
    """Summarise changes: `… 19,800 more to create: topics a to z (--verbose lists them)`.

    Args:
        phrase: The words of the report's summary for these changes.
        changes: The changes, all of one category.
    """
    names = [planned.ref.name for planned in changes]
    # By name, because the changes may be in another order.
    first, last = (clipped(name, 120) for name in (min(names), max(names)))
    updates = (planned.change for planned in changes if isinstance(planned.change, Update))
    # A dict keeps the fields in the order in which a plan lists them.
    fields = dict.fromkeys(label(field.path) for change in updates for field in change.fields)
    field_names = f"{listed(fields, noun='field')} of " if fields else ""
    kind = KINDS[changes[0].ref.kind].words.collection
    return f"… {len(changes):,} more {phrase}: {field_names}{kind} {first} to {last} (--verbose lists them)"
