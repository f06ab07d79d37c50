"""The table of kinds: what this version manages, in the order in which plans show it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.kinds.topic import TopicKind

if TYPE_CHECKING:
    from kafkaform.kinds.base import Kind

KINDS: dict[str, Kind] = {kind.name: kind for kind in (TopicKind(),)}


def kind_order(name: str) -> int:
    """The place of a kind in plans."""
    return list(KINDS).index(name)
