"""The `client:` part of a ConsumerGroup: properties that only its members can set.

They are checked, and exported for the application. Properties that belong to the application itself (its
code, its secrets, its connection to the brokers) are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.core import kafka_configs
from kafkaform.core.kafka_configs import ASSIGNMENT, ASSIGNORS, ConfigType
from kafkaform.core.values import replace
from kafkaform.core.wording import nearest, quoted
from kafkaform.resources.base import BAD, ReportProblem, canonical_value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaform.core.config_values import ConfigKey

# Two places for one setting could contradict each other.
_SET_ELSEWHERE = {"group.id": "metadata.name sets it", "group.protocol": "spec.protocol sets it"}
# Of the types CLASS and PASSWORD all properties are refused; these have other types.
_OF_THE_APPLICATION = frozenset(
    {"bootstrap.servers", "config.providers", "interceptor.classes", "metric.reporters"}
)
_SECURITY = ("sasl.", "security.", "ssl.")


def is_taken(name: str) -> bool:
    """Return whether a manifest may set a property of Kafka's consumer."""
    key = kafka_configs.consumer_configs().get(name)
    return key is not None and not key.internal and name not in _SET_ELSEWHERE and not _is_own(name)


def client_keys() -> dict[str, ConfigKey]:
    """Return the properties that a manifest may set, with their defaults in normal form."""
    keys = {name: key for name, key in kafka_configs.consumer_configs().items() if is_taken(name)}
    assignment = keys[ASSIGNMENT]
    names = [ASSIGNORS.get(name, name) for name in (assignment.default or "").split(",")]
    return keys | {ASSIGNMENT: replace(assignment, default=",".join(names))}


def client_layer(given: Mapping[str, object], report: ReportProblem) -> dict[str, object]:
    """Return the properties in canonical spelling; None removes the value of a lower layer."""
    layer: dict[str, object] = {}
    for name, value in given.items():
        if not is_taken(name):
            _refuse(name, report)
            continue
        key, path = kafka_configs.consumer_configs()[name], ("client", name)
        text = canonical_value(key, name, value, path, report)
        if name == ASSIGNMENT and isinstance(text, str):
            text = _normalise_assignors(text, report)
        if text is not BAD:
            layer[name] = text
    return layer


def _is_own(name: str) -> bool:
    key = kafka_configs.consumer_configs().get(name)
    # The value of a CLASS names code that the application loads; a PASSWORD is a secret.
    loads = key is not None and key.type in {ConfigType.CLASS, ConfigType.PASSWORD}
    return loads or name in _OF_THE_APPLICATION or name.startswith(_SECURITY)


def _refuse(name: str, report: ReportProblem) -> None:
    if name in _SET_ELSEWHERE:
        report(("client", name), f"{name} cannot be set in client", _SET_ELSEWHERE[name], key=True)
        return
    if _is_own(name):
        message = f"{name} belongs to the application and cannot be declared"
        hint = "leave it there: a manifest holds no addresses, secrets or code"
        report(("client", name), message, hint, key=True)
        return
    if retired := kafka_configs.retired_configs("consumers").get(name):
        message = f"{name} was retired in Kafka {retired.retired}"
        report(("client", name), message, "remove it", key=True)
        return
    near = nearest(name, filter(is_taken, kafka_configs.consumer_configs()))
    if name in kafka_configs.group_configs():
        hint = "the broker holds it: write it below config"
    elif near:
        hint = f"did you mean {near!r}?"
    else:
        hint = "write the names of Kafka's Java consumer; `kafkaform client-config` translates them"
    report(("client", name), f"unknown consumer property {quoted(name)}", hint, key=True)


def _normalise_assignors(text: str, report: ReportProblem) -> object:
    """Return the assignors in order: Kafka's own by short name, others by class."""
    names = [ASSIGNORS.get(name, name) for name in text.split(",")]
    for name in names:
        # A name with a dot is the class of an assignor of the application, which cannot be checked here.
        if name not in ASSIGNORS.values() and "." not in name:
            near = nearest(name, ASSIGNORS.values())
            hint = f"did you mean {near!r}?" if near else f"Kafka has {', '.join(ASSIGNORS.values())}"
            report(("client", ASSIGNMENT), f"{ASSIGNMENT}: {quoted(name)} is not an assignor", hint)
            return BAD
    return ",".join(names)
