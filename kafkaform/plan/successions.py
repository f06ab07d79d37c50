"""Reading the topics that others succeed, for plans and for `kafkaform succession`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.core.acls import EVERYONE
from kafkaform.core.errors import ClusterError
from kafkaform.core.model import Desired, Facts, Intent, Observation, ResourceRef, Undeclared
from kafkaform.core.transactions import ProducerReading, ProducerState, list_places
from kafkaform.core.units import format_duration
from kafkaform.core.values import replace
from kafkaform.core.wording import listed
from kafkaform.resources import ACCESS, is_topic, topic_ref
from kafkaform.resources.access.spec import find_declaring
from kafkaform.resources.replicas.facts import list_partitions
from kafkaform.resources.succession import (
    CLOSE_WRITES,
    QUIET_PERIOD,
    RECOVERY_WINDOW,
    SUCCEEDS,
    Predecessor,
    SuccessionFacts,
    closing_path,
    find_predecessor,
    get_duration,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafkaform.cluster.protocol import PartitionReader
    from kafkaform.core.partitions import TopicPartition
    from kafkaform.plan.difference import SavedPlan

_EVERYONE = ResourceRef(ACCESS.name, EVERYONE)


def map_successions(desired: Iterable[Desired]) -> dict[str, str]:
    """Return the name of the predecessor of each declared topic that succeeds another one, by its name."""
    names = {each.ref.name: find_predecessor(each) for each in desired if is_topic(each.ref)}
    return {successor: name for successor, name in names.items() if name is not None}


def list_predecessors(desired: Iterable[Desired]) -> frozenset[ResourceRef]:
    """Return the topics that declared ones succeed."""
    return frozenset(topic_ref(name) for name in map_successions(desired).values())


def list_successors(saved: SavedPlan) -> list[Desired]:
    """Return the topics of a saved plan that may succeed others: by their manifests, or else as it says."""
    planned = {
        topic_ref(name): Intent(
            spec={SUCCEEDS: each.predecessor, QUIET_PERIOD: each.quiet_ms, RECOVERY_WINDOW: each.recovery_ms}
        )
        for name, each in saved.plan.successions.items()
    }
    intents = {**planned, **saved.intents}
    return [Desired(ref, {}, intent) for ref, intent in intents.items() if is_topic(ref)]


def open_predecessors(desired: Sequence[Desired], observation: Observation) -> Sequence[Desired]:
    """Return the declared resources without the denials that close predecessors which are to be open.

    These are gone, have a tombstone, or their successor has `closeWrites: false`. A live denial is removed,
    unless an Access manifest declares it.
    """
    everyone = next((each for each in desired if each.ref == _EVERYONE), None)
    if everyone is None or everyone.state is None:
        return desired
    existing = observation.resources.keys() | observation.invisible.keys()
    closable = existing - {each.ref for each in desired if each.state is None}
    state = {**everyone.state}
    for topic in desired:
        path = closing_path(topic)
        is_closed = (
            topic.intent.spec.get(CLOSE_WRITES) and topic_ref(find_predecessor(topic) or "") in closable
        )
        if path is None or is_closed:
            continue
        if any(manifest.ref.kind == ACCESS.name for manifest in find_declaring(everyone, path)):
            continue
        state.pop(path, None)
        if _EVERYONE in observation.resources:
            state[path] = None
    further = [each for each in desired if each is not everyone]
    # Without anything to compare, it would be reported as a resource that does not exist.
    is_empty = not state and everyone.intent.undeclared is Undeclared.KEEP
    return further if is_empty else [*further, replace(everyone, state=state)]


def add_successions(
    facts: Facts, desired: Iterable[Desired], observation: Observation, cluster: PartitionReader, now_ms: int
) -> Facts:
    """Add to the facts the logs of the topics that declared ones succeed, as `read_predecessors` does."""
    predecessors = read_predecessors(desired, observation, cluster, now_ms)
    return facts.add_part(SuccessionFacts(predecessors)) if predecessors else facts


def read_predecessors(
    desired: Iterable[Desired], observation: Observation, cluster: PartitionReader, now_ms: int
) -> dict[str, Predecessor]:
    """Read the logs of the topics that declared ones succeed, by successor; without any, nothing is read.

    Args:
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
    return predecessors


def _read_predecessor(
    topic: Desired, name: str, partitions: list[TopicPartition], cluster: PartitionReader, now_ms: int
) -> Predecessor:
    quiet, window = get_duration(topic, QUIET_PERIOD), get_duration(topic, RECOVERY_WINDOW)
    try:
        # The recovery window first: what is written meanwhile shows in the later reading.
        kept = cluster.log_spans(partitions, now_ms - window)
        reading = cluster.open_transactions(partitions)
        spans = cluster.log_spans(partitions, now_ms - quiet)
        # Compared with the earlier reading, too: records may have a time before they were written.
        written = [p for p, span in spans.items() if span.at != span.end or kept.get(p, span).end != span.end]
        producers = cluster.producers(written) if written else ProducerReading()
    except ClusterError as error:
        why = f"could not read the log of {name}: {error.message}"
        return Predecessor(name, topic.ref.name, obstacle=why, recent=why)
    writing = [each for each in producers.producers if each.written_ms >= now_ms - quiet]
    unread = [number for _, number in partitions if (name, number) not in spans]
    obstacle = ""
    if unread:
        obstacle = f"partitions {listed([*map(str, unread)])} of {name} could not be read"
    elif reading.transactions or reading.unread:
        why = list_places(reading.transactions) or reading.unread
        names = listed([*dict.fromkeys(transaction.name for transaction in reading.transactions)])
        obstacle = f"{names or 'a transaction'} may still write to {name}: {why}"
    elif written:
        numbers = [str(number) for _, number in sorted(written)]
        obstacle = (
            f"{name} received records in the last {format_duration(quiet)}, "
            f"in {'partition' if len(numbers) == 1 else 'partitions'} {listed(numbers)}, "
            f"from {_name_producers(writing, producers.unread)}"
        )
    recent = any(span.at != span.end for span in kept.values())
    return Predecessor(
        name,
        topic.ref.name,
        spans,
        obstacle,
        obstacle or (f"it has records of the last {format_duration(window)}" if recent else ""),
        writing,
        quiet,
        window,
    )


def _name_producers(producers: Sequence[ProducerState], unread: str) -> str:
    names = [*dict.fromkeys(producer.name for producer in producers)]
    if names:
        return listed(names)
    if unread:
        return f"producers that could not be read: {unread}"
    return "producers without a state on the brokers: only idempotent and transactional ones have one"
