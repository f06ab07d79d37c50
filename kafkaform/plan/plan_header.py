"""The header of a saved plan, and the checks of its age and version."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from kafkaform import __version__
from kafkaform.core.printable import clipped
from kafkaform.core.wording import format_age

if TYPE_CHECKING:
    from kafkaform.core.errors import KafkaformError
    from kafkaform.plan.plan_signature import Signature, SignedFor


ADDRESSES = 120
"""The most characters of a file name or of broker addresses in a header."""

CLOCKS_DIFFER = timedelta(minutes=5)
"""The tolerance for creation times in the future, by a machine whose clock is ahead."""
_VERSION = re.compile(r"(\d{1,9})\.(\d{1,9})(?:[.+-].*|(?:a|b|rc)\d+.*)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class PlanHeader:
    """The header of a saved plan: when, where and by which version it was made.

    Attributes:
        tool_version: The version of kafkaform.
        commit: The Git commit of the manifests, if known, with the suffix `-dirty` if they differ from it.
        cluster_name: The cluster's name in the configuration, if it has one.
        environment: The environment whose overrides were merged.
        created_at: RFC 3339 in UTC, such as `2025-06-01T12:00:00Z`.
        signature: The signature, not verified; None if there is none.
        signed_for: The purpose of the signature; None if there is none.
        configuration: The path of the configuration file, or NO_CONFIG_FILE; None if not recorded.
        servers: The bootstrap addresses that were used; None if not recorded.
        digest: The digest of the plan's content, once its file was found to match it; None in a new plan.
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
    """Return the configuration and the brokers that a report was made with, by label.

    What the header does not record is left out, and so are addresses that are the cluster's name.
    """
    facts = {
        "configuration": header.configuration if header else None,
        "brokers": header.servers if header and header.servers != header.cluster_name else None,
    }
    return {label: value for label, value in facts.items() if value is not None}


def describe_environment(name: str | None) -> str:
    """Return the words for an environment, or for none."""
    return "no environment" if name is None else f"environment {clipped(name, 200)}"


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
    """Raise an error if a document is too old, or from the future.

    Args:
        what: The document, as in "the plan".
        created_at: Its recorded creation time (RFC 3339).
        max_age: The maximum age; None: any age.
        now: The time, with its zone.
        where: The file, printable.
        again: The hint how to create a new one.
        error: The class of the error.
    """
    try:
        created = datetime.fromisoformat(created_at)
    except ValueError as unreadable:
        raise error(
            f"{where}: the age of {what} is not known: invalid creation time {clipped(created_at, 40)}",
            hint=again,
        ) from unreadable
    if created - now > CLOCKS_DIFFER:
        raise error(
            f"{where}: {what} has a creation time in the future: {created_at}",
            hint="correct the clock of this machine, or of the one that created it",
        )
    if max_age is not None and now - created > max_age:
        raise error(
            f"{where}: {what} is {format_age(now - created)} old; the maximum age is {format_age(max_age)}",
            hint=f"{again}, or allow it with --max-age",
        )


def is_compatible(version: str, with_: str = __version__) -> bool:
    """Return whether two versions are compatible: same major, and before 1.0 same minor version."""
    # Semantic versioning: before 1.0, any minor version may change what a plan means.
    first, second = _VERSION.fullmatch(version), _VERSION.fullmatch(with_)
    if first is None or second is None:
        return version == with_
    (major, minor), (major2, minor2) = first.groups(), second.groups()
    return int(major) == int(major2) and (int(major) > 0 or int(minor) == int(minor2))
