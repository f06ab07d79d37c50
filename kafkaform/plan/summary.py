"""The summary of a plan: counts and one sentence, the same for every format."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kafkaform.core.lazy_dataclass import dataclass
from kafkaform.core.model import Status
from kafkaform.core.plans import ChangeOrigin
from kafkaform.core.printable import printable
from kafkaform.core.wording import counted, listed
from kafkaform.resources.replicas.copying import TOGETHER
from kafkaform.resources.replicas.facts import PLACEMENT
from kafkaform.resources.values import action_of, fields_of, is_deferred

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaform.core.plans import Plan


_NAMED = 8
"""The most teams and groups that are named."""


@dataclass(frozen=True, slots=True)
class Summary:
    """Counts of resources, except `undeclared`, which counts configs.

    Attributes:
        create: The creations that an apply carries out, or would with consent.
        update: The updates that it carries out, or would with consent.
        delete: The deletions that it carries out, or would with consent.
        needs_consent: The number of these changes that need consent.
        refused: Changes that no apply carries out; they are not among those above.
        deferred: Changes with at least one field that is shown but not applied yet.
    """

    create: int
    update: int
    delete: int
    unchanged: int
    refused: int
    needs_consent: int
    unmanaged: int
    undeclared: int
    unknown: int
    deferred: int


def summarise(plan: Plan) -> Summary:
    """Count the resources of a plan."""
    actions = [action_of(c.change) for c in plan.changes if c.status is not Status.REFUSED]
    return Summary(
        create=actions.count("create"),
        update=actions.count("update"),
        delete=actions.count("delete"),
        unchanged=plan.unchanged,
        refused=len(plan.select_by_status(Status.REFUSED)),
        needs_consent=len(plan.select_by_status(Status.NEEDS_CONSENT)),
        unmanaged=len(plan.unmanaged),
        undeclared=len(plan.undeclared),
        unknown=len(plan.unknown),
        deferred=sum(map(is_deferred, plan.changes)),
    )


def summary_sentence(plan: Plan, words: Callable[[str], str] = printable) -> str:
    """Return the last line of a report: what an apply would do, and what prevents it.

    "No changes" means that nothing at all is open.

    Args:
        plan: The plan; one from a file may contain any text.
        words: Formats a sentence of the plan.
    """
    s = summarise(plan)
    unchanged = f"{s.unchanged:,} unchanged"
    opened = _list_open_ends(plan, s)
    if not plan.changes:
        if opened:
            return f"Nothing to apply: {', '.join([unchanged, *opened])}."
        # A rebalance has no declared resources that could be unchanged.
        if not s.unchanged:
            return "No changes."
        return f"No changes: {counted(s.unchanged, 'declared resource')}, all as declared."
    parts = [
        f"{number:,} to {action}"
        for action, number in (("create", s.create), ("update", s.update), ("delete", s.delete))
        if number
    ] or ["nothing to apply"]
    if s.needs_consent:
        parts[-1] += f" ({word_consent_count(s.needs_consent)})"
    if s.refused:
        parts.append(f"{s.refused:,} refused")
    also = f" Also {', '.join(opened)}." if opened else ""
    foreign = sum(c.origin in {ChangeOrigin.DRIFT, ChangeOrigin.MIXED} for c in plan.changes)
    if foreign:
        verb = "is" if foreign == 1 else "are"
        also += f" {foreign:,} of them {verb} not caused, or only partly caused, by this branch."
    also += "".join(f" {words(finding.message)}." for finding in plan.diagnostics if finding.code == TOGETHER)
    return f"Plan: {', '.join([*parts, unchanged])}.{also} {_describe_validation(plan)}"


def _describe_validation(plan: Plan) -> str:
    if plan.broker_validated:
        return "Validated by the brokers."
    if all(field.path == PLACEMENT for change in plan.changes for field in fields_of(change.change)):
        return "Brokers cannot validate replica moves."
    return "Not validated by the brokers."


def _list_open_ends(plan: Plan, s: Summary) -> list[str]:
    ends = []
    if s.deferred:
        ends.append(f"{counted(s.deferred, 'change')} not yet applied in full")
    if s.undeclared:
        ends.append(counted(s.undeclared, "undeclared config"))
    if s.unknown:
        ends.append(f"{counted(s.unknown, 'resource')} not visible")
    if plan.errors:
        ends.append(counted(len(plan.errors), "error"))
    return ends


def word_consent_count(number: int) -> str:
    """Word how many changes need consent: `1 needs consent`, `2 need consent`."""
    return f"{number:,} need{'s' if number == 1 else ''} consent"


def count_held_back(plan: Plan) -> list[str]:
    """Word the number of changes that are refused, and that need consent, if there are any."""
    s = summarise(plan)
    held = []
    if s.refused:
        held.append(f"{s.refused:,} refused")
    if s.needs_consent:
        held.append(word_consent_count(s.needs_consent))
    return held


def headline(plan: Plan) -> str:
    """Return the verdict in a few words, for readers who read nothing else."""
    s = summarise(plan)
    held = count_held_back(plan)
    if plan.open_errors:
        held.append(counted(len(plan.open_errors), "error"))
    planned = len(plan.select_by_status(Status.PLANNED))
    if plan.changes or plan.open_errors:
        return ", ".join([*held, f"{counted(planned, 'change')} to apply" if planned else "nothing to apply"])
    return "nothing to apply, but see below" if _list_open_ends(plan, s) else "no changes"


def describe_audience(plan: Plan, word: Callable[[str], str] = str) -> str:
    """Name the owners and readers of changes: `owned by checkout; read by shipping (fulfilment), and 3 more`.

    Empty if no manifest names a team, and no declared group reads what changes.

    Args:
        plan: The plan.
        word: Formats a name.
    """
    counts = Counter(change.team for change in plan.changes)
    teams = sorted(filter(None, counts))
    owners = [
        word(team) + (f" ({counted(counts[team], 'change')})" if len(counts) > 1 else "") for team in teams
    ]
    if teams and counts[""]:
        owners.append(f"no team ({counted(counts[''], 'change')})")
    readers = [
        word(reader.ref.name) + (f" ({word(reader.team)})" if reader.team else "") for reader in plan.readers
    ]
    parts = (("owned by", owners), ("read by", readers))
    return "; ".join(f"{verb} {listed(names, _NAMED)}" for verb, names in parts if names)
