"""The client settings of a declared group, for its application.

They are named as Java's clients or librdkafka name them, and rendered in the formats that applications read.

The same settings for librdkafka, which Python, Go, .NET and C clients are built on.

It has names, values and ranges of its own for some, and none at all for others. What it would refuse, or take
and then do something else with, is refused here, with what to do instead.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, cast

from kafkaform.core import kafka_configs
from kafkaform.core.errors import InvalidInput, KafkaformError, Problem
from kafkaform.core.wording import quoted
from kafkaform.resources.consumer_group.client import ASSIGNMENT, ASSIGNORS
from kafkaform.resources.consumer_group.spec import DEFAULT_PROTOCOL

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Collection,
        Iterable,
        Iterator,
        Mapping,
    )

    from kafkaform.core.model import Desired


_CLASSES = {short: java for java, short in ASSIGNORS.items()}
GROUP_ID, GROUP_PROTOCOL, APPLICATION_ID = "group.id", "group.protocol", "application.id"


def protocol_of(group: Desired) -> str:
    """The group's protocol."""
    return cast("str", group.intent.spec.get("protocol", DEFAULT_PROTOCOL))


def java_settings(group: Desired, without: Collection[str] = ()) -> dict[str, str]:
    """The settings of a Java client that is to be a member of the group.

    First what makes it a member, then what the manifest has below `client`, by name. A share consumer is of
    another class and refuses group.protocol; Kafka Streams takes the group's name as its application's.

    Args:
        group: A declared group.
        without: Settings to leave out.

    Raises:
        InvalidInput: A client would not start with what is declared.
    """
    protocol = protocol_of(group)
    settings = {APPLICATION_ID if protocol == "streams" else GROUP_ID: group.ref.name}
    refused = kafka_configs.refused_by_client(protocol)
    if GROUP_PROTOCOL not in refused:
        settings[GROUP_PROTOCOL] = protocol
    declared = declared_settings(group, without)
    reject(
        group,
        (
            (
                name,
                f"clients of a {protocol} group do not start with {name}",
                "kafkaform rules KF211 says why",
            )
            for name in declared
            if name in refused
        ),
    )
    return settings | {
        name: with_classes(value) if name == ASSIGNMENT else value for name, value in declared.items()
    }


def declared_settings(group: Desired, without: Collection[str] = ()) -> dict[str, str]:
    """What the manifest has below `client`, in the order of names."""
    client = cast("Mapping[str, str | None]", group.intent.spec.get("client", {}))
    return {
        name: value for name, value in sorted(client.items()) if value is not None and name not in without
    }


def with_classes(strategy: str) -> str:
    """The assignors by Java class; those that are not Kafka's own have no other name."""
    return ",".join(_CLASSES.get(name, name) for name in strategy.split(","))


def reject(group: Desired, found: Iterable[tuple[str, str, str]]) -> None:
    """Raise InvalidInput if there is any: the client setting, what is wrong with it, and what to do."""
    problems = [Problem(message, group.place(f"client.{name}"), hint) for name, message, hint in found]
    if problems:
        raise InvalidInput(problems)


_INT_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Native:
    """A setting as librdkafka has it.

    Attributes:
        name: Its name there; empty if it is the same.
        least: The least number that it takes, if it is a number.
        greatest: The greatest one.
        values: Other words for the same values.
    """

    name: str = ""
    least: int | None = None
    greatest: int = _INT_MAX
    values: tuple[tuple[str, str], ...] = ()


NATIVE: Mapping[str, Native] = {
    "allow.auto.create.topics": Native(),
    # 0 commits with every poll() in Java, and never in librdkafka.
    "auto.commit.interval.ms": Native(least=1, greatest=86_400_000),
    "auto.offset.reset": Native(values=(("none", "error"),)),
    "check.crcs": Native(),
    "client.dns.lookup": Native(),
    "client.id": Native(),
    "client.rack": Native(),
    "connections.max.idle.ms": Native(least=0),
    "enable.auto.commit": Native(),
    "enable.metrics.push": Native(),
    # Not below message.max.bytes, which is 1,000,000 unless the application says otherwise.
    "fetch.max.bytes": Native(least=1_000_000, greatest=2_147_483_135),
    "fetch.max.wait.ms": Native("fetch.wait.max.ms", 0, 300_000),
    "fetch.min.bytes": Native(least=1, greatest=100_000_000),
    "group.instance.id": Native(),
    "group.remote.assignor": Native(),
    "heartbeat.interval.ms": Native(least=1, greatest=3_600_000),
    "isolation.level": Native(),
    "max.partition.fetch.bytes": Native(least=1, greatest=1_000_000_000),
    "max.poll.interval.ms": Native(least=1, greatest=86_400_000),
    "metadata.max.age.ms": Native(least=1, greatest=86_400_000),
    "metadata.recovery.rebootstrap.trigger.ms": Native(least=0),
    "metadata.recovery.strategy": Native(),
    ASSIGNMENT: Native(),
    # Left to the operating system: -1 in Java, 0 in librdkafka.
    "receive.buffer.bytes": Native("socket.receive.buffer.bytes", 0, 100_000_000, (("-1", "0"),)),
    "reconnect.backoff.max.ms": Native(least=0, greatest=3_600_000),
    "reconnect.backoff.ms": Native(least=0, greatest=3_600_000),
    # Its own request.timeout.ms is the producer's.
    "request.timeout.ms": Native("socket.timeout.ms", 10, 300_000),
    "retry.backoff.max.ms": Native(least=1, greatest=300_000),
    "retry.backoff.ms": Native(least=1, greatest=300_000),
    "send.buffer.bytes": Native("socket.send.buffer.bytes", 0, 100_000_000, (("-1", "0"),)),
    "session.timeout.ms": Native(least=1, greatest=3_600_000),
    "socket.connection.setup.timeout.ms": Native(least=1000),
}
"""What librdkafka has of the settings that a manifest may hold, by the Java client's names."""

INSTEAD: Mapping[str, str] = {
    "default.api.timeout.ms": "give each call its own timeout in the application",
    "exclude.internal.topics": "subscribe to topics by name",
    "max.poll.records": "give consume() the number of messages in the application; poll() returns one",
    "socket.connection.setup.timeout.max.ms": "declare socket.connection.setup.timeout.ms; it does not grow",
}
"""What to do about settings that librdkafka does not have, or has for another purpose."""

# One that must not be above another, with the values that librdkafka gives them.
_ORDERED = (
    ("session.timeout.ms", 45_000, "max.poll.interval.ms", 300_000),
    ("reconnect.backoff.ms", 100, "reconnect.backoff.max.ms", 10_000),
)
_EAGER, _COOPERATIVE = frozenset({"range", "roundrobin"}), frozenset({"cooperative-sticky"})

Rejection: TypeAlias = tuple[str, str, str]
"""The setting, what is wrong with it, and what to do."""


def librdkafka_settings(group: Desired, without: Collection[str] = ()) -> dict[str, str]:
    """The settings of a client built on librdkafka that is to be a member of the group.

    Raises:
        InvalidInput: librdkafka cannot do what is declared; every such setting is named.
    """
    protocol = protocol_of(group)
    if protocol not in {"classic", "consumer"}:
        message = f"a client of librdkafka cannot be a member of a {protocol} group"
        raise InvalidInput(
            [Problem(message, group.place("protocol"), "export it for Java: --format properties")]
        )
    java_settings(group, without)  # which refuses what no client of this protocol takes
    declared = declared_settings(group, without)
    reject(group, (*_rejections(declared), *_disorder(declared, protocol)))
    settings = {GROUP_ID: group.ref.name, GROUP_PROTOCOL: protocol}
    return settings | {NATIVE[name].name or name: _translated(name, text) for name, text in declared.items()}


def _translated(name: str, text: str) -> str:
    return dict(NATIVE[name].values).get(text, text)


def _rejections(declared: Mapping[str, str]) -> Iterator[Rejection]:
    for name, text in declared.items():
        native = NATIVE.get(name)
        if native is None:
            hint = INSTEAD.get(name, "remove it from the manifest if no Java client uses it")
            yield name, f"librdkafka has no {name}", f"{hint}; --without {name} leaves it out here"
        elif native.least is not None and not native.least <= int(_translated(name, text)) <= native.greatest:
            own = native.name or name
            message = f"{name}: librdkafka takes {own} from {native.least} to {native.greatest}, not {text}"
            yield name, message, "choose a value in this range"
        elif name == "auto.offset.reset" and text.startswith("by_duration:"):
            hint = "declare earliest or latest, and offsets.initial for where the group starts"
            yield name, f"{name}: librdkafka does not know {text}", hint
        elif name == ASSIGNMENT:
            yield from _assignors(text)


def _disorder(declared: Mapping[str, str], protocol: str) -> Iterator[Rejection]:
    """Settings that do not go together."""
    for lower, usual_lower, upper, usual_upper in _ORDERED:
        if lower in kafka_configs.refused_by_client(protocol):
            continue
        low, high = int(declared.get(lower, usual_lower)), int(declared.get(upper, usual_upper))
        if low > high:
            name = upper if upper in declared else lower
            yield name, f"librdkafka wants {upper} ({high}) not to be below {lower} ({low})", "declare both"


def _assignors(text: str) -> Iterator[Rejection]:
    names = text.split(",")
    unknown = [name for name in names if name not in _EAGER | _COOPERATIVE]
    if unknown:
        known = ", ".join(sorted(_EAGER | _COOPERATIVE))
        yield ASSIGNMENT, f"librdkafka has no assignor {', '.join(unknown)}", f"it has {known}"
    elif not (_EAGER.issuperset(names) or _COOPERATIVE.issuperset(names)):
        message = f"{ASSIGNMENT}: librdkafka cannot have cooperative-sticky beside another"
        yield ASSIGNMENT, message, "declare one; to change over, stop all members first"


def render(group: Desired, output_format: str, without: Collection[str] = ()) -> str:
    """The client settings of a declared group as text; it ends with a newline.

    Args:
        group: A declared group.
        output_format: One of FORMATS; `librdkafka` has that client's names, all others the Java client's.
        without: Settings to leave out, by the Java client's names.

    Raises:
        InvalidInput: The client would refuse what is declared.
        KafkaformError: The format has no way to write a value.
    """
    of_client = librdkafka_settings if output_format == "librdkafka" else java_settings
    return FORMATS[output_format](of_client(group, without))


def _properties(settings: Mapping[str, str]) -> str:
    """A Java properties file: escaped, and without the time of writing."""
    import javaproperties

    return str(javaproperties.dumps(settings, timestamp=None))


def _json(settings: Mapping[str, str]) -> str:
    """One object; all values are texts, which Kafka's clients parse themselves."""
    return json.dumps(settings, indent=2, ensure_ascii=False) + "\n"


def _yaml(settings: Mapping[str, str]) -> str:
    """One mapping; all values are texts."""
    import yaml

    return yaml.safe_dump(dict(settings), sort_keys=False, allow_unicode=True, width=2**31)


def _env(settings: Mapping[str, str]) -> str:
    """Variables as container images take them: KAFKA_CONSUMER_, and the name in capitals with underscores.

    KAFKA_STREAMS_ for an application of Kafka Streams. The lines are those of `docker run --env-file` and
    `kubectl create configmap --from-env-file`, which take everything after the first = as it stands: no
    quotes, and no shell.
    """
    prefix = "KAFKA_STREAMS_" if APPLICATION_ID in settings else "KAFKA_CONSUMER_"
    return _lines({prefix + name.upper().replace(".", "_"): value for name, value in settings.items()})


def _lines(settings: Mapping[str, str]) -> str:
    """`name=value` lines, which know no escapes."""
    for name, value in settings.items():
        if value.splitlines() not in ([value], []):
            raise KafkaformError(
                f"{name}: {quoted(value)} does not fit into one line", hint="use --format json or yaml"
            )
    return "".join(f"{name}={value}\n" for name, value in settings.items())


FORMATS: Mapping[str, Callable[[Mapping[str, str]], str]] = {
    "properties": _properties,
    "json": _json,
    "yaml": _yaml,
    "env": _env,
    "librdkafka": _lines,
}
"""The formats by name."""
