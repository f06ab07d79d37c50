"""The entities of quotas, and their names: `user=alice`, `user=<default>,client-id=app`.

Names and entities map one to one. `<default>` is Kafka's default of a type. In the name of a user or client,
reserved and invisible characters are percent-encoded as in URLs, in UTF-8: a user with the name `<default>`
is `user=%3Cdefault%3E`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, cast

from kafkaform.core.printable import is_plain
from kafkaform.core.values import Value
from kafkaform.core.wording import did_you_mean, quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

USER, CLIENT_ID, IP = TYPES = ("user", "client-id", "ip")
"""Kafka's types of entities, in the order of a name."""
FIELDS = {USER: "user", CLIENT_ID: "clientId", IP: "ip"}
"""Their names in `spec.entity`."""

_DEFAULT = "<default>"
# Separators of a name (`,`), the marks of a default (`<`, `>`), and the escape itself.
_RESERVED = frozenset("%,<>")
_ENCODED = re.compile(r"(?:%[0-9A-Fa-f]{2})+", re.ASCII)
_FORM = "write such as user=alice, client-id=app, user=alice,client-id=app or ip=10.0.0.1"

_NOUNS = {USER: "user", CLIENT_ID: "client", IP: "address"}


class QuotaEntity(Value):
    """The entity of a quota: a user, a client id, both, or an address.

    Attributes:
        parts: The name of each type, in Kafka's order; None is the default of the type.
    """

    parts: tuple[tuple[str, str | None], ...]

    @property
    def name(self) -> str:
        """Its name as a resource."""
        return ",".join(
            f"{type_}={_DEFAULT if name is None else _encode(name)}" for type_, name in self.parts
        )

    @property
    def has_default(self) -> bool:
        """True if one of its types at least is a default, for all that have no quota of their own."""
        return any(name is None for _, name in self.parts)

    @property
    def is_address(self) -> bool:
        """True if it is an address, which has other limits than users and clients."""
        return any(type_ == IP for type_, _ in self.parts)

    def words(self) -> str:
        """Describe it for a sentence: `user alice`, `each address without a quota of its own`."""
        return " with ".join(
            f"each {_NOUNS[type_]} without a quota of its own"
            if name is None
            else f"{_NOUNS[type_]} {_encode(name)}"
            for type_, name in self.parts
        )

    def fallbacks(self) -> tuple[QuotaEntity, ...]:
        """Return the entities whose limits apply where it has none, in order of precedence.

        The order is that of Kafka's documentation, "Client quotas", without entities of a particular client
        where it has none.
        """
        parts = dict(self.parts)
        if self.is_address:
            order = [QuotaEntity(((IP, None),))]
        else:
            # A particular user before the default one, and each of them with a client before the user alone.
            users = [*dict.fromkeys((parts[USER], None))] if USER in parts else []
            clients = [*dict.fromkeys((parts.get(CLIENT_ID), None))]
            order = []
            for user in users:
                order += [QuotaEntity(((USER, user), (CLIENT_ID, client))) for client in clients]
                order.append(QuotaEntity(((USER, user),)))
            order += [QuotaEntity(((CLIENT_ID, client),)) for client in clients]
        # What comes after the entity itself has a lower precedence.
        return tuple(order[order.index(self) + 1 :] if self in order else order)


def parse_entity(name: str) -> QuotaEntity:
    """Parse the name of a quota.

    Raises:
        ValueError: It is not the name of an entity, or not its canonical spelling, which the message has.
    """
    parts: dict[str, str | None] = {}
    for part in name.split(","):
        type_, equals, value = part.partition("=")
        if type_ not in TYPES or not equals:
            raise ValueError(
                f"{quoted(name)} is not the name of a quota: {_FORM}{did_you_mean(type_, TYPES)}"
            )
        if type_ in parts:
            raise ValueError(f"{quoted(name)} names {type_} twice")
        parts[type_] = None if value == _DEFAULT else _decode(value, type_)
    entity = build_entity(parts)
    if entity.name != name:
        raise ValueError(f"{quoted(name)} is written {entity.name}")
    return entity


def describe_entity(name: str) -> str:
    """Describe the entity of a quota for a sentence; return the name if it is invalid."""
    try:
        return parse_entity(name).words()
    except ValueError:
        return name


def read_entity(spec: Mapping[str, object]) -> QuotaEntity:
    """Parse a `spec.entity` that matches the schema.

    Raises:
        ValueError: Kafka does not support this combination of types.
    """
    return build_entity(
        {
            type_: None if isinstance(spec[field], dict) else cast("str", spec[field])
            for type_, field in FIELDS.items()
            if field in spec
        }
    )


def write_entity(entity: QuotaEntity) -> dict[str, object]:
    """Return an entity as a `spec.entity`."""
    return {FIELDS[type_]: {"default": True} if name is None else name for type_, name in entity.parts}


def build_entity(parts: Mapping[str, str | None]) -> QuotaEntity:
    """Return the entity with the name of each type; None for the default of the type.

    Raises:
        ValueError: Kafka does not support this combination of types.
    """
    if not parts:
        raise ValueError("a quota applies to a user, a client id, both, or an ip")
    if IP in parts and len(parts) > 1:
        raise ValueError("a quota of an ip cannot name a user or a client id")
    return QuotaEntity(tuple((type_, parts[type_]) for type_ in TYPES if type_ in parts))


def _encode(name: str) -> str:
    return "".join(
        char
        if is_plain(char) and not char.isspace() and char not in _RESERVED
        else "".join(f"%{byte:02X}" for byte in char.encode(errors="surrogatepass"))
        for char in name
    )


def _decode(text: str, type_: str) -> str:
    if not text:
        raise ValueError(f"the name of the {type_} is missing")
    # Otherwise a name could be written in two ways, and two manifests could declare one quota.
    if "%" in _ENCODED.sub("", text):
        raise ValueError(f"{quoted(text)} has a % that is not part of a code such as %2C; write %25 for it")
    try:
        return _ENCODED.sub(lambda code: bytes.fromhex(code[0].replace("%", "")).decode(), text)
    except UnicodeDecodeError:
        raise ValueError(f"{quoted(text)} is not percent-encoded UTF-8") from None
