"""The tests' clusters are ended: by the end of a group, and by a guard, whatever becomes of the tests."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.clusters import fixtures as kafka_fixtures

ROOT = Path(__file__).parents[3]


@pytest.mark.timeout(60)
def test_guard_ends_own_cluster_only(tmp_path: Path) -> None:
    mine, second = tmp_path / "mine", tmp_path / "mine-not"
    (mine / "node-1").mkdir(parents=True)
    second.mkdir()
    node, stranger = (
        subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, cwd=directory)
        for directory in (mine / "node-1", second)
    )
    guard = subprocess.Popen(
        [sys.executable, "-m", "tests.support.clusters.guard", mine], stdin=subprocess.PIPE, cwd=ROOT
    )
    assert node.poll() is None
    guard.communicate()  # closes the pipe, as the end of a session does
    assert guard.returncode == 0
    assert node.wait() == -9
    assert not mine.exists()
    assert stranger.poll() is None
    stranger.communicate(b"\n")
    assert second.exists()
    assert node.stdin is not None
    node.stdin.close()


def test_unit_test_starts_no_jvm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java = tmp_path / "java"
    shutil.copy(sys.executable, java)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    for name in ("java", str(java)):
        with pytest.raises(AssertionError, match="starts a JVM"):
            subprocess.run([name, "-version"], check=True)
    java.write_text("#!/bin/sh\n")
    subprocess.run([java], check=True)


def test_group_clusters_are_shared_and_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []

    @contextmanager
    def note_start(brokers: int, **_: object) -> Iterator[object]:
        log.append(f"start {brokers}")
        yield object()
        log.append(f"end {brokers}")

    monkeypatch.setattr(kafka_fixtures, "start_guarded", note_start)
    clusters = kafka_fixtures.GroupClusters()
    first = clusters.running("kafka3", 3)
    assert clusters.running("kafka3", 3) is first
    clusters.end()
    clusters.end()
    assert clusters.running("kafka3", 3) is not first
    assert log == ["start 3", "end 3", "start 3"]
