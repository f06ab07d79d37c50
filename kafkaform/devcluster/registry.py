"""A schema registry beside the brokers: Apicurio Registry, whose API is Confluent's."""

from __future__ import annotations

import tarfile
import time
from typing import TYPE_CHECKING

from kafkaform.core.errors import DevClusterError, JavaError
from kafkaform.core.files import get_cache_directory, hold_lock
from kafkaform.core.http import send_request
from kafkaform.core.progress import Progress, silent
from kafkaform.core.units import rounded_size
from kafkaform.devcluster.jars.cache import Jar, download
from kafkaform.devcluster.ports import HOST
from kafkaform.devcluster.processes import LOG_FILE, find_failure_line, launch_node

if TYPE_CHECKING:
    from pathlib import Path

    from kafkaform.devcluster.jars.java import Java
    from kafkaform.devcluster.state import Registry

# Version 3 needs Java 21.
VERSION = "2.6.13.Final"
_NAME = f"apicurio-registry-app-{VERSION}"
ARCHIVE = Jar(
    f"io/apicurio/apicurio-registry-app/{VERSION}/{_NAME}-all.tar.gz",
    "3cda1b34aa020fb4ac4dd6a66018d757e81e437f97e20a1f92d366b70091c6ba",
    142_198_683,
)
"""The pinned distribution in a Maven repository."""
_HEAP_MB = 512
_POLL_S = 0.25


def fetch_registry(progress: Progress = silent) -> Path:
    """Return the jar that starts a registry; download and unpack it on first use.

    Raises:
        JavaError: It is not in the cache and cannot be downloaded, or not be kept.
    """
    home = get_cache_directory() / _NAME
    jar = home / f"{_NAME}-runner.jar"
    if jar.exists():
        return jar
    folder = home.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Another process may download it at the same time: wait, and look again.
        with hold_lock(folder / "registry.lock", progress=progress):
            if not jar.exists():
                progress(f"downloading Apicurio Registry {VERSION} (only once: {rounded_size(ARCHIVE.size)})")
                download(ARCHIVE, folder)
                unpacked = folder / f"{_NAME}.part"
                with tarfile.open(folder / ARCHIVE.name) as archive:
                    archive.extractall(unpacked, filter="data")
                unpacked.rename(home)
                (folder / ARCHIVE.name).unlink()
    except OSError as error:
        raise JavaError(f"cannot keep Apicurio Registry in {folder}: {error.strerror}") from error
    return jar


def launch_registry(java: Java, jar: Path, registry: Registry, directory: Path, timeout_s: float) -> None:
    """Start a registry in its directory, and wait until it answers. Its schemas are in memory only.

    Raises:
        DevClusterError: It ended, or did not answer in time.
    """
    directory.mkdir(exist_ok=True)
    process = launch_node(
        java,
        (),
        directory=directory,
        heap_mb=_HEAP_MB,
        full_jit=False,
        token=str(registry.token),
        program=(
            f"-Dquarkus.http.host={HOST}",
            f"-Dquarkus.http.port={registry.port}",
            # By default, it lists the first 1,000.
            "-Dregistry.ccompat.max-subjects=1000000",
            "-jar",
            str(jar),
        ),
    )
    deadline = time.monotonic() + timeout_s
    while not _responds(registry):
        if not process.is_running() or time.monotonic() > deadline:
            raise DevClusterError(
                f"the schema registry did not start: {find_failure_line(directory / LOG_FILE)}",
                hint=f"its log is {directory / LOG_FILE}",
            )
        time.sleep(_POLL_S)


def _responds(registry: Registry) -> bool:
    try:
        return send_request("GET", f"{registry.url}/subjects", 2.0).status == 200
    except OSError:
        return False
