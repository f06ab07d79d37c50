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


def grant(*rights: Right) -> str:
    """Return the line of `kafka-acls` that grants each of the operations on each of the resources.

    The account and the brokers are placeholders: a saved plan or a comment on a pull request names neither.
    """
    operations = dict.fromkeys(f"--operation {right.operation}" for right in rights)
    resources = dict.fromkeys(
        f"--{right.resource}" if right.resource == CLUSTER else f"--{right.resource} {quote(right.name)}"
        for right in rights
    )
    return " ".join(
        (
            "kafka-acls --bootstrap-server '<servers>' --add --allow-principal 'User:<principal>'",
            *operations,
            *resources,
        )
    )


WATCHING = Right("Describe", CLUSTER)
"""What it takes to see running reassignments, and the sizes of replicas."""


def lacking(*rights: Right) -> tuple[str, str]:
    """Return what is wrong where an account lacks rights, and what to do about it."""
    names = " and ".join(map(str, rights))
    return f"this account is not authorised: it lacks {names}", f"grant it: {grant(*rights)}"
