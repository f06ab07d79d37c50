"""Requests of our own bytes on kafka-python's connection, which has done TLS, SASL and versions for them.

kafka-python does the same for its raw SASL exchange: a request brings the class that reads its response.
"""

from __future__ import annotations

from collections import deque
from struct import pack
from typing import TYPE_CHECKING, Any, BinaryIO

from kafkaform.cluster.transport.api import IN_FLIGHT, READ_TIMEOUT_S, Api, malformed, read_answers
from kafkaform.cluster.transport.controlled import sent, sent_to_each
from kafkaform.core.errors import ClusterError, MalformedAnswer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkaform.cluster.transport.api import Question, T
    from kafkaform.cluster.transport.controlled import Run


class LentConnection:
    """See `Transport`.

    kafka-python holds the deadline of a request for its answer as a whole, and takes no answer of more than
    100 MB (receive.message.max.bytes), for which it makes room when it is told the length.

    Args:
        run: Runs a coroutine made from kafka-python's manager of connections; see `Connection.run`.
        servers: What to call a broker that kafka-python chooses.
    """

    def __init__(self, run: Run, servers: str) -> None:
        self._run = run
        self._servers = servers

    def versions(self) -> Mapping[int, tuple[int, int]]:
        """See `Transport.versions`."""

        async def told(manager: Any) -> Mapping[int, tuple[int, int]]:
            versions: Mapping[int, tuple[int, int]] = manager.broker_version_data.api_versions
            return versions

        versions: Mapping[int, tuple[int, int]] = self._run(told, READ_TIMEOUT_S)
        return versions

    def ask(
        self,
        question: Question[T],
        bodies: Sequence[bytes],
        node: int | None = None,
        timeout_s: float = READ_TIMEOUT_S,
    ) -> list[T]:
        """See `Transport.ask`."""

        async def send(manager: Any) -> list[RawResponse]:
            answers, waiting = [], deque[Any]()
            for body in bodies:
                if len(waiting) == IN_FLIGHT:
                    answers.append(await waiting.popleft())
                waiting.append(sent(manager, RawRequest(question.api, body), timeout_s, node))
            return [*answers, *[await future for future in waiting]]

        answers = self._run(send, timeout_s * len(bodies))
        return self._read(question, answers, self._servers if node is None else f"broker {node}")

    def ask_each(self, question: Question[T], body: bytes, timeout_s: float) -> dict[int, T | ClusterError]:
        """See `Transport.ask_each`."""
        answers = self._run(
            lambda manager: sent_to_each(manager, lambda _: RawRequest(question.api, body), timeout_s),
            2 * timeout_s,
        )
        told: dict[int, T | ClusterError] = {}
        for node, answer in answers.items():
            if isinstance(answer, ClusterError):
                told[node] = answer
                continue
            try:
                (told[node],) = self._read(question, [answer], f"broker {node}")
            except MalformedAnswer as error:
                told[node] = error
        return told

    def _read(self, question: Question[T], answers: Sequence[RawResponse], broker: str) -> list[T]:
        for answer in answers:
            if len(answer.body) > question.api.largest:
                raise malformed(broker, question.api, f"{len(answer.body):,} bytes")
        return read_answers(question, [answer.body for answer in answers], broker)

    def close(self) -> None:
        """See `Transport.close`; who lends the connection closes it."""


class RawRequest:
    """A request whose body is bytes, and whose response is too.

    Args:
        api: Which request.
        body: Its body.
    """

    def __init__(self, api: Api, body: bytes) -> None:
        self.api = api
        self.API_KEY = api.key
        self.API_VERSION = api.version
        self.header: RawResponse | None = None
        self._body = body
        self._flexible = api.flexible
        self._prefix = b""

    def with_header(self, correlation_id: int = 0, client_id: str = "") -> None:
        """Take the number and the name that the connection gives."""
        name = client_id.encode()
        tags = b"\x00" if self._flexible else b""
        self._prefix = pack(">hhih", self.API_KEY, self.API_VERSION, correlation_id, len(name)) + name + tags
        self.header = RawResponse(correlation_id, flexible=self._flexible)

    def encode(self, *, framed: bool = True, header: bool = True) -> bytes:  # noqa: ARG002
        """The bytes to send."""
        message = self._prefix + self._body
        return pack(">i", len(message)) + message

    @property
    def size(self) -> int:
        """The bytes that are sent."""
        return 4 + len(self._prefix) + len(self._body)

    def expect_response(self) -> bool:
        """Every request here is answered."""
        return True


class RawResponse:
    """The response to a `RawRequest`: its body as bytes."""

    error_code = 0
    API_VERSION = 0

    def __init__(self, correlation_id: int, *, flexible: bool) -> None:
        self.correlation_id = correlation_id
        self.body = b""
        self._flexible = flexible

    def get_response_class(self) -> RawResponse:
        """What reads the response: this."""
        return self

    def parse_header(self, stream: BinaryIO) -> RawResponse:
        """Take the header off."""
        self.correlation_id = int.from_bytes(stream.read(4))
        if self._flexible:
            stream.read(1)  # no tagged fields are defined for response headers
        return self

    @property
    def size(self) -> int:
        """The bytes that came."""
        return 8 + self._flexible + len(self.body)

    def decode(self, stream: BinaryIO) -> RawResponse:
        """Take the rest as it is."""
        self.body = stream.read()
        return self
