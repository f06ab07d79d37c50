"""The fields of a Subject, and the compatibility levels of a schema registry."""

from __future__ import annotations

SCHEMA, COMPATIBILITY, STATE = "schema", "compatibility", "state"
DELETED, PURGED = "deleted", "purged"
"""The states of a subject whose versions the registry keeps after their deletion, and does not."""
NONE = "NONE"
ALL_VERSIONS = "all versions"
GUARANTEES: dict[str, frozenset[str]] = {
    NONE: frozenset(),
    "BACKWARD": frozenset({"backward"}),
    "FORWARD": frozenset({"forward"}),
    "FULL": frozenset({"backward", "forward"}),
    "BACKWARD_TRANSITIVE": frozenset({"backward", ALL_VERSIONS}),
    "FORWARD_TRANSITIVE": frozenset({"forward", ALL_VERSIONS}),
    "FULL_TRANSITIVE": frozenset({"backward", "forward", ALL_VERSIONS}),
}
"""What each level guarantees, for the previous version or all versions.

Consumers of the new schema read earlier records (backward), those of the previous one new records (forward).
"""
CONSUMERS_FIRST, PRODUCERS_FIRST = "consumers", "producers"


def find_first_to_upgrade(level: str | None) -> str | None:
    """Return who has to use a new schema first at a level; None if any order is safe, or unknown."""
    guarantees = GUARANTEES.get(level or "", frozenset()) - {ALL_VERSIONS}
    if guarantees == {"backward"}:
        return CONSUMERS_FIRST
    return PRODUCERS_FIRST if guarantees == {"forward"} else None


def find_topic(subject: str) -> str | None:
    """Return the topic whose keys or values a subject describes (TopicNameStrategy); None for other names."""
    for ending in ("-value", "-key"):
        if subject.endswith(ending) and subject != ending:
            return subject.removesuffix(ending)
    return None
