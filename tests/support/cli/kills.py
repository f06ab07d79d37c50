"""An apply during which a process is killed at a step: kafkaform itself, or a broker, which is started again.

As a program: kafkaform, with the step, the moment and the process to kill before its arguments.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import psutil

from kafkaform.apply import executor
from kafkaform.cli.main import run
from kafkaform.cluster.kafka.cluster import KafkaCluster
from kafkaform.devcluster.cluster import DevCluster
from tests.support.cli.project import ROOT, Call, Project, environment
from tests.support.clusters.fixtures import eventually
from tests.support.clusters.guard import is_alive

AUDITED = {"KAFKAFORM_AUDIT": "true"}
_OWN_PROCESS = "0"
_LIMIT_S = 180
_VERIFICATION_S = 5.0
"""Instead of 30 s: what a killed broker has not carried out never shows."""


class Kill(NamedTuple):
    """A process to be killed once during an apply.

    Attributes:
        step: The class of an operation, or `intent` or `result`: that the record of applies is written.
        moment: `before` or `after` the step.
        victim: `tool` or `broker`.
        is_locked: Whether the apply holds the lock.
    """

    step: str
    moment: str = "before"
    victim: str = "tool"
    is_locked: bool = False

    def __str__(self) -> str:
        return f"{self.victim} {self.moment} {self.step}{', with the lock' if self.is_locked else ''}"

    @property
    def options(self) -> list[str]:
        """The options of applies; a holder that was killed loses the lock after its session."""
        return ["--lock-timeout", "2m"] if self.is_locked else ["--no-lock"]


def run_killed_apply(
    project: Project, kill: Kill, *arguments: object, kafka: DevCluster | None = None
) -> Call:
    """Apply; returns once it has ended, and the broker that was killed responds again."""
    broker = None
    if kill.victim == "broker":
        assert kafka is not None
        (node,) = kafka.status().nodes
        broker = psutil.Process(node.pid)
    given = project.add_cluster(["apply", *arguments, "--auto-approve", *kill.options])
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "tests.support.cli.kills", kill.step, kill.moment),
            *(_OWN_PROCESS if broker is None else str(broker.pid), *map(str, given)),
        ],
        cwd=project.folder,
        env=environment(PYTHONPATH=str(ROOT), **AUDITED),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        if kafka is not None and broker is not None:
            eventually(lambda: is_alive(broker), lambda alive: not alive or process.poll() is not None)
            assert not is_alive(broker), process.communicate()
            kafka.start_node(1)
        out, err = process.communicate(timeout=_LIMIT_S)
    finally:
        process.kill()
        process.wait()
    return Call(process.returncode, out, err)


def main() -> None:
    step, moment, pid, *arguments = sys.argv[1:]
    pending = [step]

    def watch(method: Callable[..., Any], name_step: Callable[[Sequence[Any]], str]) -> Callable[..., Any]:
        def call(cluster: KafkaCluster, work: Sequence[Any], *guard: object) -> Any:
            reached = pending == [name_step(work)]
            if reached and moment == "before":
                kill_once()
            outcome = method(cluster, work, *guard)
            if reached and moment == "after":
                kill_once()
            return outcome

        return call

    def kill_once() -> None:
        pending.clear()
        os.kill(os.getpid() if pid == _OWN_PROCESS else int(pid), signal.SIGKILL)

    KafkaCluster.execute = watch(KafkaCluster.execute, lambda work: type(work[0]).__name__)  # type: ignore[method-assign]
    KafkaCluster.append_audit = watch(  # type: ignore[method-assign]
        KafkaCluster.append_audit, lambda lines: str(json.loads(lines[0])["record"])
    )
    executor.VERIFY_TIMEOUT_S = _VERIFICATION_S
    sys.exit(run(arguments))


if __name__ == "__main__":
    main()
