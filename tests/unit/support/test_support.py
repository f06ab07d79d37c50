"""The tests' own means: order of the work, guards, strategies, tools that may be missing, lints."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from kafkaform.core.model import Create, Delete, Risk, Status, Update, assessments
from kafkaform.core.plans import ChangeOrigin, Plan
from scripts import check_words
from scripts.list_messages import ROOT, Message, find_problems, list_messages
from tests.conftest import GROUP_CLUSTERS, HEAVY, SPARK, get_group
from tests.support.clusters import fixtures as kafka_fixtures
from tests.support.lock.writer import find_late_writes
from tests.support.plans import strategies
from tests.support.plans.strategies import examples
from tests.support.required import REQUIRE, program

CONFTEST = """
import pytest
from tests.conftest import pytest_collection_modifyitems, pytest_configure

kafka, kafka3 = (pytest.fixture(lambda: None, name=name) for name in ("kafka", "kafka3"))

@pytest.fixture
def three(kafka3):
    pass
"""
NIGHTLY = "import pytest\n@pytest.mark.nightly\ndef test_it(): pass\n"
pytest_plugins = "pytester"


def test_heavy_files_are_separate_groups() -> None:
    """A file that needs a shared cluster is begun with the others that do."""
    files = [name for name in HEAVY if name not in {SPARK, *GROUP_CLUSTERS}]
    assert [name for name in files if not (ROOT / "tests" / name).exists()] == []
    assert [get_group(f"tests/{name}", ROOT) for name in files] == files


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("unit/test_a.py", "def test_it(kafka): pass\n", "a unit test starts no broker"),
        ("kafka/test_a.py", "def test_it(three): pass\n", "does not name the cluster that it needs"),
        ("nightly/test_a.py", "def test_it(): pass\n", "say why it is nightly"),
        ("kafka/test_a.py", NIGHTLY, "say why it is nightly"),
    ],
)
def test_folder_rules_are_enforced(pytester: pytest.Pytester, file: str, text: str, message: str) -> None:
    test = pytester.path / "tests" / file
    test.parent.mkdir(parents=True)
    test.write_text(text)
    pytester.makeconftest(CONFTEST)
    done = pytester.runpytest_inprocess("-q", "-p", "no:cacheprovider", "--import-mode=importlib")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    assert message in done.stdout.str() + done.stderr.str()


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


@pytest.mark.parametrize(
    ("required", "outcome"), [("shellcheck", pytest.skip), ("browser,no-such-tool", pytest.fail)]
)
def test_missing_tool_skips_or_fails(monkeypatch: pytest.MonkeyPatch, required: str, outcome: Any) -> None:
    assert program("shell", "no-such-shell", "sh").endswith("/sh")
    monkeypatch.setenv(REQUIRE, required)
    with pytest.raises(outcome.Exception, match="no no-such-tool is installed"):
        program("no-such-tool")


def test_drawn_plans_cover_every_kind() -> None:
    drawn: list[Plan] = []

    @settings(examples(6), derandomize=True, database=None)
    @given(strategies.plans())
    def draw(plan: Plan) -> None:
        drawn.append(plan)

    draw()
    changes = [planned for plan in drawn for planned in plan.changes]
    assert {type(planned.change) for planned in changes} == {Create, Update, Delete}
    assert {planned.status for planned in changes} == {*Status}
    assert {planned.origin for planned in changes} == {None, *ChangeOrigin}
    assert {assessment.risk for planned in changes for assessment in assessments(planned.change)} == {*Risk}
    assert all(bool(planned.earlier) == (planned.origin is ChangeOrigin.MIXED) for planned in changes)
    assert {bool(planned.location) for planned in changes} == {True, False}
    for bite in ("\x1b[2J\x1b[31m", "\n```\n", "<!--", "@octocat", "$(rm -rf /)"):
        assert any(bite in repr(plan) or repr(bite)[1:-1] in repr(plan) for plan in drawn), bite
    for part in ("diagnostics", "unmanaged", "undeclared", "consents", "unknown", "readers"):
        assert {bool(getattr(plan, part)) for plan in drawn} == {True, False}, part
    assert 0 in {len(plan.changes) for plan in drawn}


def test_second_late_write_is_found() -> None:
    first, second, third = "a 1.0", "b 2.0", "c 3.0"
    assert find_late_writes([second, first, second, second, third]) == {first: [1]}
    assert find_late_writes([first, second, first, first, third]) == {first: [2, 3]}


@pytest.mark.parametrize(
    ("file", "sort", "text"),
    [
        ("kafkaform/core/config_values.py", "error", "{key.name}: {shown} is below the minimum {least}"),
        ("kafkaform/cli/apply.py", "hint", "give one PLAN.json, or manifests"),
        ("kafkaform/cli/plan.py", "help", "Exit 2 if there are changes, 0 if there are none."),
        ("kafkaform/cli/show.py", "command", "Show a saved plan. Needs no cluster."),
        ("kafkaform/rules/health.py", "rule", "Partitions are offline.\n\nEvery replica "),
        ("kafkaform/resources/topic/config_risk.py", "text", "older records are deleted permanently, "),
        ("kafkaform/templates/kafkaform.yaml", "template", "Values of every topic that does not set"),
        ("schemas/audit.schema.json", "schema", "The consents that the change had."),
    ],
)
def test_message_of_each_kind_is_listed(file: str, sort: str, text: str) -> None:
    assert [m for m in list_messages(ROOT / file) if m.sort == sort and text in m.text]


def test_expressions_in_messages_are_listed_separately(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text('"""A docstring."""\nx = f"{count} is {\'not a\' if count else \'a valid\'} count"\n')
    assert [(m.line, m.text) for m in list_messages(path)] == [
        (2, "not a"),
        (2, "a valid"),
        (2, "{count} is {…} count"),
    ]


@pytest.mark.parametrize(
    ("sort", "text"),
    [
        ("text", "broker 3 and two brokers did not tell their configs"),
        ("text", "Kafka does not know it"),
        ("text", "'x' is no place in a log"),
        ("text", "two lines.. and no more"),
        ("error", "the file is empty."),
        ("hint", "write  it again"),
        ("rule", "A topic has no partitions"),
        ("error", "run`kafkaform plan` again"),
    ],
)
def test_wrong_words_are_found(sort: str, text: str) -> None:
    assert list(find_problems(Message("module.py", 1, sort, text)))


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("def shown(plan): ...", "shown"),
        ("def of_plan(plan): ...", "of_plan"),
        ("found = 1", "found"),
        ("def test_a_topic_is_reported(): ...", "test_a_topic_is_reported"),
        ("from tests.unit.test_plans import build_plan", "tests.unit.test_plans"),
        ('def read(path):\n    """What a file has in it."""', "What a file has in it."),
        ('class Plan:\n    """How things are to be."""', "How things are to be."),
        ('def read(path):\n    """See `Plan.read`."""', "See `Plan.read`."),
        ('def read(path):\n    """Read it."""', "Read it."),
    ],
)
def test_invalid_names_and_docstrings_are_found(tmp_path: Path, source: str, text: str) -> None:
    path = tmp_path / "module.py"
    path.write_text(source)
    assert [problem[1] for problem in check_words.find_problems(path)] == [text]
    assert text.lstrip("_") not in check_words.ALLOWED.keys() - {"found"}
