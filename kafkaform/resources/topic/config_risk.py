"""The risk of a change of a topic config, judged from the values in force before and after it.

Every topic config that Kafka knows is either judged by a function of its own (`JUDGES`) or listed as harmless
with the reason (`HARMLESS`). Whatever is neither is disruptive, so that a config that a later Kafka adds is
never silently safe. A value that this account may not read is taken for the worst.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.core import kafka_configs
from kafkaform.core.kafka_configs import Unit
from kafkaform.core.model import (
    CONFIG_PREFIX,
    SAFE,
    FieldValue,
    Risk,
    RiskAssessment,
    State,
)
from kafkaform.core.units import rounded_duration, rounded_size
from kafkaform.resources.base import unclassified

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkaform.resources.base import UpdateContext

UNLIMITED = -1
"""How Kafka spells "no limit" in retention.ms and retention.bytes."""

_AS_RETENTION = -2
"""How local.retention.* says that it is what retention.* is."""
_NEVER_MS = 2**63 - 1
"""How a config of milliseconds says that the time never comes."""

HARMLESS = {
    "file.delete.delay.ms": "nobody can read a deleted file, however long it stays on disk",
    "preallocate": "a segment's file gets its full length at once, and the same records",
}
"""Configs of which no change can lose, reorder or refuse a record, whatever the values, and why."""


def judge(path: str, context: UpdateContext) -> RiskAssessment:
    """Judge the change of one config."""
    judge_config = JUDGES.get(path)
    if judge_config is not None:
        return judge_config(path, context)
    name = path.removeprefix(CONFIG_PREFIX)
    if name in HARMLESS:
        return SAFE
    known = name in kafka_configs.topic_configs()
    return RiskAssessment(Risk.DISRUPTIVE, "unknown-config", unclassified(name, known=known))


def _retention(path: str, context: UpdateContext) -> RiskAssessment:
    name = path.removeprefix(CONFIG_PREFIX)
    before, after = integer(context.before.get(path)), integer(context.after.get(path))
    if "delete" not in either_policy(context, unknown={"delete"}):
        return SAFE  # a topic that is only compacted has no retention
    if not _is_cut(before, after):
        return SAFE
    effect = _deleted_by_size(after) if name.endswith("bytes") else _deleted_by_time(after, context)
    return RiskAssessment(
        Risk.DESTRUCTIVE,
        "retention-cut",
        f"{name} is cut from {_human(name, before)} to {_human(name, after)}: {effect}",
        "copy what is still needed first, or keep the current value",
    )


def _deleted_by_time(retention: int | None, context: UpdateContext) -> str:
    """What a shorter retention deletes: whole segments, each once its newest record is past retention.

    So a record stays for as long as it takes to fill its segment and the retention more (KF111).
    """
    longest = None
    if retention is not None:
        longest = _longest_stay(retention, integer(context.after.get(_SEGMENT_MS)))
    rest = f"at an age of up to {longest}" if longest else "once it is"
    return (
        f"older records are deleted permanently, within minutes if their whole segment is older, else {rest}"
    )


def _deleted_by_size(retention: int | None) -> str:
    beyond = "it" if retention is None else _human("retention.bytes", retention)
    return f"in every partition, the oldest segments beyond {beyond} are deleted permanently within minutes"


def _longest_stay(retention: int, segment: int | None) -> str | None:
    """The age at which the oldest record of a segment is deleted; None if it is not known, or never."""
    if segment is None or retention + segment >= _NEVER_MS:
        return None
    return rounded_duration(retention + segment)


def _is_cut(before: int | None, after: int | None) -> bool:
    if after == UNLIMITED:
        return False
    return before is None or after is None or before == UNLIMITED or after < before


def _cleanup_policy(_: str, context: UpdateContext) -> RiskAssessment:
    known_before, known_after = _policies(context.before), _policies(context.after)
    before, after = known_before or set(), known_after or set()
    added, removed = after - before, before - after
    if known_before is None or known_after is None or added:
        what = {
            "delete": "records older than the retention are deleted",
            "compact": "all but the latest record of every key are deleted, "
            "and records without a key are refused",
        }
        effects = "; ".join(what.get(policy, policy) for policy in sorted(added)) or "a policy is not known"
        return RiskAssessment(
            Risk.DESTRUCTIVE,
            "cleanup-policy",
            f"cleanup.policy goes from {_join(known_before)} to {_join(known_after)}: {effects}",
            "create a new topic with the other policy and move over",
        )
    if removed:
        return RiskAssessment(
            Risk.DISRUPTIVE,
            "cleanup-policy-removed",
            f"{_join(removed)} no longer cleans the log: it grows",
        )
    return SAFE


def _min_compaction_lag(path: str, context: UpdateContext) -> RiskAssessment:
    before, after = _both(path, context)
    if not _is_lower(before, after) or not _cleans(context, "compact"):
        return SAFE
    when = f"once they are {rounded_duration(after)} old" if after else "as soon as their segment is closed"
    return RiskAssessment(
        Risk.DESTRUCTIVE,
        "compaction-lag-cut",
        f"{_change(path, context)}: records that a newer record with the same key replaces are deleted "
        f"permanently {when}",
        "copy what is still needed first, or keep the current value",
    )


def _compaction(path: str, context: UpdateContext) -> RiskAssessment:
    """Judge how soon compaction begins to work: it may remove what was replaced, and now does so earlier."""
    if not _is_lower(_number(context.before.get(path)), _number(context.after.get(path))):
        return SAFE
    if not _cleans(context, "compact") or _never_compacts(context.after, unknown=False):
        return SAFE
    if _never_compacts(context.before, unknown=True):
        return RiskAssessment(
            Risk.DESTRUCTIVE,
            "compaction-start",
            f"{_change(path, context)}: compaction, which never ran so far, starts, and deletes all but "
            "the latest record of every key",
            "copy what is still needed first, or keep the current value",
        )
    return RiskAssessment(
        Risk.DISRUPTIVE,
        "compaction-sooner",
        f"{_change(path, context)}: records that a newer record with the same key replaces "
        "are deleted sooner",
    )


def _never_compacts(state: State, *, unknown: bool) -> bool:
    """Whether compaction never runs; `unknown` where a value that decides it cannot be read.

    It begins when a greater share than min.cleanable.dirty.ratio is dirty (seen in LogCleanerManager of
    4.3.1: not at the very share, so never at 1), or when max.compaction.lag.ms is over.
    """
    ratio = _number(state.get(CONFIG_PREFIX + "min.cleanable.dirty.ratio"))
    longest = _number(state.get(CONFIG_PREFIX + "max.compaction.lag.ms"))
    if (ratio is not None and ratio < 1) or (longest is not None and longest < _NEVER_MS):
        return False
    return unknown if ratio is None or longest is None else True


def _tombstones(path: str, context: UpdateContext) -> RiskAssessment:
    if not _is_lower(*_both(path, context)) or not _cleans(context, "compact"):
        return SAFE
    return RiskAssessment(
        Risk.DISRUPTIVE,
        "tombstone-retention-cut",
        f"{_change(path, context)}: a reader that is further behind misses deletions",
    )


def _segment(path: str, context: UpdateContext) -> RiskAssessment:
    """Judge segments that are closed sooner: what is past retention, or was replaced, goes with them."""
    before, after = _both(path, context)
    sooner = (after, before) if path == _SEGMENT_JITTER else (before, after)
    if not _is_lower(*sooner):
        return SAFE
    effects = []
    if _cleans(context, "compact"):
        effects.append("records that a newer record with the same key replaces are deleted sooner")
    retention = integer(context.after.get(_RETENTION_MS))
    size = integer(context.after.get(_RETENTION_BYTES))
    if _cleans(context, "delete") and not retention == size == UNLIMITED:
        effects.append("records past retention are deleted sooner")
        if path == _SEGMENT_MS and retention is not None and retention != UNLIMITED:
            effects[-1] += _shorter_stay(retention, before, after)
    if not effects:
        return SAFE
    return RiskAssessment(
        Risk.DISRUPTIVE,
        "segment-cut",
        f"{_change(path, context)}: segments are closed sooner, so {' and '.join(effects)}",
    )


def _shorter_stay(retention: int, before: int | None, after: int | None) -> str:
    now, then = _longest_stay(retention, before), _longest_stay(retention, after)
    return f", at an age of up to {then}{f' (was {now})' if now else ''}" if then else ""


def _timestamp_type(path: str, context: UpdateContext) -> RiskAssessment:
    before, after = _text(context.before, path), _text(context.after, path)
    if before == after and before is not None:
        return SAFE
    told = f"message.timestamp.type goes from {before or _UNREADABLE} to {after or _UNREADABLE}"
    retained = "delete" in either_policy(context, unknown={"delete"})
    retention = integer(context.after.get(_RETENTION_MS))
    if after == "LogAppendTime":
        counts = "; retention counts from then" if retained else ""
        effect = (
            "new records have the time at which the broker received them, "
            f"not the time that their producer set{counts}"
        )
    elif retained and retention is not None and retention != UNLIMITED:
        effect = (
            "retention counts from the time that producers set, so new records that are dated back "
            f"{rounded_duration(retention)} or more are deleted soon after they are written"
        )
    else:
        effect = "new records have the time that their producer set"
    return RiskAssessment(Risk.DISRUPTIVE, "timestamp-type", f"{told}: {effect}")


def _compression(path: str, context: UpdateContext) -> RiskAssessment:
    """Judge what brokers recompress: the result, too, may not be larger than max.message.bytes."""
    before, after = _text(context.before, path), _text(context.after, path)
    if before == after and before is not None:
        return SAFE
    used = _text(context.after, _COMPRESSION_TYPE)
    if used == "producer":
        return SAFE  # batches are stored as they were sent
    if path != _COMPRESSION_TYPE and used is not None and f".{used}." not in path:
        return SAFE  # the level of a type that is not in use
    name, limit = path.removeprefix(CONFIG_PREFIX), "max.message.bytes"
    return RiskAssessment(
        Risk.DISRUPTIVE,
        "recompression",
        f"{name} goes from {before or _UNREADABLE} to {after or _UNREADABLE}: brokers "
        "recompress batches that producers sent otherwise, which takes CPU time, and refuse those that are "
        f"then larger than {limit} ({_human(limit, integer(context.after.get(CONFIG_PREFIX + limit)))})",
    )


def _flush(path: str, context: UpdateContext) -> RiskAssessment:
    """Judge how often a broker forces records to disk; until then they are in memory of each replica."""
    before, after = _both(path, context)
    if before is not None and before == after:
        return SAFE
    if _is_lower(before, after):
        effect = "brokers force records to disk more often, and writes take longer"
    else:
        effect = "more records that were acknowledged are lost if the machines of all replicas fail at once"
    return RiskAssessment(Risk.DISRUPTIVE, "flush-interval", f"{_change(path, context)}: {effect}")


def _min_isr(path: str, context: UpdateContext) -> RiskAssessment:
    before, after = integer(context.before.get(path)), integer(context.after.get(path))
    if after is None or (after < 2 and (before is None or after < before)):
        return RiskAssessment(
            Risk.DESTRUCTIVE,
            "min-isr-cut",
            f"min.insync.replicas goes from {shown(before)} to {shown(after)}: "
            "an acknowledged write may then exist on one broker only, and be lost with it",
            "keep at least 2 where data must not be lost",
        )
    if before is None or after > before:
        return RiskAssessment(
            Risk.DISRUPTIVE,
            "min-isr-raise",
            f"writes with acks=all stop when fewer than {after} replicas are in sync (was {shown(before)})",
        )
    return SAFE


def _unclean_election(path: str, context: UpdateContext) -> RiskAssessment:
    if _text(context.after, path) == "false" or _text(context.before, path) == "true":
        return SAFE
    return RiskAssessment(
        Risk.DESTRUCTIVE,
        "unclean-election",
        "a replica that is behind may become leader: acknowledged records are then lost",
        "write config: {unclean.leader.election.enable: false}; switch it on by hand in an emergency only",
    )


def _remote_storage(path: str, context: UpdateContext) -> RiskAssessment:
    if _text(context.before, path) == "false" or _text(context.after, path) == "true":
        return SAFE
    if _text(context.after, CONFIG_PREFIX + "remote.log.delete.on.disable") == "false":
        return RiskAssessment(
            Risk.DISRUPTIVE, "remote-storage-off", "no more segments are copied to remote storage"
        )
    return RiskAssessment(
        Risk.DESTRUCTIVE,
        "remote-storage-delete",
        "remote.log.delete.on.disable is on: disabling remote storage deletes the data in it",
        "to stop copying and keep the remote data readable, write config: {remote.log.copy.disable: true}",
    )


def _local_retention(path: str, context: UpdateContext) -> RiskAssessment:
    if _text(context.after, CONFIG_PREFIX + "remote.storage.enable") == "false":
        return SAFE  # nothing is in remote storage, and retention alone counts
    own, wanted = _both(path, context)
    before, after = _local(path, context.before), _local(path, context.after)
    if (own is not None and own == wanted) or not _is_cut(before, after):
        return SAFE
    name = path.removeprefix(CONFIG_PREFIX)
    return RiskAssessment(
        Risk.DISRUPTIVE,
        "local-retention-cut",
        f"{name} goes from {_human(name, before)} to {_human(name, after)}: "
        "older records are read from remote storage, which takes longer",
    )


def _local(path: str, state: State) -> int | None:
    """What is kept on brokers: as much as altogether, where local retention says so."""
    own = integer(state.get(path))
    return integer(state.get(path.replace("local.", ""))) if own == _AS_RETENTION else own


def _remote_copy(path: str, context: UpdateContext) -> RiskAssessment:
    before, after = _text(context.before, path), _text(context.after, path)
    off = _text(context.after, CONFIG_PREFIX + "remote.storage.enable") == "false"
    if off or after == "false" or before == "true":
        return SAFE
    return RiskAssessment(
        Risk.DISRUPTIVE,
        "remote-storage-off",
        "no more segments are copied to remote storage: brokers keep all that is written from now on",
    )


def _remote_delete(path: str, context: UpdateContext) -> RiskAssessment:
    if _text(context.after, path) == "false" or _text(context.before, path) == "true":
        return SAFE
    return RiskAssessment(
        Risk.DESTRUCTIVE,
        "remote-storage-delete",
        "data in remote storage is deleted as soon as remote.storage.enable is switched off",
        "write config: {remote.log.delete.on.disable: false}",
    )


def _lowered(hazard: str, effect: str) -> Callable[[str, UpdateContext], RiskAssessment]:
    def judge_lowering(path: str, context: UpdateContext) -> RiskAssessment:
        if not _is_lower(*_both(path, context)):
            return SAFE
        return RiskAssessment(Risk.DISRUPTIVE, hazard, f"{_change(path, context)}: {effect}")

    return judge_lowering


_TIMESTAMPS = _lowered("timestamp-bound-cut", "records whose timestamp is further off are refused")
_COMPRESSION_TYPE = "config.compression.type"
_RETENTION_MS, _RETENTION_BYTES = "config.retention.ms", "config.retention.bytes"
_SEGMENT_MS, _SEGMENT_JITTER = "config.segment.ms", "config.segment.jitter.ms"

JUDGES: Mapping[str, Callable[[str, UpdateContext], RiskAssessment]] = {
    _RETENTION_MS: _retention,
    _RETENTION_BYTES: _retention,
    "config.cleanup.policy": _cleanup_policy,
    "config.min.insync.replicas": _min_isr,
    "config.unclean.leader.election.enable": _unclean_election,
    "config.remote.storage.enable": _remote_storage,
    "config.remote.log.delete.on.disable": _remote_delete,
    "config.max.message.bytes": _lowered("message-size-cut", "larger records are refused"),
    "config.delete.retention.ms": _tombstones,
    _COMPRESSION_TYPE: _compression,
    "config.compression.gzip.level": _compression,
    "config.compression.lz4.level": _compression,
    "config.compression.zstd.level": _compression,
    "config.flush.messages": _flush,
    "config.flush.ms": _flush,
    "config.local.retention.ms": _local_retention,
    "config.local.retention.bytes": _local_retention,
    "config.max.compaction.lag.ms": _compaction,
    "config.min.cleanable.dirty.ratio": _compaction,
    "config.min.compaction.lag.ms": _min_compaction_lag,
    "config.message.timestamp.type": _timestamp_type,
    "config.message.timestamp.before.max.ms": _TIMESTAMPS,
    "config.message.timestamp.after.max.ms": _TIMESTAMPS,
    "config.remote.log.copy.disable": _remote_copy,
    # A segment is closed as well when one of its indexes is full: of few or of frequent entries.
    "config.index.interval.bytes": _segment,
    "config.segment.bytes": _segment,
    "config.segment.index.bytes": _segment,
    _SEGMENT_JITTER: _segment,
    _SEGMENT_MS: _segment,
}


def either_policy(context: UpdateContext, unknown: set[str]) -> set[str]:
    """The cleanup policies in force before or after the change; `unknown` where one cannot be read."""
    before, after = _policies(context.before), _policies(context.after)
    return (unknown if before is None else before) | (unknown if after is None else after)


def _policies(state: State) -> set[str] | None:
    text = _text(state, CONFIG_PREFIX + "cleanup.policy")
    return None if text is None else set(text.split(",")) - {""}


def _cleans(context: UpdateContext, policy: str) -> bool:
    """Whether a policy is in force after the change; one that cannot be read is taken for being so."""
    after = _policies(context.after)
    return after is None or policy in after


def _text(state: State, path: str) -> str | None:
    """A config's value in its canonical spelling: brokers give values back as they were set."""
    value = state.get(path)
    key = kafka_configs.topic_configs().get(path.removeprefix(CONFIG_PREFIX))
    return None if value is None else kafka_configs.observed(key, str(value))


def _both(path: str, context: UpdateContext) -> tuple[int | None, int | None]:
    return integer(context.before.get(path)), integer(context.after.get(path))


def _is_lower(before: float | None, after: float | None) -> bool:
    return before is None or after is None or after < before


def integer(value: FieldValue) -> int | None:
    """A whole number; None if the value is none."""
    try:
        return None if value is None else int(value)
    except ValueError:
        return None


def _number(value: FieldValue) -> float | None:
    """A number as it is: only a share, such as min.cleanable.dirty.ratio, is no whole one."""
    whole = integer(value)
    try:
        return float(value) if whole is None and value is not None else whole
    except ValueError:
        return None


def _change(path: str, context: UpdateContext) -> str:
    name = path.removeprefix(CONFIG_PREFIX)
    before, after = (_number(state.get(path)) for state in (context.before, context.after))
    return f"{name} goes from {_human(name, before)} to {_human(name, after)}"


def _human(name: str, value: float | None) -> str:
    """A value as people say it, rounded where it is odd: the plan shows it exactly beside the reason."""
    if value is None:
        return _UNREADABLE
    key = kafka_configs.topic_configs()[name]
    shown = kafka_configs.human(key, str(value))
    if not isinstance(value, int) or value < 0 or shown.endswith(")"):
        return shown
    match key.unit:
        case Unit.MS:
            return rounded_duration(value)
        case Unit.BYTES:
            return f"about {rounded_size(value)}" if shown.isdecimal() and value >= _ODD_BYTES else shown
        case None:
            return f"{value:,}"


_ODD_BYTES = 10_000
"""From here on a number of bytes that no unit fits is rounded."""
_UNREADABLE = "a value this account may not read"


def shown(value: FieldValue) -> str:
    """A value in a reason."""
    return _UNREADABLE if value is None else str(value)


def _join(policies: set[str] | None) -> str:
    return _UNREADABLE if policies is None else ",".join(sorted(policies)) or "none"
