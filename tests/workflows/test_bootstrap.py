"""The set-up behind `make`: what is missing is said, with the command that brings it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "bootstrap.sh"
PYTHON = [
    "Error: Python 3.11 or later is needed, but not on the PATH",
    "  Debian/Ubuntu: sudo apt-get install python3 python3-venv",
    "  Fedora:        sudo dnf install python3",
    "  macOS:         brew install python@3.12",
]
JAVA = [
    "  Debian/Ubuntu: sudo apt-get install openjdk-17-jre-headless",
    "  Fedora:        sudo dnf install java-17-openjdk-headless",
    "  macOS:         brew install openjdk@17",
]
OLD_JAVA = "echo 'openjdk version \"11.0.2\" 2019-01-15' >&2"


@pytest.mark.parametrize(
    ("python", "java", "lines"),
    [
        ("exit 1", None, PYTHON),
        (None, None, ["Error: Java 17 or later is needed", *JAVA]),
        (None, OLD_JAVA, ["Error: Java 17 or later is needed, found 11", *JAVA]),
    ],
)
def test_missing_or_old_program_is_named(
    tmp_path: Path, python: str | None, java: str | None, lines: list[str]
) -> None:
    """Only these programs, and what the shell itself needs, are on the PATH."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("sed", "head", "rm"):
        (tools / name).symlink_to(str(shutil.which(name)))
    if python is None:
        (tools / "python3").symlink_to(sys.executable)
    for name, script in {"python3": python, "java": java}.items():
        if script is not None:
            (tools / name).write_text(f"#!/bin/sh\n{script}\n")
            (tools / name).chmod(0o755)
    command = [str(shutil.which("sh")), str(SCRIPT), str(tmp_path / "venv")]
    environ = {"PATH": str(tools), "HOME": os.environ.get("HOME", "/")}
    run = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr.splitlines()) == (1, lines)
    assert not (tmp_path / "venv").exists()
