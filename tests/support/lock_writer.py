"""A process that takes the lock of a cluster again and again, and writes a record after each proof.

It is given the cluster, a topic, its name, the seconds of a session, and when to end (seconds since 1970).
"""

from __future__ import annotations

import itertools
import logging
import os
import random
import sys
import time

from confluent_kafka import Producer

from kafkaform.core import lock
from kafkaform.core.errors import ClusterError
from kafkaform.core.lock import Holder
from tests.support.kafka_fixtures import connect
from tests.support.lock_process import hold

_PATIENCE_S = 20.0
_WRITES = (3, 30, 300)


def main() -> None:
    servers, topic, who, session_s, until = sys.argv[1:]
    lock.SESSION_S = int(session_s)
    producer = Producer(
        {"bootstrap.servers": servers, "acks": "all", "linger.ms": 0, "logger": logging.getLogger("writer")}
    )
    with connect(servers) as cluster:
        for number in itertools.count():
            if time.time() > float(until):
                break
            name = f"{who}-{os.getpid()}-{number}"
            try:
                with hold(cluster, Holder(name), _PATIENCE_S) as guard:
                    for _ in range(random.choice(_WRITES)):
                        guard()
                        written: list[object] = []
                        producer.produce(topic, name, callback=lambda *told: written.append(told))  # noqa: B023
                        while not written:
                            producer.poll(0.05)
            except ClusterError as error:  # the lock is held or lost, or brokers are down: all of it is meant
                sys.stdout.write(f"{name}: {error.message}\n")


if __name__ == "__main__":
    main()
