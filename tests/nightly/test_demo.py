"""The tour of `make demo`: every step of it checks its own exit code."""

from __future__ import annotations

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
def test_the_tour_ends_well() -> None:
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
    applied, _, after_apply = applied.partition("# Plan again")
    assert re.search(r"ConsumerGroup/payment-service  created:?\s", applied)
    assert "Apply: 22 created. Verified by reading the cluster again." in applied
    assert "No changes: 24 declared resources, all as declared." in after_apply
    looked, _, after_apply = after_apply.partition("# Somebody raises")
    status, _, advice = looked.partition("$ kafkaform doctor")
    assert re.search(
        r"^orders\.v1 +3 +1 +7d +no data +payment-service, shipment-planner", status, re.MULTILINE
    )
    assert re.search(r"^orders-enrichment +- +does not exist", status, re.MULTILINE)
    assert "KF307" in advice
    assert "KF203 (warning)" in advice
    assert "group.id=payment-service" in advice
    found, _, settled = after_apply.partition("# With consent")
    assert "retention.ms          14d → 7d" in found
    settled, _, measured = settled.partition("# A release of the shop writes")
    refused, _, untouched = settled.partition("# Nothing of orders.v1 was touched")
    assert "update refused: Kafka cannot remove partitions from a topic (3 → 2)" in refused
    assert "Topic/carts.v1  updated: segment.ms = 12h (43200000)" in refused
    assert "retention.ms          7d → 10d" in untouched
    assert "carts.v1" not in untouched
    report, _, judged = measured.partition("# Would 6 partitions help?")
    assert "orders.v1: hot keys, breaks its policy" in report
    assert re.search(r"error KF502 .* has 29\.\d % of the records; the policy allows 1 %", report)
    assert "update refused: KF506: orders.v1: with 6 partitions the fullest is predicted to have" in judged
    assert re.search(r"% of the sampled keys with .* of the records move", judged)
    page = Path(re.search(r"a page for a browser: (\S+)", report)[1])  # type: ignore[index]
    assert "79326c2c826c" in page.read_text("utf-8")
    page.unlink()
    _, _, replicas = run.stdout.partition("# Three brokers, in three racks")
    assert "ConsumerGroup/order-retry-service  created: orders.retry.v1 from earliest" in replicas
    assert "Apply: 23 created. Verified by reading the cluster again." in replicas
    assert re.search(r"12 replicas are copied \(1\d\d\.\d MiB, about", replicas)
    assert "6 partitions: 12 replicas added, min.insync.replicas = 2" in replicas
    moving = [line for line in run.stderr.splitlines() if line.startswith("moving replicas: ")]
    assert "6 of 6 partitions" in moving[-1]
    assert "at most 10 MB/s per broker" in moving[-1]
    assert re.search(r"^BROKER  RACK +REPLICAS  PREFERRED LEADERS$", replicas, re.MULTILINE)
