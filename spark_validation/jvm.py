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

from spark_validation.configuration import SessionSettings, is_sensitive
from spark_validation.errors import SparkUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

LOG = "spark.log"

_END_S = 10.0
# A JVM that writes an archive of its classes does it at its end.
_DUMP_S = 120.0
_LINES = 400
_JAVA_HINT = "Spark 4 needs Java 17 or 21: install one, and point JAVA_HOME at it"
_TOO_OLD = "java.lang.UnsupportedClassVersionError"

# Variables for another Spark that would affect this one.
_FOREIGN = ("PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET", "SPARK_HOME")
_REMOTE = ("SPARK_REMOTE", "SPARK_LOCAL_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "SPARK_API_MODE", "MASTER")
_LOCAL = ("SPARK_CONF_DIR", "SPARK_MASTER", "SPARK_LOCAL_DIRS", "SPARK_LOCAL_IP")

# If PySpark's gateway has the root's level, Spark does not change that to its default for shells.
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
def set_environment(settings: SessionSettings, folder: Path) -> Iterator[None]:
    """Set the environment in which PySpark starts a JVM, and restore it afterwards.

    Args:
        settings: How Spark runs.
        folder: The folder for the program that starts local Python workers.
    """
    changes: dict[str, str | None] = dict.fromkeys((*_FOREIGN, *_REMOTE))
    # For the short-lived JVM that builds the command of the long-lived one.
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
    with _change_environment(changes):
        yield


def _worker_python(folder: Path) -> Path:
    """Write a program that starts this Python with what this process imports.

    Spark's workers import PySpark from a zip, which Python compiles anew in each process that is not
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
def _change_environment(changes: Mapping[str, str | None]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in changes}
    _set_environment(changes)
    try:
        yield
    finally:
        _set_environment(before)


def _set_environment(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@contextmanager
def start_gateway(settings: SessionSettings, configuration: Mapping[str, str], folder: Path) -> Iterator[Any]:
    """Start a JVM, yield its gateway, and end the JVM afterwards.

    Args:
        settings: How Spark runs.
        configuration: Spark's settings. Those with sensitive names are kept off the command line.
        folder: The folder for its log, unless that goes to stderr.

    Raises:
        SparkUnavailable: It does not start.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    level = "info" if settings.debug else "warn"
    (folder / "log4j2.properties").write_text(_LOG4J.format(level=level), encoding="utf-8")
    # PySpark's own function can redirect the JVM's output; it has no types.
    start: Any = launch_gateway
    # All users of a machine can see the arguments of its processes.
    plain = [(name, value) for name, value in configuration.items() if not is_sensitive(name)]
    with (folder / LOG).open("wb") as log:
        target: IO[bytes] | None = None if settings.debug else log
        # Spark leaves an `artifacts` folder where it runs.
        options = {"stdout": sys.stderr.fileno() if settings.debug else log, "stderr": target, "cwd": folder}
        try:
            gateway = start(SparkConf(loadDefaults=False).setAll(plain), options)
        except PySparkRuntimeError as error:
            raise SparkUnavailable(
                f"Spark's Java did not start{find_log_error(folder)}", hint=_JAVA_HINT
            ) from error
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
    """End a JVM, by force if it does not end by itself."""
    # In a thread, as a call to a JVM that hangs has no timeout.
    shutdown = threading.Thread(target=gateway.shutdown, daemon=True)
    shutdown.start()
    shutdown.join(_END_S)
    # PySpark's gateway ends when its standard input does.
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(patience_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def find_log_error(folder: Path) -> str:
    """Return the last error in the JVM's log, as the end of a sentence; empty if there is none."""
    try:
        lines = (folder / LOG).read_text(encoding="utf-8", errors="replace").splitlines()[-_LINES:]
    except OSError:
        return ""
    if any(_TOO_OLD in line for line in lines):
        return ": it is too old"
    messages = [
        line.strip()
        for line in lines
        if line.strip() and not re.match(r"\s+at |\s*\.\.\. \d+ more", line) and "WARN" not in line
    ]
    causes = [line for line in messages if re.search(r"(Exception|Error)\b", line)]
    chosen = (causes or messages)[-1:]
    return f": {chosen[0][:300]}" if chosen else ""
