"""Readers and waits of contract tests, for a cluster in memory or a real one."""

from collections.abc import Sequence

from kafkaform.cluster.protocol import Cluster
from kafkaform.core.errors import ClusterError, RequestRejected
from kafkaform.core.model import Observed, ResourceRef, State
from kafkaform.core.operations import AlterConfigs, Operation
from kafkaform.resources.topic.operations import CreateTopic
from tests.support.clusters.fixtures import eventually
from tests.support.plans.scenes import topic


def alter(ref: ResourceRef, *unset: str, **configs: str) -> AlterConfigs:
    """Set configs, by Kafka's name with underscores for dots, and unset others."""
    return AlterConfigs(ref, {name.replace("_", "."): value for name, value in configs.items()}, unset)


def new_topic(name: str, partitions: int = 1, replicas: int = 1, **configs: str) -> CreateTopic:
    """Build the creation of a topic; configs as for `alter`."""
    return CreateTopic(topic(name), partitions, replicas, alter(topic(name), **configs).set)


def list_codes(outcomes: Sequence[ClusterError | None]) -> list[str | None]:
    assert all(outcome is None or isinstance(outcome, RequestRejected) for outcome in outcomes), outcomes
    return [outcome.code if isinstance(outcome, RequestRejected) else None for outcome in outcomes]


def carry_out(cluster: Cluster, *operations: Operation) -> None:
    assert cluster.execute(operations) == [None] * len(operations)


def create_topics(cluster: Cluster, *operations: CreateTopic) -> list[Observed]:
    carry_out(cluster, *operations)
    refs = [operation.ref for operation in operations]
    observation = eventually(lambda: cluster.observe(refs), lambda o: o.resources.keys() == set(refs))
    return [observation.resources[ref] for ref in refs]


def wait_for_resource(cluster: Cluster, ref: ResourceRef, state: State) -> Observed:
    """Wait until a resource has this state, and return it."""
    return eventually(
        lambda: cluster.observe([ref]).resources, lambda found: ref in found and found[ref].state == state
    )[ref]


def wait_for_state(cluster: Cluster, ref: ResourceRef, state: State | None) -> None:
    """Wait until a reading, and one of fields, has this state and no other; None: there is no resource."""
    for read in (lambda: cluster.observe([ref]), lambda: cluster.observe_fields({ref: state or {"x": None}})):
        eventually(
            lambda read=read: read().resources,  # type: ignore[misc]
            lambda found: (found[ref].state if ref in found else None) == state,
        )


def wait_until_gone(cluster: Cluster, ref: ResourceRef) -> None:
    eventually(lambda: cluster.observe([ref]), lambda o: ref not in o.inventory)
