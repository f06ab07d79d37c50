"""The guard that ends the tests' clusters, whatever becomes of the tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.timeout(60)
def test_once_the_session_is_gone_its_cluster_is_ended_and_no_other(tmp_path: Path) -> None:
    mine, other = tmp_path / "mine", tmp_path / "mine-not"
    (mine / "node-1").mkdir(parents=True)
    other.mkdir()
    node, stranger = (
        subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, cwd=directory)
        for directory in (mine / "node-1", other)
    )
    guard = subprocess.Popen(
        [sys.executable, "-m", "tests.support.kafka_guard", mine], stdin=subprocess.PIPE, cwd=ROOT
    )
    assert node.poll() is None
    guard.communicate()  # closes the pipe, as the end of a session does
    assert guard.returncode == 0
    assert node.wait() == -9
    assert not mine.exists()
    assert stranger.poll() is None
    stranger.communicate(b"\n")
    assert other.exists()
    assert node.stdin is not None
    node.stdin.close()
