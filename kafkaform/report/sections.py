"""The parts that several reports have: context, findings, and resources not visible or not managed."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kafkaform.core.model import Diagnostic, ResourceRef, Severity
from kafkaform.core.wording import MAX_LISTED
from kafkaform.plan.plan_header import ADDRESSES, PlanHeader, provenance
from kafkaform.report.document import (
    Inline,
    Item,
    Paragraph,
    Role,
    Section,
    TextSpan,
    count_left_out,
    list_codes,
    name_cluster,
)
from kafkaform.report.findings import WAITS, FurtherFindings

if TYPE_CHECKING:
    from collections.abc import Sequence

Finding: TypeAlias = "Diagnostic | FurtherFindings | str"
"""A finding, further ones of its rule, or a sentence on others."""

SYMBOLS = {
    "create": TextSpan("+", Role.VERY_GOOD),
    "update": TextSpan("~", Role.VERY_WARNING),
    "delete": TextSpan("-", Role.VERY_BAD),
    "recreate": TextSpan("-/+", Role.VERY_BAD),
}
SEVERITY_ROLES = {Severity.ERROR: Role.BAD, Severity.WARNING: Role.WARNING, Severity.INFO: Role.MUTED}
# The notes on the right that validation needs, on what principals may do, and on what waits: readers decide
# by them, so they are not only counted. Without a right, the last line of a plan says all.
_DECISIVE = frozenset({"KF414", "KF431"}) | WAITS


def describe_context(header: PlanHeader | None, cluster_id: str) -> tuple[list[Inline], list[Inline]]:
    """Return the cluster and environment of a report, and what it was made with."""
    context: list[Inline] = [name_cluster(header.cluster_name if header else None, cluster_id)]
    if header and header.environment:
        # 80 characters, as for the cluster: both are in one line with the title.
        context.append(["environment ", TextSpan(header.environment, Role.CODE, 80)])
    made_with = provenance(header).items()
    return context, [[f"{word} ", TextSpan(value, Role.CODE, ADDRESSES)] for word, value in made_with]


def name_resource(ref: ResourceRef) -> Item:
    """Return a resource as an item."""
    return Item(TextSpan(str(ref), Role.CODE))


def list_unknown(refs: Sequence[ResourceRef], see: str, *, share: float = 0.3) -> Section[ResourceRef]:
    """Return the section of declared resources that are not visible to the account, or not yet."""
    return Section(
        refs,
        name_resource,
        count_left_out("resource", see),
        title=TextSpan("Not visible", Role.VERY_WARNING),
        subtitle="they may or may not exist; not changed",
        # Not more than a part of the room: an account without rights would otherwise fill a comment with
        # names, and leave no room for the changes that it can see.
        share=share,
    )


def list_unmanaged(refs: Sequence[ResourceRef], see: str, *, most: int) -> Section[ResourceRef]:
    """Return the section of resources that no manifest declares; a terminal gets a few of them."""
    return Section(
        refs,
        name_resource,
        count_left_out("resource", see),
        title="Not managed by any manifest",
        # A cluster that is not yet managed has thousands of these. Markdown folds them; a terminal, which
        # cannot fold, gets a few.
        most=most,
        few=MAX_LISTED,
        folded=True,
        joined=True,
    )


def list_findings(findings: Sequence[Finding], see: str, *, title: str = "Findings") -> Section[Finding]:
    """Return the section of findings."""
    return Section(findings, describe_finding, count_left_out("finding", see), title=title, share=0.3)


def list_notes(notes: Sequence[Diagnostic], see: str) -> Section[Diagnostic]:
    """Return the section of notes, which a terminal only counts."""
    # A terminal only counts them: notes need no decision, and would push the changes off the screen.
    return Section(
        notes, describe_finding, count_left_out("note", see), title="Notes", share=0.5, few=0, folded=True
    )


def is_noted(finding: Diagnostic) -> bool:
    """Return whether a finding is a note that few need to read."""
    is_decisive = finding.code in _DECISIVE and (finding.code != "KF414" or finding.suggestion is not None)
    return finding.severity is Severity.INFO and not is_decisive and finding.waived is None


def describe_finding(finding: Finding) -> Item:
    """Return a finding with what to do about it, or why it is waived."""
    if isinstance(finding, str):
        return Item(finding)
    role = SEVERITY_ROLES[finding.severity]
    if isinstance(finding, FurtherFindings):
        names = list_codes(map(str, finding.refs[:MAX_LISTED]), 120)
        text: list[str | TextSpan] = [f"{len(finding.findings):,} more", ": " if names else "", *names]
        text += [", …" if len(finding.refs) > MAX_LISTED else "", " (--verbose lists them)"]
        return Item(TextSpan(f"{finding.severity.value} {finding.code}", role), text)
    head = [TextSpan(f"{'waived' if finding.waived else finding.severity.value} {finding.code}", role)]
    if finding.location:
        head += [TextSpan("  "), TextSpan(str(finding.location), Role.PLACE)]
    notes = []
    # A waived finding needs no advice; the reason for the waiver is what a reviewer has to judge.
    if finding.waived:
        notes.append(Paragraph(TextSpan(finding.waived, Role.MUTED), "because"))
    elif finding.suggestion:
        notes.append(Paragraph(TextSpan(finding.suggestion, Role.MUTED), "hint"))
    return Item(head, finding.message, notes=notes, gap=": " if finding.location else "  ")
