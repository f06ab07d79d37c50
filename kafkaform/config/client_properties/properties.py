"""Client properties as written: checked against the allow-list, their secrets still references."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kafkaform.config.client_properties.catalogue import ALIASES, PROPERTIES
from kafkaform.config.client_properties.coherence import incoherences
from kafkaform.config.client_properties.template import (
    MalformedReference,
    Part,
    Reference,
    Template,
    parse_template,
)
from kafkaform.config.client_properties.unavailable import reason
from kafkaform.core.errors import Problem
from kafkaform.core.spelling import nearest, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkaform.core.model import Location

_PATHS = re.compile(r"\.(location|keytab|file)$")
"""The properties that name a file, or a folder of them."""
_JAVA_STORE = "probe"
"""What `ssl.ca.location` may be instead of a file."""
HIDDEN = "<hidden>"
"""What stands in the place of a secret."""


@dataclass(frozen=True, slots=True, repr=False)
class ClientProperties:
    """The properties of one cluster's clients; never shows a secret, and does not know any yet.

    Attributes:
        templates: Values by librdkafka's name, canonical spelling, references unresolved.
        locations: Where each was written.
    """

    templates: Mapping[str, Template] = field(default_factory=dict)
    locations: Mapping[str, Location] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"ClientProperties({self.shown()!r})"

    def shown(self) -> dict[str, str]:
        """Every property in a form that may be printed."""
        return {name: _shown(name, template) for name, template in sorted(self.templates.items())}

    def located(self, folder: Path) -> ClientProperties:
        """These properties with relative paths of files, also those of references, started at a folder."""
        return ClientProperties(
            {name: _located(name, value, folder) for name, value in self.templates.items()}, self.locations
        )

    def merged(self, over: ClientProperties) -> ClientProperties:
        """These properties with those of `over` in front, as for a flag on the command line."""
        return ClientProperties({**self.templates, **over.templates}, {**self.locations, **over.locations})


def parse(
    raw: Mapping[str, object], locate: Callable[[str], Location | None]
) -> tuple[ClientProperties, list[Problem]]:
    """Check a `client:` mapping; the properties hold what is right in it, the problems what is not.

    Args:
        raw: Values (text, whole numbers, booleans) by the name as written.
        locate: Where a name was written.
    """
    problems: list[Problem] = []
    templates: dict[str, Template] = {}
    written: dict[str, str] = {}
    for spelled, value in raw.items():
        name = ALIASES.get(spelled, spelled)
        if name not in PROPERTIES:
            problems.append(_unknown(spelled, locate(spelled)))
        elif name in written:
            said = f"{spelled} and {written[name]} are two names of one property"
            problems.append(Problem(said, locate(spelled), f"keep {name}"))
        else:
            written[name] = spelled
            parsed = _value(name, value)
            if isinstance(parsed, Template):
                templates[name] = parsed
            else:
                problems.append(Problem(f"{spelled}: {parsed[0]}", locate(spelled), parsed[1]))
    locations = {name: at for name, spelled in written.items() if (at := locate(spelled)) is not None}
    # A property that is wrong is still meant: it counts as set, so that one slip is one problem.
    known: dict[str, str | None] = {name: t.literal for name, t in templates.items()}
    known |= {name: None for name in written if name not in templates}
    problems += incoherences(known, locations.get)
    return ClientProperties(templates, locations), problems


def _unknown(name: str, location: Location | None) -> Problem:
    if (why := reason(name)) is not None:
        return Problem(f"client property {name} is not allowed: {why}", location, "remove it")
    close = nearest(name, (*PROPERTIES, *ALIASES))
    hint = f"did you mean {close}?" if close else "docs/clients.md lists every property"
    return Problem(f"unknown client property {quoted(name)}", location, hint)


def _value(name: str, value: object) -> Template | tuple[str, str | None]:
    """The value in its canonical form, or what is wrong with it and what to do."""
    if isinstance(value, bool):
        value = "true" if value else "false"
    if isinstance(value, int):
        value = str(value)
    if not isinstance(value, str):
        return "must be text, a whole number, true or false", "write lists as one text, with commas"
    try:
        template = parse_template(value)
    except MalformedReference as error:
        return f"holds {error}", "write $$ for a dollar sign"
    if (literal := template.literal) is None:
        return template
    kind = PROPERTIES[name].kind
    if (flaw := kind.flaw(literal)) is not None:
        return flaw, None
    return Template((kind.canonical(literal),))


def _located(name: str, template: Template, folder: Path) -> Template:
    parts: tuple[Part, ...] = tuple(
        replace(part, name=_below(folder, part.name))
        if isinstance(part, Reference) and part.source == "file"
        else part
        for part in template.parts
    )
    first = parts[0] if parts else ""
    if _PATHS.search(name) and isinstance(first, str) and first and first != _JAVA_STORE:
        parts = (_below(folder, first), *parts[1:])
    return Template(parts)


def _below(folder: Path, path: str) -> str:
    # Not as Path joins them: `certs/` may be the start of a name whose rest is a reference.
    return path if path.startswith("~") or folder == Path() else os.path.join(folder, path)  # noqa: PTH118


def _shown(name: str, template: Template) -> str:
    literal = template.literal
    return HIDDEN if literal is None or PROPERTIES[name].sensitive else literal
