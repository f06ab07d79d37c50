"""A comparison of two clusters or environments as text, JSON and Markdown."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from kafkaform.core.model import FieldChange, FieldValue, ResourceRef, Update
from kafkaform.core.wording import counted
from kafkaform.inspect.comparison import PROTOCOL, Comparison, FieldDifference, ResourceDifference
from kafkaform.report.document import Column, Item, ReportDocument, Role, Section, TextSpan, count_left_out
from kafkaform.report.markdown import LIMIT, write_markdown
from kafkaform.report.page import Page, render_page
from kafkaform.resources import KINDS
from kafkaform.resources.values import format_field, label

if TYPE_CHECKING:
    from collections.abc import Iterator

FORMAT_VERSION = 1

_MIN_WIDTH = 16
_DONE = "as declared"
_SEE = "see `kafkaform compare`"


def render_comparison(comparison: Comparison, *, width: int | None = None) -> Page:
    """Render the comparison for a terminal of `width` columns; None if the output is no terminal."""
    return render_page(_build(comparison), width=width)


def comparison_to_markdown(comparison: Comparison, *, limit: int = LIMIT) -> str:
    """Return the comparison as Markdown of at most `limit` characters, for a comment on GitHub."""
    return write_markdown(_build(comparison), limit=limit)


def _build(comparison: Comparison) -> ReportDocument:
    columns = [
        Column("Resource", least=_MIN_WIDTH),
        Column("Field", least=_MIN_WIDTH),
        Column(comparison.a, least=_MIN_WIDTH, role=Role.CODE),
        Column(comparison.b, least=_MIN_WIDTH, role=Role.CODE),
        Column("", least=_MIN_WIDTH),
    ]
    rows = [*_inherited_rows(comparison)]
    for difference in comparison.differences:
        rows += _difference_rows(difference)
    sides = [TextSpan(side, Role.CODE, 80) for side in (comparison.a, comparison.b)]
    return ReportDocument(
        ["kafkaform compare: ", sides[0], " and ", sides[1]],
        (
            Section(
                tuple(comparison.unknown.items()),
                lambda pair: Item(["not read: ", TextSpan(str(pair[0]), Role.CODE)], pair[1], gap=": "),
                count_left_out("resource", _SEE),
                share=0.3,
            ),
            Section(rows, lambda row: row, count_left_out("line", _SEE), columns=columns),
        ),
        summary=TextSpan(summarise_comparison(comparison), Role.STRONG),
    )


def _row(resource: str, field: str, a: str, b: str, remark: str) -> tuple[TextSpan, ...]:
    roles = (Role.NAME, Role.CODE, Role.CODE, Role.CODE, Role.MUTED if remark == _DONE else Role.WARNING)
    texts = (resource, field, a, b, remark)
    return tuple(TextSpan(text, role, 200) for text, role in zip(texts, roles, strict=True))


def _difference_rows(difference: ResourceDifference) -> Iterator[tuple[TextSpan, ...]]:
    title = str(difference.ref)
    if not difference.fields:
        shown = _describe_resource(difference)
        a, b = (shown if has else "(missing)" for has in (difference.in_a, difference.in_b))
        yield _row(title, "", a, b, _DONE if difference.as_declared else difference.note)
    for number, field in enumerate(difference.fields):
        values = _format_values(difference.ref, field)
        effect = "same effective value" if field.same_effect else ""
        note = _DONE if field.as_declared else field.note
        comment = "; ".join(filter(None, (effect, note)))
        # The name stands in the first row of a resource only, so that its fields read as one group.
        yield _row("" if number else title, label(field.path), *values, comment)


def _describe_resource(difference: ResourceDifference) -> str:
    """Describe a resource that exists on one side only: the counts of a topic, the protocol of a group."""
    partitions, replicas = map(difference.state.get, ("partitions", "replicationFactor"))
    if isinstance(partitions, int):
        return counted(partitions, "partition") + (f", RF {replicas}" if replicas else "")
    return str(difference.state.get(PROTOCOL, "there"))


def _inherited_rows(comparison: Comparison) -> Iterator[tuple[TextSpan, ...]]:
    for inherited in comparison.inherited:
        values = _format_values(
            ResourceRef(inherited.kind, ""),
            FieldDifference(inherited.path, None, None, inherited.a, inherited.b),
        )
        noun = KINDS[inherited.kind].words.noun
        verb = "inherits it" if inherited.count == 1 else "inherit it"
        comment = f"{counted(inherited.count, noun)} {verb}"
        yield _row("(broker defaults)", label(inherited.path), *values, comment)


def _format_values(ref: ResourceRef, field: FieldDifference) -> tuple[str, str]:
    """Return the values of both sides as plans word them."""
    # As a change from one side to the other, values are worded as plans word them.
    change = FieldChange(field.path, field.a, field.b, field.effective_a, field.effective_b)
    shown = [side.short for side in format_field(Update(ref, None, (change,)), change).sides]
    return shown[0], shown[1]


def summarise_comparison(comparison: Comparison) -> str:
    """Return the verdict of a comparison and the numbers behind it, in a sentence."""
    differences = comparison.differences
    if not differences and not comparison.inherited and not comparison.unknown:
        return f"The same: {counted(comparison.same, 'resource')}."
    expected = sum(difference.as_declared for difference in differences)
    parts = (
        (sum(not difference.in_b for difference in differences), f"only in {comparison.a}"),
        (sum(not difference.in_a for difference in differences), f"only in {comparison.b}"),
        (both := sum(difference.in_a and difference.in_b for difference in differences), _verb(both)),
        (expected, "of these as declared"),
        (
            inherited := len(comparison.inherited),
            f"inherited {'value' if inherited == 1 else 'values'} {_verb(inherited)}",
        ),
        (comparison.same, "the same"),
        (len(comparison.unknown), "not known"),
    )
    # In this order: what differs is certain, even if something could not be read.
    if comparison.unexpected:
        verdict = "Different"
    elif comparison.unknown:
        verdict = "Incomplete"
    else:
        verdict = "Different as declared"
    return f"{verdict}: {', '.join(f'{count:,} {words}' for count, words in parts if count)}."


def _verb(count: int) -> str:
    return "differs" if count == 1 else "differ"


# --- JSON ------------------------------------------------------------------------------------------


def comparison_to_json(comparison: Comparison) -> str:
    """Return the comparison as JSON, with the values that Kafka returns."""
    document = {
        "format_version": FORMAT_VERSION,
        "a": comparison.a,
        "b": comparison.b,
        "same": comparison.same,
        "differences": [_difference_to_json(difference) for difference in comparison.differences],
        "inherited": [
            {"kind": i.kind, "path": i.path, "a": i.a, "b": i.b, "resources": i.count}
            for i in comparison.inherited
        ],
        "unknown": [
            {"kind": ref.kind, "name": ref.name, "reason": reason}
            for ref, reason in comparison.unknown.items()
        ],
    }
    return json.dumps(document, indent=2)


def _difference_to_json(difference: ResourceDifference) -> dict[str, object]:
    return {
        "kind": difference.ref.kind,
        "name": difference.ref.name,
        "in_a": difference.in_a,
        "in_b": difference.in_b,
        "as_declared": difference.as_declared,
        "remark": difference.note or None,
        "fields": [_field_to_json(field) for field in difference.fields],
    }


def _field_to_json(field: FieldDifference) -> dict[str, FieldValue]:
    return {
        "path": field.path,
        "a": field.a,
        "b": field.b,
        "effective_a": field.effective_a,
        "effective_b": field.effective_b,
        "same_effect": field.same_effect,
        "as_declared": field.as_declared,
        "remark": field.note or None,
    }
