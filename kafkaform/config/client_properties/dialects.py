"""Resolved client properties in the words of librdkafka; and what the other two dialects share."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from kafkaform.config.client_properties.catalogue import PROPERTIES
from kafkaform.config.client_properties.treatment import Handled, Refused, Renamed, Unused
from kafkaform.core.errors import KafkaformError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkaform.config.client_properties.treatment import Property, Treatment


def to_librdkafka(resolved: Mapping[str, str]) -> dict[str, str | int | float | bool]:
    """The configuration of a confluent-kafka client, secrets included: never log it."""
    return dict(resolved)


def renamed(resolved: Mapping[str, str], client: Callable[[Property], Treatment]) -> dict[str, str]:
    """The properties that only change their name; what needs code of its own is left to the caller.

    Raises:
        KafkaformError: The client cannot do what one of the properties asks for.
    """
    result: dict[str, str] = {}
    for name, value in resolved.items():
        treatment = client(PROPERTIES[name])
        match treatment:
            case Renamed():
                if value != treatment.default:
                    result[treatment.name] = value
            case Refused():
                if value != treatment.unless:
                    raise KafkaformError(f"client property {name}: {treatment.why}", hint=treatment.hint)
            case Handled() | Unused():
                pass
            case _:
                assert_never(treatment)
    return result
