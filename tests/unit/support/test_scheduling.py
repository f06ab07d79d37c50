from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from tests.conftest import HEAVY_FILES, group_of
from tests.support.spark_fixtures import SPARK, SPARK_FILES

ROOT = Path(__file__).parents[3]

CONFTEST = "from tests.conftest import pytest_xdist_make_scheduler\n"
TESTS = """
import os
import time
from pathlib import Path

import pytest

@pytest.mark.parametrize("number", range(6))
def test_it(number):
    time.sleep(0.01)  # or one worker would have run all of it before the other asks
    Path({log!r}, f"{{Path(__file__).name}}.{{number}}").write_text(os.environ["PYTEST_XDIST_WORKER"])
"""


def test_a_worker_gets_whole_files_and_one_worker_all_that_needs_spark(tmp_path: Path) -> None:
    spark_files = sorted(SPARK_FILES)[:2]
    files = [*spark_files, *(f"test_plain_{letter}.py" for letter in "abcd")]
    log = tmp_path / "log"
    log.mkdir()
    scene = tmp_path / "scene"
    scene.mkdir()
    (scene / "conftest.py").write_text(CONFTEST)
    for name in files:
        (scene / name).write_text(TESTS.format(log=str(log)))
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-n",
            "2",
            "-p",
            "no:cacheprovider",
            "--rootdir",
            scene,
            scene,
        ],
        cwd=scene,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    workers = defaultdict(set)
    for ran in log.iterdir():
        workers[group_of(ran.name.rpartition(".")[0])].add(ran.read_text())
    assert len(list(log.iterdir())) == 6 * len(files)
    assert {group: len(used) for group, used in workers.items()} == dict.fromkeys(
        [SPARK, *files[len(spark_files) :]], 1
    ), json.dumps({group: sorted(used) for group, used in workers.items()})
    assert len(set.union(*workers.values())) == 2


def test_what_is_begun_first_exists() -> None:
    names = {path.name for path in (ROOT / "tests").glob("test_*.py")}
    assert {*HEAVY_FILES} - {SPARK} <= names
    assert names >= SPARK_FILES
