"""A comparison of two clusters or environments in words, as JSON and as Markdown."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeAlias

from rich.text import Text

from kafkaform.core.model import FieldChange, ResourceRef, Update
from kafkaform.core.printable import clipped, printable
from kafkaform.core.wording import counted
from kafkaform.inspect.comparison import PROTOCOL, FieldDifference
from kafkaform.report.markdown_escape import code, prose
from kafkaform.report.page import Cell, Column, table
from kafkaform.report.truncation import Block, fit_all
from kafkaform.resources import KINDS
from kafkaform.resources.values import label, worded

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkaform.core.model import FieldValue
    from kafkaform.inspect.comparison import Comparison, ResourceDifference

FORMAT_VERSION = 1
LIMIT = 60_000
"""As many characters as a comment on GitHub has room for."""

_Line: TypeAlias = tuple[str, str, str, str, str]
"""A resource, a field of it, what the first and the second side have, and what is to be said of it."""

_LEAST = 16
_DONE = "as declared"


def render_comparison(comparison: Comparison, *, width: int | None = None) -> Text:
    """A table of what differs, then the sum.

    Args:
        comparison: The comparison.
        width: The characters of a line; None where no terminal reads it.
    """
    text = Text()
    lines = [*_inherited(comparison), *(line for one in comparison.differences for line in _lines(one))]
    if lines:
        columns = [
            Column("", least=_LEAST),
            Column("field", least=_LEAST),
            Column(printable(comparison.a), least=_LEAST),
            Column(printable(comparison.b), least=_LEAST),
            Column("", least=_LEAST),
        ]
        text.append_text(table(columns, [_row(line) for line in lines], width))
        text.append("\n\n")
    for ref, why in comparison.unknown.items():
        text.append(f"not read: {printable(str(ref))}: {clipped(why, 300)}\n", "yellow")
    text.append(_sentence(comparison), "bold")
    return text


def _row(line: _Line) -> Sequence[str | Cell]:
    resource, name, a, b, remark = line
    style = "dim" if remark == _DONE else "yellow"
    return (Cell(resource, "bold"), name, a, b, Cell(remark, style))


def _lines(difference: ResourceDifference) -> Iterator[_Line]:
    title = clipped(str(difference.ref), 280)
    if not difference.fields:
        shown = _describe_resource(difference)
        there = tuple(shown if has else "(missing)" for has in (difference.in_a, difference.in_b))
        yield title, "", there[0], there[1], _DONE if difference.as_declared else difference.remark
    for number, field in enumerate(difference.fields):
        a, b = _values(difference.ref, field)
        yield "" if number else title, label(field.path), a, b, _remark(field)


def _describe_resource(difference: ResourceDifference) -> str:
    """Describe a resource that only one side has: the counts of a topic, the protocol of a group."""
    partitions, replicas = map(difference.state.get, ("partitions", "replicationFactor"))
    if isinstance(partitions, int):
        return counted(partitions, "partition") + (f", RF {replicas}" if replicas else "")
    return str(difference.state.get(PROTOCOL, "there"))


def _remark(field: FieldDifference) -> str:
    said = _DONE if field.as_declared else field.remark
    return "; ".join(part for part in ("same effective value" if field.same_effect else "", said) if part)


def _inherited(comparison: Comparison) -> Iterator[_Line]:
    for one in comparison.inherited:
        a, b = _values(ResourceRef(one.kind, ""), FieldDifference(one.path, None, None, one.a, one.b))
        noun = KINDS[one.kind].noun
        verb = "inherits it" if one.count == 1 else "inherit it"
        yield "(broker defaults)", label(one.path), a, b, f"{counted(one.count, noun)} {verb}"


def _values(ref: ResourceRef, field: FieldDifference) -> tuple[str, str]:
    """What both sides have, in the words of plans."""
    change = FieldChange(field.path, field.a, field.b, field.effective_a, field.effective_b)
    shown = [side.short for side in worded(Update(ref, None, (change,)), change).sides]
    return shown[0], shown[1]


def _sentence(comparison: Comparison) -> str:
    """The sum, in one line."""
    differences = comparison.differences
    if not differences and not comparison.inherited and not comparison.unknown:
        return f"The same: {counted(comparison.same, 'resource')}."
    expected = sum(one.as_declared for one in differences)
    parts = (
        (sum(not one.in_b for one in differences), f"only in {printable(comparison.a)}"),
        (sum(not one.in_a for one in differences), f"only in {printable(comparison.b)}"),
        (both := sum(one.in_a and one.in_b for one in differences), _verb(both)),
        (expected, "of these as declared"),
        (
            inherited := len(comparison.inherited),
            f"inherited {'value' if inherited == 1 else 'values'} {_verb(inherited)}",
        ),
        (comparison.same, "the same"),
        (len(comparison.unknown), "not known"),
    )
    if comparison.unexpected:
        verdict = "Different"
    elif comparison.unknown:
        verdict = "Incomplete"
    else:
        verdict = "Different as declared"
    return f"{verdict}: {', '.join(f'{count:,} {what}' for count, what in parts if count)}."


def _verb(count: int) -> str:
    return "differs" if count == 1 else "differ"


# --- Markdown --------------------------------------------------------------------------------------


def comparison_to_markdown(comparison: Comparison, *, limit: int = LIMIT) -> str:
    """The same for a comment on GitHub, in at most `limit` characters."""
    a, b = code(comparison.a, 80, cell=True), code(comparison.b, 80, cell=True)
    head = f"## kafkaform compare: {a} and {b}\n\n**{prose(_sentence(comparison))}**\n"
    lines = [*_inherited(comparison), *(line for one in comparison.differences for line in _lines(one))]
    blocks = (
        Block(
            "\n### Not readable\n\n",
            tuple(comparison.unknown.items()),
            lambda one: f"- {code(str(one[0]))}: {prose(one[1])}\n",
            lambda skipped: f"… {len(skipped):,} more left out",
            share=0.3,
        ),
        Block(
            f"\n| Resource | Field | {a} | {b} | |\n| --- | --- | --- | --- | --- |\n",
            lines,
            _markdown_row,
            lambda skipped: f"… {counted(len(skipped), 'more line')} left out; see `kafkaform compare`",
        ),
    )
    return head + fit_all(blocks, limit - len(head))


def _markdown_row(line: _Line) -> str:
    resource, name, a, b, remark = line
    cells = [code(text, 120, cell=True) if text else "" for text in (resource, name, a, b)]
    return f"| {' | '.join(cells)} | {code(remark, 200, cell=True) if remark else ''} |\n"


# --- JSON ------------------------------------------------------------------------------------------


def comparison_to_json(comparison: Comparison) -> str:
    """As JSON, with values as Kafka has them."""
    document = {
        "format_version": FORMAT_VERSION,
        "a": comparison.a,
        "b": comparison.b,
        "same": comparison.same,
        "differences": [_difference(one) for one in comparison.differences],
        "inherited": [
            {"kind": one.kind, "path": one.path, "a": one.a, "b": one.b, "resources": one.count}
            for one in comparison.inherited
        ],
        "unknown": [
            {"kind": ref.kind, "name": ref.name, "reason": why} for ref, why in comparison.unknown.items()
        ],
    }
    return json.dumps(document, indent=2)


def _difference(one: ResourceDifference) -> dict[str, object]:
    return {
        "kind": one.ref.kind,
        "name": one.ref.name,
        "in_a": one.in_a,
        "in_b": one.in_b,
        "as_declared": one.as_declared,
        "remark": one.remark or None,
        "fields": [_field(each) for each in one.fields],
    }


def _field(one: FieldDifference) -> dict[str, FieldValue]:
    return {
        "path": one.path,
        "a": one.a,
        "b": one.b,
        "effective_a": one.effective_a,
        "effective_b": one.effective_b,
        "same_effect": one.same_effect,
        "as_declared": one.as_declared,
        "remark": one.remark or None,
    }
