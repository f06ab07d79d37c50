"""Rights that ACLs grant, and the `kafka-acls` command that grants them."""

from __future__ import annotations

from shlex import quote

from kafkaform.core.values import Value
from kafkaform.core.wording import code, join_words

CLUSTER = "cluster"
"""The type of the only resource without a name."""


class Right(Value):
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
        resource = "the cluster" if self.resource == CLUSTER else f"{self.resource} {self.name}"
        return f"{self.operation} on {resource}"


def grant(*rights: Right, principal: str = "User:<principal>") -> str:
    """Return the `kafka-acls` command that grants each of the operations on each of the resources.

    The brokers are a placeholder, and usually the account: saved plans and pull request comments must name
    neither.
    """
    # kafka-acls grants every operation on every resource that it is given, so each is listed once.
    operations = dict.fromkeys(f"--operation {right.operation}" for right in rights)
    resources = dict.fromkeys(
        f"--{right.resource}" if right.resource == CLUSTER else f"--{right.resource} {quote(right.name)}"
        for right in rights
    )
    return " ".join(
        (
            "kafka-acls --bootstrap-server '<servers>' --add --allow-principal",
            quote(principal),
            *operations,
            *resources,
        )
    )


WATCHING = Right("Describe", CLUSTER)
"""The right that reading running reassignments and replica sizes requires."""


def explain_missing_rights(*rights: Right) -> tuple[str, str]:
    """Return the message and the hint for an account that lacks rights."""
    names = join_words(map(str, rights))
    return f"this account is not authorised: it lacks {names}", f"grant it: {code(grant(*rights))}"
