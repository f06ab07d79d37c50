"""The layers that give a declared resource its values, as terminal text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from kafkaform.core.values import Value
from kafkaform.core.wording import counted
from kafkaform.report.document import Column, ReportDocument, Role, Table, TextSpan
from kafkaform.report.page import Page, render_page

if TYPE_CHECKING:
    from kafkaform.config.manifests.field_locations import FieldSetting
    from kafkaform.core.model import Desired

FORMAT_VERSION = 1


class Explanation(Value):
    """A declared resource, for an environment and a cluster.

    Attributes:
        scope: The environment and the cluster, such as `environment prod`; empty without them.
        fields: The settings of each field that is set: the one that takes precedence, then those under it.
    """

    desired: Desired
    scope: tuple[str, ...]
    fields: Mapping[str, tuple[FieldSetting, ...]]


def list_paths(spec: Mapping[str, object], prefix: str = "") -> Iterator[str]:
    """Yield the paths of the fields in a normalised spec."""
    for name, value in spec.items():
        if isinstance(value, Mapping):
            yield from list_paths(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def render_explanation(explanation: Explanation, *, width: int | None = None) -> Page:
    """Render a table with a line for each setting; settings that are replaced are below the one in force."""
    rows = []
    for path, settings in explanation.fields.items():
        for number, setting in enumerate(settings):
            texts = (path, setting.text, setting.layer.replace("/", " ", 1), str(setting.location))
            roles = (Role.NAME, Role.CODE, Role.CODE, Role.PLACE) if not number else (Role.MUTED,) * 4
            if number:
                texts = ("  instead of", *texts[1:])
            rows.append([TextSpan(text, role) for text, role in zip(texts, roles, strict=True)])
    columns = [
        Column("Field", least=20),
        Column("Value", least=12),
        Column("From", least=12),
        Column("Place"),
    ]
    replaced = sum(len(settings) - 1 for settings in explanation.fields.values())
    summary = f"{counted(len(explanation.fields), 'field')} set, {counted(replaced, 'setting')} replaced."
    return render_page(
        ReportDocument(
            [TextSpan(str(explanation.desired.ref), Role.NAME)],
            [Table(columns, rows)],
            context=explanation.scope,
            summary=summary,
            indent=0,
        ),
        width=width,
    )


def explanation_to_json(explanation: Explanation) -> str:
    """Return the settings as JSON, with a trailing newline."""
    ref = explanation.desired.ref
    document = {
        "format_version": FORMAT_VERSION,
        "kind": ref.kind,
        "name": ref.name,
        "scope": list(explanation.scope),
        "fields": [
            {
                "path": path,
                "settings": [
                    {
                        "layer": setting.layer,
                        "value": setting.value,
                        "source": {"file": setting.location.file, "line": setting.location.line},
                    }
                    for setting in settings
                ],
            }
            for path, settings in explanation.fields.items()
        ],
    }
    return json.dumps(document, indent=2) + "\n"
