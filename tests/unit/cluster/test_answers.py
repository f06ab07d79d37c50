"""Asking coordinators until they are ready."""

from __future__ import annotations

from collections.abc import Collection

from kafkaform.cluster.kafka.answers import GroupAnswers, ask_until_ready
from kafkaform.cluster.transport.translation import translate_code
from kafkaform.cluster.wire.error_codes import ErrorCode
from kafkaform.core.errors import PermissionDenied


def test_a_coordinator_that_is_not_ready_is_asked_again() -> None:
    """A group that is in no answer the second time does not exist: the first answer does not stand."""
    moving = translate_code(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "")
    script = [
        GroupAnswers[int]({"a": 1}, {"b": moving, "c": moving, "d": PermissionDenied("no")}),
        GroupAnswers[int]({"b": 2}),
    ]
    asked = []

    def ask(names: Collection[str]) -> GroupAnswers[int]:
        asked.append(list(names))
        return script.pop(0)

    answers = ask_until_ready(["a", "b", "c", "d"], ask)
    assert asked == [["a", "b", "c", "d"], ["b", "c"]]
    assert (answers.found, list(answers.failed)) == ({"a": 1, "b": 2}, ["d"])
