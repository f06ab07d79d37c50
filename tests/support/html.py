"""Pages of HTML as trees."""

import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Element:
    """An element with what is in it."""

    node: ET.Element

    @property
    def tag(self) -> str:
        return self.node.tag

    @property
    def attributes(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self.node.items()}

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", "".join(self.node.itertext())).strip()

    def all(self, *tags: str) -> list["Element"]:
        return [Element(node) for node in self.node.iter() if node.tag in tags and node is not self.node]


def parse_html(html: str) -> Element:
    """Return a page whose every element is closed where it must be: but for void ones, it is XML."""
    assert {*re.findall(r"<(\w+)[^<>]*/>", html)} <= DRAWN
    closed = re.sub(rf"<({'|'.join(VOID)})\b([^<>]*)>", r"<\1\2/>", html)
    content = re.sub("<!doctype html>", "", closed, flags=re.IGNORECASE)
    return Element(ET.fromstring(f"<page>{content}</page>"))
