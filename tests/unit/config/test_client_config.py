"""Client settings of a group: what is exported, and that the clients take it."""

import json
import logging
from collections.abc import Mapping
from typing import Any

import javaproperties
import pytest
import yaml
from confluent_kafka import Consumer, KafkaException
from syrupy.assertion import SnapshotAssertion

from kafkaform.config.client_config import (
    ALTERNATIVES,
    FORMATS,
    LIBRDKAFKA_SETTINGS,
    build_java_settings,
    build_librdkafka_settings,
    render_settings,
)
from kafkaform.core.errors import InvalidInput, KafkaformError
from kafkaform.core.kafka_configs import ASSIGNMENT, consumer_configs, refused_by_client
from kafkaform.resources.consumer_group.client import is_taken
from tests.support.client_settings import EVERYTHING, build_group
from tests.support.golden import list_texts

JAVA_PACKAGE = "org.apache.kafka.clients.consumer."


def find_librdkafka_error(settings: Mapping[str, Any]) -> str | None:
    """Return librdkafka's objection to settings; None if it has none."""
    quiet = {"logger": logging.getLogger("tests.client_config")}
    try:
        Consumer({**settings, **quiet}).close()
    except KafkaException as error:
        return str(error.args[0].str())
    return None


def list_refusals(client: Mapping[str, str], protocol: str = "classic") -> list[str]:
    with pytest.raises(InvalidInput) as caught:
        build_librdkafka_settings(build_group(client, protocol))
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("short", "classes"),
    [
        ("cooperative-sticky", f"{JAVA_PACKAGE}CooperativeStickyAssignor"),
        ("roundrobin,range", f"{JAVA_PACKAGE}RoundRobinAssignor,{JAVA_PACKAGE}RangeAssignor"),
        ("sticky,com.example.Own", f"{JAVA_PACKAGE}StickyAssignor,com.example.Own"),
    ],
)
def test_java_names_assignors_by_class(short: str, classes: str) -> None:
    assert build_java_settings(build_group({ASSIGNMENT: short}))[ASSIGNMENT] == classes


@pytest.mark.parametrize("protocol", ["classic", "consumer", "share"])
def test_settings_refused_by_client_are_refused(protocol: str) -> None:
    for name in refused_by_client(protocol):
        with pytest.raises(InvalidInput) as caught:
            build_java_settings(build_group({name: "1"}, protocol))
        (problem,) = caught.value.problems
        assert problem.message == f"clients of a {protocol} group do not start with {name}"
        assert (
            name not in build_java_settings(build_group({name: "1"}, protocol), without={name})
            or name == "group.protocol"
        )


def protocol_for(name: str) -> str:
    return "consumer" if name in refused_by_client("classic") else "classic"


# Beside the least or greatest value of the one, the other has to fit.
COMPANIONS = {
    "max.poll.interval.ms": {"session.timeout.ms": "1"},
    "session.timeout.ms": {"max.poll.interval.ms": "86400000"},
    "reconnect.backoff.max.ms": {"reconnect.backoff.ms": "0"},
    "reconnect.backoff.ms": {"reconnect.backoff.max.ms": "3600000"},
}


@pytest.mark.parametrize("name", [n for n, known in LIBRDKAFKA_SETTINGS.items() if known.least is not None])
def test_librdkafka_settings_have_exact_limits(name: str) -> None:
    native = LIBRDKAFKA_SETTINGS[name]
    own = native.name or name
    assert native.least is not None
    for value in (native.least, native.greatest):
        client = {name: str(value), **COMPANIONS.get(name, {})}
        settings = build_librdkafka_settings(build_group(client, protocol_for(name)))
        assert own in settings
        assert find_librdkafka_error(settings) is None
    for number in (native.least - 1, native.greatest + 1):
        client = {name: str(number), **COMPANIONS.get(name, {})}
        if dict(native.values).get(str(number)) is not None:
            assert find_librdkafka_error(build_librdkafka_settings(build_group(client))) is None
            continue
        assert list_refusals(client, protocol_for(name))[0].startswith(
            f"{name}: librdkafka takes {own} from "
        )
        bare = {"group.id": "g", **COMPANIONS.get(name, {}), own: str(number)}
        if number < 2**31 and (name, number) != ("auto.commit.interval.ms", 0):
            assert find_librdkafka_error(bare) is not None, number


def test_librdkafka_takes_or_refuses_every_setting_by_name() -> None:
    client = {n: v for n, v in EVERYTHING.items() if n in LIBRDKAFKA_SETTINGS} | {
        ASSIGNMENT: "range,roundrobin",
        "auto.offset.reset": "none",
        "client.rack": "",
        "client.dns.lookup": "resolve_canonical_bootstrap_servers_only",
        "metadata.recovery.strategy": "none",
    }
    settings = build_librdkafka_settings(build_group(client))
    assert len(settings) == len(client) + 2
    assert find_librdkafka_error(settings) is None
    consumer = {n: v for n, v in client.items() if n not in refused_by_client("consumer")}
    consumer["group.remote.assignor"] = "uniform"
    assert find_librdkafka_error(build_librdkafka_settings(build_group(consumer, "consumer"))) is None
    assert [
        text.split(" (")[0] for text in list_refusals({"max.poll.records": "200", "metrics.num.samples": "3"})
    ] == ["librdkafka has no max.poll.records", "librdkafka has no metrics.num.samples"]
    left_out = build_librdkafka_settings(
        build_group({"max.poll.records": "200"}), without=["max.poll.records"]
    )
    assert left_out == {"group.id": "g", "group.protocol": "classic"}
    taken = {name for name in consumer_configs() if is_taken(name)}
    assert LIBRDKAFKA_SETTINGS.keys() <= taken
    assert ALTERNATIVES.keys() <= taken
    assert not LIBRDKAFKA_SETTINGS.keys() & ALTERNATIVES.keys()
    for name in taken - LIBRDKAFKA_SETTINGS.keys() - refused_by_client("classic"):
        assert list_refusals({name: "1"})[0].startswith(f"librdkafka has no {name} ")
        # It takes max.poll.records, but for share consumers only.
        assert find_librdkafka_error({"group.id": "g", name: "1"}) is not None or name == "max.poll.records"


@pytest.mark.parametrize(
    ("name", "value", "own", "translated"),
    [
        ("fetch.max.wait.ms", "500", "fetch.wait.max.ms", "500"),
        ("request.timeout.ms", "30000", "socket.timeout.ms", "30000"),
        ("receive.buffer.bytes", "-1", "socket.receive.buffer.bytes", "0"),
        ("send.buffer.bytes", "65536", "socket.send.buffer.bytes", "65536"),
        ("auto.offset.reset", "none", "auto.offset.reset", "error"),
        ("auto.offset.reset", "latest", "auto.offset.reset", "latest"),
        (ASSIGNMENT, "cooperative-sticky", ASSIGNMENT, "cooperative-sticky"),
        ("session.timeout.ms", "45000", "session.timeout.ms", "45000"),
    ],
)
def test_librdkafka_settings_are_translated(name: str, value: str, own: str, translated: str) -> None:
    settings = build_librdkafka_settings(build_group({name: value}))
    assert settings == {"group.id": "g", "group.protocol": "classic", own: translated}


REFUSED = [
    {ASSIGNMENT: "sticky"},
    {ASSIGNMENT: "com.example.Own"},
    {ASSIGNMENT: "cooperative-sticky,range"},
    {"auto.offset.reset": "by_duration:PT6H"},
    {"fetch.max.wait.ms": "300001"},
    {"max.poll.interval.ms": "44999"},
    {"reconnect.backoff.ms": "10001"},
]


def test_settings_that_librdkafka_refuses_are_refused(golden: SnapshotAssertion) -> None:
    for client in REFUSED:
        own = {LIBRDKAFKA_SETTINGS[name].name or name: value for name, value in client.items()}
        assert find_librdkafka_error({"group.id": "g", **own}) is not None, client
    clients = [*REFUSED, *({name: "3"} for name in ("max.poll.records", "metrics.num.samples"))]
    texts = {str(client): list_refusals(client) for client in clients}
    assert {len(refusals) for refusals in texts.values()} == {1}
    assert list_texts(texts) == golden(name="refused.txt")


@pytest.mark.parametrize("protocol", ["share", "streams"])
def test_librdkafka_refuses_share_and_streams_groups(protocol: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        build_librdkafka_settings(build_group(protocol=protocol))
    assert f"cannot be a member of a {protocol} group" in str(caught.value.problems[0])


ODD = {"client.id": "é = : # ! \\ ' \" $x", "client.rack": "", "max.poll.records": "0200"}


def test_every_format_has_the_same_settings() -> None:
    declared = build_group(ODD, name="my group: 1")
    settings = build_java_settings(declared)
    assert javaproperties.loads(render_settings(declared, "properties")) == settings
    assert json.loads(render_settings(declared, "json")) == settings
    assert yaml.safe_load(render_settings(declared, "yaml")) == settings
    env = dict(line.split("=", 1) for line in render_settings(declared, "env").splitlines())
    assert env == {f"KAFKA_CONSUMER_{n.upper().replace('.', '_')}": v for n, v in settings.items()}
    assert "KAFKA_CONSUMER_MAX_POLL_RECORDS" in env
    for name in FORMATS:
        assert render_settings(declared, name, ["max.poll.records"]).endswith("\n")


def test_rendered_settings_use_names_of_format() -> None:
    text = render_settings(build_group(ODD), "properties")
    assert text == render_settings(build_group(ODD), "properties")
    assert text.isascii()
    assert not [line for line in text.splitlines() if line.startswith("#")]
    assert render_settings(build_group(protocol="streams"), "env") == (
        "KAFKA_STREAMS_APPLICATION_ID=g\nKAFKA_STREAMS_GROUP_PROTOCOL=streams\n"
    )
    assert render_settings(build_group(protocol="share"), "env") == "KAFKA_CONSUMER_GROUP_ID=g\n"
    assert render_settings(build_group({"fetch.max.wait.ms": "1000"}, "consumer"), "librdkafka") == (
        "group.id=g\ngroup.protocol=consumer\nfetch.wait.max.ms=1000\n"
    )


@pytest.mark.parametrize("output_format", ["env", "librdkafka"])
@pytest.mark.parametrize("name", ["a\nb", "a\rb", "a\u2028b"])
def test_line_break_in_value_is_refused(output_format: str, name: str) -> None:
    with pytest.raises(KafkaformError, match="contains a line break"):
        render_settings(build_group(name=name), output_format)
    assert javaproperties.loads(render_settings(build_group(name=name), "properties"))["group.id"] == name
