"""A real Spark cluster on this machine: one standalone master and one worker, of one core."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.kafka_fixtures import eventually

_ROOT = Path(__file__).parents[2]
_MASTER = re.compile(r"Starting Spark master at (spark://\S+)")


def spark_home() -> Path:
    """Where PySpark keeps Spark."""
    import pyspark

    return Path(pyspark.__file__).parent


@contextmanager
def standalone(directory: Path) -> Iterator[str]:
    """The URL of a master whose worker is there; all is gone afterwards, even if this process is killed."""
    directory.mkdir()
    guard = subprocess.Popen(
        [sys.executable, "-m", "tests.support.kafka_guard", directory],
        cwd=_ROOT,
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    started = []
    try:
        bare = {"--host": "127.0.0.1", "--port": "0", "--webui-port": "0"}
        started.append(_started(directory, "master", "org.apache.spark.deploy.master.Master", bare))
        log = directory / "master.log"
        url = eventually(lambda: _MASTER.search(log.read_text()), bool)[1]  # type: ignore[index]
        small = {**bare, "--cores": "1", "--memory": "1g", "--work-dir": str(directory / "work")}
        started.append(_started(directory, "worker", "org.apache.spark.deploy.worker.Worker", small, url))
        eventually(log.read_text, lambda text: "Registering worker" in text)
        yield url
    finally:
        # In the order that lets the worker end what it has started.
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait(30)
        guard.communicate()
    assert guard.returncode == 0, f"the cluster in {directory} was not removed"


def _started(
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
            },
        )
