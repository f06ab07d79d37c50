"""A plan in numbers and in one sentence, the same for every format."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkaform.core.model import ChangeOrigin, Status
from kafkaform.core.printable import printable
from kafkaform.core.wording import counted, listed
from kafkaform.resources.topic.copying import TOGETHER
from kafkaform.resources.topic.operations import PLACEMENT
from kafkaform.resources.values import action_of, fields_of, is_deferred

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaform.core.model import Plan


_NAMED = 8
"""How many teams and groups are named."""


@dataclass(frozen=True, slots=True)
class Summary:
    """Counts of resources, except `undeclared`, which counts configs.

    Attributes:
        create: Creates that an apply carries out, or would with consent; so `update` and `delete`.
        needs_consent: How many of those wait for consent.
        refused: Changes that no apply carries out; in none of the counts above.
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
    """Count what is in a plan."""
    actions = [action_of(c.change) for c in plan.changes if c.status is not Status.REFUSED]
    return Summary(
        create=actions.count("create"),
        update=actions.count("update"),
        delete=actions.count("delete"),
        unchanged=plan.unchanged,
        refused=len(plan.with_status(Status.REFUSED)),
        needs_consent=len(plan.with_status(Status.NEEDS_CONSENT)),
        unmanaged=len(plan.unmanaged),
        undeclared=len(plan.undeclared),
        unknown=len(plan.unknown),
        deferred=sum(map(is_deferred, plan.changes)),
    )


def summary_sentence(plan: Plan, words: Callable[[str], str] = printable) -> str:
    """The last line of a report: what an apply would do, and what stands against it.

    It says "No changes" only where nothing at all is left open.

    Args:
        plan: The plan; that of a file may say anything.
        words: How a sentence of the plan is written.
    """
    s = summarise(plan)
    unchanged = f"{s.unchanged:,} unchanged"
    opened = _open_ends(plan, s)
    if not plan.changes:
        if opened:
            return f"Nothing to apply: {', '.join([unchanged, *opened])}."
        if not s.unchanged:  # as of a rebalance, which no manifest asks for
            return "No changes."
        return f"No changes: {counted(s.unchanged, 'declared resource')}, all as declared."
    parts = [
        f"{number:,} to {action}"
        for action, number in (("create", s.create), ("update", s.update), ("delete", s.delete))
        if number
    ] or ["nothing to apply"]
    if s.needs_consent:
        parts[-1] += f" ({needing_consent(s.needs_consent)})"
    if s.refused:
        parts.append(f"{s.refused:,} refused")
    also = f" Also {', '.join(opened)}." if opened else ""
    foreign = sum(c.origin in {ChangeOrigin.DRIFT, ChangeOrigin.MIXED} for c in plan.changes)
    if foreign:
        verb = "is" if foreign == 1 else "are"
        also += f" {foreign:,} of them {verb} not caused, or only partly caused, by this branch."
    also += "".join(f" {words(found.message)}." for found in plan.diagnostics if found.code == TOGETHER)
    return f"Plan: {', '.join([*parts, unchanged])}.{also} {_validated(plan)}"


def _validated(plan: Plan) -> str:
    if plan.broker_validated:
        return "Validated by the brokers."
    if all(field.path == PLACEMENT for change in plan.changes for field in fields_of(change.change)):
        return "Brokers cannot validate replica moves."
    return "Not validated by the brokers."


def _open_ends(plan: Plan, s: Summary) -> list[str]:
    ends = []
    if s.deferred:
        ends.append(f"{counted(s.deferred, 'change')} not yet applied in full")
    if s.undeclared:
        ends.append(counted(s.undeclared, "undeclared config"))
    if s.unknown:
        ends.append(f"{counted(s.unknown, 'resource')} not visible to this account")
    if plan.errors:
        ends.append(counted(len(plan.errors), "error"))
    return ends


def needing_consent(number: int) -> str:
    """Word how many changes need consent: `1 needs consent`, `2 need consent`."""
    return f"{number:,} need{'s' if number == 1 else ''} consent"


def count_held_back(plan: Plan) -> list[str]:
    """Return how many changes are refused, and how many need consent, as far as there are any."""
    s = summarise(plan)
    held = []
    if s.refused:
        held.append(f"{s.refused:,} refused")
    if s.needs_consent:
        held.append(needing_consent(s.needs_consent))
    return held


def headline(plan: Plan) -> str:
    """The verdict in a few words: what a reader must know if they read nothing else."""
    s = summarise(plan)
    held = count_held_back(plan)
    if plan.open_errors:
        held.append(counted(len(plan.open_errors), "error"))
    due = len(plan.with_status(Status.PLANNED))
    if plan.changes or plan.open_errors:
        return ", ".join([*held, f"{counted(due, 'change')} to apply" if due else "nothing to apply"])
    return "nothing to apply, but see below" if _open_ends(plan, s) else "no changes"


def concerned(plan: Plan, word: Callable[[str], str] = str) -> str:
    """Whom the changes concern: `owned by checkout; read by shipping (fulfilment), and 3 more`.

    Empty where no manifest names a team, and no declared group reads what changes.

    Args:
        plan: The plan.
        word: How a name is written.
    """
    counts = Counter(change.team for change in plan.changes)
    named = sorted(filter(None, counts))
    owners = [
        word(team) + (f" ({counted(counts[team], 'change')})" if len(counts) > 1 else "") for team in named
    ]
    if named and counts[""]:
        owners.append(f"no team ({counted(counts[''], 'change')})")
    readers = [word(one.ref.name) + (f" ({word(one.team)})" if one.team else "") for one in plan.readers]
    parts = (("owned by", owners), ("read by", readers))
    return "; ".join(f"{verb} {listed(names, _NAMED)}" for verb, names in parts if names)
