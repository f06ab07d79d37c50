"""The Containerfile: what it copies is there, and what it installs runs, and writes nothing."""

from __future__ import annotations

import os
import re
import shutil
import site
import subprocess
import sys
from pathlib import Path, PurePosixPath

import pytest

from tests.support.cli.project import ROOT

CONTAINERFILE = (ROOT / "Containerfile").read_text("utf-8")
INSTRUCTIONS = [
    tuple(line.split(None, 1))
    for line in re.sub(r"\\\n\s*", "", CONTAINERFILE).splitlines()
    if line and not line.startswith("#")
]


def list_arguments(name: str) -> list[str]:
    return [arguments for instruction, arguments in INSTRUCTIONS if instruction == name]


def list_copied() -> list[str]:
    """Return the paths copied from the repository."""
    sources = [
        argument.split()[:-1] for argument in list_arguments("COPY") if not argument.startswith("--from=")
    ]
    return [source for some in sources for source in some]


def test_copied_files_exist_and_are_not_ignored() -> None:
    ignored, *allowed = [
        line for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line and line[0] != "#"
    ]
    assert ignored == "*"
    for source in list_copied():
        assert (ROOT / source).exists(), source
        assert f"!{source}" in allowed, source
    assert {f"!{source}" for source in list_copied()} == {line for line in allowed if line.startswith("!")}
    assert not {".", ".git", ".venv"} & set(list_copied())


def test_base_image_is_pinned_by_digest() -> None:
    """By a digest: what a tag names changes."""
    [base] = list_arguments("ARG")
    assert re.fullmatch(r"PYTHON=python:3\.\d+-slim-bookworm@sha256:[0-9a-f]{64}", base)
    assert list_arguments("FROM") == ["${PYTHON} AS build", "${PYTHON}"]


def test_image_has_an_unprivileged_user_and_hashed_dependencies() -> None:
    assert list_arguments("USER") == ["65532:65532"]
    assert list_arguments("ENTRYPOINT") == ['["kafkaform"]']
    assert INSTRUCTIONS.index(("USER", "65532:65532")) > max(
        index for index, (instruction, _) in enumerate(INSTRUCTIONS) if instruction in {"RUN", "COPY"}
    )
    pip = [argument for argument in list_arguments("RUN") if "pip install" in argument]
    assert len(pip) == 2
    assert all("--require-hashes" in line or "--no-index --no-deps" in line for line in pip)
    assert "PIP_NO_CACHE_DIR=1" in list_arguments("ENV")[0]
    assert {name for name, _ in INSTRUCTIONS} == {
        "ARG",
        "FROM",
        "WORKDIR",
        "RUN",
        "ENV",
        "COPY",
        "USER",
        "ENTRYPOINT",
    }


@pytest.mark.nightly("it installs the package; CI builds the image and runs it with every change")
def test_installed_package_runs_without_writing(tmp_path: Path) -> None:
    """Its last pip step, where nothing is but what is copied; dependencies are those of here."""
    source, installed = tmp_path / "source", tmp_path / "installed"
    for name in list_copied():
        place = source / PurePosixPath(name).name
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, place, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            place.parent.mkdir(exist_ok=True)
            shutil.copy(ROOT / name, place)
    [step] = [argument for argument in list_arguments("RUN") if "--no-index" in argument]
    options = step.split("pip install ")[1].split()
    assert options.pop() == "."
    here = [folder for folder in site.getsitepackages() if Path(folder).is_dir()]
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--target",
        str(installed),
        *options,
        str(source),
    ]
    subprocess.run(pip, check=True, env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"})
    work = tmp_path / "work"
    shutil.copytree(ROOT / "topics", work / "topics")
    shutil.copy(ROOT / "kafkaform.yaml", work)
    before = everything(tmp_path)
    environ = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join([str(installed), *here]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": "/nonexistent",
    }
    code = "import kafkaform; print(kafkaform.__file__); from kafkaform.__main__ import main; main()"
    call = [sys.executable, "-P", "-c", code, "validate"]
    done = subprocess.run(call, cwd=work, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(str(installed))
    assert "valid" in done.stdout
    assert everything(tmp_path) == before


def everything(folder: Path) -> dict[Path, int]:
    """Every file below a folder, and when it was written."""
    return {place: place.stat().st_mtime_ns for place in folder.rglob("*")}
