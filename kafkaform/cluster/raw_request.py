"""A request of our own bytes on kafka-python's connection, which has done TLS, SASL and versions for it.

kafka-python does the same for its raw SASL exchange: a request brings the class that reads its response.
"""

from __future__ import annotations

from struct import pack
from typing import BinaryIO


class RawRequest:
    """A request whose body is bytes, and whose response is too.

    Args:
        api_key: Which request of Kafka's protocol.
        version: Its version.
        body: Its body.
        flexible: Whether this version has headers with tagged fields (KIP-482).
    """

    def __init__(self, api_key: int, version: int, body: bytes, *, flexible: bool) -> None:
        self.API_KEY = api_key
        self.API_VERSION = version
        self.header: RawResponse | None = None
        self._body = body
        self._flexible = flexible
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
