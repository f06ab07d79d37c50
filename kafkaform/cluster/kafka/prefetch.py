"""Prefetching: reading what a plan asks a cluster while its manifests are still being read."""

from __future__ import annotations

from concurrent.futures import Future
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING

from kafkaform.cluster.kafka.answers import Answers
from kafkaform.cluster.kafka.facts import read_facts
from kafkaform.cluster.kafka.topic_sources import WireReader
from kafkaform.cluster.kafka.topics import topic_source
from kafkaform.cluster.transport.brokers import settle
from kafkaform.resources.topic import is_topic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkaform.cluster.kafka.answers import Configs, Description, TopicSource
    from kafkaform.cluster.transport.connection import Connection
    from kafkaform.core.model import Facts, ResourceRef


BATCH = 200
"""The topics that the thread is given at a time: each time it wakes up, the other one waits."""


class Prefetch:
    """Two threads that connect and read: one the facts, one all topics' names and expected topics' configs.

    Most of that is waiting: for connections, TLS and distant brokers, and for brokers to describe thousands
    of topics. What goes wrong is raised to whoever takes the result, so that wrong manifests are told first,
    and need no cluster.

    Args:
        connection: The cluster's.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._facts: Future[Facts] = Future()
        self._source: Future[TopicSource] = Future()
        self._next: list[str] = []
        self._expected: SimpleQueue[Sequence[str] | None] = SimpleQueue()
        # A daemon: a cluster that does not answer must not keep an interrupted process alive.
        # Two, as each has a client of its own to log in with.
        for name, work in (("facts", self._read_facts), ("topics", self._read_topics)):
            Thread(target=work, name=f"kafkaform-prefetch-{name}", daemon=True).start()

    def expect(self, ref: ResourceRef) -> None:
        """Take a resource that will be asked for."""
        if not is_topic(ref):
            return
        self._next.append(ref.name)
        if len(self._next) >= BATCH:
            self._expected.put(self._next)
            self._next = []

    def facts(self) -> Facts:
        """The facts; raises what `read_facts` does."""
        return self._facts.result()

    def source(self) -> TopicSource:
        """Return a source of topics that has what was prefetched; raises what reading either raised."""
        self.facts()
        self._expected.put(self._next)
        self.end()
        return self._source.result()

    def end(self) -> None:
        """Let the thread come to its end: nothing more is expected."""
        self._expected.put(None)

    def _read_facts(self) -> None:
        settle(self._facts, lambda: read_facts(self._connection))

    def _read_topics(self) -> None:
        settle(self._source, self._topics)

    def _topics(self) -> TopicSource:
        # librdkafka, which `topic_source` waits for, says whether anybody is there: `facts` does so.
        swift = WireReader.usable(self._connection)
        source = WireReader(self._connection) if swift else topic_source(self._connection)
        names = source.names()
        known = frozenset(names)
        configs: Answers[Configs] = Answers()
        while (expected := self._all_expected()) is not None:
            # Of a topic that is not there, or that this account cannot see, more has to be found out.
            if asked := [name for name in expected if name in known]:
                configs.update(source.configs(asked))
        return Prefetched(source, names, configs)

    def _all_expected(self) -> Sequence[str] | None:
        """The names given since the last time, at least one of them; None at the end."""
        batch = self._expected.get()
        if batch is None:
            return None
        names = [*batch]
        while not self._expected.empty():
            if (more := self._expected.get()) is None:
                self._expected.put(None)
                break
            names += more
        return names


class Prefetched:
    """A source that gives what was prefetched, once: whoever asks again wants to know what is so now.

    Args:
        source: Who is asked for the rest.
        names: All topics.
        configs: The configs of some.
    """

    def __init__(self, source: TopicSource, names: list[str], configs: Answers[Configs]) -> None:
        self._source = source
        self._names: list[str] | None = names
        self._configs = configs

    def names(self) -> list[str]:
        """See `TopicSource.names`."""
        names, self._names = self._names, None
        return self._source.names() if names is None else names

    def configs(self, names: Sequence[str]) -> Answers[Configs]:
        """See `TopicSource.configs`."""
        prefetched, self._configs = self._configs, Answers()
        asked = set(names)
        answers: Answers[Configs] = Answers(
            {name: found for name, found in prefetched.found.items() if name in asked},
            {name: error for name, error in prefetched.denied.items() if name in asked},
        )
        if rest := [name for name in names if name not in answers.found and name not in answers.denied]:
            answers.update(self._source.configs(rest))
        return answers

    def descriptions(self, names: Sequence[str]) -> Answers[Description]:
        """See `TopicSource.descriptions`."""
        return self._source.descriptions(names)
