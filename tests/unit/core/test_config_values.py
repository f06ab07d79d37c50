import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from kafkaform.core.config_values import (
    ConfigKey,
    ConfigType,
    Unit,
    canonical,
    equal,
    human,
    normalise_observed,
)
from kafkaform.core.kafka_configs import consumer_configs, group_configs, topic_configs
from tests.support.golden import list_texts

KEYS = {**topic_configs(), **group_configs()}
ALL_KEYS = {**KEYS, **consumer_configs()}
LONG_MAX = str(2**63 - 1)
RATIO = KEYS["min.cleanable.dirty.ratio"]


CANONICAL = {
    "retention.ms": {"060000": "60000", " 5\n": "5", "7d": "604800000", "unlimited": "-1"},
    "retention.bytes": {"50GiB": "53687091200"},
    "local.retention.ms": {"-2": "-2"},
    "segment.jitter.ms": {"-0": "0"},
    "min.cleanable.dirty.ratio": {
        "0.50": "0.5",
        ".5": "0.5",
        "-0.0": "0",
        "1E-7": "0.0000001",
        "0.10000000000000001": "0.1",
    },
    "preallocate": {" TRUE ": "true"},
    "cleanup.policy": {"delete , compact": "compact,delete", "": ""},
    "compression.type": {" gzip": "gzip"},
    "leader.replication.throttled.replicas": {"1:2, 0:1": "1:2,0:1"},
    "share.auto.offset.reset": {"by_duration:P1DT2H": "by_duration:P1DT2H"},
    "max.poll.interval.ms": {"5m": "300000"},
    "group.protocol": {"CONSUMER": "consumer"},
    "security.protocol": {"sasl_ssl": "SASL_SSL"},
    "auto.offset.reset": {"by_duration:PT6H": "by_duration:PT6H"},
    "partition.assignment.strategy": {"range , a.B": "range,a.B"},
}


@pytest.mark.parametrize("name", CANONICAL)
def test_value_has_one_canonical_form(name: str) -> None:
    assert {text: canonical(ALL_KEYS[name], text) for text in CANONICAL[name]} == CANONICAL[name]


INVALID = {
    "retention.ms": ("7 dys", "-2", "9223372036854775808"),
    "retention.bytes": ("50G",),
    "cleanup.policy": ("delte", "delete,"),
    "min.insync.replicas": ("0", "2.0", "2147483648"),
    "max.message.bytes": ("3GiB",),
    "segment.bytes": ("13B",),
    "compression.gzip.level": ("0",),
    "min.cleanable.dirty.ratio": ("1.5", "NaN", "1e999"),
    "preallocate": ("yes",),
    "compression.type": ("GZIP",),
    "leader.replication.throttled.replicas": ("a",),
    "share.auto.offset.reset": ("by_duration:P",),
    "auto.offset.reset": ("EARLIEST", "by_duration:6h"),
    "group.instance.id": ("",),
    "sasl.login.refresh.window.factor": ("0.4",),
}


def read_error(name: str, text: str) -> str:
    with pytest.raises(ValueError, match=f"^{name}: ") as caught:
        canonical(ALL_KEYS[name], text)
    return str(caught.value)


def test_invalid_value_messages_match_golden(golden: SnapshotAssertion) -> None:
    texts = {
        f"{name}={text}": [read_error(name, text)] for name, values in INVALID.items() for text in values
    }
    assert list_texts(texts) == golden(name="invalid.txt")


@pytest.mark.parametrize(
    "text", ["٣", "1_000", "0x10", "", "1" * 5000, "0" * 5000 + "1", "1\u00a0", "-", "unlimited", "50s"]
)
def test_invalid_integer_text_is_refused(text: str) -> None:
    message = read_error("min.insync.replicas", text)
    assert "is not a whole number" in message
    assert len(message) < 120


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_defaults_of_kafka_are_valid(key: ConfigKey) -> None:
    if key.default is not None:
        assert equal(key, canonical(key, key.default), key.default)


@pytest.mark.parametrize(
    ("name", "a", "b", "same"),
    [
        ("cleanup.policy", "delete,compact", "compact, delete", True),
        ("cleanup.policy", "delete", "compact", False),
        ("leader.replication.throttled.replicas", "0:1,1:2", "1:2,0:1", False),
        ("retention.ms", "7d", "604800000", True),
        ("min.cleanable.dirty.ratio", "0.50", "5e-1", True),
        ("compression.type", "gzip", "GZIP", False),
    ],
)
def test_equality_of_values_follows_kafka(name: str, a: str, b: str, same: bool) -> None:
    assert equal(KEYS[name], a, b) is same
    assert equal(KEYS[name], b, a) is same


def test_observed_values_are_normalised_without_validation() -> None:
    assert normalise_observed(KEYS["segment.bytes"], " 1024") == "1024"
    assert normalise_observed(KEYS["cleanup.policy"], "something,new") == "something,new"


def test_undocumented_key_uses_broker_type() -> None:
    key = ConfigKey("vendor.hotset.ms", ConfigType.LONG)
    assert (key.unit, canonical(key, "1d")) == (Unit.MS, "86400000")
    assert (human(key, "86400000"), human(key, "-1")) == ("1d", "-1")
    with pytest.raises(ValueError, match="above the maximum 32767"):
        canonical(ConfigKey("vendor.n", ConfigType.SHORT), "40000")
    assert canonical(ConfigKey("vendor.list", ConfigType.LIST), "b , a") == "b,a"
    assert canonical(ConfigKey("vendor.class", ConfigType.CLASS), " a.B ") == "a.B"
    assert (canonical(None, " 7d "), human(None, "604800000")) == ("7d", "604800000")
    assert not equal(None, "0.50", "0.5")


def test_only_retention_can_be_unlimited() -> None:
    names = {f"{local}retention.{unit}" for local in ("", "local.") for unit in ("ms", "bytes")}
    assert {name for name, key in KEYS.items() if key.can_be_unlimited} == names


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("retention.ms", "604800000", "7d"),
        ("retention.ms", "-1", "unlimited"),
        ("retention.bytes", "53687091200", "50 GiB"),
        ("local.retention.bytes", "-2", "-2"),
        ("max.message.bytes", "1048588", "1048588"),
        ("flush.ms", LONG_MAX, "unlimited (Long.MAX)"),
        ("min.cleanable.dirty.ratio", "0.5", "0.5"),
        ("retention.ms", "rubbish", "rubbish"),
    ],
)
def test_values_are_formatted_with_units(name: str, value: str, shown: str) -> None:
    assert human(KEYS[name], value) == shown


@given(st.sampled_from([key for key in KEYS.values() if key.unit]), st.integers(0, 2**31 - 1))
def test_formatted_values_are_parsed_back(key: ConfigKey, number: int) -> None:
    if key.minimum is None or number >= key.minimum:
        assert canonical(key, human(key, str(number))) == str(number)


@given(st.sampled_from(list(KEYS.values())), st.text() | st.integers().map(str) | st.floats().map(str))
def test_normalised_value_is_stable(key: ConfigKey, text: str) -> None:
    once = normalise_observed(key, text)
    assert normalise_observed(key, once) == once
    assert equal(key, text, once)


@given(st.floats(0, 1), st.integers(1, 30))
def test_doubles_are_compared_as_kafka_does(number: float, digits: int) -> None:
    written = f"{number:.{digits}e}"
    assert equal(RATIO, written, repr(number)) is (float(written) == number)
