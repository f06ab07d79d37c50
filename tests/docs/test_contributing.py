"""The worked examples of CONTRIBUTING.md: each line that they show is in the source."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.support.cli.project import ROOT

PAGE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")


def find_shown_lines() -> Iterator[tuple[str, str]]:
    """Each added line with the file that it is shown of."""
    for block in re.findall(r"^```diff\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        file = ""
        for line in block.splitlines():
            if line.startswith("+++ "):
                file = line.removeprefix("+++ ")
            else:
                assert line.startswith("+"), line
                yield file, line[1:]


@pytest.mark.parametrize("file", sorted({file for file, _ in find_shown_lines()}))
def test_quoted_lines_are_in_their_files(file: str) -> None:
    there = (ROOT / file).read_text("utf-8").splitlines()
    assert [line for name, line in find_shown_lines() if name == file and line not in there] == []


def test_contributing_lists_every_package_folder() -> None:
    listed = re.findall(r"^\| `(\w+)/` \|", PAGE, re.MULTILINE)
    rooms = {folder.name for folder in (ROOT / "kafkaform").iterdir() if (folder / "__init__.py").exists()}
    assert rooms <= set(listed)
