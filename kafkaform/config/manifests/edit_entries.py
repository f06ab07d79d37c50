"""Adding entries to the collections of a YAML document, and cutting them out, in its text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kafkaform.config.manifests.edit_layout import comments, line_break, line_end, line_start

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkaform.config.manifests.edit_layout import Collection, Entry

_REST = re.compile(r"[ \t]*(?:#.*)?")
_FLOW_REST = re.compile(r"[ \t]*(,?)[ \t]*(?:#.*)?")
_LEAD = re.compile(r" *(?:[-?][ \t]+)?")
_AFTER_KEY = re.compile(r"\s*:")


class Uneditable(Exception):  # noqa: N818 - becomes the reason of a refused edit
    """The text is such that a change in place would not be safe; the message says why, for people."""


def splice(text: str, start: int, end: int, new: str) -> str:
    """The text with something else between two positions."""
    return text[:start] + new + text[end:]


def indentation(text: str, entry: Entry) -> int:
    """The column, from 0, in which an entry of a block mapping begins."""
    before = text[line_start(text, entry.start) : entry.start].rstrip(" \t")
    return len(before) - 1 if before.endswith("?") else entry.start - line_start(text, entry.start)


def add_lines(text: str, mapping: Collection, parent: Entry, index: int, lines: Sequence[str]) -> str:
    """Add lines to a block collection, before the entry of an index.

    Before the first entry they stand right below the key of the collection: comments above an entry stay
    with it.
    """
    if index:
        at = mapping.entries[index - 1].end
        end = line_end(text, at)
        _check_rest(text, at, end)
    else:
        at = parent.start
        end = line_end(text, parent.start if parent.key is None else parent.key.end)
        if end >= mapping.entries[0].start:
            raise Uneditable("its fields begin in the line of their key")
    newline = line_break(text, at)
    return splice(text, end, end, "".join(newline + line for line in lines))


def add_piece(text: str, collection: Collection, index: int, piece: str) -> str:
    """Add an entry to a flow collection, before the entry of an index, in a line of its own if others are."""
    entries = collection.entries
    if not entries:
        return splice(text, collection.start + 1, collection.start + 1, piece)
    beside = entries[max(index - 1, 0)]
    indent = text[line_start(text, beside.start) : beside.start]
    own_line = not indent.strip() and collection.start < line_start(text, beside.start)
    if index == 0:
        gap = f",{line_break(text, beside.start)}{indent}" if own_line else ", "
        return splice(text, beside.start, beside.start, piece + gap)
    end = line_end(text, beside.end)
    rest = _FLOW_REST.fullmatch(text, beside.end, end) if own_line else None
    if rest is None or (not rest[1] and index < len(entries)):
        return splice(text, beside.end, beside.end, f", {piece}")
    line = line_break(text, beside.end) + indent + piece
    if rest[1]:
        return splice(text, end, end, line + ",")
    return splice(splice(text, end, end, line), beside.end, beside.end, ",")


def cut(text: str, collection: Collection, index: int) -> str:
    """Take one of several entries out of a collection; its comments stay, in lines of their own."""
    return (_cut_piece if collection.flow else _cut_lines)(text, collection, index)


def supplant(text: str, parent: Entry, collection: Collection, new: str) -> str:
    """Put something short in the place of a whole collection; its comments stay."""
    if collection.flow:
        _check_comments(text, parent, collection.start, collection.end)
        return splice(text, collection.start, collection.end, new)
    for index in reversed(range(len(collection.entries))):
        text = _cut_lines(text, collection, index)
    colon = _AFTER_KEY.match(text, parent.start if parent.key is None else parent.key.end)
    if colon is None:
        raise Uneditable("its key stands in a line of its own")
    return splice(text, colon.end(), colon.end(), f" {new}")


def _cut_piece(text: str, collection: Collection, index: int) -> str:
    entries = collection.entries
    entry = entries[index]
    if index + 1 < len(entries):
        start, end = entry.start, entries[index + 1].start
    else:
        start, end = entries[index - 1].end, entry.end
    _check_comments(text, entry, start, end)
    return splice(text, start, end, "")


def _cut_lines(text: str, collection: Collection, index: int) -> str:
    entry = collection.entries[index]
    start, end = line_start(text, entry.start), line_end(text, entry.end)
    lead = text[start : entry.start]
    if not _LEAD.fullmatch(lead):
        raise Uneditable("something else stands in its line")
    _check_rest(text, entry.end, end)
    newline = line_break(text, entry.end)
    indent = lead[: len(lead) - len(lead.lstrip(" "))]
    left = newline.join(indent + comment for comment in comments(text, entry, start, end))
    if left:
        return splice(text, start, end, left)
    if end < len(text):
        return splice(text, start, end + len(newline), "")
    return text[:start].rstrip("\r\n")  # it ended without a line break, and still does


def _check_rest(text: str, start: int, end: int) -> None:
    if not _REST.fullmatch(text, start, end):
        raise Uneditable("something else stands in its line")


def _check_comments(text: str, entry: Entry, start: int, end: int) -> None:
    if comments(text, entry, start, end):
        raise Uneditable("a comment stands beside it, between brackets")
