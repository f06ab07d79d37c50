"""From changes of groups to what a cluster is asked to do."""

from __future__ import annotations

from kafkaform.core.model import SAFE, Create, Delete, FieldChange, ResourceRef, Update
from kafkaform.core.operations import AlterConfigs
from kafkaform.resources.consumer_group.fields import observed_state
from kafkaform.resources.consumer_group.operations import (
    CommitInitialOffsets,
    DeleteGroup,
    ResetOffsets,
    operations,
)
from kafkaform.resources.groups import Group, Position

REF = ResourceRef("ConsumerGroup", "g")
TIMEOUT, BEAT = "config.consumer.session.timeout.ms", "config.consumer.heartbeat.interval.ms"


def test_create_sets_configs_before_offsets() -> None:
    change = Create(REF, {TIMEOUT: "50000", BEAT: None, "offsets.a": "earliest", "offsets.b.c": "6h ago"})
    assert operations(change) == (
        AlterConfigs(REF, {"consumer.session.timeout.ms": "50000"}),
        CommitInitialOffsets(REF, {"a": "earliest", "b.c": "6h ago"}),
    )
    assert operations(Create(REF, {TIMEOUT: "50000"})) == (
        AlterConfigs(REF, {"consumer.session.timeout.ms": "50000"}),
    )
    assert operations(Create(REF, {"offsets.a": "latest"})) == (CommitInitialOffsets(REF, {"a": "latest"}),)


def test_update_sets_and_unsets_configs_and_commits_missing_offsets() -> None:
    fields = ((TIMEOUT, "45000", "50000"), (BEAT, "3000", None), ("offsets.a", None, "earliest"))
    assert operations(Update(REF, None, tuple(FieldChange(*field) for field in fields))) == (
        AlterConfigs(REF, {"consumer.session.timeout.ms": "50000"}, ("consumer.heartbeat.interval.ms",)),
        CommitInitialOffsets(REF, {"a": "earliest"}),
    )


def test_reset_sets_individual_partitions() -> None:
    moved = (FieldChange("offsets.orders.v1:3", 120, 0), FieldChange("offsets.orders.v1:10", None, 7))
    change = Update(REF, None, (*moved, FieldChange("offsets.a:0", 1, 2, deferred="later")))
    assert operations(change) == (ResetOffsets(REF, {("orders.v1", 3): 0, ("orders.v1", 10): 7}),)


def test_delete_removes_configs() -> None:
    group = Group("g", "consumer", "Empty", positions=(Position("a", 0, 5),))
    configs = {"consumer.session.timeout.ms": "1", "consumer.heartbeat.interval.ms": "2"}
    change = Delete(REF, None, observed_state(group, configs), SAFE)
    assert operations(change) == (
        DeleteGroup(REF, configs=("consumer.heartbeat.interval.ms", "consumer.session.timeout.ms")),
    )
    for configs in ({}, {"consumer.session.timeout.ms": "1"}):
        change = Delete(REF, None, observed_state(None, configs), SAFE)
        assert operations(change) == (DeleteGroup(REF, configs=tuple(configs)),)
