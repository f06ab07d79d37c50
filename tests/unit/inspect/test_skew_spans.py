"""Tests of the topics that are analysed, the reach of their logs, and their policies in manifests."""

import pytest

from kafkaform.core.errors import KafkaformError, PermissionDenied
from kafkaform.core.model import Desired, Intent, ResourceRef
from kafkaform.core.partitions import Broker, TopicPartition
from kafkaform.core.values import replace
from kafkaform.inspect.skew_input import (
    PartitionLog,
    TopicLogs,
    TopicSelection,
    choose,
    choose_by_pattern,
    cut_to_new_records,
    find_declared_partitions,
    find_limits,
    find_reader_groups,
    list_topics_with_policy,
    read_logs,
    read_new_records,
)
from kafkaform.resources.topic.operations import DeleteTopic
from spark_validation.analysis import ReaderGroup
from spark_validation.arrivals import TopicArrivals
from spark_validation.results import SkewLimits
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.scenes import absent, create_topic, declare_topic, topic

POLICY = {"maxPartitionRatio": 2.0, "maxKeyShare": 0.1, "by": "bytes"}


@pytest.fixture
def cluster() -> MemoryCluster:
    """Topics `orders` (3 partitions), `payments`, `_private` and one of Kafka's own."""
    memory = MemoryCluster()
    for name, partitions in (("orders", 3), ("payments", 1), ("_private", 1), ("__consumer_offsets", 1)):
        create_topic(memory, name, partitions)
    return memory


def declare_policy(name: str, **policy: object) -> Desired:
    """A declared topic with a skew policy."""
    return Desired(topic(name), {"partitions": 3}, Intent(spec={"skew": policy or POLICY}))


def group(name: str, *topics: str, **spec: object) -> Desired:
    return Desired(ResourceRef("ConsumerGroup", name), {}, Intent(spec={"topics": [*topics], **spec}))


def test_names_and_globs_select_topics_and_internal_only_by_name(cluster: MemoryCluster) -> None:
    ignore = ("_p*",)
    assert choose(cluster, ["orders"], [], ignore).topics == {"orders": 3}
    assert choose(cluster, ["*"], [], ignore).topics == {"orders": 3, "payments": 1}
    assert choose(cluster, ["*"], [], ()).topics == {"_private": 1, "orders": 3, "payments": 1}
    assert choose(cluster, ["_priv*"], [declare_topic("_private")], ignore).topics == {"_private": 1}
    chosen = choose(cluster, ["__consumer_offsets", "p*", "_private", "payments"], [], ignore)
    assert chosen.topics == {"__consumer_offsets": 1, "_private": 1, "payments": 1}
    assert not chosen.failed


def test_topics_with_policy_are_selected_by_default(cluster: MemoryCluster) -> None:
    desired = [declare_policy("orders"), declare_topic("payments"), absent("old"), group("g", "orders")]
    assert list_topics_with_policy(desired) == ["orders"]
    assert choose(cluster, [], desired, ()).topics == {"orders": 3}
    with pytest.raises(KafkaformError, match="no declared topic has a skew policy") as caught:
        choose(cluster, [], desired[1:], ())
    assert "skew: {maxPartitionRatio" in (caught.value.hint or "")


def test_missing_topic_suggests_nearest_name(cluster: MemoryCluster) -> None:
    with pytest.raises(KafkaformError, match="no topic 'order'") as caught:
        choose(cluster, ["payments", "order"], [], ())
    assert caught.value.hint == "did you mean orders?"
    with pytest.raises(KafkaformError, match=r"no topic matches '\*x'"):
        choose(cluster, ["payments", "*x"], [], ())


def test_missing_or_unauthorized_topic_does_not_stop_others(cluster: MemoryCluster) -> None:
    chosen = choose(cluster, [], [declare_policy("orders"), declare_policy("new")], ())
    assert chosen.topics == {"orders": 3}
    assert [*chosen.failed] == ["new"]
    assert "no topic 'new'" in chosen.failed["new"].message
    cluster.hide(topic("payments"))
    chosen = choose(cluster, ["orders", "payments"], [], ())
    assert chosen.topics == {"orders": 3}
    assert "not authorised" in chosen.failed["payments"].message
    assert "READ" in (chosen.failed["payments"].hint or "")


def test_patterns_select_equal_topics_without_configs(cluster: MemoryCluster) -> None:
    for globs in (["*"], ["ord*"], ["pay*", "ord*"]):
        by_name = choose(cluster, globs, [], ["internal-*"])
        assert choose_by_pattern(cluster, globs, ["internal-*"]) == TopicSelection(by_name.topics)
    with pytest.raises(KafkaformError, match="no topic matches 'x"):
        choose_by_pattern(cluster, ["*", "x*"], ())
    with pytest.raises(KafkaformError, match="no topic matches 'ord"):
        choose_by_pattern(cluster, ["ord*"], ["orders"])


WRITTEN, NOW = 1_000, 5_000


def test_spans_have_every_partition_with_bytes(cluster: MemoryCluster) -> None:
    for number in range(40):
        cluster.write("orders", 0, 1, WRITTEN + number)
        cluster.write("orders", 2, 1, WRITTEN + number)
    cluster.expire("orders", 2, 3)
    cluster.fill(topic("orders"), 31)
    reading = read_logs(cluster, {"orders": 3, "payments": 1}, NOW)
    assert reading.logs == {
        "orders": (
            PartitionLog(0, 4, 40, 11, 0, WRITTEN),
            PartitionLog(1, 0, 0, 10),
            PartitionLog(2, 4, 40, 10, 3, WRITTEN + 3),
        ),
        "payments": (PartitionLog(0, 0, 0, 0),),
    }
    assert not reading.failed
    assert not reading.notes


def test_partition_without_leader_fails_own_topic_only() -> None:
    memory = MemoryCluster(brokers=[Broker(1), Broker(2)])
    create_topic(memory, "orders", 4)
    create_topic(memory, "payments", 1)
    leaders = {n: read_logs(memory, {"orders": 4}, NOW).logs["orders"][n] for n in range(4)}
    assert len(leaders) == 4
    memory.stop_broker(1)
    reading = read_logs(memory, {"orders": 4, "payments": 1}, NOW)
    assert "orders" in reading.failed
    assert "2 partitions of 4 (0, 2)" in reading.failed["orders"].message
    assert "orders" not in reading.logs
    assert {*reading.logs} | {*reading.failed} == {"orders", "payments"}


@pytest.mark.parametrize(
    ("is_denied", "words"),
    [(True, "the bytes of partitions: "), (False, "the bytes of all partitions of orders: ")],
)
def test_logs_without_sizes_have_offsets(
    cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch, is_denied: bool, words: str
) -> None:
    def read_sizes(*_: object) -> dict[TopicPartition, int]:
        if is_denied:
            raise PermissionDenied("this account may not DESCRIBE the cluster")
        return {}  # brokers leave out what the account may not know

    monkeypatch.setattr(cluster, "partition_sizes", read_sizes)
    cluster.write("payments", 0, 7, WRITTEN)
    reading = read_logs(cluster, {"payments": 1}, NOW)
    assert reading.logs == {"payments": (PartitionLog(0, 0, 7, None, 0, WRITTEN),)}
    (note,) = reading.notes
    assert note.startswith(words.replace("orders", "payments"))


def test_limits_and_partitions_come_from_manifest() -> None:
    desired = [declare_policy("orders"), declare_topic("payments", 6), absent("old")]
    assert find_limits(desired, "orders") == SkewLimits(2.0, 0.1, None, "bytes")
    for name, partitions in (("payments", 6), ("old", None), ("unknown", None)):
        assert find_limits(desired, name) == SkewLimits()
        assert find_declared_partitions(desired, name) == partitions


def test_consumer_groups_with_known_members_are_listed() -> None:
    sticky = {"partition.assignment.strategy": "sticky,range"}
    ranged = {"client": {"group.remote.assignor": "range"}, "protocol": "consumer"}
    desired = [
        group("classic", "orders", members={"expected": 3}),
        group("sticky", "a", "orders", members={"expected": 4}, client=sticky),
        group("next", "orders", protocol="consumer", members={"expected": 2}),
        group("ranged", "orders", members={"expected": 5}, **ranged),
        group("elsewhere", "payments", members={"expected": 3}),
        group("unsaid", "orders"),
        group("most", "orders", members={"max": 3}),
        group("shared", "orders", protocol="share", members={"expected": 3}),
        replace(group("gone", "orders"), state=None),
    ]
    assert find_reader_groups(desired, "orders") == (
        ReaderGroup("classic", "range", 3),
        ReaderGroup("sticky", "sticky", 4),
        ReaderGroup("next", "uniform", 2),
        ReaderGroup("ranged", "range", 5),
    )


def test_log_end_moved_backwards_is_noted_and_not_counted() -> None:
    """As after an unclean leader election: offsets beyond the cut were lost, and may be given out again."""

    def read(*ends: int, at_ms: int) -> TopicLogs:
        logs = tuple(PartitionLog(number, 0, end) for number, end in enumerate(ends))
        arrivals = TopicArrivals("t", None, ends, ends, since_made=True, until_ms=at_ms, starts=(0, 0, 0))
        return TopicLogs({"t": logs}, arrivals={"t": arrivals})

    found = cut_to_new_records(read(1_520, 100, 100, at_ms=1_000), read(1_000, 150, 100, at_ms=11_000))
    assert [(log.start, log.end) for log in found.logs["t"]] == [(1_000, 1_000), (100, 150), (100, 100)]
    assert (found.arrivals["t"].counts, found.arrivals["t"].per_second) == ((0, 50, 0), 5.0)
    (note,) = found.notes
    assert note.startswith("offsets 1,000 to 1,519 of t:0")
    # The log is longer than before by now: only the epoch of its leader shows that it was cut short.
    found = cut_to_new_records(
        read(300, 100, 100, at_ms=1_000), read(300, 150, 100, at_ms=11_000), {("t", 0): 100}
    )
    assert found.arrivals["t"].counts == (200, 50, 0)
    assert [note for note in found.notes if "offsets 100 to 299 of t:0" in note]


def test_topic_recreated_during_watch_fails(cluster: MemoryCluster) -> None:
    cluster.write("payments", 0, 5, WRITTEN)
    cluster.write("orders", 0, 5, WRITTEN)
    before = read_logs(cluster, {"orders": 3, "payments": 1}, NOW)
    deleted = cluster.observe([topic("payments")]).resources[topic("payments")].uid
    cluster.execute([DeleteTopic(topic("payments"), deleted)])
    create_topic(cluster, "payments", 1)
    cluster.write("orders", 1, 7, NOW + 1)
    found = read_new_records(cluster, before, NOW + 2)
    assert {*found.logs} == {"orders"}
    assert found.arrivals["orders"].counts == (0, 7, 0)
    assert "deleted and made again" in found.failed["payments"].message
