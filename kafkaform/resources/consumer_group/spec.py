"""A ConsumerGroup's spec: normal form, and its split into state and intent.

Rules read `Intent.spec`. Its keys are those of the manifest; empty parts and nulls are left out. Only
`protocol` is always there, and `topics` unless the group is absent.

    spec["topics"]                           list[str]       ["orders.v1"]
    spec["protocol"]                         str             one of groups.PROTOCOLS; "classic" by default
    spec["members"]["expected"], ["max"]     int
    spec["config"]["consumer. ..."]          str, canonical  "50000"
    spec["client"]["max.poll.interval.ms"]   str, canonical  "300000"
    spec["processing"]["maxTimePerRecord"]   int, ms         200
    spec["offsets"]["initial"]               str, canonical  "earliest", "2026-11-01T00:00:00Z", "6h ago"
    spec["lag"]["maxRecords"]                int
    spec["lag"]["maxTime"]                   int, ms
    spec["guarantees"]["delivery"]           str             at-most-once, at-least-once or exactly-once
    spec["downtime"]["max"]                  int, ms

Client properties have the names of Kafka's Java consumer. Kafka's own assignors are written as by librdkafka:
`partition.assignment.strategy` is "cooperative-sticky" or "range,cooperative-sticky", for example.

The default protocol is classic, as it is of all clients.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeAlias, cast

from kafkaform.core import kafka_configs
from kafkaform.core.kafka_configs import DEFAULT_PROTOCOL
from kafkaform.core.model import CONFIG_PREFIX, FieldValue, Intent, Observed, State, Undeclared
from kafkaform.core.offset_spec import parse_initial
from kafkaform.core.wording import nearest, quoted
from kafkaform.resources.base import BAD, Layer, ReportProblem, Written, canonical_value
from kafkaform.resources.consumer_group.client import client_layer
from kafkaform.resources.consumer_group.fields import topic_path
from kafkaform.resources.groups import get_group, protocol_of_configs
from spark_validation.durations import parse_duration

_Part: TypeAlias = Mapping[str, object]
_COPIED_FIELDS = ("protocol", "guarantees", "state", "deletionProtection", "undeclared")
_TOPIC = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}")


def _read_count(value: object) -> int:
    # To JSON Schema, 3.0 is a whole number, too.
    return int(cast("float", value))


def _read_duration(value: object) -> int:
    return parse_duration(str(value))


def _read_initial(value: object) -> str:
    return str(parse_initial(str(value)))


_READERS: Mapping[str, Mapping[str, Callable[[object], int | str]]] = {
    "members": {"expected": _read_count, "max": _read_count},
    "processing": {"maxTimePerRecord": _read_duration},
    "offsets": {"initial": _read_initial},
    "lag": {"maxRecords": _read_count, "maxTime": _read_duration},
    "downtime": {"max": _read_duration},
}


def normalise(layer: Mapping[str, object], report: ReportProblem) -> Layer:
    """Normalise a ConsumerGroup spec that matches the schema, as described for the module.

    A null is kept: it removes the value of a lower layer.
    """
    normal: Layer = {name: layer[name] for name in _COPIED_FIELDS if name in layer}
    if "topics" in layer:
        topics = [*cast("list[str]", layer["topics"])]
        normal["topics"] = topics
        for index, topic in enumerate(topics):
            if not _TOPIC.fullmatch(topic):
                hint = "list each topic by its name; patterns are not expanded"
                report(("topics", index), f"{quoted(topic)} is not a topic name", hint)
    for part, readers in _READERS.items():
        given = cast("_Part", layer.get(part, {}))
        read = {
            name: value
            for name, text in given.items()
            if (value := _read(readers[name], text, (part, name), report)) is not BAD
        }
        if read:
            normal[part] = read
    config = _normalise_config(cast("_Part", layer.get("config", {})), report)
    client = client_layer(cast("_Part", layer.get("client", {})), report)
    return normal | ({"config": config} if config else {}) | ({"client": client} if client else {})


def _read(
    reader: Callable[[object], int | str], value: object, path: tuple[str, ...], report: ReportProblem
) -> object:
    if value is None:
        return None
    try:
        return reader(value)
    except ValueError as error:
        report(path, f"{'.'.join(path)}: {error}", None)
        return BAD


def _normalise_config(given: _Part, report: ReportProblem) -> dict[str, object]:
    known = kafka_configs.group_configs()
    return {
        name: text
        for name, value in given.items()
        if _is_known(name, report)
        and (text := canonical_value(known.get(name), name, value, ("config", name), report)) is not BAD
    }


def _is_known(name: str, report: ReportProblem) -> bool:
    known = kafka_configs.group_configs()
    # A vendor's config cannot be checked offline: its brokers validate it.
    if name in known or name.startswith(kafka_configs.VENDOR_PREFIXES):
        return True
    near = nearest(name, known)
    if name in kafka_configs.consumer_configs():
        hint = "the consumer sets it, not the broker: write it below client"
    elif near:
        hint = f"did you mean {near!r}?"
    else:
        hint = f"Kafka {kafka_configs.kafka_version()} has no similar one"
    report(("config", name), f"unknown group config {quoted(name)}", hint, key=True)
    return False


def resolve(layer: Layer, report: ReportProblem) -> tuple[State | None, Intent]:
    """Split a merged, normalised ConsumerGroup spec into the desired state (None: absent) and the intent."""
    spec: Layer = {"protocol": DEFAULT_PROTOCOL}
    for name, value in layer.items():
        compact = _remove_nulls(value) if isinstance(value, Mapping) else value
        if compact != {}:
            spec[name] = compact
    intent = Intent(
        deletion_protection=bool(layer.get("deletionProtection", False)),
        undeclared=Undeclared(cast("str", layer.get("undeclared", Undeclared.REPORT.value))),
        spec=spec,
    )
    # A tombstone needs none of the fields that are required below.
    if layer.get("state") == "absent":
        return None, intent
    _check(spec, report)
    config = cast("Mapping[str, str | None]", layer.get("config", {}))
    state: dict[str, FieldValue] = {CONFIG_PREFIX + name: config[name] for name in sorted(config)}
    initial = cast("_Part", spec.get("offsets", {})).get("initial")
    if initial is not None:
        topics = cast("list[str]", spec.get("topics", []))
        state.update({topic_path(topic): str(initial) for topic in sorted(topics)})
    return state, intent


def _remove_nulls(part: _Part) -> dict[str, object]:
    return {name: value for name, value in part.items() if value is not None}


def _check(spec: Layer, report: ReportProblem) -> None:
    """Report problems that only the merged layers show."""
    if "topics" not in spec:
        report((), "spec.topics is missing", "list the topics that the group reads")
    members = cast("Mapping[str, int]", spec.get("members", {}))
    expected, most = members.get("expected"), members.get("max")
    if expected is not None and most is not None and expected > most:
        message = f"members.expected is {expected}, and members.max only {most}"
        report(("members", "expected"), message, "raise max, or leave it out")
    if spec["protocol"] == "share" and "offsets" in spec:
        report(
            ("offsets", "initial"),
            "offsets.initial: a share group has no offsets to commit",
            "set config share.auto.offset.reset to earliest, latest or by_duration:PT6H instead; "
            "`initial: null` overrides a default of kafkaform.yaml",
        )


def write(observed: Observed, config: Mapping[str, object], under: Mapping[str, object]) -> Written:
    """Return the spec that declares a live group."""
    group, state = get_group(observed), observed.state
    left_out = []
    topics = sorted(group.topics) if group is not None else []
    spec: dict[str, object] = {"topics": topics} if topics else {}
    if not topics:
        left_out.append("topics: the group has no offset or member in any; list those that it reads")
    protocol = protocol_of_configs(state) if group is None else group.intended_protocol(state)
    if protocol:
        spec["protocol"] = protocol
    elif group is None or group.never_joined:
        left_out.append("protocol: not known, as no member has joined; declare it")
    # A share group cannot have initial offsets, so a default of kafkaform.yaml is taken away by a null.
    if protocol == "share" and "offsets" in under:
        spec["offsets"] = {"initial": None}
    return Written({**spec, "config": config}, tuple(left_out))
