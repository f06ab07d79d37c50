"""Drift as workflow commands of GitHub Actions, on the lines of the manifests that it differs from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.core.model import Diagnostic, Severity
from kafkaform.inspect.drift import Form
from kafkaform.report.drift_ways import restoring
from kafkaform.report.drift_wording import (
    declared_words,
    form_words,
    live_words,
    since_field,
    since_whole,
    summary_sentence,
    unmanaged_words,
)
from kafkaform.report.findings import everywhere
from kafkaform.report.github import commands
from kafkaform.resources.values import label

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkaform.core.model import Location
    from kafkaform.inspect.drift import Drift, ResourceDrift
    from kafkaform.report.drift_ways import Reach
    from kafkaform.report.findings import Workspace

_TITLE = "drift"


def drift_commands(drift: Drift, reach: Reach, workspace: Workspace) -> str:
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
