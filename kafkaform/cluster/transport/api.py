"""Requests of our own bytes, and who carries them."""

from __future__ import annotations

from dataclasses import dataclass
from struct import error as StructError  # noqa: N812 - it is called plain "error"
from typing import (
    TYPE_CHECKING,
    Generic,
    NamedTuple,
    Protocol,
    TypeVar,
)

from kafkaform.core.errors import MalformedAnswer

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Iterable,
        Mapping,
        Sequence,
    )

    from kafkaform.core.errors import ClusterError


T = TypeVar("T")

CONNECT_TIMEOUT_S = 8.0
"""The time that the first answer may take; an unreachable cluster is reported within 10 s."""
READ_TIMEOUT_S = 30.0
"""The time that one reading request may take once the cluster has answered."""
IN_FLIGHT = 4
"""The requests that wait for an answer at a time on one connection; kafka-python takes five at most."""
LARGEST = 64 << 20
"""The bytes that an answer may have: 2,000 topics of 30 configs each, or 50,000 groups, take a twentieth."""


class Api(NamedTuple):
    """A request of Kafka's protocol, in one version.

    Attributes:
        key: Which request.
        version: In which version.
        flexible: Whether this version has headers with tagged fields (KIP-482).
        name: Kafka's name of the request.
        largest: How many bytes the answer may have; one that claims more is not read.
    """

    key: int
    version: int
    flexible: bool
    name: str = ""
    largest: int = LARGEST

    def __str__(self) -> str:
        return f"{self.name or f'request {self.key}'} v{self.version}"


@dataclass(frozen=True, slots=True)
class RequestType(Generic[T]):
    """A request of Kafka's protocol that this package writes, and whose answer it reads.

    Attributes:
        api: Which request.
        read: Reads the body of an answer; raises ValueError, IndexError or struct.error if it is malformed.
    """

    api: Api
    read: Callable[[bytes], T]


def read_answers(request_type: RequestType[T], bodies: Iterable[bytes], broker: str) -> list[T]:
    """Read the bodies of answers of a broker; raises MalformedAnswer, which names it and the request."""
    try:
        return [request_type.read(body) for body in bodies]
    except (ValueError, IndexError, StructError) as error:
        raise malformed(broker, request_type.api, str(error)) from error


def malformed(broker: str, api: Api, why: str) -> MalformedAnswer:
    """The error for an answer that is not what Kafka's protocol says."""
    return MalformedAnswer(
        f"{broker}: malformed answer to {api}: {why}",
        hint="check that the address is a Kafka broker's, and that no proxy modifies its responses",
    )


def is_known(api: Api, versions: Mapping[int, tuple[int, int]]) -> bool:
    """Return whether brokers that told the versions of their requests know one."""
    least, most = versions.get(api.key, (0, -1))
    return least <= api.version <= most


class Transport(Protocol):
    """A way to the brokers. What fails is raised as a ClusterError; everything asked only reads."""

    def versions(self) -> Mapping[int, tuple[int, int]]:
        """The lowest and the highest version of each request that the brokers know."""

    def ask(
        self,
        request_type: RequestType[T],
        bodies: Sequence[bytes],
        node: int | None = None,
        timeout_s: float = READ_TIMEOUT_S,
    ) -> list[T]:
        """The answers to some requests, in order; None asks any broker.

        One that has not answered in full within `timeout_s` is an OutcomeUnknown.
        """

    def ask_each(
        self, request_type: RequestType[T], body: bytes, timeout_s: float
    ) -> dict[int, T | ClusterError]:
        """Ask all live brokers the same at a time; returns what each answers, or why it does not."""

    def close(self) -> None:
        """Close what was opened."""
