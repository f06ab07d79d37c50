"""Rules about the number of partitions of topics."""

from __future__ import annotations

from functools import cache
from math import ceil, isqrt
from typing import TYPE_CHECKING

from kafkaform.core.model import Severity
from kafkaform.core.wording import setting
from kafkaform.rules.catalogue import Finding, RuleContext, cache_result, rule
from kafkaform.rules.group_values import SHARE, list_groups
from kafkaform.rules.topic_values import DeclaredTopic, list_topics, topic_rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


EVEN_COUNTS = (4, 6, 8, 12, 16, 18, 24, 30, 36, 48, 60, 72, 96, 120, 144, 180, 240, 360)
"""Partition counts that divide evenly in more ways than their neighbours."""

_MANY = 1_000
# Of a segment, a broker keeps open the records, and the indexes by offset and by time.
_FILES = 3

# From this number of leaders on each broker on, one more adds a tenth at most.
_LEADERS_UNFELT = 10


@topic_rule("KF104", Severity.INFO, "partitions")
def divisible_count(topic: DeclaredTopic) -> Iterator[Finding]:
    """The partition count has few divisors.

    If the number of members does not divide the partition count, some members read more partitions than
    others: 12 are even among 1, 2, 3, 4, 6 and 12 members. The rule suggests the nearest better count.
    Up to 3, above 360, and powers of two are not reported.
    """
    partitions, brokers = topic.partitions, topic.context.brokers
    better = _find_better_count(partitions or 0, brokers, _find_fewest(topic))
    if better is not None:
        few, many = _list_divisors(partitions or 0), _list_divisors(better)
        yield Finding(
            f"{partitions} partitions divide evenly only among {_either(few)} members: "
            f"{partitions} has {len(few)} divisors, {better} has {len(many)}",
            f"write {setting('partitions', better)}, which {_either(many)} members share evenly",
        )


def _find_fewest(topic: DeclaredTopic) -> int:
    """Return the fewest partitions to suggest: no fewer than a live topic may have."""
    # Offline, the topic may exist with as many partitions as are declared.
    fewest = topic.live_count("partitions") if topic.context.facts is not None else topic.partitions
    return fewest or 0


@topic_rule("KF105", Severity.INFO, "partitions")
def even_leaders(topic: DeclaredTopic) -> Iterator[Finding]:
    """The partitions are not a multiple of the brokers.

    Some brokers then lead one partition more. Use a multiple. Not reported with fewer partitions than
    brokers, or with ten leaders or more on each.
    """
    brokers, partitions = topic.context.brokers, topic.partitions
    if not brokers or partitions is None or partitions % brokers == 0:
        return
    least, extra = divmod(partitions, brokers)
    if 1 <= least < _LEADERS_UNFELT:
        multiples = [n for n in (least * brokers, (least + 1) * brokers) if n >= _find_fewest(topic)]
        yield Finding(
            f"{partitions} partitions over {brokers} brokers: {extra} of them "
            f"lead{'s' if extra == 1 else ''} {least + 1}, the other{'s' if brokers - extra > 1 else ''} "
            f"{least}",
            f"write {', or '.join(setting('partitions', n) for n in multiples)}",
        )


@rule("KF106", Severity.WARNING)
def partition_total(context: RuleContext) -> Iterator[Finding]:
    """There are more partitions than the project allows.

    Each partition costs files, memory and fetch requests on every broker with a replica. Delete unused
    topics, and declare fewer partitions. The limit is `limits.partitions` in kafkaform.yaml, 100,000
    unless set.
    """
    limit = context.limits.partitions
    sizes = [(partitions, topic) for topic in list_topics(context) if (partitions := topic.partitions)]
    alone = [(partitions, topic) for partitions, topic in sizes if partitions > limit]
    for partitions, topic in alone:
        yield Finding(
            f"{topic.name} has {partitions:,} partitions; the limit of all topics together is {limit:,}",
            "use fewer partitions, or raise limits.partitions in kafkaform.yaml",
            path="partitions",
            subject=topic.desired,
        )
    total = sum(partitions for partitions, _ in sizes)
    # A topic that exceeds the limit by itself is named above: the total would only repeat it.
    if total > limit and not alone and not context.subset:
        largest = sorted(sizes, key=lambda size: (-size[0], size[1].name))[:3]
        names = ", ".join(f"{topic.name} ({partitions:,})" for partitions, topic in largest)
        yield Finding(
            f"the {len(sizes):,} declared topics have {total:,} partitions; the limit is {limit:,}",
            f"use fewer in the largest topics ({names}), or raise limits.partitions in kafkaform.yaml",
        )


@topic_rule("KF116", Severity.WARNING, "partitions")
def many_partitions(topic: DeclaredTopic) -> Iterator[Finding]:
    """A topic has more than 1,000 partitions.

    Each replica keeps at least three files open and maps two into memory: with Linux's default of 65,530
    maps, a broker has room for about 32,000. Kafka cannot lower the count later. If the topic needs so
    many, waive the rule.
    """
    partitions, brokers = topic.partitions or 0, topic.context.brokers
    if partitions <= _MANY:
        return
    replicas = partitions * (topic.count("replicationFactor") or 1)
    cost = f"{replicas:,} replicas, which keep {_FILES * replicas:,} files open at least"
    if brokers:
        each = ceil(replicas / brokers)
        cost += f", up to {_FILES * each:,} on each of {brokers} brokers; if one fails, up to "
        cost += f"{ceil(partitions / brokers):,} partitions need another leader at once"
    yield Finding(
        f"{topic.name} has {partitions:,} partitions: {cost}",
        "use only as many as its consumers and its throughput need: partitions can be added later",
    )


@topic_rule("KF107", Severity.WARNING, "partitions")
def one_partition_for_many(topic: DeclaredTopic) -> Iterator[Finding]:
    """A topic has one partition, but a group that reads it expects several members.

    Within a group, one member reads a partition, so the others are idle. Give the topic as many
    partitions as the group may have members. If all records need one strict order, declare one member.
    """
    if topic.partitions == 1:
        for name, members in _map_members(topic.context).get(topic.name, ()):
            yield Finding(
                f"{topic.name} has 1 partition, and group {name} up to {members} members: "
                "one of them reads all of it",
                f"write {setting('partitions', members)} or more, or declare one member",
            )


@cache_result
def _map_members(context: RuleContext) -> dict[str, list[tuple[str, int]]]:
    """Return the groups that read each topic, with the most members of each, if it is more than one."""
    readers: dict[str, list[tuple[str, int]]] = {}
    for group in list_groups(context):
        members = max(group.amount("members", field) or 0 for field in ("expected", "max"))
        if members > 1 and group.protocol != SHARE:
            # A topic may be listed twice.
            for name in dict.fromkeys(group.topics):
                readers.setdefault(name, []).append((group.name, members))
    return readers


@rule("KF114", Severity.WARNING)
def topic_total(context: RuleContext) -> Iterator[Finding]:
    """There are more topics than the project allows.

    Each topic costs metadata in every broker and client. Instead of a topic for each customer or day, use
    one with that in the key. The limit is `limits.topics` in kafkaform.yaml, 3,000 unless set.
    """
    number, limit = len(list_topics(context)), context.limits.topics
    if number > limit and not context.subset:
        yield Finding(
            f"{number:,} topics are declared; the limit is {limit:,}",
            "merge topics with the same structure into one, with a key, "
            "or raise limits.topics in kafkaform.yaml",
        )


# Thousands of topics have few different counts.
@cache
def _find_better_count(partitions: int, brokers: int | None, least: int) -> int | None:
    """Return the nearest count, not below `least`, with far more divisors; the larger one of two.

    Multiples of the number of brokers take precedence.
    """
    brokers = brokers or None
    # Powers of two are left alone: they stay even while the members double.
    if not 3 < partitions <= EVEN_COUNTS[-1] or partitions.bit_count() == 1:
        return None
    # The distance and the number of divisors that the docstring of KF104 promises.
    few, reach = len(_list_divisors(partitions)), partitions // 3
    step = brokers if brokers is not None and partitions % brokers == 0 else 1
    better = [
        even
        for even in EVEN_COUNTS
        if abs(even - partitions) <= reach
        and even >= least
        and even % step == 0
        and 2 * len(_list_divisors(even)) >= 3 * few
    ]
    return min(
        better,
        key=lambda even: (brokers is not None and even % brokers != 0, abs(even - partitions), -even),
        default=None,
    )


def _list_divisors(number: int) -> list[int]:
    small = [n for n in range(1, isqrt(number) + 1) if number % n == 0]
    return sorted({*small, *(number // n for n in small)})


def _either(numbers: Sequence[int]) -> str:
    return f"{', '.join(map(str, numbers[:-1]))} or {numbers[-1]}"
