from __future__ import annotations

import ast
import copy
import dataclasses
import pickle
import typing
from dataclasses import FrozenInstanceError, field
from pathlib import Path
from typing import Any, cast

import pytest

import kafkaform
from kafkaform.core import lazy_dataclass
from tests.support.golden import wording

if typing.TYPE_CHECKING:
    from collections.abc import Callable

DECORATORS = {"standard": dataclasses.dataclass, "lazy": lazy_dataclass.dataclass}


@pytest.fixture(params=DECORATORS)
def dataclass(request: pytest.FixtureRequest) -> Callable[..., Any]:
    return DECORATORS[request.param]


def make_topic(dataclass: Callable[..., Any]) -> Any:
    @dataclass(frozen=True, slots=True)
    class Topic:
        """A topic."""

        name: str
        partitions: int = 3
        configs: dict[str, str] = field(default_factory=dict)
        note: str = field(default="", compare=False, repr=False)

        @property
        def doubled(self) -> int:
            return self.partitions * 2

    return Topic


def test_an_object_is_made_of_positions_names_and_defaults(dataclass: Callable[..., Any]) -> None:
    topic = make_topic(dataclass)
    one, other = topic("a"), topic("a", partitions=6, configs={"x": "1"})
    assert (one.name, one.partitions, one.configs, one.note) == ("a", 3, {}, "")
    assert (other.partitions, other.configs, other.doubled) == (6, {"x": "1"}, 12)
    assert one.configs is not topic("a").configs


@pytest.mark.parametrize("given", [(), ("a", 1, {}, "", 5)])
def test_wrong_arguments_are_refused(dataclass: Callable[..., Any], given: Any) -> None:
    topic = make_topic(dataclass)
    for _ in range(2):  # before and after the constructor is compiled
        with pytest.raises(TypeError, check=lambda error: str(error) == wording):
            topic(*given)


def test_equality_and_hash_are_of_the_fields_that_are_compared(dataclass: Callable[..., Any]) -> None:
    @dataclass(frozen=True, slots=True)
    class Pair:
        """A pair."""

        left: float
        right: float = field(default=0.0, compare=False)

    @dataclass(frozen=True, slots=True)
    class Other:
        """Another class with the same fields."""

        left: float

    assert Pair(1, 2) == Pair(1, 3)
    assert len({Pair(1, 2), Pair(1, 3), Pair(2, 2)}) == 2
    assert Pair(1) != Pair(2)
    assert Pair(1) != cast(Any, Other(1))
    topic = make_topic(dataclass)
    assert topic("a", 3, {}) == topic("a", note="differs")
    with pytest.raises(TypeError, match="unhashable"):
        hash(topic("a"))


def test_a_class_without_fields(dataclass: Callable[..., Any]) -> None:
    @dataclass(frozen=True, slots=True)
    class Nothing:
        """Nothing."""

    assert Nothing() == Nothing()
    assert hash(Nothing()) == hash(Nothing())
    assert repr(Nothing()).endswith("Nothing()")


def test_objects_with_an_identity(dataclass: Callable[..., Any]) -> None:
    @dataclass(frozen=True, slots=True, eq=False, repr=False)
    class Cluster:
        """A cluster."""

        name: str

        def __repr__(self) -> str:
            return f"<{self.name}>"

    one = Cluster("a")
    assert one != Cluster("a")
    assert len({one, one, Cluster("a")}) == 2
    assert repr(one) == "<a>"


def test_methods_of_the_class_are_kept(dataclass: Callable[..., Any]) -> None:
    @dataclass(frozen=True, slots=True)
    class Name:
        """A name without its case."""

        text: str

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Name) and self.text.lower() == other.text.lower()

        def __repr__(self) -> str:
            return self.text

    assert Name("A") == Name("a")
    assert hash(Name("A")) == hash(Name("A"))
    assert repr(Name("A")) == "A"


def test_a_field_that_is_no_argument_has_its_default(dataclass: Callable[..., Any]) -> None:
    @dataclass(frozen=True, slots=True)
    class Document:
        """A document."""

        text: str
        index: dict[str, int] = field(init=False, default_factory=dict)

    document = Document("a")
    document.index["a"] = 1
    assert (document.index, Document("a").index) == ({"a": 1}, {})
    with pytest.raises(TypeError, match="unexpected keyword argument 'index'"):
        cast(Any, Document)("a", index={})


def test_an_object_is_frozen(dataclass: Callable[..., Any]) -> None:
    one = make_topic(dataclass)("a")
    with pytest.raises(FrozenInstanceError, check=lambda error: str(error) == wording):
        one.name = "b"
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'name'"):
        del one.name
    assert not hasattr(one, "__dict__")


def test_a_subclass_adds_fields_and_overrides_defaults(dataclass: Callable[..., Any]) -> None:
    topic: Any = make_topic(dataclass)

    @dataclass(frozen=True, slots=True)
    class Replicated(topic):  # type: ignore[misc]
        """A topic with replicas."""

        partitions: int = 12
        replicas: int = 2
        checked: bool = False

        def __post_init__(self) -> None:
            object.__setattr__(self, "checked", True)

    one = Replicated("a")
    assert (one.partitions, one.replicas, one.checked) == (12, 2, True)
    assert one != topic("a", 12)
    assert topic("a").partitions == 3
    assert [entry.name for entry in dataclasses.fields(Replicated)][-2:] == ["replicas", "checked"]


def test_the_functions_of_the_standard_library(dataclass: Callable[..., Any]) -> None:
    topic = make_topic(dataclass)
    assert dataclasses.is_dataclass(topic)
    topic = cast(Any, topic)
    one = topic("a", configs={"x": "1"})
    assert dataclasses.asdict(one) == {"name": "a", "partitions": 3, "configs": {"x": "1"}, "note": ""}
    assert dataclasses.replace(one, partitions=9) == topic("a", 9, {"x": "1"})
    assert repr(one).endswith(".Topic(name='a', partitions=3, configs={'x': '1'})")
    assert copy.deepcopy(one) == one
    assert topic.__match_args__ == ("name", "partitions", "configs", "note")


@lazy_dataclass.dataclass(frozen=True, slots=True)
class Sent:
    name: str
    configs: dict[str, str] = field(default_factory=dict)


def test_an_object_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(Sent("a", {"x": "1"}))) == Sent("a", {"x": "1"})


def test_what_has_an_order_or_can_be_changed_is_a_standard_dataclass() -> None:
    @lazy_dataclass.dataclass(frozen=True, slots=True, order=True)
    class Version:
        """A version."""

        number: int

    @lazy_dataclass.dataclass(slots=True)
    class Counter:
        """A counter."""

        number: int

    assert Version(1) < Version(2)
    counter = Counter(1)
    counter.number += 1
    assert counter == Counter(2)


def test_every_frozen_dataclass_of_the_package_is_a_lazy_one() -> None:
    root = Path(kafkaform.__file__).parent
    standard = [
        path.relative_to(root).as_posix()
        for path in sorted(root.rglob("*.py"))
        if path.name != "lazy_dataclass.py"
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module == "dataclasses"
        if any(alias.name == "dataclass" for alias in node.names)
    ]
    assert standard == []
