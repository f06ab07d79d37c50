"""From changes of topics to what a cluster is asked to do."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from kafkaform.cluster.kafka import readers
from kafkaform.cluster.kafka.writer import WRITERS, Checked
from kafkaform.cluster.testing import registry
from kafkaform.cluster.testing.registry import EFFECTS
from kafkaform.core import operations as core_operations
from kafkaform.core.model import SAFE, Create, Delete, FieldChange, FieldValue, Update
from kafkaform.core.operations import (
    AddPartitions,
    AlterConfigs,
    CreateTopic,
    DeleteTopic,
    Operation,
    Reassign,
)
from kafkaform.resources import KINDS
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


# --- tables ------------------------------------------------------------------------------------------


def test_every_operation_has_a_writer_and_an_effect_in_memory() -> None:
    classes = [found for found in vars(core_operations).values() if isinstance(found, type)]
    known = {found for found in classes if issubclass(found, Operation) and found is not Operation}
    moved_by_the_reassigner = {Reassign}
    assert {*WRITERS} == {*EFFECTS} == known - moved_by_the_reassigner
    # The brokers in memory are asked for a check where real ones are, and in the same order.
    checked = [sort for sort, writer in WRITERS.items() if isinstance(writer, Checked)]
    assert [sort for sort, effect in EFFECTS.items() if effect.checked] == checked
    assert [*WRITERS] == [*EFFECTS]


def test_every_kind_has_a_reader() -> None:
    assert readers.READERS.keys() == registry.READERS.keys() == KINDS.keys()


def test_no_operation_can_leave_out_what_is_said_of_it() -> None:
    @dataclass(frozen=True, slots=True)
    class Silent(Operation):
        pass

    with pytest.raises(TypeError, match="abstract"):
        Silent(A)  # type: ignore[abstract]
