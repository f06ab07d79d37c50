"""The plain parts of the lock: who holds it, in words, and waiting for it."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaform.core.errors import LockHeld
from kafkaform.core.lock import REMIND_S, RETRY_S, Holder, acquire_lock, format_holder, parse_holder
from tests.support.plans.scenes import FakeClock

NOW = datetime(2026, 11, 21, 23, 1, 47, tzinfo=UTC)
ALICE = Holder("alice@ci-3", "apply plan sha256:12ab", 4711, NOW - timedelta(seconds=40))
SILENT = Holder("client kafkaform-lock-7 at 10.0.0.7")


@pytest.mark.parametrize(
    ("holder", "text"),
    [
        (ALICE, "alice@ci-3 (apply plan sha256:12ab, process 4711) since 23:01:07 UTC, 40s"),
        (Holder("bob", since=NOW - timedelta(days=2)), "bob since 2026-11-19 23:01:47 UTC, 2d"),
        (Holder("bob", process=5, since=NOW), "bob (process 5) since 23:01:47 UTC, 0s"),
        (SILENT, "client kafkaform-lock-7 at 10.0.0.7"),
        (Holder("bob", since=NOW + timedelta(seconds=5)), "bob since 23:01:52 UTC, 0s"),
        (Holder("bob", since=NOW.astimezone(timezone(timedelta(hours=5)))), "bob since 23:01:47 UTC, 0s"),
    ],
)
def test_lock_holder_is_described_briefly(holder: Holder, text: str) -> None:
    assert holder.describe(NOW) == text


# --- introductions ---------------------------------------------------------------------------------


@given(
    st.text(min_size=1, max_size=75),
    st.text(max_size=75),
    st.none() | st.integers(1, 2**31),
    st.none() | st.datetimes(timezones=st.just(UTC)).map(lambda at: at.replace(microsecond=0)),
)
def test_lock_holder_round_trips(who: str, purpose: str, process: int | None, since: datetime | None) -> None:
    holder = Holder(who, purpose, process, since)
    assert parse_holder(format_holder(holder, "m1"), "m1") == holder


def test_lock_introduction_is_json_for_own_mark() -> None:
    assert parse_holder(format_holder(ALICE, "m1"), "m2") is None
    # An introduction is plain json.
    assert json.loads(format_holder(ALICE, "m1")) == {
        "mark": "m1",
        "who": "alice@ci-3",
        "purpose": "apply plan sha256:12ab",
        "process": 4711,
        "since": "2026-11-21T23:01:07+00:00",
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        "who since",
        '{"mark": "m"}',
        '{"mark": "m", "who": "a", "since": "yesterday"}',
        '{"mark": "m", "who": "a", "since": 5}',
        '{"who": "a"}',
        "[" * 100_000,
    ],
)
def test_invalid_lock_introduction_is_ignored(text: str) -> None:
    assert parse_holder(text, "m") is None


@pytest.mark.parametrize("letter", ["a", "\N{GRINNING FACE}", "\x01", '"', "\udc80"])
def test_lock_introduction_fits_offset_metadata(letter: str) -> None:
    """`offset.metadata.max.bytes` is 4096 by default, and some letters take several bytes, or an escape."""
    text = format_holder(Holder(letter * 5_000, letter * 5_000, 2**31, NOW), "m" * 12)
    assert len(text.encode()) <= 4_096
    assert parse_holder(text, "m" * 12) is not None


# --- waiting ---------------------------------------------------------------------------------------


class Contention:
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

    def acquire(self, timeout_s: float) -> str:
        def tell(line: str) -> None:
            self.said.append((self.waited, line))

        return acquire_lock(
            self.attempt,
            self.occupant,
            timeout_s=timeout_s,
            tell=tell,
            now=lambda: self.time.time,
            sleep=self.time.sleep,
        )


def test_waiting_lock_repeats_holder() -> None:
    scene = Contention(40)
    assert scene.acquire(90) == "mine"
    assert [at for at, _ in scene.said] == [0, REMIND_S, 2 * REMIND_S]
    for _, line in scene.said:
        assert line.startswith("the lock of the cluster is held by alice@ci-3 (apply plan sha256:12ab, proc")
        assert line.endswith("; waiting up to 90s")
    assert max(scene.time.naps) == RETRY_S


def test_lock_waiting_ends_at_timeout() -> None:
    assert Contention(10).acquire(10) == "mine"
    scene = Contention(60)
    with pytest.raises(LockHeld) as caught:
        scene.acquire(10.2)
    assert scene.waited == pytest.approx(10.2)
    assert caught.value.message.startswith("the lock of the cluster is held by alice@ci-3")
    assert caught.value.message.endswith("; waited 10s")
    assert caught.value.hint is not None
    for word in ("--lock-timeout", "45 s", "--no-lock"):
        assert word in caught.value.hint


def test_zero_timeout_tries_once() -> None:
    scene = Contention(1)
    with pytest.raises(LockHeld) as caught:
        scene.acquire(0)
    assert (scene.attempts, scene.said, scene.time.naps) == (1, [], [])
    assert "waited" not in caught.value.message
