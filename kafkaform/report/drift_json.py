"""Drift as JSON (format 1, schemas/drift.schema.json) and as workflow commands of GitHub Actions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeAlias

from kafkaform.core.model import Diagnostic, Location, ResourceRef, Setting, Severity, risk_of
from kafkaform.core.values import asdict
from kafkaform.inspect.drift import Drift, FieldDrift, FieldHistory, Form, ResourceDrift
from kafkaform.plan.plan_file import cluster_member, configuration_member
from kafkaform.report.diagnostics import finding_to_json, write_commands
from kafkaform.report.drift_wording import (
    count_drift,
    count_unmanaged,
    describe_field_since,
    describe_form,
    describe_resource_since,
    format_declared,
    format_live,
    summary_sentence,
)
from kafkaform.report.findings import ReportedFinding, Workspace, wrap_findings
from kafkaform.report.remediation import format_yaml, plan_acceptance, plan_restoration
from kafkaform.resources.values import label

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkaform.plan.plan_header import PlanHeader
    from kafkaform.report.remediation import CommandContext, Remediation

FORMAT_VERSION = 1
_Json: TypeAlias = dict[str, Any]


def drift_to_json(drift: Drift, header: PlanHeader, context: CommandContext) -> str:
    """Return drift as JSON with a trailing newline; ASCII only, so it is safe to print."""
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
        "summary": asdict(count_drift(drift)),
        "resources": [_resource_to_json(resource, context) for resource in drift.resources],
        "unmanaged": None if drift.unmanaged is None else [_ref_to_json(ref) for ref in drift.unmanaged],
        "unknown": [_ref_to_json(ref) for ref in drift.unknown],
        "diagnostics": [_diagnostic_to_json(ReportedFinding(note)) for note in drift.notes],
    }
    return json.dumps(document, indent=2) + "\n"


def _resource_to_json(resource: ResourceDrift, context: CommandContext) -> _Json:
    planned = resource.planned
    return {
        **_ref_to_json(resource.ref),
        "drift": resource.form.value,
        "source": _source_to_json(resource.desired.location),
        "since": _history_to_json(resource.history),
        "fields": [_field_to_json(field) for field in resource.fields],
        "apply": None
        if planned is None
        else {
            "status": planned.status.value,
            "risk": risk_of(planned.change).label,
            "reason": planned.reason,
            "remedy": planned.remedy,
        },
        "restore": _remediation_to_json(plan_restoration(resource, context)),
        "accept": _remediation_to_json(plan_acceptance(resource, context)),
    }


def _field_to_json(field: FieldDrift) -> _Json:
    change = field.change
    return {
        "path": change.path,
        "declared": field.declared,
        "manifest": change.after,
        "live": change.before,
        "effective_manifest": change.effective_after,
        "effective_live": change.effective_before,
        "source": _source_to_json(field.location),
        "risk": change.assessment.risk.label,
        "hazard": change.assessment.hazard or None,
        "reason": change.assessment.reason or None,
        "deferred": change.deferred,
        "since": _history_to_json(field.history),
    }


def _history_to_json(history: FieldHistory | None) -> _Json | None:
    if history is None:
        return None
    return {
        "cause": history.cause.value,
        "last": _setting_to_json(history.last),
        "live_value": _setting_to_json(history.source),
    }


def _setting_to_json(setting: Setting | None) -> _Json | None:
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


def _remediation_to_json(remediation: Remediation) -> _Json:
    lines = [
        {
            "source": _source_to_json(line.location),
            "end_line": line.end_line,
            "keys": list(line.keys),
            "new": line.new,
            "yaml": format_yaml(line),
        }
        for line in remediation.lines
    ]
    return {
        "command": remediation.command,
        "reason": remediation.reason,
        "instead": remediation.instead,
        "lines": lines,
    }


def _diagnostic_to_json(finding: ReportedFinding) -> _Json:
    # Drift is that of one environment, so the member would always be null.
    return {name: value for name, value in finding_to_json(finding).items() if name != "environments"}


def _ref_to_json(ref: ResourceRef) -> _Json:
    return {"kind": ref.kind, "name": ref.name}


def _source_to_json(location: Location | None) -> _Json | None:
    return None if location is None else {"file": location.file, "line": location.line}


_TITLE = "drift"


def drift_to_github(drift: Drift, context: CommandContext, workspace: Workspace) -> str:
    """Write an annotation for each field that differs, then a line with the verdict."""
    annotations = [
        annotation for drifted in drift.resources for annotation in _list_annotations(drifted, context)
    ]
    # An error, as nothing is known about it; a drift that is known is a warning.
    annotations += [
        Diagnostic(_TITLE, Severity.ERROR, f"{ref} is not visible to this account") for ref in drift.unknown
    ]
    if drift.unmanaged:
        severity = Severity.WARNING if drift.unmanaged_counts else Severity.INFO
        annotations.append(
            Diagnostic(_TITLE, severity, f"{count_unmanaged(drift)}: no manifest declares them")
        )
    lines = [*write_commands(wrap_findings((*annotations, *drift.notes)), workspace), summary_sentence(drift)]
    return "".join(f"{line}\n" for line in lines)


def _list_annotations(drifted: ResourceDrift, context: CommandContext) -> Iterator[Diagnostic]:
    remediation = plan_restoration(drifted, context)
    restore = remediation.command or remediation.reason or ""
    if drifted.form is not Form.DIFFERS:
        since = describe_resource_since(drifted)
        message = f"{drifted.ref} is {describe_form(drifted)}{f' ({since})' if since else ''}"
        yield _warning(message, drifted.desired.location, restore)
    for field in drifted.fields:
        since = describe_field_since(drifted.ref, field)
        # Live first: an annotation is read beside the declared value.
        message = (
            f"{drifted.ref}: {label(field.change.path)} is {format_live(drifted.ref, field)}, "
            f"the manifest says {format_declared(drifted.ref, field)}{f' ({since})' if since else ''}"
        )
        yield _warning(message, field.location, restore)


def _warning(message: str, location: Location | None, restore: str) -> Diagnostic:
    return Diagnostic(_TITLE, Severity.WARNING, message, location, f"restore: {restore}")
