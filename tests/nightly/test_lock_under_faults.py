"""Whoever holds the lock writes, and nobody else: holders are frozen and killed, and brokers go and come."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from threading import Thread

import pytest
from confluent_kafka import TopicPartition

from kafkaform.cluster.wire.message_schema import (
    BOOLEAN,
    INT8,
    INT16,
    INT32,
    NULLABLE_STRING,
    STRING,
    array,
    message,
    struct,
)
from kafkaform.core.errors import LockHeld
from kafkaform.devcluster.cluster import DevCluster
from kafkaform.devcluster.releases import KAFKA_VERSION
from kafkaform.resources.topic.operations import CreateTopic
from tests.support.clusters.fixtures import TIMEOUT_S, connect, open_connection, start_guarded
from tests.support.clusters.group_clients import consumer
from tests.support.lock.process import ALICE, BOB, hold
from tests.support.lock.writer import find_late_writes
from tests.support.plans.scenes import topic

WRITERS = 8
FAULTS_S = 90.0
MAX_S = FAULTS_S
"""The time after which writers end even if too few have held the lock."""
SESSION_S = 6
WRITES = "writes"


@pytest.mark.nightly("two minutes of faults or more for each")
@pytest.mark.parametrize(
    "versions",
    [("3.9",), ("3.9", "3.9", "4.0"), (KAFKA_VERSION,)],
    ids=["3.9", "upgrade to 4.0", KAFKA_VERSION],
)
def test_frozen_holder_writes_late_once_at_most(versions: Sequence[str], tmp_path: Path) -> None:
    """The one that is past its proof when the holder is frozen, and its last."""
    with start_guarded(3, heap_mb=256, kafka_version=versions) as cluster:
        with connect(cluster.bootstrap_servers) as real:
            config = {"min.insync.replicas": "2"}
            assert real.execute([CreateTopic(topic(WRITES), 1, 3, config)]) == [None]
        until = time.time() + FAULTS_S
        with (tmp_path / "log").open("w") as log:
            faults = Thread(target=_disturb_brokers, args=(cluster, until - 3 * SESSION_S))
            faults.start()
            _disturb_writers(cluster.bootstrap_servers, until, until + MAX_S, log.fileno())
            faults.join()
        written = [*_read_written_holders(cluster.bootstrap_servers)]
    holders = [*dict.fromkeys(written)]
    assert len(holders) > WRITERS, (tmp_path / "log").read_text()
    late = find_late_writes(written)
    assert {holder: places for holder, places in late.items() if len(places) > 1} == {}
    for holder, (place,) in late.items():
        assert holder not in written[place + 1 :]


def _disturb_brokers(cluster: DevCluster, until: float) -> None:
    """Stop, kill and freeze one broker at a time."""
    while time.time() < until:
        time.sleep(random.uniform(5, 10))
        node = random.choice(cluster.status().nodes)
        fault = random.choice(["stop", "kill", "freeze"])
        if fault == "freeze":
            assert node.pid is not None
            os.kill(node.pid, signal.SIGSTOP)
            time.sleep(random.uniform(2, 2 * SESSION_S))
            os.kill(node.pid, signal.SIGCONT)
        else:
            cluster.stop_node(node.id, graceful=fault == "stop")
            cluster.start_node(node.id)


def _disturb_writers(servers: str, until: float, latest: float, log: int) -> None:
    """Run writers; freeze them, for longer than a session too, and kill them until a time.

    Then they go on undisturbed until there were more holders than writers, or until the latest time.
    """

    def start_process(number: int) -> subprocess.Popen[bytes]:
        arguments = (servers, WRITES, f"w{number}", str(SESSION_S), str(latest))
        command = [sys.executable, "-m", "tests.support.lock.writer", *arguments]
        return subprocess.Popen(command, stdout=log, stderr=log)

    writers = [start_process(number) for number in range(WRITERS)]
    frozen: dict[int, float] = {}
    try:
        while time.time() < until:
            time.sleep(random.uniform(0.1, 0.6))
            for number in [number for number, thawed in frozen.items() if time.time() > thawed]:
                writers[number].send_signal(signal.SIGCONT)
                del frozen[number]
            number = random.randrange(WRITERS)
            if number in frozen:
                continue
            if random.random() < 0.15:
                writers[number].kill()
                writers[number].wait()
                writers[number] = start_process(number)
            else:
                writers[number].send_signal(signal.SIGSTOP)
                frozen[number] = time.time() + random.choice([0.2, 1, 1.5 * SESSION_S, 2.5 * SESSION_S])
        for writer in writers:
            writer.send_signal(signal.SIGCONT)
        while time.time() < latest and len({*_read_written_holders(servers)}) <= WRITERS:
            time.sleep(1)
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()


def _read_written_holders(servers: str) -> Iterator[str]:
    """Yield the holders of all writes with the times of their locks, in the order of the log."""
    with closing(consumer(servers, "reader")) as client:
        _, end = client.get_watermark_offsets(TopicPartition(WRITES, 0), TIMEOUT_S)
        client.assign([TopicPartition(WRITES, 0, 0)])
        offset = 0
        while offset < end:
            record = client.poll(TIMEOUT_S)
            assert record is not None, "the log did not end"
            assert record.error() is None, record.error()
            value = record.value()
            assert value is not None
            yield value.decode()
            offset = (record.offset() or 0) + 1


_UPDATE_FEATURES = message(
    57,
    "UpdateFeatures",
    (1, 1),
    0,
    struct(
        timeout_ms=INT32,
        updates=array(struct(feature=STRING, level=INT16, upgrade_type=INT8)),
        validate_only=BOOLEAN,
    ),
    struct(
        throttle_ms=INT32,
        error_code=INT16,
        error_message=NULLABLE_STRING,
        results=array(struct(feature=STRING, error_code=INT16, error_message=NULLABLE_STRING)),
    ),
    changes=True,
)
_LEVELS = {"metadata.version": 25, "group.version": 1}
"""Those of Kafka 4.0."""


@pytest.mark.nightly("seven starts of brokers")
def test_upgrade_to_4_0_keeps_the_lock() -> None:
    with (
        start_guarded(3, heap_mb=256, kafka_version=("3.9", "3.9", "4.0")) as cluster,
        connect(cluster.bootstrap_servers) as real,
    ):
        with hold(real, ALICE) as guard:
            for node_id in (2, 1):
                cluster.stop_node(node_id)
                guard()
                cluster.start_node(node_id, kafka_version="4.0.0")
                guard()
            _check_refusal(cluster)
            with open_connection(cluster.bootstrap_servers) as connection:
                updates = [{"feature": f, "level": level, "upgrade_type": 1} for f, level in _LEVELS.items()]
                request = {"timeout_ms": 30_000, "updates": updates, "validate_only": False}
                answer = connection.send_to_controller(_UPDATE_FEATURES, request, TIMEOUT_S)
                assert [part["error_code"] for part in (answer, *answer["results"])] == [0, 0, 0], answer
            guard()
            _check_refusal(cluster)
            guard()
        with hold(real, BOB, TIMEOUT_S) as guard:
            guard()


def _check_refusal(cluster: DevCluster) -> None:
    """Somebody else is told who holds the lock, whichever broker it begins with."""
    for node in cluster.nodes:
        with (
            connect(node.address) as real,
            pytest.raises(LockHeld, match=f"held by {ALICE.who} "),
            hold(real, BOB),
        ):
            raise AssertionError
