"""Findings of rules for reports: each once, and in a plan those on changes first."""

from __future__ import annotations

import os.path
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from kafkaform.core.model import Diagnostic, Location, ResourceRef, Severity, assessments
from kafkaform.core.values import Value, replace
from kafkaform.core.wording import counted, join_words, listed
from kafkaform.report.equal_changes import mask_name
from kafkaform.rules import RULES, Stage, list_entries
from kafkaform.rules.changes import HAZARDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkaform.core.errors import Problem
    from kafkaform.core.plans import Plan, PlannedChange


class ReportedFinding(Value):
    """A finding and the environments in which it holds.

    Attributes:
        diagnostic: The finding; a problem of the input has no code.
        environments: The environments; empty if it holds in all that were checked.
    """

    diagnostic: Diagnostic
    environments: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        """The message with the environments."""
        where = f" (in {', '.join(self.environments)})" if self.environments else ""
        return self.diagnostic.message + where


class Workspace(Value):
    """The folders between which paths are converted for other programs; both are absolute.

    Attributes:
        root: The folder that paths in reports are relative to: the checkout of a repository.
        cwd: The folder that paths of locations are relative to.
    """

    root: str
    cwd: str

    def path(self, file: str) -> str:
        """Return the path relative to the root, with slashes; absolute if the file is not below the root."""
        # Symbolic links are not followed: GitHub knows a file by its path in the checkout, not by that of its
        # target.
        absolute = os.path.normpath(os.path.join(self.cwd, file))  # noqa: PTH118 - pure: nothing is looked up
        inside = os.path.relpath(absolute, self.root)
        outside = PurePath(inside).parts[:1] == (os.pardir,)
        return PurePath(absolute if outside else inside).as_posix()


class ChangedFiles(Value):
    """The files that a branch changes.

    Attributes:
        files: Their absolute paths.
        root: The folder that paths of locations are relative to.
    """

    files: frozenset[Path]
    root: Path

    def includes(self, finding: Diagnostic) -> bool:
        """Return whether a finding is in one of the files."""
        # Resolved, as `files` are: a file may be given by a path through a link.
        return finding.location is not None and (self.root / finding.location.file).resolve() in self.files

    def first(self, findings: Iterable[Diagnostic]) -> list[Diagnostic]:
        """Move the findings in these files to the front; the order is otherwise kept."""
        return sorted(findings, key=lambda finding: not self.includes(finding))


def wrap_findings(diagnostics: Iterable[Diagnostic]) -> list[ReportedFinding]:
    """Convert findings that hold in every environment, each once."""
    # A dict keeps the order. Several files or environments can give the same finding.
    return [ReportedFinding(diagnostic) for diagnostic in dict.fromkeys(diagnostics)]


def merge_environments(found: Mapping[str | None, Iterable[Diagnostic]]) -> list[ReportedFinding]:
    """Merge the findings of several environments, each once, in the order of their places.

    Args:
        found: The findings of each; None is the only key if there are no environments.
    """
    environments: dict[Diagnostic, list[str | None]] = {}
    for environment, diagnostics in found.items():
        for diagnostic in dict.fromkeys(diagnostics):
            environments.setdefault(diagnostic, []).append(environment)
    reported = [
        # A finding of all environments is one of the manifest itself, so naming them would say nothing.
        ReportedFinding(diagnostic, () if len(names) == len(found) else tuple(filter(None, names)))
        for diagnostic, names in environments.items()
    ]
    return sorted(reported, key=lambda finding: _place_key(finding.diagnostic.location))


def from_problems(problems: Iterable[Problem]) -> list[ReportedFinding]:
    """Convert problems of the input to findings."""
    return [
        ReportedFinding(Diagnostic("", Severity.ERROR, problem.message, problem.location, problem.hint))
        for problem in problems
    ]


def _place_key(location: Location | None) -> tuple[bool, str, int, int]:
    """Return a sort key; findings without a location come last."""
    if location is None:
        return True, "", 0, 0
    return False, location.file, location.line, location.column


# --- the findings of a plan --------------------------------------------------------------------------

_IN_FULL = 2
"""The findings of a rule that are listed in full before the others are counted; one if they are alike."""
MANY_IN_FULL = 10
"""The same for errors, and for what a branch causes."""
WAITS = frozenset({"KF218"})
"""The rules that say why a resource is not changed yet, though it is not as declared."""


class UnchangedFindings(Value):
    """Findings on resources that a plan does not change.

    Attributes:
        warnings: The number of pairs of a rule and a resource with warnings.
        notes: The number of notes and waived findings.
    """

    codes: tuple[str, ...]
    warnings: int
    notes: int

    @property
    def command(self) -> str:
        """The command that lists them; `validate` if all rules need only the manifests."""
        return "kafkaform validate" if all(map(_is_offline, self.codes)) else "kafkaform plan --verbose"

    def sentence(self) -> str:
        """Summarise them: ``51 warnings on unchanged resources (KF102): `kafkaform validate` lists them``."""
        number = self.warnings + self.notes
        noun, them = ("an unchanged resource", "it") if number == 1 else ("unchanged resources", "them")
        pairs = (self.warnings, "warning"), (self.notes, "note")
        counts = [counted(count, word) for count, word in pairs if count]
        return f"{join_words(counts)} on {noun} ({listed(self.codes)}): `{self.command}` lists {them}"


def _is_offline(code: str) -> bool:
    rule = RULES.get(code)
    return rule.stage is Stage.MANIFESTS if rule is not None else code not in list_entries()


class PlanFindings(Value):
    """The findings of a plan, by their relevance to its changes.

    Attributes:
        relevant: All errors, what the branch causes, and findings on resources that change or wait, on
            several resources and on the cluster.
        decisive: The errors among them that no change has as its reason.
        caused: The warnings that the branch causes, and that are not about a change.
        remaining: The other relevant ones that no change has as their reason.
        unchanged: The others, on resources that do not change; None if there are none.
        stated: The rules whose findings are the reason of a change, by resource.
    """

    relevant: tuple[Diagnostic, ...]
    decisive: tuple[Diagnostic, ...]
    caused: tuple[Diagnostic, ...]
    remaining: tuple[Diagnostic, ...]
    unchanged: UnchangedFindings | None
    stated: Mapping[ResourceRef, tuple[str, ...]]


class FurtherFindings(Value):
    """Further findings of one rule, after those listed in full."""

    code: str
    severity: Severity
    findings: tuple[Diagnostic, ...]

    @property
    def refs(self) -> tuple[ResourceRef, ...]:
        """The resources of the findings that have one."""
        return tuple(dict.fromkeys(finding.ref for finding in self.findings if finding.ref is not None))


def abridge_findings(
    findings: Iterable[Diagnostic], most_in_full: int = _IN_FULL
) -> list[Diagnostic | FurtherFindings]:
    """Return the first few findings of each rule, and the number of further ones.

    Args:
        most_in_full: The findings of a rule that are listed in full; one is enough if they are alike. Of
            errors, it is MANY_IN_FULL.
    """
    by_rule: dict[tuple[Severity, str, bool], list[Diagnostic]] = {}
    for finding in findings:
        # Waived findings are apart: a reader must not take one for an open finding that is merely shortened.
        by_rule.setdefault((finding.severity, finding.code, finding.waived is not None), []).append(finding)
    lines: list[Diagnostic | FurtherFindings] = []
    for (severity, code, waived), rule_findings in by_rule.items():
        wordings = {
            (_mask_own_name(finding.message, finding.ref), finding.suggestion) for finding in rule_findings
        }
        # Alike but for the name, a second one in full says nothing new.
        most = 1 if len(wordings) == 1 else most_in_full
        most = MANY_IN_FULL if severity is Severity.ERROR else most
        # A single further finding is listed, too: a line that counts it would be no shorter.
        whole = waived or len(rule_findings) <= most + 1
        lines += rule_findings if whole else rule_findings[:most]
        if not whole:
            lines.append(FurtherFindings(code, severity, tuple(rule_findings[most:])))
    return lines


def _mask_own_name(message: str, ref: ResourceRef | None) -> str:
    return message if ref is None else mask_name(message, ref.name)


def divide_findings(plan: Plan) -> PlanFindings:
    """Divide the findings of a plan."""
    changes = {change.ref: change for change in plan.changes}
    relevant: list[Diagnostic] = []
    stated: dict[ResourceRef, list[Diagnostic]] = {}
    unchanged: set[tuple[str, ResourceRef]] = set()
    notes: list[str] = []
    for finding in dict.fromkeys(plan.diagnostics):
        ref = finding.ref
        # An error counts even on a resource that does not change: it makes the command fail, and its reason
        # must be seen.
        is_relevant = is_open_error(finding) or finding.by_branch or finding.code in WAITS
        if ref is None or ref in changes or is_relevant:
            relevant.append(finding)
            if ref in changes and finding.waived is None and _is_stated(finding, changes[ref]):
                stated.setdefault(ref, []).append(finding)
        elif finding.severity is Severity.INFO or finding.waived is not None:
            notes.append(finding.code)
        else:
            # Pairs: several findings of one rule on one resource are one warning to look at.
            unchanged.add((finding.code, ref))
    stated_findings = {finding for rule_findings in stated.values() for finding in rule_findings}
    decisive, caused, remaining = [], [], []
    for finding in relevant:
        if finding in stated_findings:
            continue
        if is_open_error(finding):
            decisive.append(finding)
        elif finding.by_branch and finding.severity is Severity.WARNING and finding.ref not in changes:
            caused.append(finding)
        else:
            remaining.append(finding)
    codes = tuple(sorted({*(code for code, _ in unchanged), *notes}))
    return PlanFindings(
        tuple(relevant),
        tuple(decisive),
        tuple(caused),
        tuple(remaining),
        UnchangedFindings(codes, len(unchanged), len(notes)) if codes else None,
        {
            ref: tuple(dict.fromkeys(finding.code for finding in rule_findings))
            for ref, rule_findings in stated.items()
        },
    )


def is_open_error(finding: Diagnostic) -> bool:
    """Return whether a finding is an error that is not waived."""
    return finding.severity is Severity.ERROR and finding.waived is None


def refer_to_findings(planned: PlannedChange, errors: Iterable[Diagnostic]) -> PlannedChange:
    """Replace a reason, or a part of it, by the code of the error that is listed in full.

    Args:
        planned: A change, possibly refused by rules.
        errors: The errors that are listed in full.
    """
    reason, remedy = planned.reason, planned.remedy
    for error in errors:
        # Only findings without a resource of their own are listed beside the changes; that of one resource
        # stands with its change alone.
        if reason is not None and error.ref is None and error.quote in reason:
            reason = reason.replace(error.quote, f"{error.code}, see the errors")
            # A remedy of the change itself stays; that of the finding is in the list of errors.
            remedies = (remedy or "").split("; ")
            remedy = "; ".join(each for each in remedies if each != error.suggestion) or None
    return planned if reason == planned.reason else replace(planned, reason=reason, remedy=remedy)


def _is_stated(finding: Diagnostic, planned: PlannedChange) -> bool:
    hazard = HAZARDS.get(finding.code)
    # By its text: a rule may have several findings on a resource, of which a reason quotes the first ones.
    return finding.quote in (planned.reason or "") or (
        hazard is not None and any(hazard == each.hazard for each in assessments(planned.change))
    )
