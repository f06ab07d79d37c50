"""The set-up behind `make`, and the contents of releases and of the container's image."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.metadata import Metadata
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from kafkaform import __version__
from tests.support.cli.project import ROOT


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return build(ROOT, tmp_path_factory.mktemp("dist"))


def build(source: Path, into: Path) -> tuple[Path, Path]:
    """Build both packages without a network: their build requirements are installed here."""
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(into)]
    environ = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
    subprocess.run(command, cwd=source, check=True, capture_output=True, env=environ)
    [sdist], [wheel] = into.glob("*.tar.gz"), into.glob("*.whl")
    return sdist, wheel


@pytest.fixture(scope="module")
def wheel(packages: tuple[Path, Path]) -> Iterator[zipfile.ZipFile]:
    with zipfile.ZipFile(packages[1]) as archive:
        yield archive


def sources(*folders: str) -> set[str]:
    """The files of folders, without what Python has compiled."""
    files = [file for folder in folders for file in (ROOT / folder).rglob("*") if file.is_file()]
    return {file.relative_to(ROOT).as_posix() for file in files if "__pycache__" not in file.parts}


def test_package_builds_are_reproducible(packages: tuple[Path, Path], tmp_path: Path) -> None:
    """Elsewhere, later, and from the sdist, which so has all that is needed."""
    with tarfile.open(packages[0]) as archive:
        archive.extractall(tmp_path, filter="data")
    [source] = tmp_path.iterdir()
    for file in source.rglob("*"):
        os.utime(file)
    again = build(source, tmp_path)
    assert [file.read_bytes() for file in again] == [file.read_bytes() for file in packages]


def test_packages_have_expected_files(packages: tuple[Path, Path], wheel: zipfile.ZipFile) -> None:
    code = sources("kafkaform", "spark_validation")
    schemas = sources("schemas")
    info = f"kafkaform-{__version__}.dist-info"
    about = {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}
    inside = {f"kafkaform/{schema}" for schema in schemas} | {f"{info}/{name}" for name in about}
    assert set(wheel.namelist()) == code | inside
    assert {"kafkaform/py.typed", "spark_validation/py.typed"} <= code
    top = {"CHANGELOG.md", "LICENSE", "README.md", "pyproject.toml", ".gitignore", "PKG-INFO"}
    with tarfile.open(packages[0]) as archive:
        assert set(archive.getnames()) == {f"kafkaform-{__version__}/{name}" for name in code | schemas | top}


def test_metadata_are_valid_with_spark_as_extra(wheel: zipfile.ZipFile) -> None:
    [text] = [wheel.read(name) for name in wheel.namelist() if name.endswith("/METADATA")]
    metadata = Metadata.from_email(text, validate=True)
    assert (metadata.license_expression, metadata.license_files) == ("Apache-2.0", ["LICENSE"])
    assert metadata.description_content_type == "text/markdown"
    requirements = metadata.requires_dist or []
    base = {requirement.name for requirement in requirements if requirement.marker is None}
    spark = {
        requirement.name
        for requirement in requirements
        if requirement.marker and requirement.marker.evaluate({"extra": "spark"})
    } - base
    assert spark == {"pyspark", "numpy", "pandas", "pyarrow"}


def test_wheel_finds_its_schemas(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path)
    code = "import kafkaform.core.schema_files as s; print(s.load_schema('topic')['title'], s.FOLDERS)"
    shown = subprocess.check_output([sys.executable, "-c", code], cwd=tmp_path, text=True)
    assert shown.startswith("kafkaform Topic")
    assert str(tmp_path) in shown


def test_locked_dependencies_are_complete() -> None:
    lock = (ROOT / "requirements.lock").read_text("utf-8")
    pinned = {canonicalize_name(name) for name in re.findall(r"^([\w.-]+)==", lock, re.MULTILINE)}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["spark"], *extras["local"], *extras["github"], *extras["dev"]]
    assert {canonicalize_name(Requirement(each).name) for each in wanted} <= pinned
    assert not re.search(r"https?:|index-url|find-links", lock)


CONTAINERFILE = (ROOT / "Containerfile").read_text("utf-8")
INSTRUCTIONS = [
    tuple(line.split(None, 1))
    for line in re.sub(r"\\\n\s*", "", CONTAINERFILE).splitlines()
    if line and not line.startswith("#")
]


def list_arguments(name: str) -> list[str]:
    return [arguments for instruction, arguments in INSTRUCTIONS if instruction == name]


def list_copied() -> list[str]:
    copies = [line.split() for line in list_arguments("COPY") if not line.startswith("--from=")]
    return [source for words in copies for source in words[:-1]]


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
