"""Where a plan is from, as its file says, and how old, and of which version, what was saved may be."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from kafkaform import __version__
from kafkaform.core.printable import clipped
from kafkaform.core.wording import aged

if TYPE_CHECKING:
    from kafkaform.core.errors import KafkaformError
    from kafkaform.plan.plan_signature import Signature, SignedFor


ADDRESSES = 120
"""The most characters of a file's name, or of the addresses of brokers, in a header."""


@dataclass(frozen=True, slots=True)
class PlanHeader:
    """What a saved plan says about its making.

    Attributes:
        tool_version: The version of kafkaform.
        commit: The Git commit of the manifests, where known; with `-dirty` behind it, where they differ from
            that commit.
        cluster_name: The cluster's name in the configuration, where it has one.
        environment: The environment whose overrides were merged.
        created_at: RFC 3339 in UTC, such as `2025-06-01T12:00:00Z`.
        signature: Its signature, not verified; None where it has none.
        signed_for: What it is signed for, or is to be; None where nobody signs it, or did not say what for.
        configuration: The path of the configuration file, or NO_CONFIG_FILE; None where it does not say.
        servers: The addresses of brokers that were used; None where it does not say.
        digest: The digest of the plan's content, once its file was found to match it; None of a new plan.
    """

    tool_version: str
    commit: str | None
    cluster_name: str | None
    environment: str | None
    created_at: str
    signature: Signature | None = None
    signed_for: SignedFor | None = None
    configuration: str | None = None
    servers: str | None = None
    digest: str | None = field(default=None, compare=False)


def provenance(header: PlanHeader | None) -> dict[str, str]:
    """What a report was made with, beside the cluster's name and the environment: words, and what they name.

    Empty where the header does not say. An address that stands for the cluster's name is not repeated.
    """
    said = {
        "configuration": header.configuration if header else None,
        "brokers": header.servers if header and header.servers != header.cluster_name else None,
    }
    return {word: value for word, value in said.items() if value is not None}


CLOCKS_DIFFER = timedelta(minutes=5)
"""How far in the future something may have been made: by a machine whose clock is ahead."""


def require_fresh(
    what: str,
    created_at: str,
    max_age: timedelta | None,
    now: datetime,
    *,
    where: str,
    again: str,
    error: type[KafkaformError],
) -> None:
    """Refuse what is older than it may be, or from the future.

    Args:
        what: What it is, as in "the plan".
        created_at: When it was made, by its own word (RFC 3339).
        max_age: How old it may be; None: any age.
        now: The time, with its zone.
        where: The file, fit for a terminal.
        again: How a new one is made.
        error: What to raise.
    """
    try:
        created = datetime.fromisoformat(created_at)
    except ValueError as unreadable:
        raise error(
            f"{where}: the age of {what} is not known: there is no such time as {clipped(created_at, 40)}",
            hint=again,
        ) from unreadable
    if created - now > CLOCKS_DIFFER:
        raise error(
            f"{where}: {what} has a creation time in the future: {created_at}",
            hint="correct the clock of this machine, or of the one that created it",
        )
    if max_age is not None and now - created > max_age:
        raise error(
            f"{where}: {what} is {aged(now - created)} old; the maximum age is {aged(max_age)}",
            hint=f"{again}, or allow it with --max-age",
        )


_VERSION = re.compile(r"(\d{1,9})\.(\d{1,9})(?:[.+-].*|(?:a|b|rc)\d+.*)?", re.ASCII)


def is_compatible(version: str, with_: str = __version__) -> bool:
    """Whether two versions understand plans alike: the same major one, and before 1.0 the same minor one."""
    one, other = _VERSION.fullmatch(version), _VERSION.fullmatch(with_)
    if one is None or other is None:
        return version == with_
    (major, minor), (major2, minor2) = one.groups(), other.groups()
    return int(major) == int(major2) and (int(major) > 0 or int(minor) == int(minor2))
