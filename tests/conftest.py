"""Fixtures that every test module may use."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from tests.support.kafka_fixtures import (
    SHARED,
    account,
    free_accounts,
    kafka,
    kafka3,
    kafka_acl,
    prefix,
    real_cluster,
)
from tests.support.spark_fixtures import LEAKS, SPARK, SPARK_FILES, spark

if TYPE_CHECKING:
    from xdist.remote import Producer

__all__ = ["account", "free_accounts", "kafka", "kafka3", "kafka_acl", "prefix", "real_cluster", "spark"]


# A busy machine is no failure: examples are not timed, and drawing whole plans may take its time.
# CI draws the same examples each time, so that it judges the change and not the draw; elsewhere they are new.
settings.register_profile(
    "kafkaform",
    deadline=None,
    derandomize="CI" in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("quick", settings.get_profile("kafkaform"), max_examples=15, derandomize=True)
settings.load_profile("kafkaform")


HEAVY_FILES = (
    SPARK,
    "test_cli_docs.py",
    "test_moves_under_load.py",
    "test_moves_kafka.py",
    "test_demo.py",
    "test_workflows.py",
    "test_lock.py",
    "test_cluster_lock.py",
    "test_devcluster.py",
    "test_skew_browser.py",
)
"""What takes minutes, and is begun first: begun last, it would keep one worker busy while the other waits."""


def group_of(nodeid: str) -> str:
    """The tests that one worker runs one after the other: those of a file, or all that need Spark."""
    file = nodeid.partition("::")[0].rpartition("/")[2]
    return SPARK if file in SPARK_FILES else file


class GroupScheduling(LoadScopeScheduling):
    """Whole groups, the heavy ones first.

    xdist's own `--dist loadgroup` gives every test to whoever is free: it writes the group into `_nodeid`,
    which pytest 9 no longer reads (xdist 3.8). Each worker then starts each cluster, and Spark, for itself.
    """

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        config.option.loadscopereorder = False  # by the number of tests: the order of collection counts
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """Give every worker whole groups."""
    return GroupScheduling(config, log)


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
        if SPARK in used:
            if group_of(item.nodeid) != SPARK:
                raise pytest.UsageError(f"{item.path.name} needs Spark: list it in SPARK_FILES")
            item.add_marker(pytest.mark.spark)
            for leak in LEAKS:
                item.add_marker(pytest.mark.filterwarnings(leak))
    items.sort(key=lambda item: _weight(item.nodeid))


def _weight(nodeid: str) -> int:
    group = group_of(nodeid)
    return HEAVY_FILES.index(group) if group in HEAVY_FILES else len(HEAVY_FILES)
