"""An apply in which each sort of thing happens."""

from __future__ import annotations

from collections.abc import Collection
from threading import Event

from kafkaform.apply.executor import ApplyOptions, apply
from kafkaform.core.apply_result import ApplyReport
from kafkaform.core.errors import OutcomeUnknown, RequestRejected, Unreachable
from kafkaform.core.model import Location
from kafkaform.core.values import replace
from kafkaform.resources.replicas.layout import Layout
from kafkaform.resources.topic.operations import AddPartitions
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.scenes import DAY, WEEK, FakeClock, Watched, absent, declared, made, plan_for, topic

NO = RequestRejected("not enough brokers (POLICY_VIOLATION)", code="POLICY_VIOLATION", hint="ask the owners")


class Blind(Watched):
    """A cluster that does not say where its replicas are: none is moved then."""

    def layout(self, topics: Collection[str] | None = None) -> Layout:  # noqa: ARG002
        raise Unreachable("no answer")


def apply_everything() -> ApplyReport:
    """An apply in which each sort of thing happens once or twice."""
    memory = MemoryCluster()
    for name in ("changed", "cut", "doomed", "fewer", "half", "moved", "late"):
        made(memory, name, retention_ms=WEEK)
    desired = [
        declared("changed", 6, 3, retention_ms="1209600000"),
        declared("cut", retention_ms=DAY, cleanup_policy="compact"),
        absent("doomed"),
        declared("failed"),
        declared("fewer", 1),
        declared("half", 6, retention_ms=None, segment_ms=DAY, allow={"retention-cut": "meant"}),
        declared("moved", 6, retention_ms=WEEK),
        declared("late", 6, retention_ms=WEEK),
        declared("new", 12),
        declared("same"),
    ]
    plan = plan_for(Blind(memory), *(replace(d, location=Location("topics/x.yaml", 7)) for d in desired))
    made(memory, "same")
    memory.execute([AddPartitions(topic("moved"), 3, 4)])
    memory.fail_next(NO, topic("failed"))
    memory.fail_next(OutcomeUnknown("no answer in time"), topic("half"), carried_out=True)
    stop = Event()

    def after(_: object) -> None:
        if len(watched.requests) == 2:
            stop.set()

    watched = Watched(memory, after=after)
    return apply(plan, watched, ApplyOptions(stop=stop, clock=FakeClock().clock))
