"""Batches stay below what a controller writes for one request."""

from __future__ import annotations

from itertools import pairwise

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
def test_every_operation_is_in_one_batch_in_order(operations: list[Operation], limit: int) -> None:
    made = list(batches(operations, limit))
    assert [operation for batch in made for operation in batch] == operations
    assert all(made)


@given(st.lists(OPERATIONS, max_size=40), st.integers(1, 100))
def test_no_batch_is_too_heavy_but_one_that_cannot_be_cut(operations: list[Operation], limit: int) -> None:
    for batch in batches(operations, limit):
        assert len(batch) == 1 or sum(operation.weight for operation in batch) <= limit


@given(st.lists(OPERATIONS, max_size=40), st.integers(1, 100))
def test_no_batch_could_have_taken_the_next_operation(operations: list[Operation], limit: int) -> None:
    made = list(batches(operations, limit))
    for batch, following in pairwise(made):
        assert sum(operation.weight for operation in batch) + following[0].weight > limit


def test_batch_is_filled_to_the_weight_that_a_controller_takes() -> None:
    operations: list[Operation] = [DeleteTopic(REF, str(number)) for number in range(7)]
    assert list(map(len, batches(operations, 3))) == [3, 3, 1]
    # An operation weighs as many records as it asks for.
    assert CreateTopic(REF, 12, 3, {"retention.ms": "1", "segment.ms": "1"}).weight == 15
    assert CreateTopic(REF, -1, -1, {}).weight == 2
    assert AlterConfigs(REF, {"retention.ms": "1"}, ("segment.ms",)).weight == 3
    assert AddPartitions(REF, 3, 10).weight == 8
    # Replicas of a partition are in one record, however many there are and whoever chose them.
    assert CreateTopic(REF, 2, 3, {}, ((1, 2, 3), (2, 3, 1))).weight == 3
    assert AddPartitions(REF, 3, 5, ((1, 2, 3), (2, 3, 1))).weight == 3
    assert Reassign(REF, {0: (1,), 4: (2,)}, {0: (1, 2), 4: (2, 3)}).weight == 3
    assert DeleteTopic(REF, "id").weight == 1
    assert CommitInitialOffsets(REF, {"a": "earliest", "b": "latest"}).weight == 3
    assert ResetOffsets(REF, {("a", 0): 1, ("a", 1): 2, ("b", 0): 3}).weight == 4
    assert DeleteGroup(REF, ("consumer.session.timeout.ms",)).weight == 2
    # What a controller refuses at once it takes in batches.
    operations = [CreateTopic(ResourceRef("Topic", f"t{number}"), 12, 1, {}) for number in range(1_000)]
    assert None not in MemoryCluster().execute(operations)
    cluster = MemoryCluster()
    made = list(batches(operations))
    assert [outcome for batch in made for outcome in cluster.execute(batch)] == [None] * 1_000
    assert len(made) == 3
    assert max(sum(operation.weight for operation in batch) for batch in made) <= MAX_WEIGHT
    assert list(batches([])) == []
