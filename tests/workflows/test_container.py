"""The Containerfile: what it copies is there, and what it installs runs, and writes nothing."""

from __future__ import annotations

import re

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
