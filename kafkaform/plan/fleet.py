"""One plan for each of several clusters, and what became of those that could not be made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkaform.core.model import Plan
    from kafkaform.plan.plan_header import PlanHeader

_ORDER = (1, 2, 0)


@dataclass(frozen=True, slots=True)
class Made:
    """The plan of one cluster."""

    name: str
    plan: Plan
    header: PlanHeader


@dataclass(frozen=True, slots=True)
class Failed:
    """A cluster that could not be planned.

    Attributes:
        name: The cluster.
        message: Why, in one line.
        hint: What to do about it.
        problems: Everything that is wrong in files, a line each.
    """

    name: str
    message: str
    hint: str | None = None
    problems: tuple[str, ...] = ()


Member: TypeAlias = Made | Failed
"""What became of one cluster."""


def worst(codes: Iterable[int]) -> int:
    """The exit code of a whole: an error outweighs changes, which outweigh that there are none."""
    return min(codes, key=_ORDER.index, default=0)
