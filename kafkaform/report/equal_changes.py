"""Equal and similar changes of several resources as one entry: the reason once, every resource by name.

Two changes are equal if a report says the same of them but for the name of the resource, the place of its
manifest, and amounts such as the size of its data. In what is said of several, NAME stands for each name.
Many updates are similar if they differ in numbers, too: the values of the same fields, and what follows from
them. Those stand beside the names; VARIES has their place in what is said of all.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import compress
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from kafkaform.core.model import Create, Delete, Update, assessments
from kafkaform.core.printable import clipped
from kafkaform.core.wording import FEW, counted
from kafkaform.resources import KINDS, consent
from kafkaform.resources.values import action_of, fields_of, label, worded

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from kafkaform.core.model import Change, FieldChange, PlannedChange, ResourceRef, RiskAssessment
    from kafkaform.resources.values import Transition

_T = TypeVar("_T")
_Rewrite: TypeAlias = "Callable[[str], str]"

NAME = "NAME"
"""What stands for the name of each resource in what is said of several."""
VARIES = "…"
"""What stands for a number that differs, in what is said of several."""
VARIES = "…"
"""What stands for a number that differs, in what is said of several."""
_AMOUNT = "the amount beside its name"
_LONGEST = 280
_WORD = r"[\w.]*\d(?:[\w.,]*\w)?"
_NUMBER = re.compile(rf"(?<![\w.-]){_WORD}(?: {_WORD})*(?: %)?")
"""Numbers with their units, as in 7d 6h."""
_WORD = r"[\w.]*\d(?:[\w.,]*\w)?"
_NUMBER = re.compile(rf"(?<![\w.-]){_WORD}(?: {_WORD})*(?: %)?")
"""Numbers with their units, as in 7d 6h."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One change, or equal changes of several resources.

    Attributes:
        changes: The changes.
        shown: The change as it is worded for all of them.
        figures: For each change what differs in its reasons, such as the size of its data; mostly nothing.
        varied: The fields whose values differ, and stand among the figures.
    """

    changes: tuple[PlannedChange, ...]
    shown: PlannedChange
    figures: tuple[str, ...]
    varied: frozenset[str] = frozenset()

    @classmethod
    def of(cls, changes: Sequence[PlannedChange]) -> Entry:
        """An entry without figures."""
        return cls(tuple(changes), changes[0], ("",) * len(changes))

    @property
    def is_long(self) -> bool:
        """Whether it has too many resources for a line each."""
        return len(self.changes) > FEW

    @property
    def subject(self) -> str:
        """The resource, or how many there are of which kind: `20 topics`."""
        return subject_of([change.ref for change in self.changes])

    @property
    def place(self) -> str:
        """The manifest of a single resource with its line, or the file in which all are declared."""
        places = [change.location for change in self.changes if change.location is not None]
        if len(self.changes) == 1:
            return f"{places[0].file}:{places[0].line}" if places else ""
        if len(places) < len(self.changes):
            return ""
        if len(set(places)) == 1:
            return f"{places[0].file}:{places[0].line}"
        files = {place.file for place in places}
        return files.pop() if len(files) == 1 else ""

    def transition(self, field: FieldChange) -> Transition:
        """Return what a field of `shown` goes from and to."""
        transition = worded(self.shown.change, field)
        if field.path not in self.varied:
            return transition
        return replace(transition, told=VARIES if transition.told else "as listed", each=())

    def titles(self, *, short: bool = False) -> list[str]:
        """Each resource, with its figure where it has one.

        Args:
            short: Leave out the kind, which `subject` names.
        """
        names = [change.ref.name if short else str(change.ref) for change in self.changes]
        return [
            clipped(name, _LONGEST) + (f" ({figure})" if figure else "")
            for name, figure in zip(names, self.figures, strict=True)
        ]

    def allow_flags(self, hazards: Sequence[str]) -> tuple[str, str]:
        """Whom flags of the command line consent for, empty for all of the entry, and the flags."""
        if self.is_long:
            flags = [f"--allow {self.shown.ref.kind}/{NAME}:{hazard}" for hazard in hazards]
            return f"for each {NAME}", " ".join(flags)
        return "", " ".join(consent.allow_flags(change.ref, hazards) for change in self.changes)


def subject_of(refs: Sequence[ResourceRef]) -> str:
    """The resource that is alone, or how many of a kind there are: `20 topics`."""
    if len(refs) == 1:
        return str(refs[0])
    kind = refs[0].kind  # that of a record may be one that only a later version has
    return counted(len(refs), KINDS[kind].collection.removesuffix("s") if kind in KINDS else kind)


def gathered(
    things: Iterable[_T], key: Callable[[_T], Hashable], *, most: int | None = None
) -> list[list[_T]]:
    """Gather things with equal keys, at the place of the first of them.

    Args:
        things: The things, in order.
        key: What equal ones have in common.
        most: How many are gathered at most; None: any number.
    """
    groups: list[list[_T]] = []
    open_groups: dict[Hashable, list[_T]] = {}
    for thing in things:
        same = key(thing)
        group = open_groups.get(same)
        if group is None or len(group) == most:
            group = open_groups[same] = []
            groups.append(group)
        group.append(thing)
    return groups


def equal_changes(
    changes: Iterable[PlannedChange],
    beside: Callable[[PlannedChange], Hashable] = lambda _: None,
    *,
    most: int | None = None,
) -> list[Entry]:
    """Gather equal changes, and those of many that are similar.

    Args:
        changes: The changes, in order.
        beside: What a report says of a change besides, such as its consents.
        most: How many changes an entry has at most; None: any number.
    """
    groups = gathered(changes, lambda planned: (_key(planned), beside(planned)), most=most)
    return _merge_similar([_entry(group) for group in groups], beside, most)


def without_name(text: str, name: str) -> str:
    """The text with NAME where it has the name as a word of its own."""
    if name not in text:
        return text
    return re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", lambda _: NAME, text)


def _entry(group: Sequence[PlannedChange]) -> Entry:
    first = group[0]
    if len(group) == 1:
        return Entry.of(group)
    figures = ["; ".join(dict.fromkeys(_figures(planned.change))) for planned in group]
    same = len(set(figures)) == 1
    shown = _reworded(first, _rewriter(first, figures=not same))
    return Entry(tuple(group), shown, ("",) * len(group) if same else tuple(figures))


def _merge_similar(
    entries: Sequence[Entry], beside: Callable[[PlannedChange], Hashable], most: int | None
) -> list[Entry]:
    """Make one entry of those that differ in numbers only, where it is one of more than a few changes."""
    merged: dict[int, list[Entry]] = {}
    for group in gathered(entries, lambda entry: (_shape(entry), beside(entry.changes[0]))):
        changes = [planned for entry in group for planned in entry.changes]
        if len(changes) > FEW and len({_key(entry.changes[0]) for entry in group}) > 1:
            merged |= {id(entry): [] for entry in group}
            step = most or len(changes)
            chunks = (changes[start : start + step] for start in range(0, len(changes), step))
            merged[id(group[0])] = [*map(_similar_entry, chunks)]
    return [one for entry in entries for one in merged.get(id(entry), [entry])]


def _shape(entry: Entry) -> Hashable:
    """Return what similar changes have in common; nothing is similar to what is no update."""
    if not isinstance(entry.shown.change, Update):
        return id(entry)
    first = entry.changes[0]
    general = _reworded(_reworded(first, _rewriter(first, figures=True)), _template)
    transitions = ((field, worded(general.change, field)) for field in fields_of(general.change))
    fields = tuple(
        (field.path, bool(shown.told), field.assessment, field.deferred) for field, shown in transitions
    )
    return (*_status(general), fields)


def _template(text: str) -> str:
    return _NUMBER.sub(VARIES, text)


def _similar_entry(group: Sequence[PlannedChange]) -> Entry:
    """Return the entry of similar changes; numbers that all of them have stay in the sentences."""
    amounts = ["; ".join(dict.fromkeys(_figures(planned.change))) for planned in group]
    if len(set(amounts)) == 1:
        amounts = [""] * len(group)
    general = [
        _reworded(planned, _rewriter(planned, figures=bool(amount)))
        for planned, amount in zip(group, amounts, strict=True)
    ]
    transitions = [
        {field.path: worded(planned.change, field) for field in fields_of(planned.change)}
        for planned in general
    ]
    varied = [path for path in transitions[0] if len({str(row[path]) for row in transitions}) > 1]
    listed = [path for path in varied if not transitions[0][path].told]
    numbers = [_numbers_of(planned) for planned in general]
    differing = [len(set(column)) > 1 for column in zip(*numbers, strict=True)]
    figures = []
    for row, own, amount in zip(transitions, numbers, amounts, strict=True):
        values = [row[path].short for path in listed]
        known = {side.short for path in listed for side in row[path].sides}
        more = [number for number in compress(own, differing) if number not in known]
        if len(listed) > 1:
            values = [f"{label(path)} {value}" for path, value in zip(listed, values, strict=True)]
        figures.append(", ".join(filter(None, dict.fromkeys([*values, *more, amount]))))
    shown = _reworded(general[0], _blanker(differing))
    return Entry(tuple(group), shown, tuple(figures), frozenset(varied))


def _numbers_of(planned: PlannedChange) -> list[str]:
    """Return the numbers in all that is said of a change, in the order in which `_reworded` meets them."""
    numbers: list[str] = []

    def collect(text: str) -> str:
        numbers.extend(_NUMBER.findall(text))
        return text

    _reworded(planned, collect)
    return numbers


def _blanker(differing: Sequence[bool]) -> _Rewrite:
    """Return what replaces those of the numbers that differ."""
    left = iter(differing)
    return lambda text: _NUMBER.sub(lambda number: VARIES if next(left) else number[0], text)


def _figures(change: Change) -> list[str]:
    return [assessment.figure for assessment in assessments(change) if assessment.figure]


def _rewriter(planned: PlannedChange, *, figures: bool) -> _Rewrite:
    own = _figures(planned.change) if figures else []

    def rewrite(text: str) -> str:
        for figure in own:
            text = text.replace(figure, _AMOUNT)
        return without_name(text, planned.ref.name)

    return rewrite


def _reworded(planned: PlannedChange, rewrite: _Rewrite) -> PlannedChange:
    change: Change
    match planned.change:
        case Create(assessment=assessment) | Delete(assessment=assessment):
            change = replace(planned.change, assessment=_reassessed(assessment, rewrite))
        case Update(fields=fields):
            reworded = tuple(
                replace(
                    field,
                    assessment=_reassessed(field.assessment, rewrite),
                    deferred=_rewritten(field.deferred, rewrite),
                )
                for field in fields
            )
            change = replace(planned.change, fields=reworded)
    return replace(
        planned,
        change=change,
        reason=_rewritten(planned.reason, rewrite),
        remedy=_rewritten(planned.remedy, rewrite),
    )


def _reassessed(assessment: RiskAssessment, rewrite: _Rewrite) -> RiskAssessment:
    if not assessment.reason and assessment.remedy is None:
        return assessment
    return replace(
        assessment,
        reason=rewrite(assessment.reason),
        remedy=_rewritten(assessment.remedy, rewrite),
        figure="",
    )


def _rewritten(text: str | None, rewrite: _Rewrite) -> str | None:
    return rewrite(text) if text is not None else None


def _key(planned: PlannedChange) -> Hashable:
    """All that a report says of a change, but for the name, the place and the figures."""
    general = _reworded(planned, _rewriter(planned, figures=True))
    fields = tuple(
        (
            field.path,
            str(shown),
            () if shown.told else (field.before, field.after, field.effective_before, field.effective_after),
            field.assessment,
            field.deferred,
        )
        for field in fields_of(general.change)
        for shown in (worded(general.change, field),)
    )
    return (*_status(general), assessments(general.change), fields)


def _status(planned: PlannedChange) -> tuple[Hashable, ...]:
    return (
        planned.ref.kind,
        action_of(planned.change),
        planned.status,
        planned.reason,
        planned.remedy,
        planned.origin,
        planned.earlier,
        planned.location is None,
    )
