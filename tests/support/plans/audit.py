"""Records of applies for tests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafkaform.apply.executor import ApplyOptions, apply
from kafkaform.audit.entries import AuditEntry, AuditResult, RecordedField
from kafkaform.audit.journal import open_journal
from kafkaform.audit.record import Author, describe_apply
from kafkaform.audit.trail import read_record
from kafkaform.cluster.protocol import Cluster
from kafkaform.config.settings import AuditSettings
from kafkaform.core.apply_result import ApplyReport
from kafkaform.core.model import ResourceRef
from kafkaform.core.plans import Plan
from kafkaform.core.progress import Clock
from kafkaform.core.values import replace
from kafkaform.plan.plan_header import PlanHeader
from tests.support.plans.scenes import FakeClock

ALICE = Author("alice", "ci-3", "github", "https://github.example/a/b/actions/runs/42")
HEADER = PlanHeader("1.2.3", "0123456789abcdef0123456789abcdef01234567", None, "dev", "2026-11-01T00:00:00Z")
COMMON = describe_apply(
    ALICE, commit=HEADER.commit, plan="sha256:0", tool="1.2.3", cluster="memory", environment="dev"
)
TOPIC_ONLY = AuditSettings()


def recorded_apply(
    plan: Plan, cluster: Cluster, audit: AuditSettings = TOPIC_ONLY, author: Author = ALICE
) -> tuple[str, ApplyReport]:
    """Apply a plan, and keep the record; returns the id of the apply."""
    journal = open_journal(cluster, audit, plan, HEADER, "sha256:0", author)
    clock = FakeClock().clock if type(cluster).__name__ == "MemoryCluster" else Clock()
    report = apply(plan, cluster, ApplyOptions(journal=journal, clock=clock))
    journal.conclude(report)
    return journal.run, report


def entries_of(cluster: Cluster, run: str) -> dict[str, AuditEntry]:
    """Return the entries of an apply in the record, by the name of the resource."""
    log = read_record(cluster, TOPIC_ONLY)
    return {entry.ref.name: entry for entry in log.entries if entry.run == run}


def ends(entries: Mapping[str, AuditEntry]) -> dict[str, str | None]:
    """The result of each entry; None where none was written."""
    return {name: entry.outcome.result if entry.outcome else None for name, entry in entries.items()}


@dataclass
class Story:
    """A record that is written entry by entry, a minute apart."""

    entries: list[AuditEntry] = field(default_factory=list)

    def add(
        self,
        action: str,
        name: str,
        fields: Mapping[str, tuple[Any, Any]],
        *,
        kind: str = "Topic",
        result: str | None = "applied",
        done: Sequence[str] | None = None,
        in_doubt: Sequence[str] = (),
        message: str = "",
        **more: Any,
    ) -> AuditEntry:
        """One change, an apply of its own; unless said otherwise all of it was carried out."""
        number = len(self.entries)
        at = f"2026-11-03T12:{number:02}:00.000Z"
        gone = () if result != "applied" else fields
        outcome = None
        if result is not None:
            carried_out = frozenset(gone if done is None else done)
            outcome = AuditResult(result, at, message, carried_out, frozenset(in_doubt))
        entry = AuditEntry(
            id=f"run{number}.1",
            run=f"run{number}",
            at=at,
            who="alice",
            host="ci-3",
            ci=None,
            url=None,
            commit="0123456789abcdef",
            plan="sha256:0",
            tool_version="1.2.3",
            cluster_id="memory",
            environment=None,
            ref=ResourceRef(kind, name),
            uid=None,
            action=action,
            risk="safe",
            fields=tuple(RecordedField(path, *values) for path, values in fields.items()),
            outcome=outcome,
        )
        self.entries.append(replace(entry, **more))
        return self.entries[-1]
