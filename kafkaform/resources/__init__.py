"""The table of kinds: what this version manages, in the order in which plans show it."""

from __future__ import annotations

from fnmatch import filter as matching
from typing import TYPE_CHECKING

from kafkaform.core.wording import nearest
from kafkaform.resources.consumer_group import ConsumerGroupKind
from kafkaform.resources.topic import TopicKind

if TYPE_CHECKING:
    from kafkaform.resources.base import Kind

KINDS: dict[str, Kind] = {kind.name: kind for kind in (TopicKind(), ConsumerGroupKind())}


def kind_order(name: str) -> int:
    """The place of a kind in plans."""
    return list(KINDS).index(name)


def misspelt_hazard(glob: str) -> str | None:
    """What was probably meant by a hazard that no change of any kind has; None if there is such a one.

    A consent or a ban with a wrong name would never hold, and nobody would be told.
    """
    known = sorted(set().union(*(kind.hazards for kind in KINDS.values())))
    if matching(known, glob):
        return None
    near = nearest(glob, known)
    return f"did you mean {near!r}?" if near else f"hazards: {', '.join(known)}"
