"""The catalogue of rules: what the field has learnt the hard way, as checks.

A rule is a pure function from a `Scene` to findings; its docstring is its documentation: the first line
says what is wrong, the rest why it matters and what to do.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from kafkaform.model import Desired, Diagnostic, Facts, ResourceRef, Severity


@dataclass(frozen=True, slots=True)
class Scene:
    """What rules look at.

    Attributes:
        desired: The declared resources.
        facts: What is known of the cluster; None offline.
        inventory: Every resource that the account can see; empty offline.
    """

    desired: tuple[Desired, ...]
    facts: Facts | None = None
    inventory: frozenset[ResourceRef] = frozenset()


@dataclass(frozen=True, slots=True)
class Finding:
    """Where a rule tripped; `severity` where it is not the rule's own."""

    desired: Desired
    message: str
    suggestion: str | None = None
    severity: Severity | None = None


Check: TypeAlias = Callable[[Scene], Iterable[Finding]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of the catalogue."""

    code: str
    severity: Severity
    check: Check = field(compare=False)

    @property
    def summary(self) -> str:
        """One line: what is wrong."""
        return self.explanation.splitlines()[0]

    @property
    def explanation(self) -> str:
        """What is wrong, why it matters, and what to do."""
        return inspect.getdoc(self.check) or ""


RULES: dict[str, Rule] = {}


def rule(code: str, severity: Severity) -> Callable[[Check], Check]:
    """Add the decorated function to the catalogue; raises ValueError where the code is taken."""

    def register(check: Check) -> Check:
        if code in RULES:
            raise ValueError(f"{code} is taken by {RULES[code].check}")
        RULES[code] = Rule(code, severity, check)
        return check

    return register


def check(scene: Scene, severities: Mapping[str, str]) -> Iterator[tuple[ResourceRef, Diagnostic]]:
    """Run every rule over a scene.

    Args:
        scene: What to look at.
        severities: The project's own severities by code; `off` switches a rule off.
    """
    for entry in RULES.values():
        chosen = severities.get(entry.code)
        if chosen == "off":
            continue
        for finding in entry.check(scene):
            severity = Severity(chosen) if chosen else finding.severity or entry.severity
            yield (
                finding.desired.ref,
                Diagnostic(
                    entry.code, severity, finding.message, finding.desired.location, finding.suggestion
                ),
            )
