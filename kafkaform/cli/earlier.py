"""What an apply says and does about earlier ones: plans that are spent, and results left open."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kafkaform.cli.output import tell
from kafkaform.core.errors import AuditError, ClusterError, PlanFileError
from kafkaform.core.model import Status
from kafkaform.core.printable import clipped, printable
from kafkaform.core.wording import command, counted, listed

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafkaform.apply.earlier import Earlier
    from kafkaform.audit.entries import Entry
    from kafkaform.cluster.protocol import Cluster
    from kafkaform.core.model import Plan, ResourceRef

_ANEW = "make a new plan, and review it; or give --again to apply this one once more"
_WORD = 120


def unspent(
    plan: Plan, spent: Mapping[ResourceRef, Entry], cluster: Cluster
) -> tuple[Plan, Collection[ResourceRef]]:
    """A saved plan, in which changes are refused that an apply of it made before and that are undone.

    Args:
        plan: The plan.
        spent: What applies of it made.
        cluster: The cluster.

    Returns:
        The plan, and those of its changes that need no word any more, as the cluster has them already.

    Raises:
        PlanFileError: Nothing else is left of it.
    """
    from kafkaform.apply.earlier import already_there

    open_refs = {c.ref for c in plan.changes if c.status is not Status.REFUSED}
    spent = {ref: entry for ref, entry in spent.items() if ref in open_refs}
    waiting = {c.ref for c in plan.with_status(Status.NEEDS_CONSENT)}
    there = already_there(plan, spent.keys() | waiting, cluster)
    undone = {ref: entry for ref, entry in spent.items() if ref not in there}
    if undone and spent.keys() == open_refs:
        latest = max(undone.values(), key=lambda entry: entry.at)
        names = listed([printable(str(ref)) for ref in undone])
        raise PlanFileError(
            f"the plan {_applied(latest)}, and these changed since: {names}; nothing was applied",
            hint=_ANEW,
        )
    if spent and not undone:
        tell(f"the plan {_applied(max(spent.values(), key=lambda entry: entry.at))}")
    changes = tuple(
        replace(
            c,
            status=Status.REFUSED,
            reason=f"this {_applied(undone[c.ref])}, and changed since",
            remedy=_ANEW,
        )
        if c.ref in undone
        else c
        for c in plan.changes
    )
    return replace(plan, changes=changes), there


def _applied(entry: Entry) -> str:
    when, who, run = (clipped(text, _WORD) for text in (entry.at[:16], entry.who, entry.run))
    return f"was applied on {when.replace('T', ' ')} UTC by {who} ({command('history', run)})"


def settle(earlier: Earlier, cluster: Cluster, run: str) -> None:
    """Write the results that earlier applies left open; what stands in the way of that stops no other."""
    try:
        settled = earlier.settle(cluster, run)
    except (AuditError, ClusterError) as error:
        tell(f"results that earlier applies left open stay open: {error.message}")
        return
    for found in dict.fromkeys(entry.run for entry in settled):
        count = sum(entry.run == found for entry in settled)
        tell(
            f"apply {clipped(found, _WORD)} left the result of {counted(count, 'change')} open: found done, "
            "and recorded"
        )
