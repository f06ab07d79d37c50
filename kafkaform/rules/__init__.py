"""Rules over manifests, plans and clusters; importing this fills the catalogue."""

from kafkaform.rules import topic as topic  # registers its rules
from kafkaform.rules.catalogue import RULES, Rule, Scene, check
from kafkaform.rules.notes import NOTES, Note

__all__ = ["NOTES", "RULES", "Note", "Rule", "Scene", "check", "entries"]


def entries() -> dict[str, Rule | Note]:
    """Everything that has a code, by code."""
    known: dict[str, Rule | Note] = {**RULES, **NOTES}
    return {code: known[code] for code in sorted(known)}
