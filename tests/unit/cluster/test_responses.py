"""Asking coordinators until they are ready."""

from __future__ import annotations

from collections.abc import Collection

from kafkaform.cluster.kafka.responses import GroupResponses, retry_until_ready
from kafkaform.cluster.transport.translation import translate_code
from kafkaform.cluster.wire.error_codes import ErrorCode
from kafkaform.core.errors import PermissionDenied


def test_unready_coordinator_is_retried() -> None:
    """A group that is in no answer the second time does not exist: the first answer does not stand."""
    moving = translate_code(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "")
    script = [
        GroupResponses[int]({"a": 1}, {"b": moving, "c": moving, "d": PermissionDenied("no")}),
        GroupResponses[int]({"b": 2}),
    ]
    asked = []

    def send(names: Collection[str]) -> GroupResponses[int]:
        asked.append(list(names))
        return script.pop(0)

    answers = retry_until_ready(["a", "b", "c", "d"], send)
    assert asked == [["a", "b", "c", "d"], ["b", "c"]]
    assert (answers.found, list(answers.failed)) == ({"a": 1, "b": 2}, ["d"])
