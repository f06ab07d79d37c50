"""Signatures of saved plans: Ed25519 (RFC 8032) over the whole document, except the signature itself.

Keys are PEM files, as OpenSSL writes them. No message contains more of a key than its type.

A digest proves that a plan is undamaged; only a signature proves who made it. The signature covers its own
purpose: the plan of a branch that is not merged is signed for review, and no apply accepts it.
"""

from __future__ import annotations

import hashlib
import os
import re
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from kafkaform.core.errors import KafkaformError, PlanFileError
from kafkaform.core.files import read_file
from kafkaform.core.printable import clipped, printable
from kafkaform.core.strict_json import encode_canonical
from kafkaform.core.values import Value
from kafkaform.core.wording import join_words

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey


ALGORITHM = "ed25519"
MEMBER = "signature"
"""The member of a plan document that contains the signature."""
SIGNED_FOR = "signed_for"
"""The member of a plan document that contains the purpose of the signature."""
# Domain separation: a signature that the key has made for anything else is not valid for a plan.
_DOMAIN = b"kafkaform plan v1\n"


class Purpose(StrEnum):
    """The purpose of a signature."""

    REVIEW = "review"
    APPLY = "apply"


class SignedFor(Value):
    """The purpose of a signature, as the signer states it.

    Attributes:
        purpose: `REVIEW`: for `apply --reviewed`. `APPLY`: to be carried out as it is.
        ref: The Git ref that was checked out, such as `refs/heads/main`; None if none was.
    """

    purpose: Purpose
    ref: str | None = None


@dataclass(frozen=True, slots=True)
class Signature:
    """A signature in a saved plan, not yet verified.

    Attributes:
        key: The fingerprint of the claimed key.
        value: The signature in base64.
        covers: The signed bytes.
    """

    key: str
    value: str
    covers: bytes = field(repr=False)


def fingerprint(key: Ed25519PublicKey) -> str:
    """Return `sha256:` and the hexadecimal SHA-256 of the key's SubjectPublicKeyInfo in DER."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return f"sha256:{hashlib.sha256(der).hexdigest()}"


def signature_member(document: Mapping[str, Any], key: Ed25519PrivateKey) -> dict[str, str]:
    """Sign a plan document; return the member that contains the signature."""
    return {
        "algorithm": ALGORITHM,
        "key": fingerprint(key.public_key()),
        "value": b64encode(key.sign(encode_signed_content(document))).decode(),
    }


def encode_signed_content(document: Mapping[str, Any]) -> bytes:
    """Return the signed bytes of a plan document: a prefix, and canonical JSON without the signature."""
    content = {name: value for name, value in document.items() if name != MEMBER}
    return _DOMAIN + encode_canonical(content)


def require_signed(signature: Signature | None, keys: Collection[Ed25519PublicKey], file: str) -> None:
    """Raise an error unless a plan is signed with one of these keys.

    Raises:
        PlanFileError: It is unsigned, signed with another key, or changed since.
    """
    from cryptography.exceptions import InvalidSignature

    where = printable(file)
    if signature is None:
        raise PlanFileError(
            f"{where}: the plan is not signed, but only signed plans are applied here",
            hint="have it made where the key is: `kafkaform plan --out FILE --sign-key KEY --sign-for apply`",
        )
    # The fingerprint in the plan only selects the key; the signature is verified with the trusted one.
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
            f"{where}: the signature does not match: the plan was changed after it was signed",
            hint="do not apply it; create it again with `kafkaform plan --out FILE --sign-key KEY`",
        ) from None


def require_purpose(signed_for: SignedFor | None, purposes: frozenset[Purpose], where: str) -> None:
    """Raise a PlanFileError unless a signature is for one of the purposes."""
    if signed_for is None:
        raise PlanFileError(
            f"{where}: the plan is signed, but not for a stated purpose",
            hint="sign it again: `kafkaform plan --out FILE --sign-key KEY --sign-for apply` (or review)",
        )
    if signed_for.purpose not in purposes:
        raise PlanFileError(
            f"{where}: the plan is signed for {signed_for.purpose}, not for apply",
            hint="apply what was merged: `kafkaform apply --reviewed FILE`; or, where its commit is merged, "
            "make a plan with `--sign-for apply`",
        )


KEY_VARIABLE = "KAFKAFORM_SIGN_KEY"
"""The environment variable that may contain the signing key itself, as PEM."""
PASSPHRASE_VARIABLE = "KAFKAFORM_SIGN_KEY_PASSPHRASE"  # noqa: S105 - a name, no passphrase

# Bytes that are read of a key's file: an Ed25519 key has a few hundred.
_MAX_KEY_FILE_BYTES = 65_536
_OTHERS = 0o077
_UNENCRYPTED = "PRIVATE KEY"
_ENCRYPTED = "ENCRYPTED PRIVATE KEY"
_PUBLIC = "PUBLIC KEY"
_BEGIN = re.compile(r"^-----BEGIN ([A-Z0-9 ]{1,40})-----", re.MULTILINE)
_BLOCK = re.compile(r"^-----BEGIN PUBLIC KEY-----.*?^-----END PUBLIC KEY-----", re.MULTILINE | re.DOTALL)
_MAKE_PRIVATE = "make one with: openssl genpkey -algorithm ed25519 -out sign.pem"
_MAKE_PUBLIC = "make it with: openssl pkey -in sign.pem -pubout -out verify.pem"


def read_private_key(file: Path | None, environ: Mapping[str, str]) -> Ed25519PrivateKey | None:
    """Read the signing key from the file, else from KAFKAFORM_SIGN_KEY; None if there is neither.

    An encrypted key is decrypted with KAFKAFORM_SIGN_KEY_PASSPHRASE.

    Raises:
        KafkaformError: It is not an Ed25519 private key, or other users may read the file, as for ssh.
    """
    if file is not None:
        where, pem = f"the signing key {clipped(str(file), 200)}", _read_own(file)
    elif environ.get(KEY_VARIABLE):
        where, pem = f"the signing key in {KEY_VARIABLE}", environ[KEY_VARIABLE]
    else:
        return None
    kinds = _BEGIN.findall(pem)
    if kinds not in ([_UNENCRYPTED], [_ENCRYPTED]):
        raise _build_key_error(where, kinds, "one Ed25519 private key in PEM (PKCS #8)", _MAKE_PRIVATE)
    passphrase = None
    if kinds == [_ENCRYPTED]:
        passphrase = environ.get(PASSPHRASE_VARIABLE)
        if not passphrase:
            raise KafkaformError(f"{where} is encrypted", hint=f"set {PASSPHRASE_VARIABLE}")
    return _load_private_key(where, pem, passphrase)


def read_public_keys(file: Path) -> tuple[Ed25519PublicKey, ...]:
    """Read the verifying keys; there are several while keys are rotated.

    Raises:
        KafkaformError: The file contains no key, or anything else.
    """
    where = f"the verifying key {clipped(str(file), 200)}"
    pem = _read(file, where)
    kinds = _BEGIN.findall(pem)
    blocks = _BLOCK.findall(pem)
    if not blocks or set(kinds) != {_PUBLIC} or len(blocks) != len(kinds):
        raise _build_key_error(where, kinds, "Ed25519 public keys in PEM, and nothing else", _MAKE_PUBLIC)
    return tuple(_load_public_key(where, block) for block in blocks)


def _load_private_key(where: str, pem: str, passphrase: str | None) -> Ed25519PrivateKey:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(pem.encode(), passphrase.encode() if passphrase else None)
    # The error of the library is not chained: no message has more of a key than its type.
    except (ValueError, UnsupportedAlgorithm):
        if passphrase:
            raise KafkaformError(
                f"{where} cannot be decrypted", hint=f"check {PASSPHRASE_VARIABLE}; the key may be damaged"
            ) from None
        raise KafkaformError(f"{where} is damaged", hint=_MAKE_PRIVATE) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise KafkaformError(f"{where} is a private key, but not of Ed25519", hint=_MAKE_PRIVATE)
    return key


def _load_public_key(where: str, pem: str) -> Ed25519PublicKey:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(pem.encode())
    except (ValueError, UnsupportedAlgorithm):
        raise KafkaformError(f"{where} is damaged", hint=_MAKE_PUBLIC) from None
    if not isinstance(key, Ed25519PublicKey):
        raise KafkaformError(f"{where} is a public key, but not of Ed25519", hint=_MAKE_PRIVATE)
    return key


def _read_own(file: Path) -> str:
    """Read a private key's file, which no other user may be able to read."""
    where = f"the signing key {clipped(str(file), 200)}"
    text = _read(file, where)
    about = file.stat()
    # As in ssh: a file of another owner, such as a mounted secret, is that owner's responsibility.
    if about.st_uid == os.getuid() and about.st_mode & _OTHERS:
        raise KafkaformError(f"{where} can be read by others", hint=f"chmod 600, or use {KEY_VARIABLE}")
    return text


def _read(file: Path, where: str) -> str:
    try:
        return read_file(file, _MAX_KEY_FILE_BYTES).decode("ascii")
    except OSError as error:
        raise KafkaformError(f"{where} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        hint = "openssl pkey -inform DER writes a key that is in DER as PEM"
        raise KafkaformError(f"{where} is not in PEM", hint=hint) from None


def _build_key_error(where: str, kinds: list[str], wanted: str, hint: str) -> KafkaformError:
    held = join_words(kinds[:3] or ["nothing in PEM"])
    return KafkaformError(f"{where} holds {held}; it must hold {wanted}", hint=hint)
