"""The main journeys through a proxy that offers what services offer: see tests/support/vendor_profiles.

KAFKA_VENDORS names the services, as `make test-kafka VENDORS="redpanda"` does; without it, a part of the
journeys is taken on one. The results are kept as those of the versions are: see test_journeys.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.support.cli_helpers import ROOT, Project
from tests.support.journeys import DAILY, JOURNEYS, Limit, Site, record, recorded, take
from tests.support.kafka_fixtures import admin_client, behind_proxy, remove_topics
from tests.support.vendor_profiles import PROFILES
from tests.support.vendor_proxy import VendorProxy

TABLE = ROOT / "docs" / "brokers.json"
DAILY_VENDOR = "redpanda"

ASKED = os.environ.get("KAFKA_VENDORS", "").split()
TAKEN = [(vendor, name) for vendor in ASKED or [DAILY_VENDOR] for name in (JOURNEYS if ASKED else DAILY)]
PATIENCE_S = 25.0
"""A journey that waits for what never comes takes longer: 30 s for a verification, and more for retries."""

LIMITS: dict[tuple[str, str], dict[str, Limit]] = {}
"""What a service does not do in a journey, by step."""


@dataclass(frozen=True)
class VendorProject(Project):
    """A project whose tests change things beside kafkaform without the service's limits."""

    direct: str = ""

    @cached_property
    def _admin(self) -> AdminClient:
        return admin_client(self.direct)


@pytest.fixture(scope="module")
def proxy() -> Iterator[VendorProxy]:
    """Three brokers behind a proxy."""
    with behind_proxy(3, heap_mb=256) as running:
        yield running


@pytest.fixture
def site(proxy: VendorProxy, vendor: str, name: str, tmp_path: Path) -> Iterator[Site]:
    prefix = f"t{uuid.uuid4().hex[:10]}."
    project = VendorProject(tmp_path, proxy.bootstrap_servers, prefix, proxy.direct)
    with proxy.offering(PROFILES[vendor]):
        yield Site(project, proxy.direct, LIMITS.get((vendor, name), {}))
    remove_topics(proxy.direct, prefix)


@pytest.mark.parametrize(("vendor", "name"), TAKEN)
def test_a_journey(site: Site, proxy: VendorProxy, vendor: str, name: str) -> None:
    begun = time.monotonic()
    cell = take(name, site)
    took = time.monotonic() - begun
    assert not proxy.closed, "nothing is asked that the service does not have"
    assert took < PATIENCE_S or name == "skew", f"it took {took:.0f} s"
    if written := os.environ.get("KAFKAFORM_BROKERS_TABLE"):
        record(ROOT / written, "vendors", vendor, name, cell)
    elif TABLE.exists():
        assert cell == recorded(TABLE, "vendors", vendor, name)
