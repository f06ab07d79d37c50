"""Markdown as GitHub and other readers render it."""

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

import cmarkgfm
from cmarkgfm.cmark import Options
from markdown_it import MarkdownIt
from markdown_it.token import Token

from kafkaform.core.printable import clipped

GITHUB = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
OUR_TAGS = {"h2", "h3", "h4", "p", "pre", "ul", "li", "/ul", "/li", "details", "summary", "/details"}
OUR_TAGS |= {"table", "tr", "th", "td", "/table"}
# What GitHub makes of plain text after the Markdown is parsed.
REFERENCES = re.compile(
    r"@\w|#[0-9]|\bGH-[0-9]|://|www\.|:[a-z_]+:|\$|\b(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}\b|\b[0-9]{7,40}\b",
    re.IGNORECASE,
)


FENCE = re.compile(
    r"^(?:<!-- (?P<marker>[^>\n]*) -->\n)?```(?P<info>[^\n]*)\n(?P<text>.*?)^```", re.MULTILINE | re.DOTALL
)


class Block(NamedTuple):
    """A fenced block of a page; `marker` is what an HTML comment before it says."""

    page: str
    line: int
    marker: str
    info: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def list_blocks(*pages: Path) -> list[Block]:
    texts = [(page.name, page.read_text("utf-8")) for page in pages]
    return [
        Block(
            name, text.count("\n", 0, found.start()) + 1, found["marker"] or "", found["info"], found["text"]
        )
        for name, text in texts
        for found in FENCE.finditer(text)
    ]


class Outline(HTMLParser):
    """The block elements of a page, and whatever else is not plain text, code or strong."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self._depth = 0
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002
        self._depth += tag == "li"
        # Items of loose lists are paragraphs.
        if tag not in {"code", "strong", "thead", "tbody"} and not (tag == "p" and self._depth):
            self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        self._depth -= tag == "li"
        if tag in {"li", "ul", "table", "details"}:
            self.tags.append(f"/{tag}")


def read_as_github(markdown: str) -> list[str]:
    options = Options.CMARK_OPT_UNSAFE | Options.CMARK_OPT_FOOTNOTES
    return Outline(cmarkgfm.github_flavored_markdown_to_html(markdown, options)).tags


@dataclass
class Parsed:
    """The elements that Markdown parsers find in a report; `foreign` are those that no report needs."""

    headings: list[str] = field(default_factory=list)
    rows: list[list[list[Token]]] = field(default_factory=list)
    html: list[str] = field(default_factory=list)
    fences: list[str] = field(default_factory=list)
    spans: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    types: set[str] = field(default_factory=set)
    foreign: set[str] = field(default_factory=set)


def parse_markdown(markdown: str, parser: MarkdownIt = GITHUB) -> Parsed:
    found = Parsed(foreign={*read_as_github(markdown)} - OUR_TAGS)
    last = ""
    for token in parser.parse(markdown):
        found.types.add(token.type)
        if token.type == "tr_open":
            found.rows.append([])
        elif token.type == "html_block":
            found.html.append(token.content)
        elif token.type == "fence":
            found.fences.append(token.content)
        elif token.type == "inline":
            children = token.children or []
            found.types.update(child.type for child in children)
            found.spans += [child.content for child in children if child.type == "code_inline"]
            found.texts += [child.content for child in children if child.type == "text"]
            if last == "heading_open":
                found.headings.append(token.content)
            elif last in ("th_open", "td_open"):
                found.rows[-1].append(children)
        last = token.type
    return found


def show_in_code(text: str) -> str:
    """Return a text as a report has it between backticks."""
    shown = clipped(text, 200)
    return shown if shown.strip() else f'"{shown}"'
