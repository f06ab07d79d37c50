"""The tour of `make demo`: every step of it checks its own exit code."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.nightly(
    "it starts four brokers and Spark, for a minute and a half, to say again what single tests say"
)
def test_demo_runs_to_completion() -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("KAFKAFORM_")}
    cache = os.environ.get("KAFKAFORM_CACHE")
    run = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "demo.py")],
        env=environ | ({"KAFKAFORM_CACHE": cache} if cache else {}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
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
