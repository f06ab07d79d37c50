"""Signatures of saved plans: Ed25519 (RFC 8032) over the whole document, except the signature itself.

A digest shows that a plan is undamaged; only a signature shows who made it. What a plan is signed for is
part of the document, so that the signature covers it: a plan of a branch that nobody has merged is signed
to be reviewed, and no apply takes it as it is.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from kafkaform.core.errors import PlanFileError
from kafkaform.core.printable import printable

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

ALGORITHM = "ed25519"
MEMBER = "signature"
"""The key of a signature in a plan document."""
SIGNED_FOR = "signed_for"
"""The key of what a plan document is signed for."""
_DOMAIN = b"kafkaform plan v1\n"  # a signature of anything else that the key has signed fits no plan


class Purpose(StrEnum):
    """What a plan is signed for."""

    REVIEW = "review"
    APPLY = "apply"


@dataclass(frozen=True, slots=True)
class SignedFor:
    """What a plan is signed for, as its signer says.

    Attributes:
        purpose: `REVIEW`: to be compared with (`apply --reviewed`). `APPLY`: to be carried out as it is.
        ref: The ref of the manifests that was checked out, such as `refs/heads/main`; None where none was.
    """

    purpose: Purpose
    ref: str | None = None


@dataclass(frozen=True, slots=True)
class Signature:
    """A signature as a saved plan has it, not yet verified.

    Attributes:
        key: The fingerprint of the key that it says it is of.
        value: The signature in base64.
        covers: The bytes that it is over.
    """

    key: str
    value: str
    covers: bytes = field(repr=False)


def fingerprint(key: Ed25519PublicKey) -> str:
    """`sha256:` and, in hexadecimal, the SHA-256 of the key's SubjectPublicKeyInfo in DER."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return f"sha256:{hashlib.sha256(der).hexdigest()}"


def signature_member(document: Mapping[str, Any], key: Ed25519PrivateKey) -> dict[str, str]:
    """The signature of a plan document, as that document holds it."""
    return {
        "algorithm": ALGORITHM,
        "key": fingerprint(key.public_key()),
        "value": b64encode(key.sign(covered(document))).decode(),
    }


def covered(document: Mapping[str, Any]) -> bytes:
    """What the signature of a plan document is over: canonical JSON of all else in it, behind a prefix."""
    rest = {name: value for name, value in document.items() if name != MEMBER}
    return _DOMAIN + json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def require_signed(signature: Signature | None, keys: Collection[Ed25519PublicKey], file: str) -> None:
    """Refuse a plan that is not signed with one of these keys.

    Raises:
        PlanFileError: It is unsigned, signed with another key, or not what was signed.
    """
    from cryptography.exceptions import InvalidSignature

    where = printable(file)
    if signature is None:
        raise PlanFileError(
            f"{where}: the plan is not signed, and here only signed plans are applied",
            hint="have it made where the key is: kafkaform plan --out FILE --sign-key KEY --sign-for apply",
        )
    known = {fingerprint(key): key for key in keys}
    if signature.key not in known:
        raise PlanFileError(
            f"{where}: the plan is signed with the key {signature.key}, which is not trusted here",
            hint=f"trusted: {', '.join(known) or 'none'}",
        )
    try:
        known[signature.key].verify(b64decode(signature.value), signature.covers)
    except InvalidSignature:
        raise PlanFileError(
            f"{where}: the signature does not fit: the plan was changed after it was signed",
            hint="do not apply it; make it again with kafkaform plan --out FILE --sign-key KEY",
        ) from None
