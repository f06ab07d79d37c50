"""Reading the topics that others succeed, for plans and for `kafkaform succession`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.core.errors import ClusterError
from kafkaform.core.transactions import list_places
from kafkaform.core.units import format_duration
from kafkaform.core.wording import listed
from kafkaform.resources import is_topic, topic_ref
from kafkaform.resources.replicas.facts import list_partitions
from kafkaform.resources.succession import (
    QUIET_PERIOD,
    RECOVERY_WINDOW,
    Predecessor,
    SuccessionFacts,
    find_predecessor,
    get_duration,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkaform.cluster.protocol import PartitionReader
    from kafkaform.core.model import Desired, Facts, Observation, ResourceRef
    from kafkaform.core.partitions import TopicPartition


def list_predecessors(desired: Iterable[Desired]) -> frozenset[ResourceRef]:
    """Return the topics that declared ones succeed."""
    names = (find_predecessor(declared) for declared in desired if is_topic(declared.ref))
    return frozenset(topic_ref(name) for name in names if name is not None)


def add_successions(
    facts: Facts, desired: Iterable[Desired], observation: Observation, cluster: PartitionReader, now_ms: int
) -> Facts:
    """Add to the facts the logs of the topics that declared ones succeed; costs nothing if there is none.

    Args:
        facts: The facts so far.
        desired: The declared resources.
        observation: A reading of the cluster that covers `list_predecessors`.
        now_ms: The time in milliseconds since 1970.
    """
    predecessors = {}
    for topic in desired:
        name = find_predecessor(topic) if is_topic(topic.ref) else None
        if name is None:
            continue
        ref = topic_ref(name)
        if (observed := observation.resources.get(ref)) is not None:
            partitions = list_partitions(observed)
            predecessors[topic.ref.name] = _read_predecessor(topic, name, partitions, cluster, now_ms)
        elif ref in observation.invisible:
            why = f"{name} is not visible to this account: {observation.invisible[ref]}"
            predecessors[topic.ref.name] = Predecessor(name, topic.ref.name, obstacle=why, recent=why)
    return facts.add_part(SuccessionFacts(predecessors)) if predecessors else facts


def _read_predecessor(
    topic: Desired, name: str, partitions: list[TopicPartition], cluster: PartitionReader, now_ms: int
) -> Predecessor:
    quiet, window = get_duration(topic, QUIET_PERIOD), get_duration(topic, RECOVERY_WINDOW)
    try:
        # The recovery window first: what is written meanwhile shows in the later reading.
        kept = cluster.log_spans(partitions, now_ms - window)
        reading = cluster.open_transactions(partitions)
        spans = cluster.log_spans(partitions, now_ms - quiet)
    except ClusterError as error:
        why = f"could not read the log of {name}: {error.message}"
        return Predecessor(name, topic.ref.name, obstacle=why, recent=why)
    unread = [number for _, number in partitions if (name, number) not in spans]
    # Compared with the earlier reading, too: records may have a time before they were written.
    written = [
        number
        for (_, number), span in spans.items()
        if span.at != span.end or ((name, number) in kept and kept[name, number].end != span.end)
    ]
    obstacle = ""
    if unread:
        obstacle = f"partitions {listed([*map(str, unread)])} of {name} could not be read"
    elif reading.transactions or reading.unread:
        why = list_places(reading.transactions) or reading.unread
        obstacle = f"a transaction may still write to {name}: {why}"
    elif written:
        obstacle = (
            f"{name} received records in the last {format_duration(quiet)}, "
            f"in partitions {listed([*map(str, sorted(written))])}"
        )
    recent = any(span.at != span.end for span in kept.values())
    return Predecessor(
        name,
        topic.ref.name,
        spans,
        obstacle,
        obstacle or (f"it has records of the last {format_duration(window)}" if recent else ""),
    )
