"""Rules that compare live topics and groups with their manifests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.core.model import CONFIG_PREFIX, Desired, Severity
from kafkaform.core.wording import command, counted, listed
from kafkaform.resources import KINDS, PLACED, READER, reader_ref
from kafkaform.rules.catalogue import Finding, RuleContext, Stage, rule
from kafkaform.rules.topic_values import human

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkaform.core.model import FieldValue, Observed
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


@rule("KF306", Severity.WARNING, stage=Stage.HEALTH)
def live_differences(context: RuleContext) -> Iterator[Finding]:
    """A topic's retention, min.insync.replicas, replication factor or partition count is not as declared.

    These settings decide how long records are kept and how many failures they survive. Somebody has
    changed the live topic, or a manifest was merged and not applied. The rule compares the values in
    force: a value that is the broker's default counts like one that is set on the topic. `kafkaform plan`
    shows every difference, and `kafkaform apply` removes it; if the live value is the right one, change
    the manifest.
    """
    for desired in context.of_kind(PLACED.name):
        if desired.state is None:
            continue
        observed = context.live.get(desired.ref)
        if observed is None:
            yield Finding(
                desired,
                f"{desired.ref.name} is declared but does not exist",
                "kafkaform plan shows its creation, and kafkaform apply carries it out",
                path="metadata.name",
            )
        elif differing := [path for path in _WATCHED if _differs(desired, observed, path)]:
            fields = [
                f"{path.removeprefix(CONFIG_PREFIX)} is {_format(path, _live(observed, path))}, "
                f"declared {_format(path, desired.state[path])}"
                for path in differing
            ]
            yield Finding(
                desired,
                f"{desired.ref.name} is not as declared: {'; '.join(fields)}",
                "kafkaform plan shows what apply would change; or change the manifest",
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

    Lag is the number of records from the committed offsets to the ends of the logs, compared with
    `lag.maxRecords` of the manifest. Offsets do not show how old these records are, so `lag.maxTime` is
    not checked here. A group that is empty although `members.expected` is above zero reads nothing: check
    that the application runs. A group that never had a member, as after its first apply, is only
    information. A member is assigned whole partitions, so members beyond the number of partitions are
    idle: remove them, add partitions, or waive the rule if they stand by on purpose. Of groups that no
    manifest declares, only idle members are reported, as information. In share groups, several members
    read one partition.
    """
    declared: dict[str, Desired] = {}
    for desired in context.of_kind(READER.name):
        if desired.state is not None:
            declared[desired.ref.name] = desired
            yield from _compare_with_manifest(desired, context.groups.get(desired.ref.name))
    for name, group in context.groups.items():
        subject = declared.get(name)
        if idle := _find_idle_members(group):
            yield Finding(
                subject or reader_ref(name),
                f"{name} has {counted(len(group.members), 'member')}, {len(idle):,} of them idle "
                f"({listed([member.label for member in idle])}), for "
                f"{counted(_partitions(group), 'partition')}",
                "remove the idle members, or add partitions",
                None if subject is not None else Severity.INFO,
                "members.expected",
            )


def _compare_with_manifest(desired: Desired, group: Group | None) -> Iterator[Finding]:
    name = desired.ref.name
    expected = _number(desired.intent.spec, "members", "expected")
    # An apply creates a group by committing its first offsets, usually before its application is started.
    if expected and group is not None and group.never_joined:
        yield Finding(
            desired,
            f"{name} has not had a member yet; its manifest expects {counted(expected, 'member')}",
            "start the application, with this group.id",
            Severity.INFO,
            "members.expected",
        )
    elif expected and (group is None or not group.active):
        problem = "does not exist" if group is None else "is empty"
        yield Finding(
            desired,
            f"{name} {problem}, though its manifest expects {counted(expected, 'member')}",
            "check that the application runs, with this group.id",
            path="members.expected",
        )
    limit = _number(desired.intent.spec, "lag", "maxRecords")
    lag = group.lag if group is not None else None
    if group is not None and limit is not None and lag is not None and lag > limit:
        worst = max(group.positions, key=lambda position: position.lag or 0)
        yield Finding(
            desired,
            f"{name} lags {counted(lag, 'record')} behind; the limit is {counted(limit, 'record')} "
            f"(most in {worst.topic}-{worst.partition}: {worst.lag or 0:,})",
            f"check whether its members keep up in each partition: {command('status', name)}",
            path="lag.maxRecords",
        )


def _find_idle_members(group: Group) -> tuple[Member, ...]:
    """Return the members that cannot get a partition; during a rebalance, no member has one."""
    # Share groups assign a partition to several members, so none of them is idle for want of partitions.
    if group.protocol == "share" or group.state != "Stable" or len(group.members) <= _partitions(group):
        return ()
    return group.idle_members


def _partitions(group: Group) -> int:
    return len({partition for member in group.members for partition in member.assignment})


def _number(spec: Mapping[str, object], part: str, name: str) -> int | None:
    fields = spec.get(part)
    value = fields.get(name) if isinstance(fields, dict) else None
    return value if isinstance(value, int) else None
