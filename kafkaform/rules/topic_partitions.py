"""Rules about how many partitions a topic has."""

from __future__ import annotations

from math import ceil, isqrt
from typing import TYPE_CHECKING, cast

from kafkaform.core.model import Desired, Severity
from kafkaform.core.wording import setting
from kafkaform.resources.consumer_group import ConsumerGroupKind
from kafkaform.rules.catalogue import Finding, RuleContext, rule
from kafkaform.rules.topic_values import count, live_count, topics

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_PARTITIONS = "partitions"

EVEN_COUNTS = (4, 6, 8, 12, 16, 18, 24, 30, 36, 48, 60, 72, 96, 120, 144, 180, 240, 360)
"""Partition counts that divide evenly in more ways than their neighbours."""

_MANY = 1_000
_FILES = 3
"""The files of one segment that a broker keeps open: the records, and the indexes by offset and time."""

_LEADERS_UNFELT = 10
"""With so many leaders on each broker, one more is a tenth at most."""


@rule("KF104", Severity.INFO)
def divisible_count(context: RuleContext) -> Iterator[Finding]:
    """The partition count has few divisors.

    Each partition is read by one member of a group. If the members do not divide the partitions, some
    carry more than others, and the group is as slow as those. 12 partitions are even among 1, 2, 3, 4, 6
    and 12 members; 10 among 1, 2, 5 and 10 only. This compares with 4, 6, 8, 12, 16, 18, 24, 30, 36, 48,
    60, 72, 96, 120, 144, 180, 240 and 360: if one of them is no more than a third away and has at least
    half again as many divisors, it names the nearest such count. A count that the brokers divide is named
    first, and no other if they divide the present one; for a live topic none that needs a decrease, which
    Kafka cannot do. 1, 2 and 3 never trip, nor do powers of two, which stay even while the members double,
    nor more than 360, where one partition more is little. Topics that are joined need the same count:
    change all of them, or waive the rule.
    """
    for topic in topics(context):
        partitions = count(topic, _PARTITIONS)
        if partitions is None:
            continue
        better = _better_count(partitions, context.brokers, live_count(topic, _PARTITIONS, context) or 0)
        if better is not None:
            few, many = _divisors(partitions), _divisors(better)
            yield Finding(
                topic,
                f"{partitions} partitions are even among {_either(few)} members only: "
                f"{partitions} has {len(few)} divisors, {better} has {len(many)}",
                f"write {setting(_PARTITIONS, better)}, which {_either(many)} members share evenly",
                path=_PARTITIONS,
            )


@rule("KF105", Severity.INFO)
def even_leaders(context: RuleContext) -> Iterator[Finding]:
    """The partitions are not a multiple of the brokers.

    Kafka spreads the leaders of a topic over the brokers, and producers and consumers talk to leaders. If
    the brokers do not divide the partitions, some brokers lead one more, and serve more of this topic's
    traffic. Use a multiple of the broker count; `kafkaform rebalance` evens out the leaders of all topics
    together. A topic with fewer partitions than there are brokers is left alone, as small topics even out
    among each other; so is one with ten leaders or more on each broker, where one more is not felt. Without
    a cluster, or `brokers:` of one in kafkaform.yaml, this rule says nothing.
    """
    brokers = context.brokers
    if not brokers:
        return
    for topic in topics(context):
        partitions = count(topic, _PARTITIONS)
        if partitions is None or partitions % brokers == 0:
            continue
        least, extra = divmod(partitions, brokers)
        if 1 <= least < _LEADERS_UNFELT:
            live = live_count(topic, _PARTITIONS, context) or 0
            multiples = [n for n in (least * brokers, (least + 1) * brokers) if n >= live]
            yield Finding(
                topic,
                f"{partitions} partitions over {brokers} brokers: {extra} of them "
                f"lead{'s' if extra == 1 else ''} {least + 1}, the other{'s' if brokers - extra > 1 else ''} "
                f"{least}",
                f"write {', or '.join(setting(_PARTITIONS, n) for n in multiples)}",
                path=_PARTITIONS,
            )


@rule("KF106", Severity.WARNING)
def partition_total(context: RuleContext) -> Iterator[Finding]:
    """There are more partitions than the project allows.

    Each partition costs every one of its brokers open files, memory and fetch requests, and the
    controllers metadata; a broker that fails has all that it led moved at once. Delete topics that nobody
    uses, and lower the counts of those that do not exist yet: Kafka cannot lower them later. The limit is
    100,000, or `partitions:` in the `limits:` of kafkaform.yaml, for all declared topics together. A run
    over a part of the manifests compares single topics only.
    """
    limit = context.limits.partitions
    sizes = [(partitions, topic) for topic in topics(context) if (partitions := count(topic, _PARTITIONS))]
    alone = [(partitions, topic) for partitions, topic in sizes if partitions > limit]
    for partitions, topic in alone:
        yield Finding(
            topic,
            f"{topic.ref.name} has {partitions:,} partitions; the limit of all topics together is {limit:,}",
            "use fewer partitions, or raise limits.partitions in kafkaform.yaml",
            path=_PARTITIONS,
        )
    total = sum(partitions for partitions, _ in sizes)
    if total > limit and not alone and not context.subset:
        largest = sorted(sizes, key=lambda size: (-size[0], size[1].ref))[:3]
        named = ", ".join(f"{topic.ref.name} ({partitions:,})" for partitions, topic in largest)
        yield Finding(
            None,
            f"the {len(sizes):,} declared topics have {total:,} partitions; the limit is {limit:,}",
            f"use fewer where they are many ({named}), or raise limits.partitions in kafkaform.yaml",
        )


@rule("KF116", Severity.WARNING)
def many_partitions(context: RuleContext) -> Iterator[Finding]:
    """A topic has more than 1,000 partitions.

    Each replica of a partition keeps at least three files open on its broker (a segment and its two
    indexes), and maps the indexes into memory: with Linux's default of 65,530 maps a process, a broker has
    room for some 32,000 replicas of all topics. If a broker fails, each partition that it led is without a
    leader until the controller has chosen another one. Kafka cannot lower the count later. Few topics carry
    what needs so many: 1,000 partitions at 10 MB a second each are 10 GB a second. Where one does, waive
    the rule.
    """
    for topic in topics(context):
        partitions = count(topic, _PARTITIONS)
        if partitions is None or partitions <= _MANY:
            continue
        replicas = partitions * (count(topic, "replicationFactor") or 1)
        cost = f"{replicas:,} replicas, which keep {_FILES * replicas:,} files open at least"
        if context.brokers:
            each = ceil(replicas / context.brokers)
            cost += f", up to {_FILES * each:,} on each of {context.brokers} brokers; if one fails, up to "
            cost += f"{ceil(partitions / context.brokers):,} partitions need another leader at once"
        yield Finding(
            topic,
            f"{topic.ref.name} has {partitions:,} partitions: {cost}",
            "use as many as its consumers, and its bytes a second, need: they can be added later",
            path=_PARTITIONS,
        )


@rule("KF107", Severity.WARNING)
def one_partition_for_many(context: RuleContext) -> Iterator[Finding]:
    """A topic has one partition, but a group that reads it expects several members.

    Within a group, a partition is read by one member at a time, so all records of this topic go to one of
    them, and no further member makes the group faster. Give the topic as many partitions as the group may
    have members. If one strict order over all records is what is wanted, declare one member. Share groups,
    whose members share partitions, are left alone.
    """
    groups = [group for group in context.of_kind(ConsumerGroupKind.name) if group.state is not None]
    readers: dict[str, list[tuple[str, int]]] = {}
    for group in groups:
        members = _most_members(group)
        if members > 1 and group.intent.spec.get("protocol") != "share":
            for name in dict.fromkeys(cast("Sequence[str]", group.intent.spec.get("topics", ()))):
                readers.setdefault(name, []).append((group.ref.name, members))
    for topic in topics(context):
        if count(topic, _PARTITIONS) != 1:
            continue
        for name, members in readers.get(topic.ref.name, ()):
            yield Finding(
                topic,
                f"{topic.ref.name} has 1 partition, and group {name} up to {members} members: "
                "one of them reads all of it",
                f"write {setting(_PARTITIONS, members)} or more, or declare one member",
                path=_PARTITIONS,
            )


@rule("KF114", Severity.WARNING)
def topic_total(context: RuleContext) -> Iterator[Finding]:
    """There are more topics than the project allows.

    Topics are meant to be long-lived and to number in the hundreds or the low thousands: each costs
    metadata in every broker and client, and time in every restart. Many of one shape, such as one for each
    customer or each day, are better one topic with that in the key. The limit is 3,000, or `topics:` in the
    `limits:` of kafkaform.yaml. A run over a part of the manifests says nothing.
    """
    number, limit = len(topics(context)), context.limits.topics
    if number > limit and not context.subset:
        yield Finding(
            None,
            f"{number:,} topics are declared; the limit is {limit:,}",
            "merge topics of one shape into one with a key, or raise limits.topics in kafkaform.yaml",
        )


def _better_count(partitions: int, brokers: int | None, least: int) -> int | None:
    """The nearest count, not below `least`, that divides evenly in far more ways; the larger of two.

    One that the brokers divide comes first.
    """
    brokers = brokers or None
    if not 3 < partitions <= EVEN_COUNTS[-1] or partitions.bit_count() == 1:
        return None
    few, reach = len(_divisors(partitions)), partitions // 3
    step = brokers if brokers is not None and partitions % brokers == 0 else 1
    better = [
        even
        for even in EVEN_COUNTS
        if abs(even - partitions) <= reach
        and even >= least
        and even % step == 0
        and 2 * len(_divisors(even)) >= 3 * few
    ]
    return min(
        better,
        key=lambda even: (brokers is not None and even % brokers != 0, abs(even - partitions), -even),
        default=None,
    )


def _divisors(number: int) -> list[int]:
    small = [n for n in range(1, isqrt(number) + 1) if number % n == 0]
    return sorted({*small, *(number // n for n in small)})


def _either(numbers: Sequence[int]) -> str:
    return f"{', '.join(map(str, numbers[:-1]))} or {numbers[-1]}"


def _most_members(group: Desired) -> int:
    members = cast("Mapping[str, int]", group.intent.spec.get("members", {}))
    return max(members.get("expected", 0), members.get("max", 0))
