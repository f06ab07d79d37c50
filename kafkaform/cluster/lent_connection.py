"""Requests of our own bytes on kafka-python's connection, which has done TLS, SASL and versions for them.

kafka-python does the same for its raw SASL exchange: a request brings the class that reads its response.
"""

from __future__ import annotations

from collections import deque
from struct import pack
from typing import TYPE_CHECKING, Any, BinaryIO

from kafkaform.cluster.api import IN_FLIGHT, READ_TIMEOUT_S, Api
from kafkaform.cluster.controlled import sent_to_each
from kafkaform.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence


class LentConnection:
    """See `Carrier`.

    Args:
        run: Runs a coroutine made from kafka-python's manager of connections; see `Connection.run`.
    """

    def __init__(self, run: Callable[[Callable[[Any], Awaitable[Any]]], Any]) -> None:
        self._run = run

    def versions(self) -> Mapping[int, tuple[int, int]]:
        """See `Carrier.versions`."""

        async def told(manager: Any) -> Mapping[int, tuple[int, int]]:
            versions: Mapping[int, tuple[int, int]] = manager.broker_version_data.api_versions
            return versions

        versions: Mapping[int, tuple[int, int]] = self._run(told)
        return versions

    def ask(
        self,
        api: Api,
        bodies: Sequence[bytes],
        node: int | None = None,
        timeout_s: float = READ_TIMEOUT_S,
    ) -> list[bytes]:
        """See `Carrier.ask`."""
        timeout_ms = int(timeout_s * 1000)

        async def send(manager: Any) -> list[bytes]:
            answers, waiting = [], deque[Any]()
            for body in bodies:
                if len(waiting) == IN_FLIGHT:
                    answers.append((await waiting.popleft()).body)
                request = RawRequest(api, body)
                waiting.append(manager.send(request, node_id=node, request_timeout_ms=timeout_ms))
            return [*answers, *[(await future).body for future in waiting]]

        answers: list[bytes] = self._run(send)
        return answers

    def ask_each(self, api: Api, body: bytes, timeout_s: float) -> dict[int, bytes | ClusterError]:
        """See `Carrier.ask_each`."""
        answers = self._run(lambda manager: sent_to_each(manager, lambda _: RawRequest(api, body), timeout_s))
        return {
            node: answer if isinstance(answer, ClusterError) else answer.body
            for node, answer in answers.items()
        }

    def close(self) -> None:
        """See `Carrier.close`; who lends the connection closes it."""


class RawRequest:
    """A request whose body is bytes, and whose response is too.

    Args:
        api: Which request.
        body: Its body.
    """

    def __init__(self, api: Api, body: bytes) -> None:
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

    def decode(self, stream: BinaryIO) -> RawResponse:
        """Take the rest as it is."""
        self.body = stream.read()
        return self
