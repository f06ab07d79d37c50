"""Which group reads which topic, as a graph: for Mermaid, Graphviz and programs."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkaform.core.printable import printable
from kafkaform.inspect.resource_status import Selection
from kafkaform.resources import KINDS, kind_order
from kafkaform.resources.consumer_group import group_ref
from kafkaform.resources.topic import topic_ref

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kafkaform.core.groups import Group
    from kafkaform.core.model import Desired, ResourceRef
    from kafkaform.resources.base import Shape

_BY_NOBODY = "undeclared"


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A resource.

    Attributes:
        ref: Kind and name.
        team: Whose it is, by its labels; empty if they do not say.
        declared: Whether a manifest declares it.
        live: Whether the cluster has it; None if no cluster was asked.
    """

    ref: ResourceRef
    team: str = ""
    declared: bool = True
    live: bool | None = None


@dataclass(frozen=True, slots=True)
class GraphEdge:
    """A resource that reads a topic.

    Attributes:
        topic: The topic.
        reader: What reads it: a group.
        declared: Whether the manifest of the reader says so.
        live: Whether the group has an offset or a member in the topic; None if no cluster was asked.
        lag: Records that the group is behind in the topic; None if it is not known.
    """

    topic: ResourceRef
    reader: ResourceRef
    declared: bool = True
    live: bool | None = None
    lag: int | None = None


@dataclass(frozen=True, slots=True)
class Graph:
    """Resources, and which of them read which topics, in a stable order."""

    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]


@dataclass(frozen=True, slots=True)
class LiveGraph:
    """What a cluster has: every resource by name, and what is known of the groups."""

    inventory: frozenset[ResourceRef]
    groups: Mapping[str, Group]


def graph_of(desired: Iterable[Desired], live: LiveGraph | None = None, ignore: Sequence[str] = ()) -> Graph:
    """The graph of what manifests declare, and of what a cluster has besides.

    Args:
        desired: The declared resources; tombstones are no part of the graph.
        live: What a cluster has; None for the manifests alone.
        ignore: Globs of live resources to leave out unless they are declared.
    """
    declared: dict[ResourceRef, str] = {}
    edges: set[tuple[ResourceRef, ResourceRef]] = set()
    for one in desired:
        if one.state is None:
            continue
        declared[one.ref] = declared.get(one.ref) or one.intent.team
        edges |= {(topic_ref(topic), one.ref) for topic in KINDS[one.ref.kind].reads(one.intent)}
    present: set[ResourceRef] = set()
    named = {topic for topic, _ in edges}
    if live is not None:
        selection = Selection(ignore=tuple(ignore))
        known = {*live.inventory, *map(group_ref, live.groups)}
        present = {ref for ref in known if selection.takes(ref, {*declared, *named})}
    reading = {
        (topic_ref(topic), group_ref(group.name)): _lag(group, topic)
        for group in (live.groups.values() if live is not None else ())
        for topic in group.topics
        if group_ref(group.name) in present and topic_ref(topic) in present
    }
    return Graph(
        tuple(
            GraphNode(ref, declared.get(ref, ""), ref in declared, None if live is None else ref in present)
            for ref in sorted({*declared, *present, *named}, key=lambda ref: (kind_order(ref.kind), ref.name))
        ),
        tuple(
            GraphEdge(*pair, pair in edges, None if live is None else pair in reading, reading.get(pair))
            for pair in sorted({*edges, *reading})
        ),
    )


def _lag(group: Group, topic: str) -> int | None:
    known = [p.lag for p in group.positions if p.topic == topic and p.lag is not None]
    return sum(known) if known else None


def graph_to_json(graph: Graph) -> str:
    """The graph for programs."""
    nodes = [
        {
            "id": str(node.ref),
            "kind": node.ref.kind,
            "name": node.ref.name,
            "team": node.team or None,
            "declared": node.declared,
            "live": node.live,
        }
        for node in graph.nodes
    ]
    edges = [
        {"topic": e.topic.name, "group": e.reader.name, "declared": e.declared, "live": e.live, "lag": e.lag}
        for e in graph.edges
    ]
    return json.dumps({"nodes": nodes, "edges": edges}, indent=2)


# --- Mermaid ---------------------------------------------------------------------------------------

_MERMAID_SHAPES: Mapping[Shape, tuple[str, str]] = {"cylinder": ("[(", ")]"), "box": ("([", "])")}


def render_mermaid(graph: Graph) -> str:
    """The graph as a Mermaid flowchart, as GitHub draws it in Markdown."""
    ids = _ids(graph.nodes)
    lines = ["flowchart LR"]
    for node in graph.nodes:
        label = "<br/>".join(map(_mermaid_text, _lines(node)))
        left, right = _MERMAID_SHAPES[KINDS[node.ref.kind].shape]
        lines.append(f'  {ids[node.ref]}{left}"{label}"{right}{"" if node.declared else ":::undeclared"}')
    for edge in graph.edges:
        arrow = "-->" if edge.declared else "-.->"
        label = f'|"{note}"|' if (note := _note(edge)) else ""
        lines.append(f"  {ids[edge.topic]} {arrow}{label} {ids[edge.reader]}")
    if not all(node.declared for node in graph.nodes):
        lines.append("  classDef undeclared stroke-dasharray: 5 5")
    return "\n".join(lines)


_MERMAID_SPECIAL = re.compile(
    r"[^\w .,-]"  # all but letters, digits and what names are made of
    r"|[.-](?= )"  # would make a list of what follows
    r"|(?<![^\W_])_|_(?![^\W_])"  # would set what stands between such in italics
)


def _mermaid_text(text: str) -> str:
    """Text in Mermaid's quotes: what means anything there, or in Markdown or HTML, by its code point."""
    return _MERMAID_SPECIAL.sub(lambda found: f"#{ord(found[0])};", printable(text))


# --- Graphviz --------------------------------------------------------------------------------------


def render_dot(graph: Graph) -> str:
    """The graph in Graphviz's language."""
    ids = _ids(graph.nodes)
    lines = [
        "digraph kafka {",
        "  rankdir=LR;",
        "  node [fontname=Helvetica];",
        "  edge [fontname=Helvetica];",
    ]
    for node in graph.nodes:
        shape = KINDS[node.ref.kind].shape
        style = "" if node.declared else ", style=dashed"
        label = r"\n".join(map(_dot_text, _lines(node)))
        lines.append(f'  {ids[node.ref]} [shape={shape}, label="{label}"{style}];')
    for edge in graph.edges:
        facts = [*([f'label="{note}"'] if (note := _note(edge)) else []), *_dashed(edge)]
        attributes = f" [{', '.join(facts)}]" if facts else ""
        lines.append(f"  {ids[edge.topic]} -> {ids[edge.reader]}{attributes};")
    return "\n".join([*lines, "}"])


def _dashed(edge: GraphEdge) -> list[str]:
    return [] if edge.declared else ["style=dashed"]


def _dot_text(text: str) -> str:
    """Text in Graphviz's quotes; an ampersand would begin an entity, a backslash an escape."""
    return printable(text).replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"')


# --- both ------------------------------------------------------------------------------------------


def _ids(nodes: Iterable[GraphNode]) -> dict[ResourceRef, str]:
    """An id for each node that its name alone decides as far as possible: then diagrams compare well."""
    ids: dict[ResourceRef, str] = {}
    taken: set[str] = set()
    for node in nodes:
        stem = f"{node.ref.kind.lower()}_{re.sub(r'[^A-Za-z0-9]', '_', node.ref.name)}"
        chosen, number = stem, 1
        while chosen in taken:
            number += 1
            chosen = f"{stem}_{number}"
        taken.add(chosen)
        ids[node.ref] = chosen
    return ids


def _lines(node: GraphNode) -> Iterator[str]:
    yield node.ref.name
    if node.team:
        yield node.team
    if not node.declared:
        yield _BY_NOBODY
    if node.live is False:
        yield "does not exist"


def _note(edge: GraphEdge) -> str:
    if edge.live is False:
        return "reads nothing"
    return f"lag {edge.lag:,}" if edge.lag is not None else ""
