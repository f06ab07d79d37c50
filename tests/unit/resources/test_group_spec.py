"""A ConsumerGroup's spec in normal form, and its split into what the cluster holds and what is only meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafkaform.config.manifests.loader import Context, load, merge
from kafkaform.core import kafka_configs
from kafkaform.core.errors import InvalidInput
from kafkaform.core.model import Desired, Intent, State, Undeclared
from kafkaform.resources import GROUP
from kafkaform.resources.base import Layer
from kafkaform.resources.consumer_group.client import is_taken
from kafkaform.resources.consumer_group.spec import normalise, resolve
from tests.support.golden import wording
from tests.unit.resources.test_topic_spec import Reports


def normal(layer: Layer) -> Layer:
    reports = Reports()
    found = normalise(layer, reports)
    assert reports == []
    return found


def resolved(*layers: Layer) -> tuple[State | None, Intent]:
    reports = Reports()
    found = resolve(merge(map(normal, layers)), reports)
    assert reports == []
    return found


def refused(layer: Layer) -> list[tuple[tuple[str | int, ...], str, str | None, bool]]:
    """What is said of a layer, alone and as a whole spec."""
    reports = Reports()
    resolve({"topics": ["t"], **normalise(layer, reports)}, reports)
    return reports


# --- what rules read ---------------------------------------------------------------------------------

WHOLE: Layer = {
    "topics": ["orders.v1", "payments.v1"],
    "protocol": "consumer",
    "members": {"expected": 6.0, "max": 12},
    "config": {"consumer.session.timeout.ms": "50s"},
    "client": {"max.poll.records": "200", "max.poll.interval.ms": "5m", "enable.auto.commit": "False"},
    "processing": {"maxTimePerRecord": "200ms"},
    "offsets": {"initial": "earliest"},
    "lag": {"maxRecords": 100_000, "maxTime": "10m"},
    "guarantees": {"delivery": "at-least-once"},
    "downtime": {"max": "2d"},
}


def test_rules_get_the_keys_of_the_manifest_with_numbers_and_canonical_texts() -> None:
    _, intent = resolved(WHOLE)
    assert intent.spec == {
        "topics": ["orders.v1", "payments.v1"],
        "protocol": "consumer",
        "members": {"expected": 6, "max": 12},
        "config": {"consumer.session.timeout.ms": "50000"},
        "client": {
            "max.poll.records": "200",
            "max.poll.interval.ms": "300000",
            "enable.auto.commit": "false",
        },
        "processing": {"maxTimePerRecord": 200},
        "offsets": {"initial": "earliest"},
        "lag": {"maxRecords": 100_000, "maxTime": 600_000},
        "guarantees": {"delivery": "at-least-once"},
        "downtime": {"max": 172_800_000},
    }


def test_durations_are_milliseconds_and_the_default_protocol_is_classic() -> None:
    assert normal({"lag": {"maxTime": 1500}})["lag"] == {"maxTime": 1500}
    assert resolved({"topics": ["t"]})[1].spec == {"protocol": "classic", "topics": ["t"]}
    assert resolved({"topics": ["t"], "protocol": "streams"})[1].spec["protocol"] == "streams"


def test_layers_are_merged_setting_by_setting_and_null_takes_away() -> None:
    # Layers are merged setting by setting and topics are replaced.
    default: Layer = {"members": {"max": 3}, "client": {"max.poll.records": "10"}, "lag": {"maxTime": "1h"}}
    over: Layer = {"topics": ["other"], "members": {"expected": 1}, "client": {"fetch.min.bytes": "1KiB"}}
    spec = resolved(default, WHOLE, over)[1].spec
    assert spec["topics"] == ["other"]
    assert spec["members"] == {"expected": 1, "max": 12}
    assert spec["lag"] == {"maxRecords": 100_000, "maxTime": 600_000}
    client: Any = spec["client"]
    assert (client["max.poll.records"], client["fetch.min.bytes"]) == ("200", "1024")
    # Null takes away what a layer below says.
    over = {
        "members": {"expected": None, "max": None},
        "client": {"max.poll.records": None},
        "lag": {"maxTime": None},
        "offsets": {"initial": None},
        "config": {"consumer.session.timeout.ms": None},
    }
    state, intent = resolved(WHOLE, over)
    assert not {"members", "offsets", "config"} & set(intent.spec)
    assert intent.spec["lag"] == {"maxRecords": 100_000}
    assert "max.poll.records" not in str(intent.spec)
    assert state == {"config.consumer.session.timeout.ms": None}
    _, intent = resolved({"topics": ["t"], "deletionProtection": True, "undeclared": "reset"})
    assert (intent.deletion_protection, intent.undeclared) == (True, Undeclared.RESET)
    assert intent.keyed is None
    assert GROUP.reads(intent) == ("t",)


# --- what the cluster holds --------------------------------------------------------------------------


def test_a_group_has_configs_and_starts_in_each_topic_if_brokers_hold_any() -> None:
    # The state is the configs and where to start in each topic.
    state, _ = resolved(WHOLE)
    assert state == {
        "config.consumer.session.timeout.ms": "50000",
        "offsets.orders.v1": "earliest",
        "offsets.payments.v1": "earliest",
    }
    assert resolved({"topics": ["t"], "client": {"max.poll.records": "1"}})[0] == {}
    state, intent = resolved({"state": "absent"})
    assert state is None
    assert GROUP.reads(intent) == ()
    assert normal({"config": {"confluent.group.x": " 1 "}})["config"] == {"confluent.group.x": "1"}


@pytest.mark.parametrize(
    ("written", "canonical"),
    [("latest", "latest"), ("360m ago", "6h ago"), ("2026-11-01T01:00:00+01:00", "2026-11-01T00:00:00Z")],
)
def test_a_start_has_one_spelling(written: str, canonical: str) -> None:
    state, intent = resolved({"topics": ["t"], "offsets": {"initial": written}})
    assert state == {"offsets.t": canonical}
    assert intent.spec["offsets"] == {"initial": canonical}


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("cooperative-sticky", "cooperative-sticky"),
        (["range", "cooperative-sticky"], "range,cooperative-sticky"),
        ("org.apache.kafka.clients.consumer.CooperativeStickyAssignor", "cooperative-sticky"),
        ("com.example.Own, org.apache.kafka.clients.consumer.RangeAssignor", "com.example.Own,range"),
    ],
)
def test_kafkas_own_assignors_have_short_names(written: object, canonical: str) -> None:
    client = normal({"client": {"partition.assignment.strategy": written}})["client"]
    assert client == {"partition.assignment.strategy": canonical}


@pytest.mark.parametrize("name", sorted(kafka_configs.group_configs()))
def test_every_group_config_of_kafka_can_be_declared_by_its_default(name: str) -> None:
    key = kafka_configs.group_configs()[name]
    assert normal({"config": {name: key.default}})["config"] == {name: key.default}


# --- what is wrong -----------------------------------------------------------------------------------


def test_topics_members_and_starts_have_to_fit_the_protocol() -> None:
    reports = Reports()
    resolve({}, reports)
    assert reports == [((), "spec.topics is missing", wording, False)]
    ((path, message, _, _),) = refused({"members": {"expected": 3, "max": 2}})
    assert (path, message) == (("members", "expected"), wording)
    assert refused({"members": {"expected": 2, "max": 2}}) == []
    # A share group starts by a config and not by offsets.
    ((path, message, hint, _),) = refused({"protocol": "share", "offsets": {"initial": "earliest"}})
    assert path == ("offsets", "initial")
    assert message == wording
    assert "share.auto.offset.reset" in str(hint)
    assert refused({"protocol": "share", "offsets": {"initial": None}}) == []


@pytest.mark.parametrize("name", ["orders.*", "", ".", "..", "a:1", "a b", "x" * 250])
def test_a_topic_goes_by_a_name_that_topics_can_have(name: str) -> None:
    ((path, _, hint, _),) = refused({"topics": ["fine", name]})
    assert path == ("topics", 1)
    assert "patterns are not expanded" in str(hint)


@pytest.mark.parametrize(
    ("layer", "path", "words"),
    [
        ({"config": {"consumer.session.timeout.ms": "x"}}, ("config", "consumer.session.timeout.ms"), "'x'"),
        (
            {"config": {"share.delivery.count.limit": "1"}},
            ("config", "share.delivery.count.limit"),
            "below the minimum",
        ),
        ({"client": {"max.poll.records": "many"}}, ("client", "max.poll.records"), "not a whole number"),
        ({"client": {"max.poll.records": ["1"]}}, ("client", "max.poll.records"), "is not a list"),
        ({"client": {"auto.offset.reset": "oldest"}}, ("client", "auto.offset.reset"), "'oldest'"),
        (
            {"processing": {"maxTimePerRecord": "soon"}},
            ("processing", "maxTimePerRecord"),
            "maxTimePerRecord:",
        ),
        ({"lag": {"maxTime": -1}}, ("lag", "maxTime"), "lag.maxTime: '-1'"),
        ({"downtime": {"max": "2 months"}}, ("downtime", "max"), "downtime.max:"),
        ({"offsets": {"initial": "erliest"}}, ("offsets", "initial"), "offsets.initial: 'erliest'"),
        ({"offsets": {"initial": "17"}}, ("offsets", "initial"), "not a valid initial offset"),
        ({"offsets": {"initial": "2026-11-01T00:00:00"}}, ("offsets", "initial"), "no time zone"),
    ],
)
def test_a_bad_value_is_reported_at_its_place_and_left_out(
    layer: Layer, path: tuple[str, str], words: str
) -> None:
    reports = Reports()
    assert normalise(layer, reports) == {}
    ((place, message, _, key),) = reports
    assert (place, key) == (path, False)
    assert words in message


@pytest.mark.parametrize(
    ("part", "name"),
    [
        ("config", "consumer.session.timout.ms"),
        ("config", "max.poll.records"),
        ("config", "zzz"),
        ("client", "max.poll.record"),
        ("client", "consumer.session.timeout.ms"),
        ("client", "zzz"),
        ("client", "internal.throw.on.fetch.stable.offset.unsupported"),
        ("client", "group.id"),
        ("client", "group.protocol"),
    ],
)
def test_a_name_that_does_not_belong_there_is_reported_with_what_was_meant(part: str, name: str) -> None:
    ((path, message, said, key),) = refused({part: {name: "1"}})
    assert (path, key) == ((part, name), True)
    assert name in message
    assert str(said) == wording


def test_secrets_code_and_addresses_are_left_to_the_application() -> None:
    names = [
        "bootstrap.servers",
        "config.providers",
        "interceptor.classes",
        "key.deserializer",
        "metric.reporters",
        "sasl.jaas.config",
        "security.protocol",
        "ssl.keystore.location",
        "ssl.not.known.yet",
        "value.deserializer",
    ]
    for name in names:
        ((_, message, _, _),) = refused({"client": {name: "hunter2"}})
        assert message == wording


def test_secrets_code_and_misspelt_assignors_are_refused() -> None:
    # No property that loads code or is a secret is taken.
    for key in filter(lambda key: is_taken(key.name), kafka_configs.consumer_configs().values()):
        assert key.type not in {kafka_configs.ConfigType.CLASS, kafka_configs.ConfigType.PASSWORD}, key.name
        assert not key.name.endswith((".class", ".classes", ".reporters", ".providers", ".password")), (
            key.name
        )
    # A misspelt assignor.
    ((_, message, hint, _),) = refused({"client": {"partition.assignment.strategy": "cooperative_sticky"}})
    assert "'cooperative_sticky' is not an assignor" in message
    assert hint == wording
    ((_, _, hint, _),) = refused({"client": {"partition.assignment.strategy": "zzz"}})
    assert hint == wording


# --- from a file -------------------------------------------------------------------------------------

HEAD = "apiVersion: kafkaform/v1\nkind: ConsumerGroup\nmetadata: {name: g}\nspec:\n  topics: [t]\n"


def loaded(text: str, folder: Path, environment: str | None = None, **defaults: Layer) -> Desired:
    path = folder / "g.yaml"
    path.write_text(HEAD + text, "utf-8")
    layers = {"ConsumerGroup": tuple(defaults.values())}
    (desired,) = load([path], Context(("dev", "prod"), environment, layers))
    return desired


@pytest.mark.parametrize("quote", ["", '"'])
def test_a_time_needs_no_quotes(tmp_path: Path, quote: str) -> None:
    desired = loaded(f"  offsets: {{initial: {quote}2026-11-01T00:00:00Z{quote}}}\n", tmp_path)
    assert desired.state == {"offsets.t": "2026-11-01T00:00:00Z"}


def test_values_mean_what_is_written(tmp_path: Path) -> None:
    desired = loaded("  client: {group.instance.id: 010, enable.auto.commit: false}\n", tmp_path)
    assert desired.intent.spec["client"] == {"group.instance.id": "010", "enable.auto.commit": "false"}


def test_overrides_reach_single_settings(tmp_path: Path) -> None:
    text = (
        "  members: {expected: 4, max: 8}\n  config: {consumer.session.timeout.ms: 50s}\n"
        "  overrides:\n    dev: {members: {expected: 1}, config: {consumer.session.timeout.ms: null}}\n"
    )
    prod, dev = (loaded(text, tmp_path, name) for name in ("prod", "dev"))
    assert (prod.intent.spec["members"], dev.intent.spec["members"]) == (
        {"expected": 4, "max": 8},
        {"expected": 1, "max": 8},
    )
    assert prod.state == {"config.consumer.session.timeout.ms": "50000"}
    assert dev.state == {"config.consumer.session.timeout.ms": None}


def test_defaults_lie_under_every_manifest(tmp_path: Path) -> None:
    desired = loaded("  lag: {maxRecords: 5}\n", tmp_path, base={"lag": {"maxRecords": 1, "maxTime": 60_000}})
    assert desired.intent.spec["lag"] == {"maxRecords": 5, "maxTime": 60_000}


def test_every_mistake_of_a_file_is_told_in_one_run_with_its_place(tmp_path: Path) -> None:
    text = """\
  protocol: clasic
  members: {expected: many}
  config:
    consumer.heartbeat.intervall.ms: 5s
  client: {max.poll.interval.ms: 5 parsecs}
  offsets: {initial: noon}
  guarantees: {delivery: exactly_once}
  lagg: {}
"""
    with pytest.raises(InvalidInput) as caught:
        loaded(text, tmp_path)
    said = [str(problem).rpartition("g.yaml:")[2] for problem in caught.value.problems]
    starts = ["6:13: ", "7:23: ", "9:5: ", "10:34: ", "11:22: ", "12:26: ", "13:3: "]
    assert [text.startswith(start) for text, start in zip(said, starts, strict=True)] == [True] * 7, said
    assert "did you mean 'classic'?" in said[0]
    assert said[5] == wording
    assert "did you mean 'lag'?" in said[6]


def test_findings_land_on_the_line_of_their_field(tmp_path: Path) -> None:
    desired = loaded("  members:\n    expected: 2\n  client:\n    max.poll.records: 1\n", tmp_path)
    for path, line in [("members.expected", 7), ("client.max.poll.records", 9), ("topics", 5)]:
        place = desired.locate(path)
        assert place is not None
        assert place.line == line, path
