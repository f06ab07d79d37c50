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
"""Names of settings and options whose values Spark must hide; wider than its own default, which shows
`kafka.sasl.jaas.config`."""

HIDDEN = "[hidden]"

_SHORTEST = 4
_QUOTED = re.compile(r'=\s*"((?:[^"\\]|\\.)*)"')


def is_sensitive(name: str) -> bool:
    """Return whether the value of a property or setting may be a secret, by its name."""
    return re.search(SENSITIVE, name) is not None


def secrets(properties: Mapping[str, str]) -> frozenset[str]:
    """The values that must not be shown: those of sensitive names, and the quoted parts of login modules."""
    found: set[str] = set()
    for name, value in properties.items():
        if not is_sensitive(name):
            continue
        found.add(value)
        found.update(re.sub(r"\\(.)", r"\1", part) for part in _QUOTED.findall(value))
        found.update(_QUOTED.findall(value))
    return frozenset(value for value in found if value)


def hidden(text: str, values: Iterable[str]) -> str:
    """The text with each of the values replaced; very short ones only where they stand alone."""
    for value in sorted(values, key=len, reverse=True):
        if len(value) >= _SHORTEST:
            text = text.replace(value, HIDDEN)
        else:
            text = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", HIDDEN, text)
    return text


SESSION_SETTINGS = {
    # Kafka's source of the second API: a third faster than the first.
    "spark.sql.sources.useV1SourceList": "",
    # The number of reducers is known beforehand.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
}
"""What a session can still be given when its JVM runs already."""

_FORGETTING = {
    # Spark keeps what a consumer has fetched beyond a window, for five minutes: a hundred megabytes a sample.
    "spark.kafka.consumer.fetchedData.cache.timeout": "1s",
    "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval": "1s",
}

_MERGED = {"spark.jars": ",", "spark.driver.extraJavaOptions": " "}
"""Settings that the user's are added to, and what separates them."""
_REDACTION = ("spark.redaction.regex", "spark.sql.redaction.options.regex")
_CONSUMERS = 64


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """Settings of how Spark runs.

    Attributes:
        jars: Kafka's connector and what it needs, for PySpark's own version.
        master: A Spark master's URL; None for this machine.
        remote: A Spark Connect URL (`sc://host:15002`) instead of a master.
        conf: Spark settings of the user's own, which win.
        full: Whether everything is read: Java then compiles better, which pays off in long runs only.
        partitions: The most partitions that a topic has: so many Kafka consumers are kept.
        memory: Of the driver's JVM.
        debug: Spark's own log goes to stderr.
        java_home: The Java that runs Spark; None for the one that Spark finds by itself.
    """

    jars: tuple[Path, ...] = ()
    master: str | None = None
    remote: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    full: bool = False
    partitions: int = 0
    memory: str = "2g"
    debug: bool = False
    java_home: Path | None = None

    @property
    def local(self) -> bool:
        """Return whether Spark runs in one process on this machine."""
        return self.remote is None and is_local(self.effective_master)

    @property
    def effective_master(self) -> str:
        """The master that is used, unless it is Spark Connect."""
        # Tasks wait for brokers half of the time.
        return self.master or self.conf.get("spark.master") or f"local[{2 * _cores()}]"


def configuration(settings: SessionSettings, folder: Path) -> dict[str, str]:
    """Spark settings of a session with a JVM of its own: ours, and over them the user's.

    Args:
        settings: How Spark runs.
        folder: For files that are gone with the session; it exists.
    """
    ours = {
        "spark.app.name": "kafkaform skew",
        "spark.master": settings.effective_master,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": settings.memory,
        "spark.driver.extraJavaOptions": _java_options(settings, folder),
        "spark.kafka.consumer.cache.capacity": str(max(_CONSUMERS, settings.partitions)),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        **SESSION_SETTINGS,
        **_FORGETTING,
        **dict.fromkeys(_REDACTION, SENSITIVE),
    }
    if settings.local:
        ours |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.local.dir": str(folder / "local"),
            # Spark's own 200 are for a cluster: here each is a short task of its own.
            "spark.sql.shuffle.partitions": str(2 * _cores()),
        }
    else:
        ours["spark.jars"] = ",".join(map(str, settings.jars))
    own = dict(settings.conf)
    result = {**ours, **own, "spark.master": settings.effective_master}
    for name, separator in _MERGED.items():
        if name in own:
            result[name] = separator.join(filter(None, (ours.get(name), own[name])))
    # A pattern of one's own hides more, never less.
    result |= widened(own)
    return {name: value for name, value in result.items() if value or name in SESSION_SETTINGS}


def class_path(settings: SessionSettings, more: str | None) -> str | None:
    """Return what stands behind Spark's own jars on the class path of a local session; None if nothing does.

    Args:
        settings: How Spark runs.
        more: What the environment (SPARK_DIST_CLASSPATH) has there.
    """
    return os.pathsep.join([*map(str, settings.jars), *([more] if more else [])]) or None


def widened(own: Mapping[str, str]) -> dict[str, str]:
    """The patterns of names whose values Spark hides: ours, and with them the user's."""
    return {name: f"{SENSITIVE}|{own[name]}" if own.get(name) else SENSITIVE for name in _REDACTION}


def is_local(master: str | None) -> bool:
    """Return whether a master's URL says that Spark runs in one process of this machine."""
    return master is not None and master.startswith("local") and not master.startswith("local-cluster")


def session_settings(own: Mapping[str, str]) -> dict[str, str]:
    """Return the settings to add to a session that somebody else starts.

    Args:
        own: The settings that it has; ours are added where these say nothing.
    """
    capacity = {"spark.kafka.consumer.cache.capacity": str(_CONSUMERS)}
    ours = {**SESSION_SETTINGS, **_FORGETTING, **capacity}
    return {**{name: value for name, value in ours.items() if name not in own}, **widened(own)}


def _java_options(settings: SessionSettings, folder: Path) -> str:
    options = [
        "-XX:+UseParallelGC",
        # To verify the bytecode of Spark's classes takes a second and a half of each start.
        "-XX:+UnlockDiagnosticVMOptions",
        "-XX:-BytecodeVerificationRemote",
        f'"-Djava.io.tmpdir={folder}"',
        f'"-Dlog4j2.configurationFile={(folder / "log4j2.properties").as_uri()}"',
    ]
    if not settings.full:
        # The better compiler takes longer than a sample does.
        options.insert(0, "-XX:TieredStopAtLevel=1")
    return " ".join(options)


def _cores() -> int:
    """The processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


PACKAGE = "spark_validation"


def zipped(folder: Path) -> Path:
    """Write the package's modules into a zip in a folder."""
    target = folder / f"{PACKAGE}.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        _add(archive, resources.files(PACKAGE), PACKAGE)
    return target


def _add(archive: zipfile.ZipFile, folder: Traversable, name: str) -> None:
    for entry in sorted(folder.iterdir(), key=lambda item: item.name):
        if entry.is_dir():
            if entry.name != "__pycache__":
                _add(archive, entry, f"{name}/{entry.name}")
        elif entry.name.endswith(".py"):
            archive.writestr(f"{name}/{entry.name}", entry.read_bytes())
