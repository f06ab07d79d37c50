"""Rules about changes after which writes with acks=all would stop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.core.layout import parse_assignment
from kafkaform.core.model import Severity, Status, Update
from kafkaform.core.wording import counted, listed, setting
from kafkaform.resources.topic.operations import PLACEMENT
from kafkaform.resources.topic.replication import MIN_ISR, REPLICATION_FACTOR
from kafkaform.rules.catalogue import Finding, Scene, Stage, rule
from kafkaform.rules.topic_values import count, in_force

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkaform.core.layout import Layout, Replicas
    from kafkaform.core.model import Desired, FieldChange


@rule("KF409", Severity.ERROR, stage=Stage.CHANGES, waivable=False)
def writes_go_on(scene: Scene) -> Iterator[Finding]:
    """Writes with acks=all would stop once the plan is applied.

    They need min.insync.replicas replicas in sync. So min.insync.replicas must not rise above the replication
    factor, nor the replication factor fall below it: lower both in one plan, and it is lowered first. Nor may
    it rise above what is in sync in any partition, or a replica go without which too few are in sync, as
    while a broker is down; replicas that the same plan adds count, as apply raises min.insync.replicas only
    once they are in sync. What counts is the value in force after the apply, the cluster's default included.
    Topics that have fewer in sync than they need already are no news, and left to doctor.
    """
    for planned in scene.changes:
        desired = scene.declared.get(planned.ref)
        if desired is None or planned.status is Status.REFUSED or not isinstance(planned.change, Update):
            continue
        fields = {field.path: field for field in planned.change.fields if field.deferred is None}
        if planned.ref.kind == "Topic" and fields.keys() & {MIN_ISR, REPLICATION_FACTOR, PLACEMENT}:
            yield from _of_topic(desired, fields, scene)


def _of_topic(desired: Desired, fields: dict[str, FieldChange], scene: Scene) -> Iterator[Finding]:
    value, replicas = in_force(desired, "min.insync.replicas", scene), count(desired, REPLICATION_FACTOR)
    if value is None or value.number is None or replicas is None:
        return
    least = value.number
    changed = [path for path in (REPLICATION_FACTOR, MIN_ISR, PLACEMENT) if path in fields]
    if least > replicas and changed[0] != PLACEMENT:
        yield Finding(
            desired,
            f"min.insync.replicas would be {value.shown} with {counted(replicas, 'replica')}: "
            "writes with acks=all stop",
            f"write {setting(MIN_ISR, max(1, replicas - 1))} in the same plan",
            path=changed[0],
        )
        return
    layout = scene.facts.layout if scene.facts is not None else None
    if layout is None or desired.ref.name not in layout.topics:
        return
    short = list(_short(desired, fields, layout, least))
    if short:
        yield Finding(
            desired,
            f"writes with acks=all would stop: min.insync.replicas is {value.shown}, and {listed(short)}",
            "wait until the brokers that are missing are back: kafkaform doctor --wait 10m",
            path=changed[0],
        )


def _short(desired: Desired, fields: dict[str, FieldChange], layout: Layout, least: int) -> Iterator[str]:
    """The partitions in which too few replicas would be in sync, and are enough now."""
    placement, min_isr = fields.get(PLACEMENT), fields.get(MIN_ISR)
    before = least if min_isr is None else int(min_isr.effective_before or 1)
    after = parse_assignment(str(placement.after)) if placement is not None else ()
    for partition in layout.topics[desired.ref.name]:
        number, isr = partition.partition, partition.isr
        target: Replicas = after[number] if after else layout.replicas((desired.ref.name, number))
        running = (layout.reassigning or {}).get((desired.ref.name, number))
        held = {*partition.replicas} - (running.adding if running is not None else set())
        # Brokers ask for no more replicas than there are; those that are added are waited for.
        enough_now = len(isr) >= min(before, len(held))
        stay = [broker for broker in target if broker in isr or broker not in held]
        if enough_now and len(stay) < min(least, len(target)):
            yield f"partition {number} would have {counted(len(stay), 'replica')} in sync"
