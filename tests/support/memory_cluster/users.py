"""The rules of a controller for SCRAM credentials in memory, answered as real brokers answer, and logins.

The codes and texts were seen on Apache Kafka 4.3.1.
"""

from collections.abc import Mapping
from hashlib import pbkdf2_hmac
from typing import NamedTuple

from kafkaform.core.errors import ClusterError
from kafkaform.core.secrets import Reference, UnreadableSecret, read_secret
from kafkaform.resources.user.credential import (
    HASHES,
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    parse_credential,
    salt_password,
)
from kafkaform.resources.user.operations import AlterCredentials
from tests.support.memory_cluster.controller import build_rejection


class StoredCredential(NamedTuple):
    """A credential as brokers store it."""

    iterations: int
    salt: bytes
    salted: bytes


def result(
    before: Mapping[str, StoredCredential], operation: AlterCredentials
) -> tuple[Mapping[str, StoredCredential], ClusterError | None]:
    """Return the credentials of a user after an alteration; raise what a controller objects to.

    Also returns the error of a password that cannot be read here: only carrying it out needs that.
    """
    after = dict(before)
    for mechanism, value in operation.mechanisms().items():
        if value is None:
            if after.pop(mechanism, None) is None:
                text = "Attempt to delete a user credential that does not exist"
                raise build_rejection("RESOURCE_NOT_FOUND", text)
            continue
        credential = parse_credential(value)
        assert credential is not None
        assert isinstance(credential.password, Reference)
        if not MIN_ITERATIONS <= credential.iterations <= MAX_ITERATIONS:
            few = credential.iterations < MIN_ITERATIONS
            raise build_rejection("UNACCEPTABLE_CREDENTIAL", f"Too {'few' if few else 'many'} iterations")
        try:
            secret = read_secret(credential.password)
        except UnreadableSecret as error:
            return before, build_rejection("NO_PASSWORD", str(error))
        salted = salt_password(mechanism, credential.iterations, secret)
        after[mechanism] = StoredCredential(credential.iterations, *salted)
    return after, None


def log_in(credential: StoredCredential, mechanism: str, password: Reference) -> bool | None:
    """Return whether a login is accepted; None if the password cannot be read."""
    try:
        text = read_secret(password).reveal()
    except UnreadableSecret:
        return None
    salted = pbkdf2_hmac(HASHES[mechanism], text.encode(), credential.salt, credential.iterations)
    return salted == credential.salted
