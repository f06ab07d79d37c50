"""From changes of topics to what a cluster is asked to do."""

from __future__ import annotations

from importlib import import_module
from inspect import isabstract
from pkgutil import iter_modules

import pytest

from kafkaform import resources
from kafkaform.cluster.kafka import readers
from kafkaform.cluster.kafka.writer import WRITERS, UnvalidatedWriter
from kafkaform.cluster.services import SERVICES
from kafkaform.core.model import SAFE, Create, Delete, FieldChange, FieldValue, Update
from kafkaform.core.operations import AlterConfigs, Operation
from kafkaform.resources import KINDS
from kafkaform.resources.replicas.operations import Reassign
from kafkaform.resources.subject.operations import AlterSubject, DeleteSubject, PurgeSubject
from kafkaform.resources.topic.operations import AddPartitions, CreateTopic, DeleteTopic, operations
from tests.support.memory_cluster import registry
from tests.support.memory_cluster.registry import EFFECTS
from tests.support.plans.scenes import topic

A = topic("a")


def test_create_sets_what_is_set() -> None:
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


def test_update_alters_configs_before_it_adds_partitions() -> None:
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


def test_deferred_fields_are_left_out_and_a_delete_goes_by_id() -> None:
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
    assert operations(Delete(A, "id", {"partitions": 3}, SAFE)) == (DeleteTopic(A, "id"),)


def test_every_operation_has_a_writer_a_reader_and_its_words() -> None:
    packages = [name for _, name, is_package in iter_modules(resources.__path__) if is_package]
    modules = [import_module(f"{resources.__name__}.{name}.operations") for name in packages]
    classes = [found for module in modules for found in vars(module).values() if isinstance(found, type)]
    known = {found for found in classes if issubclass(found, Operation) and not isabstract(found)}
    elsewhere = {
        Reassign,
        AlterSubject,
        DeleteSubject,
        PurgeSubject,
    }  # by the reassigner, and by a schema registry
    assert {*WRITERS} == {*EFFECTS} == known - elsewhere
    # The brokers in memory are asked for a check where real ones are, and in the same order.
    checked = [sort for sort, writer in WRITERS.items() if not isinstance(writer, UnvalidatedWriter)]
    assert [sort for sort, effect in EFFECTS.items() if effect.checked] == checked
    assert [*WRITERS] == [*EFFECTS]
    assert readers.READERS.keys() == registry.READERS.keys() == KINDS.keys() - SERVICES.keys()

    # No operation can leave out what is said of it.
    class Silent(Operation):
        pass

    with pytest.raises(TypeError, match="abstract"):
        Silent(A)  # type: ignore[abstract]
