"""The replicas of a cluster in memory, their reassignments, and their throttles."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from kafkaform.cluster.protocol import make_broker_down_error
from kafkaform.core.errors import ClusterError, LockLost
from kafkaform.core.health import LogDir, ThrottleConfigs
from kafkaform.core.lock import Guard, unguarded
from kafkaform.core.model import ResourceRef
from kafkaform.core.partitions import Broker, Replicas, TopicPartition
from kafkaform.core.values import replace
from kafkaform.resources import topic_ref
from kafkaform.resources.replicas.layout import Layout
from kafkaform.resources.replicas.moves import (
    ALL,
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    Rates,
    ThrottledReplicas,
    Throttles,
)
from tests.support.memory_cluster import controller
from tests.support.memory_cluster.contents import volumes_of
from tests.support.memory_cluster.controller import Topic, cancel_move, start_move
from tests.support.memory_cluster.faults import FaultInjection, denial

CLUSTER = ResourceRef("Cluster", "kafka-cluster")
"""The resource that reassignments, elections and rates need a right on."""


class MovingReplicas(FaultInjection):
    """The part of a cluster in memory that knows of replicas; see `Cluster` for what it promises."""

    def layout(self, topics: Collection[str] | None = None) -> Layout:
        seen = self._read_contents()
        asked = seen.topics.keys() if topics is None else {*topics}
        before = self._contents.copy()
        self.advance()
        if before.moves.keys() != self._contents.moves.keys():
            self._lag_behind(before)
        return Layout(
            self._alive,
            {name: seen.states(name) for name in sorted(asked & seen.topics.keys()) if self._sees(name)},
            {partition: move.reassignment for partition, move in before.moves.items()},
        )

    def replica_sizes(self, partitions: Collection[TopicPartition]) -> Mapping[tuple[str, int, int], int]:
        contents = self._contents
        there = [p for p in partitions if self._sees(p[0]) and p in contents.partitions(p[0])]
        return {
            (*partition, broker): self._read_filled(partition, broker)
            for partition in there
            for broker in contents.state(partition).replicas
            if broker not in contents.stopped
        }

    def log_dirs(self) -> tuple[Sequence[LogDir], Mapping[int, ClusterError]]:
        return volumes_of(self._alive, self._volumes), {}

    def reassign(
        self, targets: Mapping[TopicPartition, Replicas | None], guard: Guard = unguarded
    ) -> Mapping[TopicPartition, ClusterError | None]:
        before = self._contents.copy()

        def one(partition: TopicPartition) -> None:
            self._move(partition, targets[partition])

        outcomes = self._each(targets, one, guard)
        self._settle()
        self._lag_behind(before)
        return outcomes

    def elect_leaders(
        self, partitions: Collection[TopicPartition], guard: Guard = unguarded
    ) -> Mapping[TopicPartition, ClusterError | None]:
        return self._each(partitions, self._elect, guard)

    def throttles(self, topics: Collection[str]) -> Throttles:
        rates = {b.id: _rates(self._contents.rates.get(b.id, {})) for b in self._alive}
        seen = {name: self._contents.topics[name] for name in topics if self._is_there(name)}
        lists = {
            name: ThrottledReplicas(*map(frozenset, _lists(topic).values())) for name, topic in seen.items()
        }
        return Throttles(
            {broker: value for broker, value in rates.items() if value != Rates()},
            {name: value for name, value in lists.items() if value != ThrottledReplicas()},
        )

    def throttle_configs(self, topics: Collection[str]) -> tuple[ThrottleConfigs, ...]:
        own = {name: self._contents.topics[name].configs for name in topics if self._is_there(name)}
        lists = [
            ThrottleConfigs("topics", name, {key: configs[key] or "" for key in _LISTS if key in configs})
            for name, configs in own.items()
        ]
        rates = self._contents.rates
        of_brokers = [ThrottleConfigs("brokers", str(b.id), rates.get(b.id, {})) for b in self._alive]
        return tuple(entity for entity in (*lists, *of_brokers) if entity.values)

    def set_throttles(self, throttles: Throttles, guard: Guard = unguarded) -> None:
        self._check_throttle_request(throttles, guard)
        self._raise_for_brokers_down(throttles)
        for name in throttles.replicas:
            if not self._is_there(name):
                raise _unknown(name)
        rates = self._contents.rates
        for broker, given in throttles.rates.items():
            rates[broker] = {**rates.get(broker, {}), **_texts(given)}
        for name, value in throttles.replicas.items():
            lists = _lists(self._contents.topics[name])
            for key, new in value.to_configs().items():
                if ALL not in lists[key]:
                    lists[key] += sorted(new - {*lists[key]})
            self._put_lists(name, lists)

    def clear_throttles(self, throttles: Throttles, guard: Guard = unguarded) -> None:
        self._check_throttle_request(throttles, guard)
        for name, value in throttles.replicas.items():
            if self._is_there(name):
                lists = _lists(self._contents.topics[name])
                for key, doomed in value.to_configs().items():
                    lists[key] = [entry for entry in lists[key] if entry not in doomed]
                self._put_lists(name, lists)
        rates = self._contents.rates
        for broker in self._alive:
            doomed_rates = _texts(throttles.rates.get(broker.id, Rates())).items()
            rates[broker.id] = dict(rates.get(broker.id, {}).items() - doomed_rates)
        self._raise_for_brokers_down(throttles)

    def _raise_for_brokers_down(self, throttles: Throttles) -> None:
        for broker in sorted(throttles.rates.keys() - {broker.id for broker in self._alive}):
            raise make_broker_down_error(broker)

    # --- rules -------------------------------------------------------------------------------------

    @property
    def _alive(self) -> tuple[Broker, ...]:
        return tuple(broker for broker in self._brokers if broker.id not in self._contents.stopped)

    def _sees(self, topic: str) -> bool:
        return topic_ref(topic) not in self._hidden

    def _is_there(self, topic: str) -> bool:
        return topic in self._contents.topics and self._sees(topic)

    def _size(self, partition: TopicPartition) -> int:
        """The bytes of a partition: those of a topic are spread evenly."""
        topic, number = partition
        size = self._sizes.get(topic_ref(topic), 0)
        share, remaining = divmod(size, len(self._contents.topics[topic].replicas))
        return share + (number < remaining)

    def _read_filled(self, partition: TopicPartition, broker: int) -> int:
        size, move = self._size(partition), self._contents.moves.get(partition)
        if move is None or broker not in move.list_unfilled(self._contents.steps):
            return size
        return size * move.filled.get(broker, 0) // self._contents.steps

    def _move(self, partition: TopicPartition, target: Replicas | None) -> None:
        contents = self._contents
        if partition not in contents.partitions(partition[0]):
            raise _unknown("{}-{}".format(*partition))
        shown, running = contents.state(partition).replicas, contents.moves.get(partition)
        if target is None:
            if running is None:
                text = "No partition reassignment is in progress."
                raise controller.build_rejection("NO_REASSIGNMENT_IN_PROGRESS", text)
            contents.put_replicas(partition, cancel_move(shown, running))
            del contents.moves[partition]
            return
        controller.check_replicas(target, [broker.id for broker in self._brokers])
        replicas, move = start_move(shown, running, target)
        contents.moves[partition] = move
        contents.put_replicas(partition, replicas)

    def _elect(self, partition: TopicPartition) -> None:
        contents = self._contents
        if partition not in contents.partitions(partition[0]):
            raise _unknown("{}-{}".format(*partition))
        state = contents.state(partition)
        preferred = state.replicas[0]
        if preferred not in state.isr or preferred in contents.stopped:
            text = "The preferred leader was not available"
            raise controller.build_rejection("PREFERRED_LEADER_NOT_AVAILABLE", text)
        contents.led.pop(partition, None)

    def _each(
        self, partitions: Iterable[TopicPartition], send: Callable[[TopicPartition], None], guard: Guard
    ) -> dict[TopicPartition, ClusterError | None]:
        outcomes: dict[TopicPartition, ClusterError | None] = dict.fromkeys(partitions)
        try:
            guard()
        except LockLost as lost:
            return dict.fromkeys(outcomes, lost)
        for partition in outcomes:
            failure = self._failure(topic_ref(partition[0]))
            try:
                if self._denied(CLUSTER):
                    raise denial(CLUSTER)
                if failure is None or failure.carried_out:
                    send(partition)
            except ClusterError as error:
                outcomes[partition] = error
            else:
                outcomes[partition] = failure.error if failure is not None else None
        return outcomes

    def _check_throttle_request(self, throttles: Throttles, guard: Guard) -> None:
        """Do what comes before a change of throttles; raises what stops it."""
        guard()
        refs = [topic_ref(name) for name in throttles.replicas] + [CLUSTER] * bool(throttles.rates)
        for ref in refs:
            if self._denied(ref):
                raise denial(ref)
            failure = self._failure(ref)
            if failure is not None and failure.error is not None:
                raise failure.error

    def _put_lists(self, name: str, lists: Mapping[str, list[str]]) -> None:
        topic = self._contents.topics[name]
        unthrottled = {key: value for key, value in topic.configs.items() if key not in lists}
        given = {key: ",".join(entries) for key, entries in lists.items() if entries}
        self._contents.topics[name] = replace(topic, configs={**unthrottled, **given})


_LISTS = (LEADER_REPLICAS, FOLLOWER_REPLICAS)


def _texts(rates: Rates) -> dict[str, str]:
    return {config: str(rate) for config, rate in rates.to_configs().items()}


def _rates(configs: Mapping[str, str]) -> Rates:
    leader, follower = configs.get(LEADER_RATE), configs.get(FOLLOWER_RATE)
    return Rates(None if leader is None else int(leader), None if follower is None else int(follower))


def _lists(topic: Topic) -> dict[str, list[str]]:
    """The entries of a topic's lists of throttled replicas, by config."""
    listed = {key: topic.configs.get(key, "") for key in _LISTS}
    return {key: [*filter(None, entries.split(","))] for key, entries in listed.items()}


def _unknown(what: str) -> ClusterError:
    return controller.build_rejection(
        "UNKNOWN_TOPIC_OR_PART", f"the topic or partition {what} does not exist"
    )
