"""Drift for programs: JSON, format 1 (schemas/drift.schema.json), and workflow commands of GitHub Actions."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeAlias

from kafkaform.core.model import Diagnostic, Severity, risk_of
from kafkaform.inspect.drift import Form
from kafkaform.plan.plan_file import cluster_member, configuration_member
from kafkaform.report.diagnostics import as_json, commands
from kafkaform.report.drift_ways import accepting, restoring, yaml_of
from kafkaform.report.drift_wording import (
    declared_words,
    form_words,
    live_words,
    since_field,
    since_whole,
    summary_sentence,
    tally,
    unmanaged_words,
)
from kafkaform.report.findings import Reported, everywhere
from kafkaform.resources.values import label

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkaform.core.model import Location, ResourceRef, Setting
    from kafkaform.inspect.drift import (
        Drift,
        FieldDrift,
        Past,
        ResourceDrift,
    )
    from kafkaform.plan.plan_header import PlanHeader
    from kafkaform.report.drift_ways import Reach, Way
    from kafkaform.report.findings import Workspace


FORMAT_VERSION = 1
_Json: TypeAlias = dict[str, Any]


def drift_to_json(drift: Drift, header: PlanHeader, reach: Reach) -> str:
    """Write drift as JSON text with a newline at its end; in ASCII, so the text is safe to show."""
    document: _Json = {
        "format_version": FORMAT_VERSION,
        "tool_version": header.tool_version,
        "commit": header.commit,
        "cluster": cluster_member(drift.plan.cluster_id, header),
        "environment": header.environment,
        **configuration_member(header),
        "created_at": header.created_at,
        "verdict": drift.verdict.value,
        "unrecorded": drift.unrecorded,
        "unmanaged_counts": drift.unmanaged_counts,
        "summary": asdict(tally(drift)),
        "resources": [_resource(drifted, drift, reach) for drifted in drift.resources],
        "unmanaged": None if drift.unmanaged is None else [_ref(ref) for ref in drift.unmanaged],
        "unknown": [_ref(ref) for ref in drift.unknown],
        "diagnostics": [_diagnostic(Reported(note)) for note in drift.notes],
    }
    return json.dumps(document, indent=2) + "\n"


def _resource(drifted: ResourceDrift, drift: Drift, reach: Reach) -> _Json:
    planned = drifted.planned
    return {
        **_ref(drifted.ref),
        "drift": drifted.form.value,
        "source": _source(drifted.desired.location),
        "since": _past(drifted.past),
        "fields": [_field(one) for one in drifted.fields],
        "apply": None
        if planned is None
        else {
            "status": planned.status.value,
            "risk": risk_of(planned.change).label,
            "reason": planned.reason,
            "remedy": planned.remedy,
        },
        "restore": _way(restoring(drifted, drift, reach)),
        "accept": _way(accepting(drifted, reach)),
    }


def _field(one: FieldDrift) -> _Json:
    change = one.change
    return {
        "path": change.path,
        "declared": one.declared,
        "manifest": change.after,
        "live": change.before,
        "effective_manifest": change.effective_after,
        "effective_live": change.effective_before,
        "source": _source(one.place),
        "risk": change.assessment.risk.label,
        "hazard": change.assessment.hazard or None,
        "reason": change.assessment.reason or None,
        "deferred": change.deferred,
        "since": _past(one.past),
    }


def _past(past: Past | None) -> _Json | None:
    if past is None:
        return None
    return {"cause": past.cause.value, "last": _setting(past.last), "live_value": _setting(past.source)}


def _setting(setting: Setting | None) -> _Json | None:
    if setting is None:
        return None
    return {
        "value": setting.value,
        "at": setting.at,
        "who": setting.who,
        "commit": setting.commit,
        "run": setting.run,
        "result_known": setting.certain,
    }


def _way(way: Way) -> _Json:
    lines = [
        {"source": _source(line.place), "keys": list(line.keys), "new": line.new, "yaml": yaml_of(line)}
        for line in way.lines
    ]
    return {"command": way.command, "reason": way.reason, "instead": way.instead, "lines": lines}


def _diagnostic(found: Reported) -> _Json:
    return {name: value for name, value in as_json(found).items() if name != "environments"}


def _ref(ref: ResourceRef) -> _Json:
    return {"kind": ref.kind, "name": ref.name}


def _source(place: Location | None) -> _Json | None:
    return None if place is None else {"file": place.file, "line": place.line}


_TITLE = "drift"


def drift_to_github(drift: Drift, reach: Reach, workspace: Workspace) -> str:
    """An annotation for each field that differs, and the verdict as a line of its own."""
    found = [one for drifted in drift.resources for one in _annotations(drifted, drift, reach)]
    found += [
        Diagnostic(_TITLE, Severity.ERROR, f"{ref} is not visible to this account") for ref in drift.unknown
    ]
    if drift.unmanaged:
        severity = Severity.WARNING if drift.unmanaged_counts else Severity.INFO
        found.append(Diagnostic(_TITLE, severity, f"{unmanaged_words(drift)}: no manifest declares them"))
    lines = [*commands(everywhere((*found, *drift.notes)), workspace), summary_sentence(drift)]
    return "".join(f"{line}\n" for line in lines)


def _annotations(drifted: ResourceDrift, drift: Drift, reach: Reach) -> Iterator[Diagnostic]:
    way = restoring(drifted, drift, reach)
    restore = way.command or way.reason or ""
    if drifted.form is not Form.DIFFERS:
        since = since_whole(drifted)
        message = f"{drifted.ref} is {form_words(drifted)}{f' ({since})' if since else ''}"
        yield _warning(message, drifted.desired.location, restore)
    for one in drifted.fields:
        since = since_field(drifted.ref, one)
        message = (
            f"{drifted.ref}: {label(one.change.path)} is {live_words(drifted.ref, one)}, "
            f"the manifest says {declared_words(drifted.ref, one)}{f' ({since})' if since else ''}"
        )
        yield _warning(message, one.place, restore)


def _warning(message: str, place: Location | None, restore: str) -> Diagnostic:
    return Diagnostic(_TITLE, Severity.WARNING, message, place, f"restore: {restore}")
