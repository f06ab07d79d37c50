"""Properties that are worked out once for each object."""

from __future__ import annotations

import time
from threading import Barrier, Event, Thread

import pytest

from kafkaform.cluster.transport.connection import locked_property


class Worker:
    def __init__(self) -> None:
        self.begun = Event()
        self.allowed = Event()
        self.times = 0

    @locked_property
    def slow(self) -> int:
        """What takes its time."""
        self.begun.set()
        assert self.allowed.wait(60)
        self.times += 1
        return self.times

    @locked_property
    def below(self) -> str:
        return f"{self.slow} below"

    @locked_property
    def quick(self) -> str:
        return "quick"

    @locked_property
    def failing(self) -> int:
        self.times += 1
        raise ValueError(self.times)


def test_threads_share_one_result() -> None:
    worker, together, seen = Worker(), Barrier(8), []

    def read() -> None:
        together.wait(60)
        seen.append(worker.below)

    threads = [Thread(target=read, daemon=True) for _ in range(8)]
    for thread in threads:
        thread.start()
    assert worker.begun.wait(60)
    time.sleep(0.05)
    worker.allowed.set()
    for thread in threads:
        thread.join(60)
    assert seen == ["1 below"] * 8
    assert (worker.slow, Worker.slow.__doc__) == (1, "What takes its time.")


def test_one_object_does_not_wait_for_another() -> None:
    first, second = Worker(), Worker()
    thread = Thread(target=lambda: first.slow, daemon=True)
    thread.start()
    assert first.begun.wait(60)
    second.allowed.set()
    assert second.slow == 1
    assert first.times == 0
    first.allowed.set()
    thread.join(60)


def test_one_property_does_not_wait_for_another() -> None:
    """A plan logs in on two clients at a time."""
    worker = Worker()
    thread = Thread(target=lambda: worker.slow, daemon=True)
    thread.start()
    assert worker.begun.wait(60)
    assert worker.quick == "quick"
    assert worker.times == 0
    worker.allowed.set()
    thread.join(60)


def test_what_fails_is_tried_again() -> None:
    worker = Worker()
    for number in (1, 2):
        with pytest.raises(ValueError, match=str(number)):
            _ = worker.failing
