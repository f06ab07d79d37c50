from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kafkaform.core.errors import JavaError
from kafkaform.devcluster.jars import ivy
from kafkaform.devcluster.jars.cache import fetch_kafka_classpath, get_cache_directory
from tests.support.fake_ivy import FakeIvy
from tests.support.golden import wording

JARS = ("kafka_2.13-4.3.1", "kafka-clients-4.3.1", "log4j-slf4j-impl-2.25.4")


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeIvy]:
    monkeypatch.setenv("KAFKAFORM_CACHE", str(tmp_path / "cache"))
    yield FakeIvy(tmp_path / "fake", JARS)
    left = [p.name for p in (tmp_path / "cache" / "kafka").iterdir() if p.name.startswith(".")]
    assert left == [], "nothing unfinished stays"


def test_jars_are_fetched_once(fake: FakeIvy) -> None:
    told: list[str] = []
    first = fetch_kafka_classpath(java=fake.java, progress=told.append)
    assert [jar.name for jar in first] == sorted(jar.name for jar in fake.source.iterdir())
    assert fetch_kafka_classpath(java=fake.java, progress=told.append) == first
    assert (fake.runs, len(told)) == (1, 1)


@pytest.mark.parametrize("damage", ["missing jar", "cut jar", "no manifest", "bad manifest", "other parts"])
def test_a_damaged_cache_is_fetched_anew(fake: FakeIvy, damage: str) -> None:
    first = fetch_kafka_classpath(java=fake.java)
    manifest = first[0].parent / "manifest.json"
    match damage:
        case "missing jar":
            first[0].unlink()
        case "cut jar":
            first[0].write_bytes(first[0].read_bytes()[:-1])
        case "no manifest":
            manifest.unlink()
        case "bad manifest":
            manifest.write_text("[]")
        case "other parts":
            manifest.write_text(manifest.read_text().replace("log4j-slf4j-impl:2", "log4j-slf4j-impl:1"))
        case _:
            raise AssertionError(damage)
    assert fetch_kafka_classpath(java=fake.java) == first
    assert all(zipfile.is_zipfile(jar) for jar in first)
    assert fake.runs == 2


@pytest.mark.parametrize("ending", ["exit 1", 'rm "$(dirname "$2")"/kafka_2*'])
def test_a_failed_resolution_is_not_taken_for_whole(fake: FakeIvy, ending: str) -> None:
    fake.end_with(ending)
    with pytest.raises(JavaError, check=lambda error: str(error) == wording) as raised:
        fetch_kafka_classpath(java=fake.java)
    log = str(raised.value.hint).rpartition(" ")[2]
    assert Path(log).exists()
    fake.end_with("")
    assert len(fetch_kafka_classpath(java=fake.java)) == 3


ABSENT = "echo '	:: org.apache.kafka#kafka_2.13;4.9.9: not found'; "


@pytest.mark.parametrize(
    "ending",
    [
        f"{ABSENT} exit 1",
        f"{ABSENT} echo 'Server access error at url https://… (Connection refused)'; exit 1",
    ],
)
def test_a_version_that_does_not_exist_is_not_taken_for_a_broken_network(fake: FakeIvy, ending: str) -> None:
    fake.end_with(ending)
    with pytest.raises(JavaError) as raised:
        fetch_kafka_classpath("4.9.9", java=fake.java)
    assert raised.value.message == wording


def test_a_jar_that_is_no_archive_is_refused(fake: FakeIvy) -> None:
    (fake.source / "kafka-clients-4.3.1.jar").write_text("<html>sign in to the hotel's network</html>")
    with pytest.raises(JavaError, check=lambda error: str(error) == wording):
        fetch_kafka_classpath(java=fake.java)


def test_a_killed_resolution_is_cleared_away(fake: FakeIvy) -> None:
    half = get_cache_directory() / "kafka" / ".unfinished-killed"
    half.mkdir(parents=True)
    (half / "kafka_2.13-4.3.1.jar").write_text("half")
    assert half not in [jar.parent for jar in fetch_kafka_classpath(java=fake.java)]
    assert not half.exists()


def test_two_resolutions_at_once_share_one(fake: FakeIvy) -> None:
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: fetch_kafka_classpath(java=fake.java), range(4)))
    assert all(result == results[0] for result in results)
    assert fake.runs == 1


def test_without_pyspark_the_hint_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(JavaError) as error:
        ivy.find_ivy()
    assert error.value.hint == "pip install 'kafkaform[spark]'"


def test_ivy_is_found_without_importing_pyspark() -> None:
    code = (
        "import sys; from kafkaform.devcluster.jars import ivy; ivy.find_ivy();"
        " print('pyspark' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
