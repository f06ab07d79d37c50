"""Findings of rules as they are reported: each once, and in a plan those of what changes before the rest."""

from __future__ import annotations

import os.path
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from kafkaform.core.model import Diagnostic, Location, Severity, assessments
from kafkaform.core.wording import counted, listed
from kafkaform.report.equal_changes import without_name
from kafkaform.rules import RULES, Stage, entries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from kafkaform.core.errors import Problem
    from kafkaform.core.model import Plan, PlannedChange, ResourceRef


@dataclass(frozen=True, slots=True)
class Reported:
    """A finding, and where it holds.

    Attributes:
        diagnostic: The finding; a problem of the input has no code, as no rule can overlook it.
        environments: The environments in which it holds; empty: in all that were looked at.
    """

    diagnostic: Diagnostic
    environments: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        """The message, with the environments."""
        where = f" (in {', '.join(self.environments)})" if self.environments else ""
        return self.diagnostic.message + where


@dataclass(frozen=True, slots=True)
class Workspace:
    """What reports for other programs take paths relative to; both paths are absolute.

    Attributes:
        root: The folder that the reader of the report knows: the checkout of a repository.
        cwd: The folder that the paths of locations start from.
    """

    root: str
    cwd: str

    def path(self, file: str) -> str:
        """The path from the root, with slashes; the absolute path of a file that is not below the root."""
        absolute = os.path.normpath(os.path.join(self.cwd, file))  # noqa: PTH118 - pure: nothing is looked up
        inside = os.path.relpath(absolute, self.root)
        outside = PurePath(inside).parts[:1] == (os.pardir,)
        return PurePath(absolute if outside else inside).as_posix()


@dataclass(frozen=True, slots=True)
class ChangedFiles:
    """The files that a branch changes, which a reviewer of it answers for.

    Attributes:
        files: Their absolute paths.
        root: The folder that the paths of locations start from.
    """

    files: frozenset[Path]
    root: Path

    def includes(self, found: Diagnostic) -> bool:
        """Return whether a finding is in one of them."""
        return found.location is not None and (self.root / found.location.file).resolve() in self.files

    def first(self, found: Iterable[Diagnostic]) -> list[Diagnostic]:
        """Put the findings in these files first; otherwise the order stays."""
        return sorted(found, key=lambda one: not self.includes(one))


def everywhere(diagnostics: Iterable[Diagnostic]) -> list[Reported]:
    """Findings that hold wherever was looked, each once."""
    return [Reported(diagnostic) for diagnostic in dict.fromkeys(diagnostics)]


def by_environment(found: Mapping[str | None, Iterable[Diagnostic]]) -> list[Reported]:
    """The findings of several environments, each once, in the order of their places.

    Args:
        found: What was found in each; with None as its only key where there are no environments.
    """
    holds: dict[Diagnostic, list[str | None]] = {}
    for environment, diagnostics in found.items():
        for diagnostic in dict.fromkeys(diagnostics):
            holds.setdefault(diagnostic, []).append(environment)
    reported = [
        Reported(diagnostic, () if len(where) == len(found) else tuple(filter(None, where)))
        for diagnostic, where in holds.items()
    ]
    return sorted(reported, key=lambda one: _place(one.diagnostic.location))


def from_problems(problems: Iterable[Problem]) -> list[Reported]:
    """Problems of the input, as findings."""
    return [
        Reported(Diagnostic("", Severity.ERROR, problem.message, problem.location, problem.hint))
        for problem in problems
    ]


def _place(location: Location | None) -> tuple[bool, str, int, int]:
    """Findings about the whole cluster come last."""
    if location is None:
        return True, "", 0, 0
    return False, location.file, location.line, location.column


# --- the findings of a plan --------------------------------------------------------------------------

_IN_FULL = 2
"""How many findings of a rule are shown in full, where there are more; one where they are alike."""


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Warnings on resources that a plan does not change.

    Attributes:
        codes: Their rules.
        count: How many there are, one for each rule and resource.
    """

    codes: tuple[str, ...]
    count: int

    @property
    def command(self) -> str:
        """The command that lists them: offline, if the manifests are all that the rules need."""
        return "kafkaform validate" if all(map(_is_offline, self.codes)) else "kafkaform plan --verbose"

    def sentence(self, code: Callable[[str], str] = str) -> str:
        """`51 warnings on unchanged resources (KF102, KF108): kafkaform validate lists them`.

        Args:
            code: How a rule and a command are written.
        """
        noun = "an unchanged resource" if self.count == 1 else "unchanged resources"
        codes = listed([*map(code, self.codes)])
        them = "it" if self.count == 1 else "them"
        return f"{counted(self.count, 'warning')} on {noun} ({codes}): {code(self.command)} lists {them}"


def _is_offline(code: str) -> bool:
    rule = RULES.get(code)
    return rule.stage is Stage.MANIFESTS if rule is not None else code not in entries()


@dataclass(frozen=True, slots=True)
class PlanFindings:
    """The findings of a plan, by what a reader of its changes has to know.

    Attributes:
        relevant: Those on resources that change, on several resources, and on the cluster; and every error.
        shown: These without the ones that a change says by itself, as its reason.
        elsewhere: The warnings on resources that do not change; None if there are none.
        notes: How many notes and waived findings there are on such resources.
        said: The rules whose findings a change says by itself, by resource.
    """

    relevant: tuple[Diagnostic, ...]
    shown: tuple[Diagnostic, ...]
    elsewhere: Elsewhere | None
    notes: int
    said: Mapping[ResourceRef, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class More:
    """Further findings of one rule, beside those that are shown in full.

    Attributes:
        code: The rule.
        severity: Its severity.
        found: The findings.
    """

    code: str
    severity: Severity
    found: tuple[Diagnostic, ...]

    @property
    def refs(self) -> tuple[ResourceRef, ...]:
        """The resources that they are on, as far as each is on one."""
        return tuple(dict.fromkeys(found.ref for found in self.found if found.ref is not None))


def abridged(found: Iterable[Diagnostic]) -> list[Diagnostic | More]:
    """Findings in their order: every error, the first few of each other rule, and how many more it has."""
    by_rule: dict[tuple[Severity, str, bool], list[Diagnostic]] = {}
    for one in found:
        by_rule.setdefault((one.severity, one.code, one.waived is not None), []).append(one)
    lines: list[Diagnostic | More] = []
    for (severity, code, waived), every in by_rule.items():
        alike = len({(_unnamed(one.message, one.ref), one.suggestion) for one in every}) == 1
        most = 1 if alike else _IN_FULL
        whole = waived or severity is Severity.ERROR or len(every) <= most + 1
        lines += every if whole else every[:most]
        if not whole:
            lines.append(More(code, severity, tuple(every[most:])))
    return lines


def _unnamed(message: str, ref: ResourceRef | None) -> str:
    return message if ref is None else without_name(message, ref.name)


def of_plan(plan: Plan) -> PlanFindings:
    """Divide the findings of a plan."""
    changes = {change.ref: change for change in plan.changes}
    reasons = {ref: frozenset(_reasons(change)) for ref, change in changes.items()}
    relevant: list[Diagnostic] = []
    said: dict[ResourceRef, list[Diagnostic]] = {}
    elsewhere: set[tuple[str, ResourceRef]] = set()
    notes = 0
    for found in dict.fromkeys(plan.diagnostics):
        ref = found.ref
        if ref is None or ref in changes or (found.severity is Severity.ERROR and found.waived is None):
            relevant.append(found)
            if ref in changes and found.waived is None and _is_said(found, changes[ref], reasons[ref]):
                said.setdefault(ref, []).append(found)
        elif found.severity is Severity.INFO or found.waived is not None:
            notes += 1
        else:
            elsewhere.add((found.code, ref))
    hidden = {found for several in said.values() for found in several}
    return PlanFindings(
        tuple(relevant),
        tuple(found for found in relevant if found not in hidden),
        Elsewhere(tuple(sorted({code for code, _ in elsewhere})), len(elsewhere)) if elsewhere else None,
        notes,
        {ref: tuple(dict.fromkeys(found.code for found in several)) for ref, several in said.items()},
    )


def refer_to_findings(planned: PlannedChange, shown: Iterable[Diagnostic]) -> PlannedChange:
    """Put the code of a finding in the place of its text, where the finding is listed beside the changes.

    Args:
        planned: A change, which may be refused by rules.
        shown: The findings that are listed in full.
    """
    if planned.reason is None:
        return planned
    for found in shown:
        quoted = f"{found.code}: {found.message}"
        if found.severity is Severity.ERROR and found.ref is None and planned.reason == quoted:
            remedy = None if planned.remedy == found.suggestion else planned.remedy
            return replace(planned, reason=f"{found.code}, see the findings", remedy=remedy)
    return planned


def _reasons(planned: PlannedChange) -> Iterator[str]:
    """The reasons that a change gives, as rules word them."""
    for assessment in assessments(planned.change):
        if assessment.reason:
            yield assessment.reason
            yield f"{planned.ref.name}: {assessment.reason}"


def _is_said(found: Diagnostic, planned: PlannedChange, reasons: frozenset[str]) -> bool:
    return found.message in reasons or f"{found.code}: {found.message}" in (planned.reason or "")
