"""One apply at a time on a cluster: who holds its lock, waiting for it, and proof that it is still held.

The lock itself is on the cluster (`Cluster.lock`); here is what the real one and the one in memory share.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from kafkaform.core.apply_result import AGAIN
from kafkaform.core.errors import LockHeld, LockLost
from kafkaform.core.units import format_duration

if TYPE_CHECKING:
    from kafkaform.core.progress import Progress

NAME = "__kafkaform_lock"
"""The topic and the group that are the lock of a cluster."""
SESSION_S = 45
"""How long a holder may be silent before the lock is free: where that is a broker's setting, its default."""

WITHOUT = "or go without: --no-lock, or `lock: false` of the cluster in kafkaform.yaml"
"""What to do where a cluster or an account cannot have the lock."""

RETRY_S = 0.5
"""How long to wait before trying again to get a lock that somebody else holds."""
REMIND_S = 15.0
"""How often to say that it is still being waited for."""
_INTRODUCTION_S = 1.0
"""How long a new holder may take to say who it is."""

_LONGEST = 300
"""How many bytes of who a holder is, and of what for, are kept: a broker takes 4,096 of all of it."""

T = TypeVar("T")

Guard: TypeAlias = Callable[[], None]
"""Called right before every request that changes a cluster; raises `LockLost` to keep it from being sent."""


def unguarded() -> None:
    """Let every request through: nobody else is known to change the cluster at the same time."""


@dataclass(frozen=True, slots=True)
class Holder:
    """An apply that holds the lock, or wants it.

    Attributes:
        who: Who is at work, and where: `alice@ci-3`.
        purpose: What for: `apply plan sha256:12ab…`.
        process: The number of its process; None if it did not say.
        since: Since when it has held the lock; None until it does.
    """

    who: str
    purpose: str = ""
    process: int | None = None
    since: datetime | None = None

    def told(self, now: datetime) -> str:
        """In a few words who this is, what for, and since when."""
        details = [self.purpose] if self.purpose else []
        if self.process is not None:
            details.append(f"process {self.process}")
        text = self.who + (f" ({', '.join(details)})" if details else "")
        if self.since is None:
            return text
        since = self.since.astimezone(UTC)
        written = "%H:%M:%S UTC" if since.date() == now.astimezone(UTC).date() else "%Y-%m-%d %H:%M:%S UTC"
        seconds = max(0, int((now - since).total_seconds()))
        return f"{text} since {since.strftime(written)}, {_seconds(seconds)}"


def introduction(holder: Holder, mark: str) -> str:
    """What a holder leaves on the cluster for whoever waits for it.

    Args:
        holder: The holder.
        mark: What tells this hold of the lock from every other.
    """
    since = holder.since.isoformat(timespec="seconds") if holder.since else None
    return json.dumps(
        {
            "mark": mark,
            "who": _clipped(holder.who),
            "purpose": _clipped(holder.purpose),
            "process": holder.process,
            "since": since,
        },
        ensure_ascii=False,
    )


def introduced(text: str, mark: str) -> Holder | None:
    """The holder that left this; None if it is of another hold of the lock, or nothing that can be read."""
    try:
        told: Any = json.loads(text)
        if not isinstance(told, dict) or told.get("mark") != mark:
            return None
        since = datetime.fromisoformat(told["since"]) if told.get("since") else None
        process = told.get("process")
        return Holder(
            _clipped(str(told["who"])),
            _clipped(str(told.get("purpose") or "")),
            process if isinstance(process, int) else None,
            since.astimezone(UTC) if since else None,
        )
    except (ValueError, TypeError, KeyError, OverflowError):
        return None


def lost(why: str) -> LockLost:
    """What a guard raises."""
    return LockLost(
        f"this apply lost the lock of the cluster: {why}",
        hint=f"once no other is at work, {AGAIN}",
    )


def acquired(
    attempt: Callable[[], T | None],
    occupant: Callable[[], Holder],
    *,
    timeout_s: float,
    tell: Progress,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> T:
    """Try to get the lock until it is there; says who holds it, and again every REMIND_S.

    Args:
        attempt: Tries once; None if somebody else holds it.
        occupant: Tells who that is; one without `since` has not said yet.
        timeout_s: How long to go on; with 0 it is tried once.
        tell: Takes a line for whoever waits.
        now: For tests.
        sleep: For tests.

    Raises:
        LockHeld: Somebody else holds it all the time.
    """
    start = now()
    reminded: float | None = None
    while (held := attempt()) is None:
        holder, waited = occupant(), now() - start
        if waited >= timeout_s:
            raise _held(holder, waited)
        known = holder.since is not None or waited >= _INTRODUCTION_S
        if known and (reminded is None or waited - reminded >= REMIND_S):
            reminded = waited
            told = holder.told(datetime.now(UTC))
            tell(f"the lock of the cluster is held by {told}; waiting up to {_seconds(int(timeout_s))}")
        sleep(min(RETRY_S, timeout_s - waited))
    return held


def _held(holder: Holder, waited: float) -> LockHeld:
    after = f"; waited {_seconds(int(waited))}" if waited >= 1 else ""
    return LockHeld(
        f"the lock of the cluster is held by {holder.told(datetime.now(UTC))}{after}",
        hint="let it finish, or wait longer with --lock-timeout; if it is dead, the lock is free "
        f"{SESSION_S} s after its death; --no-lock goes ahead without, where nothing else can be at work",
    )


def _clipped(text: str) -> str:
    return text.encode(errors="replace")[:_LONGEST].decode(errors="ignore")


def _seconds(seconds: int) -> str:
    return format_duration(seconds * 1000) if seconds else "0s"
