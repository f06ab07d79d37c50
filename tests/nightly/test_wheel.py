"""Tests of the wheel, installed into an empty environment."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.nightly(
    "it installs the dependencies of a user from the network, and again what tests have here"
)
def test_wheel_works_without_spark(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    environ = {name: value for name, value in os.environ.items() if not name.startswith("KAFKAFORM_")}
    script = [str(ROOT / "scripts" / "try_wheel.sh"), str(wheel)]
    done = subprocess.run(
        script, env={**environ, "PYTHON": sys.executable}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "kafkaform apply plan.json" in done.stdout
