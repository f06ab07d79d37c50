"""Values: copies, comparison, and what is hidden."""

from dataclasses import dataclass

import pytest

from kafkaform.core.values import HiddenValue, Value, compare_fields, field, replace


class Point(Value):
    """A point."""

    x: int
    labels: dict[str, int] = field(default_factory=dict)
    note: str = ""

    __eq__, __hash__ = compare_fields("x")


class Password(HiddenValue):
    """A secret."""

    text: str


@dataclass(frozen=True)
class Size:
    """A dataclass, as of spark_validation."""

    width: int


def test_replaced_value_is_immutable_copy() -> None:
    point = Point(1, note="a")
    assert replace(point, x=2) == Point(2)
    assert replace(Size(1), width=2) == Size(2)
    with pytest.raises(AttributeError, match="immutable"):
        point.x = 3  # type: ignore[misc]
    with pytest.raises(TypeError):
        replace(point, z=1)
    assert Point(1).labels is not Point(1).labels


def test_values_are_compared_by_compared_fields() -> None:
    assert Point(1, note="a") == Point(1, note="b")
    assert len({Point(1, note="a"), Point(1, note="b"), Point(2)}) == 2
    assert Point(1) != Size(1)


def test_secret_field_is_hidden_in_repr() -> None:
    assert repr(Password("x")) == "Password(<hidden>)"
