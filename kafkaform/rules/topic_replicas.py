"""Rules about the durability of topics: replicas, replicas in sync, and elections."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.core.model import Severity
from kafkaform.core.wording import listed, setting
from kafkaform.resources.replicas.facts import get_replicas
from kafkaform.rules.catalogue import Finding, RuleContext, rule
from kafkaform.rules.topic_values import count, find_effective, live_count, topics

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkaform.core.model import Desired

DEVELOPMENT = frozenset({"dev", "development", "local", "test"})
"""Names of environments whose data may be lost."""

_REPLICAS = "replicationFactor"
_MIN_ISR = "config.min.insync.replicas"
_UNCLEAN = "config.unclean.leader.election.enable"


def _find_down_brokers(context: RuleContext) -> list[int]:
    """Return the brokers in the replica lists of live topics that are not live."""
    if context.facts is None:
        return []
    placed = {
        broker
        for observed in context.live.values()
        for replicas in get_replicas(observed).replicas
        for broker in replicas
    }
    return sorted(placed - {broker.id for broker in context.facts.brokers})


@rule("KF108", Severity.WARNING)
def replication_factor(context: RuleContext) -> Iterator[Finding]:
    """The replication factor loses data, costs more than it gives, or is impossible.

    Above the broker count (error), a topic cannot be created; a broker that is in the replica lists of
    the cluster's topics, and is down, is named. A live topic that already has as many replicas is not
    reported. With 1 (warning), the loss of one disk loses
    data, and the restart of one broker stops the topic. This is not reported in an environment called
    dev, development, local or test; without an environment, it is reported only if more than one broker
    is known. An even number (info) tolerates no more failures than one replica less, if a majority has to
    be in sync: 3 of 4 replicas or 2 of 3, and either way one broker may fail. 2 replicas are not reported
    where there is no third broker. Most topics need 3. A cluster that is stretched over two sites may
    well need 4: waive the rule.
    """
    brokers = context.brokers or 0
    for topic in topics(context):
        replicas = count(topic, _REPLICAS)
        if replicas is None:
            continue
        if 0 < brokers < replicas:
            # A live topic has its replicas already: a broker that is down makes it unhealthy, not impossible.
            if live_count(topic, _REPLICAS, context) != replicas:
                text = f"replicationFactor is {replicas}, but there {_are(brokers)}"
                remedy = f"write {setting(_REPLICAS, brokers)} or less"
                if down := _find_down_brokers(context):
                    names = listed([f"broker {broker}" for broker in down])
                    text = f"{text}: {names} {'is' if len(down) == 1 else 'are'} down"
                    remedy = f"start {names}, then plan again"
                yield Finding(topic, text, remedy, Severity.ERROR, _REPLICAS)
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

    Above the replication factor (error), it cannot be met, and no broker reports that. Older brokers
    refuse every write with acks=all. Newer ones (tested with 4.3.1) require no more replicas than there
    are: one replica out of sync still stops writes, and with a single replica the setting has no effect.
    If it equals the replication factor (warning), no broker may fail. At 1 with three replicas or more
    (warning), acks=all guarantees nothing. Most topics need 2 of 3. The rule checks the value in force
    after an apply: the declared value, else the value that was set on the live topic and that the
    manifest leaves in place, else the cluster's default. Offline, it checks only the declared value.
    If the live topic already has both values, the error is a warning: the plan does not cause it.
    """
    for topic in topics(context):
        replicas, value = count(topic, _REPLICAS), find_effective(topic, "min.insync.replicas", context)
        least = value.number if value else None
        if replicas is None or value is None or least is None:
            continue
        both = f"min.insync.replicas is {value.shown}, replicationFactor is {replicas}"
        if least > replicas:
            text = f"{both}: that many replicas can never be in sync"
            severity = Severity.WARNING if _is_live(topic, replicas, least, context) else None
            yield Finding(topic, text, _fitting(replicas, least, context), severity, _MIN_ISR)
        elif least == replicas > 1:
            text = f"{both}: no broker may fail without stopping writes"
            yield Finding(topic, text, _fitting(replicas, least, context), Severity.WARNING, _MIN_ISR)
        elif least == 1 and replicas >= 3:
            text = f"{both}: an acknowledged write may be on one broker only"
            yield Finding(topic, text, f"write {setting(_MIN_ISR, 2)}", Severity.WARNING, _MIN_ISR)


def _fitting(replicas: int, least: int, context: RuleContext) -> str:
    """Suggest more replicas first: fewer in sync make acknowledged writes less safe."""
    lower = setting(_MIN_ISR, max(1, replicas - 1))
    if context.brokers is not None and context.brokers <= least:
        return f"write {lower} (there {_are(context.brokers)}, too few for {least + 1} replicas)"
    return f"write {setting(_REPLICAS, least + 1)}, or {lower} if the topic's data may be lost"


def _is_live(topic: Desired, replicas: int, least: int, context: RuleContext) -> bool:
    """Return whether the live topic already has this replication factor and min.insync.replicas."""
    live = context.live.get(topic.ref)
    return (
        live is not None
        and live_count(topic, _REPLICAS, context) == replicas
        and live.effective.get(_MIN_ISR) == str(least)
    )


@rule("KF113", Severity.WARNING)
def unclean_election(context: RuleContext) -> Iterator[Finding]:
    """Unclean leader election is on.

    If all in-sync replicas are down, a replica that lags behind may become leader. The records that it
    had not copied yet are lost, although producers got an acknowledgement. Consumers may find other
    records under offsets that they have already read. Leave unclean.leader.election.enable at false,
    Kafka's default, and enable it by hand to end an outage that nothing else ends. If availability
    matters more than data, as with metrics, waive the rule. The rule also checks the cluster's default,
    except for topics with one replica, which have no other replica to elect.
    """
    for topic in topics(context):
        value = find_effective(topic, "unclean.leader.election.enable", context)
        # A topic with one replica has no other one to elect, so only a declared value is reported.
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
    # Without an environment, a single broker is most likely a developer's.
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
    """Compare the number of brokers that may fail with an even replication factor and a better one."""
    majority, fewer = replicas // 2 + 1, better // 2 + 1
    return (
        f"replicationFactor is {replicas}: if a majority of {majority} must be in sync, "
        f"{_fail(replicas - majority)} may fail; "
        f"with {better} replicas and {fewer} in sync, {better - fewer} may"
    )


def _fail(brokers: int) -> str:
    return "no broker" if brokers == 0 else f"{brokers} broker{'s' if brokers > 1 else ''}"
