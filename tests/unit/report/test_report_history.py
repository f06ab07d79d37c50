"""The record in words and as JSON: one line for each fact, and harmless whatever is in it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from kafkaform.audit.entries import AuditRecord
from kafkaform.core.model import FieldValue, ResourceRef
from kafkaform.core.values import replace
from kafkaform.report.history import history_to_json, render_history
from tests.support.plans.audit import Story
from tests.support.plans.scenes import DAY, WEEK
from tests.support.plans.strategies import hostile_text, values

RETENTION = "config.retention.ms"


@pytest.fixture
def story() -> Story:
    return Story()


def test_results_other_than_applied_match_golden(story: Story, golden: SnapshotAssertion) -> None:
    fields: dict[str, tuple[FieldValue, FieldValue]] = {
        "partitions": (1, 2),
        RETENTION: (WEEK, DAY),
        "config.segment.ms": (None, "1"),
    }
    for result in (None, "failed", "moved", "not_tried", "already"):
        story.add("update", f"orders-{result}", fields, result=result, message="why")
    story.add("update", "half", fields, result="failed", done=[RETENTION])
    story.add("update", "done", fields, done=["partitions"])
    story.add("update", "unsure", fields, result="failed", in_doubt=[RETENTION], message="no answer")
    story.add("delete", "g", {f"offsets.orders:{n}": (n, None) for n in range(40)}, kind="ConsumerGroup")
    assert render_history(story.entries[::-1], 7).plain.rstrip("\n") == golden(name="results.txt")
    document = json.loads(history_to_json(story.entries, AuditRecord(tuple(story.entries))))
    (in_doubt,) = (change for change in document["changes"] if change["name"] == "unsure")
    assert [field["in_doubt"] for field in in_doubt["fields"]] == [False, True, False]


def test_clusters_are_named_if_several(story: Story) -> None:
    story.add("update", "orders", {"partitions": (1, 2)})
    assert "cluster" not in render_history(story.entries, 0).plain
    story.add("update", "orders", {"partitions": (1, 2)}, cluster_id="other")
    assert "  cluster other\n" in render_history(story.entries, 0).plain


@given(st.data())
def test_recorded_text_is_printable(data: st.DataObject) -> None:
    """Anybody who may write to the topic chooses all of it."""
    story = Story()
    text = hostile_text(min_size=1)
    entry = story.add(
        data.draw(st.sampled_from(["create", "update", "delete"])),
        data.draw(text),
        {data.draw(text): (data.draw(values()), data.draw(values()))},
        result=data.draw(st.sampled_from(["applied", "failed", None])),
        message=data.draw(hostile_text()),
        who=data.draw(text),
        host=data.draw(text),
        url=data.draw(text),
        commit=data.draw(text),
        environment=data.draw(text),
        cluster_id=data.draw(text),
        consents=((data.draw(text), data.draw(text)),),
    )
    assert isinstance(entry.ref, ResourceRef)
    for width in (None, 80):
        lines = render_history([entry, replace(entry, cluster_id="b")], 1, width=width).plain.split("\n")
        assert all(line.isprintable() for line in lines), lines
    for line in history_to_json([entry], AuditRecord()).splitlines():
        assert line.isascii()
