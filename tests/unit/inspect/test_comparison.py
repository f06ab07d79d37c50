"""Tests of differences between two sides: own values, values in force, and those of manifests."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaform.core.model import FieldValue, ResourceRef, State
from kafkaform.inspect.comparison import (
    ComparedResource,
    Comparison,
    FieldDifference,
    InheritedDifference,
    ResourceDifference,
    Side,
    compare_sides,
)
from kafkaform.report.comparison import comparison_to_json, comparison_to_markdown, render_comparison
from tests.support.builds import builds
from tests.support.plans.scenes import topic
from tests.support.plans.strategies import names, paths, states, values

WEEK, DAY = "604800000", "86400000"


def state(partitions: int = 3, **configs: FieldValue) -> dict[str, FieldValue]:
    return {"partitions": partitions} | {
        f"config.{key.replace('_', '.')}": value for key, value in configs.items()
    }


def side(name: str, *, wanted: dict[str, State] | None = None, **things: ComparedResource) -> Side:
    declared = None if wanted is None else {topic(each): state for each, state in wanted.items()}
    return Side(name, {topic(each): resource for each, resource in things.items()}, {}, declared)


def fields(comparison: Comparison) -> dict[str, FieldDifference]:
    (difference,) = comparison.differences
    return {field.path: field for field in difference.fields}


def compare(dev: State, prod: State, *, wanted: tuple[State, State] | None = None) -> Comparison:
    """Compare a topic by its own values on two clusters, and by those that are declared."""
    of_dev, of_prod = wanted or (None, None)
    return compare_sides(
        side("dev", wanted=None if of_dev is None else {"t": of_dev}, t=ComparedResource(dev)),
        side("prod", wanted=None if of_prod is None else {"t": of_prod}, t=ComparedResource(prod)),
    )


def test_equal_values_are_same_and_unset_values_are_not() -> None:
    comparison = compare(
        state(min_cleanable_dirty_ratio="0.50", cleanup_policy="compact,delete"),
        state(min_cleanable_dirty_ratio="0.5", cleanup_policy="delete,compact"),
    )
    assert (comparison.differences, comparison.same, comparison.unexpected) == ((), 1, False)
    a = ComparedResource(state(3, retention_ms=DAY), {"config.retention.ms": DAY, "config.segment.ms": WEEK})
    b = ComparedResource(state(6, segment_ms=WEEK), {"config.retention.ms": WEEK, "config.segment.ms": WEEK})
    found = fields(compare_sides(side("dev", t=a), side("prod", t=b)))
    assert [*found] == ["partitions", "config.retention.ms", "config.segment.ms"]
    assert found["config.retention.ms"] == FieldDifference("config.retention.ms", DAY, None, DAY, WEEK)
    assert found["config.segment.ms"].same_effect
    assert not fields(compare(state(retention_ms=DAY), state()))["config.retention.ms"].same_effect


def test_inherited_and_declared_differences_are_expected() -> None:
    a = {topic(name): ComparedResource(state(), {"config.retention.ms": DAY}) for name in "xyz"}
    b = {topic(name): ComparedResource(state(), {"config.retention.ms": WEEK}) for name in "xyz"}
    comparison = compare_sides(Side("dev", a), Side("prod", b))
    assert comparison.inherited == (InheritedDifference("Topic", "config.retention.ms", DAY, WEEK, 3),)
    assert (comparison.same, comparison.unexpected) == (3, True)
    dev, prod = state(3, retention_ms=DAY), state(12)
    comparison = compare(dev, prod, wanted=(dev, prod))
    assert all(field.as_declared for field in fields(comparison).values())
    assert not comparison.unexpected
    assert render_comparison(comparison).plain.count("as declared\n") == 2


def test_unapplied_and_unknown_fields_are_marked() -> None:
    comparison = compare(state(12), state(3), wanted=(state(12), state(12)))
    assert fields(comparison)["partitions"].note == "prod not as declared"
    assert comparison.unexpected
    comparison = compare(state(3, retention_ms=DAY), state(3), wanted=(state(3), state(3)))
    found = fields(comparison)["config.retention.ms"]
    assert (found.as_declared, found.note) == (False, "")
    hidden = Side("prod", {}, {topic("t"): "no right to see it"})
    comparison = compare_sides(side("dev", t=ComparedResource(state())), hidden)
    assert (comparison.differences, comparison.same) == ((), 0)
    assert comparison.unknown == {topic("t"): "prod: no right to see it"}
    assert "Incomplete: 1 not known." in render_comparison(comparison).plain


@pytest.mark.parametrize(
    ("on_dev", "on_prod", "as_declared", "remark"),
    [
        (True, True, False, "also declared for prod, but does not exist there yet"),
        (True, False, True, ""),
        (False, False, False, "no manifest declares it"),
    ],
)
def test_resource_on_one_side_is_reported(
    on_dev: bool, on_prod: bool, as_declared: bool, remark: str
) -> None:
    comparison = compare_sides(
        side("dev", wanted={"t": state()} if on_dev else {}, t=ComparedResource(state())),
        side("prod", wanted={"t": state()} if on_prod else {}),
    )
    expected = ResourceDifference(topic("t"), True, False, (), as_declared, remark, state())
    assert comparison.differences == (expected,)
    assert "1 only in dev" in render_comparison(comparison).plain


def sides() -> st.SearchStrategy[dict[ResourceRef, ComparedResource]]:
    resources = builds(ComparedResource, states(), st.dictionaries(paths(), values(), max_size=4))
    return st.dictionaries(builds(ResourceRef, st.just("Topic"), names()), resources, max_size=4)


@given(sides(), sides())
def test_comparison_is_symmetric_printable_and_bounded(
    one: dict[ResourceRef, ComparedResource], other: dict[ResourceRef, ComparedResource]
) -> None:
    there = compare_sides(Side("a|b", one), Side("c\x1b", other))
    back = compare_sides(Side("c\x1b", other), Side("a|b", one))
    assert there.same == back.same
    assert [(d.ref, d.in_a, d.in_b, [f.path for f in d.fields]) for d in there.differences] == [
        (d.ref, d.in_b, d.in_a, [f.path for f in d.fields]) for d in back.differences
    ]
    assert len(there.differences) + there.same == len({*one, *other})
    text = render_comparison(there).plain
    assert all(char.isprintable() or char == "\n" for char in text)
    assert len(json.loads(comparison_to_json(there))["differences"]) == len(there.differences)
    markdown = comparison_to_markdown(there, limit=6_000)
    assert len(markdown) <= 6_000
    assert "\x1b" not in markdown
