"""What keeps applies apart, and what they write down: options and wiring of the lock and the record."""

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
from kafkaform.core.errors import AuditError
from kafkaform.core.lock import unguarded

if TYPE_CHECKING:
    from kafkaform.apply.earlier import Earlier
    from kafkaform.apply.moves.throttle_journal import ThrottleLedger
    from kafkaform.audit.journal import AuditJournal
    from kafkaform.cluster.protocol import Cluster
    from kafkaform.config.settings import ClusterSettings
    from kafkaform.core.lock import Guard
    from kafkaform.core.model import Plan
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

    def held(self, cluster: Cluster, target: ClusterSettings, purpose: str) -> AbstractContextManager[Guard]:
        """The lock of a cluster, waited for when it is entered; its guard lets everything through without."""
        if not (target.lock if self.lock is None else self.lock):
            return nullcontext(unguarded)
        from kafkaform.audit.author import author_here
        from kafkaform.core.lock import Holder

        author = author_here(os.environ)
        holder = Holder(f"{author.who}@{author.host}", purpose, os.getpid())
        return cluster.lock(holder, timeout_s=self.lock_timeout / 1000, tell=tell)

    def begin(self, cluster: Cluster, target: ClusterSettings) -> None:
        """Begin to connect what the record of an apply needs, where one is kept in the cluster."""
        if self.kept(target).topic:
            cluster.begin_audit()

    def journal(
        self, cluster: Cluster, target: ClusterSettings, plan: Plan, about: PlanHeader, digest: str
    ) -> AuditJournal:
        """The record of an apply; nothing is written where none is kept."""
        from kafkaform.audit.author import author_here
        from kafkaform.audit.journal import open_journal

        author = author_here(os.environ)
        return open_journal(cluster, self.kept(target), plan, about, digest, author)

    def earlier(self, cluster: Cluster, target: ClusterSettings, cluster_id: str, *, saved: bool) -> Earlier:
        """What is on record of earlier applies; nothing, and a note of it, where that cannot be read.

        Args:
            cluster: The cluster.
            target: Its settings.
            cluster_id: Its id.
            saved: Whether a saved plan is applied: for that, the record is also read where none is kept now.
        """
        from kafkaform.apply.earlier import Earlier, read_earlier

        kept = self.kept(target)
        where = target.audit if saved and not kept.enabled else kept
        try:
            return read_earlier(cluster, where, cluster_id, kept)
        except AuditError as error:
            tell(f"what earlier applies did is not known: {error.message}")
            return Earlier()

    def ledger(self, cluster: Cluster, target: ClusterSettings, plan: Plan, run: str) -> ThrottleLedger:
        """The record of the throttles that an apply sets; it remembers nothing where none is kept.

        Args:
            cluster: The cluster.
            target: Its settings.
            plan: What is applied.
            run: The id of the apply in its journal.
        """
        from kafkaform.apply.moves.audited_throttles import open_ledger

        return open_ledger(cluster, self.kept(target), run, plan.cluster_id)

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
        help="Whether to hold the cluster's lock, so that there is one apply at a time.  [default: as "
        "kafkaform.yaml says, or --lock]",
    ),
    click.option(
        "--lock-timeout",
        callback=in_milliseconds,
        metavar="DURATION",
        default="90s",
        show_default=True,
        help="How long to wait for another apply; one that died holds the lock for 45 s.",
    ),
    click.option(
        "--audit/--no-audit",
        "audit",
        default=None,
        envvar="KAFKAFORM_AUDIT",
        show_envvar=True,
        help="Whether to write down what is done, to the topic __kafkaform_audit.  [default: as "
        "kafkaform.yaml says, or --audit]",
    ),
    click.option(
        "--audit-file",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Also write it to this file of JSON lines.",
    ),
)


safeguard_options = bundled(Safeguards, "safeguards", _OPTIONS)
"""Gives a command the options of a `Safeguards`."""
