"""How names and values of fields are worded, the same in every format; all of it printable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkaform.kafka_configs import group_configs, human, topic_configs
from kafkaform.kinds.topic.operations import PLACEMENT
from kafkaform.layout import parse_assignment
from kafkaform.model import CONFIG_PREFIX, Create, Delete, Update
from kafkaform.replica_changes import assignment_changes
from kafkaform.report.printable import clipped, printable

if TYPE_CHECKING:
    from kafkaform.model import Change, FieldChange, FieldValue

UNSET = "(unset)"
LONGEST = 240
"""The most characters that a report shows of one value; JSON has the whole."""
SHORT_PLACEMENT = 45
"""Up to so many characters of both sides, all replicas are shown on the line of the field."""
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
        """Without the raw value."""
        return f"{_DEFAULT if self.inherited else ''}{self.human}"

    def __str__(self) -> str:
        return self.short if self.human == self.raw else f"{self.short} ({self.raw})"


@dataclass(frozen=True, slots=True)
class Transition:
    """A field's change in words; there is no before in a create, and no after in a delete.

    Attributes:
        before: The value before.
        after: The value afterwards.
        told: What happens, where the values say it less well.
    """

    before: Worded | None
    after: Worded | None
    told: str | None = None

    @property
    def sides(self) -> tuple[Worded, ...]:
        """Before and after, as far as there are."""
        return tuple(side for side in (self.before, self.after) if side is not None)

    @property
    def short(self) -> str:
        """Without raw values: `7d → 30d`."""
        return self.told or " → ".join(side.short for side in self.sides)

    @property
    def raw(self) -> str | None:
        """The raw values, `604800000 → 2592000000`; None if they are what people read anyway."""
        if self.told or all(side.human == side.raw for side in self.sides):
            return None
        return " → ".join(side.raw for side in self.sides)

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
            return Transition(None, single(kind, field.path, field.after))
        case Update():
            return _between(kind, field)
        case Delete():
            return Transition(single(kind, field.path, field.before), None)


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
    return Transition(
        Worded(humans[0], raws[0], field.before is None and before is not None),
        Worded(humans[1], raws[1], field.after is None and after is not None),
        _told(kind, field),
    )


def _told(kind: str, field: FieldChange) -> str | None:
    """What happens to replicas, where there are too many to be shown on one line."""
    if kind != "Topic" or field.path != PLACEMENT or field.before is None or field.after is None:
        return None
    if len(str(field.before)) + len(str(field.after)) <= SHORT_PLACEMENT:
        return None
    return str(assignment_changes(*(parse_assignment(str(side)) for side in (field.before, field.after))))


def _human(kind: str, path: str, value: FieldValue) -> str:
    """The one place that knows who words config values."""
    raw = _raw(value)
    if not isinstance(value, str) or not path.startswith(CONFIG_PREFIX):
        return raw
    keys = topic_configs() if kind == "Topic" else group_configs()
    shown = human(keys.get(path.removeprefix(CONFIG_PREFIX)), value)
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
