"""Unit tests start no JVM, wait for no group, and their projects name an address where nobody answers."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.github.job import Job, github_job


class JavaStartedError(AssertionError):
    """A unit test began a JVM."""


def _no_java(event: str, arguments: tuple[object, ...]) -> None:
    if event != "subprocess.Popen":
        return
    test = os.environ.get("PYTEST_CURRENT_TEST", "")  # the hook cannot be taken away again
    if not test.startswith("tests/unit/"):
        return
    program = Path(shutil.which(str(arguments[0])) or "")
    if program.name in ("java", "javac") and program.read_bytes()[:2] != b"#!":  # a script is a test's own
        raise JavaStartedError(f"{test} starts a JVM: such tests lie in tests/kafka or tests/spark")


sys.addaudithook(_no_java)


@pytest.fixture(autouse=True, scope="module")
def no_watch() -> Iterator[None]:
    """Find a reader of a group that is to go at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kafkaform.plan.measuring.WATCH_S", 0.0)
        yield


@pytest.fixture(autouse=True, scope="session")
def no_announced_wait() -> Iterator[None]:
    """No wait for a cluster is announced; a thread that outlives its test would do so in the next one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kafkaform.cluster.transport.connection._SILENT_S", 3600.0)
        yield


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Job]:
    """A job of GitHub Actions, with GitHub as this machine answers for it."""
    with github_job(tmp_path, monkeypatch) as made:
        yield made


@pytest.fixture
def servers() -> str:
    return "127.0.0.1:1"


@pytest.fixture
def prefix() -> str:
    """The names of a unit test need not differ from those of others."""
    return "x."
