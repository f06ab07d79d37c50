"""A real Spark cluster on this machine: a standalone master, and workers of one core each."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.clusters.fixtures import eventually

_ROOT = Path(__file__).parents[3]
SHORT_LIVED_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Java options, also for executors: the better compiler takes longer than these jobs do."""
_START_S = 90
"""A Java process takes that long to start beside other tests of the night."""
_MASTER = re.compile(r"Starting Spark master at (spark://\S+)")


def spark_home() -> Path:
    """Return the folder of Spark in PySpark."""
    import pyspark

    return Path(pyspark.__file__).parent


@dataclass(frozen=True, slots=True)
class SparkWorker:
    """A worker of a standalone cluster, with which its executor ends, and the folder of its applications."""

    process: subprocess.Popen[bytes]
    directory: Path

    def read_executor_log(self) -> str:
        """Return the logs of its executors so far."""
        return "".join(path.read_text(errors="replace") for path in self.directory.glob("app-*/*/stderr"))


@dataclass(frozen=True, slots=True)
class SparkCluster:
    """A standalone cluster that runs: its master's URL, and workers of one core and 1 GiB each."""

    url: str
    workers: tuple[SparkWorker, ...]


@contextmanager
def standalone(directory: Path, *, workers: int = 1) -> Iterator[SparkCluster]:
    """A master whose workers are there; all is gone afterwards, even if this process is killed."""
    directory.mkdir()
    guard = subprocess.Popen(
        [sys.executable, "-m", "tests.support.clusters.guard", directory],
        cwd=_ROOT,
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    started = []
    try:
        bare = {"--host": "127.0.0.1", "--port": "0", "--webui-port": "0"}
        started.append(_start_process(directory, "master", "org.apache.spark.deploy.master.Master", bare))
        log = directory / "master.log"
        url = eventually(lambda: _MASTER.search(log.read_text()), bool, _START_S)[1]  # type: ignore[index]
        registered = []
        for name in [f"worker-{number}" for number in range(workers)]:
            folder = directory / name
            small = {**bare, "--cores": "1", "--memory": "1g", "--work-dir": str(folder)}
            started.append(
                _start_process(directory, name, "org.apache.spark.deploy.worker.Worker", small, url)
            )
            registered.append(SparkWorker(started[-1], folder))
        eventually(log.read_text, lambda text: text.count("Registering worker") == workers, _START_S)
        yield SparkCluster(url, tuple(registered))
    finally:
        # In the order that lets workers end what they have started.
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait(30)
        guard.communicate()
    assert guard.returncode == 0, f"the cluster in {directory} was not removed"


def _start_process(
    directory: Path, name: str, kind: str, options: dict[str, str], *arguments: str
) -> subprocess.Popen[bytes]:
    home = spark_home()
    words = [word for option in options.items() for word in option]
    with (directory / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            [home / "bin" / "spark-class", kind, *words, *arguments],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a Ctrl-C is not meant for it
            env={
                **os.environ,
                "SPARK_HOME": str(home),
                "SPARK_LOCAL_IP": "127.0.0.1",
                "SPARK_LOCAL_DIRS": str(directory / "local"),
                "SPARK_DAEMON_MEMORY": "256m",
                "SPARK_DAEMON_JAVA_OPTS": SHORT_LIVED_JAVA,
            },
        )
