"""The explanation of a field of a manifest, or of kafkaform.yaml, as terminal text and as JSON."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from kafkaform.config.manifests.scalars import render_inline
from kafkaform.core.config_values import ConfigKey, ConfigType
from kafkaform.core.schema_files import FieldSchema, describe_type
from kafkaform.core.values import Value
from kafkaform.core.wording import join_words
from kafkaform.report.document import Column, Inline, Paragraph, ReportDocument, Role, Table, TextSpan
from kafkaform.report.page import Page, render_page

if TYPE_CHECKING:
    from collections.abc import Sequence

_UNITS = {
    "duration": "ms, s, m, h, d or w, such as 7d or 1h30m; a number alone is in milliseconds",
    "size": "B, kB, MB, GB, TB, or KiB, MiB, GiB, TiB (of 1024), such as 50GiB; a number alone is in bytes",
}
_CONFIG_UNITS = {"ms": "duration", "bytes": "size"}
_CONFIG_TYPES = {
    ConfigType.BOOLEAN: "true or false",
    ConfigType.INT: "a whole number",
    ConfigType.SHORT: "a whole number",
    ConfigType.LONG: "a whole number",
    ConfigType.DOUBLE: "a number",
    ConfigType.LIST: "a list of texts",
}
_BOUNDS = {"minimum": "at least", "exclusiveMinimum": "more than", "maximum": "at most"}
_SENTENCE = re.compile(r"(?<=[\w)`])(?:\.\s+(?=[A-Z])|;\s)")


class FieldHelp(Value):
    """A field, and the fields below it.

    Attributes:
        name: The kind and the path, such as `Topic.spec.retention`.
        fields: Those below it.
        keys: Kafka's configs, for the field and those below it that are one.
    """

    name: str
    field: FieldSchema
    fields: Sequence[FieldSchema]
    keys: dict[str, ConfigKey]


def render_field(help_: FieldHelp, *, width: int | None = None) -> Page:
    """Render the type, the description and the values of a field, and a table of the fields below it."""
    facts = _describe(help_.field, help_.keys.get(help_.field.path))
    kind, description = facts.pop("type"), facts.pop("description")
    parts: list[Any] = [Paragraph(description)] if description else []
    if facts:
        rows: list[list[Inline]] = [[TextSpan(name, Role.MUTED), text] for name, text in facts.items()]
        parts.append(Table([Column(""), Column("", least=30)], rows))
    if help_.fields:
        rows = []
        for below in help_.fields:
            described = _describe(below, help_.keys.get(below.path))
            short = _SENTENCE.split(described["description"], maxsplit=1)[0].rstrip(".")
            label = below.path.removeprefix(f"{help_.field.path}." if help_.field.path else "")
            rows.append([TextSpan(label, Role.NAME), described["type"], short])
        parts.append(
            Table([Column("Field"), Column("Type", least=12), Column("Description", least=30)], rows)
        )
    return render_page(
        ReportDocument([TextSpan(help_.name, Role.NAME), f": {kind}"], parts, indent=0), width=width
    )


def field_to_json(help_: FieldHelp) -> str:
    """Return a field and those below it as JSON, with a trailing newline."""
    own = _describe(help_.field, help_.keys.get(help_.field.path))
    below = [{"path": each.path, **_describe(each, help_.keys.get(each.path))} for each in help_.fields]
    return json.dumps({"path": help_.field.path, **own, "fields": below}, indent=2, ensure_ascii=False) + "\n"


def _describe(field: FieldSchema, key: ConfigKey | None) -> dict[str, str]:
    """Return the type, the description and the facts of a field in words, by the names of their lines."""
    schema = dict(field.schema)
    if key is not None:
        unit = _CONFIG_UNITS.get(key.unit or "")
        schema |= {"x-unit": unit} if unit else {}
        schema |= {"minimum": key.minimum, "maximum": key.maximum}
    kind = describe_type(schema)
    if key is not None:
        kind = f"a {schema['x-unit']}" if schema.get("x-unit") else _CONFIG_TYPES.get(key.type, "text")
    values = key.valid_values if key is not None else ()
    bounds = [f"{words} {schema[name]}" for name, words in _BOUNDS.items() if schema.get(name) is not None]
    examples = () if key is not None else schema.get("examples", ())
    required = (
        "yes"
        if field.required
        else "by the manifest, or what it inherits"
        if schema.get("x-required")
        else ""
    )
    facts = {
        "type": kind,
        "description": schema.get("description", ""),
        "units": _UNITS.get(schema.get("x-unit", ""), ""),
        "values": ", ".join(map(str, values)),
        "bounds": join_words(bounds) if bounds else "",
        "default": render_inline(schema["default"]) if "default" in schema else "",
        "required": required,
        "examples": " | ".join(map(render_inline, examples)),
    }
    return {name: text for name, text in facts.items() if text or name in {"type", "description"}}
