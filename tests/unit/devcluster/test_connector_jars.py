from __future__ import annotations

import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from kafkaform.core.errors import JavaError
from kafkaform.devcluster.jars.ivy import find_ivy, pyspark_jars
from kafkaform.devcluster.jars.spark import connector_jars
from tests.support.fake_ivy import FakeIvy

VERSION = metadata.version("pyspark")
CONNECTOR = f"spark-sql-kafka-0-10_2.13-{VERSION}"


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeIvy:
    monkeypatch.setenv("KAFKAFORM_CACHE", str(tmp_path / "cache"))
    already = next(jar.stem for jar in pyspark_jars() if jar.name.startswith("scala-library"))
    return FakeIvy(tmp_path / "fake", (CONNECTOR, "kafka-clients-3.9.0", already))


def test_the_connector_is_that_of_the_installed_pyspark(fake: FakeIvy) -> None:
    assert {jar.name for jar in connector_jars(java=fake.java)} == {
        f"{CONNECTOR}.jar",
        "kafka-clients-3.9.0.jar",
    }, "what PySpark has already is left out"
    assert f'name="spark-sql-kafka-0-10_2.13" rev="{VERSION}"' in fake.asked
    excluded = set(re.findall(r'<exclude org="([^"]+)" module="([^"]+)"', fake.asked))
    assert excluded == {
        ("org.slf4j", "slf4j-api"),
        ("org.apache.hadoop", "hadoop-client-api"),
        ("org.apache.hadoop", "hadoop-client-runtime"),
    }


def test_the_connector_is_fetched_once_and_said_once(fake: FakeIvy) -> None:
    told: list[str] = []
    first = connector_jars(java=fake.java, progress=told.append)
    assert connector_jars(java=fake.java, progress=told.append) == first
    assert fake.runs == 1
    assert len(told) == 1
    assert told[0].startswith(f"downloading Spark's Kafka connector {VERSION} ")


def test_a_connector_that_is_damaged_in_the_cache_is_fetched_anew(fake: FakeIvy) -> None:
    first = connector_jars(java=fake.java)
    first[0].write_bytes(b"")
    assert connector_jars(java=fake.java) == first
    assert fake.runs == 2


def test_a_connector_that_cannot_be_resolved_is_one_line_with_ivys_log(fake: FakeIvy) -> None:
    fake.end_with("echo module not found; exit 1")
    with pytest.raises(JavaError) as raised:
        connector_jars(java=fake.java)
    assert raised.value.message == (
        f"org.apache.spark:spark-sql-kafka-0-10_2.13:{VERSION} could not be downloaded from Maven Central"
    )
    hint = str(raised.value.hint)
    assert "\n" not in hint
    assert "KAFKAFORM_IVY_SETTINGS" in hint
    assert "module not found" in Path(hint.rpartition(" ")[2]).read_text()


def test_a_cache_that_cannot_be_written_names_its_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("KAFKAFORM_CACHE", str(tmp_path / "file"))
    with pytest.raises(JavaError, match="cannot keep the jars of Spark's Kafka connector") as raised:
        connector_jars()
    assert "KAFKAFORM_CACHE" in str(raised.value.hint)


def test_without_pyspark_the_hint_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.version", missing)
    with pytest.raises(JavaError, match="PySpark is not installed") as raised:
        connector_jars()
    assert raised.value.hint == "pip install 'kafkaform[spark]'"


def test_no_java_for_the_download_says_how_to_get_one(
    fake: FakeIvy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(JavaError, match="no Java found") as raised:
        connector_jars()
    assert "JAVA_HOME" in str(raised.value.hint)
    assert fake.runs == 0


def test_pyspark_is_looked_at_without_being_imported() -> None:
    code = (
        "import sys; import kafkaform.devcluster.jars.spark;"
        " from kafkaform.devcluster.jars.ivy import find_ivy; find_ivy(); print('pyspark' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
    assert find_ivy().exists()
