"""Changing a value in the text of a YAML document, adding an entry, or cutting one out.

Not a character besides is changed.

The values that stay are never written anew: what is new is spliced into the text at the positions that the
parser tells. Comments, order, quotes and indentation are kept because nobody touches them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from kafkaform.config.manifests.edit_layout import (
    Alias,
    Collection,
    Scalar,
    comments,
    find,
    layout,
    line_break,
    line_end,
    line_start,
    within,
)
from kafkaform.config.manifests.scalars import Style
from kafkaform.core.schema_files import load_schema
from kafkaform.resources import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkaform.config.manifests.edit_layout import CollectionEntry, Steps
    from kafkaform.config.manifests.scalars import Plain

    Spell = Callable[[str | None], Plain]
    """Writes the new value, by how the old one was written; None where there is none."""


_REST = re.compile(r"[ \t]*(?:#.*)?")
_FLOW_REST = re.compile(r"[ \t]*(,?)[ \t]*(?:#.*)?")
_LEAD = re.compile(r" *(?:[-?][ \t]+)?")
_AFTER_KEY = re.compile(r"\s*:")


class Uneditable(Exception):  # noqa: N818 - becomes the reason of a refused edit
    """The text is such that a change in place would not be safe; the message says why, for people."""


def splice(text: str, start: int, end: int, new: str) -> str:
    """The text with something else between two positions."""
    return text[:start] + new + text[end:]


def indentation(text: str, entry: CollectionEntry) -> int:
    """The column, from 0, in which an entry of a block mapping begins."""
    before = text[line_start(text, entry.start) : entry.start].rstrip(" \t")
    return len(before) - 1 if before.endswith("?") else entry.start - line_start(text, entry.start)


def add_lines(
    text: str, mapping: Collection, parent: CollectionEntry, index: int, lines: Sequence[str]
) -> str:
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
            raise Uneditable("its fields begin on the line of their key")
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


def supplant(text: str, parent: CollectionEntry, collection: Collection, new: str) -> str:
    """Put something short in the place of a whole collection; its comments stay."""
    if collection.flow:
        _check_comments(text, parent, collection.start, collection.end)
        return splice(text, collection.start, collection.end, new)
    for index in reversed(range(len(collection.entries))):
        text = _cut_lines(text, collection, index)
    colon = _AFTER_KEY.match(text, parent.start if parent.key is None else parent.key.end)
    if colon is None:
        raise Uneditable("its key is on a separate line")
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
        raise Uneditable("its line contains something else")
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
        raise Uneditable("its line contains something else")


def _check_comments(text: str, entry: CollectionEntry, start: int, end: int) -> None:
    if comments(text, entry, start, end):
        raise Uneditable("there is a comment beside it, inside brackets")


_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_DEPTH = len(("spec", "field"))
"""Above this many keys a mapping that becomes empty stays: a manifest without a spec is none."""

_INLINE = frozenset(short.section for kind in KINDS.values() for short in kind.shorthands.values())
"""Mappings that are written in one line where they are new."""


@dataclass(frozen=True, slots=True)
class _Level:
    """A mapping on the way to a value: where it stands, and which of its entries leads on."""

    mapping: Collection
    parent: CollectionEntry | None
    index: int | None

    @property
    def entry(self) -> CollectionEntry:
        return self.mapping.entries[self.index or 0]


@dataclass(frozen=True, slots=True)
class _Way:
    """The mappings that lead to a value, as far as there are any."""

    text: str
    steps: Steps
    levels: tuple[_Level, ...]
    shared: frozenset[str]
    json: bool
    ranks: Mapping[str, int]

    @property
    def last(self) -> _Level:
        return self.levels[-1]

    @property
    def style(self) -> Style:
        return Style(any(level.mapping.flow for level in self.levels), self.json)

    def check_own(self, node: Scalar | Alias | Collection) -> None:
        """Refuse what other places share: a change would be one of theirs too."""
        if not isinstance(node, Alias) and node.anchor in self.shared:
            raise Uneditable(f"its value is shared by the anchor &{node.anchor}: write out the values first")


def put(text: str, steps: Steps, spell: Spell) -> str:
    """Set a value, making the mappings around it where they are missing.

    Raises:
        Uneditable: That cannot be done without touching what is not meant.
    """
    way = _way(text, steps)
    if way.last.index is None:
        return _added(way, spell)
    entry = way.last.entry
    way.check_own(entry.value)
    match entry.value:
        case Scalar() as old:
            said = None if not old.style and old.value in _NULL else old.value
            new = way.style.scalar(spell(said), old)
            return (
                _filled(text, entry, new) if old.start == old.end else splice(text, old.start, old.end, new)
            )
        case Alias() as old:
            return splice(text, old.start, old.end, way.style.scalar(spell(None)))
        case Collection() as old:
            return _listed(way, old, spell)


def nest(text: str, steps: Steps, kept: str | None, name: str, spell: Spell) -> str:
    """Turn a scalar into a mapping, in which it has the key `kept` (None: it goes) beside the new value.

    Raises:
        Uneditable: It has a form that does not fit into one line.
    """
    way = _way(text, steps)
    old = way.last.entry.value
    if isinstance(old, Collection) or (isinstance(old, Scalar) and old.style in {"|", ">"}):
        raise Uneditable("it spans several lines")
    way.check_own(old)
    style = Style(flow=True, json=way.json)
    parts = [] if kept is None else [f"{style.scalar(kept)}: {text[old.start : old.end]}"]
    parts.append(f"{style.scalar(name)}: {style.scalar(spell(None))}")
    return splice(text, old.start, old.end, "{" + ", ".join(parts) + "}")


def drop(text: str, steps: Steps) -> str:
    """Take a value out, and the mappings below `spec` that would be left empty; comments stay.

    Raises:
        Uneditable: That cannot be done without touching what is not meant.
    """
    way = _way(text, steps)
    depth = len(steps)
    while depth > _DEPTH and len(way.levels[depth - 1].mapping.entries) == 1:
        depth -= 1
    level = way.levels[depth - 1]
    for node in within(level.entry.value):
        way.check_own(node)
    if len(level.mapping.entries) == 1 and level.parent is not None:
        return supplant(text, level.parent, level.mapping, "{}")
    return cut(text, level.mapping, level.index or 0)


def _way(text: str, steps: Steps) -> _Way:
    root = layout(text)
    nodes = list(within(root)) if root is not None else []
    shared = frozenset(node.anchor for node in nodes if isinstance(node, Alias))
    levels: list[_Level] = []
    node, parent = root, None
    for step in steps:
        if isinstance(node, Alias):
            raise Uneditable(f"{_name(parent)} is the alias *{node.anchor}: write out its values first")
        if not isinstance(node, Collection):
            raise Uneditable(f"{_name(parent)} is not a mapping")
        if node.anchor in shared:
            raise Uneditable(
                f"{_name(parent)} is shared by the anchor &{node.anchor}: write out its values first"
            )
        index = next((i for i, entry in enumerate(node.entries) if entry.name == step), None)
        levels.append(_Level(node, parent, index))
        if index is None:
            break
        parent = node.entries[index]
        node = parent.value
    json = (
        isinstance(root, Collection)
        and root.flow
        and any(isinstance(entry.key, Scalar) and entry.key.style == '"' for entry in root.entries)
    )
    kind = find(root, ("kind",))
    ranks = _ranks(kind.value) if isinstance(kind, Scalar) and kind.value in KINDS else {}
    return _Way(text, steps, tuple(levels), shared, json, ranks)


def _name(entry: CollectionEntry | None) -> str:
    return (entry.name if entry is not None else None) or "the document"


def _filled(text: str, entry: CollectionEntry, new: str) -> str:
    """Put a value where a key has none."""
    at = entry.value.start
    key_end = entry.start if entry.key is None else entry.key.end
    if ":" not in text[key_end:at]:
        return splice(text, key_end, key_end, f": {new}")
    return splice(text, at, at, new if text[at - 1].isspace() else f" {new}")


def _listed(way: _Way, old: Collection, spell: Spell) -> str:
    """A list, changed element by element: those that stay are not touched."""
    new = spell(None)
    if not isinstance(new, str):
        return supplant(way.text, way.last.entry, old, way.style.scalar(new))
    wanted = new.split(",")
    spare, missing = [], list(wanted)
    for index, item in enumerate(old.entries):
        if not isinstance(item.value, Scalar):
            raise Uneditable("its list contains more than plain values")
        if item.value.value in missing:
            missing.remove(item.value.value)
        else:
            spare.append(index)
    style = Style(old.flow or way.style.flow, way.json)
    if not spare and not missing:
        return way.text
    if spare and missing:
        replaced = old.entries[spare[0]].value
        like = replaced if isinstance(replaced, Scalar) else None
        text = splice(way.text, replaced.start, replaced.end, style.scalar(missing[0], like))
    elif spare:
        text = cut(way.text, old, spare[0])
    else:
        text = _lengthened(way, old, style.scalar(missing[0]))
    return put(text, way.steps, spell)


def _lengthened(way: _Way, old: Collection, element: str) -> str:
    if old.flow:
        return add_piece(way.text, old, len(old.entries), element)
    last = old.entries[-1]
    lead = way.text[line_start(way.text, last.start) : last.start]
    if lead.strip(" ") != "-":
        raise Uneditable("its list does not have one item per line")
    return add_lines(way.text, old, way.last.entry, len(old.entries), [lead + element])


def _added(way: _Way, spell: Spell) -> str:
    """The text with an entry more, and in it the mappings that lead to the value."""
    level = way.last
    rest = way.steps[len(way.levels) - 1 :]
    index = _index(level.mapping, rest[0], way.ranks)
    if level.mapping.flow:
        style = Style(flow=True, json=way.json)
        return add_piece(way.text, level.mapping, index, _inline(rest, spell, style))
    if level.parent is None:
        raise Uneditable("the manifest has no spec")
    indent = indentation(way.text, level.mapping.entries[0])
    step = indent - indentation(way.text, level.parent)
    beside = [entry.value for entry in level.mapping.entries if isinstance(entry.value, Collection)]
    inline = len(way.levels) > _DEPTH and bool(beside) and all(node.flow for node in beside)
    lines = _block(rest, spell, indent, step, inline=inline)
    return add_lines(way.text, level.mapping, level.parent, index, lines)


def _index(mapping: Collection, name: str, ranks: Mapping[str, int]) -> int:
    """Where a new key belongs: by the order of the documentation or of names, if the others follow it."""

    def rank(key: str) -> tuple[int, str]:
        return ranks.get(key, len(ranks)), key

    present = [rank(entry.name or "") for entry in mapping.entries]
    if name not in ranks and present != sorted(present):
        return len(present)
    return max((index + 1 for index, other in enumerate(present) if other < rank(name)), default=0)


@cache
def _ranks(kind: str) -> Mapping[str, int]:
    """The order of the keys of a kind's spec, as its schema documents them; then those of its shorthands."""
    fields = load_schema(KINDS[kind].schema)["$defs"]["spec"]["properties"]
    keys = (*fields, *(shorthand.field for shorthand in KINDS[kind].shorthands.values()))
    return {key: rank for rank, key in enumerate(keys)}


def _block(rest: Sequence[str], spell: Spell, indent: int, step: int, *, inline: bool) -> list[str]:
    style = Style()
    lead = " " * indent + style.scalar(rest[0]) + ":"
    if len(rest) == 1:
        return [f"{lead} {style.scalar(spell(None))}"]
    if inline or rest[0] in _INLINE:
        return [f"{lead} {{{_inline(rest[1:], spell, Style(flow=True))}}}"]
    return [lead, *_block(rest[1:], spell, indent + step, step, inline=False)]


def _inline(rest: Sequence[str], spell: Spell, style: Style) -> str:
    if len(rest) == 1:
        return f"{style.scalar(rest[0])}: {style.scalar(spell(None))}"
    return f"{style.scalar(rest[0])}: {{{_inline(rest[1:], spell, style)}}}"
