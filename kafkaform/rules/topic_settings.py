"""Rules about topic configs as such: what the loader lets pass, and brokers may still not like."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.core import kafka_configs
from kafkaform.core.model import CONFIG_PREFIX, Severity
from kafkaform.rules.catalogue import Finding, Scene, rule
from kafkaform.rules.topic_values import RETENTION_CHECK_MS, declared, rewritten, topics

if TYPE_CHECKING:
    from collections.abc import Iterator


@rule("KF115", Severity.WARNING)
def doubtful_configs(scene: Scene) -> Iterator[Finding]:
    """A topic config is doubtful: retired, deprecated, a vendor's own, or most likely a slip.

    A config that Kafka does not know, or a value out of its range or type, is an error when manifests are
    read, with the nearest valid one. This rule is about what passes. Brokers of Kafka 4 refuse the configs
    that were retired, though those of Kafka 3 know them; a deprecated one goes with a later release: take
    them out. A vendor's config (a note, offline only) can be judged by that vendor's brokers alone, and
    the plan asks them. A retention.ms below 5 minutes is most likely a number without its unit, as in
    `retention: 7`, which is 7 milliseconds: brokers look for old records only every 5 minutes, so nothing
    goes sooner anyway.
    """
    for topic in topics(scene):
        for path in topic.state or ():
            name = path.removeprefix(CONFIG_PREFIX)
            if not path.startswith(CONFIG_PREFIX) or declared(topic, name) is None:
                continue
            doubt = _doubt(name, offline=scene.facts is None)
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
        return f"{name} is retired: brokers of Kafka 4 refuse it", "take it out", Severity.WARNING
    if key is not None and key.deprecated:
        version = kafka_configs.kafka_version()
        return f"{name} is deprecated in Kafka {version}", "take it out before it goes", Severity.WARNING
    if offline and key is None and kafka_configs.is_vendor(name):
        text = f"{name} is a vendor's config: only that vendor's brokers can judge it"
        return text, "plan against such a cluster before you merge", Severity.INFO
    return None
