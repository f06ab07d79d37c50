"""Write the parts of schemas/ that are generated from the code, for completion and warnings in editors.

    python scripts/generate_schemas.py [--check]

In topic.schema.json that is `$defs.config` (Kafka's topic configs), in consumergroup.schema.json
`$defs.config` (Kafka's group configs) and `$defs.client` (the consumer's properties), in
clientquota.schema.json `$defs.config` (Kafka's limits), in config.schema.json
`$defs.client` (the client properties) and the parts for each kind: its spec for `defaults:` (such as
`$defs.Topic`), and its name in policies. Everything else is maintained by hand. The generated parts for
configs and properties are annotations only: they do not change which documents are valid.
skew.schema.json is generated as a whole from the dataclasses of spark_validation.results and the docstrings
of their fields.
"""

from __future__ import annotations

import argparse
import inspect
import json
import re
import sys
import types
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args, get_origin, get_type_hints

from kafkaform.config.client_properties.table import ALIASES, FLAG, PROPERTIES, Choice, Number
from kafkaform.core import kafka_configs
from kafkaform.core.config_values import ConfigKey, ConfigType, Unit
from kafkaform.core.kafka_configs import ASSIGNMENT, ASSIGNORS
from kafkaform.resources import GROUP, KINDS
from kafkaform.resources.base import config_keys
from kafkaform.resources.client_quota.spec import KEYS as QUOTA_KEYS
from kafkaform.resources.consumer_group.client import is_taken
from spark_validation import results
from spark_validation.results import FORMAT_VERSION

if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER = Path(__file__).parent.parent / "schemas"
WIDTH = 120

Schema = dict[str, Any]


def build_topic_config(schema: Schema) -> Schema:
    """Build the schema of a topic's `config:`, with a property for each config that a manifest may set."""
    value = {"$ref": "#/$defs/configValue"}
    known = kafka_configs.topic_configs()
    properties: Schema = {
        name: value | _build_annotations(key)
        for name, key in known.items()
        if name not in kafka_configs.REASSIGNMENT_KEYS and not key.internal
    }
    for name, key in kafka_configs.retired_configs("topics").items():
        message = f"Kafka {key.retired} retired this config; brokers of earlier versions still accept it."
        retired = {"deprecated": True, "deprecationMessage": message}
        properties[name] = value | _build_annotations(key) | retired
    vendors = "|".join(prefix.replace(".", "\\.") for prefix in kafka_configs.VENDOR_PREFIXES)
    return {
        "type": "object",
        "description": schema["$defs"]["config"]["description"],
        "properties": dict(sorted(properties.items())),
        "patternProperties": {
            f"^({vendors})": value
            | {"description": "A config of another vendor's broker, which only that broker can check."}
        },
        # Editors show a deprecation message as a warning. To forbid the key in the schema would give a worse
        # message than kafkaform's, which suggests the nearest key.
        "additionalProperties": value
        | {
            "deprecationMessage": f"Apache Kafka {kafka_configs.kafka_version()} has no such topic config: "
            "kafkaform refuses it, unless it is one of another vendor's broker."
        },
    }


def build_group_config(schema: Schema) -> Schema:
    """Build the schema of a group's `config:`, with a property for each dynamic group config."""
    value = {"$ref": "#/$defs/configValue"}
    known = kafka_configs.group_configs()
    return {
        "type": "object",
        "description": schema["$defs"]["config"]["description"],
        "properties": {name: value | _build_annotations(known[name]) for name in sorted(known)},
        "additionalProperties": value
        | {
            "deprecationMessage": f"Apache Kafka {kafka_configs.kafka_version()} has no such group config: "
            "kafkaform refuses it, unless it is one of another vendor's broker."
        },
    }


def build_quota_config(schema: Schema) -> Schema:
    """Build the schema of a quota's `config:`, with a property for each limit."""
    value = {"$ref": "#/$defs/configValue"}
    return {
        "type": "object",
        "description": schema["$defs"]["config"]["description"],
        "properties": {name: value | _build_annotations(key) for name, key in QUOTA_KEYS.items()},
        "additionalProperties": value
        | {"deprecationMessage": "Apache Kafka has no such limit: kafkaform refuses it."},
    }


def build_group_client(schema: Schema) -> Schema:
    """Build the schema of a group's `client:`, with a property for each setting that a manifest may have."""
    value = {"$ref": "#/$defs/configValue"}
    known = kafka_configs.consumer_configs()
    properties: Schema = {
        name: value | _build_annotations(known[name]) for name in sorted(known) if is_taken(name)
    }
    properties[ASSIGNMENT] |= {"examples": list(ASSIGNORS.values())}
    return {
        "type": "object",
        "description": schema["$defs"]["client"]["description"],
        "x-verbatim": True,
        "properties": properties,
        "additionalProperties": value
        | {"deprecationMessage": "kafkaform has no such consumer property; docs/manifests.md lists them."},
    }


def _build_annotations(key: ConfigKey) -> Schema:
    text = [key.documentation if key.documentation.endswith(".") else f"{key.documentation}."]
    annotations: Schema = {}
    if key.default is not None:
        human = kafka_configs.human(key, key.default)
        text.append(f"Kafka's default: {human if human == key.default else f'{human} ({key.default})'}.")
        annotations["default"] = _parse_default(key, key.default)
    if key.valid_values:
        annotations["examples"] = list(key.valid_values)
    elif key.type is ConfigType.BOOLEAN:
        annotations["examples"] = [True, False]
    return {"description": " ".join(text)} | annotations


def _parse_default(key: ConfigKey, text: str) -> object:
    """Return a default as people write it in YAML."""
    human = kafka_configs.human(key, text).replace(" ", "")
    if human != text and "(" not in human:
        return human
    match key.type:
        case ConfigType.BOOLEAN:
            return text == "true"
        case ConfigType.INT | ConfigType.LONG | ConfigType.SHORT:
            return int(text)
        case ConfigType.DOUBLE:
            return float(text)
        case _:
            return text


def build_client() -> Schema:
    """Build the schema of `client:`, with a property for each allowed client property."""
    value = {"$ref": "#/$defs/clientValue"}
    properties: Schema = {}
    for name, property_ in PROPERTIES.items():
        annotations: Schema = {}
        type_ = property_.type
        if isinstance(type_, Choice):
            annotations["examples"] = [True, False] if type_ is FLAG else list(type_.values)
        elif isinstance(type_, Number):
            annotations["description"] = f"From {type_.description}."
        elif type_.description:
            annotations["description"] = f"Must be {type_.description}."
        if property_.sensitive:
            annotations["description"] = "A secret: write ${env:NAME} or ${file:PATH}."
            annotations["examples"] = ["${env:NAME}", "${file:PATH}"]
        properties[name] = value | annotations
    for alias, name in ALIASES.items():
        properties[alias] = value | {"description": f"Another name of {name}."}
    return {
        "type": "object",
        "description": "By librdkafka's names; ${env:NAME} and ${file:PATH} are read at use.",
        "properties": dict(sorted(properties.items())),
        "additionalProperties": value
        | {"deprecationMessage": "kafkaform has no such client property; docs/clients.md lists them."},
    }


def build_default_spec(kind: str, schema: Schema) -> Schema:
    """Build the schema of `defaults.KIND`: a spec without the fields that cannot be shared by all resources.

    For example, not every topic can be absent, and not every group can read the same topics.
    """
    left_out = {"metadata", "state", "topics", "entity", "entityName", "principals", "scram", "credential"}
    left_out |= {"schema", "references", "profile", "recreate", "succeeds"}
    parts = {name: part for name, part in schema["$defs"].items() if name not in left_out}
    for name in ("spec", "override"):
        properties = {key: value for key, value in parts[name]["properties"].items() if key not in left_out}
        parts[name] = {key: value for key, value in parts[name].items() if key != "required"}
        parts[name]["properties"] = properties
    moved = json.dumps({"$ref": "#/$defs/spec", "$defs": parts}).replace(
        '"#/$defs/', f'"#/$defs/{kind}/$defs/'
    )
    result: Schema = json.loads(moved)
    return result


NUMBER = r"\d+(\.\d+)?"
UNIT_PATTERNS = {
    "duration": (
        rf"^(unlimited|-1|\d+|({NUMBER} ?(w|d|h|m|s|ms) ?)+)$",
        "a duration such as 7d, 36h or 1h30m",
    ),
    "size": (rf"^(unlimited|-1|\d+|{NUMBER} ?([kKMGT]B|[KMGT]iB|B))$", "a size such as 50GiB, 512MiB or 1MB"),
}
"""For each `x-unit`, the pattern of texts for editors, and its explanation."""
PRINCIPAL = {"pattern": "^[^:]+:.+$", "patternErrorMessage": "a principal such as User:checkout"}
EDITOR_RULES: Mapping[str, Schema] = {
    "Topic.metadata.name": {
        "pattern": "^[a-zA-Z0-9._-]{1,249}$",
        "patternErrorMessage": "a topic's name: 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-'",
    },
    "ConsumerGroup.offsets.initial": {
        "pattern": r"^(earliest|latest|\d{4}-\d\d-\d\dT\d\d:\d\d.*(Z|[+-]\d\d:?\d\d)|.+ ago)$",
        "patternErrorMessage": "earliest, latest, a time such as 2026-11-01T00:00:00Z, or 6h ago",
    },
    "Access.principals": {"items": {"type": "string", **PRINCIPAL}},
}
"""Rules by path that only editors need, as kafkaform explains these mistakes in sentences of its own."""


def build_manifest_schema(schemas: Mapping[str, Schema]) -> Schema:
    """Build the schema of editors: of any manifest, by its kind, so that one file can declare several.

    It is stricter than those that kafkaform checks manifests by: values of configs have the types, units and
    choices of Kafka, where kafkaform has better sentences than a JSON Schema.
    """
    parts = {name: _tighten(schemas[kind.schema], name) for name, kind in KINDS.items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:kafkaform:v1:manifest",
        "title": "kafkaform manifest",
        "type": "object",
        "required": ["apiVersion", "kind", "metadata", "spec"],
        "properties": {"kind": {"enum": [*KINDS], "description": "What the manifest declares."}},
        "allOf": [
            {
                "if": {"properties": {"kind": {"const": name}}, "required": ["kind"]},
                "then": {"$ref": f"#/$defs/{name}"},
            }
            for name in KINDS
        ],
        "$defs": parts,
    }


def _tighten(schema: Schema, kind: str) -> Schema:
    """Return the schema of a kind as a part of another one, with what editors can check."""
    keys = config_keys(KINDS[kind]) | (kafka_configs.consumer_configs() if kind == GROUP.name else {})
    whole = {name: part for name, part in schema.items() if name not in {"$schema", "$id"}}

    def visit(part: Any, path: tuple[str, ...]) -> Any:
        if isinstance(part, list):
            return [visit(item, path) for item in part]
        if not isinstance(part, dict):
            return part
        tight: Schema = {}
        for name, below in part.items():
            if name == "$ref":
                tight[name] = below.replace("#/$defs/", f"#/$defs/{kind}/$defs/")
            elif name == "properties" and isinstance(below, dict):
                tight[name] = {key: visit(value, (*path, key)) for key, value in below.items()}
            elif name == "$defs":
                tight[name] = {
                    key: visit(value, () if key in {"spec", "override"} else (key,))
                    for key, value in below.items()
                }
            elif not name.startswith("x-"):
                tight[name] = visit(below, path)
        if part.get("x-unit") in UNIT_PATTERNS:
            tight |= _build_pattern(*UNIT_PATTERNS[part["x-unit"]])
        if len(path) == 2 and path[0] in {"config", "client"} and path[1] in keys:
            tight |= _constrain(keys[path[1]])
        return tight | EDITOR_RULES.get(".".join((kind, *path)), {})

    result: Schema = visit(whole, ())
    return result


def _build_pattern(pattern: str, message: str) -> Schema:
    return {"pattern": pattern, "patternErrorMessage": f"Write {message}."}


def _constrain(key: ConfigKey) -> Schema:
    """Return what an editor can check of the value of a config."""
    unit = {Unit.MS: "duration", Unit.BYTES: "size"}.get(key.unit) if key.unit is not None else None
    if unit is not None:
        return {"type": ["string", "integer", "null"], **_build_pattern(*UNIT_PATTERNS[unit])}
    choices = [re.escape(value) for value in key.valid_values]
    item = f"({'|'.join(choices)})"
    insensitive = key.ignores_case or not choices
    match key.type:
        case ConfigType.BOOLEAN:
            return {"enum": [True, False, "true", "false", None]}
        case ConfigType.LIST if choices:
            message = f"one or more of {', '.join(key.valid_values)}"
            items = {"items": {"enum": [*key.valid_values]}}
            return items | _build_pattern(f"^({item}( *, *{item})*)?$", message)
        case ConfigType.STRING if not insensitive:
            return {"enum": [*key.valid_values, None]}
        case ConfigType.INT | ConfigType.LONG | ConfigType.SHORT:
            return {"type": ["string", "integer", "null"], **_build_pattern("^[+-]?\\d+$", "a whole number")}
        case ConfigType.DOUBLE:
            number = "^[+-]?(\\d+(\\.\\d*)?|\\.\\d+)([eE][+-]?\\d+)?%?$"
            return {"type": ["string", "number", "null"], **_build_pattern(number, "a number")}
        case _:
            return {}


SKEW_ABOUT = (
    "How the keys of topics fall on their partitions, as records that were read show it: written by "
    "`kafkaform skew --format json`, read by `kafkaform plan --skew`. Shares are from 0 to 1."
)
CAUSES = (
    *("balanced", "hot_keys", "few_keys", "null_keys", "mixed_partitioners", "repartitioned", "bursty"),
    "unknown",
    "too_little_data",
    "empty",
)
SKEW_VALUES: Mapping[str, Schema] = {
    "SkewReport.created_at": {
        "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]+)?Z$"
    },
    "TopicResult.name": {"minLength": 1},
    "TopicResult.diagnosis": {"enum": [*CAUSES]},
    "SkewCause.name": {"enum": [*CAUSES]},
    "UnexplainedFacts.reason": {"enum": ["keys_withheld", "own_partitioner", "no_keys", "many_keys"]},
    "UnexplainedFacts.by": {"enum": ["records", "bytes"]},
    "HotKeysFacts.by": {"enum": ["records", "bytes"]},
    "FewKeysFacts.by": {"enum": ["records", "bytes"]},
    "BurstFacts.by": {"enum": ["records", "bytes"]},
    "NullKeysFacts.spread": {"enum": ["evenly", "unevenly", "in batches", "by choice"]},
    "TopicResult.spread": {"enum": ["even", "uneven", "too little data", "not known"]},
    "ArrivalPeriod.name": {"enum": ["common", "hour", "day", "made"]},
    "SampleResult.mode": {"enum": ["sample", "full", "file"]},
    "HotKeyResult.key_hash": {"pattern": "^[0-9a-f]{12}$"},
    "TopicResult.retention_bytes": {"minimum": -1},
    "WhatIf.partitions": {"minimum": 1},
    "Estimate.value": {"description": "The estimate."},
    "Estimate.low": {"description": "The lower end of the interval."},
    "Estimate.high": {"description": "The upper end of the interval."},
    "SkewFinding.code": {"description": "The rule, which kafkaform rules CODE explains."},
    "SkewFinding.severity": {
        "enum": ["error", "warning", "info"],
        "description": "As the project has it; info where the manifest waives the rule.",
    },
    "SkewFinding.message": {"description": "What is wrong, with the figures."},
    "SkewFinding.suggestion": {"description": "What to do; null if there is nothing to say."},
    "SkewVerdict.status": {"enum": ["pass", "warn", "fail", "unknown"]},
}
"""Constraints and descriptions that are not in the types and docstrings of a skew report's fields."""


def build_skew_report() -> Schema:
    """Build the schema of skew reports."""
    definitions: dict[str, Schema] = {}
    whole = _build_record(results.SkewReport, definitions)
    first = {"format_version": {"const": FORMAT_VERSION, "description": "The version of this format."}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:kafkaform:schema:skew:v{FORMAT_VERSION}",
        "title": f"kafkaform skew report, format {FORMAT_VERSION}",
        "description": SKEW_ABOUT,
        **whole,
        "required": [*first, *whole["required"]],
        "properties": first | whole["properties"],
        "$defs": dict(sorted(definitions.items())),
    }


def _build_record(kind: type, definitions: dict[str, Schema]) -> Schema:
    """Build the schema of a dataclass; those of its fields' dataclasses are added to the definitions."""
    descriptions = _read_field_docs(kind)
    hints = get_type_hints(kind)
    properties: Schema = {}
    for field in fields(kind):
        schema = _build_type(hints[field.name], definitions) | SKEW_VALUES.get(
            f"{kind.__name__}.{field.name}", {}
        )
        description = {"description": descriptions[field.name]} if field.name in descriptions else {}
        properties[field.name] = schema | description
    return {
        "type": "object",
        "additionalProperties": False,
        "required": [field.name for field in fields(kind) if field.metadata != results.OMITTED],
        "properties": properties,
    }


def _build_type(hint: Any, definitions: dict[str, Schema]) -> Schema:
    if isinstance(hint, types.UnionType):
        kinds = [argument for argument in get_args(hint) if argument is not types.NoneType]
        schemas = [_build_type(kind, definitions) for kind in kinds]
        if "$ref" in schemas[0]:
            return {"oneOf": [*schemas, {"type": "null"}]}
        (schema,) = schemas
        return schema | {"type": [schema["type"], "null"]}
    if get_origin(hint) is tuple:
        return {"type": "array", "items": _build_type(get_args(hint)[0], definitions)}
    if get_origin(hint) is dict:
        return {"type": "object", "additionalProperties": _build_type(get_args(hint)[1], definitions)}
    if is_dataclass(hint):
        if hint.__name__ not in definitions:
            description = (inspect.getdoc(hint) or "").split("\n\n")[0].replace("\n", " ")
            definitions[hint.__name__] = {
                "description": description,
                **_build_record(cast("type", hint), definitions),
            }
        return {"$ref": f"#/$defs/{hint.__name__}"}
    plain: dict[Any, Schema] = {
        str: {"type": "string"},
        float: {"type": "number"},
        int: {"type": "integer", "minimum": 0},
        bool: {"type": "boolean"},
    }
    return dict(plain[hint])


def _read_field_docs(kind: type) -> dict[str, str]:
    """Read the descriptions of fields below `Attributes:` in the docstring of a dataclass."""
    _, _, attributes = (inspect.getdoc(kind) or "").partition("Attributes:\n")
    described = re.findall(r"^    (\w+): (.*(?:\n     +.*)*)", attributes, re.MULTILINE)
    one_line = {name: re.sub(r"\s+", " ", text).replace("`", "") for name, text in described}
    return {name: re.sub(r"\bNone\b", "null", text) for name, text in one_line.items()}


def render_json(value: object, indent: int = 0, before: int = 0) -> str:
    """Render JSON with every object and list on one line if it fits.

    Args:
        indent: The indentation of its line.
        before: The number of characters before and after it on its line.
    """
    flat = json.dumps(value, ensure_ascii=False)
    if indent + before + len(flat) <= WIDTH or not value or not isinstance(value, dict | list):
        return flat
    inner = indent + 2
    if isinstance(value, dict):
        keys = [json.dumps(key, ensure_ascii=False) + ": " for key in value]
        items = [
            key + render_json(item, inner, len(key) + 1)
            for key, item in zip(keys, value.values(), strict=True)
        ]
    else:
        items = [render_json(item, inner, 1) for item in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    lines = ",\n".join(" " * inner + item for item in items)
    return f"{opening}\n{lines}\n{' ' * indent}{closing}"


def generate_files() -> dict[Path, str]:
    """Generate the expected texts of the files."""
    names = (*(kind.schema for kind in KINDS.values()), "config")
    files = {name: FOLDER / f"{name}.schema.json" for name in names}
    schemas = {name: json.loads(path.read_text("utf-8")) for name, path in files.items()}
    topic, group, quota = schemas["topic"], schemas["consumergroup"], schemas["clientquota"]
    config = schemas["config"]
    topic["$defs"]["config"] = build_topic_config(topic)
    quota["$defs"]["config"] = build_quota_config(quota)
    group["$defs"] |= {"config": build_group_config(group), "client": build_group_client(group)}
    config["$defs"]["client"] = build_client()
    config["$defs"] |= {name: build_default_spec(name, schemas[kind.schema]) for name, kind in KINDS.items()}
    config["$defs"]["policy"]["properties"]["kind"]["enum"] = [*KINDS]
    config["properties"]["defaults"]["properties"] = {
        name: {"$ref": f"#/$defs/{name}", "description": f"A {name}'s spec, under every manifest's own."}
        for name in KINDS
    }
    config["$defs"]["profile"]["properties"] |= {
        name: {
            "$ref": f"#/$defs/{name}",
            "description": f"A {name}'s spec, under those that name the profile.",
        }
        for name, kind in KINDS.items()
        if "profile" in schemas[kind.schema]["$defs"]["spec"]["properties"]
    }
    texts = {files[name]: render_json(schema) + "\n" for name, schema in schemas.items()}
    texts[FOLDER / "manifest.schema.json"] = render_json(build_manifest_schema(schemas)) + "\n"
    return texts | {FOLDER / "skew.schema.json": render_json(build_skew_report()) + "\n"}


def main() -> int:
    """Write the files, or with --check report which are up to date."""
    parser = argparse.ArgumentParser(description="Write the parts of schemas/ that follow from the code.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file is stale")
    check = parser.parse_args().check
    stale = 0
    for path, text in generate_files().items():
        fresh = path.exists() and path.read_text("utf-8") == text
        stale += not fresh
        if check:
            print(f"{path.name}: {'up to date' if fresh else 'stale'}")
        elif not fresh:
            path.write_text(text, "utf-8")
            print(f"{path.name}: written")
    return int(check and stale > 0)


if __name__ == "__main__":
    sys.exit(main())
