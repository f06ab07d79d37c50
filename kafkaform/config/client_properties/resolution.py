"""Client properties at use: secrets read, never shown, and taken out of whatever is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kafkaform.config.client_properties.catalogue import OWN, PROPERTIES
from kafkaform.config.client_properties.properties import HIDDEN, incoherences
from kafkaform.config.client_properties.treatment import Refused, Text
from kafkaform.core.errors import InvalidInput, KafkaformError, Problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaform.config.client_properties.properties import ClientProperties, Reference


_LARGEST_FILE = 1 << 20
"""Bytes; no key or password is larger, and a device file would never end."""
_SHORT = 8
_LINE_WORTH_HIDING = 16
"""Characters; a shorter line of a PEM text says nothing and would hide other words."""


@dataclass(frozen=True, slots=True, repr=False)
class Resolved(Mapping[str, str]):
    """The values of client properties with their secrets filled in; read like a dict, shown like none.

    Attributes:
        values_by_name: The values by librdkafka's name.
        secrets: Every text that must not be shown.
    """

    values_by_name: Mapping[str, str]
    secrets: frozenset[str] = frozenset()

    def __getitem__(self, name: str) -> str:
        return self.values_by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_by_name)

    def __len__(self) -> int:
        return len(self.values_by_name)

    def __repr__(self) -> str:
        return f"Resolved({', '.join(sorted(self.values_by_name))}: {HIDDEN})"


class _MissingError(Exception):
    """The target of a reference is not there; says why, without any value."""


def resolve(
    properties: ClientProperties, environ: Mapping[str, str], read_file: Callable[[str], str]
) -> Resolved:
    """Fill in the secrets.

    Args:
        properties: What to fill in.
        environ: The environment variables.
        read_file: The text of a file; raises OSError or ValueError. See `read_secret_file`.

    Raises:
        InvalidInput: Variables that are not set, files that cannot be read, values that are not
            allowed; all of them, with the names and no value.
    """
    problems: list[Problem] = []
    values: dict[str, str] = {}
    secrets: set[str] = set()
    for name, template in properties.templates.items():
        property_ = PROPERTIES[name]
        found: list[str] = []

        def read(reference: Reference, found: list[str] = found) -> str:
            text = _read(reference, environ, read_file)
            found.append(text)
            return text

        at = properties.locations.get(name)
        try:
            value = template.fill(read)
        except _MissingError as error:
            problems.append(Problem(f"{name}: {error}", at, "set it where kafkaform runs"))
            continue
        if (flaw := property_.kind.flaw(value)) is not None:
            problems.append(Problem(f"{name}: the value that was read {flaw}", at))
            continue
        values[name] = property_.kind.canonical(value)
        if property_.sensitive:
            secrets |= {value, *found}
        elif isinstance(property_.kind, Text) and not property_.shown:
            secrets |= set(found)
    if not problems:
        problems += incoherences(values, properties.locations.get)
    if problems:
        raise InvalidInput(problems)
    return Resolved(values, frozenset(secrets - {""}))


def read_secret_file(path: str) -> str:
    """The text of a file of at most 1 MiB, UTF-8.

    Raises:
        OSError: It cannot be read.
        ValueError: It is larger, or not UTF-8.
    """
    with Path(path).expanduser().open("rb") as stream:
        data = stream.read(_LARGEST_FILE + 1)
    if len(data) > _LARGEST_FILE:
        raise ValueError(f"{path} is larger than {_LARGEST_FILE} bytes")
    return data.decode("utf-8")


def redact(text: str, resolved: Resolved) -> str:
    """The text without any secret of these properties, for errors that come from a client."""
    shapes: set[str] = set()
    for secret in resolved.secrets:
        shapes |= {secret, repr(secret)[1:-1]}
        if "\n" in secret:
            lines = (line.strip() for line in secret.splitlines())
            shapes |= {
                line for line in lines if len(line) >= _LINE_WORTH_HIDING and not line.startswith("-----")
            }
    for shape in sorted(filter(None, shapes), key=len, reverse=True):
        # A short one, such as a user's name, may be a part of harmless words: only whole words are hidden.
        alone = (r"(?<![\w.-])", r"(?![\w.-])") if len(shape) < _SHORT else ("", "")
        text = re.sub(re.escape(shape).join(alone), lambda _: HIDDEN, text)
    return text


def _read(reference: Reference, environ: Mapping[str, str], read_file: Callable[[str], str]) -> str:
    if reference.source == "env":
        if reference.name not in environ:
            raise _MissingError(f"the environment variable {reference.name} is not set")
        return environ[reference.name]
    try:
        text = read_file(reference.name)
    except OSError as error:
        why = error.strerror or "it cannot be opened"
        raise _MissingError(f"cannot read {reference.name}: {why}") from None
    except ValueError:
        # A decoding error quotes the bytes it met: they may be the secret.
        raise _MissingError(f"cannot read {reference.name}: it is too large, or not UTF-8 text") from None
    return text.removesuffix("\n").removesuffix("\r")


def to_librdkafka(resolved: Mapping[str, str]) -> dict[str, str | int | float | bool]:
    """The configuration of a confluent-kafka client, secrets included: never log it.

    Tokens that librdkafka cannot get by itself are for its callback (`oauth_cb`) to bring.
    """
    if resolved.get("sasl.mechanism") != "AWS_MSK_IAM" and token_file(resolved) is None:
        return {name: value for name, value in resolved.items() if name not in OWN}
    kept = {name: value for name, value in resolved.items() if not name.startswith("sasl.oauthbearer.")}
    return {**kept, "sasl.mechanism": "OAUTHBEARER"}


def token_file(resolved: Mapping[str, str]) -> Path | None:
    """The file that is the token endpoint: `file:///…`; like Java, without decoding `%20` in it."""
    endpoint = resolved.get("sasl.oauthbearer.token.endpoint.url", "")
    return Path(endpoint.removeprefix("file://")) if endpoint.startswith("file://") else None


def extensions(resolved: Mapping[str, str]) -> dict[str, str]:
    """The SASL extensions (KIP-342) by name."""
    pairs = (pair.partition("=") for pair in resolved.get("sasl.oauthbearer.extensions", "").split(","))
    return {name.strip(): value.strip() for name, _, value in pairs if name.strip()}


def refuse_unsupported(resolved: Mapping[str, str]) -> None:
    """Check that kafkaform's own connections can do what every property asks for.

    Raises:
        KafkaformError: They cannot; names the first property.
    """
    for name, value in resolved.items():
        treatment = PROPERTIES[name].transport
        if isinstance(treatment, Refused) and value != treatment.unless:
            raise KafkaformError(f"client property {name}: {treatment.why}", hint=treatment.hint)
