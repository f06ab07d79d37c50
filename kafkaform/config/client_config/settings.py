"""What the members of a declared group are to be given, by the names of Kafka's Java clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from kafkaform.core import kafka_configs
from kafkaform.core.errors import InvalidInput, Problem
from kafkaform.resources.consumer_group.client import ASSIGNMENT, ASSIGNORS
from kafkaform.resources.consumer_group.spec import DEFAULT_PROTOCOL

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from kafkaform.core.model import Desired

_CLASSES = {short: java for java, short in ASSIGNORS.items()}
GROUP_ID, GROUP_PROTOCOL, APPLICATION_ID = "group.id", "group.protocol", "application.id"


def protocol_of(group: Desired) -> str:
    """The group's protocol."""
    return cast("str", group.intent.spec.get("protocol", DEFAULT_PROTOCOL))


def java_settings(group: Desired, without: Collection[str] = ()) -> dict[str, str]:
    """The settings of a Java client that is to be a member of the group.

    First what makes it a member, then what the manifest has below `client`, by name. A share consumer is of
    another class and refuses group.protocol; Kafka Streams takes the group's name as its application's.

    Args:
        group: A declared group.
        without: Settings to leave out.

    Raises:
        InvalidInput: A client would not start with what is declared.
    """
    protocol = protocol_of(group)
    settings = {APPLICATION_ID if protocol == "streams" else GROUP_ID: group.ref.name}
    refused = kafka_configs.refused_by_client(protocol)
    if GROUP_PROTOCOL not in refused:
        settings[GROUP_PROTOCOL] = protocol
    declared = declared_settings(group, without)
    reject(
        group,
        (
            (
                name,
                f"clients of a {protocol} group do not start with {name}",
                "kafkaform rules KF211 says why",
            )
            for name in declared
            if name in refused
        ),
    )
    return settings | {
        name: with_classes(value) if name == ASSIGNMENT else value for name, value in declared.items()
    }


def declared_settings(group: Desired, without: Collection[str] = ()) -> dict[str, str]:
    """What the manifest has below `client`, in the order of names."""
    client = cast("Mapping[str, str | None]", group.intent.spec.get("client", {}))
    return {
        name: value for name, value in sorted(client.items()) if value is not None and name not in without
    }


def with_classes(strategy: str) -> str:
    """The assignors by Java class; those that are not Kafka's own have no other name."""
    return ",".join(_CLASSES.get(name, name) for name in strategy.split(","))


def reject(group: Desired, found: Iterable[tuple[str, str, str]]) -> None:
    """Raise InvalidInput if there is any: the client setting, what is wrong with it, and what to do."""
    problems = [Problem(message, group.place(f"client.{name}"), hint) for name, message, hint in found]
    if problems:
        raise InvalidInput(problems)
