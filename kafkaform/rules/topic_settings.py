"""Rules about the names of topics, and topic configs as such."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kafkaform.core import kafka_configs
from kafkaform.core.model import CONFIG_PREFIX, Severity
from kafkaform.resources.topic import TopicKind, is_topic
from kafkaform.rules.catalogue import Finding, RuleContext, rule
from kafkaform.rules.topic_values import (
    RETENTION_CHECK_MS,
    declared,
    rewritten,
    topics,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


@rule("KF115", Severity.WARNING)
def doubtful_configs(context: RuleContext) -> Iterator[Finding]:
    """A topic config is doubtful: retired, deprecated, a vendor's own, or most likely a slip.

    A config that Kafka does not know, or a value out of its range or type, is an error when manifests are
    read, with the nearest valid one. This rule is about what passes. Brokers of Kafka 4 refuse the configs
    that were retired, though those of Kafka 3 know them; a deprecated one goes with a later release: take
    them out. A vendor's config (a note, offline only) can be judged by that vendor's brokers alone, and
    the plan asks them. A retention.ms below 5 minutes is most likely a number without its unit, as in
    `retention: 7`, which is 7 milliseconds: brokers look for old records only every 5 minutes, so nothing
    goes sooner anyway.
    """
    for topic in topics(context):
        for path in topic.state or ():
            name = path.removeprefix(CONFIG_PREFIX)
            if not path.startswith(CONFIG_PREFIX) or declared(topic, name) is None:
                continue
            doubt = _doubt(name, offline=context.facts is None)
            if doubt is not None:
                yield Finding(topic, *doubt, path=path)
        retention = declared(topic, "retention.ms")
        kept = retention.number if retention else None
        if retention is not None and kept is not None and 0 <= kept < RETENTION_CHECK_MS:
            yield Finding(
                topic,
                f"retention.ms is {kept} milliseconds, but brokers look for old records every 5 minutes only",
                f"write the unit, such as {rewritten(topic, 'retention.ms', '7d')}; "
                "to empty a topic, delete its records",
                path=CONFIG_PREFIX + "retention.ms",
            )


def _doubt(name: str, *, offline: bool) -> tuple[str, str, Severity] | None:
    """What is doubtful about a config by its name alone, and what to do."""
    key = kafka_configs.topic_configs().get(name)
    if name in kafka_configs.RETIRED_KEYS:
        return f"{name} is retired: brokers of Kafka 4 refuse it", "remove it", Severity.WARNING
    if key is not None and key.deprecated:
        version = kafka_configs.kafka_version()
        return f"{name} is deprecated in Kafka {version}", "take it out before it goes", Severity.WARNING
    if offline and key is None and kafka_configs.is_vendor(name):
        text = f"{name} is a vendor's config: only that vendor's brokers can judge it"
        return text, "plan against such a cluster before you merge", Severity.INFO
    return None


MAX_NAME = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")
_NAME = "metadata.name"


@rule("KF101", Severity.ERROR, waivable=False)
def legal_name(context: RuleContext) -> Iterator[Finding]:
    """A topic name is not legal.

    Kafka allows 1 to 249 of the characters a-z, A-Z, 0-9, dot, underscore and dash, and neither `.` nor
    `..`: the log folder is named name, dash, partition, and file systems take 255 characters. As brokers
    refuse such a name, no waiver helps.
    """
    for topic in context.of_kind(TopicKind.name):
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
def colliding_names(context: RuleContext) -> Iterator[Finding]:
    """Two topic names differ only in `.` and `_`.

    They collide in the names of metrics, so a broker refuses the second of them; but not when both are
    created, or checked, in one request. Use one of the two characters throughout. Live topics that no
    manifest declares count too, where a cluster is read. As brokers refuse it, no waiver helps.
    """
    declared = topics(context)
    doomed = {topic.ref.name for topic in context.of_kind(TopicKind.name) if topic.state is None}
    live = {ref.name for ref in context.inventory if is_topic(ref)}
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
def conventional_name(context: RuleContext) -> Iterator[Finding]:
    r"""A topic name does not match the project's pattern.

    Names that follow one pattern say whose a topic is and what it holds, and ACLs and quotas can be given
    by prefix. A topic cannot be renamed later: it has to be made anew and its records copied. The pattern
    is a regular expression that the whole name has to match, such as `[a-z-]+(\.[a-z-]+)*\.v[0-9]+`; it is
    `topicName:` in the `limits:` of kafkaform.yaml, and without one this rule says nothing. For a topic that
    exists under its old name, waive the rule.
    """
    if context.limits.topic_name is None:
        return
    pattern = re.compile(context.limits.topic_name)
    for topic in topics(context):
        if not pattern.fullmatch(topic.ref.name):
            yield Finding(
                topic,
                f"{topic.ref.name} does not match the pattern of topic names, {context.limits.topic_name}",
                "choose a name that does, as long as the topic is not in use",
                path=_NAME,
            )
