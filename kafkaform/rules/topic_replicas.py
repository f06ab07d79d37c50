"""Rules about the durability of topics: replicas, replicas in sync, and elections."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.core.model import Severity
from kafkaform.core.wording import counted, listed, setting
from kafkaform.resources.replicas.facts import get_replicas
from kafkaform.rules.catalogue import Finding, RuleContext
from kafkaform.rules.topic_values import DeclaredTopic, topic_rule

if TYPE_CHECKING:
    from collections.abc import Iterator

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


@topic_rule("KF108", Severity.WARNING, "replicationFactor")
def replication_factor(topic: DeclaredTopic) -> Iterator[Finding]:
    """The replication factor loses data, costs more than it gives, or is impossible.

    Above the broker count (error), the topic cannot be created. With 1 (warning, except in an environment
    called dev, development, local or test), the loss of one disk loses data. An even number (info)
    tolerates no more failures than one less. Most topics need 3; for a cluster stretched over two sites,
    waive the rule.
    """
    brokers, replicas = topic.context.brokers or 0, topic.count(_REPLICAS)
    if replicas is None:
        return
    if 0 < brokers < replicas:
        # A live topic has its replicas already: a broker that is down makes it unhealthy, not impossible.
        if topic.live_count(_REPLICAS) != replicas:
            text = f"replicationFactor is {replicas}, but there {_are(brokers)}"
            remedy = f"write {setting(_REPLICAS, brokers)} or less"
            if down := _find_down_brokers(topic.context):
                names = listed([f"broker {broker}" for broker in down])
                text = f"{text}: {names} {'is' if len(down) == 1 else 'are'} down"
                remedy = f"start {names}, then plan again"
            yield Finding(text, remedy, Severity.ERROR)
    elif replicas == 1:
        if not _is_development(topic.context):
            yield Finding("replicationFactor is 1: the loss of one disk loses data", _more_replicas(brokers))
    elif replicas % 2 == 0:
        better = 3 if replicas == 2 else replicas - 1
        if brokers == 0 or better <= brokers:
            yield Finding(_even(replicas, better), f"write {setting(_REPLICAS, better)}", Severity.INFO)


@topic_rule("KF109", Severity.ERROR, _MIN_ISR)
def min_insync_replicas(topic: DeclaredTopic) -> Iterator[Finding]:
    """min.insync.replicas does not fit the replication factor.

    Above the replication factor (error) it cannot be met. Equal to it (warning), no broker may fail. At 1
    with three replicas or more (warning), acks=all guarantees nothing. Most topics need 2 of 3. The value
    in force after the apply counts, offline only a declared one. If the live topic already has both
    values, the error is a warning.
    """
    replicas, value = topic.count(_REPLICAS), topic.find_effective("min.insync.replicas")
    least = value.number if value else None
    if replicas is None or value is None or least is None:
        return
    both = f"min.insync.replicas is {value.shown}, replicationFactor is {replicas}"
    if least > replicas:
        severity = Severity.WARNING if _is_live(topic, replicas, least) else None
        text = f"{both}: that many replicas can never be in sync"
        yield Finding(text, _fitting(replicas, least, topic.context), severity)
    elif least == replicas > 1:
        text = f"{both}: no broker may fail without stopping writes"
        yield Finding(text, _fitting(replicas, least, topic.context), Severity.WARNING)
    elif least == 1 and replicas >= 3:
        text = f"{both}: an acknowledged write may be on one broker only"
        yield Finding(text, f"write {setting(_MIN_ISR, 2)}", Severity.WARNING)


def _fitting(replicas: int, least: int, context: RuleContext) -> str:
    lower_isr, higher_factor = setting(_MIN_ISR, max(1, replicas - 1)), setting(_REPLICAS, least + 1)
    if context.brokers is not None and context.brokers <= least:
        return f"write {lower_isr} (there {_are(context.brokers)}, too few for {least + 1} replicas)"
    # With one replica in sync, an acknowledged write may be on one broker only.
    if replicas > 2:
        return f"write {lower_isr}, or {higher_factor}"
    return f"write {higher_factor}, or {lower_isr} if its data may be lost"


def _is_live(topic: DeclaredTopic, replicas: int, least: int) -> bool:
    """Return whether the live topic already has this replication factor and min.insync.replicas."""
    live = topic.context.live.get(topic.desired.ref)
    return (
        live is not None
        and topic.live_count(_REPLICAS) == replicas
        and live.effective.get(_MIN_ISR) == str(least)
    )


@topic_rule("KF113", Severity.WARNING, _UNCLEAN)
def unclean_election(topic: DeclaredTopic) -> Iterator[Finding]:
    """Unclean leader election is on.

    If all in-sync replicas are down, a replica that lags may become leader, and acknowledged records are
    lost. Leave unclean.leader.election.enable at false. If availability matters more, as with metrics,
    waive the rule.
    """
    value = topic.find_effective("unclean.leader.election.enable")
    # A topic with one replica has no other one to elect, so only a declared value is reported.
    if value is not None and value.text == "true" and (value.declared or topic.count(_REPLICAS) != 1):
        yield Finding(
            f"unclean.leader.election.enable is {value.shown}: "
            "a replica that is behind may become leader, and acknowledged records are lost",
            f"write {setting(_UNCLEAN, 'false')}",
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
    spare = replicas - majority
    failing = counted(spare, "broker") if spare else "no broker"
    return (
        f"replicationFactor is {replicas}: if a majority of {majority} must be in sync, "
        f"{failing} may fail; with {better} replicas and {fewer} in sync, {better - fewer} may"
    )
