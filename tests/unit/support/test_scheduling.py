"""The order of the tests' work, and what their folders promise."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import chain, groupby
from pathlib import Path

import pytest

from tests.conftest import GROUP_CLUSTERS, HEAVY, SPARK, get_group

ROOT = Path(__file__).parents[3]
PYTEST_IN_PYTEST = pytest.mark.nightly("it starts pytest in a process of its own")
CONFTEST = """
import os
from pathlib import Path

import pytest
import tests.conftest
from tests.conftest import (
    pytest_collection_modifyitems, pytest_configure, pytest_runtest_protocol, pytest_xdist_make_scheduler
)

class Ended:
    def end(self):
        with (Path(__file__).parent / "log").open("a") as log:
            log.write(f"end {os.environ.get('PYTEST_XDIST_WORKER')}\\n")

tests.conftest.group_clusters = Ended()

@pytest.fixture
def kafka():
    pass

@pytest.fixture
def kafka3():
    pass

@pytest.fixture
def three(kafka3):
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
    pytest_there = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", f"{scene}")
    return subprocess.run(
        [*pytest_there, *options, scene],
        cwd=scene,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


@PYTEST_IN_PYTEST
def test_workers_get_whole_files_and_groups(tmp_path: Path) -> None:
    plain = [f"tests/unit/test_plain_{letter}.py" for letter in "abcd"]
    spark = [f"tests/{SPARK}/test_{letter}.py" for letter in "ef"]
    texts = {
        **dict.fromkeys([*spark, *plain], TESTS),
        "tests/kafka/test_g.py": TESTS.replace("request)", "request, kafka3)"),
        "tests/contract/test_h.py": TESTS.replace("request)", "request, kafka3, kafka)"),
    }
    done = pytest_in(tmp_path, texts, "-n", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split() for line in (tmp_path / "log").read_text().splitlines()]
    ran = [(get_group(file, tmp_path), worker) for file, worker in lines if file != "end"]
    groups = [SPARK, "kafka3", *(file.removeprefix("tests/") for file in plain)]
    assert {group: ran.count((group, worker)) for group, worker in {*ran}} == {
        group: 12 if group in (SPARK, "kafka3") else 6 for group in groups
    }
    assert len({worker for _, worker in ran}) == 2
    # Clusters are ended with the last test of each group, and not before.
    for worker in {worker for _, worker in ran}:
        own = [file if file == "end" else get_group(file, tmp_path) for file, by in lines if by == worker]
        parts = [[*part] for _, part in groupby(own)]
        assert {len(part) for part in parts[1::2]} == {1}
        assert {*chain(*parts[1::2])} == {"end"}
        assert len({part[0] for part in parts[::2]}) == len(parts) // 2


def test_heavy_files_are_groups_of_their_own() -> None:
    """A file that needs a shared cluster is begun with the others that do."""
    files = [name for name in HEAVY if name not in {SPARK, *GROUP_CLUSTERS}]
    assert [name for name in files if not (ROOT / "tests" / name).exists()] == []
    assert [get_group(f"tests/{name}", ROOT) for name in files] == files


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
        ("kafka/test_a.py", "def test_it(three): pass\n", "does not name the cluster that it needs"),
        ("nightly/test_a.py", "def test_it(): pass\n", "say why it is nightly"),
        ("kafka/test_a.py", NIGHTLY.format(""), "say why it is nightly"),
        ("kafka/test_a.py", NIGHTLY.format("('')"), "say why it is nightly"),
    ],
)
def test_folder_rules_are_enforced(pytester: pytest.Pytester, file: str, text: str, message: str) -> None:
    done = outcomes_in(pytester, {f"tests/{file}": text})
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    assert message in done.stdout.str() + done.stderr.str()


@pytest.mark.parametrize(
    ("chosen", "count"),
    [("nightly", 2), ("not nightly", 2), ("unit", 1), ("kafka", 2), ("kafka and nightly", 1)],
)
def test_folder_is_a_marker(pytester: pytest.Pytester, chosen: str, count: int) -> None:
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

def test_script_of_that_name(monkeypatch, tmp_path):
    script = tmp_path / "java"
    script.write_text("#!/bin/sh\\necho 'no JVM'\\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    for name in ("java", str(script)):
        assert subprocess.run([name], check=True, capture_output=True).stdout == b"no JVM\\n"
"""


@PYTEST_IN_PYTEST
def test_only_a_unit_test_is_kept_from_starting_a_jvm(tmp_path: Path) -> None:
    conftest = ROOT.joinpath("tests/unit/conftest.py").read_text()
    files = {"tests/unit/conftest.py": conftest}
    files |= {f"tests/{folder}/test_{folder}.py": STARTS_JAVA for folder in ("kafka", "unit")}
    output = pytest_in(tmp_path, files, "-rA", "--tb=line").stdout
    outcomes = {line.split(" - ")[0] for line in output.splitlines() if line.startswith(("PASSED", "FAILED"))}
    assert outcomes == {
        "PASSED tests/kafka/test_kafka.py::test_by_name",
        "PASSED tests/kafka/test_kafka.py::test_by_path",
        "PASSED tests/kafka/test_kafka.py::test_script_of_that_name",
        "FAILED tests/unit/test_unit.py::test_by_name",
        "FAILED tests/unit/test_unit.py::test_by_path",
        "PASSED tests/unit/test_unit.py::test_script_of_that_name",
    }, output
    assert "JavaStartedError: tests/unit/test_unit.py::test_by_name starts a JVM" in output


DRAWING = """
import hashlib, importlib, os
from pathlib import Path

from hypothesis import given, strategies as st
from tests.support.plans import strategies

DRAWN = []

@given(st.lists(st.integers() | st.text() | st.floats()), strategies.plans(), strategies.headers())
def test_draw(values, plan, header):
    DRAWN.append(repr((values, plan, header)))

def test_write():
    Path(os.environ["DRAWN"]).write_text(f"{len(DRAWN)} {hashlib.sha256(repr(DRAWN).encode()).hexdigest()}")
"""
CONSTANTS = f"NUMBERS = {[*range(1_000_000, 1_000_400)]}\nTEXTS = {[f'text {n}' for n in range(400)]}\n"
FAILING = """
from hypothesis import given, strategies as st

@given(st.integers(0, 10**6))
def test_small(number):
    assert number < 10
"""


@pytest.mark.nightly("it starts pytest five times, for what changes with the profiles alone")
def test_only_nights_draw_new_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By day, neither the order of sets nor the modules that are loaded, the worker nor CI changes any."""
    (tmp_path / "loaded").mkdir()
    (tmp_path / "loaded" / "constants.py").write_text(CONSTANTS)

    def draw(seed: str, before: str, *options: str, **environment: str) -> str:
        drawn = tmp_path / "drawn"
        for name, value in {"PYTHONHASHSEED": seed, "DRAWN": str(drawn), **environment}.items():
            monkeypatch.setenv(name, value)
        done = pytest_in(tmp_path / "scene", {"tests/unit/test_a.py": before + DRAWING}, *options)
        assert done.returncode == 0, done.stdout + done.stderr
        return drawn.read_text()

    load = f"import sys\nsys.path.append({str(tmp_path / 'loaded')!r})\nimport constants\n"
    monkeypatch.delenv("CI", raising=False)
    by_day = draw("1", "")
    assert draw("2", load, "-n", "1", CI="true") == by_day
    nights = {draw("1", "", "--hypothesis-profile", "night") for _ in range(2)}
    assert len({by_day, *nights}) == 3

    scene = {"tests/unit/test_a.py": FAILING}
    done = pytest_in(tmp_path / "scene", scene, "--hypothesis-profile", "night")
    assert "@reproduce_failure(" in done.stdout, done.stdout
    assert "rerun" not in done.stdout
