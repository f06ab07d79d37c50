"""A SCRAM credential as a field of a user: its iterations, and what is known of its password.

Kafka keeps the iterations, a salt and the salted password, and returns the iterations only. A value has a
reference to the password, never the password. Of a live one, that is so if a login with it was accepted.
"""

from __future__ import annotations

import re
from enum import StrEnum
from hashlib import pbkdf2_hmac
from secrets import token_bytes
from typing import TYPE_CHECKING

from kafkaform.core.secrets import MalformedReference, Reference, Secret, parse_reference
from kafkaform.core.values import Value

if TYPE_CHECKING:
    from kafkaform.core.model import FieldValue

PREFIX = "scram."
"""The prefix of the paths of credentials, before the mechanism."""
HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""Kafka's mechanisms, each with its hash function."""
MIN_ITERATIONS, MAX_ITERATIONS = 4096, 16384
"""What brokers accept (ScramMechanism, and ScramControlManager.MAX_ITERATIONS)."""

_VALUE = re.compile(r"iterations=([0-9]{1,9}),password=(.+)", re.DOTALL)
_REFERENCE = re.compile(r"\$\{([^}]*)\}")


class LivePassword(StrEnum):
    """A live password that no login has shown to be the declared one."""

    CHANGED = "changed"
    """A login with the declared password was refused."""
    UNKNOWN = "unknown"
    """It was not compared."""


class Credential(Value):
    """A credential of one mechanism.

    Attributes:
        iterations: The iterations of the salted hash.
        password: The reference to its password, or what is known of a live one.
    """

    iterations: int
    password: Reference | LivePassword

    def __str__(self) -> str:
        return f"iterations={self.iterations},password={self.password}"


def parse_credential(value: FieldValue) -> Credential | None:
    """Parse the value of a field; None if it is none, or has another form, as in a plan edited by hand."""
    match = _VALUE.fullmatch(str(value))
    if match is None:
        return None
    iterations, text = int(match[1]), match[2]
    if text in [*LivePassword]:
        return Credential(iterations, LivePassword(text))
    try:
        return Credential(iterations, parse_password(text))
    except MalformedReference:
        return None


def parse_password(text: str) -> Reference:
    """Parse a declared password, which is one reference.

    Raises:
        MalformedReference: It is anything else; the message does not quote it.
    """
    if (match := _REFERENCE.fullmatch(text)) is None:
        raise MalformedReference("a password must be a reference")
    return parse_reference(match[1])


def are_equal(a: FieldValue, b: FieldValue) -> bool:
    """Return whether two credentials are the same, as far as it is known."""
    first, second = parse_credential(a), parse_credential(b)
    if a == b or first is None or second is None:
        return a == b
    is_unknown = LivePassword.UNKNOWN in (first.password, second.password)
    return first.iterations == second.iterations and (is_unknown or first.password == second.password)


def salt_password(mechanism: str, iterations: int, password: Secret) -> tuple[bytes, bytes]:
    """Return a new salt, and the salted password (RFC 5802, `SaltedPassword`)."""
    salt = token_bytes(32)
    # Not normalised by RFC 4013: neither ScramFormatter of Kafka nor librdkafka does that.
    return salt, pbkdf2_hmac(HASHES[mechanism], password.reveal().encode(), salt, iterations)
