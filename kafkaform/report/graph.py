"""The graph of topics, the groups that read them, and their schemas, as Mermaid, Graphviz and JSON."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from kafkaform.core.printable import printable
from kafkaform.core.values import Value
from kafkaform.inspect.resource_status import Selection
from kafkaform.resources import KINDS, find_topic_of, kind_order, list_topics_read, topic_ref
from kafkaform.resources.name_globs import NO_GLOBS, NameGlobs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kafkaform.core.model import Desired, ResourceRef
    from kafkaform.resources.base import Shape

_UNDECLARED = "undeclared"


class GraphNode(Value):
    """A resource.

    Attributes:
        ref: Kind and name.
        team: The owner by its labels; empty if there is none.
        declared: Whether a manifest declares it.
        live: Whether the cluster has it; None without a cluster.
    """

    ref: ResourceRef
    team: str = ""
    declared: bool = True
    live: bool | None = None


class GraphEdge(Value):
    """A resource that reads or describes a topic.

    Attributes:
        resource: The group that reads it, or the subject with the schemas of its keys or values.
        declared: Whether the manifest of the reader declares it.
        live: Whether the group has an offset or a member in the topic; None without a cluster.
        lag: The lag of the group in the topic, in records; None if unknown.
    """

    topic: ResourceRef
    resource: ResourceRef
    declared: bool = True
    live: bool | None = None
    lag: int | None = None

    @property
    def is_schema(self) -> bool:
        """True if it leads to a subject."""
        return find_topic_of(self.resource) is not None


class Graph(Value):
    """Resources and the topics that they read, in a stable order."""

    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]


class LiveGraph(Value):
    """The resources and lags of a cluster.

    Attributes:
        inventory: Every resource.
        lags: The lag of each reader by topic, for topics where it has an offset or a member; None if unknown.
    """

    inventory: frozenset[ResourceRef]
    lags: Mapping[ResourceRef, Mapping[str, int | None]]


def build_graph(
    desired: Iterable[Desired], live: LiveGraph | None = None, ignore: NameGlobs = NO_GLOBS
) -> Graph:
    """Build the graph of declared and live resources.

    Args:
        desired: The declared resources; tombstones are left out.
        live: The live resources; None for the manifests alone.
        ignore: Globs of live resources to leave out unless they are declared.
    """
    declared: dict[ResourceRef, str] = {}
    edges: set[tuple[ResourceRef, ResourceRef]] = set()
    for resource in desired:
        # A tombstone declares that the resource must not exist.
        if resource.state is None:
            continue
        declared[resource.ref] = declared.get(resource.ref) or resource.intent.team
        edges |= {(topic_ref(topic), resource.ref) for topic in list_topics_read(resource)}
    present: set[ResourceRef] = set()
    read_topics = {topic for topic, _ in edges}
    if live is not None:
        selection = Selection(ignore=ignore)
        known = {*live.inventory, *live.lags}
        # What a manifest names is drawn as live even if it is ignored: as missing, it would look like a
        # mistake.
        present = {ref for ref in known if selection.takes(ref, {*declared, *read_topics})}
    reading = {
        (topic_ref(topic), reader): lag
        for reader, lags in (live.lags.items() if live is not None else ())
        for topic, lag in lags.items()
        # An edge needs both of its ends: ignored resources are not drawn.
        if reader in present and topic_ref(topic) in present
    }
    nodes = {*declared, *present, *read_topics}
    schemas = {(topic, ref) for ref in nodes if (topic := find_topic_of(ref)) in nodes and topic is not None}
    return Graph(
        tuple(
            GraphNode(ref, declared.get(ref, ""), ref in declared, None if live is None else ref in present)
            # A stable order, because drawings are committed and compared.
            for ref in sorted(nodes, key=lambda ref: (kind_order(ref.kind), ref.name))
        ),
        tuple(
            GraphEdge(*pair, pair in edges, None if live is None else pair in reading, reading.get(pair))
            for pair in sorted({*edges, *reading})
        )
        + tuple(GraphEdge(topic, ref, ref in declared) for topic, ref in sorted(schemas)),
    )


def graph_to_json(graph: Graph) -> str:
    """Return the graph as JSON."""
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
        {"topic": e.topic.name, "subject": e.resource.name, "declared": e.declared}
        if e.is_schema
        else {
            "topic": e.topic.name,
            "group": e.resource.name,
            "declared": e.declared,
            "live": e.live,
            "lag": e.lag,
        }
        for e in graph.edges
    ]
    return json.dumps({"nodes": nodes, "edges": edges}, indent=2)


# --- Mermaid ---------------------------------------------------------------------------------------

_MERMAID_SHAPES: Mapping[Shape, tuple[str, str]] = {"cylinder": ("[(", ")]"), "box": ("([", "])")}


def render_mermaid(graph: Graph) -> str:
    """Return the graph as a Mermaid flowchart, which GitHub draws in Markdown."""
    ids = _assign_ids(graph.nodes)
    lines = ["flowchart LR"]
    for node in graph.nodes:
        # The line break is the only HTML of a label: all of `<`, `&` and `>` in names are written by code
        # point.
        label = "<br/>".join(map(_escape_mermaid, _label_lines(node)))
        left, right = _MERMAID_SHAPES[KINDS[node.ref.kind].words.shape]
        lines.append(f'  {ids[node.ref]}{left}"{label}"{right}{"" if node.declared else ":::undeclared"}')
    for edge in graph.edges:
        arrow = "-->" if edge.declared else "-.->"
        if edge.is_schema:
            arrow = arrow.replace(">", "-" if edge.declared else "")
        label = f'|"{note}"|' if (note := _describe_edge(edge)) else ""
        lines.append(f"  {ids[edge.topic]} {arrow}{label} {ids[edge.resource]}")
    if not all(node.declared for node in graph.nodes):
        lines.append("  classDef undeclared stroke-dasharray: 5 5")
    return "\n".join(lines)


# Mermaid reads labels as Markdown: what looks like a list or like italics there would not be drawn as text.
_MERMAID_SPECIAL = re.compile(
    r"[^\w .,-]"  # all but letters, digits and the punctuation of names
    r"|[.-](?= )"  # would start a list
    r"|(?<![^\W_])_|_(?![^\W_])"  # would start or end italics
)


def _escape_mermaid(text: str) -> str:
    """Escape text for Mermaid's quotes: special characters of Mermaid, Markdown and HTML by code point."""
    # Mermaid's own form of an entity is `#35;`, with a decimal number.
    return _MERMAID_SPECIAL.sub(lambda match: f"#{ord(match[0])};", printable(text))


# --- Graphviz --------------------------------------------------------------------------------------


def render_dot(graph: Graph) -> str:
    """Return the graph in Graphviz's DOT language."""
    ids = _assign_ids(graph.nodes)
    lines = [
        "digraph kafka {",
        "  rankdir=LR;",
        "  node [fontname=Helvetica];",
        "  edge [fontname=Helvetica];",
    ]
    for node in graph.nodes:
        shape = KINDS[node.ref.kind].words.shape
        style = "" if node.declared else ", style=dashed"
        # Graphviz takes a backslash and an n for a line break; a backslash of a name is doubled, so it cannot
        # form one.
        label = r"\n".join(map(_escape_dot, _label_lines(node)))
        lines.append(f'  {ids[node.ref]} [shape={shape}, label="{label}"{style}];')
    for edge in graph.edges:
        note = _describe_edge(edge)
        parts = [f'label="{note}"'] if note else []
        parts += ["dir=none"] if edge.is_schema else []
        parts += [] if edge.declared else ["style=dashed"]
        attributes = f" [{', '.join(parts)}]" if parts else ""
        lines.append(f"  {ids[edge.topic]} -> {ids[edge.resource]}{attributes};")
    return "\n".join([*lines, "}"])


def _escape_dot(text: str) -> str:
    """Escape text for Graphviz's quotes; an ampersand would start an entity, a backslash an escape."""
    return printable(text).replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"')


# --- both ------------------------------------------------------------------------------------------


def _assign_ids(nodes: Iterable[GraphNode]) -> dict[ResourceRef, str]:
    """Return an id for each node, from its name alone if possible, so that diffs of diagrams stay small."""
    ids: dict[ResourceRef, str] = {}
    taken: set[str] = set()
    for node in nodes:
        stem = f"{node.ref.kind.lower()}_{re.sub(r'[^A-Za-z0-9]', '_', node.ref.name)}"
        node_id, number = stem, 1
        # Different names can have the same stem: a.b and a_b.
        while node_id in taken:
            number += 1
            node_id = f"{stem}_{number}"
        taken.add(node_id)
        ids[node.ref] = node_id
    return ids


def _label_lines(node: GraphNode) -> Iterator[str]:
    yield node.ref.name
    if node.team:
        yield node.team
    if not node.declared:
        yield _UNDECLARED
    if node.live is False:
        yield "does not exist"


def _describe_edge(edge: GraphEdge) -> str:
    if edge.live is False:
        return "reads nothing"
    return f"lag {edge.lag:,}" if edge.lag is not None else ""
