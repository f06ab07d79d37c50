"""Formatting the nodes' storage, once in the life of a cluster."""

from __future__ import annotations

import base64
import shutil
import subprocess
import uuid
from typing import TYPE_CHECKING

import javaproperties

from kafkaform.core.errors import DevClusterError
from kafkaform.devcluster import logs, processes
from kafkaform.devcluster.configuration import DATA_DIRECTORY, SERVER_FILE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kafkaform.devcluster.jars.java import Java

FORMAT_LOG = "format.log"
_META = "meta.properties"
_FORMAT_S = 120


def random_id() -> str:
    """An id as Kafka writes them: 128 random bits in 22 characters, the first of which is no dash."""
    while True:
        written = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not written.startswith("-"):
            return written


def format_nodes(
    java: Java,
    classpath: Sequence[Path],
    directories: Sequence[Path],
    *,
    cluster_id: str,
    arguments: Sequence[str],
) -> None:
    """Format the storage of new nodes; what an interrupted formatting left is removed before.

    Kafka's tool formats the first node. The others get the same first records and identities of their own:
    a JVM for each would take longer than the cluster's start.

    Args:
        java: Runs Kafka's tool.
        classpath: Kafka's jars.
        directories: The nodes' directories with their properties, in the order of the nodes' ids from 1 on.
        cluster_id: The id that all of them get.
        arguments: Further ones for Kafka's tool, such as `--add-scram …` or `--feature …`.

    Raises:
        DevClusterError: Kafka's tool refuses.
    """
    for directory in directories:
        if (data := directory / DATA_DIRECTORY).exists():
            shutil.rmtree(data)
    first = directories[0]
    _format(java, classpath, first, cluster_id, arguments)
    meta = javaproperties.loads((first / DATA_DIRECTORY / _META).read_text(encoding="latin-1"))
    for node_id, directory in enumerate(directories[1:], start=2):
        shutil.copytree(first / DATA_DIRECTORY, directory / DATA_DIRECTORY)
        own = {**meta, "node.id": str(node_id), "directory.id": random_id()}
        (directory / DATA_DIRECTORY / _META).write_text(javaproperties.dumps(own), encoding="latin-1")


def _format(
    java: Java, classpath: Sequence[Path], directory: Path, cluster_id: str, arguments: Sequence[str]
) -> None:
    log = directory / FORMAT_LOG
    command = [
        *processes.jvm(java, heap_mb=128), "kafka.tools.StorageTool",
        "format", "--cluster-id", cluster_id, "--config", SERVER_FILE, *arguments,
    ]  # fmt: skip
    try:
        with log.open("wb") as output:
            done = subprocess.run(
                command,
                cwd=directory,
                env=processes.environment(classpath),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=_FORMAT_S,
                check=False,
            )
    except subprocess.TimeoutExpired as error:
        raise DevClusterError(
            f"formatting the storage took more than {_FORMAT_S} s", hint=f"see {log}"
        ) from error
    if done.returncode != 0:
        raise DevClusterError(f"cannot format the storage: {logs.last_words(log)}", hint=f"see {log}")
