import base64
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkaform.core.errors import JavaError
from kafkaform.core.files import get_cache_directory
from kafkaform.devcluster.jars import cache
from kafkaform.devcluster.jars.cache import fetch_kafka_classpath
from kafkaform.devcluster.releases import KAFKA_VERSION, RELEASES
from tests.support.http_server import QuietHandler, run_server

PATHS = [f"org/apache/{name}/1.0/{name}-1.0.jar" for name in ("clients", "kafka", "log4j")]


class Mirror:
    """A Maven repository on this machine, with pinned jars."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.jars = {path: path.encode() * 1000 for path in PATHS}
        self.address = ""
        self.asked: list[str] = []
        self.logins: list[str | None] = []
        pins = {
            path: {"sha256": hashlib.sha256(jar).hexdigest(), "size": len(jar), "kafka": [KAFKA_VERSION]}
            for path, jar in self.jars.items()
        }
        (folder / "pins.json").write_text(json.dumps(pins))
        monkeypatch.setattr(cache, "PINS", folder / "pins.json")
        monkeypatch.setenv("KAFKAFORM_CACHE", str(folder / "cache"))


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mirror]:
    mirror = Mirror(monkeypatch, tmp_path)

    class Handler(QuietHandler):
        def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
            path = self.path.removeprefix("/mirror/")
            mirror.asked.append(path)
            mirror.logins.append(self.headers["Authorization"])
            content = mirror.jars.get(path)
            self.send_response(404 if content is None else 200)
            self.end_headers()
            self.wfile.write(content or b"")

    with run_server(Handler) as address:
        mirror.address = f"{address.removeprefix('http://')}/mirror/"
        monkeypatch.setenv("KAFKAFORM_MAVEN_URL", f"http://{mirror.address}")
        yield mirror
    files = {file.name for file in (get_cache_directory() / "jars").glob("*")}
    assert files <= {"lock", *(Path(path).name for path in PATHS)}, "nothing unfinished stays"


@pytest.mark.parametrize("damage", ["missing", "cut"])
def test_only_damaged_jar_is_downloaded_again(mirror: Mirror, damage: str) -> None:
    jars = fetch_kafka_classpath()
    if damage == "missing":
        jars[1].unlink()
    else:
        jars[1].write_bytes(jars[1].read_bytes()[:-1])
    assert fetch_kafka_classpath() == jars
    assert mirror.asked[3:] == [PATHS[1]]
    assert jars[1].read_bytes() == mirror.jars[PATHS[1]]


@pytest.mark.parametrize(
    "sent",
    [None, b"", b"<html>sign in to the network</html>", b"x" * 10**6],
    ids=["404", "cut", "page", "longer"],
)
def test_unpinned_jar_is_refused(mirror: Mirror, sent: bytes | None) -> None:
    original = mirror.jars.pop(PATHS[1])
    if sent is not None:
        mirror.jars[PATHS[1]] = sent
    with pytest.raises(JavaError, match=PATHS[1] + " from "):
        fetch_kafka_classpath()
    mirror.jars[PATHS[1]] = original
    before = len(mirror.asked)
    assert len(fetch_kafka_classpath()) == 3
    assert PATHS[1] in mirror.asked[before:]


def test_password_is_sent_and_not_shown(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKAFORM_MAVEN_URL", f"http://ada:s%40cret@{mirror.address}")
    mirror.jars.clear()
    with pytest.raises(JavaError, match="Not Found") as raised:
        fetch_kafka_classpath()
    assert set(mirror.logins) == {f"Basic {base64.b64encode(b'ada:s@cret').decode()}"}
    assert "cret" not in f"{raised.value} {raised.value.hint} {raised.value.__cause__!r}"


def test_unusable_mirror_is_reported(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    for address, reason in {
        "http://127.0.0.1:1": "Connection refused",
        "maven.example.com": "KAFKAFORM_MAVEN_URL",
        "http://[x": "KAFKAFORM_MAVEN_URL",
        "gopher://example.com": "unknown url type: gopher",
    }.items():
        monkeypatch.setenv("KAFKAFORM_MAVEN_URL", address)
        with pytest.raises(JavaError, match=reason):
            fetch_kafka_classpath()
    assert mirror.asked == []


def test_unwritable_cache_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKAFORM_CACHE", str(tmp_path / "file"))
    (tmp_path / "file").touch()
    with pytest.raises(JavaError, match="cannot keep the jars"):
        fetch_kafka_classpath()


@pytest.mark.parametrize("release", RELEASES)
def test_every_release_is_pinned(release: str) -> None:
    pins = json.loads(cache.PINS.read_text())
    names = [Path(path).name for path, pin in pins.items() if release in pin["kafka"]]
    assert {f"kafka_2.13-{release}.jar", f"kafka-clients-{release}.jar", "log4j-slf4j-impl-2.25.4.jar"} <= {
        *names
    }
    assert len({*names}) == len(names)
