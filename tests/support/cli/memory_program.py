"""The cluster in memory as the command line takes it."""

from collections.abc import Callable
from typing import Any

import pytest

from kafkaform.cli.session import Session
from kafkaform.core.model import CONFIG_PREFIX, ResourceRef
from kafkaform.core.operations import AlterConfigs
from kafkaform.core.partitions import Broker
from kafkaform.resources.topic.operations import DeleteTopic
from tests.support.cli.project import Project
from tests.support.memory_cluster.memory import MemoryCluster


class Connected(MemoryCluster):
    """As a session takes it: everything is at hand already."""

    def prefetch(self) -> Callable[[ResourceRef], None]:
        return lambda _: None

    def begin_audit(self) -> None:
        pass

    def delete_topic(self, name: str) -> None:
        ref = ResourceRef("Topic", name)
        assert self.execute([DeleteTopic(ref, self.observe([ref]).resources[ref].uid)]) == [None]


def use_memory(monkeypatch: pytest.MonkeyPatch, brokers: int = 1) -> Connected:
    """Let the commands and projects of a test use a cluster in memory, whatever they name."""
    cluster = Connected(brokers=[Broker(number, None) for number in range(1, brokers + 1)])

    def read_live(project: Project) -> dict[str, dict[str, Any]]:
        found = cluster.observe((), lambda ref: ref.name.startswith(project.prefix), kinds=["Topic"])
        return {
            ref.name.removeprefix(project.prefix): {"partitions": topic.state["partitions"]}
            | {p.removeprefix(CONFIG_PREFIX): v for p, v in topic.state.items() if CONFIG_PREFIX in p}
            for ref, topic in found.resources.items()
            if not topic.internal
        }

    def set_config(project: Project, name: str, key: str, value: str) -> None:
        ref = ResourceRef("Topic", project.prefix + name)
        assert cluster.execute([AlterConfigs(ref, {key: value})]) == [None]

    monkeypatch.setattr(Session, "cluster", lambda _: cluster)
    monkeypatch.setattr(Project, "live", read_live)
    monkeypatch.setattr(Project, "set_config", set_config)
    return cluster
