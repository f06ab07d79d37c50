"""How many distinct keys a topic has, from a sample of its records.

No estimator is good for all topics: for some, any estimate from a part r of the records is wrong by a factor
of the root of 1 / r (Charikar, Chaudhuri, Motwani and Narasayya 2000). So the interval is wide on purpose.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from spark_validation.results import Estimate

if TYPE_CHECKING:
    from spark_validation.replicates import Weighting
    from spark_validation.tally import Tally

_Z = 1.96


def distinct_keys(tally: Tally, weighting: Weighting) -> Estimate:
    """The distinct keys of the topic.

    Two estimates see two kinds of topics. By records (Chao 1984; keys with one record in the sample, against
    those with two) is right where a key's records cluster in time; by slices (Chao 1987; keys in one slice,
    against those in two) is right where keys come and go within a window. The value is their geometric mean:
    they agree where keys are spread evenly. The lower end is that of the lower one. The upper end holds for
    every distribution, in expectation (Charikar et al. 2000, with slices in the place of records): each key
    of only one slice stands for as many keys as the part that was read goes into the whole. Where nobody
    knows how large the whole is, it is the upper limit of the higher estimate.
    """
    seen = tally.distinct
    if weighting.fraction >= 1.0:
        return Estimate.exact(float(seen))
    read = int(tally.records.sum())
    unread = (1.0 - weighting.fraction) * float((tally.records.sum(axis=1) * weighting.weights).sum())
    if not seen:
        # Every record that was read has no key; of the others it is only known how many there are.
        return Estimate(0.0, 0.0, unread)
    once, twice = (int(n) for n in tally.multiplicity[:2])
    single, double = (int(n) for n in tally.incidence[:2])
    by_records = _chao(once, twice, read, weighting.fraction)
    by_slices = _chao(single, double, weighting.slices, weighting.fraction)
    if weighting.fraction > 0.0:
        most = min(unread, _at_most(single) * (1.0 / weighting.fraction - 1.0))
    else:
        most = max(by_records.high, by_slices.high)
    more = math.sqrt((seen + by_records.value) * (seen + by_slices.value)) - seen
    more = min(more, most)
    return Estimate(seen + more, seen + min(by_records.low, by_slices.low, more), seen + most)


def _chao(once: int, twice: int, units: int, fraction: float) -> Estimate:
    """Keys that were not seen.

    For sampling without replacement: Chao and Lin 2012, "Nonparametric lower bounds for species richness";
    the variance and the log-normal limits are those of Chao 1987.

    Args:
        once: Keys seen in one unit.
        twice: Keys seen in two.
        units: How many units were read.
        fraction: The part of all units that this is.
    """
    if not once:
        return Estimate.exact(0.0)
    odds = fraction / (1.0 - fraction)
    doubled = 2.0 * max(twice, 1) * units / max(1, units - 1)
    unseen = once**2 / (doubled + odds * once)
    ratio = once / max(twice, 1)
    variance = max(twice, 1) * (ratio**2 / 2 + ratio**3 + ratio**4 / 4)
    factor = math.exp(_Z * math.sqrt(math.log1p(variance / unseen**2)))
    return Estimate(unseen, unseen / factor, unseen * factor)


def _at_most(count: int) -> float:
    """The upper limit of what a count is one outcome of (Poisson, root transformation of Anscombe 1948)."""
    return (math.sqrt(count + 0.375) + _Z / 2) ** 2
