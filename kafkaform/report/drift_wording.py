"""Drift in words, the same in every format; all of it printable."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkaform.core.groups import OFFSETS_PREFIX
from kafkaform.core.model import Risk, Update, assessments
from kafkaform.core.printable import clipped, printable
from kafkaform.core.wording import command, counted, short_commit
from kafkaform.inspect.drift import DriftCause, DriftVerdict, Form
from kafkaform.resources import KINDS
from kafkaform.resources.values import Worded, single, worded

if TYPE_CHECKING:
    from kafkaform.core.model import ResourceRef, Setting
    from kafkaform.inspect.drift import Drift, FieldDrift, ResourceDrift

_TIME = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)(?::\d\d(?:\.\d+)?)?Z", re.ASCII)
_OTHERWISE = "but not by a recorded apply"
_WORD = 120


@dataclass(frozen=True, slots=True)
class DriftCounts:
    """A drift in numbers.

    Attributes:
        drifted: Declared resources that are not as declared: all of the next three.
        differs: Those of which fields differ.
        missing: Those that are not there.
        present: Those that are there and should not be.
        fields: Fields that differ, a resource that is missing or should not be there counted once.
        undeclared: Configs among these that nothing declares.
        unchanged: Declared resources that are as declared.
        unmanaged: Resources that nobody declares; None where nobody looked for them.
        unknown: Declared resources of which the account cannot tell whether they exist.
    """

    drifted: int
    differs: int
    missing: int
    present: int
    fields: int
    undeclared: int
    unchanged: int
    unmanaged: int | None
    unknown: int


def tally(drift: Drift) -> DriftCounts:
    """Count what drifted."""
    forms = Counter(drifted.form for drifted in drift.resources)
    return DriftCounts(
        drifted=len(drift.resources),
        differs=forms[Form.DIFFERS],
        missing=forms[Form.MISSING],
        present=forms[Form.PRESENT],
        fields=sum(drifted.size for drifted in drift.resources),
        undeclared=sum(one.left_alone for drifted in drift.resources for one in drifted.fields),
        unchanged=drift.unchanged,
        unmanaged=None if drift.unmanaged is None else len(drift.unmanaged),
        unknown=len(drift.unknown),
    )


def headline(drift: Drift) -> str:
    """The verdict in a few words."""
    numbers = tally(drift)
    parts = []
    if numbers.drifted:
        parts.append(f"drift in {counted(numbers.drifted, 'resource')}")
    if drift.unmanaged_counts and numbers.unmanaged:
        parts.append(unmanaged_words(drift))
    if numbers.unknown:
        parts.insert(0, "incomplete")
    return ", ".join(parts) or "no drift"


def summary_sentence(drift: Drift) -> str:
    """The last line of a report: it says "No drift" only where nothing at all is left open."""
    numbers = tally(drift)
    asides = []
    if numbers.unknown:
        asides.append(f"{counted(numbers.unknown, 'resource')} not visible to this account")
    if numbers.unmanaged:
        asides.append(unmanaged_words(drift))
    also = f" Also {', '.join(asides)}." if asides else ""
    if not numbers.drifted:
        what = "all as declared" if not numbers.unknown else "as declared"
        return f"{_lead(drift)}: {counted(numbers.unchanged, 'declared resource')}, {what}.{also}"
    parts = []
    if numbers.differs:
        fields = counted(numbers.fields - numbers.missing - numbers.present, "field")
        verb = "differs" if numbers.differs == 1 else "differ"
        parts.append(f"{counted(numbers.differs, 'resource')} {verb} in {fields}")
    if numbers.missing:
        parts.append(f"{numbers.missing:,} missing")
    if numbers.present:
        parts.append(f"{numbers.present:,} still present")
    return f"{_lead(drift)}: {', '.join(parts)}; {numbers.unchanged:,} as declared.{also}"


def _lead(drift: Drift) -> str:
    match drift.verdict:
        case DriftVerdict.UNKNOWN:
            return "Incomplete"
        case DriftVerdict.DRIFT:
            return "Drift"
        case DriftVerdict.CLEAN:
            return "No drift"


def unmanaged_words(drift: Drift) -> str:
    """`2 unmanaged topics, 1 unmanaged group`."""
    kinds = Counter(ref.kind for ref in drift.unmanaged or ())
    return ", ".join(counted(number, f"unmanaged {KINDS[kind].noun}") for kind, number in kinds.items())


def form_words(drifted: ResourceDrift) -> str:
    """How a whole resource drifted; empty where only fields did."""
    match drifted.form:
        case Form.MISSING:
            return "missing"
        case Form.PRESENT:
            return "still present"
        case Form.DIFFERS:
            return ""


def live_words(ref: ResourceRef, one: FieldDrift) -> str:
    """A live value."""
    return str(worded(_update(ref, one), one.change).before)


def declared_words(ref: ResourceRef, one: FieldDrift) -> str:
    """What manifests say of a field."""
    if one.declared:
        return str(worded(_update(ref, one), one.change).after)
    if one.left_alone:
        return "(not declared)"
    return "(not declared; `undeclared: reset` removes it)"


def _update(ref: ResourceRef, one: FieldDrift) -> Update:
    return Update(ref, None, (one.change,))


def since_field(ref: ResourceRef, one: FieldDrift) -> str | None:
    """Since when a field is as it is, as far as the record of applies tells; None without a record."""
    past = one.past
    if past is None:
        return None
    if past.last is None:
        return "unknown: no recorded apply set it"
    when = _maybe(past.last)
    manifest = "the manifest has another value" if one.declared else "the manifest does not declare it"
    if past.cause is DriftCause.MANIFEST:
        return f"{when} set the live value; {manifest}"
    value = _set(ref, one, past.last)
    if past.cause is DriftCause.INTERRUPTED:
        changed = "" if one.change.after == past.last.value else "; the manifest has also changed"
        return f"{apply_words(past.last)} began to change it, and was interrupted{changed}"
    away = f"{_gone(one.change.path)} since, {_OTHERWISE}"
    if one.change.before is not None:
        away = f"changed since, {_OTHERWISE}"
    both = "; the manifest has also changed" if past.cause is DriftCause.BOTH else ""
    source = f"; the live value was set by {apply_words(past.source)}" if past.source else ""
    return f"{when} {value}; {away}{both}{source}"


def since_whole(drifted: ResourceDrift) -> str | None:
    """Since when a resource is missing, or there; None without a record."""
    past = drifted.past
    if past is None:
        return None
    missing = drifted.form is Form.MISSING
    if past.cause is DriftCause.UNRECORDED:
        return "unknown: no recorded apply created it"
    if past.last is None:
        deleted = f"an apply deleted it ({printable(command('history', str(drifted.ref)))})"
        return f"{deleted}; {'the manifest declares it' if missing else f'created again since, {_OTHERWISE}'}"
    if past.cause is DriftCause.CLUSTER:
        gone = KINDS[drifted.ref.kind].endings
        return f"{apply_words(past.last)} created or changed it; {gone} since, {_OTHERWISE}"
    when = _maybe(past.last)
    if missing:
        return f"{when} deleted it; the manifest declares it"
    return f"{when} created or changed it; the manifest declares state: absent"


def risks(drifted: ResourceDrift) -> tuple[str, ...]:
    """What restoring the cluster would do besides, where that is not harmless."""
    planned = drifted.planned
    if planned is None:
        return ()
    risky = [j for j in assessments(planned.change) if j.risk is not Risk.SAFE and j.reason]
    return tuple(f"{j.risk.label}: {j.reason}" for j in risky if j.reason != planned.reason)


def apply_words(setting: Setting) -> str:
    """Which apply it was: `an apply of 2026-11-03 12:00 UTC by alice (commit 1a2b3c4d5e6f)`."""
    time = _TIME.fullmatch(setting.at)
    at = f"{time[1]} {time[2]} UTC" if time else clipped(setting.at, _WORD)
    commit = f" (commit {clipped(short_commit(setting.commit), _WORD)})" if setting.commit else ""
    return f"an apply of {at} by {clipped(setting.who, _WORD)}{commit}"


def _maybe(setting: Setting) -> str:
    """Which apply it was, before a verb; one without a known result may have done it."""
    when = apply_words(setting)
    return when if setting.certain else f"{when}, whose result is not known, may have"


def _gone(path: str) -> str:
    return "expired or removed" if path.startswith(OFFSETS_PREFIX) else "removed"


def _set(ref: ResourceRef, one: FieldDrift, setting: Setting) -> str:
    if setting.value is None:
        return "did not set it"
    shown: Worded = single(ref.kind, one.change.path, setting.value)
    return f"set {printable(shown.short)}"
