"""Rules about the replicas of partitions; each finding is about the whole cluster, with the figures."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kafkaform.core.model import Severity
from kafkaform.core.wording import counted, listed
from kafkaform.rules.catalogue import Finding, Scene, Stage, rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafkaform.core.health import Health
    from kafkaform.core.layout import PartitionState


def offline(health: Health) -> list[PartitionState]:
    """The partitions that nobody leads."""
    return [partition for partition in health.partitions if partition.leader is None]


def under_replicated(health: Health) -> list[PartitionState]:
    """The partitions that are led, and of which a replica is not in sync.

    A replica that a running reassignment adds is not counted: it is meant to be catching up.
    """
    return [p for p in health.partitions if p.leader is not None and _missing(p, health)]


def under_min_isr(health: Health) -> list[PartitionState]:
    """The partitions that are led, and of which fewer replicas are in sync than acks=all asks for.

    Brokers ask for no more replicas than there are, whatever min.insync.replicas says.
    """
    found = []
    for partition in health.partitions:
        least = min(health.min_insync_replicas.get(partition.topic, 0), len(partition.replicas))
        if partition.leader is not None and len(partition.isr) < least:
            found.append(partition)
    return found


@rule("KF303", Severity.ERROR, stage=Stage.HEALTH, waivable=False)
def replicas_in_sync(scene: Scene) -> Iterator[Finding]:
    """Partitions are under-replicated.

    A replica that is not in sync cannot take over without losing records, so these partitions survive fewer
    failures than they were made for. Most often a broker is down or slow: the finding says which ones are
    missing. There must be none of these before data is moved, and again between two batches, or a move may
    drop the last good copy. Replicas that a running reassignment adds do not count until it is over.
    """
    health = scene.health
    if health is None or not (found := under_replicated(health)):
        return
    missing = Counter(broker for partition in found for broker in _missing(partition, health))
    live = {broker.id for broker in health.brokers}
    brokers = [
        f"broker {broker} is missing from {number:,}" + ("" if broker in live else " and is not live")
        for broker, number in missing.most_common()
    ]
    down = sorted({*missing} - live)
    yield Finding(
        None,
        f"{_amount(found)} under-replicated: {listed(brokers)} ({_names(found)})",
        f"start {_brokers(down)}, and wait until its replicas have caught up: kafkaform doctor --wait 10m"
        if down
        else f"see whether {_brokers(sorted(missing))} keeps up: disk, network, and its log",
    )


@rule("KF304", Severity.ERROR, stage=Stage.HEALTH, waivable=False)
def partitions_led(scene: Scene) -> Iterator[Finding]:
    """Partitions are offline.

    Nobody leads them, so nothing can be written to them or read from them. Every replica that was in sync
    last is on a broker that is down, or on a disk that failed. Start those brokers. To let a replica lead
    that is not in sync (an unclean election) loses what it has not got.
    """
    health = scene.health
    if health is None or not (found := offline(health)):
        return
    live = {broker.id for broker in health.brokers}
    # The last ones in sync: with one of them back, a partition has a leader again.
    holders = Counter(broker for partition in found for broker in partition.isr or partition.replicas)
    brokers = [
        f"broker {broker} ({'live' if broker in live else 'not live'}) has {number:,}"
        for broker, number in holders.most_common()
    ]
    down = sorted({*holders} - live)
    yield Finding(
        None,
        f"{_amount(found)} offline, neither read nor written: {listed(brokers)} ({_names(found)})",
        f"start {_brokers(down)}: an in-sync replica is there"
        if down
        else "look for failed disks in the logs of these brokers",
    )


@rule("KF305", Severity.ERROR, stage=Stage.HEALTH, waivable=False)
def enough_in_sync(scene: Scene) -> Iterator[Finding]:
    """Partitions have fewer replicas in sync than min.insync.replicas.

    Writes with acks=all are refused there (NOT_ENOUGH_REPLICAS) until enough replicas are in sync again;
    writes with acks=1 go on, with fewer copies than were asked for. Bring the missing replicas back. To lower
    min.insync.replicas lets producers go on at the price of what the next failure takes with it.
    """
    health = scene.health
    if health is None or not (found := under_min_isr(health)):
        return
    missing = Counter(broker for partition in found for broker in _missing(partition, health))
    brokers = [f"broker {broker} is missing from {number:,}" for broker, number in missing.most_common()]
    yield Finding(
        None,
        f"{_amount(found)} under min.insync.replicas, writes with acks=all are refused: "
        f"{listed(brokers)} ({_names(found)})",
        f"bring {_brokers(sorted(missing))} back in sync",
    )


@rule("KF309", Severity.INFO, stage=Stage.HEALTH, waivable=False)
def reassignment(scene: Scene) -> Iterator[Finding]:
    """A partition reassignment is running.

    While one runs, metadata shows the old replicas and the new ones, and copying takes of the brokers'
    network and disks. A plan compares with the replication factor that the reassignment leads to, and never
    touches its throttles. Begin no other data movement before it is over; if it does not end, see whether the
    throttle is below what is written to these partitions.
    """
    moving = scene.health.reassigning if scene.health is not None else None
    if not moving:
        return
    topics = sorted({topic for topic, _ in moving})
    adding = sorted({broker for brokers in moving.values() for broker in brokers})
    where = f", adding replicas on {_brokers(adding)}" if adding else ""
    yield Finding(
        None,
        f"a reassignment of {counted(len(moving), 'partition')} of {counted(len(topics), 'topic')} is running"
        f"{where} ({listed(topics)})",
        "before moving more data, wait for its end: kafkaform doctor --rule KF309 --fail-on info --wait 1h",
    )


def _missing(partition: PartitionState, health: Health) -> list[int]:
    adding = (health.reassigning or {}).get((partition.topic, partition.partition), ())
    return [broker for broker in partition.replicas if broker not in partition.isr and broker not in adding]


def _amount(partitions: Sequence[PartitionState]) -> str:
    topics = len({partition.topic for partition in partitions})
    verb = "is" if len(partitions) == 1 else "are"
    return f"{counted(len(partitions), 'partition')} of {counted(topics, 'topic')} {verb}"


def _names(partitions: Iterable[PartitionState]) -> str:
    return listed([f"{partition.topic}-{partition.partition}" for partition in partitions])


def _brokers(numbers: Sequence[int]) -> str:
    noun = "broker" if len(numbers) == 1 else "brokers"
    return f"{noun} {listed([str(number) for number in numbers])}"
