"""Fixtures that every test module may use."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

from tests.kafka_fixtures import (
    SHARED,
    account,
    free_accounts,
    kafka,
    kafka3,
    kafka_acl,
    prefix,
    real_cluster,
)
from tests.spark_fixtures import LEAKS, SPARK, spark

__all__ = ["account", "free_accounts", "kafka", "kafka3", "kafka_acl", "prefix", "real_cluster", "spark"]


# A busy machine is no failure: examples are not timed, and drawing whole plans may take its time.
# CI draws the same examples each time, so that it judges the change and not the draw; elsewhere they are new.
settings.register_profile(
    "kafkaform",
    deadline=None,
    derandomize="CI" in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("kafkaform")


def pytest_configure(config: pytest.Config) -> None:
    """Let kafka-python read its own schemas the old way (a DeprecationWarning up to Python 3.12)."""
    config.addinivalue_line("filterwarnings", "ignore:(read|open)_text is deprecated:DeprecationWarning")
    config.addinivalue_line("markers", "spark: needs a Spark session, started by the session's fixture")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that need a real Kafka, or Spark, by the fixtures and parameters that they use."""
    for item in items:
        used = {*getattr(item, "fixturenames", ())}
        if callspec := getattr(item, "callspec", None):
            used |= {value for value in callspec.params.values() if isinstance(value, str)}
        if used & {*SHARED}:
            item.add_marker(pytest.mark.kafka)
        # With several workers (pytest -n), files stay whole, and one worker alone has the Spark session.
        item.add_marker(pytest.mark.xdist_group(SPARK if SPARK in used else item.path.name))
        if SPARK in used:
            item.add_marker(pytest.mark.spark)
            for leak in LEAKS:
                item.add_marker(pytest.mark.filterwarnings(leak))
