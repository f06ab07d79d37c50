"""A report as JSON and back; the format is schemas/skew.schema.json."""

from __future__ import annotations

import json
import types
import typing
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

from spark_validation import results
from spark_validation.results import Report

FORMAT_VERSION = 1

T = TypeVar("T")


def to_json(report: Report) -> str:
    """The report as JSON, which ends with a newline."""
    return json.dumps({"format_version": FORMAT_VERSION, **_plain(report)}, indent=1, allow_nan=False) + "\n"


def from_document(document: dict[str, Any]) -> Report:
    """The report of a JSON document that the schema accepts."""
    plain = {name: value for name, value in document.items() if name != "format_version"}
    return typing.cast("Report", _built(Report, plain))


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    return value


def _built(kind: Any, value: Any) -> Any:
    """A value of a type as the dataclasses of `results` annotate it."""
    origin = typing.get_origin(kind)
    if value is None:
        return None
    if origin is types.UnionType:
        return _built(next(one for one in typing.get_args(kind) if one is not types.NoneType), value)
    if origin is tuple:
        return tuple(_built(typing.get_args(kind)[0], item) for item in value)
    if is_dataclass(kind):
        hints = typing.get_type_hints(kind, vars(results))
        return typing.cast("type", kind)(**{name: _built(hints[name], item) for name, item in value.items()})
    return float(value) if kind is float else value
