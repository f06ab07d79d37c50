"""The saved plans of several clusters as a set: the digest of the file of each, under one signature.

A plan is signed for itself, too. The set shows which plans belong together: an older plan of one cluster,
signed with the same key, is not taken for the one that was reviewed with the others
(schemas/plan-set.schema.json).
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from kafkaform.core.errors import PlanFileError
from kafkaform.core.printable import printable
from kafkaform.core.schema_files import first_problem
from kafkaform.core.strict_json import describe_violation, parse_document
from kafkaform.core.values import Value
from kafkaform.core.wording import join_words
from kafkaform.plan.plan_file import FORMAT_VERSION, format_json, read_signature
from kafkaform.plan.plan_signature import Purpose, Signature, SignedFor, require_purpose, require_signed

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

_NOUN = "set of plans"
_AGAIN = "make it with `kafkaform plan --clusters GLOB --out FILE`"


def compute_file_digest(content: bytes) -> str:
    """Return the digest of the file of a plan."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def format_plan_set(digests: Mapping[str, str]) -> str:
    """Return the document of a set, without a signature, from the digest of each cluster's file."""
    return format_json({"format_version": FORMAT_VERSION, "plans": dict(sorted(digests.items()))})


class PlanSet(Value):
    """A set that was read from a file.

    Attributes:
        file: The file, for messages.
        digests: The digest of the file of each cluster's plan.
        signature: The signature, not verified; None if there is none.
        signed_for: The purpose of the signature; None if there is none.
    """

    file: str
    digests: Mapping[str, str]
    signature: Signature | None
    signed_for: SignedFor | None

    def require_signed(self, keys: Collection[Ed25519PublicKey], purposes: frozenset[Purpose]) -> None:
        """Raise a PlanFileError unless the set is signed with one of the keys, for one of the purposes."""
        require_signed(self.signature, keys, self.file)
        require_purpose(self.signed_for, purposes, printable(self.file))

    def require_clusters(self, names: Collection[str]) -> None:
        """Raise a PlanFileError if a cluster has no plan in the set."""
        if missing := sorted({*names} - {*self.digests}):
            raise PlanFileError(
                f"{printable(self.file)}: it has no plan of {join_words(missing)}",
                hint="plan again, or select only the clusters that are planned",
            )

    def require_plan(self, cluster: str, content: bytes, file: str) -> None:
        """Raise a PlanFileError unless a file is the one of the set."""
        if compute_file_digest(content) != self.digests[cluster]:
            raise PlanFileError(
                f"{printable(file)}: not the plan of {cluster} that was saved with {printable(self.file)}",
                hint="plan all clusters again, with one --out",
            )


def plan_set_from_json(text: str, file: str) -> PlanSet:
    """Read a set of plans; raises PlanFileError if it is not one."""
    document = parse_document(text, file, PlanFileError, noun=_NOUN, again=_AGAIN)
    if (problem := first_problem("plan-set", document)) is not None:
        raise PlanFileError(describe_violation(file, _NOUN, problem), hint=_AGAIN)
    return PlanSet(file, document["plans"], *read_signature(document))
