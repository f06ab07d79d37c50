"""The options and wiring of the lock, the audit record and earlier applies."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import click

from kafkaform.cli.options import option_group, parse_milliseconds
from kafkaform.cli.output import tell
from kafkaform.config.settings import AuditSettings, ClusterSettings
from kafkaform.core.errors import AuditError, ClusterError, PlanFileError
from kafkaform.core.lock import Guard, unguarded
from kafkaform.core.model import Observation, ResourceRef, Status
from kafkaform.core.printable import clipped, printable
from kafkaform.core.values import Value, replace
from kafkaform.core.wording import command, counted, listed

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafkaform.apply.earlier import EarlierApplies
    from kafkaform.apply.moves.throttle_journal import ThrottleJournal
    from kafkaform.audit.entries import AuditEntry
    from kafkaform.audit.journal import AuditJournal
    from kafkaform.audit.record import Author
    from kafkaform.cluster.kafka.cluster import KafkaCluster
    from kafkaform.cluster.protocol import AuditLog, AuditReader, Cluster, LockProvider
    from kafkaform.core.plans import Plan
    from kafkaform.plan.plan_header import PlanHeader


class Safeguards(Value):
    """The options of the lock and the audit record; None for the cluster's setting.

    Attributes:
        lock: Whether to hold the lock.
        lock_timeout: The maximum time to wait for it, in milliseconds.
        audit: Whether to keep a record.
    """

    lock: bool | None = None
    lock_timeout: int = 90_000
    audit: bool | None = None

    def hold_lock(
        self, cluster: LockProvider, target: ClusterSettings, purpose: str, author: Author
    ) -> AbstractContextManager[Guard]:
        """Return the lock of a cluster, to be entered; without a lock, one whose guard permits everything."""
        if not (target.lock if self.lock is None else self.lock):
            return nullcontext(unguarded)
        from kafkaform.core.lock import Holder

        # Others that wait for the lock see these words, and can find the job or person to ask.
        holder = Holder(f"{author.who}@{author.host}", purpose, os.getpid())
        return cluster.lock(holder, timeout_s=self.lock_timeout / 1000, tell=tell)

    def begin(self, cluster: KafkaCluster, target: ClusterSettings) -> None:
        """Start the connection of the audit record, if it is kept in the cluster."""
        if self.get_audit_settings(target).topic:
            cluster.begin_audit()

    def journal(
        self,
        cluster: AuditLog,
        target: ClusterSettings,
        plan: Plan,
        about: PlanHeader,
        digest: str,
        author: Author,
    ) -> AuditJournal:
        """Open the record of an apply; it writes nothing where none is kept."""
        from kafkaform.audit.journal import open_journal

        return open_journal(cluster, self.get_audit_settings(target), plan, about, digest, author)

    def earlier(
        self, cluster: AuditReader, target: ClusterSettings, cluster_id: str, *, saved: bool
    ) -> EarlierApplies:
        """Read the record of earlier applies; if that fails, returns none and prints a note.

        Args:
            saved: Whether a plan file is applied: then the record is read even if this apply keeps none.
        """
        from kafkaform.apply.earlier import EarlierApplies, read_earlier

        kept = self.get_audit_settings(target)
        # A saved plan can be applied twice; --no-audit must not hide that it was applied before.
        source = target.audit if saved and not kept.enabled else kept
        try:
            return read_earlier(cluster, source, cluster_id, kept)
        except AuditError as error:
            # Without the record, a plan is still judged by the live state. An apply that repairs a cluster
            # must not depend on a topic of that cluster.
            tell(f"the record of earlier applies cannot be read: {error.message}")
            return EarlierApplies()

    def throttle_journal(
        self, cluster: AuditLog, target: ClusterSettings, plan: Plan, run: str
    ) -> ThrottleJournal:
        """Open the journal of the throttles that an apply sets; it stores nothing where no record is kept.

        Args:
            run: The id of the apply in its journal.
        """
        from kafkaform.apply.moves.throttle_journal import open_throttle_journal

        return open_throttle_journal(cluster, self.get_audit_settings(target), run, plan.cluster_id)

    def get_audit_settings(self, target: ClusterSettings) -> AuditSettings:
        """Return the settings of the record of a cluster."""
        if self.audit is False:
            return AuditSettings(topic=False)
        return AuditSettings() if self.audit and not target.audit.enabled else target.audit


_OPTIONS = (
    click.option(
        "--lock/--no-lock",
        "lock",
        default=None,
        envvar="KAFKAFORM_LOCK",
        show_envvar=True,
        help="Hold the cluster's lock, so that only one apply runs at a time.  [default: from "
        "kafkaform.yaml, or --lock]",
    ),
    click.option(
        "--lock-timeout",
        callback=parse_milliseconds,
        metavar="DURATION",
        default="90s",
        show_default=True,
        help="How long to wait for another apply.",
    ),
    click.option(
        "--audit/--no-audit",
        "audit",
        default=None,
        envvar="KAFKAFORM_AUDIT",
        show_envvar=True,
        help="Record the changes in the topic __kafkaform_audit.  [default: from kafkaform.yaml, or --audit]",
    ),
)


safeguard_options = option_group(Safeguards, "safeguards", *_OPTIONS)
"""Adds the options of a `Safeguards` to a command."""


_NEW_PLAN_HINT = "make a new plan and review it, or use --again to apply this one again"
_MAX_LENGTH = 120


def refuse_undone(
    plan: Plan, spent: Mapping[ResourceRef, AuditEntry], observation: Observation
) -> tuple[Plan, Collection[ResourceRef]]:
    """Refuse the changes of a saved plan that an earlier apply of it made, and that were undone since.

    Args:
        spent: The changes that applies of it made.
        observation: The reading that the plan was judged by.

    Returns:
        The plan, and its changes that the cluster already has.

    Raises:
        PlanFileError: The plan has no other changes.
    """
    from kafkaform.apply.earlier import find_done

    # A change that the plan itself refuses cannot be repeated, so it does not matter whether it was made
    # before.
    open_refs = {c.ref for c in plan.changes if c.status is not Status.REFUSED}
    spent = {ref: entry for ref, entry in spent.items() if ref in open_refs}
    # Nobody has to consent to a change that the cluster already has.
    waiting = {c.ref for c in plan.select_by_status(Status.NEEDS_CONSENT)}
    done = find_done(plan, spent.keys() | waiting, observation)
    undone = {ref: entry for ref, entry in spent.items() if ref not in done}
    # With other changes left, only the undone ones are refused; with none, the whole plan is.
    if undone and spent.keys() == open_refs:
        # Times of the record are ISO 8601 in UTC, whose order as texts is their order in time.
        latest = max(undone.values(), key=lambda entry: entry.at)
        names = listed([printable(str(ref)) for ref in undone])
        raise PlanFileError(
            f"the plan {_describe_apply(latest)}, and these changed since: {names}; nothing was applied",
            hint=_NEW_PLAN_HINT,
        )
    if spent and not undone:
        tell(f"the plan {_describe_apply(max(spent.values(), key=lambda entry: entry.at))}")
    changes = tuple(
        replace(
            c,
            status=Status.REFUSED,
            reason=f"this {_describe_apply(undone[c.ref])}, and changed since",
            remedy=_NEW_PLAN_HINT,
        )
        if c.ref in undone
        else c
        for c in plan.changes
    )
    return replace(plan, changes=changes), done


def _describe_apply(entry: AuditEntry) -> str:
    when, who, run = (clipped(text, _MAX_LENGTH) for text in (entry.at[:16], entry.who, entry.run))
    return f"was applied on {when.replace('T', ' ')} UTC by {who} ({command('history', run)})"


def record_results(earlier: EarlierApplies, cluster: Cluster, run: str) -> None:
    """Record the results that earlier applies left open; errors are printed, and do not stop this apply."""
    try:
        recorded = earlier.record_results(cluster, run)
    except (AuditError, ClusterError) as error:
        tell(f"results of earlier applies that are not recorded stay unrecorded: {error.message}")
        return
    # One line per apply, in the order of the record: an apply that was killed may leave many results open.
    for past_run in dict.fromkeys(entry.run for entry in recorded):
        count = sum(entry.run == past_run for entry in recorded)
        tell(
            f"apply {clipped(past_run, _MAX_LENGTH)} left the result of {counted(count, 'change')} open: "
            "applied, and recorded now"
        )
