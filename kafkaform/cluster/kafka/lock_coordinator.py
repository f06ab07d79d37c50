"""Requests to the coordinator of the lock's group, found again when it moves."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkaform.cluster.kafka.coordinators import check_offsets_topic
from kafkaform.cluster.transport.translation import one_line
from kafkaform.cluster.wire.error_codes import ErrorCode, describe_code
from kafkaform.cluster.wire.group_messages import DESCRIBE_CLASSIC, FIND_COORDINATOR, OFFSET_FETCH
from kafkaform.core.errors import (
    AuthenticationFailed,
    ClusterError,
    MalformedResponse,
    NotOffered,
    OutcomeUnknown,
    RequestRejected,
    Unreachable,
)
from kafkaform.core.lock import NAME

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkaform.cluster.transport.brokers import Brokers
    from kafkaform.cluster.wire.message_schema import RequestType

JOIN_TIMEOUT_S = 30.0
"""The time that the coordinator may take to accept or refuse a join."""
# A ninth of the session (45 s): a heartbeat whose response is lost can be sent again in time.
RESPONSE_TIMEOUT_S = 5.0
"""The time that one response may take before the coordinator is looked up again."""
PAUSE_S = 0.1
"""The time between two attempts."""

# A retry would not change these. All other errors are of the network, or of a coordinator that has moved.
_FINAL = (AuthenticationFailed, MalformedResponse, NotOffered, RequestRejected)
TIMEOUT_CODES = frozenset({ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NETWORK_EXCEPTION})
"""The codes that stand for a missing response."""
RETRIABLE_CODES = TIMEOUT_CODES | {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    # The coordinator refuses a commit for a topic that its broker does not know yet, as just after the
    # creation.
    ErrorCode.UNKNOWN_TOPIC_OR_PART,
}
"""The codes after which a request is sent again: they say nothing about the membership."""


class Failure(NamedTuple):
    """An error code and its message."""

    code: int
    text: str

    @classmethod
    def from_code(cls, code: int) -> Failure:
        """Return the failure for a code without a message."""
        return cls(code, describe_code(code))


def get_error_code(response: Mapping[str, Any]) -> int:
    """Return the error code of a response, or of its only partition or group."""
    if not response.get("error_code"):
        if "topics" in response:
            response = response["topics"][0]["partitions"][0]
        elif "groups" in response:
            response = response["groups"][0]
    code: int = response["error_code"]
    return code


class Coordinator:
    """The coordinator of the lock's group.

    Args:
        brokers: Separate connections: other requests may take longer than a session.
    """

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._node: int | None = None
        self.failure = ""

    def send(self, request_type: RequestType[Any], request: Mapping[str, Any], timeout_s: float) -> Any:
        """Return the response; a missing one has an error code of `TIMEOUT_CODES`."""
        node = self._node
        try:
            if node is None:
                (coordinator,) = self._brokers.send(
                    FIND_COORDINATOR, [{"key": NAME, "key_type": 0}], timeout_s=timeout_s
                )
                if coordinator["error_code"]:
                    if coordinator["error_code"] == ErrorCode.COORDINATOR_NOT_AVAILABLE:
                        check_offsets_topic(self._brokers)
                    return coordinator
                node = self._node = coordinator["node_id"]
            (response,) = self._brokers.send(request_type, [request], node, timeout_s)
        except _FINAL:
            raise
        except ClusterError as error:
            # Nothing can be sent on a broken connection. Either way, the coordinator is looked up again.
            self._node = None
            self.failure = error.message
            late = isinstance(error, OutcomeUnknown)
            return {"error_code": ErrorCode.REQUEST_TIMED_OUT if late else ErrorCode.NETWORK_EXCEPTION}
        if get_error_code(response) in RETRIABLE_CODES:
            self._node = None
        return response

    def retry_until_ready(self, request_type: RequestType[Any], request: Mapping[str, Any]) -> Any:
        """Return the response; asks again while the coordinator is not ready, for JOIN_TIMEOUT_S."""
        deadline = time.monotonic() + JOIN_TIMEOUT_S
        while (
            get_error_code(response := self.send(request_type, request, RESPONSE_TIMEOUT_S))
            in RETRIABLE_CODES
        ):
            if time.monotonic() > deadline:
                raise make_timeout_error(self.failure)
            time.sleep(PAUSE_S)
        return response

    def read_members(self) -> Sequence[Mapping[str, Any]]:
        """Return the members of the group."""
        response = self.retry_until_ready(DESCRIBE_CLASSIC, {"groups": [NAME]})
        members: Sequence[Mapping[str, Any]] = (
            response["groups"][0]["members"] if "groups" in response else ()
        )
        return members

    def read_introduction(self) -> str:
        """Return the introduction that the last holder committed; empty if there is none."""
        topics = [{"name": NAME, "partitions": [0]}]
        response = self.retry_until_ready(OFFSET_FETCH, {"group_id": NAME, "topics": topics})
        if get_error_code(response):
            return ""
        text: str = response["topics"][0]["partitions"][0]["metadata"] or ""
        return text

    def close(self) -> None:
        """Close the connections to the coordinator."""
        self._brokers.close()


def make_timeout_error(why: str) -> Unreachable:
    """Return the error for a coordinator that neither accepts nor refuses a join."""
    detail = f": {one_line(why)}" if why else ""
    return Unreachable(
        f"the coordinator of group {NAME} did not answer within {JOIN_TIMEOUT_S:.0f} s{detail}"
    )
