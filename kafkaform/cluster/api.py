"""Requests of our own bytes, and who carries them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkaform.errors import ClusterError

CONNECT_TIMEOUT_S = 8.0
"""How long the first answer may take; an unreachable cluster is reported within 10 s."""
READ_TIMEOUT_S = 30.0
"""How long one reading request may take once the cluster has answered."""
IN_FLIGHT = 4
"""How many requests wait for an answer at a time on one connection; kafka-python takes five at most."""


class Api(NamedTuple):
    """A request of Kafka's protocol, in one version.

    Attributes:
        key: Which request.
        version: In which version.
        flexible: Whether this version has headers with tagged fields (KIP-482).
    """

    key: int
    version: int
    flexible: bool


def is_known(api: Api, versions: Mapping[int, tuple[int, int]]) -> bool:
    """Whether brokers that told the versions of their requests know one."""
    least, most = versions.get(api.key, (0, -1))
    return least <= api.version <= most


class Carrier(Protocol):
    """A way to the brokers. What fails is raised as a ClusterError; everything asked only reads."""

    def versions(self) -> Mapping[int, tuple[int, int]]:
        """The lowest and the highest version of each request that the brokers know."""

    def ask(
        self,
        api: Api,
        bodies: Sequence[bytes],
        node: int | None = None,
        timeout_s: float = READ_TIMEOUT_S,
    ) -> list[bytes]:
        """The bodies of the answers to some requests, in order; None asks any broker.

        One that does not answer within `timeout_s` is an OutcomeUnknown.
        """

    def ask_each(self, api: Api, body: bytes, timeout_s: float) -> dict[int, bytes | ClusterError]:
        """What each live broker answers to one request, all asked at a time, or why it does not."""

    def close(self) -> None:
        """Close what was opened."""
