"""The settings of a Spark session, and keeping its secrets out of what others can read."""

from __future__ import annotations

import os
import re
import zipfile
from dataclasses import dataclass, field
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from importlib.resources.abc import Traversable
    from pathlib import Path


SENSITIVE = r"(?i)secret|password|passwd|token|credential|access[.]?key|jaas|keystore|ssl[.]key|oauth|url"
"""Names of settings and options whose values Spark must hide; wider than its own default."""

HIDDEN = "[hidden]"

_SHORTEST = 4


def is_sensitive(name: str) -> bool:
    """Return whether the value of a property or setting may be a secret, by its name."""
    return re.search(SENSITIVE, name) is not None


def find_secrets(properties: Mapping[str, str]) -> frozenset[str]:
    """Return the values that must not be shown: those of sensitive names."""
    return frozenset(value for name, value in properties.items() if value and is_sensitive(name))


def hide_values(text: str, values: Iterable[str]) -> str:
    """Return the text with each of the values replaced; very short ones only where they stand alone."""
    # The longest first, as one secret may contain another.
    for value in sorted(values, key=len, reverse=True):
        if len(value) >= _SHORTEST:
            text = text.replace(value, HIDDEN)
        else:
            text = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", HIDDEN, text)
    return text


SESSION_SETTINGS = {
    # The number of reducers is known beforehand.
    "spark.sql.adaptive.enabled": "false",
    # Spark's default of 10,000 makes five times as many calls of Python for the same records.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
}
"""The settings that a session accepts while its JVM is already running."""

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_REDACTION = ("spark.redaction.regex", "spark.sql.redaction.options.regex")


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """Settings of how Spark runs.

    Attributes:
        master: A Spark master's URL; None for this machine.
        remote: A Spark Connect URL (`sc://host:15002`) instead of a master.
        conf: The user's Spark settings, which take precedence.
        memory: The memory of the driver's JVM.
        debug: Whether Spark's own log goes to stderr.
        java_home: The Java that runs Spark; None for the one that Spark finds by itself.
        class_archive: The archive of Spark's classes to start with (`class_archive`); None for none.
        dump_classes: The file to write such an archive to at the end; None for none.
    """

    master: str | None = None
    remote: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    memory: str = "2g"
    debug: bool = False
    java_home: Path | None = None
    class_archive: Path | None = None
    dump_classes: Path | None = None

    @property
    def local(self) -> bool:
        """Return whether Spark runs in one process on this machine."""
        return self.remote is None and is_local(self.effective_master)

    @property
    def effective_master(self) -> str:
        """The master that is used, unless it is Spark Connect."""
        # Tasks wait for brokers half of the time.
        return self.master or self.conf.get("spark.master") or f"local[{2 * _cores()}]"


def build_configuration(settings: SessionSettings, folder: Path) -> dict[str, str]:
    """Return the Spark settings of a session with a JVM of its own: ours, overridden by the user's.

    Args:
        settings: How Spark runs.
        folder: An existing folder for files that are removed with the session.
    """
    ours = {
        "spark.app.name": "kafkaform skew",
        "spark.master": settings.effective_master,
        # The UI listens on the network, and shows settings and plans.
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": settings.memory,
        _JAVA_OPTIONS: _java_options(settings, folder),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        **SESSION_SETTINGS,
        **dict.fromkeys(_REDACTION, SENSITIVE),
    }
    if settings.local:
        ours |= {
            # Spark would use the name of the machine, which may not resolve, and listen on the network.
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.local.dir": str(folder / "local"),
            # Spark's own 200 are for a cluster: here each is a short task of its own.
            "spark.sql.shuffle.partitions": str(2 * _cores()),
        }
    own = dict(settings.conf)
    result = {**ours, **own, "spark.master": settings.effective_master}
    if _JAVA_OPTIONS in own:
        # The user's come last: of an option that is given twice, Java takes the last.
        result[_JAVA_OPTIONS] = f"{ours[_JAVA_OPTIONS]} {own[_JAVA_OPTIONS]}"
    # A user's pattern hides more, never less.
    return result | widen_redaction(own)


def widen_redaction(own: Mapping[str, str]) -> dict[str, str]:
    """Return the patterns of names whose values Spark hides: ours, and with them the user's."""
    return {name: f"{SENSITIVE}|{own[name]}" if own.get(name) else SENSITIVE for name in _REDACTION}


def is_local(master: str | None) -> bool:
    """Return whether Spark runs in one process of this machine with a master's URL."""
    return master is not None and master.startswith("local") and not master.startswith("local-cluster")


def session_settings(own: Mapping[str, str]) -> dict[str, str]:
    """Return the settings to add to a session that spark-submit starts.

    Args:
        own: Its settings, which take precedence.
    """
    return {
        **{name: value for name, value in SESSION_SETTINGS.items() if name not in own},
        **widen_redaction(own),
    }


def _java_options(settings: SessionSettings, folder: Path) -> str:
    options = [
        # The better compiler takes longer than a sample does. To read everything takes 0.7 times the CPU
        # without it, too: workers count, and Java only moves groups of records.
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseParallelGC",
        # To verify the bytecode of Spark's classes takes a second and a half of each start.
        "-XX:+UnlockDiagnosticVMOptions",
        "-XX:-BytecodeVerificationRemote",
        f'"-Djava.io.tmpdir={folder}"',
        f'"-Dlog4j2.configurationFile={(folder / "log4j2.properties").as_uri()}"',
    ]
    if settings.dump_classes is not None:
        options.append(f'"-XX:ArchiveClassesAtExit={settings.dump_classes}"')
    elif settings.class_archive is not None:
        # A damaged archive would otherwise end the process; one of another Java is ignored silently.
        options += ["-XX:+VerifySharedSpaces", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
        options.append(f'"-XX:SharedArchiveFile={settings.class_archive}"')
    return " ".join(options)


def _cores() -> int:
    """Return the processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


PACKAGE = "spark_validation"


def zip_package(folder: Path) -> Path:
    """Write the package's modules into a zip in a folder."""
    # Spark refuses a second file of one name, and `--py-files spark_validation.zip` may have brought one.
    target = folder / f"{PACKAGE}-of-driver.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        _add(archive, resources.files(PACKAGE), PACKAGE)
    return target


def _add(archive: zipfile.ZipFile, folder: Traversable, name: str) -> None:
    for entry in sorted(folder.iterdir(), key=lambda item: item.name):
        if entry.is_dir():
            if entry.name != "__pycache__":
                _add(archive, entry, f"{name}/{entry.name}")
        elif entry.name.endswith(".py"):
            # Read as a resource: this package may itself be imported from a zip.
            archive.writestr(f"{name}/{entry.name}", entry.read_bytes())
