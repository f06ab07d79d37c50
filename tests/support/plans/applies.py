"""An apply in which each sort of thing happens."""

from __future__ import annotations

from threading import Event

from kafkaform.apply.executor import ApplyOptions, apply
from kafkaform.core.apply_result import ApplyReport
from kafkaform.core.errors import OutcomeUnknown, RequestRejected, Unreachable
from kafkaform.core.model import Location
from kafkaform.core.values import replace
from kafkaform.resources.topic.operations import AddPartitions
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.moves import fail, override
from tests.support.plans.scenes import (
    DAY,
    WEEK,
    FakeClock,
    Watched,
    absent,
    create_topic,
    declare_topic,
    plan_for,
    topic,
)

NO = RequestRejected("not enough brokers (POLICY_VIOLATION)", code="POLICY_VIOLATION", hint="ask the owners")


def apply_everything() -> ApplyReport:
    """An apply in which each sort of thing happens once or twice."""
    memory = MemoryCluster()
    for name in ("changed", "cut", "doomed", "fewer", "half", "moved", "late"):
        create_topic(memory, name, retention_ms=WEEK)
    desired = [
        declare_topic("changed", 6, 3, retention_ms="1209600000"),
        declare_topic("cut", retention_ms=DAY, cleanup_policy="compact"),
        absent("doomed"),
        declare_topic("failed"),
        declare_topic("fewer", 1),
        declare_topic("half", 6, retention_ms=None, segment_ms=DAY, allow={"retention-cut": "meant"}),
        declare_topic("moved", 6, retention_ms=WEEK),
        declare_topic("late", 6, retention_ms=WEEK),
        declare_topic("new", 12),
        declare_topic("same"),
    ]
    blind = override(memory, layout=fail(Unreachable("no answer")))  # no replicas are moved then
    plan = plan_for(blind, *(replace(d, location=Location("topics/x.yaml", 7)) for d in desired))
    create_topic(memory, "same")
    memory.execute([AddPartitions(topic("moved"), 3, 4)])
    memory.fail_next(NO, topic("failed"))
    memory.fail_next(OutcomeUnknown("no answer in time"), topic("half"), carried_out=True)
    stop = Event()

    def after(_: object) -> None:
        if len(watched.requests) == 2:
            stop.set()

    watched = Watched(memory, after=after)
    return apply(plan, watched, ApplyOptions(stop=stop, clock=FakeClock().clock))
