"""The clusters that keep the same promises."""

from typing import cast

import pytest

from kafkaform.cluster.kafka.cluster import KafkaCluster
from kafkaform.cluster.protocol import Cluster
from tests.support.memory_cluster.memory import MemoryCluster


@pytest.fixture(params=["memory", "kafka"])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """Either cluster; the one in memory lags, as the real one may at any time.

    A module whose promises are about another real one has a fixture `real_cluster` of its own.
    """
    if request.param == "kafka":
        return cast("KafkaCluster", request.getfixturevalue("real_cluster"))
    memory = MemoryCluster()
    memory.lag(2)
    return memory
