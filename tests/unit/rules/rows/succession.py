"""KF118 to KF120, KF217, KF218 and KF314: topics that succeed others, and their groups."""

from kafkaform.core.model import Delete, Desired, Facts, Intent, Observed, Risk, RiskAssessment, Status
from kafkaform.core.partitions import LogSpan
from kafkaform.core.plans import PlannedChange
from kafkaform.core.values import replace
from kafkaform.resources.consumer_group.fields import observed_state
from kafkaform.resources.groups import Group, Position
from kafkaform.resources.succession import GroupProgress, GroupStage, Predecessor, Succession, SuccessionFacts
from kafkaform.rules import RuleContext
from tests.support.plans.rules import Row, build_observed, inventory, is_quiet, living, scene, trips
from tests.support.plans.scenes import absent, declare_reader, declare_topic, group_ref, topic


def declare_successor(name: str, predecessor: str, retention_ms: str | None = None) -> Desired:
    declared = declare_topic(name, retention_ms=retention_ms) if retention_ms else declare_topic(name)
    return replace(declared, intent=Intent(spec={"succeeds": predecessor}))


OLD, NEW = declare_topic("orders.v1"), declare_successor("orders.v2", "orders.v1")
SECOND, MISSPELT = declare_successor("b", "orders.v1"), declare_successor("b", "order.v1")
CIRCLE = (declare_successor("a", "b"), declare_successor("b", "a"))
MONTH = living(build_observed("orders.v1", retention_ms="2592000000"))
STUCK = (GroupProgress("g", GroupStage.STOPPED, 1200), GroupProgress("h", GroupStage.MOVED))
READER = Group("g", "classic", "Empty", positions=(Position("orders.v1", 0, 4),))


def read(*, committed: int = 4, obstacle: str = "", recent: str = "") -> RuleContext:
    """Build the context of a predecessor with ten records, its deletion, and a group that reads it."""
    log = Predecessor("orders.v1", "orders.v2", {("orders.v1", 0): LogSpan(0, 10, 10)}, obstacle, recent)
    facts = Facts("c").add_part(SuccessionFacts({"orders.v2": log}))
    group = replace(READER, positions=(Position("orders.v1", 0, committed),))
    deletion = Delete(topic("orders.v1"), "id", {}, RiskAssessment(Risk.DESTRUCTIVE, "delete", "gone"))
    return RuleContext(
        (absent("orders.v1"), NEW, declare_reader("orders.v2")),
        facts,
        live={group_ref(): Observed(group_ref(), None, observed_state(group, {}), live=group)},
        groups={"g": group},
        changes=(PlannedChange(deletion, Status.PLANNED),),
    )


def follow(*groups: GroupProgress, obstacle: str = "") -> RuleContext:
    predecessor = Predecessor("orders.v1", "orders.v2", obstacle=obstacle)
    return RuleContext((NEW,), successions=(Succession("orders.v2", "orders.v1", predecessor, groups),))


ROWS: list[Row] = [
    trips("KF314 stuck", follow(*STUCK), "orders.v2 warning succeeds"),
    trips(
        "KF314 under way",
        follow(GroupProgress("g", GroupStage.READY), obstacle="orders.v1 received records"),
        "orders.v2 info succeeds",
    ),
    trips("KF314 over", follow(), "orders.v2 info succeeds"),
    *is_quiet("KF314", scene(OLD, NEW)),
    trips("KF118 itself", scene(declare_successor("a", "a")), "a error succeeds"),
    trips("KF118 two", scene(OLD, NEW, SECOND), "orders.v2 error succeeds", "b error succeeds"),
    trips("KF118", scene(*CIRCLE), "a error succeeds", "b error succeeds"),
    trips("KF118 a typing error", scene(OLD, MISSPELT, facts=Facts("c")), "b error succeeds"),
    trips("KF118 gone", scene(NEW, facts=Facts("c")), "orders.v2 info succeeds"),
    trips("KF118 offline", scene(OLD, MISSPELT), "b info succeeds"),
    *is_quiet(
        "KF118",
        scene(OLD, NEW),
        scene(absent("orders.v1"), NEW),
        scene(NEW, facts=Facts("c"), inventory=inventory("orders.v1")),
    ),
    trips("KF119 a retention", scene(OLD, NEW, live=MONTH), "orders.v2 warning succeeds"),
    *is_quiet(
        "KF119",
        scene(OLD, NEW, live=living(build_observed("orders.v1"))),
        scene(declare_successor("orders.v2", "orders.v1", retention_ms="1000"), live=MONTH),
        scene(OLD, live=MONTH),
    ),
    trips("KF120 unread", read(), "orders.v1 error"),
    trips("KF120 recent", read(committed=10, recent="it has records of the last 7d"), "orders.v1 error"),
    *is_quiet("KF120", read(committed=10), replace(read(), changes=()), replace(read(), facts=None)),
    trips("KF217 no start", scene(OLD, NEW, declare_reader("orders.v2", start=None)), "g warning topics"),
    *is_quiet("KF217", scene(OLD, NEW, declare_reader("orders.v1", start=None))),
    trips("KF218 records left", read(), "g info topics"),
    trips("KF218 a producer", read(committed=10, obstacle="orders.v1 received records"), "g info topics"),
    *is_quiet(
        "KF218", read(committed=10), replace(read(), facts=Facts("c")), replace(read(), live={}, groups={})
    ),
]
