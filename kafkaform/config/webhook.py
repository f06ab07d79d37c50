"""The webhook of a cluster, which `--notify` posts to; its URL and headers may contain secrets."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from kafkaform.config.client_properties.properties import Template, parse_template
from kafkaform.core.errors import InvalidInput, Problem
from kafkaform.core.http import is_safe
from kafkaform.core.secrets import MalformedReference, UnreadableSecret
from kafkaform.core.values import HiddenValue, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from kafkaform.core.model import Location

_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_FIELD = "notify"


class WebhookAddress(HiddenValue):
    """The address of a webhook and its headers, with secrets: never print them."""

    url: str
    headers: Mapping[str, str]


class Webhook(Value):
    """The webhook of a cluster, with unresolved references.

    Attributes:
        headers: Headers of each request, such as Authorization.
        location: The place of `notify` in the configuration file.
    """

    url: Template
    headers: Mapping[str, Template]
    location: Location | None = None

    def resolve(self, environ: Mapping[str, str], read_file: Callable[[str], str]) -> WebhookAddress:
        """Read the references of the address and the headers.

        Raises:
            InvalidInput: One cannot be read, or the address is not valid; no message has a value.
        """
        values: dict[str, str] = {}
        problems: list[Problem] = []
        for name, template in {"url": self.url, **self.headers}.items():
            try:
                value = template.fill(lambda reference: reference.read(environ, read_file))
            except UnreadableSecret as error:
                problems.append(self._report(f"{name}: {error}", "set it where kafkaform runs"))
                continue
            values[name] = value
            # A line break in a header would begin another one.
            if not (value.isascii() and value.isprintable()):
                problems.append(self._report(f"{name}: the value contains invalid characters"))
            elif name == "url" and not is_safe(value):
                problems.append(self._report("url: not a valid address", "it must start with https://"))
        if problems:
            raise InvalidInput(problems)
        return WebhookAddress(values.pop("url"), values)

    def _report(self, message: str, hint: str | None = None) -> Problem:
        return Problem(f"{_FIELD}: {message}", self.location, hint)


def parse_webhook(
    section: Mapping[str, Any], folder: Path, location: Location, problems: list[Problem]
) -> Webhook | None:
    """Parse `notify` of a cluster; None if it is not valid, or not there.

    Args:
        section: The section; empty without one.
        folder: The folder that paths of references are relative to.
        problems: The list to add problems to.
    """
    templates: dict[str, Template] = {}
    headers = section.get("headers", {})
    for name, text in {**({"url": section["url"]} if section else {}), **headers}.items():
        if not _HEADER.fullmatch(name):
            problems.append(Problem(f"{_FIELD}: a name of a header is not valid", location))
            continue
        try:
            templates[name] = parse_template(text).resolve_files(folder)
        except MalformedReference as error:
            message = f"{_FIELD}: {name} contains {error}"
            problems.append(Problem(message, location, "write $$ for a dollar sign"))
    url = templates.pop("url", None)
    return Webhook(url, templates, location) if url is not None else None
