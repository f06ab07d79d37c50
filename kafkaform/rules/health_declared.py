"""Rules that compare live topics and groups with their manifests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.core.model import CONFIG_PREFIX, Desired, FieldValue, Observed, Severity
from kafkaform.core.wording import command, counted, listed
from kafkaform.resources import KINDS, group_ref
from kafkaform.rules.catalogue import NAME_PATH, Finding, RuleContext, Stage, rule
from kafkaform.rules.group_values import DeclaredGroup, list_groups, name_partitions, suggest_reset
from kafkaform.rules.topic_values import DeclaredTopic, human, topic_rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkaform.core.model import ResourceRef
    from kafkaform.resources.groups import Group, Member

# `kafkaform plan` compares all fields; doctor reports those whose drift can lose records.
_WATCHED = (
    "partitions",
    "replicationFactor",
    "config.retention.ms",
    "config.retention.bytes",
    "config.min.insync.replicas",
)
"""The fields of a topic that decide how long and how safely records are kept."""


@topic_rule("KF306", Severity.WARNING, stage=Stage.HEALTH)
def live_differences(topic: DeclaredTopic) -> Iterator[Finding]:
    """A topic's retention, min.insync.replicas, replication factor or partition count is not as declared.

    Somebody changed the live topic, or a manifest was merged and not applied. `kafkaform apply` restores
    the declared values; if the live value is the right one, change the manifest.
    """
    desired, observed = topic.desired, topic.context.live.get(topic.desired.ref)
    if observed is None:
        hint = "`kafkaform plan` shows its creation, and `kafkaform apply` carries it out"
        yield Finding(f"{topic.name} is declared but does not exist", hint, path=NAME_PATH)
    elif differing := [path for path in _WATCHED if _differs(desired, observed, path)]:
        fields = [
            f"{path.removeprefix(CONFIG_PREFIX)} is {_format(path, _live(observed, path))}, "
            f"declared {_format(path, (desired.state or {})[path])}"
            for path in differing
        ]
        yield Finding(
            f"{topic.name} is not as declared: {'; '.join(fields)}",
            "`kafkaform plan` shows what apply would change; or change the manifest",
            path=differing[0],
        )


def _differs(desired: Desired, observed: Observed, path: str) -> bool:
    wanted = desired.state
    if wanted is None or path not in wanted:
        return False
    # Declared as unset: any own value differs, whatever the default is.
    if wanted[path] is None:
        return observed.state.get(path) is not None
    return not KINDS[desired.ref.kind].field(path).equal(wanted[path], _live(observed, path))


def _live(observed: Observed, path: str) -> FieldValue:
    return observed.state[path] if path in observed.state else observed.effective.get(path)


def _format(path: str, value: FieldValue) -> str:
    if value is None:
        return "unset"
    name = path.removeprefix(CONFIG_PREFIX)
    return str(value) if name == path else human(name, str(value))


@rule("KF307", Severity.WARNING, stage=Stage.HEALTH)
def groups_keep_up(context: RuleContext) -> Iterator[Finding]:
    """A group lags more than declared, is empty though members are expected, or has idle members.

    Lag is compared with `lag.maxRecords` of the manifest. If the group is empty although
    `members.expected` is above zero, check that the application runs. Remove idle members, add
    partitions, or waive the rule if they stand by. Undeclared groups are reported for idle members only.
    """
    for group in list_groups(context):
        yield from _compare_with_manifest(group)
    for name, live in context.groups.items():
        if idle := _find_idle_members(live):
            subject, severity = _find_subject(context, name)
            yield Finding(
                f"{name} has {counted(len(live.members), 'member')}, {len(idle):,} of them idle "
                f"({listed([member.label for member in idle])}), for "
                f"{counted(_partitions(live), 'partition')}",
                "remove the idle members, or add partitions",
                severity,
                "members.expected",
                subject,
            )


def _compare_with_manifest(group: DeclaredGroup) -> Iterator[Finding]:
    name, live, desired = group.name, group.context.groups.get(group.name), group.desired
    expected, limit = group.amount("members", "expected"), group.amount("lag", "maxRecords")
    # An apply creates a group by committing its first offsets, usually before its application is started.
    if expected and live is not None and live.never_joined:
        text = f"{name} has not had a member yet; its manifest expects {counted(expected, 'member')}"
        hint = "start the application, with this group.id"
        yield Finding(text, hint, Severity.INFO, "members.expected", desired)
    elif expected and (live is None or not live.active):
        problem = "does not exist" if live is None else "is empty"
        text = f"{name} {problem}, though its manifest expects {counted(expected, 'member')}"
        hint = "check that the application runs, with this group.id"
        yield Finding(text, hint, path="members.expected", subject=desired)
    lag = live.lag if live is not None else None
    if live is not None and limit is not None and lag is not None and lag > limit:
        worst = max(live.positions, key=lambda position: position.lag or 0)
        yield Finding(
            f"{name} lags {counted(lag, 'record')} behind; the limit is {counted(limit, 'record')} "
            f"(most in {worst.topic}-{worst.partition}: {worst.lag or 0:,})",
            f"check whether its members keep up in each partition: {command('status', name)}",
            path="lag.maxRecords",
            subject=desired,
        )


@rule("KF315", Severity.WARNING, stage=Stage.HEALTH)
def offsets_in_logs(context: RuleContext) -> Iterator[Finding]:
    """A group's committed offset is older than the first record of the log, or beyond its end.

    Records up to the first one were removed before the group read them. An offset beyond the end belongs to
    a log that was longer: the topic was recreated, or a replica that lacked records was elected. In both
    cases, members start at their `auto.offset.reset`, and with `latest` skip the records that are there.
    Undeclared groups are reported as information.
    """
    for name, live in context.groups.items():
        # The start offset of a share group is moved by the brokers.
        if live.protocol == "share":
            continue
        subject, severity = _find_subject(context, name)
        for topic in sorted(live.topics):
            for problem, partitions in _describe_offsets_outside(live, topic):
                advice = f"stop its members, then: {suggest_reset(name, topic, partitions)}"
                yield Finding(problem, advice, severity, "topics", subject)


def _describe_offsets_outside(group: Group, topic: str) -> Iterator[tuple[str, list[int]]]:
    """Yield what is wrong with offsets that are not in the log of a topic, and their partitions."""
    positions = [position for position in group.positions if position.topic == topic]
    if older := [position for position in positions if position.removed]:
        removed = counted(sum(position.removed for position in older), "record")
        partitions = [position.partition for position in older]
        where = name_partitions(partitions)
        yield (
            f"{group.name} missed up to {removed} of {topic}, removed before it read them, in {where}",
            partitions,
        )
    if beyond := [position.partition for position in positions if position.is_beyond_end]:
        yield f"the offset of {group.name} is beyond the end of {topic}, in {name_partitions(beyond)}", beyond


def _find_subject(context: RuleContext, name: str) -> tuple[Desired | ResourceRef, Severity | None]:
    """Return what a finding about a live group belongs to, and its severity: information if undeclared."""
    declared = context.declared.get(group_ref(name))
    if declared is not None and declared.state is not None:
        return declared, None
    return group_ref(name), Severity.INFO


def _find_idle_members(group: Group) -> tuple[Member, ...]:
    """Return the members that cannot get a partition; during a rebalance, no member has one."""
    # Share groups assign a partition to several members, so none of them is idle for want of partitions.
    if group.protocol == "share" or group.state != "Stable" or len(group.members) <= _partitions(group):
        return ()
    return group.idle_members


def _partitions(group: Group) -> int:
    return len({partition for member in group.members for partition in member.assignment})
