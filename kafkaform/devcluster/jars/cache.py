"""Sets of jars, such as those of an Apache Kafka broker, downloaded once into the user's cache folder.

A finished set is a directory with a manifest of its files that gets its name by one rename. Leftovers of a
killed process have another name, and the next download removes them.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import zipfile
from pathlib import Path

import platformdirs

from kafkaform.core.errors import JavaError
from kafkaform.core.files import hold_lock
from kafkaform.core.progress import Progress, silent
from kafkaform.devcluster.jars import ivy
from kafkaform.devcluster.jars.ivy import Dependency, JarSet, NoSuchArtefact
from kafkaform.devcluster.jars.java import Java, find_java
from kafkaform.devcluster.releases import KAFKA_VERSION, list_tested_versions, names_log4j_1

CACHE_VARIABLE = "KAFKAFORM_CACHE"

_MANIFEST = "manifest.json"
_UNFINISHED = ".unfinished-"
# Kafka logs through SLF4J and ships Log4j 2, but not the binding between them.
_LOG_BINDING = Dependency("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4")
_LOG4J_1 = Dependency("org.apache.logging.log4j", "log4j-1.2-api", "2.25.4")


def get_cache_directory() -> Path:
    """Return the directory of downloads: KAFKAFORM_CACHE, or the user's cache folder."""
    if own := os.environ.get(CACHE_VARIABLE):
        return Path(own).absolute()
    return platformdirs.user_cache_path("kafkaform")


def fetch_jars(wanted: JarSet, *, java: Java | None = None, progress: Progress = silent) -> list[Path]:
    """Return the jars of a set; download them on first use.

    Args:
        wanted: The set.
        java: The Java that runs the download; found when needed.
        progress: Called before a download, which takes about a minute.

    Raises:
        JavaError: The jars are not in the cache and cannot be downloaded.
    """
    home = get_cache_directory() / wanted.folder
    ready = home / wanted.version
    if (jars := _find_jars(ready, wanted)) is not None:
        return jars
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise JavaError(
            f"cannot keep the jars of {wanted.title} in {home}: {error.strerror}",
            hint=f"set {CACHE_VARIABLE} to a directory that can be written to",
        ) from error
    # Another process may download the same set: wait, and look again.
    with hold_lock(home / "lock", progress=progress):
        if (jars := _find_jars(ready, wanted)) is not None:
            return jars
        _fetch(ready, wanted, java, progress)
    jars = _find_jars(ready, wanted)
    if jars is None:
        raise JavaError(
            f"the jars in {ready} changed right after they were downloaded",
            hint=f"remove {ready} and try again",
        )
    return jars


def _fetch(ready: Path, wanted: JarSet, java: Java | None, progress: Progress) -> None:
    home = ready.parent
    for leftover in home.glob(f"{_UNFINISHED}*"):
        shutil.rmtree(leftover)
    java = java or find_java()
    ivy_jar = ivy.find_ivy()
    progress(f"downloading {wanted.title} {ready.name} into {home} (only once; it takes about a minute)")
    unfinished = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=home))
    try:
        log = home / f"ivy-{ready.name}.log"
        ivy.retrieve(java, ivy_jar, wanted, into=unfinished, cache=home / "ivy", log=log)
        _seal(unfinished, wanted, log)
        if ready.exists():
            # A process that runs with the old jars keeps the files that it has open.
            ready.rename(home / f"{_UNFINISHED}damaged-{os.urandom(4).hex()}")
        unfinished.rename(ready)
    finally:
        for leftover in home.glob(f"{_UNFINISHED}*"):
            shutil.rmtree(leftover)


def _seal(directory: Path, wanted: JarSet, log: Path) -> None:
    """Check that a directory has all jars, and write its manifest."""
    jars = sorted(directory.glob("*.jar"))
    names = {jar.name for jar in jars}
    missing = [str(d) for d in wanted.dependencies if f"{d.name}-{d.version}.jar" not in names]
    # A proxy may answer with a page of HTML and status 200.
    broken = [jar.name for jar in jars if not zipfile.is_zipfile(jar)]
    if missing or broken:
        raise JavaError(
            f"the download of {wanted.title} is incomplete: {', '.join(missing + broken)}",
            hint=f"try again; Ivy's output is in {log}",
        )
    manifest = {
        "dependencies": list(map(str, wanted.dependencies)),
        "sizes": {jar.name: jar.stat().st_size for jar in jars},
    }
    (directory / _MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")


def _find_jars(directory: Path, wanted: JarSet) -> list[Path] | None:
    """Return the jars of a finished set; None if it is missing, damaged, or has other dependencies."""
    try:
        manifest = json.loads((directory / _MANIFEST).read_text(encoding="utf-8"))
        sizes = dict(manifest["sizes"])
        if manifest["dependencies"] != list(map(str, wanted.dependencies)):
            return None
        # Sizes, not hashes: a full disk or an interrupted copy changes them, and hashing every jar would take
        # a part of every start.
        if any((directory / name).stat().st_size != size for name, size in sizes.items()):
            return None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return [directory / name for name in sorted(sizes)]


def fetch_kafka_classpath(
    version: str = KAFKA_VERSION, *, java: Java | None = None, progress: Progress = silent
) -> list[Path]:
    """Return the jars of an Apache Kafka broker; download them on first use.

    Args:
        version: The version of Apache Kafka.
        java: The Java that runs the download; found when needed.
        progress: Called before a download, which takes about a minute.

    Raises:
        JavaError: The jars are not in the cache and cannot be downloaded.
    """
    broker = Dependency("org.apache.kafka", "kafka_2.13", version)
    logging = (_LOG_BINDING, _LOG4J_1) if names_log4j_1(version) else (_LOG_BINDING,)
    wanted = JarSet("Apache Kafka", "kafka", version, (broker, *logging))
    try:
        return fetch_jars(wanted, java=java, progress=progress)
    except NoSuchArtefact as error:
        raise JavaError(f"--kafka-version {version}: {error.message}", hint=list_tested_versions()) from error
