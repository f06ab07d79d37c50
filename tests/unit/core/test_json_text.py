"""JSON text is as Python writes it. A plan has no fractions: its reader refuses them."""

import json

from hypothesis import example, given
from hypothesis import strategies as st

from kafkaform.core.strict_json import encode_canonical
from kafkaform.plan.plan_file import format_json

SCALARS = st.none() | st.booleans() | st.integers() | st.text()
VALUES = st.recursive(
    SCALARS,
    lambda below: st.lists(below) | st.dictionaries(st.text(), below) | st.lists(below).map(tuple),
    max_leaves=30,
)


@given(VALUES)
@example({"a": [], "b": {}, "c": ()})
@example([[], [[]], {"": {"": [1]}}])
@example([2**64, -(2**63) - 1])
@example({"line\n\x7f\x9b\ud800": "\u2028\n"})
def test_json_encoding_matches_python(value: object) -> None:
    assert encode_canonical(value) == json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
    assert format_json(value) == json.dumps(value, indent=2, ensure_ascii=False) + "\n"
