"""The names, values and changes of fields as printable text, the same in every format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkaform.core.kafka_configs import readable
from kafkaform.core.model import CONFIG_PREFIX, Create, Delete, FieldChange, Recreate, Status, Update
from kafkaform.core.printable import clipped, escape_text
from kafkaform.resources import KINDS
from kafkaform.resources.base import config_keys, field_order

if TYPE_CHECKING:
    from kafkaform.core.model import Change, FieldValue
    from kafkaform.core.plans import PlannedChange


# The parentheses make it different from a config whose value is the text `unset`; see `_raw`.
UNSET = "(unset)"
MAX_VALUE_LENGTH = 240
"""The most characters that a report shows of one value; JSON has all of it."""
_LEAD = 24
_DEFAULT = "default "


@dataclass(frozen=True, slots=True)
class FormattedValue:
    """One value: as people read it, as Kafka has it, and whether it is inherited."""

    human: str
    raw: str
    inherited: bool = False

    @property
    def short(self) -> str:
        """The value without the raw one, unless that is needed to be exact."""
        return f"{_DEFAULT if self.inherited else ''}{self.human}"

    @property
    def has_raw(self) -> bool:
        """True if the readable value contains the raw one."""
        return self.human == self.raw or self.human.endswith(f" ({self.raw})")

    def __str__(self) -> str:
        return self.short if self.has_raw else f"{self.short} ({self.raw})"


@dataclass(frozen=True, slots=True)
class Transition:
    """A field's change as text; there is no before in a create, and no after in a delete.

    Attributes:
        text: A description, where it is clearer than the values.
        each: For replicas, the change of each partition, equal ones together.
    """

    before: FormattedValue | None
    after: FormattedValue | None
    text: str | None = None
    each: tuple[str, ...] = ()

    @property
    def sides(self) -> tuple[FormattedValue, ...]:
        """Before and after, without missing ones."""
        return tuple([side for side in (self.before, self.after) if side is not None])

    @property
    def short(self) -> str:
        """The change without raw values: `7d → 30d`."""
        return self.text or " → ".join([side.short for side in self.sides])

    @property
    def raw(self) -> str | None:
        """The raw values, `604800000 → 2592000000`; None if `short` contains them."""
        if self.text:
            return None
        converted = [side for side in self.sides if side.human != side.raw]
        if not converted or any(side.has_raw for side in converted):
            return None
        return " → ".join([side.raw for side in self.sides])

    def __str__(self) -> str:
        raw = self.raw
        return f"{self.short} ({raw})" if raw else self.short


def label(path: str) -> str:
    """Return the name of a field; for a config, it is Kafka's."""
    return clipped(path.removeprefix(CONFIG_PREFIX), 120) or '""'


def format_value(kind: str, path: str, value: FieldValue) -> FormattedValue:
    """Return a value as text."""
    raw = _summarise(kind, path, value) or _format_raw(value)
    if len(raw) > MAX_VALUE_LENGTH:
        raw = clipped(raw, MAX_VALUE_LENGTH)
        return FormattedValue(raw, raw)
    return FormattedValue(_format_human(kind, path, value), raw)


def _summarise(kind: str, path: str, value: FieldValue) -> str | None:
    return KINDS[kind].field(path).summarise(value) if kind in KINDS else None


def format_field(change: Change, field: FieldChange) -> Transition:
    """Return the values of a field before and after a change, as text."""
    kind = change.ref.kind
    match change:
        case Create():
            return set_first(kind, field.path, field.after)
        case Update() | Recreate():
            return _format_update(kind, field)
        case Delete():
            return Transition(format_value(kind, field.path, field.before), None)


def set_first(kind: str, path: str, value: FieldValue) -> Transition:
    """Return the value of a field of a new resource, as text."""
    return Transition(None, format_value(kind, path, value), *describe_field(kind, path, None, value))


def describe_field(
    kind: str, path: str, before: FieldValue, after: FieldValue
) -> tuple[str, tuple[str, ...]] | tuple[()]:
    """Return the kind's description of a change, as `Field.describe` does; empty without one."""
    # A record may contain resources of kinds that only later versions have.
    return (KINDS[kind].field(path).describe(before, after) if kind in KINDS else None) or ()


def _format_update(kind: str, field: FieldChange) -> Transition:
    """Return both values of an update; for an unset one, the effective default if it is known."""
    before = field.effective_before if field.before is None else field.before
    after = field.effective_after if field.after is None else field.after
    humans = [_format_human(kind, field.path, value) for value in (before, after)]
    raws = [_summarise(kind, field.path, value) or _format_raw(value) for value in (before, after)]
    if max(map(len, raws)) > MAX_VALUE_LENGTH:
        humans = raws = _clip_to_difference(*raws)
    # The texts would not show what changes.
    elif humans[0] == humans[1] and raws[0] != raws[1]:
        humans = raws
    old = FormattedValue(humans[0], raws[0], field.before is None and before is not None)
    new = FormattedValue(humans[1], raws[1], field.after is None and after is not None)
    if field.before is not None and (text := describe_field(kind, field.path, field.before, field.after)):
        return Transition(old, new, *text)
    return Transition(old, new, _describe_same_effect(old, new))


def _describe_same_effect(old: FormattedValue, new: FormattedValue) -> str | None:
    """Describe a change that leaves the effective value as it is; None for any other."""
    if old.raw != new.raw or old.inherited == new.inherited:
        return None
    if old.inherited:
        return f"set explicitly to the default {FormattedValue(old.human, old.raw)}"
    return f"no longer set; the default is {FormattedValue(old.human, old.raw)}, too"


def _format_human(kind: str, path: str, value: FieldValue) -> str:
    """Return a value for people; configs are formatted by their kind."""
    raw = _summarise(kind, path, value) or _format_raw(value)
    if not isinstance(value, str) or not path.startswith(CONFIG_PREFIX):
        return raw
    keys = config_keys(KINDS[kind]) if kind in KINDS else {}
    text = readable(keys.get(path.removeprefix(CONFIG_PREFIX)), value)
    return raw if text == value else escape_text(text)


def _format_raw(value: FieldValue) -> str:
    """Return the raw value; in quotes if it is empty, padded, or could be mistaken for our own words."""
    if value is None:
        return UNSET
    text = escape_text(str(value))
    # A value such as `(unset)` or `default 7d` would be read as a remark of the report.
    odd = not text or text != text.strip() or text.startswith(("(", '"', _DEFAULT))
    return f'"{text}"' if odd and isinstance(value, str) else text


def _clip_to_difference(before: str, after: str) -> list[str]:
    """Return both values clipped to where they differ, as their beginnings may be equal."""
    # The replicas of a large topic may be equal for thousands of characters.
    same = next((i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), None)
    start = max(0, (min(len(before), len(after)) if same is None else same) - _LEAD)
    lead = "…" if start else ""
    return [lead + clipped(text[start:], MAX_VALUE_LENGTH) for text in (before, after)]


def action_of(change: Change) -> str:
    """Return the action of a change, by the word that every format uses."""
    match change:
        case Create():
            return "create"
        case Update():
            return "update"
        case Delete():
            return "delete"
        case Recreate():
            return "recreate"


def fields_of(change: Change) -> tuple[FieldChange, ...]:
    """Return the fields of a change in natural order; a create's have no before, a delete's no after.

    These have no risk of their own: the risk of a create, a delete or a recreate is the change's.
    """
    match change:
        case Create(state=state):
            order = field_order(KINDS[change.ref.kind])
            return tuple(FieldChange(path, None, state[path]) for path in sorted(state, key=order))
        case Update(fields=fields):
            return fields
        case Delete(state=state):
            order = field_order(KINDS[change.ref.kind])
            return tuple(FieldChange(path, state[path], None) for path in sorted(state, key=order))
        case Recreate(before=before, state=state):
            order = field_order(KINDS[change.ref.kind])
            paths = sorted({**before, **state}, key=order)
            return tuple(FieldChange(path, before.get(path), state.get(path)) for path in paths)


def list_differing(change: Change) -> tuple[FieldChange, ...]:
    """Return the fields of a change without those that a recreated resource has again."""
    field_of = KINDS[change.ref.kind].field
    return tuple(
        field
        for field in fields_of(change)
        if not (isinstance(change, Recreate) and field_of(field.path).equal(field.before, field.after))
    )


def is_deferred(planned: PlannedChange) -> bool:
    """Return whether a field is shown but not applied yet, of a change that is not refused."""
    return planned.status is not Status.REFUSED and any(
        field.deferred is not None for field in fields_of(planned.change)
    )
