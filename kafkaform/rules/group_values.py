"""The declared values of a group, and the defaults of what it does not declare."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, cast

from kafkaform.core import kafka_configs
from kafkaform.core.kafka_configs import ASSIGNMENT, ASSIGNORS
from kafkaform.core.model import to_integer
from kafkaform.core.wording import command, listed, spans
from kafkaform.resources import GROUP, topic_ref
from kafkaform.resources.groups import Group, get_group
from kafkaform.rules.catalogue import DeclaredResource, RuleContext, RuleOfEach, cache_result

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

CLASSIC, CONSUMER, SHARE, STREAMS = "classic", "consumer", "share", "streams"

# Kafka Streams' own defaults of its main consumer (CONSUMER_DEFAULT_OVERRIDES).
_STREAMS_DEFAULTS = {
    "auto.offset.reset": "earliest",
    "enable.auto.commit": "false",
    "max.poll.records": "1000",
}


class DeclaredGroup(DeclaredResource):
    """A declared group, without tombstones and invalid manifests."""

    @property
    def protocol(self) -> str:
        """The group protocol; classic, the default of consumers, if none is declared."""
        protocol = self.desired.intent.spec.get("protocol")
        return cast("str", protocol) if protocol is not None else CLASSIC

    @property
    def topics(self) -> Sequence[str]:
        """The topics that it reads."""
        return cast("Sequence[str]", self.desired.intent.spec.get("topics", ()))

    def text(self, section: str, field: str) -> str | None:
        """Return a field that holds text, such as `offsets`, `initial`; None if it is missing."""
        return cast("Mapping[str, str]", self.desired.intent.spec.get(section, {})).get(field)

    def amount(self, section: str, field: str) -> int | None:
        """Return a field that holds a count, or a duration in milliseconds; None if it is missing."""
        return cast("Mapping[str, int]", self.desired.intent.spec.get(section, {})).get(field)

    @property
    def live(self) -> Group | None:
        """The live group; None if it does not exist, or was not read."""
        observed = self.context.live.get(self.desired.ref)
        group = get_group(observed) if observed is not None else None
        return group if group is not None else self.context.groups.get(self.desired.ref.name)

    @property
    def declared_client(self) -> Mapping[str, str]:
        """The client settings that the manifest sets."""
        return self._get_values("client")

    @property
    def declared_configs(self) -> Mapping[str, str]:
        """The GROUP configs that the manifest sets."""
        return self._get_values("config")

    def _get_values(self, section: str) -> Mapping[str, str]:
        given = cast("Mapping[str, str | None]", self.desired.intent.spec.get(section, {}))
        return {name: value for name, value in given.items() if value is not None}

    def client(self, name: str) -> str:
        """Return a client setting: the declared value, else the consumer's default; empty without one."""
        declared = self.declared_client.get(name)
        if declared is not None:
            return declared
        if self.protocol == STREAMS and name in _STREAMS_DEFAULTS:
            return _STREAMS_DEFAULTS[name]
        return kafka_configs.consumer_configs()[name].default or ""

    def client_path(self, name: str, otherwise: str) -> str:
        """Return the path of a client setting, or another path if the manifest does not set it."""
        return f"client.{name}" if name in self.declared_client else otherwise

    def config(self, name: str) -> str:
        """Return a GROUP config: the declared value, else the cluster's default, else Kafka's."""
        declared = self.declared_configs.get(name)
        if declared is not None:
            return declared
        facts = self.context.facts
        default = facts.config_default(GROUP.name, name) if facts is not None else None
        return default if default is not None else kafka_configs.group_configs()[name].default or ""

    @property
    def assignors(self) -> tuple[str, ...]:
        """The assignors of a classic group in order of preference; Kafka's own by short name."""
        return short_assignors(self.client(ASSIGNMENT))

    @property
    def ranges(self) -> bool:
        """True if partitions are assigned topic by topic, not all topics together."""
        if self.protocol == CLASSIC:
            # Of the assignors that all members support, each member votes for the first one of its list.
            return self.assignors[:1] == ("range",)
        return self.protocol == CONSUMER and self.client("group.remote.assignor") == "range"

    @cached_property
    def partitions(self) -> Mapping[str, int] | None:
        """The number of partitions of each topic; None if one is unknown, or there are no topics."""
        counts = {topic: self._partitions(topic) for topic in self.topics}
        known = {topic: number for topic, number in counts.items() if number is not None}
        # A sum without one of the topics would be too small, and rules that compare with it wrong.
        return known if known and len(known) == len(counts) else None

    def _partitions(self, topic: str) -> int | None:
        ref = topic_ref(topic)
        declared = self.context.declared.get(ref)
        if declared is not None:
            return to_integer((declared.state or {}).get("partitions"))
        live = self.context.live.get(ref)
        value = live.state.get("partitions") if live is not None else None
        return None if value is None else int(value)


@cache_result
def list_groups(context: RuleContext) -> list[DeclaredGroup]:
    """Return the declared groups, without tombstones and invalid manifests."""
    resources = context.of_kind(GROUP.name)
    return [DeclaredGroup(d, context) for d in resources if d.state is not None and not d.invalid]


group_rule = RuleOfEach(list_groups)


def short_assignors(strategy: str) -> tuple[str, ...]:
    """Return the assignors of a `partition.assignment.strategy`; Kafka's own by short name."""
    return tuple(ASSIGNORS.get(name, name) for name in strategy.split(","))


def human(name: str, value: str | int) -> str:
    """Return the value of a client setting or a GROUP config with its unit."""
    key = kafka_configs.consumer_configs().get(name) or kafka_configs.group_configs().get(name)
    return kafka_configs.human(key, str(value))


def suggest_reset(group: str, topic: str, partitions: Collection[int]) -> str:
    """Return the command that makes a group go on at the first records of partitions."""
    return command("reset", group, options=("--to", "earliest", "--topic", f"{topic}:{spans(partitions)}"))


def name_partitions(numbers: Collection[int]) -> str:
    """Name partitions of one topic in a sentence."""
    return f"partition{'' if len(numbers) == 1 else 's'} {listed([*map(str, numbers)])}"
