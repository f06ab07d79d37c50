"""The summary of a plan: counts and one sentence, the same for every format."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kafkaform.core.model import Status
from kafkaform.core.plans import ChangeOrigin, CostChange, Plan
from kafkaform.core.printable import printable
from kafkaform.core.units import rounded_size
from kafkaform.core.values import Value, asdict
from kafkaform.core.wording import counted, join_words, listed
from kafkaform.resources.replicas.copying import TOGETHER
from kafkaform.resources.replicas.facts import PLACEMENT
from kafkaform.resources.values import action_of, fields_of, is_deferred

if TYPE_CHECKING:
    from collections.abc import Callable

DROPPED = "KF424"
"""The code of a finding on a resource that a branch no longer declares."""
_NAMED = 8
"""The most teams and groups that are named."""


class Summary(Value):
    """Counts of resources, except `undeclared`, which counts configs.

    Attributes:
        create: The creations that an apply carries out, or would with consent.
        update: The updates that it carries out, or would with consent.
        delete: The deletions that it carries out, or would with consent.
        recreate: The deletions with a creation that it carries out, or would with consent.
        needs_consent: The number of these changes that need consent.
        refused: Changes that no apply carries out; they are not among those above.
        deferred: Changes with at least one field that is shown but not applied yet, refused ones included.
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
    recreate: int = 0

    def to_json(self) -> dict[str, int]:
        """Return the counts by name; `recreate`, which earlier versions do not know, only if it is not 0."""
        return {name: count for name, count in asdict(self).items() if count or name != "recreate"}


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
        deferred=sum(any(f.deferred is not None for f in fields_of(c.change)) for c in plan.changes),
        recreate=actions.count("recreate"),
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
    counts = {"create": s.create, "update": s.update, "recreate": s.recreate, "delete": s.delete}
    parts = [f"{number:,} to {action}" for action, number in counts.items() if number] or ["nothing to apply"]
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
    return f"Plan: {', '.join([*parts, unchanged])}.{also}{_describe_validation(plan, words)}"


def _describe_validation(plan: Plan, words: Callable[[str], str]) -> str:
    """Describe what the brokers validated of the changes that are not refused; empty without such changes."""
    possible = [change for change in plan.changes if change.status is not Status.REFUSED]
    if not possible:
        return ""
    if plan.broker_validated:
        return " Validated by the brokers."
    if all(field.path == PLACEMENT for change in possible for field in fields_of(change.change)):
        return " Brokers cannot validate replica moves."
    missing = [str(change.ref) for change in possible if change.ref in plan.unvalidated]
    if missing and len(missing) < len(possible):
        return f" Validated by the brokers, except {words(listed(missing, noun='resource'))}."
    return " Not validated by the brokers."


def _list_open_ends(plan: Plan, s: Summary) -> list[str]:
    ends = []
    if deferred := sum(map(is_deferred, plan.changes)):
        ends.append(f"{counted(deferred, 'change')} not yet applied in full")
    if dropped := _count_dropped(plan):
        ends.append(f"{counted(dropped, 'resource')} no longer declared")
    if s.undeclared:
        ends.append(f"{counted(s.undeclared, 'config')} that no manifest declares")
    if s.unknown:
        ends.append(f"{counted(s.unknown, 'resource')} not visible")
    if plan.errors:
        ends.append(counted(len(plan.errors), "error"))
    return ends


def _count_dropped(plan: Plan) -> int:
    return sum(finding.code == DROPPED for finding in plan.diagnostics)


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


def describe_extent(plan: Plan) -> str:
    """Word how much of a plan an apply carries out: `2 of 7 changes will be applied, 3 wait for consent`.

    Empty if it is all of it.
    """
    s, total = summarise(plan), len(plan.changes)
    deferred = sum(change.status is Status.PLANNED and is_deferred(change) for change in plan.changes)
    parts = [f"{total - s.needs_consent - s.refused:,} of {counted(total, 'change')} will be applied"]
    if deferred:
        parts[0] += f" ({deferred:,} of them in part)"
    if s.needs_consent:
        parts.append(f"{s.needs_consent:,} {'waits' if s.needs_consent == 1 else 'wait'} for consent")
    if s.refused:
        parts.append(f"{s.refused:,} {'is' if s.refused == 1 else 'are'} refused")
    return ", ".join(parts) if deferred or len(parts) > 1 else ""


def describe_cost(cost: CostChange) -> str:
    """Describe what a plan costs or saves for a month, and what that does not count."""
    amount = cost.per_month.removeprefix("-")
    verb = "Saves" if cost.per_month.startswith("-") else "Costs"
    replicas = counted(abs(cost.replicas), "fewer replica" if cost.replicas < 0 else "more replica")
    size = f", {rounded_size(abs(cost.bytes))} {'less' if cost.bytes < 0 else 'more'}" if cost.bytes else ""
    uncounted = f"; not counted: {join_words(cost.uncounted)}" if cost.uncounted else ""
    return f"{verb} {amount} {cost.currency} a month ({replicas}{size}){uncounted}"


def headline(plan: Plan) -> str:
    """Return the verdict in a few words, for readers who read nothing else."""
    s = summarise(plan)
    held = count_held_back(plan)
    if plan.open_errors:
        held.append(counted(len(plan.open_errors), "error"))
    planned = len(plan.select_by_status(Status.PLANNED))
    dropped = _count_dropped(plan)
    if plan.changes or plan.open_errors or dropped:
        parts = [*held, f"{counted(planned, 'change')} to apply" if planned else "nothing to apply"]
        return ", ".join([*parts, f"{dropped:,} no longer declared"] if dropped else parts)
    return "nothing to apply, but see below" if _list_open_ends(plan, s) else "no changes"


def describe_audience(plan: Plan, word: Callable[[str], str] = str) -> str:
    """Name the owners of what changes, and the groups that read changing topics.

    `The changing resources are owned by checkout. The changing topics are read by shipping (fulfilment).`

    Empty if no manifest names a team, and no declared group reads what changes.

    Args:
        word: Formats a name.
    """
    counts = Counter(change.team for change in plan.changes)
    teams = sorted(filter(None, counts))
    owners = [
        word(team) + (f" ({counted(counts[team], 'change')})" if len(counts) > 1 else "") for team in teams
    ]
    if teams and counts[""]:
        owners.append(f"no team ({counted(counts[''], 'change')} without a label `team`)")
    readers = [
        word(reader.ref.name) + (f" ({word(reader.team)})" if reader.team else "") for reader in plan.readers
    ]
    changing = "The changing resource is" if len(plan.changes) == 1 else "The changing resources are"
    topics = {topic for reader in plan.readers for topic in reader.topics}
    read = "The changing topic is" if len(topics) == 1 else "The changing topics are"
    parts = ((f"{changing} owned by", owners), (f"{read} read by", readers))
    return " ".join(f"{start} {listed(names, _NAMED)}." for start, names in parts if names)
