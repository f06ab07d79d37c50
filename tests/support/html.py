"""Pages of HTML as trees."""

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "br"}
DRAWN = {"line", "rect", "path", "circle"}
TAGS = VOID | DRAWN | {
    "html", "head", "title", "style", "body", "header", "main", "footer", "section", "h1", "h2",
    "p", "b", "i", "a", "code", "span", "div", "ul", "li", "figure", "figcaption",
    "svg", "g", "text", "table", "thead", "tbody", "tr", "th", "td", "details", "summary",
}  # fmt: skip
ATTRIBUTES = {
    "aria-hidden", "aria-label", "charset", "class", "colspan", "content", "href", "http-equiv", "id",
    "lang", "name", "role", "scope", "tabindex",
    "cx", "cy", "d", "dy", "height", "preserveaspectratio", "r", "transform", "viewbox", "width", "x", "x1",
    "x2", "y", "y1", "y2",
}  # fmt: skip


@dataclass
class Element:
    """An element with what is in it."""

    tag: str
    attributes: dict[str, str]
    children: list["Element | str"] = field(default_factory=list)

    def all(self, *tags: str) -> list["Element"]:
        inner = [item for item in self.children if isinstance(item, Element)]
        return [found for item in inner for found in ([item] if item.tag in tags else []) + item.all(*tags)]

    @property
    def text(self) -> str:
        parts = (item if isinstance(item, str) else item.text for item in self.children)
        return re.sub(r"\s+", " ", "".join(parts)).strip()


class Reader(HTMLParser):
    """A tree of a page whose every element is closed where it must be."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Element("", {})
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs)
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in DRAWN
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop().tag == tag

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def parse_html(html: str) -> Element:
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == [reader.root]
    return reader.root
