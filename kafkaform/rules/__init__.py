"""Rules over manifests, plans and clusters; importing this fills the catalogue."""

from kafkaform.rules import changes, group, health, topic
from kafkaform.rules.catalogue import RULES, Finding, Rule, Scene, Stage, check, rule
from kafkaform.rules.notes import NOTES, Note

__all__ = ["NOTES", "RULES", "Finding", "Note", "Rule", "Scene", "Stage", "check", "entries", "rule"]

_REGISTERED = (topic, group, health, changes)


def entries() -> dict[str, Rule | Note]:
    """Everything that has a code, by code."""
    known: dict[str, Rule | Note] = {**RULES, **NOTES}
    return {code: known[code] for code in sorted(known)}
