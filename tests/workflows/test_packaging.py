"""What is shipped, and what must never be in it."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as found:
        yield found


def test_the_wheel_is_whole(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    for schema in (ROOT / "schemas").glob("*.json"):
        assert f"kafkaform/schemas/{schema.name}" in names
    for source in [*(ROOT / "kafkaform").rglob("*"), *(ROOT / "spark_validation").rglob("*")]:
        if source.is_file() and "__pycache__" not in source.parts:
            assert source.relative_to(ROOT).as_posix() in names
    assert {"kafkaform/py.typed", "spark_validation/py.typed"} <= names
    assert not [name for name in names if name.startswith("tests/")]


def test_the_wheel_finds_its_schemas(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path)
    code = "import kafkaform.core.schema_files as s; print(s.load_schema('topic')['title'], s.FOLDERS)"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert run.stdout.startswith("kafkaform Topic")
    assert str(tmp_path) in run.stdout


def test_every_dependency_is_pinned_with_hashes_and_no_index() -> None:
    lock = (ROOT / "requirements.lock").read_text("utf-8")
    pinned = {_normal(name) for name in re.findall(r"^([A-Za-z0-9._-]+)==", lock, re.MULTILINE)}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["spark"], *extras["github"], *extras["dev"]]
    for requirement in wanted:
        name = re.match(r"[A-Za-z0-9._-]+", requirement)
        assert name is not None
        assert _normal(name[0]) in pinned
    entries = re.split(r"^(?=\S)", lock, flags=re.MULTILINE)
    assert all("--hash=sha256:" in entry for entry in entries if "==" in entry)
    assert not re.search(r"https?:|index-url|find-links", lock)


def _normal(name: str) -> str:
    """A distribution's name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()
