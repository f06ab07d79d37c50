"""The hook for pre-commit: its definition, and what a commit with it comes to."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli.project import BIN, ROOT, Project
from tests.support.workflows.jobs import load

KNOWN = {"id", "name", "description", "entry", "language", "types", "pass_filenames"}
"""What pre-commit knows, of what is used."""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A repository whose commits the hook looks at, as pre-commit would call it."""
    found = hook()
    entry = [str(BIN / shlex.split(found["entry"])[0]), *shlex.split(found["entry"])[1:]]
    environ = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True, env=environ)
    script = tmp_path / ".git" / "hooks" / "pre-commit"
    script.write_text(f"#!/bin/sh\nexec {shlex.join(entry)}\n", "utf-8")
    script.chmod(0o755)
    return Project(tmp_path, "127.0.0.1:1", "")


def hook() -> dict[str, Any]:
    hooks: Any = load(ROOT / ".pre-commit-hooks.yaml")
    [only] = hooks
    found: dict[str, Any] = only
    return found


def commit(project: Project) -> tuple[int, str]:
    who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"]
    done = subprocess.run(
        ["git", *who, "commit", "--quiet", "--message", "Edit"],
        cwd=project.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def stage(project: Project) -> None:
    subprocess.run(["git", "add", "--all"], cwd=project.folder, check=True)


def test_hook_definition_is_valid() -> None:
    found = hook()
    assert found.keys() <= KNOWN
    assert re.fullmatch(r"[a-z-]+", found["id"])
    assert (found["id"], found["language"], found["types"]) == ("kafkaform-validate", "python", ["yaml"])
    # Files one by one would hide that two of them declare the same topic.
    assert found["pass_filenames"] is False


def test_invalid_manifest_stops_commit(project: Project) -> None:
    project.config()
    project.topic("orders")
    stage(project)
    code, output = commit(project)
    assert code == 0, output
    project.write("topics/again.yaml", (project.folder / "topics/orders.yaml").read_text("utf-8"))
    subprocess.run(["git", "add", "topics/again.yaml"], cwd=project.folder, check=True)
    code, output = commit(project)
    assert code == 1
    assert "orders" in output
    assert "topics/again.yaml" in output
