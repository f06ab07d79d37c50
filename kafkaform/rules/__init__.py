"""Rules over manifests, plans and clusters; importing this module fills the catalogue."""

from kafkaform.core.model import Severity
from kafkaform.rules import (
    access,
    changes,
    group,
    group_clients,
    group_topics,
    health,
    health_declared,
    skew,
    subjects,
    succession,
    topic_partitions,
    topic_replicas,
    topic_retention,
    topic_settings,
)
from kafkaform.rules.catalogue import RULES, Finding, Rule, RuleContext, Stage, check, rule
from kafkaform.rules.notes import NOTES, Note

__all__ = [
    "NOTES",
    "RULES",
    "Finding",
    "Note",
    "Rule",
    "RuleContext",
    "Severity",
    "Stage",
    "check",
    "entries",
    "rule",
]

# Importing a module registers its rules; the tuple keeps linters from removing the imports.
_REGISTERED = (
    topic_settings,
    topic_partitions,
    topic_replicas,
    topic_retention,
    group,
    group_clients,
    group_topics,
    health,
    health_declared,
    changes,
    skew,
    access,
    subjects,
    succession,
)


def list_entries() -> dict[str, Rule | Note]:
    """Return all rules and notes by code."""
    known: dict[str, Rule | Note] = {**RULES, **NOTES}
    return {code: known[code] for code in sorted(known)}
