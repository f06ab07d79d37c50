"""Fixtures that every test may use, the markers of the folders, and the order of the work."""

import gc
import re
import signal
import socket
from collections.abc import Generator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants
from syrupy.assertion import SnapshotAssertion
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from kafkaform.devcluster.cluster import DevCluster
from tests.support.cli.project import Project
from tests.support.clusters.fixtures import (
    SHARED,
    account,
    free_accounts,
    group_clusters,
    kafka,
    kafka3,
    kafka_acl,
    prefix,
    real_cluster,
)
from tests.support.golden import GoldenFile
from tests.support.memory_cluster.memory import MemoryCluster

__all__ = ["account", "free_accounts", "kafka", "kafka3", "kafka_acl", "prefix", "real_cluster"]

FOLDERS = {
    "unit": "no JVM: pure logic, the in-memory cluster, sockets, files and Git",
    "contract": "the in-memory cluster and a real Kafka keep the same promises",
    "kafka": "on a real Apache Kafka",
    "spark": "on Spark, most of them with a real Kafka",
    "docs": "what README.md and docs/ say, run",
    "versions": "the main journeys on each version of Apache Kafka",
    "workflows": "the workflows, the container and the packages",
    "nightly": "too heavy for every change",
}
"""The folders of tests/: each is the marker of what lies in it."""
NIGHTLY = "nightly"
NIGHT = "night"
"""The profile of hypothesis that draws new examples."""
SPARK = "spark"
"""Also the fixture's name: one worker runs that folder, as a session takes a core and 1 GiB."""
LEAKS = (
    # PySpark leaves the sockets through which it collects rows to the garbage collector.
    r"ignore:unclosed <socket\.socket .*127\.0\.0\.1:ResourceWarning",
    r"ignore:.*<socket\.socket .*127\.0\.0\.1:pytest.PytestUnraisableExceptionWarning",
)

# A busy machine is no failure: examples are not timed, and drawing whole plans may take its time.
settings.register_profile(
    NIGHT,
    settings.get_profile("default"),
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
# The same examples each time, so that a failure is that of the change, and stays: only nights draw new ones.
settings.register_profile("day", settings.get_profile(NIGHT), max_examples=25, derandomize=True)
settings.register_profile("quick", settings.get_profile("day"), max_examples=15)
settings.load_profile("day")


@pytest.fixture
def memory() -> MemoryCluster:
    """A cluster in memory, empty; modules that need one with topics fill it in a fixture of this name."""
    return MemoryCluster()


@pytest.fixture
def golden(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    """Compare a text with a golden file: `text == golden(name="plan.md")`."""
    return snapshot.use_extension(GoldenFile)


@pytest.fixture
def servers(kafka: DevCluster) -> str:
    """The address that `project` names; unit tests have one where nobody answers."""
    return kafka.bootstrap_servers


@pytest.fixture
def project(tmp_path: Path, servers: str, prefix: str) -> Project:
    """A folder for manifests; modules that need some in it write them in a fixture of this name."""
    return Project(tmp_path, servers, prefix)


GROUP_CLUSTERS = {
    "kafka3": 'kafka3(?=[:,)"])',
    "kafka_acl": 'kafka_acl(?=[:,)"])|account: (?:Callable|MakeAccount)',
}
"""Clusters whose tests one worker runs in one go, and how a file says that it needs them."""

HEAVY = (
    SPARK,
    "kafka3",
    "nightly/test_kills.py",
    "nightly/test_moves_under_load.py",
    "nightly/test_lock_under_faults.py",
    "nightly/test_scripts.py",
    "unit/spark_validation/test_skew_coverage.py",
    "kafka_acl",
    "kafka/test_logins.py",
    "workflows/test_workflow_steps.py",
    "versions/test_journeys.py",
    "versions/test_vendors.py",
    "unit/spark_validation/test_estimates.py",
    "workflows/test_pull_request_attacks.py",
    "unit/spark_validation/test_diagnosis.py",
    "unit/spark_validation/test_causes_placement.py",
    "workflows/test_ci_examples.py",
    "kafka/test_devcluster.py",
    "kafka/test_cli_terminal.py",
    "docs/test_cli_docs.py",
)
"""What takes longest, the longest first: begun last, it would keep one worker busy while the others wait."""


@cache
def get_group(file: str, root: Path) -> str:
    """The tests that one worker runs in one go: all in spark/, all that need one cluster, or those of a file.

    Whoever gives out the work knows no fixtures, so clusters are looked for in the text of the file.
    """
    path = Path(file)
    if path.parent.name == SPARK:
        return SPARK
    text = (root / path).read_text("utf-8") if path.parent.name in ("kafka", "contract") else ""
    used = (cluster for cluster, mark in GROUP_CLUSTERS.items() if re.search(rf"\b(?:{mark})\b", text))
    return next(used, path.as_posix().removeprefix("tests/"))


def _group(item: pytest.Item) -> str:
    return get_group(item.nodeid.partition("::")[0], item.config.rootpath)


class GroupScheduling(LoadScopeScheduling):
    """Whole groups, the heavy ones first.

    xdist's own `--dist loadgroup` gives every test to whoever is free: it writes the group into `_nodeid`,
    which pytest 9 no longer reads (xdist 3.8). Each worker then starts each cluster, and Spark, for itself.
    """

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        config.option.loadscopereorder = False  # by the number of tests: the order of collection counts
        super().__init__(config, log)
        self._ended: set[str] = set()

    def remove_node(self, node: WorkerController) -> str | None:
        """Remember the test that ended a worker: xdist would let it end each that follows."""
        at_work = (
            test for unit in self.assigned_work[node].values() for test, over in unit.items() if not over
        )
        self._ended.update([*at_work][:1])
        return super().remove_node(node)

    def _reschedule(self, node: WorkerController) -> None:
        for group, tests in [*self.workqueue.items()]:
            tests.update(dict.fromkeys(self._ended & tests.keys(), True))
            if all(tests.values()):
                del self.workqueue[group]
        super()._reschedule(node)

    def _split_scope(self, nodeid: str) -> str:
        return get_group(nodeid.partition("::")[0], self.config.rootpath)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """Give every worker whole groups."""
    return GroupScheduling(config, log)


def _weight(item: pytest.Item) -> int:
    group = _group(item)
    return HEAVY.index(group) if group in HEAVY else len(HEAVY)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """End the clusters of a group with its last test: after all runs of it, if it is run once more."""
    try:
        return (yield)
    finally:
        if nextitem is None or _group(nextitem) != _group(item):
            group_clusters.end()


@pytest.hookimpl(trylast=True)  # after hypothesis, which loads the profile of the command line
def pytest_configure(config: pytest.Config) -> None:
    if settings().derandomize:
        # Hypothesis also draws constants of our modules, of those that are loaded by then: what a test draws
        # would depend on the tests before it on its worker, and on every line of the code.
        providers._get_local_constants = Constants
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # As it is for what a shell without job control runs in the background: tests of Ctrl-C would hang.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if (reruns := getattr(config, "failures_db", None)) and hasattr(reruns, "sock"):
        # pytest-rerunfailures (16.7) writes to the controller twice and then reads, around each test: without
        # this, Nagle's algorithm and delayed acknowledgements cost 80 ms a test.
        reruns.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for folder, marks in FOLDERS.items():
        called = f"{folder}(reason)" if folder == NIGHTLY else folder
        config.addinivalue_line("markers", f"{called}: {marks}")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the tests out of the garbage collector: it would walk eight thousand of them again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show why tests were run once more: pytest-rerunfailures only names them."""
    for report in terminalreporter.stats.get("rerun", ()):
        terminalreporter.section(f"run once more: {report.nodeid}")
        terminalreporter.write_line(report.longreprtext[-3_000:])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test by its folder, and hold it to what the folder promises."""
    for item in items:
        mark_by_folder(item)
    items.sort(key=_weight)


def mark_by_folder(item: pytest.Item) -> None:
    """Give a test the marker of its folder.

    Raises:
        pytest.UsageError: It is nightly without a reason, or needs what its folder does not have.
    """
    folder = item.nodeid.split("/", 2)[1]
    nightly = [*item.iter_markers(NIGHTLY)]
    if (folder == NIGHTLY and not nightly) or any(not (mark.args and mark.args[0]) for mark in nightly):
        raise pytest.UsageError(f'{item.nodeid}: say why it is nightly: @pytest.mark.nightly("the reason")')
    if folder != NIGHTLY:
        item.add_marker(folder)
    used = {*getattr(item, "fixturenames", ())}
    if folder == "unit" and used & {*SHARED}:
        raise pytest.UsageError(f"{item.nodeid}: a unit test starts no broker and no Spark")
    if used & {*GROUP_CLUSTERS} and _group(item) not in {SPARK, *GROUP_CLUSTERS}:
        raise pytest.UsageError(f"{item.nodeid}: its file does not name the cluster that it needs")
    # Brokers elect leaders, machines pause and ports are taken again when they like. A failure is run once
    # more, and the summary names it: what passes then depends on time, and is to be mended all the same.
    # Not so a property: at night, it would draw other examples, and pass.
    if not is_hypothesis_test(getattr(item, "obj", None)):
        item.add_marker(pytest.mark.flaky(reruns=1))
    if SPARK in used:
        for leak in LEAKS:
            item.add_marker(pytest.mark.filterwarnings(leak))
