"""One client property: what it may hold, and what becomes of it in each client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from kafkaform.config.client_properties.kinds import Kind


@dataclass(frozen=True, slots=True)
class Renamed:
    """Passed on under another name, except for `default`, which stands for the client's own default."""

    name: str
    default: str | None = None


@dataclass(frozen=True, slots=True)
class Handled:
    """Translated by code of its own; `how` is for the reader of the matrix."""

    how: str


@dataclass(frozen=True, slots=True)
class Unused:
    """Left out: it makes no difference to what the client may do or whom it trusts."""

    why: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """The client cannot do it, and going without would be something else than what was asked.

    `unless` is the one value that asks for nothing more than what the client does anyway.
    """

    why: str
    hint: str
    unless: str | None = None


Treatment: TypeAlias = Renamed | Handled | Unused | Refused


@dataclass(frozen=True, slots=True)
class Property:
    """One property: its values, and its fate in kafka-python and Java.

    Attributes:
        name: librdkafka's name.
        kind: What its value may look like.
        kafka_python: What becomes of it in kafka-python.
        java: What becomes of it in Kafka's Java client.
        sensitive: Its value is never shown.
        shown: Its value may be shown even when it was read from the environment or a file.
    """

    name: str
    kind: Kind
    kafka_python: Treatment
    java: Treatment
    sensitive: bool = False
    shown: bool = False
