"""Batches stay below what a controller writes for one request."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaform.core.model import ResourceRef
from kafkaform.core.operations import MAX_WEIGHT, AlterConfigs, Operation, batches
from kafkaform.resources.consumer_group.operations import CommitInitialOffsets, DeleteGroup, ResetOffsets
from kafkaform.resources.replicas.operations import Reassign
from kafkaform.resources.topic.operations import AddPartitions, CreateTopic, DeleteTopic
from tests.support.builds import builds
from tests.support.memory_cluster.memory import MemoryCluster

REF = ResourceRef("Topic", "a")
COUNTS = st.integers(1, 40)
CONFIGS = st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=5)
OPERATIONS: st.SearchStrategy[Operation] = st.one_of(
    builds(CreateTopic, st.just(REF), COUNTS, COUNTS, CONFIGS),
    builds(AlterConfigs, st.just(REF), CONFIGS),
    builds(lambda present, more: AddPartitions(REF, present, present + more), COUNTS, COUNTS),
    st.just(DeleteTopic(REF, "id")),
)


@given(st.lists(OPERATIONS, max_size=40), st.integers(1, 100))
def test_batches_are_full_and_in_order(operations: list[Operation], limit: int) -> None:
    made = list(batches(operations, limit))
    assert [operation for batch in made for operation in batch] == operations
    assert all(made)
    weights = [sum(operation.weight for operation in batch) for batch in made]
    assert all(len(batch) == 1 or weight <= limit for batch, weight in zip(made, weights, strict=True))
    # No batch could have taken the next operation.
    assert all(weight + batch[0].weight > limit for weight, batch in zip(weights, made[1:], strict=False))


@pytest.mark.parametrize(
    ("operation", "weight"),
    [
        # An operation weighs as many records as it asks for.
        (CreateTopic(REF, 12, 3, {"retention.ms": "1", "segment.ms": "1"}), 15),
        (CreateTopic(REF, -1, -1, {}), 2),
        (AlterConfigs(REF, {"retention.ms": "1"}, ("segment.ms",)), 3),
        (AddPartitions(REF, 3, 10), 8),
        # Replicas of a partition are in one record, however many there are and whoever chose them.
        (CreateTopic(REF, 2, 3, {}, ((1, 2, 3), (2, 3, 1))), 3),
        (AddPartitions(REF, 3, 5, ((1, 2, 3), (2, 3, 1))), 3),
        (Reassign(REF, {0: (1,), 4: (2,)}, {0: (1, 2), 4: (2, 3)}), 3),
        (DeleteTopic(REF, "id"), 1),
        (CommitInitialOffsets(REF, {"a": "earliest", "b": "latest"}), 3),
        (ResetOffsets(REF, {("a", 0): 1, ("a", 1): 2, ("b", 0): 3}), 4),
        (DeleteGroup(REF, ("consumer.session.timeout.ms",)), 2),
    ],
)
def test_operation_weight_counts_records(operation: Operation, weight: int) -> None:
    assert operation.weight == weight


def test_batches_pass_controller_limit() -> None:
    refs = [ResourceRef("Topic", f"t{number}") for number in range(1_000)]
    operations: list[Operation] = [CreateTopic(ref, 12, 1, {}) for ref in refs]
    assert None not in MemoryCluster().execute(operations)
    cluster = MemoryCluster()
    made = list(batches(operations))
    assert [outcome for batch in made for outcome in cluster.execute(batch)] == [None] * 1_000
    assert len(made) == 3
    assert max(sum(operation.weight for operation in batch) for batch in made) <= MAX_WEIGHT
    assert list(batches([])) == []
    assert [*map(len, batches([DeleteTopic(REF, "id")] * 6, 2))] == [2, 2, 2]
