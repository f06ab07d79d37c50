"""A file is written whole or not at all, and several as one."""

import os
from pathlib import Path

import pytest

from kafkaform.core.errors import KafkaformError
from kafkaform.core.files import write_file, write_files


def read_tree(folder: Path) -> dict[str, str]:
    return {str(file.relative_to(folder)): file.read_text() for file in folder.rglob("*") if file.is_file()}


def test_existing_file_stops_all_writes(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("mine")
    with pytest.raises(KafkaformError, match=f"{tmp_path}/b: File exists; nothing was written"):
        write_files({tmp_path / "new/a": "1", tmp_path / "b": "2", tmp_path / "c": "3"})
    assert read_tree(tmp_path) == {"b": "mine"}
    assert not (tmp_path / "new").exists()


def test_replaced_files_are_restored_after_failure(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("before")
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(KafkaformError, match="nothing was written"):
        write_files({tmp_path / "a": "after", tmp_path / "file/b": "2"}, overwrite=True)
    assert read_tree(tmp_path) == {"a": "before", "file": "no folder"}


@pytest.mark.parametrize("several", [True, False])
def test_file_is_replaced_through_link_with_mode(tmp_path: Path, several: bool) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    write_file(real, "é")
    real.chmod(0o640)
    link.symlink_to(real)
    if several:
        write_files({link: "after", tmp_path / "new": "1"}, overwrite=True)
    else:
        write_file(link, "after")
    assert link.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert read_tree(tmp_path) == {"real": "after", "link": "after", **({"new": "1"} if several else {})}


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_interrupted_write_files_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_text("before")
    monkeypatch.setattr("pathlib.Path.replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_files({tmp_path / "new": "1", tmp_path / "a": "after"}, overwrite=True)
    assert read_tree(tmp_path) == {"a": "before"}


def test_named_pipe_is_written_not_replaced(tmp_path: Path) -> None:
    """As /dev/stdout and /dev/null are, which root could otherwise turn into files."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_file(pipe, "a report")
        assert os.read(reader, 100) == b"a report"
    finally:
        os.close(reader)
    assert pipe.is_fifo()


@pytest.mark.parametrize("name", ["none/a", "a" * 300])
def test_failed_write_names_file(tmp_path: Path, name: str) -> None:
    with pytest.raises(KafkaformError, match=f"^cannot write {tmp_path}/{name}: .*$"):
        write_file(tmp_path / name, "text")
    assert read_tree(tmp_path) == {}


def test_link_to_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("a")
    with pytest.raises(KafkaformError, match=r"^cannot write .*/a: "):
        write_file(tmp_path / "a", "text")
    assert (tmp_path / "a").is_symlink()


def test_interrupted_write_keeps_existing_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_text("before")

    monkeypatch.setattr("os.fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_file(tmp_path / "a", "after")
    assert read_tree(tmp_path) == {"a": "before"}


def test_concurrently_created_folder_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mkdir = Path.mkdir

    def be_second(folder: Path) -> None:
        mkdir(folder)
        mkdir(folder)

    monkeypatch.setattr(Path, "mkdir", be_second)
    file = tmp_path / "clusters" / "dev" / "a.yaml"
    write_files({file: "a"})
    assert file.read_text() == "a"
