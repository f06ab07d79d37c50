"""The newest part of a log: what is written now."""

from __future__ import annotations

from dataclasses import replace
from math import exp, sqrt
from typing import TYPE_CHECKING

import numpy as np

from spark_validation.arrivals import EVEN_RATIO, HOUR_MS, most_by_chance
from spark_validation.causes_burst import Timeline, count_share
from spark_validation.intervals import Z
from spark_validation.policy import MIN_RECORDS
from spark_validation.results import Estimate, NewestPart, TopicResult

if TYPE_CHECKING:
    from spark_validation.hashing import Int64s
    from spark_validation.key_counts import Floats
    from spark_validation.sampled_topic import SampledTopic

NEWEST_FRACTION = 0.1


def measure_newest(topic: SampledTopic, line: Timeline | None) -> TopicResult:
    """Return the topic's result with the shares of partitions and keys in the newest part of the log.

    That is the last hour, or the last tenth of the records: the shorter one that has enough records.
    """
    newest = None if line is None else _find_newest(topic, line)
    if newest is None:
        return topic.result
    records, sizes = (
        newest.sum_all(topic, counts)[:, 0] for counts in (topic.counts.records, topic.counts.bytes)
    )
    read = records / np.maximum(topic.weights, 1e-12)
    since_ms, until_ms = (int(edge) for edge in newest.edges)
    counted = None if topic.count_between is None else topic.count_between(since_ms, until_ms + 1)
    arrived = records if counted is None else np.array(counted, dtype=np.float64)
    written = arrived * sizes / np.maximum(records, 1e-12)
    shares = _estimate_shares(arrived, np.full(len(read), np.inf) if counted else read)
    byte_shares = _estimate_shares(written, read)
    part = NewestPart(
        since_ms, until_ms, shares, byte_shares, _estimate_ratio(shares), _estimate_ratio(byte_shares)
    )
    hot = {key.key_hash: key for key in topic.counts.hot}
    keys = tuple(
        replace(
            key,
            now=_key_share(topic, newest, hot[key.key_hash].records, topic.counts.records, read),
            byte_now=_key_share(topic, newest, hot[key.key_hash].bytes, topic.counts.bytes, read),
        )
        for key in topic.result.hot_keys
    )
    return replace(topic.result, now=part, hot_keys=keys)


def _find_newest(topic: SampledTopic, line: Timeline) -> Timeline | None:
    """Return the timeline of the newest part alone; None where no part has enough records."""
    upto = np.concatenate(([0.0], line.sum_all(topic, topic.counts.records).sum(axis=0).cumsum()))
    end = float(line.edges[-1])
    tenth = float(np.interp((1 - NEWEST_FRACTION) * upto[-1], upto, line.edges))
    for since in sorted((end - HOUR_MS, tenth), reverse=True):
        newest = replace(line, edges=np.array([since, end]))
        records = newest.sum_all(topic, topic.counts.records)[:, 0]
        mean = float(records.mean())
        enough = most_by_chance(mean, topic.partitions) <= EVEN_RATIO * mean
        read = float((records / np.maximum(topic.weights, 1.0)).sum())
        if since > line.edges[0] and enough and read >= MIN_RECORDS:
            return newest
    return None


def _estimate_shares(loads: Floats, read: Floats) -> tuple[Estimate, ...]:
    """Return the share of each partition, with an interval by the records read (infinite where exact)."""
    total = max(float(loads.sum()), 1e-12)
    factors = [exp(Z / sqrt(max(count, 1.0))) for count in read.tolist()]
    return tuple(
        Estimate(share, share / factor, min(1.0, share * factor))
        for share, factor in zip((loads / total).tolist(), factors, strict=True)
    )


def _estimate_ratio(shares: tuple[Estimate, ...]) -> Estimate:
    fullest, count = max(shares, key=lambda share: share.value), len(shares)
    return Estimate(fullest.value * count, max(1.0, fullest.low * count), fullest.high * count)


def _key_share(topic: SampledTopic, newest: Timeline, part: Int64s, whole: Int64s, read: Floats) -> Estimate:
    own = newest.sum_intervals(topic.per_offset(part))
    of, records = (newest.sum_all(topic, counts) for counts in (whole, topic.counts.records))
    share = count_share(topic, newest, (0, 1), own, of, records)
    if share is None:
        share = float(own.sum()) / max(float(of.sum()), 1e-12)
    deviation = Z * sqrt(share * (1 - share) / max(1.0, float(read.sum())))
    return Estimate(share, max(0.0, share - deviation), min(1.0, share + deviation))
