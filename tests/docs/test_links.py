"""Links lead to files and headings that exist, and CONTRIBUTING.md shows lines of the source."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli.project import ROOT

PAGES = (
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "benchmarks" / "README.md",
)
_CODE = re.compile(r"^(```|~~~).*?^\1|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_CODE_BLOCK = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?:\]\(|\bsrc(?:set)?=\")(?P<target>[^)\s\"]+)(?: \"[^\"]*\")?[)\"]")


def list_anchors(text: str) -> set[str]:
    """Return the anchors of a page: those that GitHub gives to headings, and its own."""
    anchors = set(re.findall(r'^<a id="([^"]+)"></a>$', text, re.MULTILINE))
    repeated: Counter[str] = Counter()
    for heading in re.findall(r"^#+ (.+)$", _CODE_BLOCK.sub("", text), re.MULTILINE):
        words = re.sub(r"\]\([^)]*\)", "", heading)  # a link in a heading counts as its text
        anchor = re.sub(r"[^\w -]", "", words).lower().replace(" ", "-")
        anchors.add(f"{anchor}-{repeated[anchor]}" if repeated[anchor] else anchor)
        repeated[anchor] += 1
    return anchors


def find_broken_links(page: Path, text: str) -> Iterator[str]:
    for match in _LINK.finditer(_CODE.sub("", text)):
        target = match["target"]
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = page.parent / name if name else page
        if not file.exists() or (anchor and anchor not in list_anchors(file.read_text("utf-8"))):
            yield target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(page: Path) -> None:
    assert list(find_broken_links(page, page.read_text("utf-8"))) == []


def test_broken_links_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    text = "# A `plan.json` page\n[a](#a-planjson-page) [b](page.md#nowhere) [c](none.md) `[d](no.md)` [e](https://e)"
    text += '<img src="f.png">'
    page.write_text(text, "utf-8")
    assert list(find_broken_links(page, text)) == ["page.md#nowhere", "none.md", "f.png"]


def test_every_page_is_linked_from_readme() -> None:
    reached: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        reached.add(page)
        targets = {match["target"].partition("#")[0] for match in _LINK.finditer(page.read_text("utf-8"))}
        files = {(page.parent / target).resolve() for target in targets if target.endswith(".md")}
        waiting += {file for file in files if file.exists()} - reached
    assert {*PAGES} - reached == set()


CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text("utf-8")


def find_shown_lines() -> Iterator[tuple[str, str]]:
    """Each added line with the file that it is shown of."""
    for block in re.findall(r"^```diff\n(.*?)^```$", CONTRIBUTING, re.MULTILINE | re.DOTALL):
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
    listed = re.findall(r"^\| `(\w+)/` \|", CONTRIBUTING, re.MULTILINE)
    rooms = {folder.name for folder in (ROOT / "kafkaform").iterdir() if (folder / "__init__.py").exists()}
    assert rooms <= set(listed)
