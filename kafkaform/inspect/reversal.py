"""What manifests would have to say for recorded changes to be undone: pure, and nothing is made up."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkaform.config.manifests.editing import Edit
from kafkaform.core.model import FieldChange
from kafkaform.core.wording import command, counted, spans
from kafkaform.resources import KINDS
from kafkaform.resources.values import label, single

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkaform.audit.entries import AuditEntry, RecordedField
    from kafkaform.core.model import Desired, FieldValue, Observed, ResourceRef
    from kafkaform.resources.base import Kind

_FORCE = "--force continues anyway"


@dataclass(slots=True)
class Reversal:
    """What it takes to undo changes.

    Attributes:
        edits: New values for manifests.
        restored: Resources that were deleted, and that no manifest declares: each needs a new one.
        refused: What cannot be undone, or not without being asked again, and why: a line each.
        notes: What else the reader must know, a line each.
        offsets: The earlier offsets of groups, by topic and partition, as far as they differ: a reset takes
            them from a file.
    """

    edits: list[Edit] = field(default_factory=list)
    restored: list[Observed] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    offsets: dict[ResourceRef, dict[tuple[str, int], int]] = field(default_factory=dict)

    def refuse_offsets(self, ref: ResourceRef, number: int, *options: str) -> None:
        """Say which reset restores the offsets of so many partitions of a group."""
        reset = command("reset", ref.name, options=options)
        what = f"no manifest holds offsets ({counted(number, 'partition')})"
        self.refused.append(f"{ref}: {what}: {reset} goes back")


def reversal(
    changes: Sequence[AuditEntry],
    record: Sequence[AuditEntry],
    desired: Mapping[ResourceRef, Desired],
    *,
    force: bool = False,
) -> Reversal:
    """Find out how to undo changes.

    Args:
        changes: What to undo.
        record: The whole record of the cluster, oldest first.
        desired: What the manifests say now.
        force: Also go back behind what was changed since, and undo what may not have been carried out.
    """
    found = Reversal()
    chosen = {entry.id for entry in changes}
    for entry in changes:
        start = next((n for n, other in enumerate(record) if other.id == entry.id), len(record))
        later = [
            other
            for other in record[start + 1 :]
            if other.ref == entry.ref and other.may_have_taken_place and other.id not in chosen
        ]
        _Undoing(entry, later, desired.get(entry.ref), force, found).run()
    for ref, offsets in [*found.offsets.items()]:
        if len(set(offsets.values())) == 1:
            del found.offsets[ref]
            found.refuse_offsets(ref, len(offsets), *_to_one_offset(offsets))
    return found


def _to_one_offset(offsets: Mapping[tuple[str, int], int]) -> list[str]:
    """The options of a reset that moves partitions to the offset that all of them have."""
    partitions: dict[str, list[int]] = {}
    for topic, partition in offsets:
        partitions.setdefault(topic, []).append(partition)
    chosen = [("--topic", f"{topic}:{spans(numbers)}") for topic, numbers in sorted(partitions.items())]
    return [*(word for option in chosen for word in option), "--to", str(next(iter(offsets.values())))]


@dataclass(frozen=True, slots=True)
class _Undoing:
    """One change on its way back."""

    entry: AuditEntry
    later: Sequence[AuditEntry]
    declared: Desired | None
    force: bool
    found: Reversal

    @property
    def _kind(self) -> Kind:
        return KINDS[self.entry.ref.kind]

    def run(self) -> None:
        """Add to what is found."""
        entry = self.entry
        if entry.ref.kind not in KINDS:
            self._refuse("this version of kafkaform does not manage its kind")
        elif entry.is_open and not entry.took_place and not self.force:
            self._refuse(f"its result is not known, so it may not have been applied; {_FORCE}")
        elif entry.outcome is not None and not entry.may_have_taken_place:
            self._note(f"nothing to undo: it was not applied ({entry.outcome.result})")
        elif not entry.whole or any(one.cut for one in self._fields()):
            self._refuse("not all of it is recorded")
        elif entry.action == "update":
            for one in self._fields():
                self._undo_field(one)
            for one in () if self.force else entry.in_doubt:
                self._refuse(
                    f"{label(one.path)}: its result is not known, so it may not have been applied; {_FORCE}"
                )
        elif self.later and self.later[-1].action != "update" and not self.force:
            self._refuse(f"apply {_did(self.later[-1])} it since; {_FORCE}")
        elif entry.action == "create":
            self._undo_create()
        else:
            self._undo_delete()

    def _fields(self) -> tuple[RecordedField, ...]:
        """What was changed; by force, also what may have been."""
        carried_out = self.entry.carried_out
        return (*carried_out, *self.entry.in_doubt) if self.force else carried_out

    def _undo_field(self, one: RecordedField) -> None:
        name = label(one.path)
        change = FieldChange(one.path, one.before, one.after)
        state = self.declared.state if self.declared is not None else None
        if (blocked := self._kind.no_way_back(self.entry.ref, change, state)) is not None:
            if blocked.offset is not None:
                topic, partition, offset = blocked.offset
                self.found.offsets.setdefault(self.entry.ref, {})[topic, partition] = offset
            else:
                (self._note if blocked.is_needless else self._refuse)(f"{name}: {blocked.reason}")
        elif (reason := self._overtaken(one)) is not None:
            self._refuse(f"{name}: {reason}")
        else:
            assert self.declared is not None  # noqa: S101 - or it was refused
            assert self.declared.state is not None  # noqa: S101
            if self._same(one.path, self.declared.state.get(one.path), one.before):
                self._note(f"{name}: the manifest says {self._shown(one.path, one.before)} already")
            else:
                self.found.edits.append(Edit(self.entry.ref, one.path, one.before))

    def _overtaken(self, one: RecordedField) -> str | None:
        """Why a field is not simply set back."""
        if self.declared is None:
            return "no manifest declares the resource"
        if self.declared.state is None:
            return "the manifest says `state: absent`"
        if self.force:
            return None
        for other in self.later:
            touched = {its.path: its for its in (*other.carried_out, *other.in_doubt)}
            if other.action != "update" and touched:
                return f"apply {_did(other)} the resource since; {_FORCE}"
            if again := touched.get(one.path):
                did = _did(other, certain=again not in other.in_doubt)
                return f"apply {did} it again, to {self._shown(one.path, again.after)}; {_FORCE}"
        said = self.declared.state.get(one.path)
        if self._same(one.path, said, one.after) or self._same(one.path, said, one.before):
            return None
        return f"the manifest says {self._shown(one.path, said)} by now; {_FORCE}"

    def _undo_create(self) -> None:
        if self.declared is None:
            self._refuse("no manifest declares it: to delete it, write one with `state: absent`")
        elif self.declared.state is None:
            self._note("the manifest says `state: absent` already")
        else:
            self.found.edits.append(Edit(self.entry.ref, "state", "absent"))
            lost = self._kind.contents
            self._note(f"`state: absent` deletes it with {lost}: an apply needs consent to delete")
            if self.declared.intent.deletion_protection:
                self._note("spec.deletionProtection prevents that, and is not changed")

    def _undo_delete(self) -> None:
        ref = self.entry.ref
        state = {one.path: one.before for one in self.entry.fields}
        if self.declared is not None and self.declared.state is not None:
            self._note("a manifest declares it again")
            return
        if self.declared is None:
            self.found.restored.append(self._kind.restored(ref, state))
        else:
            own = self._kind.restored(ref, state).state
            self.found.edits += [Edit(ref, path, value) for path, value in own.items()]
            self.found.edits.append(Edit(ref, "state", None))
        record = command("history", self.entry.id, options=("--format", "json"))
        if (lost := self._kind.not_restored(state, record)) is not None:
            self._note(lost)

    def _same(self, path: str, one: FieldValue, other: FieldValue) -> bool:
        return self._kind.equal(path, one, other)

    def _shown(self, path: str, value: FieldValue) -> str:
        return single(self.entry.ref.kind, path, value).short

    def _refuse(self, why: str) -> None:
        self.found.refused.append(f"{self.entry.id} {self.entry.ref}: {why}")

    def _note(self, what: str) -> None:
        self.found.notes.append(f"{self.entry.id} {self.entry.ref}: {what}")


def _did(entry: AuditEntry, *, certain: bool | None = None) -> str:
    """`run1 changed`, or `run1 may have changed` where that is not known."""
    done = {"create": "created", "update": "changed", "delete": "deleted"}[entry.action]
    sure = entry.took_place if certain is None else certain
    return f"{entry.run} {done if sure else f'may have {done}'}"
