"""Edits of manifests that undo recorded changes, using recorded values only. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkaform.config.manifests.editing import Edit
from kafkaform.core.model import Desired, FieldChange, FieldValue, Observed, ResourceRef
from kafkaform.core.partitions import group_by_topic
from kafkaform.core.values import Value, replace
from kafkaform.core.wording import command, counted, listed, spans
from kafkaform.resources import KINDS
from kafkaform.resources.base import BROKERS, Kind, restore
from kafkaform.resources.values import format_value, label

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkaform.audit.entries import AuditEntry, RecordedField

_FORCE = "--force continues anyway"


@dataclass(slots=True)
class Reversal:
    """The edits and notes that undo changes.

    Attributes:
        edits: New values for manifests.
        restored: Deleted resources that no manifest declares: each needs a new manifest.
        refused: A line for each change that cannot be undone, or only with --force, and why.
        notes: Other notes, a line each.
        offsets: The earlier offsets of groups that differ, by topic and partition, for a reset from a file.
    """

    edits: list[Edit] = field(default_factory=list)
    restored: list[Observed] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    offsets: dict[ResourceRef, dict[tuple[str, int], int]] = field(default_factory=dict)

    def refuse_offsets(self, ref: ResourceRef, number: int, *options: str) -> None:
        """Refuse to restore the offsets of `number` partitions of a group, and name the reset that does."""
        reset = command("reset", ref.name, options=options)
        reason = f"no manifest holds offsets ({counted(number, 'partition')})"
        self.refused.append(f"{ref}: {reason}; go back: {reset}")


def plan_reversal(
    changes: Sequence[AuditEntry],
    record: Sequence[AuditEntry],
    desired: Mapping[ResourceRef, Desired],
    *,
    force: bool = False,
) -> Reversal:
    """Find the edits that undo changes.

    Args:
        changes: The changes to undo.
        record: The whole record of the cluster, oldest first.
        desired: The resources that manifests declare now.
        force: Also undo changes that were changed again later, or that may not have been applied.
    """
    result = Reversal()
    chosen = {entry.id for entry in changes}
    for entry in changes:
        start = next((n for n, recorded in enumerate(record) if recorded.id == entry.id), len(record))
        # Changes that are undone in the same run are no obstacles to each other.
        later = [
            candidate
            for candidate in record[start + 1 :]
            if candidate.ref == entry.ref and candidate.may_have_taken_place and candidate.id not in chosen
        ]
        _ChangeReversal(entry, later, desired.get(entry.ref), force, result).run()
    for ref, offsets in [*result.offsets.items()]:
        # One common offset needs no file: the reset command has it as an option.
        if len(set(offsets.values())) == 1:
            del result.offsets[ref]
            result.refuse_offsets(ref, len(offsets), *_build_reset_options(offsets))
    return result


def _build_reset_options(offsets: Mapping[tuple[str, int], int]) -> list[str]:
    """Return the options of a reset that moves partitions to one common offset."""
    by_topic = sorted(group_by_topic(offsets).items())
    chosen = [("--topic", f"{topic}:{spans(numbers)}") for topic, numbers in by_topic]
    return [*(word for option in chosen for word in option), "--to", str(next(iter(offsets.values())))]


def complete_values(entry: AuditEntry, find: Callable[[ResourceRef, FieldValue], FieldValue]) -> AuditEntry:
    """Return a change with the earlier values of which the record has a part, where something has the whole.

    Args:
        find: Returns the whole of a value, or None.
    """
    fields = []
    for recorded in entry.fields:
        if recorded.cut and (whole := find(entry.ref, recorded.before)) is not None:
            fields.append(replace(recorded, before=whole, cut=False))
        else:
            fields.append(recorded)
    return replace(entry, fields=tuple(fields))


class _ChangeReversal(Value):
    """The reversal of one change."""

    entry: AuditEntry
    later: Sequence[AuditEntry]
    declared: Desired | None
    force: bool
    result: Reversal

    @property
    def _kind(self) -> Kind:
        return KINDS[self.entry.ref.kind]

    def run(self) -> None:
        """Add the edits and notes of this change to the result."""
        entry = self.entry
        if entry.ref.kind not in KINDS:
            self._refuse("this version of kafkaform does not manage its kind")
        # The apply died in between: its change may be on the cluster or not, and undoing it could be a change
        # of its own.
        elif entry.is_open and not entry.took_place and not self.force:
            self._refuse(f"its result is not known, so it may not have been applied; {_FORCE}")
        elif entry.outcome is not None and not entry.may_have_taken_place:
            self._note(f"nothing to undo: it was not applied ({entry.outcome.result})")
        # What was there before is not known in full.
        elif not entry.complete:
            self._refuse("the record of it is incomplete")
        elif cut := [label(field.path) for field in self._fields() if field.cut]:
            text = f"the record of it is incomplete: {listed(cut)} was too long"
            service = self._kind.words.service
            self._refuse(text if service == BROKERS else f"{text}, and the {service} no longer has it")
        elif entry.action == "update":
            for changed in self._fields():
                self._undo_field(changed)
            for changed in () if self.force else entry.in_doubt:
                self._refuse(
                    f"{label(changed.path)}: its result is not known, so it may not have been applied; "
                    f"{_FORCE}"
                )
        elif self.later and self.later[-1].action != "update" and not self.force:
            self._refuse(f"apply {_describe_action(self.later[-1])} it since; {_FORCE}")
        elif entry.action == "create":
            self._undo_create()
        elif entry.action == "recreate":
            self._undo_recreate()
        else:
            self._undo_delete()

    def _fields(self) -> tuple[RecordedField, ...]:
        """Return the fields that were changed; with --force, also those that may have been."""
        carried_out = self.entry.carried_out
        return (*carried_out, *self.entry.in_doubt) if self.force else carried_out

    def _undo_field(self, recorded: RecordedField) -> None:
        name = label(recorded.path)
        change = FieldChange(recorded.path, recorded.before, recorded.after)
        state = self.declared.state if self.declared is not None else None
        if (blocked := self._kind.field(change.path).explain_irreversible(change, state)) is not None:
            if blocked.offset is not None:
                topic, partition, offset = blocked.offset
                self.result.offsets.setdefault(self.entry.ref, {})[topic, partition] = offset
            else:
                (self._note if blocked.is_derived else self._refuse)(f"{name}: {blocked.reason}")
        elif (reason := self._explain_conflict(recorded)) is not None:
            self._refuse(f"{name}: {reason}")
        else:
            assert self.declared is not None  # noqa: S101 - or it was refused
            assert self.declared.state is not None  # noqa: S101
            if self._is_same(recorded.path, self.declared.state.get(recorded.path), recorded.before):
                self._note(f"{name}: the manifest already has {self._render(recorded.path, recorded.before)}")
            else:
                self.result.edits.append(Edit(self.entry.ref, recorded.path, recorded.before))

    def _explain_conflict(self, recorded: RecordedField) -> str | None:
        """Return why a field is not set back; None if it can be."""
        if self.declared is None:
            return "no manifest declares the resource"
        if self.declared.state is None:
            return "the manifest has `state: absent`"
        if self.force:
            return None
        for later in self.later:
            touched = {field.path: field for field in (*later.carried_out, *later.in_doubt)}
            if later.action != "update" and touched:
                return f"apply {_describe_action(later)} the resource since; {_FORCE}"
            if again := touched.get(recorded.path):
                action = _describe_action(later, certain=again not in later.in_doubt)
                return f"apply {action} it again, to {self._render(recorded.path, again.after)}; {_FORCE}"
        # A manifest that has neither value was edited since: setting it back would undo that edit.
        declared = self.declared.state.get(recorded.path)
        if self._is_same(recorded.path, declared, recorded.after) or self._is_same(
            recorded.path, declared, recorded.before
        ):
            return None
        return f"the manifest has {self._render(recorded.path, declared)} now; {_FORCE}"

    def _undo_create(self) -> None:
        if self.declared is None:
            self._refuse("no manifest declares it: to delete it, write one with `state: absent`")
        elif self.declared.state is None:
            self._note("the manifest already has `state: absent`")
        else:
            self.result.edits.append(Edit(self.entry.ref, "state", "absent"))
            lost = self._kind.words.contents
            self._note(f"`state: absent` deletes it with {lost}: an apply needs consent to delete")
            if self.declared.intent.deletion_protection:
                self._note("spec.deletionProtection prevents that, and is not changed")

    def _undo_delete(self) -> None:
        ref = self.entry.ref
        state = {recorded.path: recorded.before for recorded in self.entry.fields}
        if self.declared is not None and self.declared.state is not None:
            self._note("a manifest declares it again")
            return
        record = command("history", self.entry.id, options=("--format", "json"))
        # By recorded values only: records and offsets are gone with the resource.
        observed, lost = restore(self._kind, ref, state, record)
        if self.declared is None:
            self.result.restored.append(observed)
        else:
            # The tombstone stays in its file, and becomes a manifest again, with its comments.
            self.result.edits += [Edit(ref, path, value) for path, value in observed.state.items()]
            self.result.edits.append(Edit(ref, "state", None))
        if lost is not None:
            self._note(lost)

    def _undo_recreate(self) -> None:
        """Restore the fields of the earlier topic; its records are lost."""
        for changed in self._fields():
            if not self._is_same(changed.path, changed.before, changed.after):
                self._undo_field(changed)
        state = {
            recorded.path: recorded.before for recorded in self.entry.fields if recorded.before is not None
        }
        _, lost = restore(self._kind, self.entry.ref, state, "")
        if lost is not None:
            self._note(lost)

    def _is_same(self, path: str, a: FieldValue, b: FieldValue) -> bool:
        return self._kind.field(path).equal(a, b)

    def _render(self, path: str, value: FieldValue) -> str:
        return format_value(self.entry.ref.kind, path, value).short

    def _refuse(self, why: str) -> None:
        self.result.refused.append(f"{self.entry.id} {self.entry.ref}: {why}")

    def _note(self, text: str) -> None:
        self.result.notes.append(f"{self.entry.id} {self.entry.ref}: {text}")


def _describe_action(entry: AuditEntry, *, certain: bool | None = None) -> str:
    """Return `run1 changed`, or `run1 may have changed` where the result is not known."""
    words = {"create": "created", "update": "changed", "delete": "deleted", "recreate": "recreated"}
    done = words[entry.action]
    sure = entry.took_place if certain is None else certain
    return f"{entry.run} {done if sure else f'may have {done}'}"
