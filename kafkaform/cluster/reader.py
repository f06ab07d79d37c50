"""Reading topics from a real cluster, in a few requests however many there are."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kafkaform.cluster.admin_reader import AdminReader
from kafkaform.cluster.reassignments import read_reassignments
from kafkaform.cluster.topic_answers import Answers
from kafkaform.cluster.wire_reader import WireReader
from kafkaform.core.model import CONFIG_PREFIX, Observation, Observed, ResourceRef

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from kafkaform.cluster.connection import Connection
    from kafkaform.cluster.reassignments import Reassignments
    from kafkaform.cluster.topic_answers import Configs, Description, T, TopicSource
    from kafkaform.core.model import FieldValue

SETTLE_TIMEOUT_S = 10.0
"""How long brokers may deny a topic that the metadata shows, as they do after a mass create."""
LEAST_PAUSE_S, LONGEST_PAUSE_S = 0.02, 1.0
"""How long to wait before asking again: a fifth of what was waited so far, and no less or more than this."""


def topic_source(connection: Connection) -> TopicSource:
    """The swiftest way of asking that these brokers and clients can do."""
    connection.reached  # noqa: B018 - raises in plain words if nobody is there
    return WireReader(connection) if WireReader.usable(connection) else AdminReader(connection)


def read(
    connection: Connection,
    refs: Collection[ResourceRef],
    also: Callable[[ResourceRef], bool],
    kinds: Collection[str],
    source: TopicSource | None = None,
) -> Observation:
    """Read resources, kind by kind; see `Cluster.observe`.

    Args:
        connection: The cluster's.
        refs: See `Cluster.observe`.
        also: See there.
        kinds: See there.
        source: Who to ask about topics; None: whoever `topic_source` finds.
    """
    wanted = {*kinds, *(ref.kind for ref in refs)}
    readings = []
    if "Topic" in wanted:
        readings.append(read_topics(connection, refs, also, source))
    if "ConsumerGroup" in wanted:
        from kafkaform.cluster.group_observer import observe_groups

        readings.append(observe_groups(connection, refs, also))
    return Observation(
        {ref: one for reading in readings for ref, one in reading.resources.items()},
        frozenset().union(*(reading.inventory for reading in readings)),
        {ref: why for reading in readings for ref, why in reading.invisible.items()},
        tuple(note for reading in readings for note in reading.diagnostics),
    )


def read_topics(
    connection: Connection,
    refs: Collection[ResourceRef],
    also: Callable[[ResourceRef], bool],
    source: TopicSource | None = None,
) -> Observation:
    """Read topics; see `Cluster.observe`."""
    source = source or topic_source(connection)
    inventory = frozenset(ResourceRef("Topic", name) for name in source.names())
    wanted = {ref for ref in refs if ref.kind == "Topic"}
    present = sorted(ref.name for ref in inventory if ref in wanted or also(ref))
    absent = sorted(ref.name for ref in wanted - inventory)

    configs = _settled(present, source.configs)
    # A topic that has configs but is not in the metadata: made meanwhile, or this account lacks Describe.
    unseen = source.configs(absent)
    configs.found.update(unseen.found)
    descriptions = _settled(sorted({*present, *unseen.found}), source.descriptions)
    reassignments = read_reassignments(connection)
    prefixed = _Prefixed()
    resources = {}
    for name, description in descriptions.found.items():
        if name in configs.found:
            ref = ResourceRef("Topic", name)
            resources[ref] = _observed(ref, description, configs.found[name], reassignments, prefixed)
    invisible = {
        ResourceRef("Topic", name): error.message
        for name, error in {**unseen.denied, **configs.denied, **descriptions.denied}.items()
    }
    return Observation(
        resources, inventory | resources.keys(), invisible, reassignments.diagnostics(resources)
    )


def _settled(names: Sequence[str], ask: Callable[[Sequence[str]], Answers[T]]) -> Answers[T]:
    """The answers for topics that the metadata shows; asks again for those a broker has not heard of yet.

    A topic that stays missing was deleted meanwhile.
    """
    answers: Answers[T] = Answers()
    begun = time.monotonic()
    while names:
        answers.update(ask(names))
        names = answers.missing
        waited = time.monotonic() - begun
        if not names or waited > SETTLE_TIMEOUT_S:
            break
        time.sleep(min(max(waited / 5, LEAST_PAUSE_S), LONGEST_PAUSE_S))
    return answers


class _Prefixed:
    """Effective configs under the paths of fields, made once for all topics that share them."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[Mapping[str, str | None], dict[str, FieldValue]]] = {}

    def __call__(self, values: Mapping[str, str | None]) -> dict[str, FieldValue]:
        made = self._made.get(id(values))
        if made is None:  # the mapping is kept beside its result, so that its id stays its own
            made = values, {CONFIG_PREFIX + name: value for name, value in values.items()}
            self._made[id(values)] = made
        return made[1]


def _observed(
    ref: ResourceRef,
    description: Description,
    configs: Configs,
    reassignments: Reassignments,
    prefixed: _Prefixed,
) -> Observed:
    moving = reassignments.moving(ref.name)
    shown = {**description.replicas, **moving} if moving else description.replicas
    replicas = tuple(map(shown.__getitem__, sorted(shown)))
    counts = {len(held) for held in replicas}
    state: dict[str, FieldValue] = {
        "partitions": len(replicas),
        "replicationFactor": counts.pop() if len(counts) == 1 else f"{min(counts)}-{max(counts)}",
        **{CONFIG_PREFIX + name: value for name, value in configs.own.items()},
    }
    return Observed(
        ref,
        description.uid,
        state,
        prefixed(configs.effective),
        description.internal,
        replicas=replicas,
        moving=frozenset(moving),
    )
