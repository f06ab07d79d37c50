"""How risky a change of a Topic is, from the values in force before and after it.

A judgement compares effective with effective values, so that taking away an own value is judged by the
default that comes into force. A value that this account may not read is taken for the worst.
"""

from __future__ import annotations

from dataclasses import replace
from math import lcm
from typing import TYPE_CHECKING

from kafkaform import kafka_configs
from kafkaform.kinds.topic import placement
from kafkaform.kinds.topic.measurement import measured
from kafkaform.model import CONFIG_PREFIX, SAFE, FieldValue, Judgement, Risk, State
from kafkaform.units import rounded_size

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaform.kinds.base import UpdateContext
    from kafkaform.model import Facts, ResourceRef

UNLIMITED = -1
"""How Kafka spells "no limit" in retention.ms and retention.bytes."""


HAZARDS = frozenset(
    {
        "cleanup-policy",
        "cleanup-policy-removed",
        "delete",
        "message-size-cut",
        "min-isr-cut",
        "min-isr-raise",
        "partition-decrease",
        "partition-increase",
        "partition-increase-compacted",
        "remote-storage-delete",
        "remote-storage-off",
        "replica-move",
        "replication-factor",
        "retention-cut",
        "timestamp-bound-cut",
        "tombstone-retention-cut",
        "unclean-election",
        "unknown-config",
    }
)
"""The names by which a change of a Topic can be consented to or forbidden."""


def judge(path: str, context: UpdateContext) -> Judgement:
    """How risky the change of one field is."""
    judge_field = _BY_PATH.get(path)
    if judge_field is not None:
        judgement = sized(judge_field(path, context), context.ref, context.facts)
        return measured(judgement, context) if path == "partitions" else judgement
    name = path.removeprefix(CONFIG_PREFIX)
    if name not in kafka_configs.topic_configs():
        return Judgement(
            Risk.DISRUPTIVE,
            "unknown-config",
            f"Apache Kafka does not know {name}: what the change does is up to the broker's vendor",
        )
    return SAFE


def sized(judgement: Judgement, ref: ResourceRef, facts: Facts) -> Judgement:
    """A judgement of what happens to data, with how much data that is where it is known."""
    if judgement.hazard not in _OF_DATA or ref not in facts.sizes:
        return judgement
    return replace(judgement, reason=f"{judgement.reason} (the topic holds {rounded_size(facts.sizes[ref])})")


_OF_DATA = frozenset(
    {
        "cleanup-policy",
        "delete",
        "partition-decrease",
        "partition-increase",
        "partition-increase-compacted",
        "replication-factor",
        "retention-cut",
    }
)


def keys_that_stay(before: int, after: int) -> float:
    """The share of keys that keep their partition when the count changes, with `hash mod count`.

    Over one period of lcm(before, after) hashes, `h mod before == h mod after` holds for exactly
    min(before, after) of them (Chinese remainder theorem).
    """
    return min(before, after) / lcm(before, after)


def _successor(name: str) -> str:
    """The name of the next version of a topic: orders.v2 after orders.v1, and after orders."""
    stem, _, version = name.rpartition(".v")
    return f"{stem}.v{int(version) + 1}" if stem and version.isdecimal() else f"{name}.v2"


def _percent_that_move(before: int, after: int) -> float:
    """To one place after the point, rounded down: it is never all of them."""
    period = lcm(before, after)
    return (period - min(before, after)) * 1000 // period / 10


def _partitions(path: str, context: UpdateContext) -> Judgement:
    before, after = _int(context.before.get(path)), _int(context.after.get(path))
    if before is None or after is None:
        return SAFE
    name = context.ref.name
    if after < before:
        return Judgement(
            Risk.IMPOSSIBLE,
            "partition-decrease",
            f"Kafka cannot take partitions away from a topic ({before} → {after}): "
            "their records would be lost",
            f"create a new topic (such as {_successor(name)}) with {after} partitions, copy the records "
            f"over, move producers and consumers, then delete {name}; or declare partitions: {before}",
        )
    moved = f"{_percent_that_move(before, after):g} % of keys move to another partition"
    if "compact" in _either_policy(context, unknown={"compact"}):
        return Judgement(
            Risk.DESTRUCTIVE,
            "partition-increase-compacted",
            f"{moved}: their old values stay on the old partition and compaction no longer removes them, "
            "so readers see two latest values for one key",
            f"create a new topic with {after} partitions and rewrite every key into it",
        )
    if context.intent.keyed is False:
        return SAFE
    assumed = "" if context.intent.keyed else " (if records have keys)"
    return Judgement(
        Risk.DISRUPTIVE,
        "partition-increase",
        f"{moved}{assumed}: order per key is broken between records before and after the change",
        "declare keyed: false if order per key does not matter; or create a new topic and move over",
    )


def _replication_factor(path: str, context: UpdateContext) -> Judgement:
    before, after = context.before.get(path), context.after.get(path)
    return Judgement(
        Risk.DISRUPTIVE,
        "replication-factor",
        f"every partition goes from {before} to {after} replicas: data is copied or dropped between brokers",
    )


def _retention(path: str, context: UpdateContext) -> Judgement:
    name = path.removeprefix(CONFIG_PREFIX)
    before, after = _int(context.before.get(path)), _int(context.after.get(path))
    if "delete" not in _either_policy(context, unknown={"delete"}):
        return SAFE  # a topic that is only compacted has no retention
    if not _is_cut(before, after):
        return SAFE
    scope = " in every partition" if name.endswith("bytes") else ""
    return Judgement(
        Risk.DESTRUCTIVE,
        "retention-cut",
        f"{name} is cut from {_human(name, before)} to {_human(name, after)}: "
        f"what lies beyond is deleted{scope} within minutes and cannot be had back",
        "copy what is still needed first, or keep the present value",
    )


def _is_cut(before: int | None, after: int | None) -> bool:
    if after == UNLIMITED:
        return False
    return before is None or after is None or before == UNLIMITED or after < before


def _cleanup_policy(_: str, context: UpdateContext) -> Judgement:
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
        return Judgement(
            Risk.DESTRUCTIVE,
            "cleanup-policy",
            f"cleanup.policy goes from {_join(known_before)} to {_join(known_after)}: {effects}",
            "create a new topic with the other policy and move over",
        )
    if removed:
        return Judgement(
            Risk.DISRUPTIVE,
            "cleanup-policy-removed",
            f"{_join(removed)} no longer cleans the log: it grows",
        )
    return SAFE


def _min_isr(path: str, context: UpdateContext) -> Judgement:
    before, after = _int(context.before.get(path)), _int(context.after.get(path))
    if after is None or (after < 2 and (before is None or after < before)):
        return Judgement(
            Risk.DESTRUCTIVE,
            "min-isr-cut",
            f"min.insync.replicas goes from {_show(before)} to {_show(after)}: "
            "an acknowledged write may then exist on one broker only, and be lost with it",
            "keep at least 2 where data must not be lost",
        )
    if before is None or after > before:
        return Judgement(
            Risk.DISRUPTIVE,
            "min-isr-raise",
            f"writes with acks=all stop when fewer than {after} replicas are in sync (was {_show(before)})",
        )
    return SAFE


def _unclean_election(path: str, context: UpdateContext) -> Judgement:
    if _text(context.after, path) == "false" or _text(context.before, path) == "true":
        return SAFE
    return Judgement(
        Risk.DESTRUCTIVE,
        "unclean-election",
        "a replica that is behind may become leader: acknowledged records are then lost",
        "leave unclean.leader.election.enable=false, and switch it on by hand for an emergency only",
    )


def _remote_storage(path: str, context: UpdateContext) -> Judgement:
    if _text(context.before, path) == "false" or _text(context.after, path) == "true":
        return SAFE
    if _text(context.after, CONFIG_PREFIX + "remote.log.delete.on.disable") == "false":
        return Judgement(
            Risk.DISRUPTIVE, "remote-storage-off", "no more segments are copied to remote storage"
        )
    return Judgement(
        Risk.DESTRUCTIVE,
        "remote-storage-delete",
        "remote.log.delete.on.disable is on: disabling remote storage deletes what lies there",
        "set remote.log.copy.disable=true to stop copying and keep the remote data readable",
    )


def _remote_delete(path: str, context: UpdateContext) -> Judgement:
    if _text(context.after, path) == "false" or _text(context.before, path) == "true":
        return SAFE
    return Judgement(
        Risk.DESTRUCTIVE,
        "remote-storage-delete",
        "data in remote storage is deleted as soon as remote.storage.enable is switched off",
        "leave remote.log.delete.on.disable=false",
    )


def _lowered(hazard: str, reason: str) -> Callable[[str, UpdateContext], Judgement]:
    def judge_lowering(path: str, context: UpdateContext) -> Judgement:
        before, after = _int(context.before.get(path)), _int(context.after.get(path))
        if before is not None and after is not None and after >= before:
            return SAFE
        name = path.removeprefix(CONFIG_PREFIX)
        change = f"{name} goes from {_human(name, before)} to {_human(name, after)}"
        return Judgement(Risk.DISRUPTIVE, hazard, f"{change}: {reason}")

    return judge_lowering


_TIMESTAMPS = _lowered("timestamp-bound-cut", "records whose timestamp is further off are refused")

_BY_PATH: dict[str, Callable[[str, UpdateContext], Judgement]] = {
    "partitions": _partitions,
    "replicationFactor": _replication_factor,
    "placement": placement.judge,
    "config.retention.ms": _retention,
    "config.retention.bytes": _retention,
    "config.cleanup.policy": _cleanup_policy,
    "config.min.insync.replicas": _min_isr,
    "config.unclean.leader.election.enable": _unclean_election,
    "config.remote.storage.enable": _remote_storage,
    "config.remote.log.delete.on.disable": _remote_delete,
    "config.max.message.bytes": _lowered("message-size-cut", "larger records are refused"),
    "config.delete.retention.ms": _lowered(
        "tombstone-retention-cut", "a reader that is further behind misses deletions"
    ),
    "config.message.timestamp.before.max.ms": _TIMESTAMPS,
    "config.message.timestamp.after.max.ms": _TIMESTAMPS,
}


def _either_policy(context: UpdateContext, unknown: set[str]) -> set[str]:
    """The cleanup policies in force before or after the change; `unknown` where one cannot be read."""
    before, after = _policies(context.before), _policies(context.after)
    return (unknown if before is None else before) | (unknown if after is None else after)


def _policies(state: State) -> set[str] | None:
    text = _text(state, CONFIG_PREFIX + "cleanup.policy")
    return None if text is None else set(text.split(",")) - {""}


def _text(state: State, path: str) -> str | None:
    """A config's value in its canonical spelling: brokers give values back as they were set."""
    value = state.get(path)
    key = kafka_configs.topic_configs().get(path.removeprefix(CONFIG_PREFIX))
    return None if value is None else kafka_configs.observed(key, str(value))


def _int(value: FieldValue) -> int | None:
    try:
        return None if value is None else int(value)
    except ValueError:
        return None


def _human(name: str, value: int | None) -> str:
    if value is None:
        return "a value this account may not read"
    return kafka_configs.readable(kafka_configs.topic_configs().get(name), str(value))


def _show(value: int | None) -> str:
    return "a value this account may not read" if value is None else str(value)


def _join(policies: set[str] | None) -> str:
    return "a value this account may not read" if policies is None else ",".join(sorted(policies)) or "none"
