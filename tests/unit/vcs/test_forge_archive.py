"""The plan out of an archive that somebody else made."""

from __future__ import annotations

import io
import struct
import tracemalloc
import zipfile

import pytest

from kafkaform.core.errors import ForgeError
from kafkaform.vcs.forge.reviewed_plan import read_plan
from tests.support.github.server import zip_texts


def test_only_the_plan_is_read() -> None:
    assert read_plan(zip_texts({"plan.json": "{}", "plan.md": "## Plan", "../../etc/passwd": "x"})) == "{}"


@pytest.mark.parametrize("name", ["../plan.json", "/plan.json", "a/plan.json", "PLAN.json", "plan.json\n"])
def test_plan_in_another_folder_is_refused(name: str) -> None:
    with pytest.raises(ForgeError, match=r"no files named plan\.json"):
        read_plan(zip_texts({name: "{}"}))


def test_two_plans_are_refused() -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("plan.json", "{}")
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("plan.json", "[]")
    with pytest.raises(ForgeError, match="has 2 files named"):
        read_plan(content.getvalue())


def test_large_plan_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkaform.vcs.forge.reviewed_plan.MAX_PLAN_BYTES", 1_000_000)
    with pytest.raises(ForgeError, match=r"1,000,001 bytes, more than the limit of 1,000,000"):
        read_plan(zip_texts({"plan.json": " " * 1_000_001}))


def test_plan_larger_than_its_declared_size_is_not_unpacked() -> None:
    archive = bytearray(zip_texts({"plan.json": " " * 20_000_000}))
    for header, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        struct.pack_into("<I", archive, archive.index(header) + offset, 10)
    tracemalloc.start()
    try:
        with pytest.raises(ForgeError, match="Bad CRC-32"):
            read_plan(bytes(archive))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 5_000_000


def test_encrypted_plan_is_refused() -> None:
    archive = bytearray(zip_texts({"plan.json": "{}"}))
    for header, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        struct.pack_into("<H", archive, archive.index(header) + offset, 1)
    with pytest.raises(ForgeError, match="is encrypted"):
        read_plan(bytes(archive))


@pytest.mark.parametrize("size", range(1, 100, 7))
def test_truncated_archive_is_refused(size: int) -> None:
    with pytest.raises(ForgeError, match="the artifact"):
        read_plan(zip_texts({"plan.json": '{"a": 1}'})[:size])


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_unbounded_compression_is_refused(method: int) -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", method) as archive:
        archive.writestr("plan.json", "{}" * 1000)
    with pytest.raises(ForgeError, match="unsupported compression method"):
        read_plan(content.getvalue())


@pytest.mark.parametrize("at", range(30, 60, 3))
def test_damaged_archive_is_refused(at: int) -> None:
    archive = bytearray(zip_texts({"plan.json": "".join(map(chr, range(32, 120)))}))
    archive[at] ^= 0xFF
    with pytest.raises(ForgeError, match="the artifact"):
        read_plan(bytes(archive))


def test_binary_plan_is_refused() -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("plan.json", b"\xff\xfe")
    with pytest.raises(ForgeError, match="is not UTF-8"):
        read_plan(content.getvalue())
