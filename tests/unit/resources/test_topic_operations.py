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
from kafkaform.core.model import SAFE, Create, Delete, FieldChange, State, Update
from kafkaform.core.operations import AlterConfigs, Operation
from kafkaform.resources import KINDS
from kafkaform.resources.replicas.operations import Reassign
from kafkaform.resources.subject.operations import AlterSubject, DeleteSubject, PurgeSubject
from kafkaform.resources.topic.operations import AddPartitions, CreateTopic, DeleteTopic, operations
from tests.support.memory_cluster import registry
from tests.support.memory_cluster.registry import EFFECTS
from tests.support.plans.scenes import topic

A = topic("a")


RETENTION, SEGMENT, CLEANUP = "config.retention.ms", "config.segment.ms", "config.cleanup.policy"
MIN_ISR = "config.min.insync.replicas"


def test_create_sets_configs_without_null_values() -> None:
    counts: State = {"partitions": 6, "replicationFactor": 3}
    change = Create(A, {**counts, RETENTION: "1000", CLEANUP: "", SEGMENT: None})
    assert operations(change) == (CreateTopic(A, 6, 3, {"retention.ms": "1000", "cleanup.policy": ""}),)


def test_update_alters_configs_before_adding_partitions() -> None:
    configs = ((RETENTION, "1", "2"), (SEGMENT, "1", None), (CLEANUP, None, ""))
    fields = (FieldChange("partitions", 3, 6), *(FieldChange(*config) for config in configs))
    assert operations(Update(A, "id", fields)) == (
        AlterConfigs(A, {"retention.ms": "2", "cleanup.policy": ""}, ("segment.ms",)),
        AddPartitions(A, 3, 6),
    )


def test_deferred_fields_are_omitted_and_delete_uses_id() -> None:
    replicas = FieldChange("replicationFactor", 1, 3, deferred="later")
    min_isr = FieldChange(MIN_ISR, "1", "2", deferred="later")
    retention = FieldChange(RETENTION, "1", "2")
    altered = (AlterConfigs(A, {"retention.ms": "2"}),)
    assert operations(Update(A, "id", (replicas, min_isr, retention))) == altered
    assert operations(Update(A, "id", (replicas, min_isr))) == ()
    assert operations(Delete(A, "id", {"partitions": 3}, SAFE)) == (DeleteTopic(A, "id"),)


def test_every_operation_has_writer_reader_and_effect() -> None:
    packages = [name for _, name, is_package in iter_modules(resources.__path__) if is_package]
    modules = [import_module(f"{resources.__name__}.{name}.operations") for name in packages]
    classes = [found for module in modules for found in vars(module).values() if isinstance(found, type)]
    known = {found for found in classes if issubclass(found, Operation) and not isabstract(found)}
    elsewhere = {Reassign, AlterSubject, DeleteSubject, PurgeSubject}  # by the reassigner and the registry
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
