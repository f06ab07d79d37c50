"""The table of docs/clients.md: every client property in its three dialects."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from kafkaform.config.client_properties.catalogue import ALIASES, PROPERTIES
from kafkaform.config.client_properties.other_names import IGNORED, UNAVAILABLE
from kafkaform.config.client_properties.treatment import (
    Choice,
    Flag,
    Handled,
    Number,
    Refused,
    Renamed,
    Text,
    Treatment,
    Unused,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkaform.config.client_properties.treatment import Kind


def matrix_markdown() -> str:
    """Three tables in Markdown: what is taken, what is not, and what a Java file may hold for nothing."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "### Properties"
    yield ""
    yield "| property (librdkafka) | values | kafka-python | Java (Spark) |"
    yield "| --- | --- | --- | --- |"
    spelled = {name: alias for alias, name in ALIASES.items()}
    for property_ in PROPERTIES.values():
        name = f"`{property_.name}`"
        if property_.name in spelled:
            name += f" (or `{spelled[property_.name]}`)"
        if property_.sensitive:
            name += ", secret"
        cells = (name, _values(property_.kind), _cell(property_.kafka_python), _cell(property_.java))
        yield f"| {' | '.join(cells)} |"
    yield ""
    yield "### Not allowed"
    yield ""
    yield "| property | why |"
    yield "| --- | --- |"
    reasons: dict[str, list[str]] = {}
    for name, why in UNAVAILABLE.items():
        reasons.setdefault(why, []).append(f"`{name}`")
    for why, names in reasons.items():
        yield f"| {', '.join(names)} | {why} |"
    yield ""
    yield "### Java names that are read and left out"
    yield ""
    yield ", ".join(f"`{name}`" for name in sorted(IGNORED))


def _values(kind: Kind) -> str:
    match kind:
        case Text():
            return kind.describes or "text"
        case Flag():
            return "true, false"
        case Number():
            return f"{kind.low} to {kind.high}"
        case Choice():
            return ", ".join(kind.values)
        case _:
            assert_never(kind)


def _cell(treatment: Treatment) -> str:
    match treatment:
        case Renamed():
            return f"`{treatment.name}`"
        case Handled():
            return treatment.how
        case Unused():
            return f"not used: {treatment.why}" if treatment.why else "not used"
        case Refused():
            except_for = f", except `{treatment.unless}`" if treatment.unless else ""
            return f"**refused**{except_for}: {treatment.why}"
        case _:
            assert_never(treatment)
