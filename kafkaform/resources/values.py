"""How names and values of fields are worded, the same in every format; all of it printable.

One view of the three kinds of change, for every format: an action, and fields with before and after.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkaform.core.kafka_configs import readable
from kafkaform.core.model import (
    CONFIG_PREFIX,
    Create,
    Delete,
    FieldChange,
    Update,
)
from kafkaform.core.printable import clipped, printable
from kafkaform.resources import KINDS

if TYPE_CHECKING:
    from kafkaform.core.model import Change, FieldValue, PlannedChange


UNSET = "(unset)"
LONGEST = 240
"""The most characters that a report shows of one value; JSON has the whole."""
_LEAD = 24
_DEFAULT = "default "


@dataclass(frozen=True, slots=True)
class Worded:
    """One value: as people read it, as Kafka has it, and whether it is only inherited."""

    human: str
    raw: str
    inherited: bool = False

    @property
    def short(self) -> str:
        """Without the raw value, unless it takes that to be exact."""
        return f"{_DEFAULT if self.inherited else ''}{self.human}"

    @property
    def has_raw(self) -> bool:
        """Whether the raw value is a part of what people read."""
        return self.human == self.raw or self.human.endswith(f" ({self.raw})")

    def __str__(self) -> str:
        return self.short if self.has_raw else f"{self.short} ({self.raw})"


@dataclass(frozen=True, slots=True)
class Transition:
    """A field's change in words; there is no before in a create, and no after in a delete.

    Attributes:
        before: The value before.
        after: The value afterwards.
        told: What happens, where the values say it less well.
        each: For replicas, the same of each partition, those alike together.
    """

    before: Worded | None
    after: Worded | None
    told: str | None = None
    each: tuple[str, ...] = ()

    @property
    def sides(self) -> tuple[Worded, ...]:
        """Before and after, as far as there are."""
        return tuple([side for side in (self.before, self.after) if side is not None])

    @property
    def short(self) -> str:
        """Without raw values: `7d → 30d`."""
        return self.told or " → ".join([side.short for side in self.sides])

    @property
    def raw(self) -> str | None:
        """The raw values, `604800000 → 2592000000`; None if people read them anyway."""
        if self.told:
            return None
        converted = [side for side in self.sides if side.human != side.raw]
        if not converted or any(side.has_raw for side in converted):
            return None
        return " → ".join([side.raw for side in self.sides])

    def __str__(self) -> str:
        raw = self.raw
        return f"{self.short} ({raw})" if raw else self.short


def label(path: str) -> str:
    """The name of a field: a config goes by Kafka's own name."""
    return clipped(path.removeprefix(CONFIG_PREFIX), 120) or '""'


def single(kind: str, path: str, value: FieldValue) -> Worded:
    """One value on its own."""
    raw = _raw(value)
    if len(raw) > LONGEST:
        raw = clipped(raw, LONGEST)
        return Worded(raw, raw)
    return Worded(_human(kind, path, value), raw)


def worded(change: Change, field: FieldChange) -> Transition:
    """What a field of a change goes from and to."""
    kind = change.ref.kind
    match change:
        case Create():
            return set_first(kind, field.path, field.after)
        case Update():
            return _between(kind, field)
        case Delete():
            return Transition(single(kind, field.path, field.before), None)


def set_first(kind: str, path: str, value: FieldValue) -> Transition:
    """The value that a field of a new resource gets."""
    return Transition(None, single(kind, path, value), *described(kind, path, None, value))


def described(
    kind: str, path: str, before: FieldValue, after: FieldValue
) -> tuple[str, tuple[str, ...]] | tuple[()]:
    """See `Kind.described`; empty where it says nothing."""
    # A record may hold resources of a kind that only a later version knows.
    return (KINDS[kind].described(path, before, after) if kind in KINDS else None) or ()


def _between(kind: str, field: FieldChange) -> Transition:
    """Both sides of an update; one that is unset shows the default that is in force then, where known."""
    before = field.effective_before if field.before is None else field.before
    after = field.effective_after if field.after is None else field.after
    humans = [_human(kind, field.path, value) for value in (before, after)]
    raws = [_raw(value) for value in (before, after)]
    if max(map(len, raws)) > LONGEST:
        humans = raws = _around_difference(*raws)
    elif humans[0] == humans[1] and raws[0] != raws[1]:
        humans = raws
    old = Worded(humans[0], raws[0], field.before is None and before is not None)
    new = Worded(humans[1], raws[1], field.after is None and after is not None)
    if field.before is not None and (told := described(kind, field.path, field.before, field.after)):
        return Transition(old, new, *told)
    return Transition(old, new, _same_effect(old, new))


def _same_effect(old: Worded, new: Worded) -> str | None:
    """What is said of a change after which the same value is in force."""
    if old.raw != new.raw or old.inherited == new.inherited:
        return None
    if old.inherited:
        return f"set explicitly to the default {Worded(old.human, old.raw)}"
    return f"no longer set; the default is {Worded(old.human, old.raw)}, too"


def _human(kind: str, path: str, value: FieldValue) -> str:
    """The one place that knows who words config values."""
    raw = _raw(value)
    if not isinstance(value, str) or not path.startswith(CONFIG_PREFIX):
        return raw
    keys = KINDS[kind].configs() if kind in KINDS else {}
    shown = readable(keys.get(path.removeprefix(CONFIG_PREFIX)), value)
    return raw if shown == value else printable(shown)


def _raw(value: FieldValue) -> str:
    """The value itself; in quotes where it could be taken for nothing, for a word of ours or for a gap."""
    if value is None:
        return UNSET
    text = printable(str(value))
    odd = not text or text != text.strip() or text.startswith(("(", '"', _DEFAULT))
    return f'"{text}"' if odd and isinstance(value, str) else text


def _around_difference(before: str, after: str) -> list[str]:
    """Both values from shortly before the place where they part, which their beginnings may not show."""
    same = next((i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), None)
    start = max(0, (min(len(before), len(after)) if same is None else same) - _LEAD)
    lead = "…" if start else ""
    return [lead + clipped(text[start:], LONGEST) for text in (before, after)]


def action_of(change: Change) -> str:
    """What a change does, in the word used by every format."""
    match change:
        case Create():
            return "create"
        case Update():
            return "update"
        case Delete():
            return "delete"


def fields_of(change: Change) -> tuple[FieldChange, ...]:
    """The fields of a change; a create's have no before and a delete's no after, in natural order.

    Those carry no judgement of their own: the risk of a create or a delete is the change's.
    """
    match change:
        case Create(state=state):
            order = KINDS[change.ref.kind].field_order
            return tuple(FieldChange(path, None, state[path]) for path in sorted(state, key=order))
        case Update(fields=fields):
            return fields
        case Delete(state=state):
            order = KINDS[change.ref.kind].field_order
            return tuple(FieldChange(path, state[path], None) for path in sorted(state, key=order))


def is_deferred(planned: PlannedChange) -> bool:
    """Whether any field of the change is shown but not applied yet."""
    return any(f.deferred is not None for f in fields_of(planned.change))
