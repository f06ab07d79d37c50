"""The layout of a YAML document: the position of every node in characters, for editing in place.

Positions are those of libyaml, which also parses the manifests. Unlike in `yaml12`, an alias is a node with
its own position.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

import yaml

from kafkaform.core.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Steps: TypeAlias = "tuple[str, ...]"
"""The keys from the root of a document to a value."""

# libyaml ends lines at the breaks of YAML 1.1, of which YAML 1.2 kept only CR and LF: its positions must be
# followed.
_BREAKS = "\r\n\x85\u2028\u2029"
_BREAK = re.compile(f"\r\n|[{_BREAKS}]")
_ANCHOR = re.compile(r"&\S+\s*")
_COMMENT = re.compile(rf"(?<!\S)#[^{_BREAKS}]*")


class Scalar(Value):
    """A scalar; `style` is its quote, `|`, `>`, or empty if it is plain."""

    start: int
    end: int
    value: str
    style: str
    anchor: str | None = None


class Alias(Value):
    """An alias `*anchor`."""

    start: int
    end: int
    anchor: str


class Collection(Value):
    """A mapping, or a list, whose entries have no keys; a flow collection includes its brackets."""

    start: int
    end: int
    flow: bool
    entries: tuple[CollectionEntry, ...]
    anchor: str | None = None


Node: TypeAlias = Scalar | Alias | Collection


class CollectionEntry(Value):
    """An entry of a mapping or a list."""

    key: Node | None
    value: Node

    @property
    def start(self) -> int:
        """The start of the key or value, after the dash of a list or the `?` of a key."""
        return self.value.start if self.key is None else self.key.start

    @property
    def end(self) -> int:
        """The end, without comments."""
        return self.value.end if self.key is None else max(self.key.end, self.value.end)

    @property
    def name(self) -> str | None:
        """The key, if it is a scalar."""
        return self.key.value if isinstance(self.key, Scalar) else None


def parse_layout(text: str) -> Node | None:
    """Parse the layout of a text of one document that the loader has accepted; None if it is empty."""
    events = yaml.parse(text, Loader=yaml.CBaseLoader)
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent):
            return _build_node(next(events), events, text)
    return None


def split_documents(text: str) -> list[str]:
    """Split a text that the loader has accepted into its documents; joined, they are the text."""
    starts = [
        _get_start(event)
        for event in yaml.parse(text, Loader=yaml.CBaseLoader)
        if isinstance(event, yaml.DocumentStartEvent)
    ]
    bounds = [0, *starts[1:], len(text)]
    return [text[start:end] for start, end in pairwise(bounds)]


def find_entry(node: Node | None, name: str) -> CollectionEntry | None:
    """Return the entry of a mapping with this key."""
    if not isinstance(node, Collection):
        return None
    return next((below for below in node.entries if below.name == name), None)


def find_node(node: Node | None, steps: Sequence[str]) -> Node | None:
    """Return the value at a path; None if there is none."""
    for step in steps:
        entry = find_entry(node, step)
        if entry is None:
            return None
        node = entry.value
    return node


def walk_nodes(node: Node) -> Iterator[Node]:
    """Yield a node and every node below it, including keys, in the order of the text."""
    yield node
    if isinstance(node, Collection):
        for below in node.entries:
            if below.key is not None:
                yield from walk_nodes(below.key)
            yield from walk_nodes(below.value)


def find_comments(text: str, node: CollectionEntry, start: int, end: int) -> list[str]:
    """Return the comments between two positions that enclose just one entry."""
    leaves = [
        leaf
        for part in (node.key, node.value)
        if part is not None
        for leaf in walk_nodes(part)
        if not isinstance(leaf, Collection)
    ]
    comments = []
    # A `#` inside a scalar is no comment: only the text between scalars is searched.
    for leaf in leaves:
        comments += _COMMENT.findall(text, start, min(leaf.start, end))
        start = max(start, leaf.end)
    return [*comments, *_COMMENT.findall(text, start, end)]


def find_line_start(text: str, at: int) -> int:
    """Return the start of the line at a position."""
    while at > 0 and text[at - 1] not in _BREAKS:
        at -= 1
    return at


def find_line_end(text: str, at: int) -> int:
    """Return the end of the line at a position, before its line break."""
    line_break = _BREAK.search(text, at)
    return line_break.start() if line_break else len(text)


def find_line_break(text: str, at: int) -> str:
    """Return the line break after the line at a position, or that of other lines if it has none."""
    line_break = _BREAK.search(text, at) or _BREAK.search(text)
    return line_break[0] if line_break else "\n"


def _get_start(event: yaml.Event) -> int:
    return int(event.start_mark.index)  # type: ignore[union-attr]  # only events that a program builds have no mark


def _get_end(event: yaml.Event) -> int:
    return int(event.end_mark.index)  # type: ignore[union-attr]


def _build_node(event: yaml.Event, events: Iterator[yaml.Event], text: str) -> Node:
    start, end = _get_start(event), _get_end(event)
    if isinstance(event, yaml.AliasEvent):
        return Alias(start, end, str(event.anchor))
    anchor: str | None = event.anchor if isinstance(event, yaml.NodeEvent) else None
    # libyaml's node begins with its anchor, which an edit of the value must keep.
    if anchor is not None and (before := _ANCHOR.match(text, start)):
        start = min(before.end(), end) if isinstance(event, yaml.ScalarEvent) else before.end()
    if isinstance(event, yaml.ScalarEvent):
        style = event.style or ""
        if style in {"|", ">"}:  # libyaml's end is after the empty lines that follow
            end = start + len(text[start:end].rstrip())
        return Scalar(start, end, event.value, style, anchor)
    # libyaml ends a block collection at the next token, behind comments and empty lines: its last entry has
    # the real end.
    entries, last = _build_entries(event, events, text)
    flow = bool(event.flow_style)  # type: ignore[attr-defined]  # a collection starts here
    return Collection(start, last if flow else entries[-1].end, flow, tuple(entries), anchor)


def _build_entries(
    event: yaml.Event, events: Iterator[yaml.Event], text: str
) -> tuple[list[CollectionEntry], int]:
    """Return the entries of a collection, and the position of its end."""
    mapping = isinstance(event, yaml.MappingStartEvent)
    entries = []
    while not isinstance(below := next(events), yaml.CollectionEndEvent):
        first = _build_node(below, events, text)
        entries.append(
            CollectionEntry(first, _build_node(next(events), events, text))
            if mapping
            else CollectionEntry(None, first)
        )
    return entries, _get_end(below)
