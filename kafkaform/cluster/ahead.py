"""Reading ahead: what every plan asks a cluster first, while its manifests are still being read."""

from __future__ import annotations

from concurrent.futures import Future
from threading import Thread
from typing import TYPE_CHECKING, TypeVar

from kafkaform.cluster.facts import read_facts
from kafkaform.cluster.reader import topic_source

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaform.cluster.connection import Connection
    from kafkaform.cluster.topic_answers import TopicSource
    from kafkaform.model import Facts

T = TypeVar("T")


class Ahead:
    """A thread that connects both clients, and reads the facts and the topics' names.

    Two thirds of that is waiting, 0.15 s and more with TLS or a distant cluster. What goes wrong is raised
    to whoever takes the result, so that wrong manifests are told first, and need no cluster.

    Args:
        connection: The cluster's.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._facts: Future[Facts] = Future()
        self._source: Future[TopicSource] = Future()
        # A daemon: a cluster that does not answer must not keep an interrupted process alive.
        Thread(target=self._read, name="kafkaform-ahead", daemon=True).start()

    def facts(self) -> Facts:
        """The facts; raises what `read_facts` does."""
        return self._facts.result()

    def source(self) -> TopicSource:
        """Who to ask about topics, with their names at hand; raises what `topic_source` does."""
        return self._source.result()

    def _read(self) -> None:
        if _settle(self._facts, lambda: read_facts(self._connection)):
            _settle(self._source, self._prepared)
        else:
            self._source.set_exception(self._facts.exception())

    def _prepared(self) -> TopicSource:
        source = topic_source(self._connection)
        source.prepare()
        return source


def _settle(future: Future[T], read: Callable[[], T]) -> bool:
    """Keep what a reading gives, or what it raises; returns whether it was read."""
    try:
        future.set_result(read())
    except BaseException as error:  # noqa: BLE001 - raised again where the result is taken
        future.set_exception(error)
        return False
    return True
