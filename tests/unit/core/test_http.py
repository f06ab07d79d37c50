"""The deadline of a request as a whole, and the thread that makes it."""

from threading import Event, Thread, current_thread

import pytest

from kafkaform.core.http import call_within


def test_slow_call_times_out() -> None:
    end = Event()
    with pytest.raises(TimeoutError):
        call_within(0.05, end.wait)
    assert call_within(5, lambda: "next") == "next"
    end.set()
    with pytest.raises(ValueError, match="invalid"):
        call_within(5, lambda: int("invalid"))


def test_worker_thread_lives_as_long_as_caller() -> None:
    threads: list[Thread] = []
    caller = Thread(target=lambda: threads.extend(call_within(5, current_thread) for _ in range(2)))
    caller.start()
    caller.join(5)
    first, second = threads
    assert first is second is not call_within(5, current_thread)
    first.join(5)
    assert not first.is_alive()
