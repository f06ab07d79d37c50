"""Edits of the text of a YAML document: change a value, add an entry, or remove one.

New text is spliced in at the positions of the parser, and nothing else is rewritten. So comments, order,
quotes and indentation are kept.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from kafkaform.config.manifests.edit_layout import (
    Alias,
    Collection,
    Scalar,
    find_comments,
    find_line_break,
    find_line_end,
    find_line_start,
    find_node,
    parse_layout,
    walk_nodes,
)
from kafkaform.config.manifests.scalars import Style
from kafkaform.core.schema_files import load_schema
from kafkaform.core.values import Value
from kafkaform.resources import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkaform.config.manifests.edit_layout import CollectionEntry, Steps
    from kafkaform.config.manifests.scalars import Plain

    Formatter = Callable[[str | None], Plain | Sequence[Mapping[str, object]]]
    """Formats the new value like the old one, whose text it gets; None if there is none."""
    ScalarFormatter = Callable[[str | None], Plain]
    """Formats a value that is no list."""


_LINE_REMAINDER = re.compile(r"[ \t]*(?:#.*)?")
_FLOW_LINE_REMAINDER = re.compile(r"[ \t]*(,?)[ \t]*(?:#.*)?")
_LEAD = re.compile(r" *(?:[-?][ \t]+)?")
_AFTER_KEY = re.compile(r"\s*:")


class Uneditable(Exception):  # noqa: N818 - becomes the reason of a refused edit
    """The text cannot be edited safely in place; the message is the reason, for users."""


def splice(text: str, start: int, end: int, new: str) -> str:
    """Replace the text between two positions."""
    return text[:start] + new + text[end:]


def measure_indentation(text: str, entry: CollectionEntry) -> int:
    """Return the column, from 0, of an entry of a block mapping."""
    before = text[find_line_start(text, entry.start) : entry.start].rstrip(" \t")
    return len(before) - 1 if before.endswith("?") else entry.start - find_line_start(text, entry.start)


def add_lines(
    text: str, mapping: Collection, parent: CollectionEntry, index: int, lines: Sequence[str]
) -> str:
    """Add lines to a block collection, before the entry at an index.

    Lines before the first entry are added right below the key of the collection, so that comments above the
    entry stay with it.
    """
    if index:
        at = mapping.entries[index - 1].end
        end = find_line_end(text, at)
        _check_line_remainder(text, at, end)
    else:
        at = parent.start
        end = find_line_end(text, parent.start if parent.key is None else parent.key.end)
        if end >= mapping.entries[0].start:
            raise Uneditable("its fields begin on the line of their key")
    newline = find_line_break(text, at)
    return splice(text, end, end, "".join(newline + line for line in lines))


def add_flow_entry(text: str, collection: Collection, index: int, piece: str) -> str:
    """Add an entry to a flow collection, before the one at an index, on its own line if the others are."""
    entries = collection.entries
    if not entries:
        return splice(text, collection.start + 1, collection.start + 1, piece)
    neighbour = entries[max(index - 1, 0)]
    indent = text[find_line_start(text, neighbour.start) : neighbour.start]
    own_line = not indent.strip() and collection.start < find_line_start(text, neighbour.start)
    if index == 0:
        gap = f",{find_line_break(text, neighbour.start)}{indent}" if own_line else ", "
        return splice(text, neighbour.start, neighbour.start, piece + gap)
    end = find_line_end(text, neighbour.end)
    # A comma and a comment at the end of the line stay with the neighbour.
    comma = _FLOW_LINE_REMAINDER.fullmatch(text, neighbour.end, end) if own_line else None
    if comma is None or (not comma[1] and index < len(entries)):
        return splice(text, neighbour.end, neighbour.end, f", {piece}")
    line = find_line_break(text, neighbour.end) + indent + piece
    if comma[1]:
        return splice(text, end, end, line + ",")
    return splice(splice(text, end, end, line), neighbour.end, neighbour.end, ",")


def cut_entry(text: str, collection: Collection, index: int) -> str:
    """Remove one of several entries of a collection; its comments stay on their own lines."""
    return (_cut_flow_entry if collection.flow else _cut_lines)(text, collection, index)


def replace_collection(text: str, parent: CollectionEntry, collection: Collection, new: str) -> str:
    """Replace a whole collection by a short text; its comments stay."""
    if collection.flow:
        _check_comments(text, parent, collection.start, collection.end)
        return splice(text, collection.start, collection.end, new)
    # From the end, so that the positions of the earlier entries stay valid.
    for index in reversed(range(len(collection.entries))):
        text = _cut_lines(text, collection, index)
    colon = _AFTER_KEY.match(text, parent.start if parent.key is None else parent.key.end)
    if colon is None:
        raise Uneditable("its key is on a separate line")
    return splice(text, colon.end(), colon.end(), f" {new}")


def _cut_flow_entry(text: str, collection: Collection, index: int) -> str:
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
    start, end = find_line_start(text, entry.start), find_line_end(text, entry.end)
    lead = text[start : entry.start]
    if not _LEAD.fullmatch(lead):
        raise Uneditable("its line contains something else")
    _check_line_remainder(text, entry.end, end)
    newline = find_line_break(text, entry.end)
    indent = lead[: len(lead) - len(lead.lstrip(" "))]
    comments = newline.join(indent + comment for comment in find_comments(text, entry, start, end))
    if comments:
        return splice(text, start, end, comments)
    if end < len(text):
        return splice(text, start, end + len(newline), "")
    return text[:start].rstrip("\r\n")  # the text had no line break at its end, and still has none


def _check_line_remainder(text: str, start: int, end: int) -> None:
    if not _LINE_REMAINDER.fullmatch(text, start, end):
        raise Uneditable("its line contains something else")


def _check_comments(text: str, entry: CollectionEntry, start: int, end: int) -> None:
    if find_comments(text, entry, start, end):
        raise Uneditable("there is a comment next to it inside brackets")


_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_DEPTH = len(("spec", "field"))
"""Mappings at this depth or above are kept when they become empty: a manifest needs its spec."""

_INLINE = frozenset(short.section for kind in KINDS.values() for short in kind.format.shorthands.values())
"""New mappings that are written on one line."""


class _Level(Value):
    """A mapping on the path to a value, with its parent and the index of the next entry of the path."""

    mapping: Collection
    parent: CollectionEntry | None
    index: int | None

    @property
    def entry(self) -> CollectionEntry:
        return self.mapping.entries[self.index or 0]


class _ValuePath(Value):
    """The existing mappings on the path to a value."""

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
        """Refuse a node that aliases share: a change would affect them too."""
        if not isinstance(node, Alias) and node.anchor in self.shared:
            raise Uneditable(f"its value is shared by the anchor &{node.anchor}: write out the values first")


def put_value(text: str, steps: Steps, format_scalar: ScalarFormatter) -> str:
    """Set a value, and create the mappings around it if they are missing.

    Raises:
        Uneditable: Other values would be affected.
    """
    path = _find_value(text, steps)
    if path.last.index is None:
        return _add_entry(path, format_scalar)
    entry = path.last.entry
    path.check_own(entry.value)
    match entry.value:
        case Scalar() as old:
            # Quoted, `null` is a text.
            current = None if not old.style and old.value in _NULL else old.value
            new = path.style.render_scalar(format_scalar(current), old)
            return (
                _fill_empty_value(text, entry, new)
                if old.start == old.end
                else splice(text, old.start, old.end, new)
            )
        case Alias() as old:
            return splice(text, old.start, old.end, path.style.render_scalar(format_scalar(None)))
        case Collection() as old:
            return _edit_list(path, old, format_scalar)


def add_list(text: str, steps: Steps, items: Sequence[Mapping[str, object]]) -> str:
    """Add a list that does not exist.

    Raises:
        Uneditable: Other values would be affected.
    """
    return _add_entry(_find_value(text, steps), lambda _: items)


def put_item(text: str, steps: Steps, item: Mapping[str, object]) -> str:
    """Add an item at the end of a list, and create the list if it is missing.

    Raises:
        Uneditable: Other values would be affected.
    """
    path = _find_value(text, steps)
    if path.last.index is None:
        return add_list(text, steps, [item])
    return _append_item(path, _get_list(path), path.style.render_inline(item))


def drop_item(text: str, steps: Steps, index: int) -> str:
    """Remove an item of a list, and the list if it becomes empty; comments stay.

    Raises:
        Uneditable: Other values would be affected.
    """
    path = _find_value(text, steps)
    items = _get_list(path)
    for node in walk_nodes(items.entries[index].value):
        path.check_own(node)
    return drop_value(text, steps) if len(items.entries) == 1 else cut_entry(text, items, index)


def _get_list(path: _ValuePath) -> Collection:
    """Return the list at the end of a path."""
    items = path.last.entry.value
    if not isinstance(items, Collection):
        raise Uneditable("its list is an alias: write out the values first")
    path.check_own(items)
    return items


def nest_value(text: str, steps: Steps, kept: str | None, name: str, format_scalar: ScalarFormatter) -> str:
    """Replace a scalar by a mapping of the new value and, under the key `kept`, the scalar (None drops it).

    Raises:
        Uneditable: The scalar spans several lines.
    """
    path = _find_value(text, steps)
    old = path.last.entry.value
    if isinstance(old, Collection) or (isinstance(old, Scalar) and old.style in {"|", ">"}):
        raise Uneditable("it spans several lines")
    path.check_own(old)
    style = Style(flow=True, json=path.json)
    parts = [] if kept is None else [f"{style.render_scalar(kept)}: {text[old.start : old.end]}"]
    parts.append(f"{style.render_scalar(name)}: {style.render_scalar(format_scalar(None))}")
    return splice(text, old.start, old.end, "{" + ", ".join(parts) + "}")


def drop_value(text: str, steps: Steps) -> str:
    """Remove a value, and the mappings below `spec` that become empty; comments stay.

    Raises:
        Uneditable: Other values would be affected.
    """
    path = _find_value(text, steps)
    depth = len(steps)
    while depth > _DEPTH and len(path.levels[depth - 1].mapping.entries) == 1:
        depth -= 1
    level = path.levels[depth - 1]
    for node in walk_nodes(level.entry.value):
        path.check_own(node)
    if len(level.mapping.entries) == 1 and level.parent is not None:
        return replace_collection(text, level.parent, level.mapping, "{}")
    return cut_entry(text, level.mapping, level.index or 0)


def _find_value(text: str, steps: Steps) -> _ValuePath:
    root = parse_layout(text)
    nodes = list(walk_nodes(root)) if root is not None else []
    # Only anchors that an alias refers to: an unused anchor shares nothing.
    shared = frozenset(node.anchor for node in nodes if isinstance(node, Alias))
    levels: list[_Level] = []
    node, parent = root, None
    for step in steps:
        if isinstance(node, Alias):
            raise Uneditable(
                f"{_describe_entry(parent)} is the alias *{node.anchor}: write out its values first"
            )
        if not isinstance(node, Collection):
            raise Uneditable(f"{_describe_entry(parent)} is not a mapping")
        # A change below a shared anchor would also change every place that refers to it.
        if node.anchor in shared:
            name = _describe_entry(parent)
            raise Uneditable(f"{name} is shared by the anchor &{node.anchor}: write out its values first")
        index = next((i for i, entry in enumerate(node.entries) if entry.name == step), None)
        levels.append(_Level(node, parent, index))
        if index is None:
            break
        parent = node.entries[index]
        node = parent.value
    # JSON is YAML, too: what is added to a JSON file must keep it JSON.
    json = (
        isinstance(root, Collection)
        and root.flow
        and any(isinstance(entry.key, Scalar) and entry.key.style == '"' for entry in root.entries)
    )
    kind = find_node(root, ("kind",))
    ranks = _rank_keys(kind.value) if isinstance(kind, Scalar) and kind.value in KINDS else {}
    return _ValuePath(text, steps, tuple(levels), shared, json, ranks)


def _describe_entry(entry: CollectionEntry | None) -> str:
    return (entry.name if entry is not None else None) or "the document"


def _fill_empty_value(text: str, entry: CollectionEntry, new: str) -> str:
    """Set the value of a key without one."""
    at = entry.value.start
    key_end = entry.start if entry.key is None else entry.key.end
    if ":" not in text[key_end:at]:
        return splice(text, key_end, key_end, f": {new}")
    return splice(text, at, at, new if text[at - 1].isspace() else f" {new}")


def _edit_list(path: _ValuePath, old: Collection, format_scalar: ScalarFormatter) -> str:
    """Edit a list element by element, so that the remaining ones are not rewritten."""
    new = format_scalar(None)
    if not isinstance(new, str):
        return replace_collection(path.text, path.last.entry, old, path.style.render_scalar(new))
    wanted = new.split(",")
    spare, missing = [], list(wanted)
    for index, item in enumerate(old.entries):
        if not isinstance(item.value, Scalar):
            raise Uneditable("its list contains more than plain values")
        if item.value.value in missing:
            missing.remove(item.value.value)
        else:
            spare.append(index)
    style = Style(old.flow or path.style.flow, path.json)
    if not spare and not missing:
        return path.text
    if spare and missing:
        replaced = old.entries[spare[0]].value
        like = replaced if isinstance(replaced, Scalar) else None
        text = splice(path.text, replaced.start, replaced.end, style.render_scalar(missing[0], like))
    elif spare:
        text = cut_entry(path.text, old, spare[0])
    else:
        text = _append_item(path, old, style.render_scalar(missing[0]))
    # One element at a time: positions are those of the text before the edit, so it is parsed again.
    return put_value(text, path.steps, format_scalar)


def _append_item(path: _ValuePath, old: Collection, element: str) -> str:
    if old.flow:
        return add_flow_entry(path.text, old, len(old.entries), element)
    last = old.entries[-1]
    lead = path.text[find_line_start(path.text, last.start) : last.start]
    if lead.strip(" ") != "-":
        raise Uneditable("its list does not have one item per line")
    return add_lines(path.text, old, path.last.entry, len(old.entries), [lead + element])


def _add_entry(path: _ValuePath, format_value: Formatter) -> str:
    """Add an entry, with the missing mappings on the path to the value."""
    level = path.last
    missing = path.steps[len(path.levels) - 1 :]
    index = _choose_index(level.mapping, missing[0], path.ranks)
    if level.mapping.flow:
        style = Style(flow=True, json=path.json)
        return add_flow_entry(path.text, level.mapping, index, _render_inline(missing, format_value, style))
    if level.parent is None:
        raise Uneditable("the manifest has no spec")
    indent = measure_indentation(path.text, level.mapping.entries[0])
    # New mappings are indented by as much as the ones around them.
    step = indent - measure_indentation(path.text, level.parent)
    beside = [entry.value for entry in level.mapping.entries if isinstance(entry.value, Collection)]
    inline = len(path.levels) > _DEPTH and bool(beside) and all(node.flow for node in beside)
    lines = _render_block(missing, format_value, indent, step, inline=inline)
    return add_lines(path.text, level.mapping, level.parent, index, lines)


def _choose_index(mapping: Collection, name: str, ranks: Mapping[str, int]) -> int:
    """Choose the index of a new key in the order of the documentation, or of names if the others have it."""

    def rank(key: str) -> tuple[int, str]:
        return ranks.get(key, len(ranks)), key

    present = [rank(entry.name or "") for entry in mapping.entries]
    if name not in ranks and present != sorted(present):
        return len(present)
    return max((index + 1 for index, key in enumerate(present) if key < rank(name)), default=0)


@cache
def _rank_keys(kind: str) -> Mapping[str, int]:
    """Return the order of the keys of a kind's spec in its schema, followed by those of its shorthands."""
    fields = load_schema(KINDS[kind].format.schema)["$defs"]["spec"]["properties"]
    keys = (*fields, *(shorthand.field for shorthand in KINDS[kind].format.shorthands.values()))
    return {key: rank for rank, key in enumerate(keys)}


def _render_block(
    steps: Sequence[str], format_value: Formatter, indent: int, step: int, *, inline: bool
) -> list[str]:
    style = Style()
    lead = " " * indent + style.render_scalar(steps[0]) + ":"
    if len(steps) == 1:
        value = format_value(None)
        if isinstance(value, list) and value and not inline:
            return [lead, *(f"{' ' * (indent + step)}- {style.render_inline(item)}" for item in value)]
        return [f"{lead} {style.render_inline(value)}"]
    if inline or steps[0] in _INLINE:
        return [f"{lead} {{{_render_inline(steps[1:], format_value, Style(flow=True))}}}"]
    return [lead, *_render_block(steps[1:], format_value, indent + step, step, inline=False)]


def _render_inline(steps: Sequence[str], format_value: Formatter, style: Style) -> str:
    if len(steps) == 1:
        return f"{style.render_scalar(steps[0])}: {style.render_inline(format_value(None))}"
    return f"{style.render_scalar(steps[0])}: {{{_render_inline(steps[1:], format_value, style)}}}"
