"""The archive of Spark's classes with a real Java: made, used, and ignored where it is damaged."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.cli.project import Call, Project, kafkaform

pytestmark = [pytest.mark.nightly("to make the archive takes 20 s"), pytest.mark.timeout(300)]

SHARED = "shared objects file (top)"
"""What Java says of a class that it takes from such an archive."""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder with an archive, which two measurements were told to make at the same time."""
    folder = tmp_path_factory.mktemp("cache")
    with ThreadPoolExecutor(2) as pool:
        measured = pool.map(lambda name: measure(folder, tmp_path_factory.mktemp(name), "now"), "ab")
    assert [call.json["topics"][0]["sample"]["records"] for call, _ in measured] == [1_000] * 2
    return folder


def measure(cache: Path, folder: Path, archive: str = "auto") -> tuple[Call, int]:
    """Measure a file of records; returns the call, and how many classes came from an archive."""
    rows = [{"key": str(n % 50), "partition": n % 4, "size": 10, "offset": n} for n in range(1_000)]
    (folder / "orders.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    project = Project(folder, "", "")
    project.topic("orders", partitions=4)
    project.config(clusters={}, skew={"classArchive": archive})
    log = folder / "classes.log"
    call = kafkaform(
        *("skew", "--from", "orders.jsonl", "--format", "json"),
        *("--spark-conf", f"spark.driver.extraJavaOptions=-Xlog:class+load:file={log}"),
        cwd=folder,
        env={"KAFKAFORM_CACHE": str(cache)},
    ).needs(0)
    return call, log.read_text().count(SHARED)


def archive_of(cache: Path) -> Path:
    (file,) = (cache / "spark").glob("*.jsa")
    return file


def test_spark_classes_are_shared_from_archive(cache: Path, tmp_path: Path) -> None:
    assert archive_of(cache).stat().st_size > 50_000_000
    call, shared = measure(cache, tmp_path)
    assert shared > 5_000
    assert call.said == ""
    without, shared = measure(cache, tmp_path, "off")
    assert shared == 0
    topics = [json.loads(item.out)["topics"][0]["partitions"] for item in (call, without)]
    assert topics[0] == topics[1]


@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_damaged_archive_is_ignored(cache: Path, tmp_path: Path, damage: str) -> None:
    file = archive_of(cache)
    whole = file.read_bytes()
    middle = len(whole) // 2
    part = whole[middle : middle + 65_536]
    damaged = {
        "cut": whole[:middle],
        "flipped": whole[:middle] + bytes(byte ^ 0xFF for byte in part) + whole[middle + len(part) :],
    }
    file.write_bytes(damaged[damage])
    try:
        call, shared = measure(cache, tmp_path)
        assert shared == 0
        assert call.said == ""
        assert json.loads(call.out)["topics"][0]["sample"]["records"] == 1_000
    finally:
        file.write_bytes(whole)
