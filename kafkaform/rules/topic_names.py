"""Rules about the names of topics."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kafkaform.core.model import Severity
from kafkaform.rules.catalogue import Finding, Scene, rule
from kafkaform.rules.topic_values import topics

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_NAME = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")
_NAME = "metadata.name"


@rule("KF101", Severity.ERROR, waivable=False)
def legal_name(scene: Scene) -> Iterator[Finding]:
    """A topic name is not legal.

    Kafka allows 1 to 249 of the characters a-z, A-Z, 0-9, dot, underscore and dash, and neither `.` nor
    `..`: the log folder is named name, dash, partition, and file systems take 255 characters. As brokers
    refuse such a name, no waiver helps.
    """
    for topic in scene.of_kind("Topic"):
        name = topic.ref.name
        if name in {".", ".."} or len(name) > MAX_NAME or not _LEGAL.fullmatch(name):
            shown = name if len(name) <= MAX_NAME else f"{name[:40]}… ({len(name)} characters)"
            yield Finding(
                topic,
                f"{shown!r} is not a legal topic name",
                "use 1-249 of a-z, A-Z, 0-9, '.', '_' and '-'",
                path=_NAME,
            )


@rule("KF102", Severity.ERROR, waivable=False)
def colliding_names(scene: Scene) -> Iterator[Finding]:
    """Two topic names differ only in `.` and `_`.

    They collide in the names of metrics, so a broker refuses the second of them; but not when both are
    created, or checked, in one request. Use one of the two characters throughout. Live topics that no
    manifest declares count too, where a cluster is read. As brokers refuse it, no waiver helps.
    """
    declared = topics(scene)
    doomed = {topic.ref.name for topic in scene.of_kind("Topic") if topic.state is None}
    live = {ref.name for ref in scene.inventory if ref.kind == "Topic"}
    folded: dict[str, set[str]] = {}
    for name in live | {topic.ref.name for topic in declared}:
        folded.setdefault(name.replace(".", "_"), set()).add(name)
    for topic in declared:
        others = sorted(folded[topic.ref.name.replace(".", "_")] - {topic.ref.name})
        if others:
            yield Finding(
                topic,
                f"{topic.ref.name} and {', '.join(others)} differ only in '.' and '_': "
                "Kafka does not allow both",
                "rename one of them" if set(others) - doomed else "plan again once the old one is deleted",
                path=_NAME,
            )


@rule("KF103", Severity.WARNING)
def conventional_name(scene: Scene) -> Iterator[Finding]:
    r"""A topic name does not match the project's pattern.

    Names that follow one pattern say whose a topic is and what it holds, and ACLs and quotas can be given
    by prefix. A topic cannot be renamed later: it has to be made anew and its records copied. The pattern
    is a regular expression that the whole name has to match, such as `[a-z-]+(\.[a-z-]+)*\.v[0-9]+`; it is
    `topicName:` in the `limits:` of kafkaform.yaml, and without one this rule says nothing. For a topic that
    exists under its old name, waive the rule.
    """
    if scene.limits.topic_name is None:
        return
    pattern = re.compile(scene.limits.topic_name)
    for topic in topics(scene):
        if not pattern.fullmatch(topic.ref.name):
            yield Finding(
                topic,
                f"{topic.ref.name} does not match the pattern of topic names, {scene.limits.topic_name}",
                "choose a name that does, as long as the topic is not in use",
                path=_NAME,
            )
