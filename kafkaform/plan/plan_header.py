"""Where a plan is from: what its file says of its making."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkaform.plan.plan_signature import Signature, SignedFor

ADDRESSES = 120
"""The most characters of a file's name, or of the addresses of brokers, in a header."""


@dataclass(frozen=True, slots=True)
class PlanHeader:
    """What a saved plan says about its making.

    Attributes:
        tool_version: The version of kafkaform.
        commit: The Git commit of the manifests, where known; with `-dirty` behind it, where they differ from
            that commit.
        cluster_name: The cluster's name in the configuration, where it has one.
        environment: The environment whose overrides were merged.
        created_at: RFC 3339 in UTC, such as `2025-06-01T12:00:00Z`.
        signature: Its signature, not verified; None where it has none.
        signed_for: What it is signed for, or is to be; None where nobody signs it, or did not say what for.
        configuration: The path of the configuration file, or NO_CONFIG_FILE; None where it does not say.
        servers: The addresses of brokers that were used; None where it does not say.
    """

    tool_version: str
    commit: str | None
    cluster_name: str | None
    environment: str | None
    created_at: str
    signature: Signature | None = None
    signed_for: SignedFor | None = None
    configuration: str | None = None
    servers: str | None = None


def provenance(header: PlanHeader | None) -> dict[str, str]:
    """What a report was made with, beside the cluster's name and the environment: words, and what they name.

    Empty where the header does not say. An address that stands for the cluster's name is not repeated.
    """
    said = {
        "configuration": header.configuration if header else None,
        "brokers": header.servers if header and header.servers != header.cluster_name else None,
    }
    return {word: value for word, value in said.items() if value is not None}
