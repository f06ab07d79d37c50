"""Scripts that check all of their own steps: the tour of `make demo`, and a wheel in an empty environment."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run_script(*command: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a script to its end, without what steers kafkaform."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name == "KAFKAFORM_CACHE" or not name.startswith("KAFKAFORM_")
    }
    run = subprocess.run(command, env={**kept, **more}, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    return run


@pytest.mark.nightly(
    "it starts four brokers and Spark, for a minute and a half, to say again what single tests say"
)
def test_demo_runs_to_completion() -> None:
    run = run_script(sys.executable, ROOT / "scripts" / "demo.py")
    _, _, applied = run.stdout.partition("# Apply it")
    applied, _, refused = applied.partition("# Somebody raises")
    for verified in (
        r"Apply: 23 created\.",
        r"No changes: 25 ",
        r"KF307",
        r"^orders-enrichment +- +does not",
    ):
        assert re.search(verified, applied, re.MULTILINE)
    refused, _, measured = refused.partition("# A release of the shop writes")
    assert "impossible: partition-decrease" in refused
    report, _, judged = measured.partition("# Would 6 partitions help?")
    assert re.search(r"error KF502 .* has 29\.\d %", report)
    assert "KF506: orders.v1: with 6 partitions" in judged
    page = Path(re.search(r"an HTML page: (\S+)", report)[1])  # type: ignore[index]
    assert "79326c2c826c" in page.read_text("utf-8")
    page.unlink()
    _, _, replicas = run.stdout.partition("# Three brokers, in three racks")
    assert "6 partitions: 12 replicas added, min.insync.replicas = 2" in replicas
    moving = [line for line in run.stderr.splitlines() if line.startswith("moving replicas: ")]
    assert "6 of 6 partitions" in moving[-1]


@pytest.mark.nightly(
    "it installs the dependencies of a user from the network, and again what tests have here"
)
def test_wheel_works_without_spark(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    done = run_script(ROOT / "scripts" / "try_wheel.sh", wheel, PYTHON=sys.executable)
    assert "kafkaform apply plan.json" in done.stdout
