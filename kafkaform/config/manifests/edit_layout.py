"""Where everything in a YAML document stands, to the character: what editing in place needs.

Positions are those of libyaml, which reads the manifests too. Unlike the nodes of `yaml12`, an alias is a
node of its own here, with its own place.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Steps: TypeAlias = "tuple[str, ...]"
"""The keys that lead from the top of a document to a value."""

_BREAKS = "\r\n\x85\u2028\u2029"
_BREAK = re.compile(f"\r\n|[{_BREAKS}]")
_ANCHOR = re.compile(r"&\S+\s*")
_COMMENT = re.compile(rf"(?<!\S)#[^{_BREAKS}]*")


@dataclass(frozen=True, slots=True)
class Scalar:
    """A scalar; `style` is its quote, `|` or `>`, or empty."""

    start: int
    end: int
    value: str
    style: str
    anchor: str | None = None


@dataclass(frozen=True, slots=True)
class Alias:
    """An alias `*anchor`."""

    start: int
    end: int
    anchor: str


@dataclass(frozen=True, slots=True)
class Collection:
    """A mapping, or a list, whose entries have no key; in flow it starts and ends with its brackets."""

    start: int
    end: int
    flow: bool
    entries: tuple[CollectionEntry, ...]
    anchor: str | None = None


Node: TypeAlias = Scalar | Alias | Collection


@dataclass(frozen=True, slots=True)
class CollectionEntry:
    """One entry of a collection."""

    key: Node | None
    value: Node

    @property
    def start(self) -> int:
        """Where it begins; the dash of a list or the `?` of a key stands before."""
        return self.value.start if self.key is None else self.key.start

    @property
    def end(self) -> int:
        """Where it ends, comments left out."""
        return self.value.end if self.key is None else max(self.key.end, self.value.end)

    @property
    def name(self) -> str | None:
        """Its key, if that is a plain text."""
        return self.key.value if isinstance(self.key, Scalar) else None


def layout(text: str) -> Node | None:
    """The layout of the one document in a text that the loader has accepted; None if it is empty."""
    events = yaml.parse(text, Loader=yaml.CBaseLoader)
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent):
            return _node(next(events), events, text)
    return None


def documents(text: str) -> list[str]:
    """The documents of a text that the loader has accepted, which together are the text."""
    starts = [
        _start(event)
        for event in yaml.parse(text, Loader=yaml.CBaseLoader)
        if isinstance(event, yaml.DocumentStartEvent)
    ]
    bounds = [0, *starts[1:], len(text)]
    return [text[start:end] for start, end in pairwise(bounds)]


def entry(node: Node | None, name: str) -> CollectionEntry | None:
    """The entry of a mapping by its key."""
    if not isinstance(node, Collection):
        return None
    return next((below for below in node.entries if below.name == name), None)


def find(node: Node | None, steps: Sequence[str]) -> Node | None:
    """The value at some steps; None where there is none."""
    for step in steps:
        found = entry(node, step)
        if found is None:
            return None
        node = found.value
    return node


def within(node: Node) -> Iterator[Node]:
    """A node, and every node below it, keys too, in the order of the text."""
    yield node
    if isinstance(node, Collection):
        for below in node.entries:
            if below.key is not None:
                yield from within(below.key)
            yield from within(below.value)


def comments(text: str, node: CollectionEntry, start: int, end: int) -> list[str]:
    """The comments between two positions, between which there is just one entry."""
    leaves = [
        leaf
        for part in (node.key, node.value)
        if part is not None
        for leaf in within(part)
        if not isinstance(leaf, Collection)
    ]
    found = []
    for leaf in leaves:
        found += _COMMENT.findall(text, start, min(leaf.start, end))
        start = max(start, leaf.end)
    return [*found, *_COMMENT.findall(text, start, end)]


def line_start(text: str, at: int) -> int:
    """Where the line of a position begins."""
    while at > 0 and text[at - 1] not in _BREAKS:
        at -= 1
    return at


def line_end(text: str, at: int) -> int:
    """Where the line of a position ends, before its break."""
    found = _BREAK.search(text, at)
    return found.start() if found else len(text)


def line_break(text: str, at: int) -> str:
    """The line break that ends the line of a position, or what the text ends lines with otherwise."""
    found = _BREAK.search(text, at) or _BREAK.search(text)
    return found[0] if found else "\n"


def _start(event: yaml.Event) -> int:
    return int(event.start_mark.index)  # type: ignore[union-attr]  # only what a program builds has none


def _end(event: yaml.Event) -> int:
    return int(event.end_mark.index)  # type: ignore[union-attr]


def _node(event: yaml.Event, events: Iterator[yaml.Event], text: str) -> Node:
    start, end = _start(event), _end(event)
    if isinstance(event, yaml.AliasEvent):
        return Alias(start, end, str(event.anchor))
    anchor: str | None = event.anchor if isinstance(event, yaml.NodeEvent) else None
    if anchor is not None and (before := _ANCHOR.match(text, start)):
        start = min(before.end(), end) if isinstance(event, yaml.ScalarEvent) else before.end()
    if isinstance(event, yaml.ScalarEvent):
        style = event.style or ""
        if style in {"|", ">"}:  # its end is behind the empty lines that follow
            end = start + len(text[start:end].rstrip())
        return Scalar(start, end, event.value, style, anchor)
    entries, last = _entries(event, events, text)
    flow = bool(event.flow_style)  # type: ignore[attr-defined]  # a collection starts here
    return Collection(start, last if flow else entries[-1].end, flow, tuple(entries), anchor)


def _entries(event: yaml.Event, events: Iterator[yaml.Event], text: str) -> tuple[list[CollectionEntry], int]:
    """The entries of a collection, and where it ends."""
    mapping = isinstance(event, yaml.MappingStartEvent)
    entries = []
    while not isinstance(below := next(events), yaml.CollectionEndEvent):
        first = _node(below, events, text)
        entries.append(
            CollectionEntry(first, _node(next(events), events, text))
            if mapping
            else CollectionEntry(None, first)
        )
    return entries, _end(below)
