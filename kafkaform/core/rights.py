"""Rights as ACLs grant them, and the line of `kafka-acls` that does."""

from __future__ import annotations

from dataclasses import dataclass
from shlex import quote

CLUSTER = "cluster"
"""The type of the one resource that has no name."""


@dataclass(frozen=True, slots=True)
class Right:
    """A right: an operation on a resource.

    Attributes:
        operation: Kafka's name, such as `AlterConfigs`.
        resource: `cluster`, `topic`, `group` or `transactional-id`.
        name: The name of the resource; empty for the cluster.
    """

    operation: str
    resource: str
    name: str = ""

    def __str__(self) -> str:
        place = "the cluster" if self.resource == CLUSTER else f"{self.resource} {self.name}"
        return f"{self.operation} on {place}"


@dataclass(frozen=True, slots=True)
class Login:
    """The identity of a client to the brokers, for messages.

    Attributes:
        principal: The account, as ACLs name it; a placeholder where it is not known, or is a secret.
        servers: The bootstrap servers.
    """

    principal: str = "User:<principal>"
    servers: str = "<servers>"

    def grant(self, *rights: Right) -> str:
        """Return the line of `kafka-acls` that grants each of the operations on each of the resources."""
        operations = dict.fromkeys(f"--operation {right.operation}" for right in rights)
        resources = dict.fromkeys(
            f"--{right.resource}" if right.resource == CLUSTER else f"--{right.resource} {quote(right.name)}"
            for right in rights
        )
        return " ".join(
            (
                f"kafka-acls --bootstrap-server {quote(self.servers)}",
                f"--add --allow-principal {quote(self.principal)}",
                *operations,
                *resources,
            )
        )


UNKNOWN = Login()
"""An account of which nothing is known here."""

WATCHING = Right("Describe", CLUSTER)
"""What it takes to see running reassignments, and the sizes of replicas."""


def lacking(*rights: Right, login: Login = UNKNOWN) -> tuple[str, str]:
    """Return what is wrong where an account lacks rights, and what to do about it."""
    names = " and ".join(map(str, rights))
    return f"this account is not authorised: it lacks {names}", f"grant it: {login.grant(*rights)}"
