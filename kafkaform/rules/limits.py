"""What a project takes for normal: the figures that rules compare with."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafkaform.core.units import parse_duration
from kafkaform.core.wording import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkaform.resources.base import ReportProblem


@dataclass(frozen=True, slots=True)
class ProjectLimits:
    """The `limits:` of kafkaform.yaml.

    Attributes:
        topic_name: The pattern that topic names match (KF103); None where there is none.
        topics: The most topics that are declared (KF114).
        partitions: The most partitions that are declared, all topics together (KF106).
        recovery_window_ms: How far back a consumer must be able to recover, in milliseconds (KF110); None
            where nobody has said.
        blast_radius: The largest share of the live topics that one plan may put at risk (KF404).
        leader_imbalance: How many percent above the mean a broker's leaders may be (KF308).
    """

    topic_name: str | None = None
    topics: int = 3_000
    partitions: int = 100_000
    recovery_window_ms: int | None = None
    blast_radius: float = 0.3
    leader_imbalance: int = 30


DEFAULT_LIMITS = ProjectLimits()

_PERCENT = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s?%", re.ASCII)


def read_limits(data: Mapping[str, Any], report: ReportProblem) -> ProjectLimits:
    """Read `limits:`; what is wrong in it is reported, and the default stands in its place."""
    given: dict[str, Any] = {}
    for name, (field, read) in _READERS.items():
        if name in data:
            try:
                given[field] = read(data[name])
            except ValueError as error:
                report((name,), f"limits.{name}: {error}", None)
    return ProjectLimits(**given)


def _pattern(value: str) -> str:
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(f"{quoted(value)} is not a regular expression: {error}") from None
    return value


def _duration(value: float | str) -> int:
    return parse_duration(str(value))


def _share(value: float | str) -> float:
    percent = _PERCENT.fullmatch(value.strip()) if isinstance(value, str) else None
    share = float(percent[1]) / 100 if percent else value
    if isinstance(share, str) or not 0 < share <= 1:
        raise ValueError(f"{_shown(value)} is not a share above 0 and up to 1; write e.g. 0.3 or 30%")
    return share


def _percent(value: float | str) -> int:
    percent = _PERCENT.fullmatch(value.strip()) if isinstance(value, str) else None
    number = float(percent[1]) if percent else value
    if isinstance(number, str) or number < 0 or number != int(number):
        raise ValueError(f"{_shown(value)} is not a whole percentage; write e.g. 30 or 30%")
    return int(number)


def _shown(value: float | str) -> str:
    return quoted(value) if isinstance(value, str) else str(value)


_READERS: Mapping[str, tuple[str, Callable[[Any], object]]] = {
    "topicName": ("topic_name", _pattern),
    "topics": ("topics", int),
    "partitions": ("partitions", int),
    "recoveryWindow": ("recovery_window_ms", _duration),
    "blastRadius": ("blast_radius", _share),
    "leaderImbalance": ("leader_imbalance", _percent),
}
