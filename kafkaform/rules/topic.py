"""Rules about topics, from their manifests and, where it is known, their cluster."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kafkaform.model import CONFIG_PREFIX, Desired, Facts, Severity
from kafkaform.rules.catalogue import Finding, Scene, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_NAME = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


@rule("KF101", Severity.ERROR)
def legal_name(scene: Scene) -> Iterator[Finding]:
    """A topic name is not legal.

    Kafka allows 1 to 249 of the characters a-z, A-Z, 0-9, dot, underscore and dash, and neither `.` nor
    `..`: the log folder is named name, dash, partition, and file systems take 255 characters.
    """
    for topic in _topics(scene):
        name = topic.ref.name
        if name in {".", ".."} or len(name) > MAX_NAME or not _LEGAL.fullmatch(name):
            shown = name if len(name) <= MAX_NAME else f"{name[:40]}… ({len(name)} characters)"
            yield Finding(
                topic, f"{shown!r} is not a legal topic name", "use 1-249 of a-z, A-Z, 0-9, '.', '_' and '-'"
            )


@rule("KF102", Severity.ERROR)
def colliding_names(scene: Scene) -> Iterator[Finding]:
    """Two topic names differ only in `.` and `_`.

    They collide in the names of metrics, so a broker refuses the second of them; but not when both are
    created, or checked, in one request. Use one of the two characters throughout.
    """
    topics = [topic for topic in _topics(scene) if topic.state is not None]
    doomed = {topic.ref.name for topic in _topics(scene) if topic.state is None}
    live = {ref.name for ref in scene.inventory if ref.kind == "Topic"}
    folded: dict[str, set[str]] = {}
    for name in live | {topic.ref.name for topic in topics}:
        folded.setdefault(name.replace(".", "_"), set()).add(name)
    for topic in topics:
        others = sorted(folded[topic.ref.name.replace(".", "_")] - {topic.ref.name})
        if others:
            yield Finding(
                topic,
                f"{topic.ref.name} and {', '.join(others)} differ only in '.' and '_': "
                "Kafka does not allow both",
                "rename one of them" if set(others) - doomed else "plan again once the old one is deleted",
            )


@rule("KF109", Severity.ERROR)
def min_insync_replicas(scene: Scene) -> Iterator[Finding]:
    """min.insync.replicas does not fit the replication factor.

    Above it, every write with acks=all is refused, and no broker says so beforehand (error). Equal to
    it, no broker may fail (warning). At 1 with three replicas or more, acks=all promises nothing
    (warning). 2 of 3 is what most topics want. The effective value counts: without an own one, the
    cluster's default.
    """
    for topic in _topics(scene):
        replicas, least = _replicas(topic), _min_isr(topic, scene.facts)
        if replicas is None or least is None:
            continue
        both = f"min.insync.replicas is {least}, replicationFactor is {replicas}"
        if least > replicas:
            yield Finding(
                topic, f"{both}: every write with acks=all fails", f"set it to {max(1, replicas - 1)}"
            )
        elif least == replicas > 1:
            text = f"{both}: no broker may fail without stopping writes"
            yield Finding(topic, text, f"set it to {replicas - 1}", Severity.WARNING)
        elif least == 1 and replicas >= 3:
            text = f"{both}: an acknowledged write may be on one broker only"
            yield Finding(topic, text, "set it to 2", Severity.WARNING)


def _topics(scene: Scene) -> list[Desired]:
    return [desired for desired in scene.desired if desired.ref.kind == "Topic"]


def _replicas(topic: Desired) -> int | None:
    value = topic.state.get("replicationFactor") if topic.state else None
    return value if isinstance(value, int) else None


def _min_isr(topic: Desired, facts: Facts | None) -> int | None:
    own = topic.state.get(CONFIG_PREFIX + "min.insync.replicas") if topic.state else None
    if own is None and facts is not None and facts.defaults is not None:
        own = facts.defaults.get("min.insync.replicas")
    return int(own) if own is not None else None
