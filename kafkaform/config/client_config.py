"""The client settings of a declared group, rendered in the formats that its application reads.

They have the names of Java's clients or of librdkafka, which Python, Go, .NET and C clients are built on.
librdkafka has other names, values and ranges for some settings, and lacks others. Settings that it would
reject or silently interpret differently are rejected here, with an alternative.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeAlias, cast

from kafkaform.core import kafka_configs
from kafkaform.core.errors import InvalidInput, KafkaformError, Problem
from kafkaform.core.kafka_configs import ASSIGNMENT, ASSIGNORS, DEFAULT_PROTOCOL
from kafkaform.core.values import Value
from kafkaform.core.wording import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from kafkaform.core.model import Desired


_CLASSES = {short: java for java, short in ASSIGNORS.items()}
GROUP_ID, GROUP_PROTOCOL, APPLICATION_ID = "group.id", "group.protocol", "application.id"


def get_protocol(group: Desired) -> str:
    """Return the protocol of a group: `classic`, `consumer`, `share` or `streams`."""
    return cast("str", group.intent.spec.get("protocol", DEFAULT_PROTOCOL))


def build_java_settings(group: Desired, without: Collection[str] = ()) -> dict[str, str]:
    """Build the settings of a Java client that joins the group.

    The settings that make it a member come first, then those below `client` in the manifest, by name. A share
    consumer is a class of its own that rejects group.protocol; Kafka Streams uses the application id as the
    name of the group.

    Args:
        without: Settings to leave out.

    Raises:
        InvalidInput: A client would not start with the declared settings.
    """
    protocol = get_protocol(group)
    settings = {APPLICATION_ID if protocol == "streams" else GROUP_ID: group.ref.name}
    refused = kafka_configs.refused_by_client(protocol)
    if GROUP_PROTOCOL not in refused:
        settings[GROUP_PROTOCOL] = protocol
    declared = read_declared_settings(group, without)
    raise_rejections(
        group,
        (
            (
                name,
                f"clients of a {protocol} group do not start with {name}",
                "run `kafkaform rules KF211` for the reason",
            )
            for name in declared
            if name in refused
        ),
    )
    return settings | {
        name: expand_assignors(value) if name == ASSIGNMENT else value for name, value in declared.items()
    }


def read_declared_settings(group: Desired, without: Collection[str] = ()) -> dict[str, str]:
    """Return the settings below `client` in the manifest, sorted by name."""
    client = cast("Mapping[str, str | None]", group.intent.spec.get("client", {}))
    return {
        name: value for name, value in sorted(client.items()) if value is not None and name not in without
    }


def expand_assignors(strategy: str) -> str:
    """Replace the short names of Kafka's own assignors by their Java classes."""
    return ",".join(_CLASSES.get(name, name) for name in strategy.split(","))


def raise_rejections(group: Desired, rejections: Iterable[tuple[str, str, str]]) -> None:
    """Raise InvalidInput if there are rejections: the setting, the problem, and a hint each."""
    problems = [Problem(message, group.locate(f"client.{name}"), hint) for name, message, hint in rejections]
    if problems:
        raise InvalidInput(problems)


_INT_MAX = 2**31 - 1


class LibrdkafkaSetting(Value):
    """The counterpart of a setting in librdkafka.

    Attributes:
        name: Its name; empty if it is the same.
        least: The minimum of a number; None for other types.
        greatest: The maximum of a number.
        values: Pairs of a Java value and the equivalent value of librdkafka.
    """

    name: str = ""
    least: int | None = None
    greatest: int = _INT_MAX
    values: tuple[tuple[str, str], ...] = ()


LIBRDKAFKA_SETTINGS: Mapping[str, LibrdkafkaSetting] = {
    "allow.auto.create.topics": LibrdkafkaSetting(),
    # 0 commits at every poll() in Java, but never in librdkafka.
    "auto.commit.interval.ms": LibrdkafkaSetting(least=1, greatest=86_400_000),
    "auto.offset.reset": LibrdkafkaSetting(values=(("none", "error"),)),
    "check.crcs": LibrdkafkaSetting(),
    "client.dns.lookup": LibrdkafkaSetting(),
    "client.id": LibrdkafkaSetting(),
    "client.rack": LibrdkafkaSetting(),
    "connections.max.idle.ms": LibrdkafkaSetting(least=0),
    "enable.auto.commit": LibrdkafkaSetting(),
    "enable.metrics.push": LibrdkafkaSetting(),
    # At least message.max.bytes, which is 1,000,000 by default.
    "fetch.max.bytes": LibrdkafkaSetting(least=1_000_000, greatest=2_147_483_135),
    "fetch.max.wait.ms": LibrdkafkaSetting("fetch.wait.max.ms", 0, 300_000),
    "fetch.min.bytes": LibrdkafkaSetting(least=1, greatest=100_000_000),
    "group.instance.id": LibrdkafkaSetting(),
    "group.remote.assignor": LibrdkafkaSetting(),
    "heartbeat.interval.ms": LibrdkafkaSetting(least=1, greatest=3_600_000),
    "isolation.level": LibrdkafkaSetting(),
    "max.partition.fetch.bytes": LibrdkafkaSetting(least=1, greatest=1_000_000_000),
    "max.poll.interval.ms": LibrdkafkaSetting(least=1, greatest=86_400_000),
    "metadata.max.age.ms": LibrdkafkaSetting(least=1, greatest=86_400_000),
    "metadata.recovery.rebootstrap.trigger.ms": LibrdkafkaSetting(least=0),
    "metadata.recovery.strategy": LibrdkafkaSetting(),
    ASSIGNMENT: LibrdkafkaSetting(),
    # The operating system's default is -1 in Java and 0 in librdkafka.
    "receive.buffer.bytes": LibrdkafkaSetting("socket.receive.buffer.bytes", 0, 100_000_000, (("-1", "0"),)),
    "reconnect.backoff.max.ms": LibrdkafkaSetting(least=0, greatest=3_600_000),
    "reconnect.backoff.ms": LibrdkafkaSetting(least=0, greatest=3_600_000),
    # librdkafka's request.timeout.ms is a setting of producers.
    "request.timeout.ms": LibrdkafkaSetting("socket.timeout.ms", 10, 300_000),
    "retry.backoff.max.ms": LibrdkafkaSetting(least=1, greatest=300_000),
    "retry.backoff.ms": LibrdkafkaSetting(least=1, greatest=300_000),
    "send.buffer.bytes": LibrdkafkaSetting("socket.send.buffer.bytes", 0, 100_000_000, (("-1", "0"),)),
    "session.timeout.ms": LibrdkafkaSetting(least=1, greatest=3_600_000),
    "socket.connection.setup.timeout.ms": LibrdkafkaSetting(least=1000),
}
"""librdkafka's counterparts of the settings that a manifest may have, by the name of the Java client."""

ALTERNATIVES: Mapping[str, str] = {
    "default.api.timeout.ms": "give each call its own timeout in the application",
    "exclude.internal.topics": "subscribe to topics by name",
    "max.poll.records": "give consume() the number of messages in the application; poll() returns one",
    "socket.connection.setup.timeout.max.ms": "declare socket.connection.setup.timeout.ms; it does not grow",
}
"""Hints for settings that librdkafka does not have, or has for another purpose."""

# Pairs of which the first must not exceed the second, with librdkafka's defaults.
# librdkafka compares them when a client is made, and does not start.
_ORDERED = (
    ("session.timeout.ms", 45_000, "max.poll.interval.ms", 300_000),
    ("reconnect.backoff.ms", 100, "reconnect.backoff.max.ms", 10_000),
)
_EAGER, _COOPERATIVE = frozenset({"range", "roundrobin"}), frozenset({"cooperative-sticky"})

Rejection: TypeAlias = tuple[str, str, str]
"""The setting, the problem, and a hint."""


def build_librdkafka_settings(group: Desired, without: Collection[str] = ()) -> dict[str, str]:
    """Build the settings of a client based on librdkafka that joins the group.

    Raises:
        InvalidInput: librdkafka does not support some of the settings; lists all of them.
    """
    protocol = get_protocol(group)
    if protocol not in {"classic", "consumer"}:
        message = f"a client of librdkafka cannot be a member of a {protocol} group"
        raise InvalidInput(
            [Problem(message, group.locate("protocol"), "export it for Java: --format properties")]
        )
    # librdkafka accepts some settings that the protocol has no use for. They are rejected as for Java, so
    # that a manifest is right for every client.
    build_java_settings(group, without)  # rejects settings that no client of this protocol accepts
    declared = read_declared_settings(group, without)
    raise_rejections(group, (*_find_rejections(declared), *_find_order_violations(declared, protocol)))
    settings = {GROUP_ID: group.ref.name, GROUP_PROTOCOL: protocol}
    return settings | {
        LIBRDKAFKA_SETTINGS[name].name or name: _translate_value(name, text)
        for name, text in declared.items()
    }


def _translate_value(name: str, text: str) -> str:
    return dict(LIBRDKAFKA_SETTINGS[name].values).get(text, text)


def _find_rejections(declared: Mapping[str, str]) -> Iterator[Rejection]:
    for name, text in declared.items():
        native = LIBRDKAFKA_SETTINGS.get(name)
        if native is None:
            hint = ALTERNATIVES.get(name, "remove it from the manifest if no Java client uses it")
            yield name, f"librdkafka has no {name}", f"{hint}; --without {name} leaves it out here"
        elif (
            native.least is not None
            and not native.least <= int(_translate_value(name, text)) <= native.greatest
        ):
            own = native.name or name
            message = f"{name}: librdkafka takes {own} from {native.least} to {native.greatest}, not {text}"
            yield name, message, "choose a value in this range"
        elif name == "auto.offset.reset" and text.startswith("by_duration:"):
            hint = "declare earliest or latest, and offsets.initial for where the group starts"
            yield name, f"{name}: librdkafka does not support {text}", hint
        elif name == ASSIGNMENT:
            yield from _check_assignors(text)


def _find_order_violations(declared: Mapping[str, str], protocol: str) -> Iterator[Rejection]:
    """Find settings of which one must not exceed the other, but does."""
    for lower, usual_lower, upper, usual_upper in _ORDERED:
        # Members of the consumer protocol have the brokers' session timeout (KIP-848).
        if lower in kafka_configs.refused_by_client(protocol):
            continue
        low, high = int(declared.get(lower, usual_lower)), int(declared.get(upper, usual_upper))
        if low > high:
            name = upper if upper in declared else lower
            yield name, f"librdkafka needs {upper} ({high}) to be at least {lower} ({low})", "declare both"


def _check_assignors(text: str) -> Iterator[Rejection]:
    names = text.split(",")
    unknown = [name for name in names if name not in _EAGER | _COOPERATIVE]
    if unknown:
        known = ", ".join(sorted(_EAGER | _COOPERATIVE))
        yield ASSIGNMENT, f"librdkafka has no assignor {', '.join(unknown)}", f"it has {known}"
    elif not (_EAGER.issuperset(names) or _COOPERATIVE.issuperset(names)):
        message = f"{ASSIGNMENT}: librdkafka cannot combine cooperative-sticky with other assignors"
        yield ASSIGNMENT, message, "declare one; to change over, stop all members first"


def render_settings(group: Desired, output_format: str, without: Collection[str] = ()) -> str:
    """Render the client settings of a declared group, with a newline at the end.

    Args:
        output_format: One of FORMATS; `librdkafka` has that client's names, all others the Java client's.
        without: Settings to leave out, by the Java client's names.

    Raises:
        InvalidInput: The client would reject the declared settings.
        KafkaformError: The format cannot represent a value.
    """
    build = build_librdkafka_settings if output_format == "librdkafka" else build_java_settings
    return FORMATS[output_format](build(group, without))


def _render_properties(settings: Mapping[str, str]) -> str:
    """Render a Java properties file without a timestamp."""
    import javaproperties

    # A timestamp would change the file with each run.
    return str(javaproperties.dumps(settings, timestamp=None))


def _render_json(settings: Mapping[str, str]) -> str:
    """Render one JSON object; all values are strings, which Kafka's clients parse."""
    return json.dumps(settings, indent=2, ensure_ascii=False) + "\n"


def _render_yaml(settings: Mapping[str, str]) -> str:
    """Render one YAML mapping; all values are strings."""
    import yaml

    # No line is folded: one setting is one line in a diff.
    return yaml.safe_dump(dict(settings), sort_keys=False, allow_unicode=True, width=2**31)


def _render_env(settings: Mapping[str, str]) -> str:
    """Render environment variables for containers: KAFKA_CONSUMER_ and the name in upper case.

    For an application of Kafka Streams the prefix is KAFKA_STREAMS_. The format is that of
    `docker run --env-file` and `kubectl create configmap --from-env-file`, which take everything after the
    first = literally: no quotes, no shell.
    """
    prefix = "KAFKA_STREAMS_" if APPLICATION_ID in settings else "KAFKA_CONSUMER_"
    # Shells and Kubernetes accept no dots in the names of variables.
    return _render_lines({prefix + name.upper().replace(".", "_"): value for name, value in settings.items()})


def _render_lines(settings: Mapping[str, str]) -> str:
    """Render `name=value` lines, a format without escapes."""
    for name, value in settings.items():
        if value.splitlines() not in ([value], []):
            raise KafkaformError(
                f"{name}: {quoted(value)} contains a line break", hint="use --format json or yaml"
            )
    return "".join(f"{name}={value}\n" for name, value in settings.items())


FORMATS: Mapping[str, Callable[[Mapping[str, str]], str]] = {
    "properties": _render_properties,
    "json": _render_json,
    "yaml": _render_yaml,
    "env": _render_env,
    "librdkafka": _render_lines,
}
"""The renderers by the name of their format."""
