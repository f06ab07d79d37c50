"""Live resources as manifests: kafkaform reads them back without finding a difference."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from kafkaform.config.manifest_text import build_live_manifest
from kafkaform.config.manifests.loader import Context, load
from kafkaform.core.model import Desired, FieldValue, Observed
from kafkaform.core.printable import printable
from kafkaform.plan.planning import plan_from
from kafkaform.resources.topic.operations import CreateTopic
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.config_values import CONFIG_VALUES
from tests.support.plans.scenes import create_topic, plan_for, topic


def read_back(text: str, folder: Path) -> Desired:
    file = folder / "live.yaml"
    file.write_text(text, "utf-8")
    (desired,) = load([file], Context())
    return desired


def test_topic_manifest_has_own_configs_in_units(golden: SnapshotAssertion) -> None:
    state: dict[str, FieldValue] = {
        "partitions": 3,
        "replicationFactor": 3,
        "config.retention.ms": "604800000",
        "config.retention.bytes": "53687091200",
        "config.cleanup.policy": "compact,delete",
        "config.min.insync.replicas": "2",
        "config.unclean.leader.election.enable": "false",
        "config.min.cleanable.dirty.ratio": "0.50",
        "config.max.message.bytes": "1048588",
        "config.segment.ms": "9223372036854775807",
    }
    manifest = build_live_manifest(Observed(topic("orders.v1"), "id", state))
    assert manifest.left_out == ()
    assert manifest.to_yaml() == golden(name="topic.yaml")


@given(st.fixed_dictionaries({}, optional=CONFIG_VALUES), st.integers(1, 50), st.integers(1, 3))
def test_plan_of_written_manifest_is_empty(
    tmp_path_factory: pytest.TempPathFactory, configs: dict[str, str], partitions: int, replicas: int
) -> None:
    with MemoryCluster() as cluster:
        assert cluster.execute([CreateTopic(topic("t"), partitions, replicas, configs)]) == [None]
        manifest = build_live_manifest(cluster.observe([topic("t")]).resources[topic("t")])
        assert manifest.left_out == ()
        for text in (manifest.to_yaml(), manifest.to_json()):
            plan = plan_for(cluster, read_back(text, tmp_path_factory.mktemp("live")))
            assert (plan.changes, plan.undeclared, plan.unchanged) == ((), (), 1)


ODD_WORDS = r"""
null ~ true no 0x10 0o17 010 1e3 1_000 12:30 .5 -1 +1 .inf 7d 1d2 2026-11-01 [a] {a} *a &a !a %a @a `a 'a'
"a" a\b ${HOME} $${env:X} \${x} 日本 é 😀 << = ? : - a, Null OFF y a:
"""
ODD = [
    *ODD_WORDS.split(),
    *("a: b", "a #b", "- a", "# a", "a\nb", "a\tb", "\x1b[31m", "\u202eabc", "\u2028", "\x85", "\ufeff"),
    *("", "x" * 300, "a b " * 60),
]


@pytest.mark.parametrize("value", ODD)
def test_odd_values_are_read_back(value: str, tmp_path: Path) -> None:
    """A vendor's config can hold anything: then the plan is empty, and nothing reaches the terminal raw."""
    ref = topic("t")
    state: dict[str, FieldValue] = {"partitions": 1, "replicationFactor": 1, "config.confluent.x": value}
    observed = Observed(ref, "id", state, state)
    manifest = build_live_manifest(observed)
    with MemoryCluster() as cluster:
        create_topic(cluster, "t", 1)
        seen = cluster.observe([ref])
        facts = cluster.facts()
    as_json = manifest.to_json()
    assert json.loads(as_json) == manifest.data
    # JSON has two escapes for one character beyond U+FFFF, of which YAML makes two characters.
    beyond = any(char > "\uffff" and printable(char) != char for char in value)
    for text in (manifest.to_yaml(), *(() if beyond else (as_json,))):
        assert all(printable(line) == line for line in text.split("\n"))
        desired = read_back(text, tmp_path)
        plan = plan_from([desired], type(seen)({ref: observed}, seen.inventory), facts)
        assert (plan.changes, plan.undeclared) == ((), ())
