"""Rules about what a topic survives: replicas, those in sync, and elections."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.core.model import Severity
from kafkaform.core.wording import setting
from kafkaform.rules.catalogue import Finding, RuleContext, rule
from kafkaform.rules.topic_values import count, in_force, live_count, topics

if TYPE_CHECKING:
    from collections.abc import Iterator

DEVELOPMENT = frozenset({"dev", "development", "local", "test"})
"""Names of environments whose data nobody misses."""

_REPLICAS = "replicationFactor"
_MIN_ISR = "config.min.insync.replicas"
_UNCLEAN = "config.unclean.leader.election.enable"


@rule("KF108", Severity.WARNING)
def replication_factor(context: RuleContext) -> Iterator[Finding]:
    """The replication factor loses data, costs more than it gives, or is impossible.

    Above the broker count, a topic cannot be created (error). A live topic that has that many replicas is
    left alone, as a broker may just be down. With 1, the loss of one disk loses data, and the restart of
    one broker stops the topic (warning); not in an environment called dev, development, local or test, nor,
    where none is chosen, as long as no second broker is known of. With an even one (a note), a majority in
    sync survives no more than with one replica less: of 4 replicas 3 have to be in sync, of 3 it is 2, and
    either lets one broker fail; nothing is said of 2 where there is no third broker. Most topics want 3. A
    cluster that is stretched over two sites may well want 4: waive the rule.
    """
    brokers = context.brokers or 0
    for topic in topics(context):
        replicas = count(topic, _REPLICAS)
        if replicas is None:
            continue
        if 0 < brokers < replicas:
            if live_count(topic, _REPLICAS, context) != replicas:
                text = f"replicationFactor is {replicas}, but there {_are(brokers)}"
                yield Finding(
                    topic, text, f"write {setting(_REPLICAS, brokers)} or less", Severity.ERROR, _REPLICAS
                )
        elif replicas == 1:
            if not _is_development(context):
                text = "replicationFactor is 1: the loss of one disk loses data"
                yield Finding(topic, text, _more_replicas(brokers), path=_REPLICAS)
        elif replicas % 2 == 0:
            better = 3 if replicas == 2 else replicas - 1
            if brokers == 0 or better <= brokers:
                yield Finding(
                    topic,
                    _even(replicas, better),
                    f"write {setting(_REPLICAS, better)}",
                    Severity.INFO,
                    _REPLICAS,
                )


@rule("KF109", Severity.ERROR)
def min_insync_replicas(context: RuleContext) -> Iterator[Finding]:
    """min.insync.replicas does not fit the replication factor.

    Above it, the promise cannot be kept, and no broker says so (error): older brokers refuse every write
    with acks=all, newer ones (tried: 4.3.1) ask for no more replicas than there are, so that one replica
    out of sync stops writes all the same, and with a single replica the setting means nothing. Equal to
    it, no broker may fail (warning). At 1 with three replicas or more, acks=all promises nothing
    (warning). 2 of 3 is what most topics want. What counts is the value in force after an apply: the
    declared one, else what somebody set on the live topic and the manifest leaves there, else the
    cluster's default. Offline, only the declared one is known.
    """
    for topic in topics(context):
        replicas, value = count(topic, _REPLICAS), in_force(topic, "min.insync.replicas", context)
        least = value.number if value else None
        if replicas is None or value is None or least is None:
            continue
        both = f"min.insync.replicas is {value.shown}, replicationFactor is {replicas}"
        if least > replicas:
            text, better = f"{both}: so many can never be in sync", max(1, replicas - 1)
            yield Finding(topic, text, f"write {setting(_MIN_ISR, better)}", path=_MIN_ISR)
        elif least == replicas > 1:
            text = f"{both}: no broker may fail without stopping writes"
            yield Finding(topic, text, f"write {setting(_MIN_ISR, replicas - 1)}", Severity.WARNING, _MIN_ISR)
        elif least == 1 and replicas >= 3:
            text = f"{both}: an acknowledged write may be on one broker only"
            yield Finding(topic, text, f"write {setting(_MIN_ISR, 2)}", Severity.WARNING, _MIN_ISR)


@rule("KF113", Severity.WARNING)
def unclean_election(context: RuleContext) -> Iterator[Finding]:
    """Unclean leader election is on.

    If all replicas in sync are down, one that lags behind may become leader: what it had not copied yet
    is lost for good, although producers were told that it was written, and consumers may see other records
    under offsets that they have read. Leave unclean.leader.election.enable at false, Kafka's own default,
    and switch it on by hand to end an outage that nothing else ends. Where data may be lost and must not
    wait, as with metrics, waive the rule. A cluster's default counts too, except for topics with one
    replica, which have no other to elect.
    """
    for topic in topics(context):
        value = in_force(topic, "unclean.leader.election.enable", context)
        if value is None or value.text != "true" or not (value.declared or count(topic, _REPLICAS) != 1):
            continue
        yield Finding(
            topic,
            f"unclean.leader.election.enable is {value.shown}: "
            "a replica that is behind may become leader, and acknowledged records are lost",
            f"write {setting(_UNCLEAN, 'false')}",
            path=_UNCLEAN,
        )


def _is_development(context: RuleContext) -> bool:
    if context.environment is None:
        return (context.brokers or 0) <= 1
    return context.environment.lower() in DEVELOPMENT


def _more_replicas(brokers: int) -> str:
    match brokers:
        case 1:
            return f"add two brokers, and write {setting(_REPLICAS, 3)}"
        case 2:
            return f"write {setting(_REPLICAS, 2)}, or add a broker and write {setting(_REPLICAS, 3)}"
        case _:
            return f"write {setting(_REPLICAS, 3)}"


def _are(brokers: int) -> str:
    return f"is {brokers} broker" if brokers == 1 else f"are {brokers} brokers"


def _even(replicas: int, better: int) -> str:
    """What an even replication factor lets fail, and what the better one does."""
    majority, fewer = replicas // 2 + 1, better // 2 + 1
    return (
        f"replicationFactor is {replicas}: with a majority of {majority} in sync, "
        f"{_fail(replicas - majority)} may fail; of {better}, with {fewer} in sync, {better - fewer} may"
    )


def _fail(brokers: int) -> str:
    return "no broker" if brokers == 0 else f"{brokers} broker{'s' if brokers > 1 else ''}"
