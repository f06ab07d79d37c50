"""Equal and similar changes of several resources as one entry: the reason once, every resource by name.

Two changes are equal if a report words them the same except for the resource's name, the place of its
manifest, and amounts such as the size of its data. In the wording of several, NAME stands for each name.
Updates are similar if they also differ in numbers: the values of the same fields, and what follows from
them. The numbers stand beside the names; VARIES replaces them in the common wording.
"""

from __future__ import annotations

import re
from itertools import compress
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from kafkaform.core.model import Create, Delete, Recreate, Status, Update, assessments
from kafkaform.core.printable import clipped
from kafkaform.core.values import Value, replace
from kafkaform.core.wording import MAX_LISTED, counted
from kafkaform.resources import KINDS, consent
from kafkaform.resources.values import Transition, action_of, format_field, label, list_differing

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from kafkaform.core.model import Change, FieldChange, ResourceRef, RiskAssessment
    from kafkaform.core.plans import PlannedChange

_T = TypeVar("_T")
_Rewrite: TypeAlias = "Callable[[str], str]"

NAME = "NAME"
"""The placeholder for the name of each resource."""
VARIES = "…"
"""The placeholder for a number that differs between resources."""
_AMOUNT = "the amount beside its name"
_ID = "TOPIC-ID"
_MAX_NAME_LENGTH = 280
_DIGITS = r"[\w.]*\d(?:[\w.,]*\w)?"
# The lookbehind keeps it out of the middle of names: in orders-2, the 2 is part of the name.
_NUMBER = re.compile(rf"(?<![\w.-]){_DIGITS}(?: {_DIGITS})*(?: %)?")
"""Numbers with their units, as in 7d 6h."""


class Entry(Value):
    """One change, or equal changes of several resources.

    Attributes:
        shown: The change as worded for all of them.
        figures: The amounts in which each change differs, such as the size of its data; often empty.
        varied: The fields whose values differ and are among the figures.
    """

    changes: tuple[PlannedChange, ...]
    shown: PlannedChange
    figures: tuple[str, ...]
    varied: frozenset[str] = frozenset()

    @classmethod
    def create(cls, changes: Sequence[PlannedChange]) -> Entry:
        """Return an entry without figures."""
        return cls(tuple(changes), changes[0], ("",) * len(changes))

    @property
    def is_long(self) -> bool:
        """True if the resources have no line each: there are too many, or one layer is the reason for all."""
        return len(self.changes) > (1 if self.shown.layer else MAX_LISTED)

    @property
    def subject(self) -> str:
        """The resource, or the count of several with their layer: `profile events: 20 topics`."""
        layer = f"{self.shown.layer.replace('/', ' ')}: " if self.shown.layer and self.is_long else ""
        return layer + describe_subject([change.ref for change in self.changes])

    @property
    def location(self) -> str:
        """The file and line of a single resource, or the file that declares all of them."""
        locations = [change.location for change in self.changes if change.location is not None]
        if len(self.changes) == 1:
            return f"{locations[0].file}:{locations[0].line}" if locations else ""
        if len(locations) < len(self.changes):
            return ""
        if len(set(locations)) == 1:
            return f"{locations[0].file}:{locations[0].line}"
        # One file for all still says where to look; several would be a list as long as that of the names.
        files = {location.file for location in locations}
        return files.pop() if len(files) == 1 else ""

    def transition(self, field: FieldChange) -> Transition:
        """Return the transition of a field of `shown`."""
        transition = format_field(self.shown.change, field)
        if field.path not in self.varied:
            return transition
        return replace(transition, text=VARIES if transition.text else "as listed", each=())

    def titles(self, *, short: bool = False) -> list[str]:
        """Return each resource, with its figure if it has one.

        Args:
            short: Leave out the kind, which `subject` has.
        """
        # Names are clipped one by one, so that a long one does not hide those after it.
        names = [change.ref.name if short else str(change.ref) for change in self.changes]
        return [
            clipped(name, _MAX_NAME_LENGTH) + (f" ({figure})" if figure else "")
            for name, figure in zip(names, self.figures, strict=True)
        ]

    def split(self, most: int) -> list[Entry]:
        """Return entries of at most so many changes."""
        return [
            replace(self, changes=self.changes[at : at + most], figures=self.figures[at : at + most])
            for at in range(0, len(self.changes), most)
        ]

    def allow_flags(self, hazards: Sequence[str]) -> tuple[str, str]:
        """Return the resources that the flags are for (empty for all of the entry), and the flags."""
        if self.is_long and self.shown.layer.startswith(consent.PROFILE):
            return "", consent.layer_flags(self.shown.layer, hazards)
        # The flags of dozens of resources would be pasted unread; a consent is to be given with a look at
        # each.
        if self.is_long:
            flags = [f"--allow {self.shown.ref.kind}/{NAME}:{hazard}" for hazard in hazards]
            return f"for each {NAME}", " ".join(flags)
        return "", " ".join(consent.allow_flags(change.ref, hazards) for change in self.changes)


def describe_subject(refs: Sequence[ResourceRef]) -> str:
    """Return the name of a single resource, or the count of several: `20 topics`."""
    if len(refs) == 1:
        return str(refs[0])
    kind = refs[0].kind  # a record of a later version may have a kind that this one lacks
    return counted(len(refs), KINDS[kind].words.collection.removesuffix("s") if kind in KINDS else kind)


def group_equal(items: Iterable[_T], key: Callable[[_T], Hashable]) -> list[list[_T]]:
    """Group items with equal keys, at the position of the first of them.

    Args:
        items: The items, in order.
        key: Returns what equal items have in common.
    """
    groups: dict[Hashable, list[_T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return [*groups.values()]


def equal_changes(
    changes: Iterable[PlannedChange], beside: Callable[[PlannedChange], Hashable] = lambda _: None
) -> list[Entry]:
    """Group equal changes, and similar ones where there are many.

    Args:
        changes: The changes, in order.
        beside: Returns what else a report prints of a change, such as its consents.
    """
    # Equal changes first: a group of them is then looked at only once when similar ones are searched.
    groups = group_equal(changes, lambda planned: (_equality_key(planned), beside(planned)))
    return _merge_similar([_equal_entry(group) for group in groups], beside)


def share_refusals(entries: Sequence[Entry], *, least: int | None) -> tuple[list[Entry], list[Entry]]:
    """Take the reason out of refused entries that share it.

    Args:
        least: The least number of entries that share a reason; None to leave each reason in its entry.

    Returns:
        An entry for each shared reason, with all changes that are refused for it; and the entries, which then
        only refer to it.
    """
    reasons = group_equal(
        [entry for entry in entries if entry.shown.status is Status.REFUSED and entry.shown.reason],
        lambda entry: (entry.shown.reason, entry.shown.remedy),
    )
    shared = [group for group in reasons if least is not None and len(group) >= least]
    referring = {id(entry) for group in shared for entry in group}
    return (
        [Entry.create([change for entry in group for change in entry.changes]) for group in shared],
        [
            replace(entry, shown=replace(entry.shown, reason="see above", remedy=None))
            if id(entry) in referring
            else entry
            for entry in entries
        ],
    )


def mask_name(text: str, name: str) -> str:
    """Replace the name with NAME where it is a whole word."""
    # Most texts do not contain the name, and this test is much cheaper than a pattern for each name.
    if name not in text:
        return text
    # A dot does not count as part of a name: it may end the sentence. A hyphen does: orders is not a word of
    # orders-dlq.
    return re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", lambda _: NAME, text)


def mask_identity(text: str, planned: PlannedChange) -> str:
    """Replace the name and the id of the resource of a change."""
    uid = None if isinstance(planned.change, Create) else planned.change.uid
    return mask_name(text.replace(uid, _ID) if uid else text, planned.ref.name)


def _equal_entry(group: Sequence[PlannedChange]) -> Entry:
    first = group[0]
    if len(group) == 1:
        return Entry.create(group)
    figures = ["; ".join(dict.fromkeys(_list_figures(planned.change))) for planned in group]
    # An amount that all share stays in the sentence: beside each name it would be noise.
    same = len(set(figures)) == 1
    shown = _rewrite(first, _rewriter(first, figures=not same))
    return Entry(tuple(group), shown, ("",) * len(group) if same else tuple(figures))


def _merge_similar(entries: Sequence[Entry], beside: Callable[[PlannedChange], Hashable]) -> list[Entry]:
    """Merge entries that differ only in numbers, if they have more than a few changes together."""
    # By identity: changes contain dicts, so entries cannot be hashed.
    merged: dict[int, list[Entry]] = {}
    for group in group_equal(entries, lambda entry: (_similarity_key(entry), beside(entry.changes[0]))):
        changes = [planned for entry in group for planned in entry.changes]
        # A few changes are easier to read with their own numbers in their own sentences.
        if (
            len(changes) > (1 if changes[0].layer else MAX_LISTED)
            and len({_equality_key(entry.changes[0]) for entry in group}) > 1
        ):
            # The entries of a group are replaced by one, at the place of the first of them.
            merged |= {id(entry): [] for entry in group}
            merged[id(group[0])] = [_similar_entry(changes)]
    return [merged_entry for entry in entries for merged_entry in merged.get(id(entry), [entry])]


def _similarity_key(entry: Entry) -> Hashable:
    """Return what similar changes have in common; only updates can be similar."""
    if not isinstance(entry.shown.change, Update):
        # A key that no other entry has.
        return id(entry)
    first = entry.changes[0]
    general = _rewrite(first, _rewriter(first, figures=True))
    general = _rewrite(general, lambda text: _NUMBER.sub(VARIES, text))
    transitions = ((field, format_field(general.change, field)) for field in list_differing(general.change))
    fields = tuple(
        (field.path, bool(shown.text), field.assessment, field.deferred) for field, shown in transitions
    )
    return (*_status_key(general), fields)


def _similar_entry(group: Sequence[PlannedChange]) -> Entry:
    """Return the entry of similar changes; numbers that all of them share stay in the sentences."""
    amounts = ["; ".join(dict.fromkeys(_list_figures(planned.change))) for planned in group]
    if len(set(amounts)) == 1:
        amounts = [""] * len(group)
    general = [
        _rewrite(planned, _rewriter(planned, figures=bool(amount)))
        for planned, amount in zip(group, amounts, strict=True)
    ]
    transitions = [
        {field.path: format_field(planned.change, field) for field in list_differing(planned.change)}
        for planned in general
    ]
    varied = [path for path in transitions[0] if len({str(row[path]) for row in transitions}) > 1]
    # A description in words has no two values to put beside a name; its numbers are found in the sentence.
    listed = [path for path in varied if not transitions[0][path].text]
    numbers = [_numbers_of(planned) for planned in general]
    # All have the same number of numbers: their wordings are equal but for these.
    differing = [len(set(column)) > 1 for column in zip(*numbers, strict=True)]
    figures = []
    for row, own_numbers, amount in zip(transitions, numbers, amounts, strict=True):
        values = [row[path].short for path in listed]
        # A number of a sentence that is also a value of a field would stand beside the name twice.
        known = {side.short for path in listed for side in row[path].sides}
        further_numbers = [number for number in compress(own_numbers, differing) if number not in known]
        if len(listed) > 1:
            values = [f"{label(path)} {value}" for path, value in zip(listed, values, strict=True)]
        figures.append(", ".join(filter(None, dict.fromkeys([*values, *further_numbers, amount]))))
    shown = _rewrite(general[0], _blanker(differing))
    return Entry(tuple(group), shown, tuple(figures), frozenset(varied))


def _numbers_of(planned: PlannedChange) -> list[str]:
    """Return the numbers in the wording of a change, in the order in which `_rewrite` visits them."""
    numbers: list[str] = []

    def collect(text: str) -> str:
        numbers.extend(_NUMBER.findall(text))
        return text

    _rewrite(planned, collect)
    return numbers


def _blanker(differing: Sequence[bool]) -> _Rewrite:
    """Return a function that replaces the numbers that differ with VARIES."""
    # The texts are visited in the order in which `_numbers_of` collected their numbers, so each flag meets
    # its own number.
    flags = iter(differing)
    return lambda text: _NUMBER.sub(lambda number: VARIES if next(flags) else number[0], text)


def _list_figures(change: Change) -> list[str]:
    return [assessment.figure for assessment in assessments(change) if assessment.figure]


def _rewriter(planned: PlannedChange, *, figures: bool) -> _Rewrite:
    own_figures = _list_figures(planned.change) if figures else []

    def rewrite(text: str) -> str:
        for figure in own_figures:
            text = text.replace(figure, _AMOUNT)
        return mask_identity(text, planned)

    return rewrite


def _rewrite(planned: PlannedChange, rewrite: _Rewrite) -> PlannedChange:
    change: Change
    match planned.change:
        case Create(assessment=assessment) | Delete(assessment=assessment) | Recreate(assessment=assessment):
            change = replace(planned.change, assessment=_rewrite_assessment(assessment, rewrite))
        case Update(fields=fields):
            reworded = tuple(
                replace(
                    field,
                    assessment=_rewrite_assessment(field.assessment, rewrite),
                    deferred=_rewrite_optional(field.deferred, rewrite),
                )
                for field in fields
            )
            change = replace(planned.change, fields=reworded)
    return replace(
        planned,
        change=change,
        reason=_rewrite_optional(planned.reason, rewrite),
        remedy=_rewrite_optional(planned.remedy, rewrite),
    )


def _rewrite_assessment(assessment: RiskAssessment, rewrite: _Rewrite) -> RiskAssessment:
    # Most assessments are safe and have no text; a plan may have many thousands of them.
    if not assessment.reason and assessment.remedy is None:
        return assessment
    return replace(
        assessment,
        reason=rewrite(assessment.reason),
        remedy=_rewrite_optional(assessment.remedy, rewrite),
        figure="",
    )


def _rewrite_optional(text: str | None, rewrite: _Rewrite) -> str | None:
    return rewrite(text) if text is not None else None


def _equality_key(planned: PlannedChange) -> Hashable:
    """Return all that a report prints of a change except the name, the place and the figures."""
    general = _rewrite(planned, _rewriter(planned, figures=True))
    fields = tuple(
        (
            field.path,
            str(shown),
            # Values are compared exactly, as two of them may read the same. A description in words is all
            # that is printed.
            () if shown.text else (field.before, field.after, field.effective_before, field.effective_after),
            field.assessment,
            field.deferred,
        )
        for field in list_differing(general.change)
        for shown in (format_field(general.change, field),)
    )
    return (*_status_key(general), assessments(general.change), fields)


def _status_key(planned: PlannedChange) -> tuple[Hashable, ...]:
    return (
        planned.ref.kind,
        action_of(planned.change),
        planned.status,
        planned.reason,
        planned.remedy,
        planned.origin,
        planned.earlier,
        planned.layer,
        # Only a change with a place in a manifest is offered a line for it.
        planned.location is None,
    )
