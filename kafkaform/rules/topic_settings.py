"""Rules about the names of topics, and about doubtful topic configs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kafkaform.core import kafka_configs
from kafkaform.core.model import CONFIG_PREFIX, Severity
from kafkaform.core.wording import counted
from kafkaform.resources import KINDS, TOPIC, is_topic, topic_ref
from kafkaform.resources.topic.operations import MAX_NAME_LENGTH, is_legal_name
from kafkaform.resources.values import label
from kafkaform.rules.catalogue import NAME_PATH, Finding, RuleContext, cache_result, rule
from kafkaform.rules.topic_values import (
    RETENTION_CHECK_MS,
    ConfigValue,
    DeclaredTopic,
    human,
    list_topics,
    topic_rule,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


@topic_rule("KF115", Severity.WARNING)
def doubtful_configs(topic: DeclaredTopic) -> Iterator[Finding]:
    """A topic config is doubtful: retired, deprecated, vendor-specific, or most likely a mistake.

    Brokers of Kafka 4 refuse retired configs; deprecated ones will follow: remove both. A retention.ms
    below 5 minutes is most likely a number without its unit: `retention: 7` means 7 milliseconds.
    """
    # With a cluster, its brokers validate a vendor's config, and values.
    offline = topic.context.facts is None
    for path in topic.desired.state or ():
        name = path.removeprefix(CONFIG_PREFIX)
        if not path.startswith(CONFIG_PREFIX) or (value := topic.find_declared(name)) is None:
            continue
        doubt = _describe_doubt(name, offline=offline)
        if doubt is not None:
            yield Finding(*doubt, path)
        if offline and (limit := _describe_limit(value)) is not None:
            hint = "plan against the brokers before you merge, and change it before you upgrade them"
            yield Finding(limit, hint, path=path)
    retention = topic.find_declared("retention.ms")
    kept = retention.number if retention else None
    if kept is not None and 0 <= kept < RETENTION_CHECK_MS:
        yield Finding(
            f"retention.ms is {kept} milliseconds, but brokers look for old records only every 5 minutes",
            f"write the unit, such as {topic.rewrite('retention.ms', '7d')}; "
            "to empty a topic, delete its records",
            path=CONFIG_PREFIX + "retention.ms",
        )


def _describe_doubt(name: str, *, offline: bool) -> tuple[str, str, Severity] | None:
    """Return message, suggestion and severity if the name of a config alone is doubtful, else None."""
    key = kafka_configs.find_topic_config(name)
    if key is not None and key.retired:
        text = f"{name} was retired in Kafka {key.retired}: brokers of that and later versions refuse it"
        return text, "remove it", Severity.WARNING
    if key is not None and key.deprecated:
        text = f"{name} is deprecated in Kafka {kafka_configs.kafka_version()}"
        return text, "remove it: a later release will not support it", Severity.WARNING
    if offline and key is None and kafka_configs.is_vendor(name):
        text = f"{name} is a vendor's config: only that vendor's brokers can validate it"
        return text, "plan against such a cluster before you merge", Severity.INFO
    return None


def _describe_limit(value: ConfigValue) -> str | None:
    """Return a message if the newest version of Kafka refuses a value that earlier ones accept, else None."""
    key, number = kafka_configs.topic_configs().get(value.name), value.number
    if key is None or number is None or key.minimum is None or number >= key.minimum:
        return None
    least = human(value.name, key.minimum)
    return f"{value.name} is {value.shown}: Kafka {kafka_configs.kafka_version()} accepts {least} or more"


@rule("KF101", Severity.ERROR, waivable=False)
def legal_name(context: RuleContext) -> Iterator[Finding]:
    """A topic name is not legal.

    A name has 1 to 249 characters out of a-z, A-Z, 0-9, dot, underscore and dash, and is neither `.` nor
    `..`.
    """
    # Also the name of a topic that is to be deleted.
    for topic in context.of_kind(TOPIC.name):
        name = topic.ref.name
        if not is_legal_name(name):
            shown = repr(name if len(name) <= MAX_NAME_LENGTH else f"{name[:40]}… ({len(name)} characters)")
            text, hint = f"{shown} is not a legal topic name", "use 1-249 of a-z, A-Z, 0-9, '.', '_' and '-'"
            yield Finding(text, hint, path=NAME_PATH, subject=topic)


@rule("KF117", Severity.INFO)
def idle_defaults(context: RuleContext) -> Iterator[Finding]:
    """A default has no effect.

    Every manifest sets the field itself. Remove it from the manifests that should take the default, or
    remove the default. Only `kafkaform validate` over all manifests checks this.
    """
    for (kind, path), location in context.defaults.items():
        present = [resource for resource in context.of_kind(kind) if resource.state is not None]
        if not context.is_complete(kind) or not present:
            continue
        if all(resource.keys(path) is not None for resource in present):
            count = counted(len(present), KINDS[kind].words.noun)
            yield Finding(
                f"the default of {label(path)} has no effect: {count}, and each manifest sets its own value",
                "remove the value from the manifests that should take the default, or remove the default",
                location=location,
            )


@topic_rule("KF102", Severity.ERROR, NAME_PATH)
def colliding_names(topic: DeclaredTopic) -> Iterator[Finding]:
    """Two topic names differ only in `.` and `_`.

    They collide in the names of metrics, so a broker refuses to create the second one. Use only one of
    the two characters. If both exist already, it is a warning, and `kafkaform import` waives the rule.
    """
    live, folded = _fold_names(topic.context)
    names = folded[_fold(topic.name)]
    colliding = sorted(names - {topic.name})
    if not colliding:
        return
    # Deletions come last in an apply, so their names are not free for topics that the same plan creates.
    siblings = [topic.context.declared.get(topic_ref(name)) for name in colliding]
    stays = any(sibling is None or sibling.state is not None for sibling in siblings)
    text = f"{topic.name} and {', '.join(colliding)} differ only in '.' and '_'"
    # Kafka refuses the creation of the one that is missing; if both exist, nothing refuses them any more.
    if not names <= live:
        yield Finding(
            f"{text}: Kafka does not allow both",
            "rename one of them" if stays else "plan again once the old one is deleted",
            waivable=topic.context.facts is None and not topic.context.inventory,
        )
    elif stays:
        yield Finding(
            f"{text}: their metrics have the same names",
            "move the clients of one of them to another topic, then delete it, or waive the rule",
            Severity.WARNING,
        )


@cache_result
def _fold_names(context: RuleContext) -> tuple[set[str], dict[str, set[str]]]:
    """Return the names of live topics, and all names of topics by their name in metrics."""
    live = {ref.name for ref in context.inventory if is_topic(ref)}
    folded: dict[str, set[str]] = {}
    for name in live | {topic.name for topic in list_topics(context)}:
        folded.setdefault(_fold(name), set()).add(name)
    return live, folded


def _fold(name: str) -> str:
    # Kafka replaces dots by underscores in the names of metrics.
    return name.replace(".", "_")


@topic_rule("KF103", Severity.WARNING, NAME_PATH)
def conventional_name(topic: DeclaredTopic) -> Iterator[Finding]:
    r"""A topic name does not match the project's pattern.

    The pattern is `limits.topicName` in kafkaform.yaml. Kafka cannot rename a topic: waive the rule for
    an old name.
    """
    pattern = topic.context.limits.topic_name
    if pattern is not None and not re.fullmatch(pattern, topic.name):
        yield Finding(
            f"{topic.name} does not match the pattern of topic names, {pattern}",
            "choose a name that matches, while the topic is not in use yet",
        )
