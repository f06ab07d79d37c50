"""Links lead to files and headings, and only what is in the source or is printed is quoted."""

import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pytest

from kafkaform.report.skew import render_skew
from scripts.list_messages import FOLDERS, list_messages
from tests.support.cli.project import ROOT
from tests.support.markdown import FENCE, list_blocks
from tests.support.skew import samples as skew_samples

PAGES = (*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md")), ROOT / "benchmarks" / "README.md")
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


_HOLE = re.compile(r"(?:\{[\w.]*\}|\{…\}|%s)+")
_WORD = re.compile(r"(?<![\w./'-])[a-z][a-z']*(?![\w./-]*\w)")
_EDGES = " .,;:\n"
_JOINTS = ("; ", ": ", ", ", " (", ". ")
_LEAST_LETTERS = 2
"""A pattern with fewer letters of its own, such as `{name}: {reason}`, says nothing about a text."""
_WEAK_LETTERS = 6
"""In a pattern with fewer letters, such as `{right} on {topic}`, values stand, and no other messages."""
_VALUES_BEFORE = tuple(
    map(re.compile, (r"\S*[^a-z\s]\S* ", r"[\d,.]+ [a-z]+ ", r"(?:broker|partition|node) \d+ "))
)
"""What may precede a message: a name or a number (`Topic/orders.v1`, `19,800`, `3 groups`, `broker 3`)."""


def words_of(text: str) -> list[str]:
    """Return the plain words of a text: no names, numbers, options or paths."""
    return _WORD.findall(text)


class PrintedMessages:
    """The messages of the source; a message is a pattern whose holes are values or messages."""

    def __init__(self) -> None:
        files = (path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*")))
        sources = (path for path in files if path.suffix in {".py", ".yaml", ".html"})
        # The longest literal part of each, for a quick look, its pattern, and whether it is weak.
        self._patterns: list[tuple[str, re.Pattern[str], bool]] = []
        for text in {message.text for path in sources for message in list_messages(path)}:
            parts = _HOLE.split(re.sub(r"\s+", " ", text).strip(_EDGES))
            letters = sum(map(str.isalpha, "".join(parts)))
            if letters >= _LEAST_LETTERS:
                longest = max(parts, key=len).casefold().strip()
                pattern = re.compile("(.+)".join(map(re.escape, parts)), re.IGNORECASE)
                self._patterns.append((longest, pattern, letters < _WEAK_LETTERS))

    def has(self, quote: str) -> bool:
        """Return whether kafkaform prints a text, in which `…` stands for a value."""
        text = re.sub(r"\s+", " ", quote).strip(_EDGES)
        return self._covers(text) or (text.endswith("…") and self._covers(f"{text}: …"))

    @lru_cache(maxsize=4096)  # noqa: B019 - one object for all tests
    def _covers(self, text: str) -> bool:
        return any(self._covers_form(form) for form in {text.strip(_EDGES), text.strip(f"{_EDGES}()")})

    def _covers_form(self, text: str) -> bool:
        if _is_value(text):
            return True
        lowered = text.casefold()
        for longest, pattern, is_weak in self._patterns:
            match = pattern.fullmatch(text) if longest in lowered else None
            covers = _is_value if is_weak else self._covers
            if match and all(len(value) < len(text) and covers(value) for value in match.groups()):
                return True
        for before in _VALUES_BEFORE:
            remaining = text[match.end() :] if (match := before.match(text)) else ""
            if len(words_of(remaining)) > 1 and self._covers(remaining):
                return True
        return any(
            self._covers(text[:at]) and self._covers(text[at + len(joint) :])
            for joint in _JOINTS
            for at in (match.start() for match in re.finditer(re.escape(joint), text))
            if at
        )


def _is_value(text: str) -> bool:
    """Return whether a text is a name, a number, a command or such: at most one plain word."""
    return len(words_of(text)) <= 1 or text.lstrip("`").startswith(("kafkaform ", "kafka-acls "))


GENERATED = {ROOT / "docs" / name for name in ("cli.md", "rules.md")}
QUOTING = [ROOT / "README.md", *sorted({*(ROOT / "docs").rglob("*.md")} - GENERATED)]
NOT_PRINTED: dict[str, str] = {
    "! profile events: 212 topics": "the report joins it of a mark, a layer and a count"
}
"""Quoted texts that look like messages and are none, and why."""
_GENERATED_PART = re.compile(r"<!-- (\w+): begin -->.*?<!-- \1: end -->", re.DOTALL)


_COMMAND = re.compile(
    r"(kafkaform|ci|get|new|skew|make|uv|eval|pip|python3?|topicctl|openssl|keytool|kinit|jikkou|kubectl|terraform|spark-submit|gcloud|plan|apply|"
    r"drift|doctor|dev|status|export|apiVersion)\b"
)
_VALUE = re.compile(r"[\w.]+: [\w-]+$|.*[<>=|{\[]|-")
"""A field with its value, an expression, a pattern, an option."""


def find_quotes(page: str) -> Iterator[str]:
    """Yield the texts that a page says are printed."""
    page = _GENERATED_PART.sub("", page)
    for block in FENCE.finditer(page):
        if block["info"] in {"", "text"} and not block["marker"] and not _COMMAND.match(block["text"]):
            yield from re.split(r"\s{2,}|\n", block["text"])
    prose = re.sub(r"(?<!\n)\n(?![\n|#-])\s*", " ", FENCE.sub("\n", page))
    for span in re.findall(r"`([^`\n]+)`", prose):
        if " " in span and len(words_of(span)) > 1 and not _COMMAND.match(span) and not _VALUE.match(span):
            yield span
    in_marks = re.findall(r'"([^"\n]+)"', re.sub(r"`[^`\n]*`|<\w+ [^<>]*>", "X", prose))
    yield from (text for text in in_marks if len(words_of(text)) > 1)


@pytest.fixture(scope="module")
def printed() -> PrintedMessages:
    return PrintedMessages()


def read_quotes() -> list[str]:
    return [quote for page in QUOTING for quote in find_quotes(page.read_text("utf-8"))]


def list_wrong_quotes(page: str, printed: PrintedMessages) -> list[str]:
    return [text for text in find_quotes(page) if not printed.has(text) and text not in NOT_PRINTED]


@pytest.mark.parametrize("page", QUOTING, ids=lambda page: page.name)
def test_page_quotes_match_printed_texts(page: Path, printed: PrintedMessages) -> None:
    assert list_wrong_quotes(page.read_text("utf-8"), printed) == []


def test_quote_exceptions_are_quoted() -> None:
    quotes = read_quotes()
    assert len(quotes) > 120
    assert NOT_PRINTED.keys() <= {*quotes}


@pytest.mark.parametrize(
    "text",
    [
        "the plan is has format 2, but this kafkaform reads formats up to 1",
        "the plan is 3 days old; the maximum age is 24 hours old",
        "the lock of the cluster was held by alice",
        "moved away since the plan",
        "a different preferred leader for 1 partition",
        "not as reviewed: Topic/emails.v1 is not in the plan that was reviewed",
        "needs a consent to retention-cut",
    ],
)
def test_quote_of_unprinted_text_is_detected(text: str, printed: PrintedMessages) -> None:
    page = f'It says `{text}`.\n\n```text\n  ! Topic/a    {text}\n```\n\nOr "{text}".\n'
    assert list_wrong_quotes(page, printed) == [text] * 3


def test_quoted_table_headers_match_reports() -> None:
    reports = "".join(path.read_text("utf-8") for path in (ROOT / "kafkaform" / "report").glob("*.py"))
    headers = set(re.findall(r'"([A-Z0-9][A-Z0-9 %/-]+)"', reports))
    headers |= {header.upper() for header in re.findall(r'Column\("([^"]+)"', reports)}
    shown = {quote for quote in read_quotes() if re.fullmatch(r"[A-Z][A-Z0-9 %/-]*[A-Z]", quote)}
    assert shown
    assert shown <= headers


def test_output_blocks_match_printed_output() -> None:
    report = skew_samples.report(skew_samples.failing(skew_samples.hot()))
    printed = render_skew(report, width=110).plain.splitlines()
    blocks = [block.text for block in list_blocks(*QUOTING) if block.marker == "output: skew"]
    assert blocks
    for line in "".join(blocks).splitlines():
        if line != "…":  # lines that the page leaves out
            assert line in printed
            printed = printed[printed.index(line) + 1 :]
