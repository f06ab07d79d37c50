"""What keeps applies apart, and what they write down.

These are the options and the wiring of the lock, the record and earlier applies.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafkaform.cli.options import bundled, in_milliseconds
from kafkaform.cli.output import tell
from kafkaform.config.settings import AuditSettings
from kafkaform.core.errors import AuditError, ClusterError, PlanFileError
from kafkaform.core.lock import unguarded
from kafkaform.core.model import Status
from kafkaform.core.printable import clipped, printable
from kafkaform.core.wording import command, counted, listed

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafkaform.apply.earlier import EarlierApplies
    from kafkaform.apply.moves.throttle_journal import ThrottleJournal
    from kafkaform.audit.entries import AuditEntry
    from kafkaform.audit.journal import AuditJournal
    from kafkaform.cluster.kafka.cluster import KafkaCluster
    from kafkaform.cluster.protocol import AuditLog, AuditReader, Cluster, LockProvider, ResourceReader
    from kafkaform.config.settings import ClusterSettings
    from kafkaform.core.lock import Guard
    from kafkaform.core.model import Plan, ResourceRef
    from kafkaform.plan.plan_header import PlanHeader


@dataclass(frozen=True, slots=True)
class Safeguards:
    """What the command line says of the lock and the record; None leaves it to the cluster's settings.

    Attributes:
        lock: Whether to hold the lock.
        lock_timeout: How long to wait for it, in milliseconds.
        audit: Whether to keep a record.
        audit_file: A file to keep it in as well.
    """

    lock: bool | None = None
    lock_timeout: int = 90_000
    audit: bool | None = None
    audit_file: Path | None = None

    def held(
        self, cluster: LockProvider, target: ClusterSettings, purpose: str
    ) -> AbstractContextManager[Guard]:
        """The lock of a cluster, waited for when it is entered; its guard lets everything through without."""
        if not (target.lock if self.lock is None else self.lock):
            return nullcontext(unguarded)
        from kafkaform.audit.record import author_here
        from kafkaform.core.lock import Holder

        author = author_here(os.environ)
        holder = Holder(f"{author.who}@{author.host}", purpose, os.getpid())
        return cluster.lock(holder, timeout_s=self.lock_timeout / 1000, tell=tell)

    def begin(self, cluster: KafkaCluster, target: ClusterSettings) -> None:
        """Begin to connect what the record of an apply needs, where one is kept in the cluster."""
        if self.kept(target).topic:
            cluster.begin_audit()

    def journal(
        self, cluster: AuditLog, target: ClusterSettings, plan: Plan, about: PlanHeader, digest: str
    ) -> AuditJournal:
        """The record of an apply; nothing is written where none is kept."""
        from kafkaform.audit.journal import open_journal
        from kafkaform.audit.record import author_here

        author = author_here(os.environ)
        return open_journal(cluster, self.kept(target), plan, about, digest, author)

    def earlier(
        self, cluster: AuditReader, target: ClusterSettings, cluster_id: str, *, saved: bool
    ) -> EarlierApplies:
        """What is recorded of earlier applies; nothing, and a note of it, where that cannot be read.

        Args:
            cluster: The cluster.
            target: Its settings.
            cluster_id: Its id.
            saved: Whether a saved plan is applied: for that, the record is also read where none is kept now.
        """
        from kafkaform.apply.earlier import EarlierApplies, read_earlier

        kept = self.kept(target)
        where = target.audit if saved and not kept.enabled else kept
        try:
            return read_earlier(cluster, where, cluster_id, kept)
        except AuditError as error:
            tell(f"the record of earlier applies cannot be read: {error.message}")
            return EarlierApplies()

    def throttle_journal(
        self, cluster: AuditLog, target: ClusterSettings, plan: Plan, run: str
    ) -> ThrottleJournal:
        """The record of the throttles that an apply sets; it remembers nothing where none is kept.

        Args:
            cluster: The cluster.
            target: Its settings.
            plan: What is applied.
            run: The id of the apply in its journal.
        """
        from kafkaform.apply.moves.throttle_journal import open_throttle_journal

        return open_throttle_journal(cluster, self.kept(target), run, plan.cluster_id)

    def kept(self, target: ClusterSettings) -> AuditSettings:
        """Where the record of a cluster is kept."""
        if self.audit is False:
            return AuditSettings(topic=False, file=self.audit_file)
        said = target.audit
        if self.audit and not said.enabled:
            said = AuditSettings()
        return said if self.audit_file is None else replace(said, file=self.audit_file)


_OPTIONS = (
    click.option(
        "--lock/--no-lock",
        "lock",
        default=None,
        envvar="KAFKAFORM_LOCK",
        show_envvar=True,
        help="Hold the cluster's lock, so that only one apply runs at a time.  [default: as "
        "kafkaform.yaml says, or --lock]",
    ),
    click.option(
        "--lock-timeout",
        callback=in_milliseconds,
        metavar="DURATION",
        default="90s",
        show_default=True,
        help="How long to wait for another apply. One that died keeps the lock for 45 s.",
    ),
    click.option(
        "--audit/--no-audit",
        "audit",
        default=None,
        envvar="KAFKAFORM_AUDIT",
        show_envvar=True,
        help="Record the changes in the topic __kafkaform_audit.  [default: as "
        "kafkaform.yaml says, or --audit]",
    ),
    click.option(
        "--audit-file",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Also record the changes in this file (JSON lines).",
    ),
)


safeguard_options = bundled(Safeguards, "safeguards", _OPTIONS)
"""Gives a command the options of a `Safeguards`."""


_ANEW = "make a new plan and review it, or use --again to apply this one again"
_WORD = 120


def unspent(
    plan: Plan, spent: Mapping[ResourceRef, AuditEntry], cluster: ResourceReader
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


def _applied(entry: AuditEntry) -> str:
    when, who, run = (clipped(text, _WORD) for text in (entry.at[:16], entry.who, entry.run))
    return f"was applied on {when.replace('T', ' ')} UTC by {who} ({command('history', run)})"


def settle(earlier: EarlierApplies, cluster: Cluster, run: str) -> None:
    """Write the results that earlier applies left open; what stands in the way of that stops no other."""
    try:
        settled = earlier.settle(cluster, run)
    except (AuditError, ClusterError) as error:
        tell(f"results of earlier applies that are not recorded stay unrecorded: {error.message}")
        return
    for found in dict.fromkeys(entry.run for entry in settled):
        count = sum(entry.run == found for entry in settled)
        tell(
            f"apply {clipped(found, _WORD)} left the result of {counted(count, 'change')} open: found done, "
            "and recorded"
        )
