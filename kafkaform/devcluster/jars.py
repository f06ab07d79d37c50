"""Kafka's jars, fetched once into the user's cache folder.

A finished set is a directory with a manifest of its files, and appears under its name by one rename:
what a killed process leaves behind has another name, and is cleared away by the next one.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import zipfile
from pathlib import Path

import platformdirs

from kafkaform.devcluster import ivy
from kafkaform.devcluster.ivy import Dependency
from kafkaform.devcluster.java import Java, find_java
from kafkaform.devcluster.locks import locked
from kafkaform.devcluster.progress import Progress, silent
from kafkaform.errors import DevClusterError

KAFKA_VERSION = "4.3.1"
CACHE_VARIABLE = "KAFKAFORM_CACHE"

# Kafka logs through SLF4J and comes with log4j2, but without what ties one to the other.
_LOG_BINDING = Dependency("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4")
_MANIFEST = "manifest.json"
_UNFINISHED = ".unfinished-"


def cache_directory() -> Path:
    """Where downloads are kept: KAFKAFORM_CACHE, or the user's cache folder."""
    if own := os.environ.get(CACHE_VARIABLE):
        return Path(own).absolute()
    return platformdirs.user_cache_path("kafkaform")


def kafka_classpath(
    version: str = KAFKA_VERSION, *, java: Java | None = None, progress: Progress = silent
) -> list[Path]:
    """The jars that a broker of this version runs with, fetched on first use.

    Args:
        version: Of Apache Kafka.
        java: Runs the download; looked for when needed.
        progress: Told when a download begins, as it takes a minute.

    Raises:
        DevClusterError: The jars are not there and cannot be fetched.
    """
    home = cache_directory() / "kafka"
    dependencies = (Dependency("org.apache.kafka", "kafka_2.13", version), _LOG_BINDING)
    ready = home / version
    if (jars := _whole(ready, dependencies)) is not None:
        return jars
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DevClusterError(
            f"cannot keep Kafka's jars in {home}: {error.strerror}",
            hint=f"set {CACHE_VARIABLE} to a directory that can be written to",
        ) from error
    with locked(home / "lock", progress=progress):
        if (jars := _whole(ready, dependencies)) is not None:
            return jars
        _fetch(ready, dependencies, java, progress)
    jars = _whole(ready, dependencies)
    if jars is None:
        raise DevClusterError(
            f"the jars in {ready} changed right after they were fetched",
            hint=f"remove {ready} and try again",
        )
    return jars


def _fetch(ready: Path, dependencies: tuple[Dependency, ...], java: Java | None, progress: Progress) -> None:
    home = ready.parent
    for leftover in home.glob(f"{_UNFINISHED}*"):
        shutil.rmtree(leftover)
    java = java or find_java()
    ivy_jar = ivy.find_ivy()
    progress(f"fetching Apache Kafka {ready.name} into {home} (only once; it takes about a minute)")
    unfinished = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=home))
    try:
        log = home / f"ivy-{ready.name}.log"
        ivy.retrieve(java, ivy_jar, dependencies, into=unfinished, cache=home / "ivy", log=log)
        _seal(unfinished, dependencies, log)
        if ready.exists():
            # A running broker goes on with the files it has open.
            ready.rename(home / f"{_UNFINISHED}damaged-{os.urandom(4).hex()}")
        unfinished.rename(ready)
    finally:
        for leftover in home.glob(f"{_UNFINISHED}*"):
            shutil.rmtree(leftover)


def _seal(directory: Path, dependencies: tuple[Dependency, ...], log: Path) -> None:
    """Write the manifest of a directory that Ivy has filled, once it is seen to be whole."""
    jars = sorted(directory.glob("*.jar"))
    names = {jar.name for jar in jars}
    missing = [str(d) for d in dependencies if f"{d.name}-{d.version}.jar" not in names]
    broken = [jar.name for jar in jars if not zipfile.is_zipfile(jar)]
    if missing or broken:
        raise DevClusterError(
            f"the download of Kafka is not whole: {', '.join(missing + broken)}",
            hint=f"try again; what Ivy said is in {log}",
        )
    manifest = {
        "dependencies": [str(d) for d in dependencies],
        "sizes": {jar.name: jar.stat().st_size for jar in jars},
    }
    (directory / _MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")


def _whole(directory: Path, dependencies: tuple[Dependency, ...]) -> list[Path] | None:
    """The jars of a finished set; None if it is not there, made of other parts, or damaged."""
    try:
        manifest = json.loads((directory / _MANIFEST).read_text(encoding="utf-8"))
        sizes = dict(manifest["sizes"])
        if manifest["dependencies"] != [str(d) for d in dependencies]:
            return None
        if any((directory / name).stat().st_size != size for name, size in sizes.items()):
            return None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return [directory / name for name in sorted(sizes)]
