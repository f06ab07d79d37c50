"""Client properties at use: secrets are read, never printed, and redacted from other output."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from kafkaform.config.client_properties.properties import ClientProperties, find_conflicts
from kafkaform.config.client_properties.table import OWN, PROPERTIES, Text, Use, describe_refusal
from kafkaform.core.errors import InvalidInput, KafkaformError, Problem
from kafkaform.core.secrets import HIDDEN, Reference, UnreadableSecret

_SHORT = 8
_LINE_WORTH_HIDING = 16
"""In characters; a shorter line of a PEM text is not secret, and could occur in other output."""


@dataclass(frozen=True, slots=True, repr=False)
class Resolved(Mapping[str, str]):
    """The values of client properties with their secrets; a mapping whose repr hides all values.

    Attributes:
        values_by_name: The values by librdkafka's name.
        secrets: Every text that must not be printed.
    """

    values_by_name: Mapping[str, str]
    secrets: frozenset[str]

    def __getitem__(self, name: str) -> str:
        return self.values_by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_by_name)

    def __len__(self) -> int:
        return len(self.values_by_name)

    def __repr__(self) -> str:
        return f"Resolved({', '.join(sorted(self.values_by_name))}: {HIDDEN})"


def resolve(
    properties: ClientProperties, environ: Mapping[str, str], read_file: Callable[[str], str]
) -> Resolved:
    """Resolve the references of properties.

    Args:
        environ: The environment variables.
        read_file: Returns the text of a file, as `read_secret_file` does; raises OSError or ValueError.

    Raises:
        InvalidInput: Variables are not set, files cannot be read, or values are invalid; lists all of them
            by name, without values.
    """
    problems: list[Problem] = []
    values: dict[str, str] = {}
    secrets: set[str] = set()
    for name, template in properties.templates.items():
        property_ = PROPERTIES[name]
        texts: list[str] = []

        # `texts` is a default argument, as the loop replaces the variable.
        def read(reference: Reference, texts: list[str] = texts) -> str:
            text = reference.read(environ, read_file)
            texts.append(text)
            return text

        at = properties.locations.get(name)
        try:
            value = template.fill(read)
        except UnreadableSecret as error:
            problems.append(Problem(f"{name}: {error}", at, "set it where kafkaform runs"))
            continue
        try:
            values[name] = property_.type.parse(value)
        except ValueError as error:
            problems.append(Problem(f"{name}: the value that was read {error}", at))
            continue
        if property_.sensitive:
            # The parts too: an error may quote the text of one reference only.
            secrets |= {value, *texts}
        # A text that was kept out of the file is taken for a secret. Numbers and choices are not: hiding
        # every 9093 or `none` would garble errors.
        elif isinstance(property_.type, Text) and not property_.shown:
            secrets |= set(texts)
    if not problems:
        # Once more: while the file was checked, the values of references were unknown.
        problems += find_conflicts(values, properties.locations.get)
    if problems:
        raise InvalidInput(problems)
    return Resolved(values, frozenset(secrets - {""}))


def redact(text: str, resolved: Resolved) -> str:
    """Replace the secrets of these properties in a text, such as an error of a client."""
    shapes: set[str] = set()
    for secret in resolved.secrets:
        # Errors of libraries quote values by repr, which escapes quotes and backslashes.
        shapes |= {secret, repr(secret)[1:-1]}
        if "\n" in secret:
            lines = (line.strip() for line in secret.splitlines())
            shapes |= {
                line for line in lines if len(line) >= _LINE_WORTH_HIDING and not line.startswith("-----")
            }
    # The longest first: a secret may contain another one, which would break it in two.
    for shape in sorted(filter(None, shapes), key=len, reverse=True):
        # A short secret may be a part of harmless words, so only whole words are hidden.
        alone = (r"(?<![\w.-])", r"(?![\w.-])") if len(shape) < _SHORT else ("", "")
        text = re.sub(re.escape(shape).join(alone), lambda _: HIDDEN, text)
    return text


def to_librdkafka(resolved: Mapping[str, str]) -> dict[str, str | int | float | bool]:
    """Return the configuration of a confluent-kafka client, with secrets: never log it.

    For tokens that librdkafka cannot fetch itself, the client needs a callback (`oauth_cb`).
    """
    if resolved.get("sasl.mechanism") != "AWS_MSK_IAM" and get_token_file(resolved) is None:
        return {name: value for name, value in resolved.items() if name not in OWN}
    # Tokens come by callback, from the source that all clients share.
    kept = {name: value for name, value in resolved.items() if not name.startswith("sasl.oauthbearer.")}
    return {**kept, "sasl.mechanism": "OAUTHBEARER"}


def get_token_file(resolved: Mapping[str, str]) -> Path | None:
    """Return the path of a token endpoint `file:///…`, if it is one; like Java, `%20` is not decoded."""
    endpoint = resolved.get("sasl.oauthbearer.token.endpoint.url", "")
    return Path(endpoint.removeprefix("file://")) if endpoint.startswith("file://") else None


def parse_extensions(resolved: Mapping[str, str]) -> dict[str, str]:
    """Parse the SASL extensions (KIP-342) by name."""
    pairs = (pair.partition("=") for pair in resolved.get("sasl.oauthbearer.extensions", "").split(","))
    return {name.strip(): value.strip() for name, _, value in pairs if name.strip()}


def refuse_unsupported(resolved: Mapping[str, str]) -> None:
    """Check that kafkaform's own connections support every property.

    Raises:
        KafkaformError: They do not support a property; names the first.
    """
    for name, value in resolved.items():
        property_ = PROPERTIES[name]
        if property_.use is Use.REFUSED and value != property_.unless:
            raise KafkaformError(describe_refusal(name, property_.note), hint=property_.instead)
