"""What a declared group says of itself, and the values that hold where it says nothing."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, cast

from kafkaform.core import kafka_configs
from kafkaform.resources.consumer_group import ConsumerGroupKind, group_of
from kafkaform.resources.consumer_group.client import ASSIGNMENT, ASSIGNORS
from kafkaform.resources.topic import topic_ref
from kafkaform.rules.topic_values import count

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkaform.core.groups import Group
    from kafkaform.core.model import Desired
    from kafkaform.rules.catalogue import RuleContext

CLASSIC, CONSUMER, SHARE, STREAMS = "classic", "consumer", "share", "streams"

# What Kafka Streams gives its main consumer where the application gives nothing (CONSUMER_DEFAULT_OVERRIDES).
_STREAMS_DEFAULTS = {
    "auto.offset.reset": "earliest",
    "enable.auto.commit": "false",
    "max.poll.records": "1000",
}


@dataclass(frozen=True)
class DeclaredGroup:
    """A declared group, and what is known around it.

    Attributes:
        desired: The group's manifest.
        context: What else is known.
    """

    desired: Desired
    context: RuleContext

    @property
    def protocol(self) -> str:
        """The group protocol; what consumers take by default where nobody says."""
        said = self.desired.intent.spec.get("protocol")
        return cast("str", said) if said is not None else CLASSIC

    @property
    def topics(self) -> Sequence[str]:
        """The topics that it reads."""
        return cast("Sequence[str]", self.desired.intent.spec.get("topics", ()))

    def text(self, section: str, field: str) -> str | None:
        """A field that holds a text, such as `offsets`, `initial`; None if it is not there."""
        return cast("Mapping[str, str]", self.desired.intent.spec.get(section, {})).get(field)

    def amount(self, section: str, field: str) -> int | None:
        """A field that holds a count, or a duration in milliseconds; None if it is not there."""
        return cast("Mapping[str, int]", self.desired.intent.spec.get(section, {})).get(field)

    @property
    def live(self) -> Group | None:
        """The group as its coordinator knows it; None if it does not exist, or was not read."""
        observed = self.context.live.get(self.desired.ref)
        group = group_of(observed) if observed is not None else None
        return group if group is not None else self.context.groups.get(self.desired.ref.name)

    @property
    def declared_client(self) -> Mapping[str, str]:
        """The client settings that the manifest gives a value."""
        return self._given("client")

    @property
    def declared_configs(self) -> Mapping[str, str]:
        """The GROUP configs that the manifest gives a value."""
        return self._given("config")

    def _given(self, section: str) -> Mapping[str, str]:
        given = cast("Mapping[str, str | None]", self.desired.intent.spec.get(section, {}))
        return {name: value for name, value in given.items() if value is not None}

    def client(self, name: str) -> str:
        """The value of a client setting: as declared, else the consumer's default; empty if it has none."""
        declared = self.declared_client.get(name)
        if declared is not None:
            return declared
        if self.protocol == STREAMS and name in _STREAMS_DEFAULTS:
            return _STREAMS_DEFAULTS[name]
        return kafka_configs.consumer_configs()[name].default or ""

    def client_path(self, name: str, otherwise: str) -> str:
        """The path of a client setting, or another where the manifest does not set it."""
        return f"client.{name}" if name in self.declared_client else otherwise

    def config(self, name: str) -> str:
        """The value of a GROUP config: as declared, else the cluster's default, else Kafka's."""
        declared = self.declared_configs.get(name)
        if declared is not None:
            return declared
        facts = self.context.facts
        default = facts.config_default(ConsumerGroupKind.name, name) if facts is not None else None
        return default if default is not None else kafka_configs.group_configs()[name].default or ""

    @property
    def assignors(self) -> tuple[str, ...]:
        """The assignors of a classic group in order of preference, by short name where Kafka has one."""
        return short_assignors(self.client(ASSIGNMENT))

    @property
    def ranges(self) -> bool:
        """Whether partitions are dealt out topic by topic, and not all topics together."""
        if self.protocol == CLASSIC:
            return self.assignors[:1] == ("range",)
        return self.protocol == CONSUMER and self.client("group.remote.assignor") == "range"

    @cached_property
    def partitions(self) -> Mapping[str, int] | None:
        """The partitions of each of its topics; None where those of one are not known, or it names none."""
        counts = {topic: self._partitions(topic) for topic in self.topics}
        known = {topic: number for topic, number in counts.items() if number is not None}
        return known if known and len(known) == len(counts) else None

    def _partitions(self, topic: str) -> int | None:
        ref = topic_ref(topic)
        declared = self.context.declared.get(ref)
        if declared is not None:
            return count(declared, "partitions")
        live = self.context.live.get(ref)
        value = live.state.get("partitions") if live is not None else None
        return None if value is None else int(value)


def groups(context: RuleContext) -> list[DeclaredGroup]:
    """The declared groups, without tombstones."""
    found = context.of_kind(ConsumerGroupKind.name)
    return [DeclaredGroup(desired, context) for desired in found if desired.state is not None]


def short_assignors(strategy: str) -> tuple[str, ...]:
    """The assignors that `partition.assignment.strategy` names, by short name where Kafka has one."""
    return tuple(ASSIGNORS.get(name, name) for name in strategy.split(","))


def human(name: str, value: str | int) -> str:
    """The value of a client setting or a GROUP config as people read it."""
    key = kafka_configs.consumer_configs().get(name) or kafka_configs.group_configs().get(name)
    return kafka_configs.human(key, str(value))
