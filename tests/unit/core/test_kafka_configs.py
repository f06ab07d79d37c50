from typing import Any

import pytest

from kafkaform.core.kafka_configs import (
    ConfigType,
    canonical,
    cluster_defaults,
    consumer_configs,
    is_vendor,
    retired_configs,
    topic_configs,
)

RETENTION = "retention.ms"


@pytest.mark.parametrize(
    ("kind", "known", "names"),
    [
        ("topics", topic_configs, ("downconversion.enable", "format.version", "timestamp.difference.max.ms")),
        ("consumers", consumer_configs, ("auto.include.jmx.reporter",)),
    ],
)
def test_retired_configs_are_separate(kind: str, known: Any, names: tuple[str, ...]) -> None:
    retired = {name.removeprefix("message."): key.retired for name, key in retired_configs(kind).items()}
    assert retired == dict.fromkeys(names, "4.0")
    assert not retired_configs(kind).keys() & known().keys()


def test_keys_have_limits_and_canonical_defaults() -> None:
    topics = topic_configs()
    assert (topics[RETENTION].minimum, topics[RETENTION].maximum) == (-1, None)
    assert topics["compression.gzip.level"].ranges == ((-1, -1), (1, 9))
    assert topics["compression.type"].type is ConfigType.STRING
    assert "zstd" in topics["compression.type"].valid_values
    assert [s.factor for s in topics[RETENTION].synonyms] == [1, 60_000, 3_600_000]
    for name, key in consumer_configs().items():
        if key.default is not None:
            assert canonical(key, key.default) == key.default, name


def test_defaults_are_immutable_and_canonical() -> None:
    with pytest.raises(TypeError):
        topic_configs()["x"] = topic_configs()[RETENTION]  # type: ignore[index]
    assert not [name for name in (*topic_configs(), "retention.mss") if is_vendor(name)]
    broker = {"log.cleanup.policy": "delete, compact", "log.cleaner.min.cleanable.ratio": "0.50"}
    defaults = cluster_defaults(broker)
    assert (defaults["cleanup.policy"], defaults["min.cleanable.dirty.ratio"]) == ("compact,delete", "0.5")
    assert defaults["remote.storage.enable"] == "false"
    assert defaults.keys() == {name for name, key in topic_configs().items() if not key.internal}


def test_retired_config_has_default_only_if_broker_has() -> None:
    defaults = cluster_defaults({"log.message.timestamp.difference.max.ms": "1000"})
    assert defaults["message.timestamp.difference.max.ms"] == "1000"
    assert "message.format.version" not in defaults


@pytest.mark.parametrize(
    "name",
    [
        *("confluent.tier.enable", "redpanda.remote.write", "retention.local.target.bytes"),
        *("remote.log.msk.disable.policy", "warpstream.compression.type.fetch"),
        *("automq.table.topic.enable", "bufstream.archive.kind", "diskless.enable"),
    ],
)
def test_vendor_keys_are_recognised_by_prefix(name: str) -> None:
    assert is_vendor(name)


@pytest.mark.parametrize(
    ("hours", "minutes", "milliseconds", "expected"),
    [
        (None, None, None, "604800000"),
        ("168", None, None, "604800000"),
        ("168", "90", None, "5400000"),
        ("168", "90", "1000", "1000"),
        ("-1", None, None, "-1"),
        ("168", None, "-1", "-1"),
    ],
)
def test_first_set_synonym_is_default(
    hours: str | None, minutes: str | None, milliseconds: str | None, expected: str
) -> None:
    units = {"hours": hours, "minutes": minutes, "ms": milliseconds}
    broker = {f"log.retention.{unit}": value for unit, value in units.items()}
    set_ones = {name: value for name, value in broker.items() if value is not None}
    for values in (broker, set_ones):
        assert cluster_defaults(values)[RETENTION] == expected
