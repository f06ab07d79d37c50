"""At most one of a thing, whatever happens to a request on its way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Kept:
    """What became of a comment or an issue.

    Attributes:
        outcome: What was done.
        url: Its page.
    """

    outcome: Literal["created", "updated", "unchanged", "closed"]
    url: str


def find_or_create(
    look: Callable[[], Sequence[_T]], create: Callable[[], _T | None]
) -> tuple[Sequence[_T], bool]:
    """All that there are, at least one; and whether one of them was made now.

    GitHub is looked at after every attempt to create: an attempt whose answer got lost may have been carried
    out, and another run may have made one in the same moment. More than one is for the caller to settle.

    Args:
        look: Finds what there is.
        create: Makes one; returns None if it is not known whether it did.
    """
    made: _T | None = None
    tried = False
    while not (found := look()):
        if made is not None:  # what was made now is not always listed at once
            return [made], True
        made = create()
        tried = True
    return found, tried
