"""The order of the tests' work, and what their folders promise."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from tests.conftest import HEAVY_FILES, SPARK, group_of

ROOT = Path(__file__).parents[3]
CONFTEST = """
import pytest
from tests.conftest import pytest_collection_modifyitems, pytest_configure, pytest_xdist_make_scheduler

@pytest.fixture
def kafka():
    pass
"""
TESTS = """
import os
import time
from pathlib import Path

import pytest

@pytest.mark.parametrize("number", range(6))
def test_it(number, request):
    time.sleep(0.01)  # or one worker would have run all of it before the other asks
    file = request.path.relative_to(request.config.rootpath).as_posix()
    with Path(request.config.rootpath, "log").open("a") as log:
        log.write(f"{file} {os.environ['PYTEST_XDIST_WORKER']}\\n")
"""


NIGHTLY = "import pytest\n@pytest.mark.nightly{}\ndef test_it(): pass\n"
pytest_plugins = "pytester"


def pytest_in(scene: Path, files: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in a folder of these files, with this project's own hooks."""
    for name, text in {"conftest.py": CONFTEST, **files}.items():
        (scene / name).parent.mkdir(parents=True, exist_ok=True)
        (scene / name).write_text(text)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", scene, *options, scene],
        cwd=scene,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_worker_gets_whole_files_and_one_worker_all_that_needs_spark(tmp_path: Path) -> None:
    plain = [f"tests/unit/test_plain_{letter}.py" for letter in "abcd"]
    files = [*(f"tests/{SPARK}/test_{letter}.py" for letter in "ef"), *plain]
    done = pytest_in(tmp_path, dict.fromkeys(files, TESTS), "-n", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    ran = [line.split() for line in (tmp_path / "log").read_text().splitlines()]
    assert sorted(file for file, _ in ran) == sorted(files * 6)
    workers = defaultdict(set)
    for file, worker in ran:
        workers[group_of(file)].add(worker)
    groups = [SPARK, *(file.removeprefix("tests/") for file in plain)]
    assert {group: len(used) for group, used in workers.items()} == dict.fromkeys(groups, 1), workers
    assert len(set.union(*workers.values())) == 2


def test_what_is_begun_first_exists() -> None:
    assert [name for name in HEAVY_FILES if not (ROOT / "tests" / name).exists()] == []


def outcomes_in(pytester: pytest.Pytester, files: dict[str, str], *options: str) -> pytest.RunResult:
    """The same within this process, which has imported everything already."""
    for name, text in {"conftest.py": CONFTEST, **files}.items():
        pytester.path.joinpath(name).parent.mkdir(parents=True, exist_ok=True)
        pytester.path.joinpath(name).write_text(text)
    return pytester.runpytest_inprocess("-q", "-p", "no:cacheprovider", "--import-mode=importlib", *options)


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("unit/test_a.py", "def test_it(kafka): pass\n", "a unit test starts no broker"),
        ("nightly/test_a.py", "def test_it(): pass\n", "say why it is nightly"),
        ("kafka/test_a.py", NIGHTLY.format(""), "say why it is nightly"),
        ("kafka/test_a.py", NIGHTLY.format("('')"), "say why it is nightly"),
    ],
)
def test_what_a_folder_does_not_allow(pytester: pytest.Pytester, file: str, text: str, message: str) -> None:
    done = outcomes_in(pytester, {f"tests/{file}": text})
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    assert message in done.stdout.str() + done.stderr.str()


@pytest.mark.parametrize(
    ("chosen", "count"),
    [("nightly", 2), ("not nightly", 2), ("unit", 1), ("kafka", 2), ("kafka and nightly", 1)],
)
def test_a_folder_is_a_marker(pytester: pytest.Pytester, chosen: str, count: int) -> None:
    reason = NIGHTLY.format('("it waits for an hour")')
    plain = "def test_it(): pass\n"
    files = {
        "unit/test_a.py": plain,
        "kafka/test_b.py": plain,
        "kafka/test_c.py": reason,
        "nightly/test_d.py": reason,
    }
    files = {f"tests/{name}": text for name, text in files.items()}
    outcomes_in(pytester, files, "--strict-markers", "-m", chosen).assert_outcomes(
        passed=count, deselected=len(files) - count
    )


STARTS_JAVA = """
import shutil
import subprocess

def test_by_name():
    subprocess.run(["java", "-version"], check=True)

def test_by_path():
    subprocess.run([shutil.which("java"), "-version"], check=True)

def test_a_script_of_that_name(monkeypatch, tmp_path):
    script = tmp_path / "java"
    script.write_text("#!/bin/sh\\necho 'no JVM'\\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    for name in ("java", str(script)):
        assert subprocess.run([name], check=True, capture_output=True).stdout == b"no JVM\\n"
"""


def test_only_a_unit_test_is_kept_from_starting_a_jvm(tmp_path: Path) -> None:
    conftest = ROOT.joinpath("tests/unit/conftest.py").read_text()
    files = {"tests/unit/conftest.py": conftest}
    files |= {f"tests/{folder}/test_{folder}.py": STARTS_JAVA for folder in ("kafka", "unit")}
    said = pytest_in(tmp_path, files, "-rA", "--tb=line").stdout
    outcomes = {line.split(" - ")[0] for line in said.splitlines() if line.startswith(("PASSED", "FAILED"))}
    assert outcomes == {
        "PASSED tests/kafka/test_kafka.py::test_by_name",
        "PASSED tests/kafka/test_kafka.py::test_by_path",
        "PASSED tests/kafka/test_kafka.py::test_a_script_of_that_name",
        "FAILED tests/unit/test_unit.py::test_by_name",
        "FAILED tests/unit/test_unit.py::test_by_path",
        "PASSED tests/unit/test_unit.py::test_a_script_of_that_name",
    }, said
    assert "JavaStartedError: tests/unit/test_unit.py::test_by_name starts a JVM" in said
