"""The risk of a change of a topic config, assessed from the effective values before and after it.

Every topic config of Kafka is either assessed by a function (`JUDGES`) or listed as harmless with the reason
(`HARMLESS`). Any other is disruptive, so that a config that a later Kafka adds is never silently safe. The
worst is assumed of a value that this account may not read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.core import kafka_configs
from kafkaform.core.kafka_configs import Unit
from kafkaform.core.model import CONFIG_PREFIX, SAFE, FieldValue, Risk, RiskAssessment, State, to_integer
from kafkaform.core.units import rounded_duration, rounded_size
from kafkaform.resources.base import UpdateContext, explain_unclassified

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

UNLIMITED = -1
"""Kafka's value for "no limit" in retention.ms and retention.bytes."""

_AS_RETENTION = -2
"""Kafka's value for "as retention.*" in local.retention.*."""
_NEVER_MS = 2**63 - 1
"""Kafka's value for "never" in configs in milliseconds."""

# Anything else is disruptive. A test compares this table and JUDGES with Kafka's own list of configs.
HARMLESS = {
    "file.delete.delay.ms": "no client can read a deleted file, however long it stays on disk",
    "preallocate": "a segment's file gets its full length at once, and the same records",
}
"""Configs whose changes cannot lose, reorder or refuse a record, whatever the values, and why."""

_COMPRESSION_TYPE = "config.compression.type"
_RETENTION_MS, _RETENTION_BYTES = "config.retention.ms", "config.retention.bytes"
_SEGMENT_MS, _SEGMENT_JITTER = "config.segment.ms", "config.segment.jitter.ms"
# Below it, the exact number of bytes is as short as a rounded one.
_ODD_BYTES = 10_000


def judge(path: str, context: UpdateContext) -> RiskAssessment:
    """Assess the change of one config."""
    judge_config = JUDGES.get(path)
    if judge_config is not None:
        return judge_config(path, context)
    name = path.removeprefix(CONFIG_PREFIX)
    if name in HARMLESS:
        return SAFE
    known = kafka_configs.find_topic_config(name) is not None
    return RiskAssessment(Risk.DISRUPTIVE, "unknown-config", explain_unclassified(name, known=known))


def _judge_retention(path: str, context: UpdateContext) -> RiskAssessment:
    name = path.removeprefix(CONFIG_PREFIX)
    before, after = to_integer(context.before.get(path)), to_integer(context.after.get(path))
    # Before or after: one plan may change the policy and the retention, and one request carries out both.
    if "delete" not in either_policy(context, unknown={"delete"}):
        return SAFE  # a topic that is only compacted has no retention
    if not _is_cut(before, after):
        return SAFE
    is_size = name.endswith("bytes")
    effect = _describe_deletion_by_size(after) if is_size else _describe_deletion_by_time(after, context)
    return RiskAssessment(
        Risk.DESTRUCTIVE,
        "retention-cut",
        f"{name} is cut from {_human(name, before)} to {_human(name, after)}: {effect}",
        "copy what is still needed first, or keep the current value",
    )


def _describe_deletion_by_time(retention: int | None, context: UpdateContext) -> str:
    """Describe what a shorter retention deletes: segments whose newest record is past retention.

    So a record stays until its segment is closed, and for the retention after that (KF111).
    """
    longest = None
    if retention is not None:
        longest = _longest_stay(retention, to_integer(context.after.get(_SEGMENT_MS)))
    time = f"at an age of up to {longest}" if longest else "once it is"
    return (
        f"older records are deleted permanently, within minutes if their whole segment is older, else {time}"
    )


def _describe_deletion_by_size(retention: int | None) -> str:
    beyond = "it" if retention is None else _human("retention.bytes", retention)
    return f"in every partition, the oldest segments beyond {beyond} are deleted permanently within minutes"


def _longest_stay(retention: int, segment: int | None) -> str | None:
    """Return the age at which the oldest record of a segment is deleted; None if unknown, or never."""
    if segment is None or retention + segment >= _NEVER_MS:
        return None
    return rounded_duration(retention + segment)


def _is_cut(before: int | None, after: int | None) -> bool:
    # -1 is the least number and the longest retention, as is Long.MAX, which no record reaches.
    longest = (UNLIMITED, _NEVER_MS)
    if after in longest:
        return False
    return before is None or after is None or before in longest or after < before


def _judge_cleanup_policy(_: str, context: UpdateContext) -> RiskAssessment:
    known_before, known_after = _read_policies(context.before), _read_policies(context.after)
    before, after = known_before or set(), known_after or set()
    # An unreadable value counts as an empty set here, and as a risk below.
    added, removed = after - before, before - after
    # Only an added policy deletes records: delete the old ones, compact the superseded ones.
    if known_before is None or known_after is None or added:
        effects_by_policy = {
            "delete": "records older than the retention are deleted",
            "compact": "all but the latest record of every key are deleted, "
            "and records without a key are refused",
        }
        effects = "; ".join(effects_by_policy.get(policy, policy) for policy in sorted(added))
        effects = effects or "a policy is not known"
        return RiskAssessment(
            Risk.DESTRUCTIVE,
            "cleanup-policy",
            f"cleanup.policy goes from {_join(known_before)} to {_join(known_after)}: {effects}",
            "create a new topic with the other policy and move over",
        )
    if removed:
        return RiskAssessment(
            Risk.DISRUPTIVE, "cleanup-policy-removed", f"{_join(removed)} no longer cleans the log: it grows"
        )
    return SAFE


def _judge_min_compaction_lag(path: str, context: UpdateContext) -> RiskAssessment:
    before, after = _read_both(path, context)
    if not _is_lower(before, after) or not _cleans(context, "compact"):
        return SAFE
    when = f"once they are {rounded_duration(after)} old" if after else "as soon as their segment is closed"
    return RiskAssessment(
        Risk.DESTRUCTIVE,
        "compaction-lag-cut",
        f"{_change(path, context)}: superseded records are deleted permanently {when}",
        "copy what is still needed first, or keep the current value",
    )


def _judge_compaction(path: str, context: UpdateContext) -> RiskAssessment:
    """Assess an earlier start of compaction, which removes superseded records sooner."""
    if not _is_lower(_parse_number(context.before.get(path)), _parse_number(context.after.get(path))):
        return SAFE
    # A topic that still never compacts afterwards loses nothing.
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
        f"{_change(path, context)}: superseded records are deleted sooner",
    )


def _never_compacts(state: State, *, unknown: bool) -> bool:
    """Return whether compaction never runs; `unknown` if a value that decides it cannot be read.

    It starts when the dirty share exceeds min.cleanable.dirty.ratio (seen in LogCleanerManager of 4.3.1: not
    at the ratio itself, so never at 1), or when max.compaction.lag.ms is over.
    """
    ratio = _parse_number(state.get(CONFIG_PREFIX + "min.cleanable.dirty.ratio"))
    longest = _parse_number(state.get(CONFIG_PREFIX + "max.compaction.lag.ms"))
    if (ratio is not None and ratio < 1) or (longest is not None and longest < _NEVER_MS):
        return False
    return unknown if ratio is None or longest is None else True


def _judge_tombstones(path: str, context: UpdateContext) -> RiskAssessment:
    # A tombstone is kept this long after its segment was compacted, so that readers see the deletion.
    if not _is_lower(*_read_both(path, context)) or not _cleans(context, "compact"):
        return SAFE
    return RiskAssessment(
        Risk.DISRUPTIVE,
        "tombstone-retention-cut",
        f"{_change(path, context)}: a reader that is further behind misses deletions",
    )


def _judge_segment(path: str, context: UpdateContext) -> RiskAssessment:
    """Assess earlier closing of segments, which deletes expired and superseded records sooner."""
    before, after = _read_both(path, context)
    # The jitter is subtracted from segment.ms, so more of it closes segments sooner.
    sooner = (after, before) if path == _SEGMENT_JITTER else (before, after)
    if not _is_lower(*sooner):
        return SAFE
    # Compaction leaves the active segment alone, and retention deletes a segment once its newest record is
    # past it: in smaller segments, records reach both sooner.
    effects = []
    if _cleans(context, "compact"):
        effects.append("superseded records are deleted sooner")
    retention = to_integer(context.after.get(_RETENTION_MS))
    size = to_integer(context.after.get(_RETENTION_BYTES))
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


def _judge_timestamp_type(path: str, context: UpdateContext) -> RiskAssessment:
    before, after = _read_text(context.before, path), _read_text(context.after, path)
    if before == after and before is not None:
        return SAFE
    change = f"message.timestamp.type goes from {before or _UNREADABLE} to {after or _UNREADABLE}"
    retained = "delete" in either_policy(context, unknown={"delete"})
    retention = to_integer(context.after.get(_RETENTION_MS))
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
    return RiskAssessment(Risk.DISRUPTIVE, "timestamp-type", f"{change}: {effect}")


def _judge_compression(path: str, context: UpdateContext) -> RiskAssessment:
    """Assess recompression by brokers, whose result must not exceed max.message.bytes either."""
    before, after = _read_text(context.before, path), _read_text(context.after, path)
    if before == after and before is not None:
        return SAFE
    used = _read_text(context.after, _COMPRESSION_TYPE)
    # Batches are stored as they were sent.
    if used == "producer":
        return SAFE
    # The level of a type that is not in use.
    if path != _COMPRESSION_TYPE and used is not None and f".{used}." not in path:
        return SAFE
    name, limit = path.removeprefix(CONFIG_PREFIX), "max.message.bytes"
    return RiskAssessment(
        Risk.DISRUPTIVE,
        "recompression",
        f"{name} goes from {before or _UNREADABLE} to {after or _UNREADABLE}: brokers "
        "recompress batches that producers sent otherwise, which takes CPU time, and refuse those that are "
        f"then larger than {limit} ({_human(limit, to_integer(context.after.get(CONFIG_PREFIX + limit)))})",
    )


def _judge_flush(path: str, context: UpdateContext) -> RiskAssessment:
    """Assess the interval of forcing records to disk; until then, replicas have them in memory only."""
    # Kafka's documentation recommends to rely on replicas instead; so a longer interval is a risk only if
    # all of them fail.
    before, after = _read_both(path, context)
    if before is not None and before == after:
        return SAFE
    if _is_lower(before, after):
        effect = "brokers force records to disk more often, and writes take longer"
    else:
        effect = "more records that were acknowledged are lost if the machines of all replicas fail at once"
    return RiskAssessment(Risk.DISRUPTIVE, "flush-interval", f"{_change(path, context)}: {effect}")


def _judge_min_isr(path: str, context: UpdateContext) -> RiskAssessment:
    before, after = to_integer(context.before.get(path)), to_integer(context.after.get(path))
    # From 3 to 2 is safe: an acknowledged write is still on two brokers.
    if after is None or (after < 2 and (before is None or after < before)):
        return RiskAssessment(
            Risk.DESTRUCTIVE,
            "min-isr-cut",
            f"min.insync.replicas goes from {format_known(before)} to {format_known(after)}: "
            "an acknowledged write may then exist on one broker only, and be lost with it",
            "keep at least 2 where data must not be lost",
        )
    if before is None or after > before:
        return RiskAssessment(
            Risk.DISRUPTIVE,
            "min-isr-raise",
            f"writes with acks=all stop when fewer than {after} replicas are in sync "
            f"(was {format_known(before)})",
        )
    return SAFE


def _judge_unclean_election(path: str, context: UpdateContext) -> RiskAssessment:
    # On already, or off afterwards: the plan adds no risk.
    if _read_text(context.after, path) == "false" or _read_text(context.before, path) == "true":
        return SAFE
    return RiskAssessment(
        Risk.DESTRUCTIVE,
        "unclean-election",
        "a replica that is behind may become leader: acknowledged records are then lost",
        "write `config: {unclean.leader.election.enable: false}`; switch it on by hand in an emergency only",
    )


def _judge_remote_storage(path: str, context: UpdateContext) -> RiskAssessment:
    if _read_text(context.before, path) == "false" or _read_text(context.after, path) == "true":
        return SAFE
    if _read_text(context.after, CONFIG_PREFIX + "remote.log.delete.on.disable") == "false":
        return RiskAssessment(
            Risk.DISRUPTIVE, "remote-storage-off", "no more segments are copied to remote storage"
        )
    return RiskAssessment(
        Risk.DESTRUCTIVE,
        "remote-storage-delete",
        "remote.log.delete.on.disable is on: disabling remote storage deletes the data in it",
        "to stop copying and keep the remote data readable, write `config: {remote.log.copy.disable: true}`",
    )


def _judge_local_retention(path: str, context: UpdateContext) -> RiskAssessment:
    if _read_text(context.after, CONFIG_PREFIX + "remote.storage.enable") == "false":
        return SAFE  # without remote storage, local retention has no effect
    # KIP-405: local.retention.* is -2 by default, which means the value of retention.*.
    own, wanted = _read_both(path, context)
    before, after = _read_local_retention(path, context.before), _read_local_retention(path, context.after)
    if (own is not None and own == wanted) or not _is_cut(before, after):
        return SAFE
    name = path.removeprefix(CONFIG_PREFIX)
    return RiskAssessment(
        Risk.DISRUPTIVE,
        "local-retention-cut",
        f"{name} goes from {_human(name, before)} to {_human(name, after)}: "
        "older records are read from remote storage, which takes longer",
    )


def _read_local_retention(path: str, state: State) -> int | None:
    """Return the local retention, which may be defined as the total one."""
    own = to_integer(state.get(path))
    return to_integer(state.get(path.replace("local.", ""))) if own == _AS_RETENTION else own


def _judge_remote_copy(path: str, context: UpdateContext) -> RiskAssessment:
    before, after = _read_text(context.before, path), _read_text(context.after, path)
    # KIP-950: brokers keep reading remote data, but copy no more segments.
    off = _read_text(context.after, CONFIG_PREFIX + "remote.storage.enable") == "false"
    if off or after == "false" or before == "true":
        return SAFE
    return RiskAssessment(
        Risk.DISRUPTIVE,
        "remote-storage-off",
        "no more segments are copied to remote storage: brokers keep all that is written from now on",
    )


def _judge_remote_delete(path: str, context: UpdateContext) -> RiskAssessment:
    # Nothing is deleted yet: that happens once remote.storage.enable is switched off (KIP-950).
    if _read_text(context.after, path) == "false" or _read_text(context.before, path) == "true":
        return SAFE
    return RiskAssessment(
        Risk.DESTRUCTIVE,
        "remote-storage-delete",
        "data in remote storage is deleted as soon as remote.storage.enable is switched off",
        "write `config: {remote.log.delete.on.disable: false}`",
    )


def _judge_lowering_of(hazard: str, effect: str) -> Callable[[str, UpdateContext], RiskAssessment]:
    def judge_lowering(path: str, context: UpdateContext) -> RiskAssessment:
        if not _is_lower(*_read_both(path, context)):
            return SAFE
        return RiskAssessment(Risk.DISRUPTIVE, hazard, f"{_change(path, context)}: {effect}")

    return judge_lowering


def _judge_message_format(path: str, context: UpdateContext) -> RiskAssessment:
    before, after = _read_text(context.before, path), _read_text(context.after, path)
    if before == after and before is not None:
        return SAFE
    return RiskAssessment(
        Risk.DISRUPTIVE,
        "message-format",
        f"message.format.version goes from {before or _UNREADABLE} to {after or _UNREADABLE}: brokers "
        "store new records in that format, and convert them for other clients, which takes CPU time; with "
        "inter.broker.protocol.version 3.0 or later (KIP-724) they ignore it",
    )


def _judge_down_conversion(path: str, context: UpdateContext) -> RiskAssessment:
    if _read_text(context.after, path) == "true" or _read_text(context.before, path) == "false":
        return SAFE
    return RiskAssessment(
        Risk.DISRUPTIVE,
        "down-conversion-off",
        "brokers no longer convert records to older formats: consumers that need one (Kafka 0.10 and "
        "earlier) fail with UNSUPPORTED_VERSION",
    )


_TIMESTAMPS = _judge_lowering_of("timestamp-bound-cut", "records whose timestamp is further off are refused")

JUDGES: Mapping[str, Callable[[str, UpdateContext], RiskAssessment]] = {
    _RETENTION_MS: _judge_retention,
    _RETENTION_BYTES: _judge_retention,
    "config.cleanup.policy": _judge_cleanup_policy,
    "config.min.insync.replicas": _judge_min_isr,
    "config.unclean.leader.election.enable": _judge_unclean_election,
    "config.remote.storage.enable": _judge_remote_storage,
    "config.remote.log.delete.on.disable": _judge_remote_delete,
    "config.max.message.bytes": _judge_lowering_of("message-size-cut", "larger records are refused"),
    "config.delete.retention.ms": _judge_tombstones,
    _COMPRESSION_TYPE: _judge_compression,
    "config.compression.gzip.level": _judge_compression,
    "config.compression.lz4.level": _judge_compression,
    "config.compression.zstd.level": _judge_compression,
    "config.flush.messages": _judge_flush,
    "config.flush.ms": _judge_flush,
    "config.local.retention.ms": _judge_local_retention,
    "config.local.retention.bytes": _judge_local_retention,
    "config.max.compaction.lag.ms": _judge_compaction,
    "config.min.cleanable.dirty.ratio": _judge_compaction,
    "config.min.compaction.lag.ms": _judge_min_compaction_lag,
    "config.message.timestamp.type": _judge_timestamp_type,
    "config.message.timestamp.before.max.ms": _TIMESTAMPS,
    "config.message.timestamp.after.max.ms": _TIMESTAMPS,
    # Retired in Kafka 4.0.
    "config.message.timestamp.difference.max.ms": _TIMESTAMPS,
    "config.message.downconversion.enable": _judge_down_conversion,
    "config.message.format.version": _judge_message_format,
    "config.remote.log.copy.disable": _judge_remote_copy,
    # A segment is closed as well when one of its indexes is full: of few or of frequent entries.
    "config.index.interval.bytes": _judge_segment,
    "config.segment.bytes": _judge_segment,
    "config.segment.index.bytes": _judge_segment,
    _SEGMENT_JITTER: _judge_segment,
    _SEGMENT_MS: _judge_segment,
}


def either_policy(context: UpdateContext, unknown: set[str]) -> set[str]:
    """Return the cleanup policies before and after the change; `unknown` for one that cannot be read."""
    before, after = _read_policies(context.before), _read_policies(context.after)
    return (unknown if before is None else before) | (unknown if after is None else after)


def _read_policies(state: State) -> set[str] | None:
    text = _read_text(state, CONFIG_PREFIX + "cleanup.policy")
    return None if text is None else set(text.split(",")) - {""}


def _cleans(context: UpdateContext, policy: str) -> bool:
    """Return whether a policy is in force after the change; True also if that cannot be read."""
    after = _read_policies(context.after)
    return after is None or policy in after


def _read_text(state: State, path: str) -> str | None:
    """Return a config's value in canonical spelling: brokers return values as they were set."""
    value = state.get(path)
    key = kafka_configs.find_topic_config(path.removeprefix(CONFIG_PREFIX))
    return None if value is None else kafka_configs.normalise_observed(key, str(value))


def _read_both(path: str, context: UpdateContext) -> tuple[int | None, int | None]:
    return to_integer(context.before.get(path)), to_integer(context.after.get(path))


def _is_lower(before: float | None, after: float | None) -> bool:
    return before is None or after is None or after < before


def _parse_number(value: FieldValue) -> float | None:
    """Return a value as a number; only shares, such as min.cleanable.dirty.ratio, are not whole."""
    whole = to_integer(value)
    try:
        return float(value) if whole is None and value is not None else whole
    except ValueError:
        return None


def _change(path: str, context: UpdateContext) -> str:
    name = path.removeprefix(CONFIG_PREFIX)
    before, after = (_parse_number(state.get(path)) for state in (context.before, context.after))
    return f"{name} goes from {_human(name, before)} to {_human(name, after)}"


def _human(name: str, value: float | None) -> str:
    """Return a value with its unit, rounded if it is odd: the plan also shows the exact value."""
    if value is None:
        return _UNREADABLE
    key = kafka_configs.find_topic_config(name)
    text = kafka_configs.human(key, str(value))
    if key is None or not isinstance(value, int) or value < 0 or text.endswith(")"):
        return text
    match key.unit:
        case Unit.MS:
            return rounded_duration(value)
        case Unit.BYTES:
            return f"about {rounded_size(value)}" if text.isdecimal() and value >= _ODD_BYTES else text
        case None:
            return f"{value:,}"


_UNREADABLE = "a value this account may not read"


def format_known(value: FieldValue) -> str:
    """Return a value as text for a reason."""
    return _UNREADABLE if value is None else str(value)


def _join(policies: set[str] | None) -> str:
    return _UNREADABLE if policies is None else ",".join(sorted(policies)) or "none"
