"""Edits of the text of a YAML document: set a scalar, or add and remove an entry of a mapping or a list.

Edited are block style, line by line, and brackets that open and close on one line. Everything else is left to
people: aliases and anchors, values of several lines, brackets over several lines. Only the text of the
entry changes; other lines keep their comments, order, quotes and blanks.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import yaml

from kafkaform.config.manifests.scalars import render_inline
from kafkaform.core.schema_files import load_schema
from kafkaform.resources import KINDS
from kafkaform.resources.base import list_shorthands

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Formatter = Callable[[str | None], object]
    """Formats the new value like the old one, whose text it gets; None if there is none."""

Steps: TypeAlias = "tuple[str, ...]"
"""The keys from the root of a document to a value."""

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_LINE_REMAINDER = re.compile(r"[ \t]*:?[ \t]*(#.*)?")
_SPEC_DEPTH = 2
"""The depth of the fields of `spec`, which stays when it becomes empty."""


class Uneditable(Exception):  # noqa: N818 - becomes the reason of a refused edit
    """The text is not of a form that is edited; the message names the form, for users."""


class NodeEntry(NamedTuple):
    """An entry of a mapping, or of a list, whose entries have no keys."""

    key: yaml.Node | None
    value: yaml.Node

    @property
    def start(self) -> int:
        """The start of the key, or of the item after its dash."""
        return _get_start(self.key or self.value)

    @property
    def name(self) -> str | None:
        """The key, if it is a scalar."""
        return self.key.value if isinstance(self.key, yaml.ScalarNode) else None


def parse_layout(text: str) -> yaml.Node | None:
    """Parse the nodes of a text of one document that the loader has accepted; None if it is empty."""
    node: yaml.Node | None = yaml.compose(text, Loader=yaml.CBaseLoader)
    return node


def split_documents(text: str) -> list[str]:
    """Split a text that the loader has accepted into its documents; joined, they are the text."""
    events = yaml.parse(text, Loader=yaml.CBaseLoader)
    starts = [_get_start(event) for event in events if isinstance(event, yaml.DocumentStartEvent)]
    bounds = [0, *starts[1:], len(text)]
    return [text[start:end] for start, end in pairwise(bounds)]


def is_in_brackets(node: yaml.Node) -> bool:
    """Return whether a node is a mapping or a list in flow style."""
    return isinstance(node, yaml.CollectionNode) and bool(node.flow_style)


def list_entries(node: yaml.Node | None) -> list[NodeEntry]:
    """List the entries of a mapping or a list; a scalar has none."""
    if isinstance(node, yaml.MappingNode):
        return [NodeEntry(key, value) for key, value in node.value]
    return [NodeEntry(None, item) for item in node.value] if isinstance(node, yaml.SequenceNode) else []


def find_node(node: yaml.Node | None, steps: Steps) -> yaml.Node | None:
    """Return the value at a path; None if there is none."""
    for step in steps:
        node = next((entry.value for entry in list_entries(node) if entry.name == step), None)
    return node


def put_value(text: str, steps: Steps, format_value: Formatter) -> str:
    """Set a scalar, or add a value, with the mappings around it that are missing.

    Raises:
        Uneditable: The text has another form.
    """
    path = _find_path(text, steps)
    if len(path) <= len(steps):
        return _add_entry(text, path, steps[len(path) - 1 :], format_value(None))
    entry = path[-1]
    old = entry.value
    if not isinstance(old, yaml.ScalarNode):
        value = format_value(None)
        if isinstance(value, str):
            return _put_items(text, steps, entry, value)
        return put_value(drop_value(text, steps), steps, lambda _: value)
    start, end = _get_start(old), _get_end(old)
    if start == end and not text[:start].rstrip(" ").endswith(":"):
        raise Uneditable("its key has no value")
    new = format_value(None if not old.style and old.value in _NULL else old.value)
    # JSON stays JSON: where the key has double quotes, a text gets them too.
    is_flow = any(is_in_brackets(entry.value) for entry in path)
    rendered = render_inline(new, old.style or _find_quote(entry), flow=is_flow)
    if old.style and isinstance(new, int):
        rendered = f"{old.style}{rendered}{old.style}"
    gap = " " if start == end and text[start - 1] == ":" else ""
    return _splice(text, start, end, gap + rendered)


def _put_items(text: str, steps: Steps, entry: NodeEntry, value: str) -> str:
    """Give a list of scalars the items of a value with commas, one at a time."""
    if not isinstance(entry.value, yaml.SequenceNode):
        raise Uneditable(f"{steps[-1]} is a mapping")
    items, wanted = [item.value.value for item in list_entries(entry.value)], value.split(",")
    missing = next((item for item in wanted if item not in items), None)
    spare = (i for i, item in enumerate(items) if item not in wanted or item in items[:i])
    index = next(spare, None)
    # An item is added before one is removed, as an empty list would be another value.
    if missing is not None:
        text = put_item(text, steps, missing)
    elif index is not None:
        text = drop_item(text, steps, index)
    else:
        return text
    return put_value(text, steps, lambda _: value)


def put_item(text: str, steps: Steps, item: object) -> str:
    """Add an item at the end of a list, which is created if it is missing; raises Uneditable."""
    path = _find_path(text, steps)
    if len(path) <= len(steps):
        return _add_entry(text, path, steps[len(path) - 1 :], [item])
    items = path[-1].value
    if not isinstance(items, yaml.SequenceNode):
        raise Uneditable(f"{steps[-1]} is not a list")
    if items.flow_style:
        quote = _find_quote(path[-1])
        return _edit_brackets(text, items, added=(len(items.value), render_inline(item, quote, flow=True)))
    last = list_entries(items)[-1]
    lead = text[_find_line_start(text, last.start) : last.start]
    if lead.strip(" ") != "-":
        raise Uneditable(f"{steps[-1]} does not have one item per line")
    return _insert_lines(text, _find_end(text, last), [lead + render_inline(item)])


def drop_item(text: str, steps: Steps, index: int) -> str:
    """Remove an item of a list, and the list if it becomes empty; raises Uneditable."""
    items = _find_path(text, steps)[-1].value
    return drop_value(text, steps) if len(list_entries(items)) == 1 else _drop_entry(text, items, index)


def drop_value(text: str, steps: Steps) -> str:
    """Remove a value, and the mappings below `spec` that become empty; comments stay.

    Raises:
        Uneditable: The text has another form.
    """
    path = _find_path(text, steps)
    depth = len(steps)
    while depth > _SPEC_DEPTH and len(list_entries(path[depth - 1].value)) == 1:
        depth -= 1
    parent = path[depth - 1]
    names = [entry.name for entry in list_entries(parent.value)]
    after = _drop_entry(text, parent.value, names.index(steps[depth - 1]))
    if len(names) > 1 or is_in_brackets(parent.value):
        return after
    colon = text.index(":", _get_end(parent.key)) + 1
    return _splice(after, colon, colon, " {}")


def _find_path(text: str, steps: Steps) -> list[NodeEntry]:
    """Return the document and the entries that exist on the path to a value; raises Uneditable."""
    root = parse_layout(text)
    path = [NodeEntry(None, root)] if root is not None else []
    for step in steps:
        entry = next((entry for entry in list_entries(path[-1].value) if entry.name == step), None)
        if entry is None:
            break
        path.append(entry)
        start, end = _get_start(entry.value), _get_end(entry.value)
        # The node of an alias is that of its anchor, which stands before.
        if start < _get_end(entry.key):
            raise Uneditable(f"{step} is an alias")
        if text[start:end].startswith("&"):
            raise Uneditable(f"{step} has an anchor")
        if isinstance(entry.value, yaml.ScalarNode) and "\n" in text[start:end]:
            raise Uneditable(f"{step} spans several lines")
    return path


def _add_entry(text: str, path: Sequence[NodeEntry], missing: Steps, value: object) -> str:
    """Add an entry to the mapping at the end of a path, with the missing mappings."""
    root, mapping = path[0].value, path[-1].value
    if not isinstance(mapping, yaml.MappingNode) or mapping is root:
        raise Uneditable(f"{path[-1].name or 'the document'} is not a mapping with fields")
    kind = find_node(root, ("kind",))
    ranks = _rank_keys(kind.value) if kind is not None and kind.value in KINDS else {}
    entries = list_entries(mapping)
    index = _choose_index([entry.name or "" for entry in entries], missing[0], ranks)
    if mapping.flow_style:
        quote = _find_quote(path[-1])
        names = [render_inline(step, quote, flow=True) for step in missing]
        piece = ": {".join(names) + f": {render_inline(value, quote, flow=True)}" + "}" * (len(names) - 1)
        return _edit_brackets(text, mapping, added=(index, piece))
    indent = _find_column(text, entries[0])
    # New mappings are indented by as much as the ones around them.
    lines = _render_block(missing, value, indent, indent - _find_column(text, path[-1]))
    if index:
        return _insert_lines(text, _find_end(text, entries[index - 1]), lines)
    # Below the key, so that comments above the first entry stay with it.
    return _insert_lines(text, _get_end(path[-1].key), lines)


def _choose_index(present: Sequence[str], name: str, ranks: Mapping[str, int]) -> int:
    """Choose the index of a new key in the order of the documentation, or of names if the others have it."""

    def rank(key: str) -> tuple[int, str]:
        return ranks.get(key, len(ranks)), key

    if name not in ranks and [*present] != sorted(present, key=rank):
        return len(present)
    return max((index + 1 for index, key in enumerate(present) if rank(key) < rank(name)), default=0)


@cache
def _rank_keys(kind: str) -> Mapping[str, int]:
    """Return the order of the keys of a kind's spec in its schema, followed by those of its shorthands."""
    fields = load_schema(KINDS[kind].schema)["$defs"]["spec"]["properties"]
    keys = (*fields, *(shorthand.field for shorthand in list_shorthands(KINDS[kind]).values()))
    return {key: rank for rank, key in enumerate(keys)}


def _render_block(steps: Steps, value: object, indent: int, step: int) -> list[str]:
    lead = " " * indent + render_inline(steps[0]) + ":"
    if len(steps) > 1:
        return [lead, *_render_block(steps[1:], value, indent + step, step)]
    if isinstance(value, list) and value:
        return [lead, *(f"{' ' * (indent + step)}- {render_inline(item)}" for item in value)]
    return [f"{lead} {render_inline(value)}"]


def _drop_entry(text: str, collection: yaml.Node, index: int) -> str:
    """Remove an entry; in block style, the comments on its lines and between them stay on their own."""
    entry = list_entries(collection)[index]
    if is_in_brackets(collection):
        return _edit_brackets(text, collection, removed=index)
    start, end = _find_line_start(text, entry.start), _find_line_end(text, _find_end(text, entry))
    lead = text[start : entry.start]
    if lead.strip(" ") not in {"", "-"}:
        raise Uneditable("its line contains something else")
    indent = lead[: len(lead) - len(lead.lstrip(" "))]
    comments = [indent + comment for comment in _find_comments(text, entry, end)]
    if comments:
        return _splice(text, start, end, _find_break(text).join(comments))
    if after := text.find("\n", end) + 1:
        return _splice(text, start, after, "")
    return text[:start].rstrip("\r\n")  # the text had no line break at its end, and still has none


def _find_comments(text: str, entry: NodeEntry, end: int) -> list[str]:
    """Return the comments between the scalars of an entry, and after it up to a position."""
    comments, start = [], entry.start
    for token in yaml.scan(text, Loader=yaml.CBaseLoader):
        if token.end_mark.index <= entry.start:
            continue
        # A `#` inside a scalar is no comment: only the text between tokens is searched.
        comments += re.findall(r"(?<!\S)#[^\r\n]*", text[start : min(token.start_mark.index, end)])
        start = max(start, token.end_mark.index)
        if start >= end:
            break
    return comments


def _edit_brackets(
    text: str, collection: yaml.Node, *, added: tuple[int, str] | None = None, removed: int | None = None
) -> str:
    """Add or remove an entry of a collection in brackets on one line; the others keep their text."""
    start, end = _get_start(collection), _get_end(collection)
    if "\n" in text[start:end]:
        raise Uneditable("its brackets span several lines")
    entries = list_entries(collection)
    if not all(start < _get_start(entry.value) < end for entry in entries):
        raise Uneditable("its brackets contain an alias")
    pieces = [text[entry.start : max(_get_end(entry.value), entry.start)] for entry in entries]
    if removed is not None:
        del pieces[removed]
    if added is not None:
        pieces.insert(*added)
    gap = " " if text[start + 1 : start + 2] == " " and entries else ""
    return _splice(text, start, end, f"{text[start]}{gap}{', '.join(pieces)}{gap}{text[end - 1]}")


def _insert_lines(text: str, at: int, lines: Sequence[str]) -> str:
    """Insert lines after the line of a position."""
    end = _find_line_end(text, at)
    if not _LINE_REMAINDER.fullmatch(text[at:end]):
        raise Uneditable("its line contains something else")
    return _splice(text, end, end, "".join(_find_break(text) + line for line in lines))


def _find_column(text: str, entry: NodeEntry) -> int:
    return entry.start - _find_line_start(text, entry.start)


def _find_end(text: str, entry: NodeEntry) -> int:
    """Return the end of an entry, without what follows on its line."""
    node = entry.value
    below = list_entries(node)
    if below and not is_in_brackets(node):
        return _find_end(text, below[-1])
    # libyaml ends a block scalar after the empty lines that follow.
    end = max(_get_end(node), _get_end(entry.key or node))
    return len(text[:end].rstrip())


def _find_quote(entry: NodeEntry) -> str:
    """Return the quote of a key, if it is that of JSON."""
    return '"' if isinstance(entry.key, yaml.ScalarNode) and entry.key.style == '"' else ""


def _find_line_start(text: str, at: int) -> int:
    return text.rfind("\n", 0, at) + 1


def _find_line_end(text: str, at: int) -> int:
    """Return the end of the line at a position, before its line break."""
    end = text.find("\n", at)
    end = len(text) if end < 0 else end
    return end - 1 if text[end - 1 : end] == "\r" and end > at else end


def _find_break(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _get_start(part: yaml.Node | yaml.Event) -> int:
    return int(part.start_mark.index)  # type: ignore[union-attr]  # only what a program builds has none


def _get_end(part: yaml.Node | None) -> int:
    return 0 if part is None else int(part.end_mark.index)


def _splice(text: str, start: int, end: int, new: str) -> str:
    return text[:start] + new + text[end:]
