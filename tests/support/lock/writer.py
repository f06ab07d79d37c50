"""A process that takes the lock of a cluster again and again, and writes a record after each proof.

A record has the holder's name, and the time at which it had the lock (seconds since 1970).

It is given the cluster, a topic, its name, the seconds of a session, and when to end (seconds since 1970).
"""

import itertools
import logging
import os
import random
import sys
import time
from collections.abc import Mapping, Sequence

from confluent_kafka import Producer

from kafkaform.core import lock
from kafkaform.core.errors import ClusterError, LockHeld
from kafkaform.core.lock import Holder
from tests.support.clusters.fixtures import connect
from tests.support.lock.process import hold

_PATIENCE_S = 20.0
_WRITES = (3, 30, 300)


def find_late_writes(written: Sequence[str]) -> Mapping[str, Sequence[int]]:
    """Return the places of writes after the first one of a later holder.

    Who came later is told by the times at which they had the lock: the late write may be the first one.
    """
    ordered = sorted(dict.fromkeys(written), key=lambda holder: float(holder.split()[1]))
    rank = {holder: number for number, holder in enumerate(ordered)}
    late: dict[str, list[int]] = {}
    latest = 0
    for place, holder in enumerate(written):
        latest = max(latest, rank[holder])
        if rank[holder] < latest:
            late.setdefault(holder, []).append(place)
    return late


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
                    # Before the first proof: whoever passes one afterwards had the lock at this time.
                    value = f"{name} {time.time():.6f}"
                    for _ in range(random.choice(_WRITES)):
                        guard()
                        written: list[object] = []
                        producer.produce(topic, value, callback=lambda *told: written.append(told))  # noqa: B023
                        while not written:
                            producer.poll(0.05)
            # It is held or lost, or brokers are down: all of it is meant.
            except (ClusterError, LockHeld) as error:
                sys.stdout.write(f"{name}: {error.message}\n")


if __name__ == "__main__":
    main()
