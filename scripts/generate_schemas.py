"""Write the parts of schemas/ that follow from the code: what editors complete, show and warn of.

    python scripts/generate_schemas.py [--check]

In topic.schema.json that is `$defs.config` (Kafka's topic configs), in consumergroup.schema.json
`$defs.config` (Kafka's group configs) and `$defs.client` (the consumer's properties), in config.schema.json
`$defs.client` (the client properties) and what is there for each kind: its spec for `defaults:` (such as
`$defs.Topic`), and its name in policies. Everything else is kept by hand. What is added for configs and
properties only annotates: a document fits these schemas or does not fit them as it would without.
skew.schema.json follows as a whole from the dataclasses of spark_validation.results and what their docstrings
say of each field.
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

from kafkaform.config.client_properties.catalogue import ALIASES, PROPERTIES
from kafkaform.config.client_properties.treatment import Addresses, Choice, Flag, Number, Text
from kafkaform.core import kafka_configs
from kafkaform.core.config_values import ConfigKey, ConfigType
from kafkaform.resources import KINDS
from kafkaform.resources.consumer_group.client import ASSIGNMENT, ASSIGNORS, is_taken
from spark_validation import results
from spark_validation.results import FORMAT_VERSION

if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER = Path(__file__).parent.parent / "schemas"
WIDTH = 120

Schema = dict[str, Any]


def topic_config(schema: Schema) -> Schema:
    """The schema of `config:`: a property for each config that a manifest may set."""
    value = {"$ref": "#/$defs/configValue"}
    known = kafka_configs.topic_configs()
    properties: Schema = {
        name: value | _annotations(key)
        for name, key in known.items()
        if name not in kafka_configs.REASSIGNMENT_KEYS and not key.internal
    }
    for name in kafka_configs.RETIRED_KEYS:
        message = "Brokers of Kafka 4.x refuse this config; those of 3.x still know it."
        properties[name] = value | {"deprecated": True, "deprecationMessage": message}
    vendors = "|".join(prefix.replace(".", "\\.") for prefix in kafka_configs.VENDOR_PREFIXES)
    return {
        "type": "object",
        "description": schema["$defs"]["config"]["description"],
        "properties": dict(sorted(properties.items())),
        "patternProperties": {
            f"^({vendors})": value
            | {"description": "A config of another vendor's broker: only that broker can judge it."}
        },
        # Editors show a deprecation message as a warning. To refuse the key here would be a worse message
        # than kafkaform's own, which names the nearest key.
        "additionalProperties": value
        | {
            "deprecationMessage": f"Apache Kafka {kafka_configs.kafka_version()} has no such topic config: "
            "kafkaform refuses it, unless it is one of another vendor's broker."
        },
    }


def group_config(schema: Schema) -> Schema:
    """The schema of a group's `config:`: a property for each dynamic group config."""
    value = {"$ref": "#/$defs/configValue"}
    known = kafka_configs.group_configs()
    return {
        "type": "object",
        "description": schema["$defs"]["config"]["description"],
        "properties": {name: value | _annotations(known[name]) for name in sorted(known)},
        "additionalProperties": value
        | {
            "deprecationMessage": f"Apache Kafka {kafka_configs.kafka_version()} has no such group config: "
            "kafkaform refuses it, unless it is one of another vendor's broker."
        },
    }


def group_client(schema: Schema) -> Schema:
    """The schema of a group's `client:`: a property for each that a manifest may set."""
    value = {"$ref": "#/$defs/configValue"}
    known = kafka_configs.consumer_configs()
    properties: Schema = {name: value | _annotations(known[name]) for name in sorted(known) if is_taken(name)}
    properties[ASSIGNMENT] |= {"examples": list(ASSIGNORS.values())}
    return {
        "type": "object",
        "description": schema["$defs"]["client"]["description"],
        "properties": properties,
        "additionalProperties": value
        | {"deprecationMessage": "kafkaform takes no such consumer property; docs/manifests.md says which."},
    }


def _annotations(key: ConfigKey) -> Schema:
    text = [key.documentation if key.documentation.endswith(".") else f"{key.documentation}."]
    found: Schema = {}
    if key.default is not None:
        human = kafka_configs.human(key, key.default)
        text.append(f"Kafka's default: {human if human == key.default else f'{human} ({key.default})'}.")
        found["default"] = _typed(key, key.default)
    if key.valid_values:
        found["examples"] = list(key.valid_values)
    elif key.type is ConfigType.BOOLEAN:
        found["examples"] = [True, False]
    return {"description": " ".join(text)} | found


def _typed(key: ConfigKey, text: str) -> object:
    """A default as one would write it in YAML."""
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


def client() -> Schema:
    """The schema of `client:`: a property for each client property that is allowed."""
    value = {"$ref": "#/$defs/clientValue"}
    properties: Schema = {}
    for name, property_ in PROPERTIES.items():
        found: Schema = {}
        match property_.kind:
            case Choice(values):
                found["examples"] = list(values)
            case Flag():
                found["examples"] = [True, False]
            case Number(low, high):
                found["description"] = f"From {low} to {high}."
            case Addresses():
                found["description"] = "Must be HOST:PORT, or several of them with commas between."
            case Text(describes=text):
                found |= {"description": f"Must be {text}."} if text else {}
        if property_.sensitive:
            found["description"] = "A secret: write ${env:NAME} or ${file:PATH}."
            found["examples"] = ["${env:NAME}", "${file:PATH}"]
        properties[name] = value | found
    for alias, name in ALIASES.items():
        properties[alias] = value | {"description": f"Another name of {name}."}
    return {
        "type": "object",
        "description": "By librdkafka's names; ${env:NAME} and ${file:PATH} are read at use.",
        "properties": dict(sorted(properties.items())),
        "additionalProperties": value
        | {"deprecationMessage": "kafkaform takes no such client property; docs/clients.md has the list."},
    }


def default_spec(kind: str, schema: Schema) -> Schema:
    """The schema of `defaults.KIND`: a spec without what makes no sense of all resources of a kind.

    Nobody wants every topic to be absent, or every group to read the same topics.
    """
    left_out = {"metadata", "state", "topics"}
    parts = {name: part for name, part in schema["$defs"].items() if name not in left_out}
    for name in ("spec", "override"):
        properties = {key: value for key, value in parts[name]["properties"].items() if key not in left_out}
        parts[name] = parts[name] | {"properties": properties}
    moved = json.dumps({"$ref": "#/$defs/spec", "$defs": parts}).replace(
        '"#/$defs/', f'"#/$defs/{kind}/$defs/'
    )
    found: Schema = json.loads(moved)
    return found


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
    "TopicResult.spread": {"enum": ["even", "uneven", "too little data"]},
    "ArrivalPeriod.name": {"enum": ["common", "hour", "day", "made"]},
    "SampleResult.mode": {"enum": ["sample", "full", "file"]},
    "HotKeyResult.key_hash": {"pattern": "^[0-9a-f]{12}$"},
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
    "SkewVerdict.status": {"enum": ["pass", "warn", "fail"]},
}
"""What the type and the docstring of a skew report's field do not say."""


def skew_report() -> Schema:
    """The schema of skew reports."""
    definitions: dict[str, Schema] = {}
    whole = _record(results.SkewReport, definitions)
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


def _record(kind: type, definitions: dict[str, Schema]) -> Schema:
    """The schema of a dataclass; those of the dataclasses that it holds are added to the definitions."""
    said = _fields_of(kind)
    hints = get_type_hints(kind)
    properties: Schema = {}
    for field in fields(kind):
        found = _of_type(hints[field.name], definitions) | SKEW_VALUES.get(
            f"{kind.__name__}.{field.name}", {}
        )
        properties[field.name] = found | ({"description": said[field.name]} if field.name in said else {})
    return {
        "type": "object",
        "additionalProperties": False,
        "required": [field.name for field in fields(kind) if field.metadata != results.OMITTED],
        "properties": properties,
    }


def _of_type(hint: Any, definitions: dict[str, Schema]) -> Schema:
    if isinstance(hint, types.UnionType):
        (kind,) = (one for one in get_args(hint) if one is not types.NoneType)
        found = _of_type(kind, definitions)
        if "$ref" in found:
            return {"oneOf": [found, {"type": "null"}]}
        return found | {"type": [found["type"], "null"]}
    if get_origin(hint) is tuple:
        return {"type": "array", "items": _of_type(get_args(hint)[0], definitions)}
    if get_origin(hint) is dict:
        return {"type": "object", "additionalProperties": _of_type(get_args(hint)[1], definitions)}
    if is_dataclass(hint):
        if hint.__name__ not in definitions:
            description = (inspect.getdoc(hint) or "").split("\n\n")[0].replace("\n", " ")
            definitions[hint.__name__] = {
                "description": description,
                **_record(cast("type", hint), definitions),
            }
        return {"$ref": f"#/$defs/{hint.__name__}"}
    plain: dict[Any, Schema] = {
        str: {"type": "string"},
        float: {"type": "number"},
        int: {"type": "integer", "minimum": 0},
    }
    return dict(plain[hint])


def _fields_of(kind: type) -> dict[str, str]:
    """What the docstring of a dataclass says of each field, below `Attributes:`."""
    _, _, attributes = (inspect.getdoc(kind) or "").partition("Attributes:\n")
    said = re.findall(r"^    (\w+): (.*(?:\n     +.*)*)", attributes, re.MULTILINE)
    one_line = {name: re.sub(r"\s+", " ", text).replace("`", "") for name, text in said}
    return {name: re.sub(r"\bNone\b", "null", text) for name, text in one_line.items()}


def rendered(value: object, indent: int = 0, before: int = 0) -> str:
    """JSON with every object and list that fits on one line.

    Args:
        value: What to render.
        indent: How far it is indented.
        before: How many characters stand before it on its line, and after it.
    """
    flat = json.dumps(value, ensure_ascii=False)
    if indent + before + len(flat) <= WIDTH or not value or not isinstance(value, dict | list):
        return flat
    inner = indent + 2
    if isinstance(value, dict):
        keys = [json.dumps(key, ensure_ascii=False) + ": " for key in value]
        items = [
            key + rendered(item, inner, len(key) + 1) for key, item in zip(keys, value.values(), strict=True)
        ]
    else:
        items = [rendered(item, inner, 1) for item in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    lines = ",\n".join(" " * inner + item for item in items)
    return f"{opening}\n{lines}\n{' ' * indent}{closing}"


def generated() -> dict[Path, str]:
    """What the files should hold."""
    names = (*(kind.schema for kind in KINDS.values()), "config")
    files = {name: FOLDER / f"{name}.schema.json" for name in names}
    schemas = {name: json.loads(path.read_text("utf-8")) for name, path in files.items()}
    topic, group, config = schemas["topic"], schemas["consumergroup"], schemas["config"]
    topic["$defs"]["config"] = topic_config(topic)
    group["$defs"] |= {"config": group_config(group), "client": group_client(group)}
    config["$defs"]["client"] = client()
    config["$defs"] |= {name: default_spec(name, schemas[kind.schema]) for name, kind in KINDS.items()}
    config["$defs"]["policy"]["properties"]["kind"]["enum"] = [*KINDS]
    config["properties"]["defaults"]["properties"] = {
        name: {"$ref": f"#/$defs/{name}", "description": f"A {name}'s spec, under every manifest's own."}
        for name in KINDS
    }
    texts = {files[name]: rendered(schema) + "\n" for name, schema in schemas.items()}
    return texts | {FOLDER / "skew.schema.json": rendered(skew_report()) + "\n"}


def main() -> int:
    """Write the files, or with --check say which are up to date."""
    parser = argparse.ArgumentParser(description="Write the parts of schemas/ that follow from the code.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file is stale")
    check = parser.parse_args().check
    stale = 0
    for path, text in generated().items():
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
