"""The graph of who reads what: what is in it, and that no name breaks out of a drawing."""

import html
import json
import re

from hypothesis import given
from hypothesis import strategies as st

from kafkaform.core.model import Desired, Intent, ResourceRef
from kafkaform.core.printable import printable
from kafkaform.report.graph import LiveGraph, build_graph, graph_to_json, render_dot, render_mermaid
from kafkaform.resources.name_globs import NameGlobs
from tests.support.plans.scenes import group_ref, topic
from tests.support.plans.strategies import hostile_text


def build_desired(ref: ResourceRef, *topics: str, team: str = "") -> Desired:
    labels = {"team": team} if team else {}
    return Desired(ref, {}, Intent(labels=labels, spec={"topics": list(topics)} if topics else {}))


ORDERS = build_desired(topic("orders.v1"), team="checkout")


def test_tombstones_are_not_in_graph() -> None:
    assert build_graph([Desired(topic("gone"), None), Desired(group_ref("gone"), None)]).nodes == ()


def test_ignored_topic_named_by_manifest_is_live() -> None:
    seen = LiveGraph(frozenset({topic("app-changelog")}), {group_ref("g"): {"app-changelog": 2}})
    graph = build_graph([build_desired(group_ref("g"), "app-changelog")], seen, NameGlobs(("*-changelog",)))
    assert [(edge.live, edge.lag) for edge in graph.edges] == [(True, 2)]
    assert graph.nodes[0].live


def test_subjects_are_linked_to_topics() -> None:
    names = ("orders.v1-value", "orders.v1-key", "com.acme.Order")
    subjects = [ResourceRef("Subject", name) for name in names]
    seen = LiveGraph(frozenset({topic("orders.v1"), *subjects}), {})
    graph = build_graph([ORDERS, *map(build_desired, subjects[::2])], seen)
    assert render_mermaid(graph).split("\n")[-3:] == [
        "  topic_orders_v1 -.- subject_orders_v1_key",
        "  topic_orders_v1 --- subject_orders_v1_value",
        "  classDef undeclared stroke-dasharray: 5 5",
    ]
    assert render_dot(graph).split("\n")[-3:] == [
        "  topic_orders_v1 -> subject_orders_v1_key [dir=none, style=dashed];",
        "  topic_orders_v1 -> subject_orders_v1_value [dir=none];",
        "}",
    ]
    assert json.loads(graph_to_json(graph))["edges"][1] == {
        "topic": "orders.v1",
        "subject": "orders.v1-value",
        "declared": True,
    }


def test_similar_names_have_distinct_ids() -> None:
    topics = map(topic, ("p.q", "p_q", "p-q", "p_q_2"))
    shown = render_mermaid(build_graph([*map(build_desired, topics)]))
    ids = [line.split("[")[0].strip() for line in shown.split("\n")[1:]]
    assert ids == ["topic_p_q", "topic_p_q_2", "topic_p_q_3", "topic_p_q_2_2"]


# What each language takes between quotes without ending them, or reading anything into it.
MERMAID_TEXT = r"(?:[\w .,-]|#[0-9]+;)*"
MERMAID_LABEL = rf"{MERMAID_TEXT}(?:<br/>{MERMAID_TEXT})*"
MERMAID_LINE = re.compile(
    rf'  (?:\w+(?:\[\("{MERMAID_LABEL}"\)\]|\(\["{MERMAID_LABEL}"\]\))(?::::undeclared)?'
    rf'|\w+ (?:-->|-\.->)(?:\|"{MERMAID_LABEL}"\|)? \w+|classDef undeclared stroke-dasharray: 5 5)'
)
DOT_LINE = re.compile(
    r'  (?:\w+ \[shape=(?:cylinder|box), label="((?:[^"\\]|\\.)*)"(?:, style=dashed)?\]'
    r'|\w+ -> \w+(?: \[(?:label="(?:[^"\\]|\\.)*")?(?:, )?(?:style=dashed)?\])?);'
)


def mermaid_labels(shown: str) -> list[str]:
    found = re.findall(r'^  \w+[\[(]{2}"(.*)"[\])]{2}(?::::undeclared)?$', shown, re.MULTILINE)
    return [re.sub(r"#([0-9]+);", lambda code: chr(int(code[1])), label.split("<br/>")[0]) for label in found]


@given(st.lists(st.tuples(hostile_text(min_size=1), hostile_text(min_size=1), hostile_text()), max_size=4))
def test_hostile_names_are_escaped_in_graph(found: list[tuple[str, str, str]]) -> None:
    desired = [build_desired(group_ref(name), read, team=team) for name, read, team in found]
    lags = {group_ref(name): {read: 3} for name, read, _ in found}
    graph = build_graph(desired, LiveGraph(frozenset([topic("other"), *lags]), lags))
    names = [printable(node.ref.name) for node in graph.nodes]

    shown = render_mermaid(graph)
    first, *lines = shown.split("\n")
    assert first == "flowchart LR"
    assert all(MERMAID_LINE.fullmatch(line) for line in lines), shown
    assert mermaid_labels(shown) == names
    assert len({line.split("[")[0].split("(")[0] for line in lines[: len(names)]}) == len(names)

    lines = render_dot(graph).split("\n")
    assert (lines[0], lines[-1]) == ("digraph kafka {", "}")
    matches = [DOT_LINE.fullmatch(line) for line in lines[4:-1]]
    assert all(matches), lines
    labels = [match[1] for match in matches if match is not None and match[1] is not None]
    label_lines = [re.split(r"(?<!\\)((?:\\\\)*)\\n", label) for label in labels]
    first_lines = ["".join(parts[:2]) for parts in label_lines]
    assert [html.unescape(re.sub(r"\\(.)", r"\1", line)) for line in first_lines] == names

    nodes = json.loads(graph_to_json(graph))["nodes"]
    assert [node["name"] for node in nodes] == [node.ref.name for node in graph.nodes]
