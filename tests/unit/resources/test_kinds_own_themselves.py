"""No module outside `resources/` compares the name of a kind, or has a table with such names as keys.

What is said about a kind is asked of the kind (`KINDS[ref.kind].words`), and what is about replicas or
members by nature asks for these (`KINDS[ref.kind].has_replicas`, `topic_ref(name)`): a new kind is never
taken for another. Nor does a stage of a plan, an apply or a report import anything of a kind's package.
"""

from __future__ import annotations

import ast
import importlib
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

import kafkaform
from kafkaform.config.manifests.editing import Edit, edit_manifests
from kafkaform.config.manifests.loader import Context
from kafkaform.core.config_values import ConfigKey, ConfigType
from kafkaform.core.model import Desired, FieldChange, Intent, Location, ResourceRef, Update
from kafkaform.core.values import replace
from kafkaform.inspect.drift import FieldDrift, find_obstacle
from kafkaform.report.graph import build_graph, render_dot
from kafkaform.resources import KINDS
from kafkaform.resources.base import ConfigSet, Field
from kafkaform.resources.consumer_group import ConsumerGroupKind
from kafkaform.resources.values import format_field, format_value
from kafkaform.rules.policy_fields import field_key
from tests.support.golden import wording

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kafkaform.core.model import FieldValue

PACKAGE = Path(kafkaform.__file__).parent

REGISTRIES: Mapping[str, int] = {"cluster/kafka/prefetch.py": 1, "cluster/kafka/readers.py": 5}
"""Modules that register the Kafka calls of a kind, and how many lines do: a new kind adds its own."""


class Finder(ast.NodeVisitor):
    """Finds the places in a module that decide by the name of a kind.

    Attributes:
        known: The variables of the module, by which imported constants are told.
        holders: Variables and attributes that the module itself gives a kind's name.
        found: The lines that do, and what they do.
    """

    def __init__(self, tree: ast.Module, known: Mapping[str, object]) -> None:
        self.known = known
        self.holders: set[str] = set()
        self.found: dict[int, str] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and node.value is not None:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    self.holders |= self._given(target, node.value)
        self.visit(tree)

    def _given(self, target: ast.expr, value: ast.expr) -> set[str]:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            pairs = zip(target.elts, value.elts, strict=False)
            return set().union(*(self._given(one, other) for one, other in pairs))
        names = {node.id for node in ast.walk(target) if isinstance(node, ast.Name)}
        return names if self.holds(value) else set()

    def holds(self, node: ast.expr) -> bool:
        """Whether an expression is the name of a kind, or a collection with one in it."""
        match node:
            case ast.Constant(value=value):
                return isinstance(value, str) and value in KINDS
            case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements):
                return any(map(self.holds, elements))
            case ast.Call(func=ast.Name(id="frozenset" | "set" | "tuple" | "list"), args=arguments):
                return any(map(self.holds, arguments))
            case ast.Name(id=name):
                return name in self.holders or _has_name(self.known.get(name))
            case ast.Attribute(value=ast.Name(id=owner), attr=name):
                return name in self.holders or _has_name(getattr(self.known.get(owner), name, None))
            case _:
                return False

    def _check(self, nodes: list[ast.expr], what: str) -> None:
        for node in nodes:
            if self.holds(node):
                self.found[node.lineno] = what

    def visit_Compare(self, node: ast.Compare) -> None:
        self._check([node.left, *node.comparators], "compares the name of a kind")
        self.generic_visit(node)

    def visit_MatchValue(self, node: ast.MatchValue) -> None:
        self._check([node.value], "matches the name of a kind")
        self.generic_visit(node)

    def visit_Dict(self, node: ast.Dict) -> None:
        self._check([key for key in node.keys if key is not None], "has a table by the names of kinds")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if self.holds(node):
            self.found.setdefault(node.lineno, "writes the name of a kind")


def _has_name(value: object) -> bool:
    if isinstance(value, str):
        return value in KINDS
    # A reference to a resource is a tuple, too, and no collection of names.
    plain = type(value) in {tuple, list, set, frozenset}
    return plain and any(map(_has_name, cast("Iterable[object]", value)))


def places(source: str, known: Mapping[str, object]) -> list[str]:
    """What a module does with the names of kinds, a line each."""
    found = Finder(ast.parse(source), known).found
    return [f"{line}: {what}" for line, what in sorted(found.items())]


def modules() -> Iterator[tuple[str, Path]]:
    """Every module outside `resources/`, by its path in the package."""
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if not name.startswith("resources/"):
            yield name, path


def imported(name: str) -> Mapping[str, object]:
    """The variables of a module."""
    parts = [part for part in name.removesuffix(".py").split("/") if part != "__init__"]
    return vars(importlib.import_module(".".join(["kafkaform", *parts])))


def test_kinds_are_asked_and_not_compared() -> None:
    found = {name: places(path.read_text(), imported(name)) for name, path in modules()}
    assert len(found) > 150
    counts = {name: len(lines) for name, lines in found.items() if lines}
    shown = "\n".join(f"{name}:{line}" for name, lines in found.items() for line in lines)
    assert counts == REGISTRIES, f"ask the kind\n{shown}"


KNOWING = {
    # the adapters of kinds on a real cluster, and the tables of these
    "cluster/kafka/acls.py",
    "cluster/kafka/client_quotas.py",
    "cluster/kafka/groups.py",
    "cluster/kafka/offset_writer.py",
    "cluster/kafka/readers.py",
    "cluster/kafka/users.py",
    "cluster/kafka/writer.py",
    # which makes quotas and replicas of other tools' files
    "inspect/importers/conversion.py",
    # which plans offsets of a group that no manifest can declare
    "inspect/resets.py",
    # whose rules need the live ACLs of principals that no manifest declares
    "rules/access.py",
}
"""The modules outside `resources/` that import from the package of a kind."""


def imports(tree: ast.Module) -> Iterator[str]:
    """Name every module that a module imports, and all that it takes from one, as if that were a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_only_what_is_about_a_kind_imports_its_package() -> None:
    packages = tuple(f"{type(kind).__module__}." for kind in KINDS.values())
    assert len(set(packages)) == len(KINDS)
    knowing = {
        name
        for name, path in modules()
        if any(f"{found}.".startswith(packages) for found in imports(ast.parse(path.read_text())))
    }
    assert knowing == KNOWING
    assert not any(name.startswith(("plan/", "apply/", "report/", "core/", "audit/")) for name in KNOWING)


PLANTED = """
from kafkaform.resources.topic import TopicKind
NAME = TopicKind.name
class Holder:
    _KIND = TopicKind.name
def planted(ref, table):
    {line}
"""


@pytest.mark.parametrize(
    "line",
    [
        'return ref.kind == "Topic"',
        'return "ConsumerGroup" != ref.kind',
        'return ref.kind in {"Topic", "Other"}',
        "return ref.kind == TopicKind.name",
        "return ref.kind is NAME",
        "return ref.kind == Holder._KIND",
        "return ref.kind == table._KIND",
        "wanted = TopicKind.name; return ref.kind == wanted",
        "names = (NAME,); return ref.kind not in names",
        "a, b = NAME, 1; return ref.kind == a",
        "return ref.kind == IMPORTED",
        "return ref.kind in ALL",
        'return ResourceRef("Topic", "a")',
        'return {"Topic": 1}[ref.kind]',
        "return {TopicKind.name: 1}[ref.kind]",
        'match ref:\n        case ResourceRef(kind="Topic"): return 1',
        "match ref.kind:\n        case TopicKind.name: return 1",
        'match ref:\n        case {"kind": "ConsumerGroup"}: return 1',
        'def other(kind="Topic"): return kind',
    ],
)
def test_what_decides_by_the_name_of_a_kind_is_found(line: str) -> None:
    known = {"TopicKind": type(KINDS["Topic"]), "IMPORTED": "Topic", "ALL": frozenset(KINDS)}
    assert len(places(PLANTED.replace("{line}", line), known)) == 1


@pytest.mark.parametrize(
    "line",
    [
        "return KINDS[ref.kind].noun",
        "return ref.kind in KINDS",
        "return table.kind == ref.kind",
        "return KINDS[ref.kind].has_replicas",
        "return table.of_kind(TopicKind.name)",
        'return "Topics" == ref',
        'return {"topic": 1}[ref.noun]',
        "return table[TopicKind.name]",
        "return REF in table",
    ],
)
def test_what_asks_the_kind_is_not(line: str) -> None:
    known = {"TopicKind": type(KINDS["Topic"]), "KINDS": KINDS, "REF": ResourceRef("Topic", "a")}
    assert places(PLANTED.replace("{line}", line), known) == []


class _Configs(ConfigSet):
    def keys(self) -> Mapping[str, ConfigKey]:
        return {"window.ms": ConfigKey("window.ms", ConfigType.LONG)}

    def is_vendor(self, name: str) -> bool:
        return name == "odd"


class _Format(type(ConsumerGroupKind.format)):  # type: ignore[misc]
    counts = frozenset({"rate"})
    verbatim = frozenset({"client"})

    def policy_fields(self) -> Mapping[str, ConfigKey]:
        return {"burst.bytes": ConfigKey("burst.bytes", ConfigType.LONG)}


class _Field(Field):
    def undeclarable(self, value: FieldValue) -> str | None:
        return f"{value} is measured" if self.path == "load" else None

    def describe(self, before: FieldValue, after: FieldValue) -> tuple[str, tuple[str, ...]] | None:
        return (f"{before} becomes {after}", ("at once",)) if self.path == "rate" else None


class QuotaKind(ConsumerGroupKind):
    """A kind that is unlike both others in all that is asked of it here."""

    name = "Quota"
    words = replace(ConsumerGroupKind.words, noun="quota", shape="cylinder")
    format = _Format()
    configs = _Configs()

    def field(self, path: str) -> Field:
        return _Field(self, path)


QUOTA = ResourceRef("Quota", "q")


@pytest.fixture
def _quota(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "Quota", QuotaKind())


@pytest.mark.usefixtures("_quota")
def test_values_of_another_kind_are_worded_by_it() -> None:
    assert format_value("Quota", "config.window.ms", "604800000").human == "7d"
    assert format_value("Quota", "config.retention.ms", "604800000").human == "604800000"
    change = Update(QUOTA, None, (FieldChange("rate", 1, 2), FieldChange("placement", "1", "2")))
    rate, placement = (format_field(change, field) for field in change.fields)
    assert (rate.short, rate.each) == ("1 becomes 2", ("at once",))
    assert placement.short == "1 → 2"


@pytest.mark.usefixtures("_quota")
def test_a_graph_draws_another_kind_as_it_says() -> None:
    graph = build_graph([Desired(QUOTA, {}, Intent(spec={"topics": ["t"]}))])
    assert [(str(edge.topic), str(edge.reader)) for edge in graph.edges] == [("Topic/t", "Quota/q")]
    assert '  quota_q [shape=cylinder, label="q"];' in render_dot(graph)


@pytest.mark.usefixtures("_quota")
def test_edits_and_adoption_ask_another_kind_what_a_manifest_holds() -> None:
    desired = [Desired(QUOTA, {}, location=Location("a.yaml"))]
    edits = [Edit(QUOTA, "rate", None), Edit(QUOTA, "partitions", 3)]
    assert [why for _, why in edit_manifests(edits, desired, Context()).refused] == wording
    (quota,) = desired
    assert find_obstacle(quota, FieldDrift(FieldChange("load", 7, 1), declared=True)) == "load: 7 is measured"
    assert find_obstacle(quota, FieldDrift(FieldChange("placement", "1", "2"), declared=True)) is None


@pytest.mark.usefixtures("_quota")
def test_policies_ask_about_the_fields_of_another_kind() -> None:
    known = ("config.window.ms", "burst.bytes", "config.odd", "offsets.initial")
    assert all(field_key("Quota", path) is not None for path in known)
    unknown = ("config.retention.ms", "config.confluent.x", "client.max.poll.records")
    assert not any(field_key("Quota", path) for path in unknown)
