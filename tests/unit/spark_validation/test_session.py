"""Settings of a Spark session, what cannot start, and the archive of its classes; nothing here starts one."""

import fcntl
import os
import socket
import subprocess
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from spark_validation import class_archive, session
from spark_validation.class_archive import archive_file, build_in_background, is_usable, main, make
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


@pytest.mark.parametrize(
    ("missing", "remote", "reason", "package"),
    [
        ("pandas", None, "not installed: pandas", "kafkaform[spark]"),
        (
            "grpc",
            "sc://127.0.0.1:1",
            "Spark Connect needs grpcio",
            f"pyspark[connect]=={metadata.version('pyspark')}",
        ),
    ],
)
def test_missing_package_is_named_with_its_installation(
    monkeypatch: pytest.MonkeyPatch, missing: str, remote: str | None, reason: str, package: str
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == missing else name)
    with pytest.raises(SparkMissing, match=reason) as raised, session.start(SessionSettings(remote=remote)):
        pytest.fail("it started")
    assert raised.value.hint == f"`pip install '{package}'`"


def write_java(folder: Path, text: str) -> Path:
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
def test_failed_java_has_a_reason(tmp_path: Path, golden: SnapshotAssertion, error: str, name: str) -> None:
    home = write_java(tmp_path / "home", f"echo '{error}' >&2; exit 1")
    kind, message, hint = start_refused(tmp_path, home=home)
    assert kind == "SparkUnavailable"
    assert f"{message}\n{hint}\n" == golden(name=f"{name}.txt")


def test_sensitive_settings_are_not_on_command_line(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    home = write_java(tmp_path / "home", f"echo \"$@\" >> '{seen}'; env >> '{seen}'; exit 1")
    start_refused(tmp_path, home=home, **{"spark.my.password": PASSWORD, "spark.my.colour": "blue"})
    text = seen.read_text()
    assert "spark.my.colour=blue" in text
    assert "horse" not in text


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


def write_release(folder: Path, version: str) -> Path:
    """The home of a Java."""
    folder.mkdir()
    (folder / "release").write_text(f'JAVA_VERSION="{version}"\n')
    return folder


def test_each_java_has_own_class_archive(tmp_path: Path) -> None:
    homes = [write_release(tmp_path / name, version) for name, version in (("a", "17.0.1"), ("b", "17.0.1"))]
    files = {archive_file(tmp_path, home) for home in (*homes, None)}
    assert len(files) == 3
    (homes[0] / "release").write_text('JAVA_VERSION="17.0.2"\n')
    assert archive_file(tmp_path, homes[0]) not in files
    assert all(file.parent == tmp_path and file.suffix == ".jsa" for file in files)


def test_class_archive_of_others_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "spark"
    folder.mkdir(mode=0o700)
    file = folder / "x.jsa"
    assert not is_usable(file)
    file.touch(mode=0o600)
    assert not is_usable(file), "its size is not known"
    (folder / "x.size").write_text("0")
    assert is_usable(file)
    (folder / "x.size").write_text("1")
    assert not is_usable(file), "a part of it is missing"
    (folder / "x.size").write_text("0")
    file.chmod(0o620)
    assert not is_usable(file)
    file.chmod(0o600)
    folder.chmod(0o777)
    assert not is_usable(file)
    folder.chmod(0o700)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert not is_usable(file)


def test_class_archive_is_built_once_and_not_retried_on_same_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[list[str]] = []

    def start(command: list[str], **_: Any) -> object:
        started.append(command)
        return object()

    monkeypatch.setattr(subprocess, "Popen", start)
    monkeypatch.setattr(class_archive, "_children", [])
    file = tmp_path / "x.jsa"
    assert build_in_background(file, None)
    assert started[0][1:] == ["-m", "spark_validation.class_archive", str(file), ""]
    failed = tmp_path / "x.failed"
    failed.touch()
    assert not build_in_background(file, None)
    yesterday = time.time() - 90_000
    os.utime(failed, (yesterday, yesterday))
    assert build_in_background(file, None)
    tmp_path.chmod(0o700)
    file.touch(mode=0o600)
    assert build_in_background(file, None), "a part of it is missing"
    (tmp_path / "x.size").write_text("0")
    assert not build_in_background(file, None)
    assert len(started) == 3


def test_locked_class_archive_is_not_built(tmp_path: Path) -> None:
    with (tmp_path / "x.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert not make(tmp_path / "x.jsa", None)
    assert not (tmp_path / "x.jsa").exists()


def test_failed_class_archive_leaves_failure_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> bool:
        raise PermissionError("no room")

    monkeypatch.setattr(class_archive, "make", refuse)
    monkeypatch.setattr(os, "nice", lambda _: 0)
    assert main([str(tmp_path / "x.jsa"), ""]) == 1
    assert (tmp_path / "x.failed").read_text() == "no room\n"
