"""A secret is shown by nothing but `reveal`."""

import copy
import json
import pickle
from pathlib import Path

import pytest

from kafkaform.core.secrets import HIDDEN, Reference, Secret, UnreadableSecret, read_secret


def test_secret_text_is_hidden() -> None:
    secret = Secret("s3cr3t")
    assert {repr(secret), str(secret), f"{secret}", f"{secret:>9}", f"{[secret]}"} == {HIDDEN, f"[{HIDDEN}]"}
    assert "%s" % secret == HIDDEN  # noqa: UP031 - another way to format
    for leak in (pickle.dumps, copy.copy, copy.deepcopy, json.dumps):
        with pytest.raises(TypeError) as error:
            leak(secret)
        assert "s3cr3t" not in str(error.value)
    assert not hasattr(secret, "__dict__")
    assert secret.reveal() == "s3cr3t"


def test_reference_is_read_at_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "password"
    file.write_bytes(b"s3cr3t\r\n")
    monkeypatch.setenv("PW", "from the environment")
    assert read_secret(Reference("file", str(file))).reveal() == "s3cr3t"
    assert read_secret(Reference("env", "PW")).reveal() == "from the environment"
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.setenv("ODD", "s3cr3t\udcff")
    for name, reason in (("MISSING", "is not set"), ("EMPTY", "is empty"), ("ODD", "is not UTF-8")):
        with pytest.raises(UnreadableSecret, match=f"{name}.* {reason}"):
            read_secret(Reference("env", name))
