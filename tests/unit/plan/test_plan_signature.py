import json
import subprocess
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from jsonschema import Draft202012Validator

from kafkaform.core.errors import PlanFileError
from kafkaform.core.model import Create, ResourceRef, Status
from kafkaform.core.plans import Plan, PlannedChange
from kafkaform.core.printable import is_plain
from kafkaform.core.schema_files import load_schema
from kafkaform.core.values import replace
from kafkaform.plan.plan_file import digest_of, plan_from_json, plan_to_json, sign
from kafkaform.plan.plan_header import PlanHeader
from kafkaform.plan.plan_signature import (
    Purpose,
    SignedFor,
    encode_signed_content,
    fingerprint,
    require_signed,
)
from tests.support.plans import strategies

KEY = Ed25519PrivateKey.generate()
OTHER = Ed25519PrivateKey.generate()
HEADER = PlanHeader("0.1.0", "1a2b3c", "prod", "prod", "2025-06-01T12:00:00Z")
PLAN = Plan(
    "cluster-1",
    (PlannedChange(Create(ResourceRef("Topic", "a\U0001f600\x7f"), {"partitions": 6}), Status.PLANNED),),
)
MERGED = SignedFor(Purpose.APPLY, "refs/heads/main")
SCHEMA = Draft202012Validator(load_schema("plan"))
SIGNED = sign(plan_to_json(PLAN, HEADER), KEY, MERGED)


def verify(text: str, *keys: Ed25519PrivateKey) -> None:
    _, header = plan_from_json(text, "plan.json")
    require_signed(header.signature, [key.public_key() for key in keys], "plan.json")


def read_refusal(text: str, *keys: Ed25519PrivateKey) -> str:
    with pytest.raises(PlanFileError) as caught:
        verify(text, *keys)
    assert caught.value.hint
    assert caught.value.message.isprintable()
    return caught.value.message


def edit(*path: Any, value: Any = None, remove: bool = False) -> Any:
    """Return the signed plan with another value at a path, or without it."""
    document = json.loads(SIGNED)
    node = document
    for step in path[:-1]:
        node = node[step]
    if remove:
        del node[path[-1]]
    else:
        node[path[-1]] = value
    return document


@given(strategies.plans(max_changes=2), strategies.headers())
def test_signed_plan_has_unchanged_content(plan: Plan, header: PlanHeader) -> None:
    unsigned = plan_to_json(plan, header)
    signed = sign(unsigned, KEY, MERGED)
    verify(signed, KEY)
    read, made = plan_from_json(signed, "plan.json")
    assert (read, replace(made, signature=None, signed_for=None)) == (plan, header)
    assert made.signed_for == MERGED
    assert made.signature is not None
    assert made.signature.key == fingerprint(KEY.public_key())
    assert plan_to_json(read, made) == signed
    assert all(char == "\n" or is_plain(char) for char in signed)
    SCHEMA.validate(json.loads(signed))


def test_signature_is_stable_and_ignores_layout() -> None:
    assert sign(SIGNED, KEY, MERGED) == SIGNED
    again = sign(SIGNED, OTHER, MERGED)
    verify(again, OTHER)
    assert again.count('"signature"') == 1
    verify(SIGNED, OTHER, KEY)
    document = json.loads(SIGNED)
    verify(json.dumps(dict(reversed(document.items())), indent=7, ensure_ascii=True), KEY)


CHANGED = "the signature does not match: the plan was changed after it was signed"


def test_only_signature_of_trusted_key_is_accepted() -> None:
    assert "the plan is not signed" in read_refusal(plan_to_json(PLAN, HEADER), KEY)
    key = fingerprint(KEY.public_key())
    assert f"with the key {key}, which is not trusted" in read_refusal(SIGNED, OTHER)
    assert "not trusted" in read_refusal(SIGNED)  # no key at all trusts nobody
    document = json.loads(sign(plan_to_json(PLAN, HEADER), OTHER, MERGED))
    document["signature"]["key"] = key
    assert CHANGED in read_refusal(json.dumps(document), KEY)


def test_signature_uses_canonical_json_with_prefix() -> None:
    """The key may sign other things too, which must not be taken for plans."""
    document = json.loads(SIGNED)
    bare = encode_signed_content(document).removeprefix(b"kafkaform plan v1\n")
    assert json.loads(bare) == edit("signature", remove=True)
    KEY.public_key().verify(b64decode(document["signature"]["value"]), b"kafkaform plan v1\n" + bare)


FINDING: Any = dict.fromkeys(("source", "suggestion", "waived"))
FINDING |= {"code": "KF1", "severity": "info", "message": "m"}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("created_at",), "2031-01-01T00:00:00Z"),
        (("commit",), None),
        (("environment",), "dev"),
        (("cluster", "id"), "cluster-2"),
        (("broker_validated",), True),
        (("signed_for", "purpose"), "review"),
        (("signed_for", "ref"), "refs/heads/other"),
        (("changes", 0, "fields", 0, "after"), 7),
        (("diagnostics",), [FINDING]),
    ],
)
def test_signature_covers_every_member(path: tuple[str | int, ...], value: Any) -> None:
    document = edit(*path, value=value)
    document["digest"] = digest_of(document)  # as somebody who means harm would leave it
    assert CHANGED in read_refusal(json.dumps(document), KEY)


def test_signature_covers_purpose() -> None:
    assert CHANGED in read_refusal(json.dumps(edit("signed_for", remove=True)), KEY)
    again = sign(SIGNED, KEY, SignedFor(Purpose.REVIEW))
    verify(again, KEY)
    assert json.loads(again)["signed_for"] == {"purpose": "review", "ref": None}
    unsigned = edit("signature", remove=True)
    assert "signed_for: requires signature" in read_refusal(json.dumps(unsigned), KEY)
    assert not SCHEMA.is_valid(unsigned)


@pytest.mark.parametrize(
    ("member", "place"),
    [
        (None, "signature"),
        ([], "signature"),
        ({}, "signature.algorithm"),
        ({"algorithm": "none"}, "signature.algorithm"),
        ({"key": "sha256:" + "A" * 64}, "signature.key"),
        ({"key": 7}, "signature.key"),
        ({"value": "A" * 86}, "signature.value"),
        ({"value": "A" * 87 + "="}, "signature.value"),
        ({"value": "A" * 86 + "==\n"}, "signature.value"),
        ({"extra": 1}, "signature"),
    ],
)
def test_invalid_signature_is_named_by_path(member: Any, place: str) -> None:
    whole = {**json.loads(SIGNED)["signature"], **member} if member else member
    message = read_refusal(json.dumps(edit("signature", value=whole)), KEY)
    assert message.startswith(f"plan.json: not a valid plan: {place}: ")


@pytest.mark.parametrize(
    ("member", "place"),
    [
        (None, "signed_for"),
        ({"purpose": "apply"}, "signed_for.ref"),
        ({"purpose": "destroy", "ref": None}, "signed_for.purpose"),
        ({"purpose": None, "ref": None}, "signed_for.purpose"),
        ({"purpose": "apply", "ref": 7}, "signed_for.ref"),
        ({"purpose": "apply", "ref": ""}, "signed_for.ref"),
        ({"purpose": "apply", "ref": None, "x": 1}, "signed_for"),
    ],
)
def test_invalid_purpose_is_named_by_path(member: Any, place: str) -> None:
    document = edit("signed_for", value=member)
    assert read_refusal(json.dumps(document), KEY).startswith(f"plan.json: not a valid plan: {place}: ")
    assert not SCHEMA.is_valid(document)


def test_openssl_and_jq_verify_signature(tmp_path: Path) -> None:
    """Anybody can check the signature without kafkaform, as docs/saved-plans.md shows."""
    (tmp_path / "plan.json").write_text(SIGNED)
    pem = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "verify.pem").write_bytes(pem)
    script = """
        { echo 'kafkaform plan v1'; jq -jcSa 'del(.signature)' plan.json; } > signed
        jq -r .signature.value plan.json | base64 -d > signature
        openssl pkeyutl -verify -pubin -inkey verify.pem -rawin -in signed -sigfile signature
    """
    done = subprocess.run(["bash", "-euc", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Verified Successfully" in done.stdout
