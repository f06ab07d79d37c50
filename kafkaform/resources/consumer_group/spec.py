"""A ConsumerGroup's spec: normal form, and its split into state and intent.

`Intent.spec` is what rules read. Its keys are those of the manifest; a part that says nothing is left out,
and so is what is null. Only `protocol` is always there, and `topics` unless the group is absent.

    spec["topics"]                           list[str]       ["orders.v1"]
    spec["protocol"]                         str             one of groups.PROTOCOLS; "classic" if unsaid
    spec["members"]["expected"], ["max"]     int
    spec["config"]["consumer. ..."]          str, canonical  "50000"
    spec["client"]["max.poll.interval.ms"]   str, canonical  "300000"
    spec["processing"]["maxTimePerRecord"]   int, ms         200
    spec["offsets"]["initial"]               str, canonical  "earliest", "2026-11-01T00:00:00Z", "6h ago"
    spec["lag"]["maxRecords"]                int
    spec["lag"]["maxTime"]                   int, ms
    spec["guarantees"]["delivery"]           str             at-most-once, at-least-once or exactly-once
    spec["downtime"]["max"]                  int, ms

Client properties go by the names of Kafka's Java consumer. Kafka's own assignors are written as librdkafka
does: `partition.assignment.strategy` is such as "cooperative-sticky" or "range,cooperative-sticky".

A group whose protocol is unsaid is classic, because a client is, of whatever family, until it is told
otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias, cast

from kafkaform.core import kafka_configs
from kafkaform.core.groups import protocol_of_configs, topic_path
from kafkaform.core.model import CONFIG_PREFIX, FieldValue, Intent, State, Undeclared
from kafkaform.core.offset_spec import parse_initial
from kafkaform.core.units import parse_duration
from kafkaform.core.wording import nearest, quoted
from kafkaform.resources.base import BAD, canonical_value
from kafkaform.resources.consumer_group.client import client_layer

if TYPE_CHECKING:
    from kafkaform.core.groups import Group
    from kafkaform.resources.base import Layer, ReportProblem

DEFAULT_PROTOCOL = "classic"

_Part: TypeAlias = Mapping[str, object]
_PLAIN = ("protocol", "guarantees", "state", "deletionProtection", "undeclared")
_TOPIC = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}")


def _count(value: object) -> int:
    return int(cast("float", value))


def _duration(value: object) -> int:
    return parse_duration(str(value))


def _initial(value: object) -> str:
    return str(parse_initial(str(value)))


_READERS: Mapping[str, Mapping[str, Callable[[object], int | str]]] = {
    "members": {"expected": _count, "max": _count},
    "processing": {"maxTimePerRecord": _duration},
    "offsets": {"initial": _initial},
    "lag": {"maxRecords": _count, "maxTime": _duration},
    "downtime": {"max": _duration},
}


def normalise(layer: Mapping[str, object], report: ReportProblem) -> Layer:
    """Bring a ConsumerGroup spec that fits the schema into normal form, as the module describes it.

    What is null stays so: it takes away what a layer below says.
    """
    normal: Layer = {name: layer[name] for name in _PLAIN if name in layer}
    if "topics" in layer:
        normal["topics"] = list(cast("list[str]", layer["topics"]))
        _check_topics(cast("list[str]", layer["topics"]), report)
    for part, readers in _READERS.items():
        given = cast("_Part", layer.get(part, {}))
        read = {
            name: value
            for name, text in given.items()
            if (value := _read(readers[name], text, (part, name), report)) is not BAD
        }
        if read:
            normal[part] = read
    config = _config(cast("_Part", layer.get("config", {})), report)
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


def _check_topics(topics: list[str], report: ReportProblem) -> None:
    for index, topic in enumerate(topics):
        if not _TOPIC.fullmatch(topic):
            hint = "list each topic by its name; patterns are not expanded"
            report(("topics", index), f"{quoted(topic)} is not a topic name", hint)


def _config(given: _Part, report: ReportProblem) -> dict[str, object]:
    known = kafka_configs.group_configs()
    return {
        name: text
        for name, value in given.items()
        if _is_known(name, report)
        and (text := canonical_value(known.get(name), name, value, ("config", name), report)) is not BAD
    }


def _is_known(name: str, report: ReportProblem) -> bool:
    known = kafka_configs.group_configs()
    if name in known or name.startswith(kafka_configs.VENDOR_PREFIXES):
        return True
    near = nearest(name, known)
    if name in kafka_configs.consumer_configs():
        hint = "the consumer sets it, not the broker: write it below client"
    elif near:
        hint = f"did you mean {near!r}?"
    else:
        hint = f"Kafka {kafka_configs.kafka_version()} has none like it"
    report(("config", name), f"unknown group config {quoted(name)}", hint, key=True)
    return False


def resolve(layer: Layer, report: ReportProblem) -> tuple[State | None, Intent]:
    """Split a merged, normalised ConsumerGroup spec into the state to reach (None: absent) and the intent."""
    spec: Layer = {"protocol": DEFAULT_PROTOCOL}
    for name, value in layer.items():
        said = _without_nulls(value) if isinstance(value, Mapping) else value
        if said != {}:
            spec[name] = said
    intent = Intent(
        deletion_protection=bool(layer.get("deletionProtection", False)),
        undeclared=Undeclared(cast("str", layer.get("undeclared", Undeclared.REPORT.value))),
        spec=spec,
    )
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


def _without_nulls(part: _Part) -> dict[str, object]:
    return {name: value for name, value in part.items() if value is not None}


def _check(spec: Layer, report: ReportProblem) -> None:
    """Report what only the layers together show."""
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
            "`initial: null` takes a default of kafkaform.yaml away",
        )


def written(
    group: Group | None, state: State, under: Mapping[str, object], left_out: list[str]
) -> dict[str, object]:
    """See `Kind.written`."""
    topics = sorted(group.topics) if group is not None else []
    spec: dict[str, object] = {"topics": topics} if topics else {}
    if not topics:
        left_out.append("topics: the group has no offset or member in any; list those that it reads")
    protocol = protocol_of_configs(state) if group is None else group.intended_protocol(state)
    if protocol:
        spec["protocol"] = protocol
    elif group is None or group.never_joined:
        left_out.append("protocol: not known, as no member has joined; declare it")
    if protocol == "share" and "offsets" in under:
        spec["offsets"] = {"initial": None}  # which a share group cannot have
    return spec
