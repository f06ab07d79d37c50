"""The sentences on drift that all formats share; all of them printable."""

from __future__ import annotations

import re
from collections import Counter

from kafkaform.core.model import CONFIG_PREFIX, ResourceRef, Risk, Setting, Update, assessments
from kafkaform.core.printable import clipped, printable
from kafkaform.core.values import Value
from kafkaform.core.wording import command, counted, short_commit
from kafkaform.inspect.drift import Drift, DriftCause, DriftVerdict, FieldDrift, Form, ResourceDrift
from kafkaform.resources import KINDS
from kafkaform.resources.values import FormattedValue, format_field, format_value

# The record is text that others can write: a time of another form is shown as it is, clipped. ASCII, as \d
# would match digits of every script.
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)(?::\d\d(?:\.\d+)?)?Z", re.ASCII)
_OTHERWISE = "but not by a recorded apply"
_NO_AUTHOR = "Kafka keeps no author; the record begins with the first apply"
_NEVER_SHOWN = "and no reading has shown it"
_MAX_DETAIL_LENGTH = 120


class DriftCounts(Value):
    """The counts of a drift report.

    Attributes:
        drifted: Declared resources that are not as declared; the sum of the next three.
        differs: Resources with fields that differ.
        missing: Resources that do not exist.
        present: Resources that exist and should not.
        fields: Fields that differ; a missing or present resource counts as one.
        undeclared: Fields among these that nothing declares.
        unchanged: Declared resources that are as declared.
        unmanaged: Resources that nothing declares; None if they were not listed.
        unknown: Declared resources that are not visible to the account.
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


def count_drift(drift: Drift) -> DriftCounts:
    """Count drifted resources and fields."""
    forms = Counter(resource.form for resource in drift.resources)
    return DriftCounts(
        drifted=len(drift.resources),
        differs=forms[Form.DIFFERS],
        missing=forms[Form.MISSING],
        present=forms[Form.PRESENT],
        fields=sum(resource.size for resource in drift.resources),
        undeclared=sum(field.left_alone for resource in drift.resources for field in resource.fields),
        unchanged=drift.unchanged,
        unmanaged=None if drift.unmanaged is None else len(drift.unmanaged),
        unknown=len(drift.unknown),
    )


def headline(drift: Drift) -> str:
    """Return the verdict in a few words."""
    counts = count_drift(drift)
    parts = []
    if counts.drifted:
        parts.append(f"drift in {counted(counts.drifted, 'resource')}")
    if drift.unmanaged_counts and counts.unmanaged:
        parts.append(count_unmanaged(drift))
    # First, as it limits all that follows.
    if counts.unknown:
        parts.insert(0, "incomplete")
    return ", ".join(parts) or "no drift"


def summary_sentence(drift: Drift) -> str:
    """Return the last line of a report: "No drift" only if every resource was compared."""
    counts = count_drift(drift)
    additions = []
    if counts.unknown:
        additions.append(f"{counted(counts.unknown, 'resource')} not visible to this account")
    if counts.unmanaged:
        additions.append(count_unmanaged(drift))
    also = f" Also {', '.join(additions)}." if additions else ""
    if not counts.drifted:
        state = "all as declared" if not counts.unknown else "as declared"
        return f"{_verdict_words(drift)}: {counted(counts.unchanged, 'declared resource')}, {state}.{also}"
    parts = []
    if counts.differs:
        # A resource that is missing or should not exist counts as one field.
        fields = counted(counts.fields - counts.missing - counts.present, "field")
        verb = "differs" if counts.differs == 1 else "differ"
        parts.append(f"{counted(counts.differs, 'resource')} {verb} in {fields}")
    if counts.missing:
        parts.append(f"{counts.missing:,} missing")
    if counts.present:
        parts.append(f"{counts.present:,} still present")
    return f"{_verdict_words(drift)}: {', '.join(parts)}; {counts.unchanged:,} as declared.{also}"


def _verdict_words(drift: Drift) -> str:
    match drift.verdict:
        case DriftVerdict.UNKNOWN:
            return "Incomplete"
        case DriftVerdict.DRIFT:
            return "Drift"
        case DriftVerdict.CLEAN:
            return "No drift"


def count_unmanaged(drift: Drift) -> str:
    """Count unmanaged resources: `2 unmanaged topics, 1 unmanaged group`."""
    kinds = Counter(ref.kind for ref in drift.unmanaged or ())
    return ", ".join(counted(count, f"unmanaged {KINDS[kind].words.noun}") for kind, count in kinds.items())


def describe_form(drifted: ResourceDrift) -> str:
    """Return the drift of a whole resource; empty if only fields differ."""
    match drifted.form:
        case Form.MISSING:
            return "missing"
        case Form.PRESENT:
            return "still present"
        case Form.DIFFERS:
            return ""


def format_live(ref: ResourceRef, field: FieldDrift) -> str:
    """Format the live value of a field."""
    return str(format_field(_wrap_change(ref, field), field.change).before)


def format_declared(ref: ResourceRef, field: FieldDrift) -> str:
    """Format the declared value of a field."""
    if field.declared:
        return str(format_field(_wrap_change(ref, field), field.change).after)
    if field.left_alone:
        return "(not declared)"
    by = "`undeclared: reset`" if field.change.path.startswith(CONFIG_PREFIX) else "an apply"
    return f"(not declared; {by} removes it)"


def _wrap_change(ref: ResourceRef, field: FieldDrift) -> Update:
    return Update(ref, None, (field.change,))


def describe_field_since(ref: ResourceRef, field: FieldDrift) -> str | None:
    """Describe since when a field differs, by the record of applies; None without a record."""
    history = field.history
    if history is None:
        return None
    if history.last is None:
        return f"unknown: no recorded apply set it ({_NO_AUTHOR})"
    apply = _subject_words(history.last)
    manifest = "the manifest has another value" if field.declared else "the manifest does not declare it"
    if history.cause is DriftCause.MANIFEST:
        return f"{apply} set the live value; {manifest}"
    value = _set_words(ref, field, history.last)
    if history.cause is DriftCause.INTERRUPTED:
        changed = "" if field.change.after == history.last.value else "; the manifest has also changed"
        return f"{apply_words(history.last)} began to change it, and was interrupted{changed}"
    if history.cause is DriftCause.NOT_VISIBLE:
        changed = "" if field.change.after == history.last.value else "; the manifest has also changed"
        sent = format_value(ref.kind, field.change.path, history.last.value)
        return f"{apply_words(history.last)} sent {printable(sent.short)}, {_NEVER_SHOWN}{changed}"
    changed_field = KINDS[ref.kind].field(field.change.path)
    # Without a live value the field was removed, and the kind has the word for that.
    later_change = (
        f"{changed_field.ending} since, {_OTHERWISE}"
        if field.change.before is None
        else changed_field.describe_later_change(field.change)
    )
    both = "; the manifest has also changed" if history.cause is DriftCause.BOTH else ""
    source = f"; the live value was set by {apply_words(history.source)}" if history.source else ""
    return f"{apply} {value}; {later_change}{both}{source}"


def describe_resource_since(drifted: ResourceDrift) -> str | None:
    """Describe since when a resource is missing or present; None without a record."""
    history = drifted.history
    if history is None:
        return None
    missing = drifted.form is Form.MISSING
    if history.cause is DriftCause.NOT_VISIBLE and history.last is not None:
        return f"{apply_words(history.last)} was to {'create' if missing else 'delete'} it, {_NEVER_SHOWN}"
    if history.cause is DriftCause.UNRECORDED:
        return f"unknown: no recorded apply created it ({_NO_AUTHOR})"
    if history.last is None:
        deleted = f"an apply deleted it ({printable(command('history', str(drifted.ref)))})"
        return f"{deleted}; {'the manifest declares it' if missing else f'created again since, {_OTHERWISE}'}"
    if history.cause is DriftCause.CLUSTER:
        gone = KINDS[drifted.ref.kind].words.endings
        return f"{apply_words(history.last)} created or changed it; {gone} since, {_OTHERWISE}"
    apply = _subject_words(history.last)
    if missing:
        return f"{apply} deleted it; the manifest declares it"
    return f"{apply} created or changed it; the manifest declares state: absent"


def list_risks(drifted: ResourceDrift) -> tuple[str, ...]:
    """Return the risks of restoring the cluster that are not safe."""
    planned = drifted.planned
    if planned is None:
        return ()
    risky = [a for a in assessments(planned.change) if a.risk is not Risk.SAFE and a.reason]
    # The reason of the status is shown with the command already.
    return tuple(f"{a.risk.label}: {a.reason}" for a in risky if a.reason != planned.reason)


def apply_words(setting: Setting) -> str:
    """Describe an apply: `an apply of 2026-11-03 12:00 UTC by alice (commit 1a2b3c4d5e6f)`."""
    time = _TIME.fullmatch(setting.at)
    at = f"{time[1]} {time[2]} UTC" if time else clipped(setting.at, _MAX_DETAIL_LENGTH)
    commit = (
        f" (commit {clipped(short_commit(setting.commit), _MAX_DETAIL_LENGTH)})" if setting.commit else ""
    )
    return f"an apply of {at} by {clipped(setting.who, _MAX_DETAIL_LENGTH)}{commit}"


def _subject_words(setting: Setting) -> str:
    """Return the subject of a sentence on an apply, with "may have" if its result is unknown."""
    apply = apply_words(setting)
    # An apply that was killed may have sent the change: the record then has its start and no result.
    return apply if setting.certain else f"{apply}, whose result is not known, may have"


def _set_words(ref: ResourceRef, field: FieldDrift, setting: Setting) -> str:
    if setting.value is None:
        return "did not set it"
    worded_value: FormattedValue = format_value(ref.kind, field.change.path, setting.value)
    return f"set {printable(worded_value.short)}"
