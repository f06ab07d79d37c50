"""Signatures of plans, the keys they are made and verified with, and the terms on which plans are trusted."""

import json
import subprocess
from base64 import b64decode
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from hypothesis import given
from jsonschema_rs import Draft202012Validator
from syrupy.assertion import SnapshotAssertion

from kafkaform import __version__
from kafkaform.core.errors import KafkaformError, PlanFileError
from kafkaform.core.model import Create, Status
from kafkaform.core.plans import Plan, PlannedChange
from kafkaform.core.printable import is_plain
from kafkaform.core.schema_files import load_schema
from kafkaform.core.values import replace
from kafkaform.plan.plan_file import digest_of, plan_from_json, plan_to_json, sign
from kafkaform.plan.plan_header import CLOCKS_DIFFER, PlanHeader
from kafkaform.plan.plan_signature import (
    KEY_VARIABLE,
    PASSPHRASE_VARIABLE,
    Purpose,
    SignedFor,
    encode_signed_content,
    fingerprint,
    read_private_key,
    read_public_keys,
    require_signed,
    signature_member,
)
from kafkaform.plan.plan_trust import Checkout, TrustRequirements, check_trust
from kafkaform.vcs.repository import Repository
from tests.support.github.git_work import Work
from tests.support.plans import strategies
from tests.support.plans.risk import render_catalogue
from tests.support.plans.scenes import topic

KEY = Ed25519PrivateKey.from_private_bytes(b"kafkaform" + bytes(23))
OTHER = Ed25519PrivateKey.generate()
HEADER = PlanHeader("0.1.0", "1a2b3c", "prod", "prod", "2025-06-01T12:00:00Z")
PLAN = Plan(
    "cluster-1", (PlannedChange(Create(topic("a\U0001f600\x7f"), {"partitions": 6}), Status.PLANNED),)
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


MEMBERS = {name: json.loads(SIGNED)[name] for name in ("signature", "signed_for")}


@pytest.mark.parametrize(
    ("place", "edited"),
    [
        ("signature", None),
        ("signature", []),
        ("signature.algorithm", {}),
        ("signature.algorithm", {**MEMBERS["signature"], "algorithm": "none"}),
        ("signature.key", {**MEMBERS["signature"], "key": "sha256:" + "A" * 64}),
        ("signature.key", {**MEMBERS["signature"], "key": 7}),
        ("signature.value", {**MEMBERS["signature"], "value": "A" * 86}),
        ("signature.value", {**MEMBERS["signature"], "value": "A" * 87 + "="}),
        ("signature.value", {**MEMBERS["signature"], "value": "A" * 86 + "==\n"}),
        ("signature", {**MEMBERS["signature"], "extra": 1}),
        ("signed_for", None),
        ("signed_for.ref", {"purpose": "apply"}),
        ("signed_for.purpose", {"purpose": "destroy", "ref": None}),
        ("signed_for.purpose", {"purpose": None, "ref": None}),
        ("signed_for.ref", {"purpose": "apply", "ref": 7}),
        ("signed_for.ref", {"purpose": "apply", "ref": ""}),
        ("signed_for", {**MEMBERS["signed_for"], "x": 1}),
    ],
)
def test_invalid_member_is_named_by_path(place: str, edited: Any) -> None:
    document = edit(place.partition(".")[0], value=edited)
    assert read_refusal(json.dumps(document), KEY).startswith(f"plan.json: not a valid plan: {place}: ")
    assert not SCHEMA.is_valid(document)


def test_openssl_and_jq_verify_signature(tmp_path: Path) -> None:
    """Anybody can check the signature without kafkaform, as docs/saved-plans.md shows."""
    (tmp_path / "plan.json").write_text(SIGNED)
    (tmp_path / "verify.pem").write_text(public_pem())
    script = """
        { echo 'kafkaform plan v1'; jq -jcSa 'del(.signature)' plan.json; } > signed
        jq -r .signature.value plan.json | base64 -d > signature
        openssl pkeyutl -verify -pubin -inkey verify.pem -rawin -in signed -sigfile signature
    """
    done = subprocess.run(["bash", "-euc", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Verified Successfully" in done.stdout


def private_pem(
    key: PrivateKeyTypes = KEY,
    form: PrivateFormat = PrivateFormat.PKCS8,
    encryption: KeySerializationEncryption | None = None,
) -> str:
    return key.private_bytes(Encoding.PEM, form, encryption or NoEncryption()).decode()


def public_pem(key: PrivateKeyTypes = KEY) -> str:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def public(key: Ed25519PrivateKey | None) -> Ed25519PublicKey:
    assert key is not None
    return key.public_key()


ENCRYPTED = private_pem(encryption=BestAvailableEncryption(b"open sesame"))
RSA = rsa.generate_private_key(65537, 1024)
CURVE = ec.generate_private_key(ec.SECP256R1())


def write_key_file(folder: Path, text: str | bytes) -> Path:
    file = folder / "key.pem"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    file.chmod(0o600)
    return file


def describe_error(error: KafkaformError) -> str:
    """The message and the hint, in which there is nothing of any key."""
    text = f"{error.message} | {error.hint}"
    assert "\n" not in text
    for key in (KEY, RSA, CURVE):
        for line in (private_pem(key) + public_pem(key) + ENCRYPTED).splitlines():
            assert line.startswith("-----") or line not in text
    return text


def test_openssl_keys_are_read(tmp_path: Path) -> None:
    script = """
        openssl genpkey -algorithm ed25519 -out sign.pem
        openssl pkey -in sign.pem -pubout -out verify.pem
        openssl pkey -in sign.pem -aes256 -passout 'pass:open sesame' -out locked.pem
        chmod 600 *.pem
        openssl pkey -pubin -in verify.pem -outform DER | openssl dgst -sha256 -r
    """
    done = subprocess.run(["bash", "-euc", script], cwd=tmp_path, capture_output=True, check=True, text=True)
    key = read_private_key(tmp_path / "sign.pem", {})
    locked = read_private_key(tmp_path / "locked.pem", {PASSPHRASE_VARIABLE: "open sesame"})
    (known,) = read_public_keys(tmp_path / "verify.pem")
    assert public(key) == known == public(locked)
    assert fingerprint(known) == f"sha256:{done.stdout.split()[0]}"


@pytest.mark.parametrize(
    ("text", "passphrase"), [(private_pem(), None), (private_pem(), "x"), (ENCRYPTED, "open sesame")]
)
def test_signing_key_is_read_from_variable(text: str, passphrase: str | None) -> None:
    locked = {PASSPHRASE_VARIABLE: passphrase} if passphrase else {}
    assert public(read_private_key(None, {KEY_VARIABLE: text, **locked})) == KEY.public_key()


def test_key_file_precedes_variable_and_both_may_be_missing(tmp_path: Path) -> None:
    file = write_key_file(tmp_path, private_pem())
    assert public(read_private_key(file, {KEY_VARIABLE: "something else"})) == KEY.public_key()
    for environ in ({}, {KEY_VARIABLE: ""}):  # a secret that a workflow does not have is empty
        assert read_private_key(None, environ) is None


@pytest.mark.parametrize(
    ("text", "environ"),
    [
        ("c2VjcmV0", {}),
        ("   " + private_pem().replace("\n", "\n   "), {}),
        (public_pem(), {}),
        (private_pem() + private_pem(), {}),
        (private_pem() + public_pem(), {}),
        (private_pem(RSA), {}),
        (private_pem(CURVE), {}),
        (private_pem(RSA, PrivateFormat.TraditionalOpenSSL), {}),
        (private_pem(KEY, PrivateFormat.OpenSSH), {}),
        (private_pem()[:60] + "\n-----END PRIVATE KEY-----\n", {}),
        ("-----BEGIN PRIVATE KEY-----\n", {}),
        (private_pem().replace("M", "\udcff"), {}),
        (ENCRYPTED, {}),
        (ENCRYPTED, {PASSPHRASE_VARIABLE: ""}),
        (ENCRYPTED, {PASSPHRASE_VARIABLE: "open barley"}),
    ],
)
def test_bad_signing_key_is_hidden(text: str, environ: dict[str, str], snapshot: SnapshotAssertion) -> None:
    with pytest.raises(KafkaformError) as error:
        read_private_key(None, {KEY_VARIABLE: text, **environ})
    assert describe_error(error.value) == snapshot
    assert "open barley" not in describe_error(error.value)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o777])
def test_key_readable_by_others_is_refused(tmp_path: Path, mode: int) -> None:
    file = write_key_file(tmp_path, private_pem())
    file.chmod(mode)
    with pytest.raises(KafkaformError, match="can be read by others") as error:
        read_private_key(file, {})
    assert "chmod 600" in describe_error(error.value)


def test_readable_key_of_other_owner_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret that an orchestrator mounts belongs to root, and is readable."""
    file = write_key_file(tmp_path, private_pem())
    file.chmod(0o644)
    monkeypatch.setattr("os.getuid", lambda: file.stat().st_uid + 1)
    assert read_private_key(file, {}) is not None


def test_unreadable_key_file_is_reported(tmp_path: Path) -> None:
    for read in (lambda f: read_private_key(f, {}), read_public_keys):
        with pytest.raises(KafkaformError, match=r"missing.pem cannot be read: No such file or directory"):
            read(tmp_path / "missing.pem")
        with pytest.raises(KafkaformError, match="cannot be read: Is a directory"):
            read(tmp_path)
        with pytest.raises(KafkaformError, match="is not in PEM") as error:
            read(write_key_file(tmp_path, b"\x30\x2e\x02\x01\x00\xff"))
        assert "-inform DER" in describe_error(error.value)


def test_several_public_keys_are_read(tmp_path: Path) -> None:
    second = Ed25519PrivateKey.generate()
    text = f"the new one\r\n{public_pem()}\nthe old one, until 2027\n{public_pem(second)}"
    assert read_public_keys(write_key_file(tmp_path, text)) == (KEY.public_key(), second.public_key())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA me\n",
        private_pem(),
        public_pem() + private_pem(),
        public_pem(RSA),
        public_pem() + public_pem(CURVE),
        public_pem()[:50] + "\n-----END PUBLIC KEY-----\n",
        public_pem()[:50],
        public_pem()[:50] + "\n" + public_pem(),
    ],
)
def test_invalid_verifying_key_is_refused(tmp_path: Path, text: str, snapshot: SnapshotAssertion) -> None:
    with pytest.raises(KafkaformError) as error:
        read_public_keys(write_key_file(tmp_path, text))
    assert describe_error(error.value).replace(str(tmp_path), "TMP") == snapshot


HEAD = "0123456789abcdef0123456789abcdef01234567"
FOREIGN = "f" * 40
NOW = datetime(2025, 6, 8, 12, 0, 0, tzinfo=UTC)
MADE = PlanHeader(__version__, HEAD, "prod", "prod", "2025-06-08T11:00:00Z")
KEYS = (KEY.public_key(),)


def check(made: PlanHeader, *keys: Any, **terms: Any) -> None:
    check_trust(made, TrustRequirements(*keys, **terms), now=NOW, file="plan.json")


def refuse_trust(made: PlanHeader, *keys: Any, **terms: Any) -> PlanFileError:
    with pytest.raises(PlanFileError) as error:
        check(made, *keys, **terms)
    assert error.value.message.startswith("plan.json: ")
    assert error.value.message.isprintable()
    assert error.value.hint
    return error.value


def test_missing_signature_is_reported_first() -> None:
    bad = replace(MADE, tool_version="9.0.0", created_at="2031-13-01T00:00:00Z", commit=FOREIGN)
    error = refuse_trust(bad, KEYS, max_age=timedelta(0), checkout=Checkout(HEAD))
    assert "the plan is not signed" in error.message


def test_signed_plan_meets_all_terms() -> None:
    made = sign_header(Purpose.APPLY)
    check(made, KEYS, max_age=timedelta(hours=1), checkout=Checkout(HEAD))
    assert "not trusted here" in refuse_trust(made, ()).message


def sign_header(purpose: Purpose, made: PlanHeader = MADE) -> PlanHeader:
    """Return the signature of a plan with this header."""
    signed_for = SignedFor(purpose, "refs/heads/main")
    return plan_from_json(sign(plan_to_json(Plan("c"), made), KEY, signed_for), "plan.json")[1]


def test_plan_signed_for_review_is_not_applied() -> None:
    error = refuse_trust(sign_header(Purpose.REVIEW), KEYS)
    assert "signed for review, not for apply" in error.message
    assert "apply --reviewed" in str(error.hint)
    for purpose in Purpose:
        check(sign_header(purpose), KEYS, frozenset(Purpose))


def test_signature_without_purpose_is_refused() -> None:
    document = json.loads(plan_to_json(Plan("c"), MADE))
    signed = json.dumps({**document, "signature": signature_member(document, KEY)})
    made = plan_from_json(signed, "plan.json")[1]
    for purposes in (frozenset({Purpose.APPLY}), frozenset(Purpose)):
        assert "not for a stated purpose" in refuse_trust(made, KEYS, purposes).message
    check(made)  # where nobody asks for a signature


def test_signed_plan_must_be_of_merged_commit(tmp_path: Path) -> None:
    work = Work(tmp_path)
    first = work.commit(**{"topics/a.yaml": "a"})
    work.git("checkout", "-q", "-b", "other")
    unmerged = work.commit(**{"topics/a.yaml": "b"})
    work.git("checkout", "-q", "main")
    head = work.commit(**{"topics/b.yaml": "b"})
    repository = Repository.find(tmp_path)

    def sign_commit(commit: str | None) -> PlanHeader:
        return sign_header(Purpose.APPLY, replace(MADE, commit=commit))

    for commit in (first, head):
        check(sign_commit(commit), KEYS, repository=repository)
    elsewhere = "which is not merged into the checked-out commit"
    for unknown, message in {
        # Whatever ref the plan says that it is of: that is its signer's word.
        unmerged: f"from commit {unmerged[:12]}, {elsewhere} {head[:12]}",
        "f" * 40: "is not a commit in the Git repository",
        "other": f"from commit other, {elsewhere}",
        "main": f"from commit main, {elsewhere}",
        "--all": "is not a commit in the Git repository",
        f"{head}-dirty": "from files that differ from commit",
        None: "does not contain the commit",
    }.items():
        assert message in refuse_trust(sign_commit(unknown), KEYS, repository=repository).message, unknown
    check(replace(MADE, commit=unmerged), repository=repository)  # nobody asks for a signature


def test_checked_out_ref_is_read(tmp_path: Path) -> None:
    work = Work(tmp_path)
    work.commit(a="1")
    repository = Repository.find(tmp_path)
    assert repository.read_ref() == "refs/heads/main"
    work.commit(a="2")
    work.git("checkout", "-q", "--detach")
    assert repository.read_ref() == "refs/heads/main"
    work.git("update-ref", "refs/remotes/pull/12/merge", "HEAD")
    assert repository.read_ref() is None  # either could be meant
    work.git("checkout", "-q", "--detach", "HEAD^")
    assert repository.read_ref() is None
    work.git("update-ref", "refs/remotes/pull/13/merge", "HEAD")
    assert repository.read_ref() == "refs/remotes/pull/13/merge"


def test_plan_of_another_version_is_refused_by_name() -> None:
    error = refuse_trust(replace(MADE, tool_version="7.2.1\x1b[2J"))
    assert r"made by kafkaform 7.2.1\x1b[2J, and this is" in error.message


def test_ages_are_measured_with_some_tolerance() -> None:
    check(MADE, max_age=timedelta(hours=1))
    # Clocks may differ a little.
    ahead = (NOW + CLOCKS_DIFFER).strftime("%Y-%m-%dT%H:%M:%SZ")
    check(replace(MADE, created_at=ahead), max_age=timedelta(0))


AGES = [
    ("2025-06-08T11:00:00Z", timedelta(minutes=59)),
    ("2025-06-01T12:00:00Z", timedelta(hours=24)),
    ("2025-06-08T11:59:58.5Z", timedelta(seconds=1)),
    ("1999-01-01T00:00:00Z", timedelta(days=3000)),
    ("2025-06-08T12:05:01Z", timedelta(days=1)),  # a second more than clocks may differ by
    *((time, timedelta(days=1)) for time in ("2025-13-01T00:00:00Z", "2025-06-08T24:00:00Z")),
    ("0000-01-01T00:00:00Z", timedelta(days=1)),
]
HERE, DIRTY = Checkout(HEAD), f"{HEAD}-dirty"
COMMITS = [
    *((commit, HERE) for commit in (None, FOREIGN, HEAD[:12], DIRTY, "", f"\x1b[2J{HEAD}")),
    (DIRTY, Checkout(DIRTY)),
    (HEAD, Checkout(HEAD, ("a.yaml", "b\n.yaml", *"cdefg"))),
]


def test_messages_on_distrusted_plans_match_golden(golden: SnapshotAssertion) -> None:
    errors = {
        f"{time}, {age}": refuse_trust(replace(MADE, created_at=time), max_age=age) for time, age in AGES
    }
    for number, (commit, checkout) in enumerate(COMMITS):
        errors[f"commit {number}"] = refuse_trust(replace(MADE, commit=commit), checkout=checkout)
    messages = {name: f"{error.message} ({error.hint})" for name, error in errors.items()}
    assert render_catalogue(messages) == golden(name="distrust.txt")


def test_checkout_lists_edited_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    work = Work(tmp_path)
    commit = work.commit(**{"topics/a.yaml": "a", "kafkaform.yaml": "c", "README.md": "r"})
    paths = [tmp_path / "topics", tmp_path / "kafkaform.yaml"]
    work.write("README.md", "edited")
    assert Checkout.read(Repository.find(tmp_path), paths) == Checkout(commit)
    work.write("kafkaform.yaml", "edited")
    work.write("topics/b.yaml", "new")
    here = Checkout.read(Repository.find(tmp_path), paths)
    assert here == Checkout(commit, ("kafkaform.yaml", "topics/b.yaml"))
