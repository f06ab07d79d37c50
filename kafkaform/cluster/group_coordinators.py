"""Asking the coordinators of groups in our own bytes, on kafka-python's connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkaform.cluster import group_wire
from kafkaform.cluster.group_answers import GroupAnswers
from kafkaform.cluster.translation import one_line, translate_code
from kafkaform.core.errors import ClusterError, KafkaformError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from kafkaform.cluster.api import Question
    from kafkaform.cluster.connection import Connection


def ask_coordinators(
    connection: Connection,
    question: Question[Any],
    names: Collection[str],
    body: Callable[[Collection[str]], bytes],
    convert: Callable[[dict[str, Any], int], Any],
) -> GroupAnswers[Any]:
    """Ask each group's coordinator, in one request for each broker.

    Args:
        connection: The cluster.
        question: What to ask.
        names: The groups.
        body: Makes the body of a request for some groups.
        convert: Makes of what was told about a group, and its coordinator, what is wanted.
    """
    answers: GroupAnswers[Any] = GroupAnswers()
    try:
        if not connection.speaks(question.api):
            raise ClusterError("the brokers do not speak the version of the request that kafkaform does")
        for node, some in _coordinators(connection, names, answers).items():
            (answer,) = connection.ask(question, [body(some)], node=node)
            for told in answer["groups"]:
                if told["group_id"] not in some:
                    raise ClusterError(f"broker {node} tells of a group that it was not asked about")
                if told["error_code"]:
                    words = one_line(told.get("error_message") or "")
                    answers.failed[told["group_id"]] = translate_code(told["error_code"], words)
                else:
                    answers.found[told["group_id"]] = convert(told, node)
    except KafkaformError as error:
        failure = error if isinstance(error, ClusterError) else ClusterError(error.message, hint=error.hint)
        unanswered = set(names) - answers.found.keys() - answers.failed.keys()
        answers.failed.update(dict.fromkeys(unanswered, failure))
    return answers


def _coordinators(
    connection: Connection, names: Collection[str], answers: GroupAnswers[Any]
) -> dict[int, list[str]]:
    (answer,) = connection.ask(group_wire.FIND_COORDINATORS, [group_wire.groups_to_find(names)])
    found: dict[int, list[str]] = {}
    for told in answer["coordinators"]:
        if told["key"] not in names:
            raise ClusterError("the brokers tell the coordinator of a group that they were not asked about")
        if told["error_code"]:
            words = one_line(told["error_message"] or "")
            answers.failed[told["key"]] = translate_code(told["error_code"], words)
        else:
            found.setdefault(told["node_id"], []).append(told["key"])
    return found
