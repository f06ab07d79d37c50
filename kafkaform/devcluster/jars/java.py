"""The Java on this machine that can run Kafka and Spark."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from kafkaform.core.errors import JavaError
from kafkaform.core.values import Value

MINIMUM = 17
_VERSION = re.compile(r'version "((?:1\.)?(\d+)[^"]*)"')
_RESPONSE_TIMEOUT_S = 30


class Java(Value):
    """A Java launcher and the version it runs, such as 17.0.15."""

    path: Path
    version: str


def find_java() -> Java:
    """Return the first Java of version 17 or later in JAVA_HOME or PATH.

    Raises:
        JavaError: No Java was found, or only older versions.
    """
    too_old: list[str] = []
    for path in _find_candidates():
        version = _read_version(path)
        if version is None:
            continue
        full, major = version
        if int(major) >= MINIMUM:
            return Java(path, full)
        too_old.append(f"{path} is version {major}")
    if too_old:
        raise JavaError(
            f"Java {MINIMUM} or later is needed, but {' and '.join(too_old)}", hint=describe_installation()
        )
    raise JavaError(
        f"no Java found in JAVA_HOME or PATH; Java {MINIMUM} or later is needed", hint=describe_installation()
    )


def describe_installation() -> str:
    """Return a hint with the command that installs Java on the tested systems."""
    commands = {
        "Debian/Ubuntu": f"`sudo apt-get install openjdk-{MINIMUM}-jre-headless`",
        "Fedora": "`sudo dnf install java-latest-openjdk-headless`",
        "macOS": f"`brew install --cask temurin@{MINIMUM}`",
    }
    if sys.platform == "darwin":
        return f"install it: {commands['macOS']}; or point JAVA_HOME at one"
    listed = " · ".join(f"{system}: {command}" for system, command in commands.items())
    return f"install it ({listed}), or point JAVA_HOME at one"


def _find_candidates() -> list[Path]:
    paths = []
    if home := os.environ.get("JAVA_HOME"):
        paths.append(Path(home) / "bin" / "java")
    if on_path := shutil.which("java"):
        paths.append(Path(on_path))
    return paths


def _read_version(path: Path) -> tuple[str, str] | None:
    """Return the full and the major version of a launcher; None if it fails (a stub, a dangling link)."""
    try:
        process = subprocess.run(
            [path, "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_RESPONSE_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = _VERSION.search(process.stderr + process.stdout)
    return (version[1], version[2]) if process.returncode == 0 and version else None
