"""From changes of topics to what a cluster is asked to do."""

from __future__ import annotations

from kafkaform.core.model import SAFE, Create, Delete, FieldChange, FieldValue, Update
from kafkaform.core.operations import AddPartitions, AlterConfigs, CreateTopic, DeleteTopic
from kafkaform.resources.topic.operations import operations
from tests.support.scenes import topic

A = topic("a")


def test_a_create_sets_what_is_set() -> None:
    state: dict[str, FieldValue] = {
        "partitions": 6,
        "replicationFactor": 3,
        "config.retention.ms": "1000",
        "config.cleanup.policy": "",
        "config.segment.ms": None,
    }
    assert operations(Create(A, state)) == (
        CreateTopic(A, 6, 3, {"retention.ms": "1000", "cleanup.policy": ""}),
    )


def test_an_update_alters_configs_before_it_adds_partitions() -> None:
    change = Update(
        A,
        "id",
        (
            FieldChange("partitions", 3, 6),
            FieldChange("config.retention.ms", "1", "2"),
            FieldChange("config.segment.ms", "1", None),
            FieldChange("config.cleanup.policy", None, ""),
        ),
    )
    assert operations(change) == (
        AlterConfigs(A, {"retention.ms": "2", "cleanup.policy": ""}, ("segment.ms",)),
        AddPartitions(A, 3, 6),
    )


def test_deferred_fields_are_left_out() -> None:
    change = Update(
        A,
        "id",
        (
            FieldChange("replicationFactor", 1, 3, deferred="later"),
            FieldChange("config.min.insync.replicas", "1", "2", deferred="later"),
            FieldChange("config.retention.ms", "1", "2"),
        ),
    )
    assert operations(change) == (AlterConfigs(A, {"retention.ms": "2"}),)
    assert operations(Update(A, "id", change.fields[:2])) == ()


def test_a_delete_goes_by_id() -> None:
    assert operations(Delete(A, "id", {"partitions": 3}, SAFE)) == (DeleteTopic(A, "id"),)
