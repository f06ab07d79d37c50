"""What a project takes for normal: the figures that rules compare with."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
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


DEFAULT_LIMITS = Limits()
