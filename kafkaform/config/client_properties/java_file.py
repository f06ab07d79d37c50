"""Kafka's own `--command-config` properties file, translated into librdkafka's names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkaform.config.client_properties import java_names
from kafkaform.config.client_properties.java_login import login
from kafkaform.config.client_properties.java_stores import tls
from kafkaform.config.client_properties.template import escape
from kafkaform.config.client_properties.unavailable import LOADS_CODE_OR_RUNS_COMMANDS, reason
from kafkaform.core.errors import Problem
from kafkaform.core.model import Location
from kafkaform.core.spelling import nearest, quoted

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True, repr=False)
class JavaProperties(Mapping[str, str]):
    """What a Java properties file says, under librdkafka's names; goes into `parse` as it is.

    Dollars are escaped: a Java file holds no references of kafkaform's.
    """

    values_by_name: Mapping[str, str] = field(default_factory=dict)
    locations: Mapping[str, Location] = field(default_factory=dict)

    def __getitem__(self, name: str) -> str:
        return self.values_by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_by_name)

    def __len__(self) -> int:
        return len(self.values_by_name)

    def __repr__(self) -> str:
        return f"JavaProperties({', '.join(sorted(self.values_by_name))})"

    def locate(self, name: str) -> Location | None:
        """Where the file says it."""
        return self.locations.get(name)


def from_java_properties(text: str, file: str) -> tuple[JavaProperties, list[Problem]]:
    """Translate a Java client properties file.

    Args:
        text: The file's text. Java itself reads such files as ISO 8859-1.
        file: Its name, for the problems.
    """
    entries, problems = _read(text, file)
    written = {name: value for name, (value, _) in entries.items()}
    lines = {name: location for name, (_, location) in entries.items()}
    for name in written:
        if (problem := _unusable(name, lines[name])) is not None:
            problems.append(problem)
    found = [(ours, written[java], java) for java, ours in java_names.RENAMED.items() if java in written]
    values = {ours: _adapted(ours, value) for ours, value, _ in found}
    sources = {ours: java for ours, _, java in found}
    for translate in (login, tls):
        outcome = translate(written)
        problems += [Problem(f.message, lines.get(f.name), f.hint) for f in outcome.flaws]
        for ours, (value, java) in outcome.values.items():
            values[ours], sources[ours] = value, java
    places = {ours: lines[java] for ours, java in sources.items() if java in lines}
    problems.sort(key=lambda problem: problem.location.line if problem.location else 0)
    return JavaProperties({ours: escape(value) for ours, value in values.items()}, places), problems


def _read(text: str, file: str) -> tuple[dict[str, tuple[str, Location]], list[Problem]]:
    # Imported here: it costs more than all the rest of the package, and few runs read such a file.
    import javaproperties

    entries: dict[str, tuple[str, Location]] = {}
    problems: list[Problem] = []
    line = 1
    try:
        for element in javaproperties.parse(text):
            location = Location(file, line)
            line += element.source.count("\n")
            if not isinstance(element, javaproperties.KeyValue):
                continue
            if element.key in entries and entries[element.key][0] != element.value:
                first = entries[element.key][1].line
                said = f"{element.key} is set twice, differently (first in line {first})"
                problems.append(Problem(said, location, "keep one of the two"))
            entries[element.key] = (element.value, location)
    except javaproperties.InvalidUEscapeError:
        hint = "write \\uXXXX with four hexadecimal digits, or \\\\u for a backslash and a u"
        problems.append(Problem("an invalid \\u escape", Location(file, line), hint))
    return entries, problems


def _unusable(name: str, location: Location) -> Problem | None:
    known: Iterable[str] = (*java_names.RENAMED, *java_names.JAAS_AND_STORES, *java_names.IGNORED)
    if name in known:
        return None
    if name in LOADS_CODE_OR_RUNS_COMMANDS or name.startswith("config.providers."):
        return Problem(f"client property {name} is not allowed: {reason(name)}", location, "remove it")
    if name == "bootstrap.controllers":
        return Problem(
            "bootstrap.controllers: kafkaform speaks with brokers, not with controllers",
            location,
            "give bootstrap.servers, or --bootstrap-server",
        )
    close = nearest(name, known)
    hint = f"did you mean {close}?" if close else "docs/clients.md lists every property"
    return Problem(f"unknown client property {quoted(name)}", location, hint)


def _adapted(name: str, value: str) -> str:
    """Java's -1, for "as the system has it", is librdkafka's 0."""
    defaults_to_zero = ("socket.send.buffer.bytes", "socket.receive.buffer.bytes", "connections.max.idle.ms")
    return "0" if name in defaults_to_zero and value.strip() == "-1" else value
