"""Tests of the interface of a kind, with one that is not among those of this version."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kafkaform.config.manifests.editing import Edit, edit_manifests
from kafkaform.config.manifests.loader import Context
from kafkaform.core.config_values import ConfigKey, ConfigType
from kafkaform.core.model import Desired, FieldChange, FieldValue, Location, ResourceRef, Update
from kafkaform.core.schema_files import find_marked
from kafkaform.core.values import replace
from kafkaform.inspect.drift import FieldDrift, find_obstacle
from kafkaform.report.graph import build_graph, render_dot
from kafkaform.resources import KINDS
from kafkaform.resources.base import Field
from kafkaform.resources.consumer_group import ConsumerGroupKind
from kafkaform.resources.values import format_field, format_value
from kafkaform.rules.policy_fields import field_key


class _Field(Field):
    def undeclarable(self, value: FieldValue) -> str | None:
        return f"{value} is measured" if self.path == "load" else None

    def describe(self, before: FieldValue, after: FieldValue) -> tuple[str, tuple[str, ...]] | None:
        return (f"{before} becomes {after}", ("at once",)) if self.path == "rate" else None


class QuotaKind(ConsumerGroupKind):
    """A kind that differs from all others in what is asked of it here."""

    name = "Quota"
    words = replace(ConsumerGroupKind.words, noun="quota", shape="cylinder")
    schema = "topic"

    def field(self, path: str) -> Field:
        return _Field(self, path)

    @staticmethod
    def config_keys() -> Mapping[str, ConfigKey]:
        return {"window.ms": ConfigKey("window.ms", ConfigType.LONG)}

    def is_vendor(self, name: str) -> bool:
        return name == "odd"

    def policy_fields(self) -> Mapping[str, ConfigKey]:
        return {"burst.bytes": ConfigKey("burst.bytes", ConfigType.LONG)}


QUOTA = ResourceRef("Quota", "q")


@pytest.fixture(autouse=True)
def _quota(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "Quota", QuotaKind())


def test_values_are_formatted_by_their_kind() -> None:
    assert format_value("Quota", "config.window.ms", "604800000").human == "7d"
    assert format_value("Quota", "config.retention.ms", "604800000").human == "604800000"
    change = Update(QUOTA, None, (FieldChange("rate", 1, 2), FieldChange("placement", "1", "2")))
    rate, placement = (format_field(change, field) for field in change.fields)
    assert (rate.short, rate.each) == ("1 becomes 2", ("at once",))
    assert placement.short == "1 → 2"


def test_graph_shape_follows_kind() -> None:
    assert '  quota_q [shape=cylinder, label="q"];' in render_dot(build_graph([Desired(QUOTA, {})]))


def test_edits_are_limited_to_declarable_fields() -> None:
    quota = Desired(QUOTA, {}, location=Location("a.yaml"))
    edits = [Edit(QUOTA, "rate", 3), Edit(QUOTA, "partitions", None), Edit(QUOTA, "partitions", "2-3")]
    refused = dict(edit_manifests(edits, [quota], Context()).refused)
    assert [*refused] == edits
    assert "always has partitions" in refused[edits[1]]
    assert find_obstacle(quota, FieldDrift(FieldChange("load", 7, 1), declared=True)) == "load: 7 is measured"
    assert find_obstacle(quota, FieldDrift(FieldChange("placement", "1", "2"), declared=True)) is None


def test_policies_accept_fields_of_kind() -> None:
    known = ("config.window.ms", "burst.bytes", "config.odd", "partitions")
    assert all(field_key("Quota", path) is not None for path in known)
    unknown = ("config.retention.ms", "config.confluent.x", "client.max.poll.records")
    assert not any(field_key("Quota", path) for path in unknown)


@pytest.mark.parametrize(
    ("keyword", "expected"),
    [
        ("x-required", {"topic": {"partitions", "replicationFactor"}, "consumergroup": {"topics"}}),
        ("x-verbatim", {"topic": {"retention"}, "consumergroup": {"client", "offsets"}}),
        ("x-secret", {"user": {"password"}}),
    ],
)
def test_schemas_mark_required_verbatim_and_secret_fields(
    keyword: str, expected: dict[str, set[str]]
) -> None:
    schemas = [kind.schema for kind in KINDS.values()]
    assert {name: {*marked} for name in schemas if (marked := find_marked(name, keyword))} == expected
