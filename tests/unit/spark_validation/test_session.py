"""Tests of the settings of a Spark session, and of messages where none can start; nothing here starts one."""

import socket
from importlib import metadata
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from spark_validation import session
from spark_validation.configuration import (
    SessionSettings,
    build_configuration,
    find_secrets,
    hide_values,
    is_sensitive,
    session_settings,
)
from spark_validation.errors import SparkMissing, SparkUnavailable
from spark_validation.session import check_master, check_remote
from tests.support.skew.sessions import start_refused

PASSWORD = 'Tr0ub4dor "horse" battery'


# --- settings --------------------------------------------------------------------------------------


def test_custom_settings_override_and_extend_defaults(tmp_path: Path) -> None:
    own = {
        "spark.driver.memory": "9g",
        "spark.ui.enabled": "true",
        "spark.jars": "/own.jar",
        "spark.driver.extraClassPath": "/own",
        "spark.driver.extraJavaOptions": "-Dmine=1",
    }
    found = build_configuration(SessionSettings(conf=own), tmp_path)
    options = found.pop("spark.driver.extraJavaOptions")
    assert own.items() - {("spark.driver.extraJavaOptions", "-Dmine=1")} <= found.items()
    assert options.endswith(" -Dmine=1")
    assert "log4j2.configurationFile" in options


def test_custom_redaction_pattern_extends_default(tmp_path: Path) -> None:
    own = {"spark.sql.redaction.options.regex": "nothing"}
    for found in (build_configuration(SessionSettings(conf=own), tmp_path), session_settings(own)):
        assert found["spark.sql.redaction.options.regex"].endswith("|nothing")
        assert "jaas" in found["spark.sql.redaction.options.regex"]
        assert "jaas" in found["spark.redaction.regex"]


def test_class_archive_is_read_or_written(tmp_path: Path) -> None:
    archive = tmp_path / "spark.jsa"
    plain, used, dumped = (
        build_configuration(settings, tmp_path)["spark.driver.extraJavaOptions"]
        for settings in (
            SessionSettings(),
            SessionSettings(class_archive=archive),
            SessionSettings(class_archive=archive, dump_classes=archive),
        )
    )
    assert "jsa" not in plain
    assert f'"-XX:SharedArchiveFile={archive}"' in used
    assert "-XX:+VerifySharedSpaces" in used, "a damaged archive would end the process"
    assert f'"-XX:ArchiveClassesAtExit={archive}"' in dumped
    assert "SharedArchiveFile" not in dumped


# --- what cannot start -----------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize("url", ["sparks://x:1", "spark://", "local[x]", "spark://host:port", "mesos://a:1"])
def test_invalid_master_url_is_refused(url: str) -> None:
    with pytest.raises(SparkUnavailable, match="is not the URL of a Spark master") as raised:
        check_master(url)
    assert "spark://host:port" in str(raised.value.hint)


@pytest.mark.parametrize("url", ["local", "local[4]", "local[*]", "local[2,3]", "yarn"])
def test_master_without_address_is_accepted(url: str) -> None:
    check_master(url)


@pytest.mark.parametrize("kind", ["spark://127.0.0.1:{}", "k8s://https://127.0.0.1:{}", "k8s://127.0.0.1:{}"])
def test_unreachable_master_is_reported(kind: str) -> None:
    url = kind.format(free_port())
    with pytest.raises(SparkUnavailable, match="cannot be reached: Connection refused"):
        check_master(url)


def test_single_reachable_master_is_sufficient() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        check_master(f"spark://127.0.0.1:{free_port()},127.0.0.1:{server.getsockname()[1]}")


def test_connect_url_token_is_hidden() -> None:
    with pytest.raises(SparkUnavailable, match="cannot be reached") as raised:
        check_remote(f"sc://127.0.0.1:{free_port()}/;token=s3cret")
    assert "s3cret" not in raised.value.message
    with pytest.raises(SparkUnavailable, match="not a Spark Connect URL") as raised:
        check_remote("s3cret")
    assert "s3cret" not in raised.value.message


def test_missing_extra_names_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "pandas" else name)
    with (
        pytest.raises(SparkMissing, match="not installed: pandas") as raised,
        session.start(SessionSettings()),
    ):
        pytest.fail("it started")
    assert raised.value.hint == "`pip install 'kafkaform[spark]'`"


def test_missing_spark_connect_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = session._installed
    monkeypatch.setattr(session, "_installed", lambda name: name != "grpc" and found(name))
    with (
        pytest.raises(SparkMissing, match="Spark Connect needs grpcio") as raised,
        session.start(SessionSettings(remote="sc://127.0.0.1:1")),
    ):
        pytest.fail("it started")
    assert raised.value.hint == f"`pip install 'pyspark[connect]=={metadata.version('pyspark')}'`"


def java(folder: Path, text: str) -> Path:
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("error", "name"),
    [
        ("Error: could not reserve memory", "java_failed"),
        ("java.lang.UnsupportedClassVersionError: class file version 61.0", "java_too_old"),
    ],
)
def test_failing_java_is_reported_with_reason(
    tmp_path: Path, golden: SnapshotAssertion, error: str, name: str
) -> None:
    home = java(tmp_path / "home", f"echo '{error}' >&2; exit 1")
    kind, message, hint = start_refused(tmp_path, home=home)
    assert kind == "SparkUnavailable"
    assert f"{message}\n{hint}\n" == golden(name=f"{name}.txt")


def test_sensitive_settings_are_not_on_command_line(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    home = java(tmp_path / "home", f"echo \"$@\" >> '{seen}'; env >> '{seen}'; exit 1")
    start_refused(tmp_path, home=home, **{"spark.my.password": PASSWORD, "spark.my.colour": "blue"})
    text = seen.read_text()
    assert "spark.my.colour=blue" in text
    assert "horse" not in text


# --- secrets ---------------------------------------------------------------------------------------


def test_secrets_of_client_properties_are_hidden() -> None:
    properties = {
        "bootstrap.servers": "a:1",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.username": "somebody",
        "sasl.password": PASSWORD,
        "ssl.key.pem": "-----BEGIN",
    }
    found = find_secrets(properties)
    assert found == {PASSWORD, "-----BEGIN"}
    assert hide_values(f"{PASSWORD} somebody a:1", found) == "[hidden] somebody a:1"


@pytest.mark.parametrize(
    "name",
    ["kafka.sasl.jaas.config", "ssl.key.password", "ssl.keystore.key", "spark.hadoop.fs.s3a.secret.key",
     "sasl.oauthbearer.client.secret", "spark.hadoop.fs.s3a.access.key"],
)  # fmt: skip
def test_sensitive_names_are_recognised(name: str) -> None:
    assert is_sensitive(name)


def test_short_secret_is_hidden_as_whole_word_only() -> None:
    assert hide_values("a cat sat: at", {"at"}) == "a cat sat: [hidden]"
