"""The set-up behind `make`: what is missing is said, with the command that brings it; and that behind CI."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "bootstrap.sh"


def bootstrap(tools: Path, venv: Path) -> subprocess.CompletedProcess[str]:
    """Run the script where only these tools, and what the shell itself needs, are on the PATH."""
    for name in ("sed", "head", "rm"):
        found = shutil.which(name)
        assert found is not None
        (tools / name).symlink_to(found)
    environ = {"PATH": str(tools), "HOME": os.environ.get("HOME", "/")}
    shell = shutil.which("sh")
    assert shell is not None
    return subprocess.run(
        [shell, str(SCRIPT), str(venv)], env=environ, capture_output=True, text=True, check=False
    )


def tool(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    return folder


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
    tools: Path, tmp_path: Path, python: str | None, java: str | None, lines: list[str]
) -> None:
    if python is None:
        (tools / "python3").symlink_to(sys.executable)
    else:
        tool(tools, "python3", python)
    if java is not None:
        tool(tools, "java", java)
    run = bootstrap(tools, tmp_path / "venv")
    assert (run.returncode, run.stderr.splitlines()) == (1, lines)
    assert not (tmp_path / "venv").exists()


@pytest.mark.parametrize(
    ("there", "installed"),
    [
        (("shellcheck", "chromium"), []),
        (("shellcheck", "google-chrome"), []),
        (("chromium",), ["shellcheck"]),
        ((), ["shellcheck", "chromium"]),
    ],
)
def test_ci_installs_missing_programs(
    tools: Path, tmp_path: Path, there: tuple[str, ...], installed: list[str]
) -> None:
    for name in there:
        tool(tools, name, "exit 0")
    calls = tmp_path / "calls"
    for name in ("apt-get", "sudo"):
        tool(tools, name, f'[ {name} = sudo ] && exec "$@"; echo "$@" >> {calls}')
    tool(tools, "id", "echo 1000")
    (tools / "env").symlink_to(str(shutil.which("env")))
    command = [str(shutil.which("bash")), str(SCRIPT.with_name("test_programs.sh"))]
    subprocess.run(command, env={"PATH": str(tools)}, check=True)
    asked = [line.split() for line in calls.read_text().splitlines()] if calls.exists() else []
    assert [words[0] for words in asked] == (["update", "install"] if installed else [])
    assert [word for words in asked for word in words[1:] if word[0] != "-"] == installed


def test_ci_builds_actionlint_if_go_is_installed(tools: Path, tmp_path: Path) -> None:
    for name in ("shellcheck", "chromium"):
        tool(tools, name, "exit 0")
    tool(tools, "id", "echo 0")
    calls = tmp_path / "calls"
    tool(tools, "go", f'echo go "$@" >> {calls}')
    tool(tools, "install", f'echo install "$@" >> {calls}')
    (tools / "mktemp").symlink_to(str(shutil.which("mktemp")))
    command = [str(shutil.which("bash")), str(SCRIPT.with_name("test_programs.sh"))]
    subprocess.run(command, env={"PATH": str(tools)}, check=True)
    build, install = calls.read_text().splitlines()
    assert re.fullmatch(r"go install github\.com/rhysd/actionlint/cmd/actionlint@v[\d.]+", build)
    assert install.endswith("/actionlint /usr/local/bin/")
    tool(tools, "actionlint", "exit 0")
    subprocess.run(command, env={"PATH": str(tools)}, check=True)
    assert len(calls.read_text().splitlines()) == 2
