"""Holders of the lock of a cluster, and one in a process of its own, which does as it is told, line by line.

That process says `held` or `refused …` first, after lines about who else holds it. Then `prove`,
`apply TOPIC…` and `flood PREFIX` are answered by a line each, and `end` by giving the lock back.
"""

import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, closing
from threading import Timer
from typing import Self

from kafkaform.apply import executor
from kafkaform.cluster.kafka.cluster import KafkaCluster
from kafkaform.cluster.kafka.lock_coordinator import Coordinator
from kafkaform.cluster.protocol import Cluster
from kafkaform.cluster.wire.group_messages import LEAVE_GROUP
from kafkaform.core import lock
from kafkaform.core.errors import KafkaformError, LockLost
from kafkaform.core.lock import NAME, Guard, Holder
from kafkaform.resources.topic.operations import CreateTopic
from tests.support.clusters.fixtures import connect, open_connection
from tests.support.plans.scenes import declare_topic, plan_for, topic

ALICE = Holder("alice@ci-3", "apply of plan 12ab", 4711)
BOB = Holder("bob@laptop", "apply of manifests")

_LIMIT_S = 90.0
"""How long any answer may take."""


def hold(cluster: Cluster, holder: Holder, timeout_s: float = 0.0) -> AbstractContextManager[Guard]:
    """Hold the lock, after waiting for it in silence."""
    return cluster.lock(holder, timeout_s=timeout_s, tell=lambda _: None)


class LockProcess:
    """That process, seen from a test.

    Args:
        servers: The cluster.
        who: What it calls itself.
        timeout_s: How long it waits for the lock.
    """

    def __init__(self, servers: str, who: str, timeout_s: float = 0.0) -> None:
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.support.lock.process"),
                *(servers, who, str(timeout_s), str(lock.SESSION_S)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def read_line(self) -> str:
        """The next line that it says; waits for it."""
        assert self.process.stdout is not None
        limit = Timer(_LIMIT_S, self.process.kill)
        limit.start()
        try:
            line = self.process.stdout.readline()
        finally:
            limit.cancel()
        assert line.endswith("\n"), f"it ended with {self.process.wait(_LIMIT_S)}, or was made to: {line!r}"
        return line.removesuffix("\n")

    def await_lock(self) -> list[str]:
        """Return the lines that it prints until it holds the lock."""
        lines = []
        while (line := self.read_line()) != "held":
            assert "is held by" in line, line
            lines.append(line)
        return lines

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def send_line(self, line: str) -> str:
        self.tell(line)
        return self.read_line()

    def end(self) -> str:
        """Let it give the lock back and end; returns the rest of what it says."""
        remaining, _ = self.process.communicate("end\n", timeout=_LIMIT_S)
        assert self.process.returncode == 0
        return remaining


def remove_holder(servers: str) -> None:
    """Take the lock from its holder, as a coordinator does at the end of a session, but at once."""
    with open_connection(servers) as opened, closing(Coordinator(opened.separate("test"))) as group:
        members = [{"member_id": member["member_id"]} for member in group.read_members()]
        answer = group.retry_until_ready(LEAVE_GROUP, {"group_id": NAME, "members": members})
    assert [member["error_code"] for member in answer["members"]] == [0]


def member_count(servers: str) -> int:
    with open_connection(servers) as opened, closing(Coordinator(opened.separate("test"))) as group:
        return len(group.read_members())


def main() -> None:
    servers, who, timeout_s, session_s = sys.argv[1:]
    lock.SESSION_S = int(session_s)
    with connect(servers) as cluster:
        try:
            with cluster.lock(Holder(who, "a test"), timeout_s=float(timeout_s), tell=say) as guard:
                say("held")
                for line in sys.stdin:
                    if line == "end\n":
                        break
                    say(answer(line.split(), cluster, guard))
        except KafkaformError as error:
            say(f"refused {error.message}")


def answer(words: Sequence[str], cluster: KafkaCluster, guard: Guard) -> str:
    match words:
        case ["prove"]:
            try:
                guard()
            except LockLost as lost:
                return f"lost {lost.message}"
            return "proven"
        case ["apply", *names]:
            report = executor.apply(
                plan_for(cluster, *map(declare_topic, names)), cluster, executor.ApplyOptions(guard=guard)
            )
            return " ".join(result.result.value for result in report.results)
        case ["flood", prefix]:
            say("flooding")
            return flood(prefix, cluster, guard)
        case _:
            raise ValueError(words)


def flood(prefix: str, cluster: KafkaCluster, guard: Guard) -> str:
    made, until = 0, time.monotonic() + _LIMIT_S
    while time.monotonic() < until:
        (outcome,) = cluster.execute([CreateTopic(topic(f"{prefix}{made:05}"), 1, 1, {})], guard)
        if isinstance(outcome, LockLost):
            return f"made {made}, then {outcome.message}"
        made += outcome is None
    return f"made {made}, and held it all the time"


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
