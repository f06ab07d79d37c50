"""The risk of a change of a ConsumerGroup, assessed from the effective values before and after it.

As for topics, the worst is assumed of a value that this account may not read, and a config that is neither
assessed (`_BY_NAME`) nor listed as harmless (`HARMLESS`) is disruptive.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from typing import TYPE_CHECKING

from kafkaform.core import kafka_configs
from kafkaform.core.model import (
    CONFIG_PREFIX,
    SAFE,
    Facts,
    ResourceRef,
    Risk,
    RiskAssessment,
    Setting,
    State,
    to_integer,
)
from kafkaform.core.wording import code, command, counted, listed
from kafkaform.resources.base import RecordFacts, UpdateContext, explain_unclassified
from kafkaform.resources.consumer_group.fields import OFFSETS_PREFIX, partition_of

if TYPE_CHECKING:
    from collections.abc import Callable

NAME = "ConsumerGroup"
"""The name of the kind."""

HAZARDS = frozenset(
    {
        "delete",
        "delivery-limit-cut",
        "heartbeat-raise",
        "isolation-level",
        "lock-duration-cut",
        "lock-limit-cut",
        "lock-renewal-off",
        "offset-recommit",
        "offset-reset",
        "offset-reset-policy",
        "session-timeout-cut",
        "standby-replicas",
        "unknown-config",
    }
)
"""The names by which a change of a ConsumerGroup can be consented to or forbidden."""

HARMLESS = {
    "consumer.assignment.interval.ms": "a new assignment is worked out sooner or later, and is the same",
    "share.assignment.interval.ms": "a new assignment is worked out sooner or later, and is the same",
    "streams.assignment.interval.ms": "a new assignment is worked out sooner or later, and is the same",
    "streams.initial.rebalance.delay.ms": "an empty group waits longer or shorter for its first members",
}
"""Configs whose changes cannot lose, repeat or delay a record, whatever the values, and why."""

# Kafka accepts any text as the name of a group, such as one with slashes or line breaks.
_FILE_NAME = re.compile(r"\w[\w.-]{0,99}", re.ASCII)
"""Matches names of groups that can be names of files."""
_UNREADABLE = "a value this account may not read"

# Kafka's documentation of heartbeat.interval.ms: "typically should be set no higher than 1/3 of that value",
# the session timeout.
_MIN_HEARTBEATS = 3


def judge(path: str, context: UpdateContext) -> RiskAssessment:
    """Assess the risk of changing one field."""
    if partition_of(path) is not None:
        return _judge_offset(path, context)
    if not path.startswith(CONFIG_PREFIX):
        return judge_create(context.ref, {path: context.after.get(path)}, context.facts)
    name = path.removeprefix(CONFIG_PREFIX)
    judge_config = _BY_NAME.get(name)
    if judge_config is not None:
        return judge_config(name, context)
    if name in HARMLESS:
        return SAFE
    known = name in kafka_configs.group_configs()
    return RiskAssessment(Risk.DISRUPTIVE, "unknown-config", explain_unclassified(name, known=known))


def judge_create(ref: ResourceRef, state: State, facts: Facts) -> RiskAssessment:
    """Assess first offsets: they are safe, unless an earlier apply committed some that are gone."""
    lost = facts.get(RecordFacts).lost.get(ref, {})
    gone = {path: setting for path, setting in lost.items() if path in state}
    if not gone:
        return SAFE
    # Offsets that certainly existed are the better evidence, so they alone are named if there are any.
    sure = {path: setting for path, setting in gone.items() if setting.certain} or gone
    latest = max(sure.values(), key=lambda setting: setting.at)
    topics = listed([path.removeprefix(OFFSETS_PREFIX) for path in sorted(sure)], noun="topic")
    effects = {"earliest": "records are read again", "latest": "unread records are skipped"}
    unknown = "records are read again, or skipped"
    restarts = dict.fromkeys(effects.get(str(state[path]), unknown) for path in gone)
    return RiskAssessment(
        Risk.DESTRUCTIVE,
        "offset-recommit",
        f"{_describe_loss(topics, latest)}: starting again, {' and '.join(restarts)}",
        "find out which offsets its members had reached, and after the apply set them with `kafkaform reset`",
    )


def _describe_loss(topics: str, setting: Setting) -> str:
    """Describe the origin of lost offsets, and the possible reasons of the loss."""
    applied = f"an apply of {setting.at[:10]} by {setting.who}"
    if setting.certain:
        return (
            f"it had offsets in {topics}: {applied} committed them (run {setting.run}). They expired since, "
            "or the group or the topic was deleted"
        )
    return (
        f"it may have had offsets in {topics}: {applied} was to commit them, and whether it did is not known "
        f"(run {setting.run}). If it did, they expired since, or were deleted"
    )


def judge_delete(ref: ResourceRef, state: State, facts: Facts, *, is_share: bool = False) -> RiskAssessment:
    """Assess the deletion of a group: its committed offsets and configs are lost."""
    topics = Counter(partition[0] for path in state if (partition := partition_of(path)) is not None)
    configs = sorted(path.removeprefix(CONFIG_PREFIX) for path in state if path.startswith(CONFIG_PREFIX))
    gone = []
    if topics:
        names = [f"{topic} ({counted(count, 'partition')})" for topic, count in sorted(topics.items())]
        gone.append(f"{counted(topics.total(), 'committed offset')} in {listed(names, noun='topic')}")
    if configs:
        gone.append(f"{'configs' if len(configs) > 1 else 'config'} {', '.join(configs)}")
    if not gone:
        gone.append("the group, which has neither offsets nor configs of its own")
    # Brokers report a group that no member has joined as classic; its configs show its protocol.
    share = is_share or any(name.startswith("share.") for name in configs)
    return RiskAssessment(
        Risk.DESTRUCTIVE,
        "delete",
        f"deletes {' and '.join(gone)}: {_afterwards(topics, facts, is_share=share)}",
        _backup(ref.name, is_share=is_share) if topics else None,
    )


def _backup(group: str, *, is_share: bool) -> str:
    """Return the hint to back up offsets; kafkaform cannot reset those of a share group (KIP-932)."""
    if is_share:
        options = ("--bootstrap-server", "HOST:PORT", "--describe", "--offsets", "--group", group)
        return f"note its start offsets first: {code(shlex.join(['kafka-share-groups.sh', *options]))}"
    file = f"{group if _FILE_NAME.fullmatch(group) else 'offsets'}.csv"
    keep = command("reset", group, options=("--to", "current", "--export", file))
    return f"back up its offsets first: {keep}"


def _afterwards(topics: Counter[str], facts: Facts, *, is_share: bool) -> str:
    """Describe the effect on a member that uses the group's name again."""
    if is_share:
        reset = facts.config_default(NAME, "share.auto.offset.reset") or _UNREADABLE
        return f"a returning member starts at share.auto.offset.reset, which is then {reset}"
    if topics:
        return (
            "a returning consumer starts at its auto.offset.reset: "
            "latest skips the records that it has not read, earliest reads all records again"
        )
    return "returning members use the cluster's defaults"


def _judge_offset(path: str, context: UpdateContext) -> RiskAssessment:
    """Assess a reset; the number of records is an upper limit, as compaction and transactions leave gaps."""
    before, after = to_integer(context.before.get(path)), to_integer(context.after.get(path))
    if before is None or after is None:
        start = "its auto.offset.reset" if after is None else f"offset {after:,}"
        reason = f"{'it has no offset here, and' if before is None else 'it'} starts at {start}"
    elif after > before:
        reason = f"{counted(after - before, 'record')} skipped: no member reads them"
    else:
        reason = f"{counted(before - after, 'record')} read again"
    return RiskAssessment(Risk.DESTRUCTIVE, "offset-reset", reason)


def _judge_session_timeout(name: str, context: UpdateContext) -> RiskAssessment:
    before, after = _read_both(name, context)
    if not _is_cut(before, after):
        return SAFE
    return RiskAssessment(
        Risk.DISRUPTIVE,
        "session-timeout-cut",
        f"{_change(name, before, after)}: a member that sends no heartbeat for that long is removed, "
        "and its partitions go to the others",
        "keep it above the longest pause of a member, such as a garbage collection or a restart",
    )


def _judge_heartbeat(name: str, context: UpdateContext) -> RiskAssessment:
    """Assess rarer heartbeats: brokers limit them and the session timeout, but not relative to each other."""
    before, after = _read_both(name, context)
    if before is not None and after is not None and after <= before:
        return SAFE
    # The session timeout after the change, as one plan may raise both.
    timeout = name.replace("heartbeat.interval", "session.timeout")
    _, session = _read_both(timeout, context)
    if after is not None and session is not None and after * _MIN_HEARTBEATS <= session:
        return SAFE
    return RiskAssessment(
        Risk.DISRUPTIVE,
        "heartbeat-raise",
        f"{_change(name, before, after)}: fewer than {_MIN_HEARTBEATS} heartbeats of a member fit into "
        f"{timeout} ({_human(timeout, session)}), after which it is removed",
        "keep it at a third of the session timeout or less",
    )


def _judge_isolation_level(name: str, context: UpdateContext) -> RiskAssessment:
    before, after = _read_text(context.before, name), _read_text(context.after, name)
    # An unknown value before or after counts as the riskier one, here and below.
    if after == "read_committed" or before == "read_uncommitted":
        return SAFE
    return RiskAssessment(
        Risk.DISRUPTIVE,
        "isolation-level",
        f"{name} goes from {before or _UNREADABLE} to {after or _UNREADABLE}: "
        "members also get records of transactions that are open, or were aborted",
        "keep read_committed where producers use transactions",
    )


def _judge_offset_reset_policy(name: str, context: UpdateContext) -> RiskAssessment:
    after = _read_text(context.after, name)
    match after:
        case "earliest":
            start = "is read from the first record that it still has"
        case "latest":
            start = "is read from its end, and what came before is skipped"
        case None:
            start = "is read from a position this account may not read"
        case _:
            start = f"is read from {after.removeprefix('by_duration:')} back"
    return RiskAssessment(
        Risk.DISRUPTIVE,
        "offset-reset-policy",
        f"a partition that the group has not read yet, such as one that is added later, {start}; "
        "the others continue at their offsets",
    )


def _judge_standby_replicas(name: str, context: UpdateContext) -> RiskAssessment:
    # KIP-1071. Disruptive in both directions: fewer standbys slow a takeover down, more take network and
    # disk.
    before, after = _read_both(name, context)
    if _is_cut(before, after):
        effect = (
            "a task whose member fails is restored from its changelog before it goes on"
            if after == 0
            else "fewer members can take over a task at once"
        )
    else:
        effect = "members read the changelogs of more tasks, and keep their state on disk"
    return RiskAssessment(Risk.DISRUPTIVE, "standby-replicas", f"{_change(name, before, after)}: {effect}")


def _judge_lock_duration(name: str, context: UpdateContext) -> RiskAssessment:
    # KIP-932: a record that a member gets is locked for it, until the member acknowledges it or the time is
    # over.
    before, after = _read_both(name, context)
    if not _is_cut(before, after):
        return SAFE
    return RiskAssessment(
        Risk.DISRUPTIVE,
        "lock-duration-cut",
        f"{_change(name, before, after)}: a record that is not acknowledged within that time is given to "
        "another member, so slow work is done twice",
        "keep it above the longest time that the records of one poll take",
    )


def _judge_lock_limit(name: str, context: UpdateContext) -> RiskAssessment:
    before, after = _read_both(name, context)
    if not _is_cut(before, after):
        return SAFE
    return RiskAssessment(
        Risk.DISRUPTIVE,
        "lock-limit-cut",
        f"{_change(name, before, after)}: no more records of a partition are processed at once, and members "
        "beyond that wait",
    )


def _judge_delivery_limit(name: str, context: UpdateContext) -> RiskAssessment:
    # KIP-932: brokers keep the number of deliveries of each record, so those before the change count, too.
    before, after = _read_both(name, context)
    if not _is_cut(before, after):
        return SAFE
    return RiskAssessment(
        Risk.DISRUPTIVE,
        "delivery-limit-cut",
        f"{_change(name, before, after)}: a record that was delivered that often without being accepted is "
        "given up: no member gets it again",
        "first find the records that fail only temporarily: they are given up sooner",
    )


def _judge_lock_renewal(name: str, context: UpdateContext) -> RiskAssessment:
    before, after = _read_text(context.before, name), _read_text(context.after, name)
    if after == "true" or before == "false":
        return SAFE
    lock = "share.record.lock.duration.ms"
    _, duration = _read_both(lock, context)
    return RiskAssessment(
        Risk.DISRUPTIVE,
        "lock-renewal-off",
        f"members can no longer ask for more time: a record that is processed for longer than {lock} "
        f"({_human(lock, duration)}) is given to another member",
    )


_BY_NAME: dict[str, Callable[[str, UpdateContext], RiskAssessment]] = {
    "consumer.session.timeout.ms": _judge_session_timeout,
    "share.session.timeout.ms": _judge_session_timeout,
    "streams.session.timeout.ms": _judge_session_timeout,
    "consumer.heartbeat.interval.ms": _judge_heartbeat,
    "share.heartbeat.interval.ms": _judge_heartbeat,
    "streams.heartbeat.interval.ms": _judge_heartbeat,
    "share.auto.offset.reset": _judge_offset_reset_policy,
    "share.delivery.count.limit": _judge_delivery_limit,
    "share.isolation.level": _judge_isolation_level,
    "share.partition.max.record.locks": _judge_lock_limit,
    "share.record.lock.duration.ms": _judge_lock_duration,
    "share.renew.acknowledge.enable": _judge_lock_renewal,
    "streams.num.standby.replicas": _judge_standby_replicas,
}


def _read_both(name: str, context: UpdateContext) -> tuple[int | None, int | None]:
    path = CONFIG_PREFIX + name
    return to_integer(context.before.get(path)), to_integer(context.after.get(path))


def _read_text(state: State, name: str) -> str | None:
    """Return a config's value in canonical spelling: brokers return values as they were set."""
    value = state.get(CONFIG_PREFIX + name)
    return (
        None
        if value is None
        else kafka_configs.normalise_observed(kafka_configs.group_configs()[name], str(value))
    )


def _is_cut(before: int | None, after: int | None) -> bool:
    return before is None or after is None or after < before


def _change(name: str, before: int | None, after: int | None) -> str:
    return f"{name} goes from {_human(name, before)} to {_human(name, after)}"


def _human(name: str, value: int | None) -> str:
    if value is None:
        return _UNREADABLE
    key = kafka_configs.group_configs()[name]
    return f"{value:,}" if key.unit is None else kafka_configs.human(key, str(value))
