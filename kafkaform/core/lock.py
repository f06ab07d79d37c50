"""The lock that prevents two applies on a cluster at the same time: its holder, and waiting for it.

The lock itself is on the cluster (`Cluster.lock`); a real cluster and the one in memory share this module.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from kafkaform.core.apply_result import RETRY_HINT
from kafkaform.core.errors import LockHeld, LockLost
from kafkaform.core.units import format_duration
from kafkaform.core.values import Value

if TYPE_CHECKING:
    from kafkaform.core.progress import Progress

# The holder proves that it holds the lock by an offset commit of the group, which needs a topic.
NAME = "__kafkaform_lock"
"""The topic and the group that are the lock of a cluster."""
# The least session of the consumer protocol by default (group.consumer.min.session.timeout.ms), which earlier
# versions of kafkaform use for the lock. The classic protocol allows 6 s to 30 minutes.
SESSION_S = 45
"""The seconds without a heartbeat after which a holder loses the lock."""

NO_LOCK_HINT = "or go without: --no-lock, or `lock: false` of the cluster in kafkaform.yaml"
"""The hint where a cluster or an account cannot use the lock."""

RETRY_S = 0.5
"""The seconds between attempts to get a lock that another process holds."""
REMIND_S = 15.0
"""The seconds between messages to the waiting user."""
# A new holder publishes its details with its first proof. Until then a waiting process has nothing to report.
_INTRODUCTION_S = 1.0

# In bytes, of `who` and of `purpose`. Brokers accept 4,096 bytes of metadata with an offset
# (offset.metadata.max.bytes).
_MAX_FIELD_BYTES = 300

T = TypeVar("T")

Guard: TypeAlias = Callable[[], None]
"""A function called right before each request that changes a cluster; it raises `LockLost` to prevent it."""


def unguarded() -> None:
    """Allow every request: the guard of an apply without a lock."""


class Holder(Value):
    """An apply that holds the lock, or waits for it.

    Attributes:
        who: The user and the machine: `alice@ci-3`.
        purpose: The purpose: `apply plan sha256:12ab…`.
        process: The id of its process; None if unknown.
        since: The time when it got the lock; None before that, or if unknown.
    """

    who: str
    purpose: str = ""
    process: int | None = None
    since: datetime | None = None

    def describe(self, now: datetime) -> str:
        """Return the holder, its purpose and the time since when it has the lock, in a few words."""
        details = [self.purpose] if self.purpose else []
        if self.process is not None:
            details.append(f"process {self.process}")
        text = self.who + (f" ({', '.join(details)})" if details else "")
        if self.since is None:
            return text
        since = self.since.astimezone(UTC)
        is_today = since.date() == now.astimezone(UTC).date()
        time_format = "%H:%M:%S UTC" if is_today else "%Y-%m-%d %H:%M:%S UTC"
        seconds = max(0, int((now - since).total_seconds()))
        return f"{text} since {since.strftime(time_format)}, {_format_seconds(seconds)}"


def format_holder(holder: Holder, mark: str) -> str:
    """Return the JSON that a holder publishes on the cluster for those who wait.

    Args:
        mark: The unique id of this hold of the lock.
    """
    since = holder.since.isoformat(timespec="seconds") if holder.since else None
    return json.dumps(
        {
            "mark": mark,
            "who": _clip_bytes(holder.who),
            "purpose": _clip_bytes(holder.purpose),
            "process": holder.process,
            "since": since,
        },
        ensure_ascii=False,
    )


def parse_holder(text: str, mark: str) -> Holder | None:
    """Parse what a holder published; None if it cannot be read, or is of another hold of the lock."""
    try:
        data: Any = json.loads(text)
        # The members and the offset are read by two requests, and the lock may change hands in between: the
        # mark links both answers to one hold.
        if not isinstance(data, dict) or data.get("mark") != mark:
            return None
        since = datetime.fromisoformat(data["since"]) if data.get("since") else None
        process = data.get("process")
        return Holder(
            _clip_bytes(str(data["who"])),
            _clip_bytes(str(data.get("purpose") or "")),
            process if isinstance(process, int) else None,
            since.astimezone(UTC) if since else None,
        )
    # Anybody who may commit offsets of the group can write this text: an unreadable one counts as no details.
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None


def lock_lost_error(why: str) -> LockLost:
    """Return the error that a guard raises."""
    return LockLost(
        f"this apply lost the lock of the cluster: {why}",
        hint=f"once no other apply is running, {RETRY_HINT}",
    )


def acquire_lock(
    attempt: Callable[[], T | None],
    occupant: Callable[[], Holder],
    *,
    timeout_s: float,
    tell: Progress,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> T:
    """Wait for the lock, and report its holder every REMIND_S seconds.

    Args:
        attempt: Tries once; returns None if another process holds the lock.
        occupant: Returns the holder; without `since`, its details are not known yet.
        timeout_s: The seconds to wait; 0 tries once.
        tell: Prints a line for the waiting user.
        now: The clock, for tests.
        sleep: For tests.

    Raises:
        LockHeld: The lock was not released in time.
    """
    start = now()
    reminded: float | None = None
    while (held := attempt()) is None:
        holder, waited = occupant(), now() - start
        # The limit is checked after an attempt, so that even a timeout of 0 tries once.
        if waited >= timeout_s:
            raise _lock_held_error(holder, waited)
        known = holder.since is not None or waited >= _INTRODUCTION_S
        if known and (reminded is None or waited - reminded >= REMIND_S):
            reminded = waited
            text, limit = holder.describe(datetime.now(UTC)), _format_seconds(int(timeout_s))
            tell(f"the lock of the cluster is held by {text}; waiting up to {limit}")
        # Not beyond the limit, so that the last attempt is at its end.
        sleep(min(RETRY_S, timeout_s - waited))
    return held


def _lock_held_error(holder: Holder, waited: float) -> LockHeld:
    after = f"; waited {_format_seconds(int(waited))}" if waited >= 1 else ""
    return LockHeld(
        f"the lock of the cluster is held by {holder.describe(datetime.now(UTC))}{after}",
        hint="let it finish, or wait longer with --lock-timeout; the lock of a killed apply is free after "
        f"{SESSION_S} s; --no-lock applies without the lock, if no other apply can be running",
    )


def _clip_bytes(text: str) -> str:
    return text.encode(errors="replace")[:_MAX_FIELD_BYTES].decode(errors="ignore")


def _format_seconds(seconds: int) -> str:
    return format_duration(seconds * 1000) if seconds else "0s"
