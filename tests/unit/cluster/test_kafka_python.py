"""Requests that are the controller's, in a cluster where brokers do not pass them on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from kafkaform.cluster.transport.kafka_python import ask_controller
from kafkaform.core.errors import RequestRejected

NOT_CONTROLLER = 41


@dataclass
class Answer:
    error_code: int = 0
    error_message: str | None = None
    controller_id: int = 2


class Brokers:
    """Brokers of which number 2 is the controller, and others refuse what is its own; asked by turns.

    Args:
        controllers: How many do think that they are the controller.
    """

    def __init__(self, controllers: int = 1) -> None:
        self.asked: list[tuple[str, int | None]] = []
        self._controllers = controllers

    def run(self, ask: Callable[[Any], Awaitable[Any]], timeout_s: float) -> Any:
        assert timeout_s == 9  # three requests

        async def running() -> Any:
            return await ask(self)

        return asyncio.run(running())

    async def send(self, request: Any, node_id: int | None = None, request_timeout_ms: int = 0) -> Answer:
        assert request_timeout_ms == 3000
        name = request if isinstance(request, str) else type(request).__name__
        self.asked.append((name, node_id))
        if isinstance(request, str) and not (node_id == 2 and self._controllers):
            return Answer(NOT_CONTROLLER)
        return Answer()


def test_the_controller_itself_is_asked_where_brokers_pass_nothing_on() -> None:
    brokers = Brokers()
    answer = ask_controller(brokers, lambda: "alter", 3)
    assert answer == Answer()
    assert brokers.asked == [("alter", None), ("MetadataRequest", None), ("alter", 2)]


def test_a_controller_that_is_none_any_more_is_an_error() -> None:
    with pytest.raises(RequestRejected) as caught:
        ask_controller(Brokers(controllers=0), lambda: "alter", 3)
    assert caught.value.code == "NOT_CONTROLLER"
