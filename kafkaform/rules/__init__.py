"""Rules over manifests, plans and clusters; importing this fills the catalogue."""

from kafkaform.rules import topic as topic  # noqa: PLC0414 - registers its rules
from kafkaform.rules.catalogue import RULES, Rule, Scene, check
from kafkaform.rules.notes import NOTES, Note

__all__ = ["NOTES", "RULES", "Note", "Rule", "Scene", "check", "entries"]


def entries() -> dict[str, Rule | Note]:
    """Everything that has a code, by code."""
    return dict(sorted({**RULES, **NOTES}.items()))
