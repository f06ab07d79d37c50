"""The risk of changes: how tests judge one, and how its sentences are written into a catalogue."""

import re
from collections.abc import Iterable, Mapping

from kafkaform.core.model import (
    SAFE,
    DataSize,
    Delete,
    Facts,
    FieldValue,
    Intent,
    Observed,
    ResourceRef,
    Risk,
    RiskAssessment,
    State,
    assessments,
)
from kafkaform.core.plans import Plan
from kafkaform.resources import KINDS
from kafkaform.resources.base import UpdateContext
from kafkaform.resources.topic.risk import judge

TOPIC = ResourceRef("Topic", "orders.v1")


def judge_topic_change(
    before: Mapping[str, FieldValue],
    after: Mapping[str, FieldValue],
    *,
    keyed: bool | None = None,
    ref: ResourceRef = TOPIC,
    size: DataSize | None = None,
) -> RiskAssessment:
    """Judge the first field of `after`; names of configs without their prefix."""

    def name_fields(values: Mapping[str, FieldValue]) -> State:
        fields = {"partitions", "replicationFactor"}
        return {name if name in fields else f"config.{name}": value for name, value in values.items()}

    wanted = name_fields({**before, **after})
    uid = "3dBzWnVfRkWvGk1yQn2c8A"
    facts = Facts("c", sizes={} if size is None else {ref: size})
    context = UpdateContext(ref, name_fields(before), wanted, Intent(keyed=keyed), facts, uid)
    return judge(next(iter(name_fields(after))), context)


def list_assessments(plan: Plan) -> list[tuple[Risk, str]]:
    """Return the risk and the hazard of each part of the only change of a plan."""
    return [(each.risk, each.hazard) for each in assessments(plan.changes[0].change)]


def join_reasons(plan: Plan) -> str:
    """Return the sentences of the only change of a plan."""
    (planned,) = plan.changes
    return "; ".join(each.reason for each in assessments(planned.change) if each.reason)


def judge_deletion(observed: Observed, facts: Facts) -> RiskAssessment:
    """Judge the deletion of a live resource."""
    change = Delete(observed.ref, observed.uid, observed.state, SAFE)
    return KINDS[observed.ref.kind].judge(change, observed, facts)


def render_catalogue(messages: Mapping[str, str]) -> str:
    """Render the messages of a table: one line for each row."""
    return "".join(f"{name}: {message}\n" for name, message in messages.items())


def find_unreadable_misuse(assessments: Iterable[RiskAssessment]) -> list[str]:
    """Return the reasons in which an unreadable value is shown as None, or does not fit its sentence."""
    unread, fits = (
        r"a value this account may not read",
        r"(?:(?:from|to|is|was|then) |\()a value .*? read(?= to |[:)]|$)",
    )
    return [
        each.reason
        for each in assessments
        if "None" in each.reason or len(re.findall(unread, each.reason)) != len(re.findall(fits, each.reason))
    ]


def render_assessments(assessments: Iterable[RiskAssessment]) -> str:
    """Render the sentences of hazards: one line for each, sorted by the hazard."""
    lines = {
        f"{each.hazard}: {each.reason}" + (f" / {each.remedy}" if each.remedy else "")
        for each in assessments
        if each.hazard
    }
    return "".join(f"{line}\n" for line in sorted(lines))
