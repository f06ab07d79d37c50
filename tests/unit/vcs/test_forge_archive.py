"""The plan out of an archive that somebody else made."""

from __future__ import annotations

import io
import struct
import tracemalloc
import zipfile

import pytest

from kafkaform.core.errors import ForgeError
from kafkaform.vcs.forge.reviewed_plan import read_plan
from tests.support.github.server import zipped
from tests.support.golden import wording


def test_the_plan_is_read_and_nothing_else_is_looked_at() -> None:
    assert read_plan(zipped({"plan.json": "{}", "plan.md": "## Plan", "../../etc/passwd": "x"})) == "{}"


@pytest.mark.parametrize("name", ["../plan.json", "/plan.json", "a/plan.json", "PLAN.json", "plan.json\n"])
def test_only_a_plan_in_the_archives_own_folder_is_one(name: str) -> None:
    with pytest.raises(ForgeError, check=lambda error: str(error) == wording):
        read_plan(zipped({name: "{}"}))


def test_of_two_plans_none_is_chosen() -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("plan.json", "{}")
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("plan.json", "[]")
    with pytest.raises(ForgeError, match="has 2 files named"):
        read_plan(content.getvalue())


def test_a_plan_that_grows_too_large_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkaform.vcs.forge.reviewed_plan.MAX_PLAN_BYTES", 1_000_000)
    with pytest.raises(ForgeError, check=lambda error: str(error) == wording):
        read_plan(zipped({"plan.json": " " * 1_000_001}))


def test_a_plan_that_lies_about_its_size_is_not_unpacked_any_further() -> None:
    archive = bytearray(zipped({"plan.json": " " * 100_000_000}))
    for header, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        struct.pack_into("<I", archive, archive.index(header) + offset, 10)
    tracemalloc.start()
    try:
        with pytest.raises(ForgeError, check=lambda error: str(error) == wording):
            read_plan(bytes(archive))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 5_000_000


def test_one_that_is_encrypted() -> None:
    archive = bytearray(zipped({"plan.json": "{}"}))
    for header, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        struct.pack_into("<H", archive, archive.index(header) + offset, 1)
    with pytest.raises(ForgeError, check=lambda error: str(error) == wording):
        read_plan(bytes(archive))


@pytest.mark.parametrize("size", range(1, 100, 7))
def test_one_that_is_cut_off(size: int) -> None:
    with pytest.raises(ForgeError, match="the artifact"):
        read_plan(zipped({"plan.json": '{"a": 1}'})[:size])


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_ways_of_compressing_that_cannot_be_bounded_are_refused(method: int) -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", method) as archive:
        archive.writestr("plan.json", "{}" * 1000)
    with pytest.raises(ForgeError, check=lambda error: str(error) == wording):
        read_plan(content.getvalue())


@pytest.mark.parametrize("at", range(30, 60, 3))
def test_one_that_is_damaged(at: int) -> None:
    archive = bytearray(zipped({"plan.json": "".join(map(chr, range(32, 120)))}))
    archive[at] ^= 0xFF
    with pytest.raises(ForgeError, match="the artifact"):
        read_plan(bytes(archive))


def test_one_that_is_no_text() -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("plan.json", b"\xff\xfe")
    with pytest.raises(ForgeError, match="is not UTF-8"):
        read_plan(content.getvalue())
