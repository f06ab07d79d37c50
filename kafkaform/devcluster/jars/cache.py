"""Sets of jars, those of an Apache Kafka broker among them, fetched once into the user's cache folder.

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

from kafkaform.core.errors import JavaError
from kafkaform.core.files import locked
from kafkaform.core.progress import Progress, silent
from kafkaform.devcluster.jars import ivy
from kafkaform.devcluster.jars.ivy import Dependency, JarSet, NoSuchArtefact
from kafkaform.devcluster.jars.java import Java, find_java
from kafkaform.devcluster.releases import KAFKA_VERSION, names_log4j_1, tested_versions

CACHE_VARIABLE = "KAFKAFORM_CACHE"

_MANIFEST = "manifest.json"
_UNFINISHED = ".unfinished-"


def cache_directory() -> Path:
    """Where downloads are kept: KAFKAFORM_CACHE, or the user's cache folder."""
    if own := os.environ.get(CACHE_VARIABLE):
        return Path(own).absolute()
    return platformdirs.user_cache_path("kafkaform")


def fetched(wanted: JarSet, *, java: Java | None = None, progress: Progress = silent) -> list[Path]:
    """The jars of a set, fetched on first use.

    Args:
        wanted: What they are.
        java: Runs the download; looked for when needed.
        progress: Told when a download begins, as it takes a while.

    Raises:
        JavaError: The jars are not there and cannot be fetched.
    """
    home = cache_directory() / wanted.folder
    ready = home / wanted.version
    if (jars := _whole(ready, wanted)) is not None:
        return jars
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise JavaError(
            f"cannot keep the jars of {wanted.title} in {home}: {error.strerror}",
            hint=f"set {CACHE_VARIABLE} to a directory that can be written to",
        ) from error
    with locked(home / "lock", progress=progress):
        if (jars := _whole(ready, wanted)) is not None:
            return jars
        _fetch(ready, wanted, java, progress)
    jars = _whole(ready, wanted)
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
            # Whoever runs with the old files goes on with those that are open.
            ready.rename(home / f"{_UNFINISHED}damaged-{os.urandom(4).hex()}")
        unfinished.rename(ready)
    finally:
        for leftover in home.glob(f"{_UNFINISHED}*"):
            shutil.rmtree(leftover)


def _seal(directory: Path, wanted: JarSet, log: Path) -> None:
    """Write the manifest of a directory that Ivy has filled, once it is seen to be whole."""
    jars = sorted(directory.glob("*.jar"))
    names = {jar.name for jar in jars}
    missing = [str(d) for d in wanted.dependencies if f"{d.name}-{d.version}.jar" not in names]
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


def _whole(directory: Path, wanted: JarSet) -> list[Path] | None:
    """The jars of a finished set; None if it is not there, made of other parts, or damaged."""
    try:
        manifest = json.loads((directory / _MANIFEST).read_text(encoding="utf-8"))
        sizes = dict(manifest["sizes"])
        if manifest["dependencies"] != list(map(str, wanted.dependencies)):
            return None
        if any((directory / name).stat().st_size != size for name, size in sizes.items()):
            return None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return [directory / name for name in sorted(sizes)]


# Kafka logs through SLF4J and comes with log4j2, but without what ties one to the other.
_LOG_BINDING = Dependency("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4")
_LOG4J_1 = Dependency("org.apache.logging.log4j", "log4j-1.2-api", "2.25.4")


def kafka_classpath(
    version: str = KAFKA_VERSION, *, java: Java | None = None, progress: Progress = silent
) -> list[Path]:
    """The jars that a broker of this version runs with, fetched on first use.

    Args:
        version: Of Apache Kafka.
        java: Runs the download; looked for when needed.
        progress: Told when a download begins, as it takes a minute.

    Raises:
        JavaError: The jars are not there and cannot be fetched.
    """
    broker = Dependency("org.apache.kafka", "kafka_2.13", version)
    logging = (_LOG_BINDING, _LOG4J_1) if names_log4j_1(version) else (_LOG_BINDING,)
    wanted = JarSet("Apache Kafka", "kafka", version, (broker, *logging))
    try:
        return fetched(wanted, java=java, progress=progress)
    except NoSuchArtefact as error:
        raise JavaError(f"--kafka-version {version}: {error.message}", hint=tested_versions()) from error
