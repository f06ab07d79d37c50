"""Rules over manifests, plans and clusters; importing this fills the catalogue."""

from kafkaform.core.model import Severity
from kafkaform.rules import (
    acknowledged_writes,
    changes,
    group,
    group_clients,
    group_topics,
    health_brokers,
    health_declared,
    health_leaders,
    health_partitions,
    skew,
    skew_increase,
    topic_names,
    topic_partitions,
    topic_replicas,
    topic_retention,
    topic_settings,
)
from kafkaform.rules.catalogue import RULES, Finding, Rule, Scene, Stage, check, rule
from kafkaform.rules.notes import NOTES, Note

__all__ = [
    "NOTES",
    "RULES",
    "Finding",
    "Note",
    "Rule",
    "Scene",
    "Severity",
    "Stage",
    "check",
    "entries",
    "rule",
]

_REGISTERED = (
    topic_names,
    topic_partitions,
    topic_replicas,
    topic_retention,
    topic_settings,
    group,
    group_clients,
    group_topics,
    health_brokers,
    health_partitions,
    health_declared,
    health_leaders,
    changes,
    acknowledged_writes,
    skew,
    skew_increase,
)


def entries() -> dict[str, Rule | Note]:
    """Everything that has a code, by code."""
    known: dict[str, Rule | Note] = {**RULES, **NOTES}
    return {code: known[code] for code in sorted(known)}
