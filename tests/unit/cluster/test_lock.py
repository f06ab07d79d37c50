"""The plain parts of the lock: who holds it, in words, and waiting for it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaform.core.errors import LockHeld
from kafkaform.core.lock import REMIND_S, RETRY_S, Holder, acquired, introduced, introduction, lost, unguarded
from tests.support.scenes import FakeClock

NOW = datetime(2026, 11, 21, 23, 1, 47, tzinfo=UTC)
ALICE = Holder("alice@ci-3", "apply plan sha256:12ab", 4711, NOW - timedelta(seconds=40))
SILENT = Holder("client kafkaform-lock-7 at 10.0.0.7")


@pytest.mark.parametrize(
    ("holder", "told"),
    [
        (ALICE, "alice@ci-3 (apply plan sha256:12ab, process 4711) since 23:01:07 UTC, 40s"),
        (Holder("bob", since=NOW - timedelta(days=2)), "bob since 2026-11-19 23:01:47 UTC, 2d"),
        (Holder("bob", process=5, since=NOW), "bob (process 5) since 23:01:47 UTC, 0s"),
        (SILENT, "client kafkaform-lock-7 at 10.0.0.7"),
    ],
)
def test_a_holder_is_told_in_a_few_words(holder: Holder, told: str) -> None:
    assert holder.told(NOW) == told


def test_a_clock_that_is_ahead_makes_no_negative_time() -> None:
    assert Holder("bob", since=NOW + timedelta(seconds=5)).told(NOW) == "bob since 23:01:52 UTC, 0s"


def test_times_are_told_in_utc_wherever_they_were_written() -> None:
    there = NOW.astimezone(timezone(timedelta(hours=5)))
    assert Holder("bob", since=there).told(there) == "bob since 23:01:47 UTC, 0s"


# --- introductions ---------------------------------------------------------------------------------


@given(
    st.text(min_size=1, max_size=75),
    st.text(max_size=75),
    st.none() | st.integers(1, 2**31),
    st.none() | st.datetimes(timezones=st.just(UTC)).map(lambda at: at.replace(microsecond=0)),
)
def test_an_introduction_is_read_as_it_was_written(
    who: str, purpose: str, process: int | None, since: datetime | None
) -> None:
    holder = Holder(who, purpose, process, since)
    assert introduced(introduction(holder, "m1"), "m1") == holder


def test_an_introduction_of_another_hold_is_none() -> None:
    assert introduced(introduction(ALICE, "m1"), "m2") is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "who since",
        "[]",
        "null",
        '{"mark": "m"}',
        '{"mark": "m", "who": "a", "since": "yesterday"}',
        '{"mark": "m", "who": "a", "since": 5}',
        '{"who": "a"}',
    ],
)
def test_what_is_no_introduction_is_none(text: str) -> None:
    assert introduced(text, "m") is None


@pytest.mark.parametrize("letter", ["a", "\N{GRINNING FACE}", "\x01", '"', "\udc80"])
def test_an_introduction_fits_into_what_a_broker_keeps(letter: str) -> None:
    """`offset.metadata.max.bytes` is 4096 by default, and some letters take several bytes, or an escape."""
    text = introduction(Holder(letter * 5_000, letter * 5_000, 2**31, NOW), "m" * 12)
    assert len(text.encode()) <= 4_096
    assert introduced(text, "m" * 12) is not None


def test_an_introduction_is_plain_json() -> None:
    assert json.loads(introduction(ALICE, "m1")) == {
        "mark": "m1",
        "who": "alice@ci-3",
        "purpose": "apply plan sha256:12ab",
        "process": 4711,
        "since": "2026-11-21T23:01:07+00:00",
    }


# --- waiting ---------------------------------------------------------------------------------------


class RuleContext:
    """A lock that is held for so long, and what is said meanwhile."""

    def __init__(self, free_after: float, occupants: Sequence[Holder] = (ALICE,)) -> None:
        self.time = FakeClock()
        self.start = self.time.time
        self.free_after = free_after
        self.occupants = occupants
        self.attempts = 0
        self.said: list[tuple[float, str]] = []

    def attempt(self) -> str | None:
        self.attempts += 1
        return "mine" if self.waited >= self.free_after else None

    def occupant(self) -> Holder:
        return self.occupants[min(self.attempts, len(self.occupants)) - 1]

    @property
    def waited(self) -> float:
        return self.time.time - self.start

    def acquired(self, timeout_s: float) -> str:
        def tell(line: str) -> None:
            self.said.append((self.waited, line))

        return acquired(
            self.attempt,
            self.occupant,
            timeout_s=timeout_s,
            tell=tell,
            now=lambda: self.time.time,
            sleep=self.time.sleep,
        )


def test_a_free_lock_is_had_at_once_and_in_silence() -> None:
    scene = RuleContext(0)
    assert (scene.acquired(90), scene.attempts, scene.said, scene.time.naps) == ("mine", 1, [], [])


def test_who_holds_it_is_said_once_and_then_every_so_often() -> None:
    scene = RuleContext(40)
    assert scene.acquired(90) == "mine"
    assert [at for at, _ in scene.said] == [0, REMIND_S, 2 * REMIND_S]
    for _, line in scene.said:
        assert line.startswith("the lock of the cluster is held by alice@ci-3 (apply plan sha256:12ab, proc")
        assert line.endswith("; waiting up to 90s")
    assert max(scene.time.naps) == RETRY_S


def test_waiting_ends_at_the_limit_and_not_before_it() -> None:
    scene = RuleContext(60)
    with pytest.raises(LockHeld) as caught:
        scene.acquired(10.2)
    assert scene.waited == pytest.approx(10.2)
    assert caught.value.message.startswith("the lock of the cluster is held by alice@ci-3")
    assert caught.value.message.endswith("; waited 10s")
    assert caught.value.hint is not None
    for word in ("--lock-timeout", "45 s", "--no-lock"):
        assert word in caught.value.hint


def test_a_lock_that_becomes_free_at_the_limit_is_had() -> None:
    assert RuleContext(10).acquired(10) == "mine"


def test_without_a_time_to_wait_it_is_tried_once() -> None:
    scene = RuleContext(1)
    with pytest.raises(LockHeld) as caught:
        scene.acquired(0)
    assert (scene.attempts, scene.said, scene.time.naps) == (1, [], [])
    assert "waited" not in caught.value.message


def test_a_holder_that_has_just_begun_may_say_first_who_it_is() -> None:
    scene = RuleContext(2, [SILENT, ALICE])
    assert scene.acquired(90) == "mine"
    assert [(at, "alice" in line) for at, line in scene.said] == [(RETRY_S, True)]


def test_a_holder_that_never_says_who_it_is_is_told_of_all_the_same() -> None:
    scene = RuleContext(2, [SILENT])
    assert scene.acquired(90) == "mine"
    assert [(at, "kafkaform-lock-7" in line) for at, line in scene.said] == [(1.0, True)]


# --- guards ----------------------------------------------------------------------------------------


def test_a_lost_lock_says_why_and_what_to_do() -> None:
    error = lost("its session ended")
    assert error.message == "this apply lost the lock of the cluster: its session ended"
    assert error.hint is not None
    assert "run the same apply again" in error.hint


def test_nothing_is_in_the_way_without_a_lock() -> None:
    unguarded()
