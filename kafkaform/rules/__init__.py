"""Rules over manifests, plans and clusters; importing this fills the catalogue."""

from kafkaform.rules import topic as topic  # noqa: PLC0414 - registers its rules
from kafkaform.rules.catalogue import RULES, Rule, Scene, check

__all__ = ["RULES", "Rule", "Scene", "check"]
