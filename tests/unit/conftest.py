"""Unit tests start no JVM, wait for no group, and their projects name an address where nobody answers."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.support.github.job import Job, github_job
from tests.support.golden import hide_places, wording

_at_work: list[str] = []
"""The unit test that is run, if any: the hook below cannot be taken away again."""


class JavaStartedError(AssertionError):
    """A unit test began a JVM."""


def _no_java(event: str, arguments: tuple[object, ...]) -> None:
    if event != "subprocess.Popen" or not _at_work:
        return
    program = Path(shutil.which(str(arguments[0])) or "")
    if program.name in ("java", "javac") and program.read_bytes()[:2] != b"#!":  # a script is a test's own
        raise JavaStartedError(f"{_at_work[-1]} starts a JVM: such tests lie in tests/kafka or tests/spark")


sys.addaudithook(_no_java)


@pytest.fixture(autouse=True)
def without_java(request: pytest.FixtureRequest) -> Iterator[None]:
    """Hold each unit test to it."""
    _at_work.append(request.node.nodeid)
    yield
    _at_work.pop()


@pytest.fixture(autouse=True)
def no_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader of a group that is to go is found out at once."""
    monkeypatch.setattr("kafkaform.plan.measuring.WATCH_S", 0.0)


@pytest.fixture(autouse=True, scope="session")
def no_announced_wait() -> Iterator[None]:
    """No wait for a cluster is announced; a thread that outlives its test would do so in the next one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kafkaform.cluster.transport.connection._SILENT_S", 3600.0)
        yield


@pytest.fixture(autouse=True)
def sentences(snapshot: SnapshotAssertion, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let `wording` stand for the sentences of each test."""
    wording.snapshot = snapshot.with_defaults(matcher=hide_places(tmp_path_factory.getbasetemp()))
    yield
    wording.snapshot = None


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


def pytest_assertrepr_compare(config: pytest.Config, left: object, right: object) -> list[str] | None:
    """Show how a sentence differs from the one of the golden file."""
    if wording.snapshot is None or not any(side is wording for side in (left, right)):
        return None
    return ["the sentence differs:", *wording.snapshot.get_assert_diff(diff_mode=config.option.diff_mode)]
