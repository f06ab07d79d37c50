"""The archive of Spark's classes: its name, who may have written it, and when it is made."""

import fcntl
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from spark_validation import class_archive
from spark_validation.class_archive import archive_file, build_in_background, is_usable, main, make


def java(folder: Path, version: str) -> Path:
    """The home of a Java."""
    folder.mkdir()
    (folder / "release").write_text(f'JAVA_VERSION="{version}"\n')
    return folder


def test_each_java_has_own_archive(tmp_path: Path) -> None:
    homes = [java(tmp_path / name, version) for name, version in (("a", "17.0.1"), ("b", "17.0.1"))]
    files = {archive_file(tmp_path, home) for home in (*homes, None)}
    assert len(files) == 3
    (homes[0] / "release").write_text('JAVA_VERSION="17.0.2"\n')
    assert archive_file(tmp_path, homes[0]) not in files
    assert all(file.parent == tmp_path and file.suffix == ".jsa" for file in files)


def test_archive_writable_by_others_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_archive_is_built_once_and_not_retried_on_same_day(
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


def test_locked_archive_is_not_built(tmp_path: Path) -> None:
    with (tmp_path / "x.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert not make(tmp_path / "x.jsa", None)
    assert not (tmp_path / "x.jsa").exists()


def test_failed_build_leaves_failure_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> bool:
        raise PermissionError("no room")

    monkeypatch.setattr(class_archive, "make", refuse)
    monkeypatch.setattr(os, "nice", lambda _: 0)
    assert main([str(tmp_path / "x.jsa"), ""]) == 1
    assert (tmp_path / "x.failed").read_text() == "no room\n"
