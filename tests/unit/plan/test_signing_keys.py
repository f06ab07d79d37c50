import subprocess
from pathlib import Path

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
from syrupy.assertion import SnapshotAssertion

from kafkaform.core.errors import KafkaformError
from kafkaform.plan.plan_signature import (
    KEY_VARIABLE,
    PASSPHRASE_VARIABLE,
    fingerprint,
    read_private_key,
    read_public_keys,
)

KEY = Ed25519PrivateKey.from_private_bytes(b"kafkaform" + bytes(23))


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


@pytest.mark.parametrize("environ", [{}, {KEY_VARIABLE: ""}])
def test_missing_signing_key_is_none(environ: dict[str, str]) -> None:
    """Nor is a secret that a workflow does not have."""
    assert read_private_key(None, environ) is None


@pytest.mark.parametrize(
    ("text", "passphrase"), [(private_pem(), None), (private_pem(), "x"), (ENCRYPTED, "open sesame")]
)
def test_signing_key_is_read_from_variable(text: str, passphrase: str | None) -> None:
    locked = {PASSPHRASE_VARIABLE: passphrase} if passphrase else {}
    assert public(read_private_key(None, {KEY_VARIABLE: text, **locked})) == KEY.public_key()


def test_key_file_precedes_variable(tmp_path: Path) -> None:
    file = write_key_file(tmp_path, private_pem())
    assert public(read_private_key(file, {KEY_VARIABLE: "something else"})) == KEY.public_key()


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
def test_invalid_signing_key_is_not_shown(
    text: str, environ: dict[str, str], snapshot: SnapshotAssertion
) -> None:
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
