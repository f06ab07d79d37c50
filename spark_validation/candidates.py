"""Which partition counts a topic's keys are placed on, to see what each would do."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST = 8
_UP_TO = 4
_LARGE = 1024
"""A partition count above which only multiples are tried."""


def candidates(partitions: int, asked: Sequence[int]) -> tuple[int, ...]:
    """What is asked for, the present count, and larger counts among which advice may choose.

    These are multiples (a key then moves only to new partitions), and counts with many divisors (consumer
    groups of many sizes then get equal parts), up to four times the present count.

    Raises:
        ValueError: A count that is asked for is not a count of partitions.
    """
    for count in asked:
        if count < 1:
            raise ValueError(f"{count} is no partition count: it must be at least 1")
    if partitions < 1:
        return tuple(sorted({*asked}))
    multiples = [partitions * halves // 2 for halves in (4, 6, 8, 3) if partitions * halves % 2 == 0]
    between = range(partitions + 1, _UP_TO * partitions) if partitions <= _LARGE else ()
    divisible = sorted(between, key=lambda count: (-_divisors(count), count))
    chosen = list(dict.fromkeys([partitions, *multiples, *divisible]))[:_MOST]
    return tuple(sorted({*chosen, *asked}))


def _divisors(count: int) -> int:
    return sum(2 - (low * low == count) for low in range(1, int(count**0.5) + 1) if count % low == 0)
