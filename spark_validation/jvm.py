"""The JVM of a Spark session: started quietly, and never left behind."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import threading
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

from spark_validation.configuration import is_sensitive
from spark_validation.errors import SparkUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from spark_validation.configuration import SessionSettings

LOG = "spark.log"

_END_S = 10.0
_DUMP_S = 120.0
"""A JVM that writes an archive of its classes does it at its end."""
_LINES = 400
_JAVA_HINT = "Spark 4 needs Java 17 or 21: install one, and point JAVA_HOME at it"
_TOO_OLD = "java.lang.UnsupportedClassVersionError"

# What an environment for another Spark would do to this one.
_FOREIGN = ("PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET", "SPARK_HOME")
_REMOTE = ("SPARK_REMOTE", "SPARK_LOCAL_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "SPARK_API_MODE", "MASTER")
_LOCAL = ("SPARK_CONF_DIR", "SPARK_MASTER", "SPARK_LOCAL_DIRS", "SPARK_LOCAL_IP")

# Where PySpark's own gateway has the level of all, Spark does not change that to its default of a shell.
_LOG4J = """logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = {level}
rootLogger.level = {level}
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{{HH:mm:ss}} %p %c{{1}}: %m%n%ex
"""


@contextmanager
def environment(settings: SessionSettings, folder: Path) -> Iterator[None]:
    """The environment that PySpark starts a JVM in; afterwards it is as before.

    Args:
        settings: How Spark runs.
        folder: For what starts Python workers of this machine.
    """
    changes: dict[str, str | None] = dict.fromkeys((*_FOREIGN, *_REMOTE))
    # Of the short-lived JVM that puts the long-lived one's command together.
    changes["SPARK_LAUNCHER_OPTS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    python = settings.conf.get("spark.pyspark.python")
    if settings.local:
        changes |= dict.fromkeys(_LOCAL)
        python = python or str(_worker_python(folder))
    else:
        python = python or os.environ.get("PYSPARK_PYTHON")
    changes |= {"PYSPARK_PYTHON": python or sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    if settings.java_home is not None:
        changes["JAVA_HOME"] = str(settings.java_home)
    with _changed(changes):
        yield


def _worker_python(folder: Path) -> Path:
    """Write a program that starts this Python with what this process imports.

    Spark has its workers import PySpark from a zip, which Python compiles anew in each process that is not
    forked from another: a third of a second each.
    """
    program = folder / "python"
    path = os.pathsep.join(filter(None, sys.path))
    program.write_text(
        f'#!/bin/sh\nPYTHONPATH={shlex.quote(path)} exec {shlex.quote(sys.executable)} "$@"\n',
        encoding="utf-8",
    )
    program.chmod(0o700)
    return program


@contextmanager
def _changed(changes: Mapping[str, str | None]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in changes}
    _put(changes)
    try:
        yield
    finally:
        _put(before)


def _put(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@contextmanager
def running(settings: SessionSettings, configuration: Mapping[str, str], folder: Path) -> Iterator[Any]:
    """A gateway to a JVM of its own, which is gone afterwards.

    Args:
        settings: How Spark runs.
        configuration: Spark's settings. Those with sensitive names are kept off the command line.
        folder: For its log, unless that goes to stderr.

    Raises:
        SparkUnavailable: It does not start.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    level = "info" if settings.debug else "warn"
    (folder / "log4j2.properties").write_text(_LOG4J.format(level=level), encoding="utf-8")
    # PySpark's own function for those who want the JVM's output; it has no types.
    start: Any = launch_gateway
    plain = [(name, value) for name, value in configuration.items() if not is_sensitive(name)]
    with (folder / LOG).open("wb") as log:
        target: IO[bytes] | None = None if settings.debug else log
        # Spark leaves an `artifacts` folder where it runs.
        options = {
            "stdout": sys.stderr.fileno() if settings.debug else log,
            "stderr": target,
            "cwd": folder,
        }
        try:
            gateway = start(SparkConf(loadDefaults=False).setAll(plain), options)
        except PySparkRuntimeError as error:
            raise SparkUnavailable(f"Spark's Java did not start{why(folder)}", hint=_JAVA_HINT) from error
        except OSError as error:
            raise SparkUnavailable(f"Spark's Java did not start: {error}", hint=_JAVA_HINT) from error
    process: subprocess.Popen[bytes] = gateway.proc
    try:
        yield gateway
    finally:
        _end(gateway, process, _END_S if settings.dump_classes is None else _DUMP_S)
        # A later session of this process starts a JVM of its own.
        SparkContext._gateway = None  # noqa: SLF001 - PySpark has no other way
        SparkContext._jvm = None  # noqa: SLF001


def _end(gateway: Any, process: subprocess.Popen[bytes], patience_s: float) -> None:
    """End a JVM, by force if it does not by itself."""
    quietly = threading.Thread(target=gateway.shutdown, daemon=True)
    quietly.start()
    quietly.join(_END_S)
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(patience_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def why(folder: Path) -> str:
    """What the JVM's log says last, as the end of a sentence; nothing if it says nothing."""
    try:
        lines = (folder / LOG).read_text(encoding="utf-8", errors="replace").splitlines()[-_LINES:]
    except OSError:
        return ""
    if any(_TOO_OLD in line for line in lines):
        return ": it is too old"
    telling = [
        line.strip()
        for line in lines
        if line.strip() and not re.match(r"\s+at |\s*\.\.\. \d+ more", line) and "WARN" not in line
    ]
    causes = [line for line in telling if re.search(r"(Exception|Error)\b", line)]
    chosen = (causes or telling)[-1:]
    return f": {chosen[0][:300]}" if chosen else ""
