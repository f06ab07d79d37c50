"""Reading a cluster for a plan while its manifests are still being read."""

from __future__ import annotations

from concurrent.futures import Future
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, TypeVar

from kafkaform.cluster.kafka.acls import AccessReader, read_access
from kafkaform.cluster.kafka.facts import read_facts
from kafkaform.cluster.kafka.responses import Description, TopicResponses, TopicSource
from kafkaform.cluster.kafka.topic_sources import TopicRequests
from kafkaform.cluster.kafka.topics import TopicReader
from kafkaform.cluster.transport.brokers import complete_future
from kafkaform.resources import ACCESS, KINDS, TOPIC, is_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkaform.cluster.kafka.readers import KindReader
    from kafkaform.cluster.transport.connection import Connection
    from kafkaform.cluster.wire.large_responses import Configs
    from kafkaform.core.authorizer import AccessReading
    from kafkaform.core.model import Facts, ResourceRef

T = TypeVar("T")

# The global interpreter lock is why: parsing responses and parsing manifests share one processor.
BATCH = 200
"""The topics per batch for the reading thread: each time it wakes up, it holds up the other one."""


class Prefetch:
    """Threads that connect and read: the facts, the topics' names and expected configs, and ACLs if expected.

    Most of that is waiting: for connections, TLS and distant brokers, and for brokers to describe thousands
    of topics. Errors are raised where the result is taken, so that invalid manifests are reported first, and
    need no cluster.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._facts: Future[Facts] = Future()
        self._source: Future[TopicSource] = Future()
        self._next: list[str] = []
        self._expected: SimpleQueue[Sequence[str] | None] = SimpleQueue()
        self._access: Future[AccessReading] | None = None
        _start("facts", self._facts, lambda: read_facts(connection))
        _start("topics", self._source, self._topics)

    def expect(self, ref: ResourceRef) -> None:
        """Queue a resource that `observe` will be asked for."""
        if KINDS[ref.kind] is ACCESS and self._access is None:
            self._access = Future()
            _start("access", self._access, lambda: read_access(self._connection))
        if not is_topic(ref):
            return
        self._next.append(ref.name)
        if len(self._next) >= BATCH:
            self._expected.put(self._next)
            self._next = []

    def facts(self) -> Facts:
        """Return the facts; raises the errors of `read_facts`."""
        return self._facts.result()

    def readers(self) -> dict[str, KindReader]:
        """Return readers that return what was prefetched, by kind; waits for topics, and raises errors."""
        readers: dict[str, KindReader] = {TOPIC.name: TopicReader(self.source())}
        if (access := self._access) is not None:
            readers[ACCESS.name] = AccessReader(lambda _: access.result())
        return readers

    def source(self) -> TopicSource:
        """Return a source with the prefetched topics; raises the errors of both threads."""
        self.facts()
        self._expected.put(self._next)
        self.end()
        return self._source.result()

    def end(self) -> None:
        """End the expected topics, and so the reading thread."""
        self._expected.put(None)

    def _topics(self) -> TopicSource:
        source = TopicRequests(self._connection)
        names = source.names()
        known = frozenset(names)
        configs: TopicResponses[Configs] = TopicResponses()
        while (expected := self._take_expected()) is not None:
            # Topics that are missing or hidden take further requests: `TopicReader` asks for them.
            if requested := [name for name in expected if name in known]:
                configs.update(source.configs(requested))
        return Prefetched(source, names, configs)

    def _take_expected(self) -> Sequence[str] | None:
        """Return the names queued since the last call, waiting for at least one batch; None at the end."""
        first = self._expected.get()
        if first is None:
            return None
        names = [*first]
        while not self._expected.empty():
            if (batch := self._expected.get()) is None:
                self._expected.put(None)
                break
            names += batch
        return names


def _start(name: str, future: Future[T], work: Callable[[], T]) -> None:
    """Start a thread that sets the result of a future, or its error."""
    # Daemons: a cluster that does not answer must not keep an interrupted process alive.
    name = f"kafkaform-prefetch-{name}"
    Thread(target=complete_future, args=(future, work), name=name, daemon=True).start()


class Prefetched:
    """A source that returns prefetched responses once; later calls ask the brokers.

    Args:
        source: The source of all other responses.
        names: The names of all topics.
        configs: The configs of some topics.
    """

    def __init__(self, source: TopicSource, names: list[str], configs: TopicResponses[Configs]) -> None:
        self._source = source
        self._names: list[str] | None = names
        self._configs = configs

    def names(self) -> list[str]:
        """Return the names of all visible topics."""
        names, self._names = self._names, None
        return self._source.names() if names is None else names

    def configs(self, names: Sequence[str]) -> TopicResponses[Configs]:
        """Return configs, prefetched ones if there are any."""
        # Only once: a second reading is meant to see what has changed since.
        prefetched, self._configs = self._configs, TopicResponses()
        requested = set(names)
        responses: TopicResponses[Configs] = TopicResponses(
            {name: configs for name, configs in prefetched.found.items() if name in requested},
            {name: error for name, error in prefetched.denied.items() if name in requested},
        )
        if remaining := [
            name for name in names if name not in responses.found and name not in responses.denied
        ]:
            responses.update(self._source.configs(remaining))
        return responses

    def descriptions(self, names: Sequence[str]) -> TopicResponses[Description]:
        """Return descriptions, which are never prefetched."""
        return self._source.descriptions(names)
