"""Lists of throttled replicas are unset also if the alteration of another topic fails."""

from collections.abc import Sequence
from typing import Any, cast

import pytest

from kafkaform.cluster.kafka import throttles
from kafkaform.cluster.transport.connection import Connection
from kafkaform.cluster.wire.error_codes import ErrorCode
from kafkaform.cluster.wire.messages import AlterConfigOperation
from kafkaform.core.errors import ClusterError
from kafkaform.core.lock import unguarded
from kafkaform.resources.replicas.moves import LEADER_REPLICAS, ThrottledReplicas, Throttles


class Lagging:
    """A connection to brokers that show an entry for a while after it was removed, and refuse one topic."""

    def __init__(self, code: ErrorCode) -> None:
        self.code = code
        self.readings = 0
        self.unset: set[str] = set()

    def send(self, _: object, requests: Sequence[Any], **__: object) -> list[dict[str, Any]]:
        (request,) = requests
        changes = {item["name"]: item["configs"] for item in request["resources"]}
        self.unset |= {
            name
            for name, configs in changes.items()
            if any(change["operation"] is AlterConfigOperation.DELETE for change in configs)
        }
        codes = {name: self.code if name == "refused" else 0 for name in changes}
        return [
            {"resources": [{"name": n, "error_code": code, "error_message": ""} for n, code in codes.items()]}
        ]

    def lists(self, _: object, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        self.readings += 1
        return {name: {LEADER_REPLICAS: "0:1" if self.readings < 3 else ""} for name in topics}


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_TOPIC_OR_PART, ErrorCode.TOPIC_AUTHORIZATION_FAILED])
def test_failed_throttle_removal_does_not_stop_other_topics(
    code: ErrorCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers = Lagging(code)
    monkeypatch.setattr(throttles, "read_lists", brokers.lists)
    entries = ThrottledReplicas(frozenset({"0:1"}))
    failed = None
    try:
        throttles.clear_throttles(
            cast("Connection", brokers), Throttles(replicas={"refused": entries, "kept": entries}), unguarded
        )
    except ClusterError as error:
        failed = error
    # One that was deleted has nothing to remove.
    assert (failed is None) is (code is ErrorCode.UNKNOWN_TOPIC_OR_PART)
    assert brokers.unset == {"kept"}
