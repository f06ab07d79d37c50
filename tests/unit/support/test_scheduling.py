"""The order of the tests' work, and what their folders promise."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from itertools import chain, groupby
from pathlib import Path

import pytest

from tests.conftest import GROUP_CLUSTERS, HEAVY, SPARK, group_of

ROOT = Path(__file__).parents[3]
CONFTEST = """
import os
from pathlib import Path

import pytest
import tests.conftest
from tests.conftest import (
    pytest_collection_modifyitems, pytest_configure, pytest_runtest_teardown, pytest_xdist_make_scheduler
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


def pytest_in(
    scene: Path, files: dict[str, str], *options: str, begun_by: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Run pytest in a folder of these files, with this project's own hooks."""
    for name, text in {"conftest.py": CONFTEST, **files}.items():
        (scene / name).parent.mkdir(parents=True, exist_ok=True)
        (scene / name).write_text(text)
    pytest_there = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", f"{scene}")
    return subprocess.run(
        [*begun_by, *pytest_there, *options, scene],
        cwd=scene,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_worker_gets_whole_files_and_one_worker_all_that_needs_spark_or_one_cluster(tmp_path: Path) -> None:
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
    ran = [(group_of(file, tmp_path), worker) for file, worker in lines if file != "end"]
    groups = [SPARK, "kafka3", *(file.removeprefix("tests/") for file in plain)]
    assert {group: ran.count((group, worker)) for group, worker in {*ran}} == {
        group: 12 if group in (SPARK, "kafka3") else 6 for group in groups
    }
    assert len({worker for _, worker in ran}) == 2
    # Clusters are ended with the last test of each group, and not before.
    for worker in {worker for _, worker in ran}:
        own = [file if file == "end" else group_of(file, tmp_path) for file, by in lines if by == worker]
        parts = [[*part] for _, part in groupby(own)]
        assert {len(part) for part in parts[1::2]} == {1}
        assert {*chain(*parts[1::2])} == {"end"}
        assert len({part[0] for part in parts[::2]}) == len(parts) // 2


def test_what_is_begun_first_exists() -> None:
    there = {SPARK, *GROUP_CLUSTERS}
    assert [name for name in HEAVY if name not in there and not (ROOT / "tests" / name).exists()] == []


NIGHTLY = "import pytest\n@pytest.mark.nightly{}\ndef test_it(): pass\n"


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
def test_what_a_folder_does_not_allow(tmp_path: Path, file: str, text: str, message: str) -> None:
    done = pytest_in(tmp_path, {f"tests/{file}": text})
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert message in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("chosen", "count"),
    [("nightly", 2), ("not nightly", 2), ("unit", 1), ("kafka", 2), ("kafka and nightly", 1)],
)
def test_a_folder_is_a_marker(tmp_path: Path, chosen: str, count: int) -> None:
    reason = NIGHTLY.format('("it waits for an hour")')
    plain = "def test_it(): pass\n"
    files = {
        "unit/test_a.py": plain,
        "kafka/test_b.py": plain,
        "kafka/test_c.py": reason,
        "nightly/test_d.py": reason,
    }
    done = pytest_in(
        tmp_path, {f"tests/{name}": text for name, text in files.items()}, "--strict-markers", "-m", chosen
    )
    assert f"{count} passed" in done.stdout, done.stdout + done.stderr


INTERRUPTED = """
import os, signal, subprocess, sys, time
import pytest

def test_it():
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(30)

def test_a_child():
    asked = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    assert subprocess.check_output([sys.executable, "-c", asked], text=True) == "True\\n"
"""
IGNORING = ("sh", "-c", 'trap "" INT; exec "$@"', "sh")
"""How a shell without job control begins what is to run in the background."""


@pytest.mark.parametrize("workers", [0, 1])
def test_a_ctrl_c_arrives_also_where_the_shell_has_it_ignored(tmp_path: Path, workers: int) -> None:
    done = pytest_in(tmp_path, {"tests/unit/test_a.py": INTERRUPTED}, "-n", f"{workers}", begun_by=IGNORING)
    assert "2 passed" in done.stdout, done.stdout + done.stderr


DEAF = """
import contextlib, time

def test_it():
    while True:
        with contextlib.suppress(BaseException):
            time.sleep(1)

def test_next(): pass
"""


def test_a_test_that_swallows_its_time_limit_is_ended_and_the_others_are_run(tmp_path: Path) -> None:
    limits = ("--timeout", "0.2", "-o", "faulthandler_timeout=1")
    options = ("-c", f"{ROOT / 'pyproject.toml'}", *limits, "-n", "1")
    done = pytest_in(tmp_path, {"tests/unit/test_a.py": DEAF}, *options)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout + done.stderr
    assert "crashed while running" in done.stdout
    assert "1 failed, 1 passed" in done.stdout
