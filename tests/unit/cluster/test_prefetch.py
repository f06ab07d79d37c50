"""Reading ahead gives what reading gives, once; what goes wrong is told where it is asked for."""

import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from kafkaform.cluster.kafka.prefetch import Prefetched
from kafkaform.cluster.kafka.responses import Description, TopicResponses
from kafkaform.cluster.wire.large_responses import Configs
from kafkaform.core.errors import PermissionDenied, Unreachable
from tests.support.cli.project import environment
from tests.support.clusters.fixtures import connect


@pytest.fixture
def deaf() -> Iterator[str]:
    """The address of a server that never answers."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_unanswered_prefetch_does_not_keep_process(deaf: str, tmp_path: Path) -> None:
    (tmp_path / "kafkaform.yaml").write_text(
        "apiVersion: kafkaform/v1\nkind: Config\nenvironments: [dev]\n"
        "defaults: {Topic: {partitions: 1, overrides: {dev: {partitions: 2}}}}\n"
    )
    (tmp_path / "topics").mkdir()
    (tmp_path / "topics" / "a.yaml").write_text(
        "apiVersion: kafkaform/v1\nkind: Topic\nmetadata: {name: a}\nspec: {replicationFactor: 1}\n"
    )
    script = (
        "import atexit, threading, time\n"
        "atexit.register(print, 'handlers ran')\n"
        "threading.Thread(target=lambda: (time.sleep(0.5), print('threads ended'))).start()\n"
        "from kafkaform.cli.main import main\n"
        f"main(['plan', '--bootstrap-server', '{deaf}'])\n"
    )
    left = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (left.returncode, left.stdout) == (64, "threads ended\nhandlers ran\n")
    assert "no environment is chosen" in left.stderr


def test_unreachable_cluster_is_raised_by_the_reader(deaf: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkaform.cluster.transport.connection.CONNECT_TIMEOUT_S", 0.5)
    with connect(deaf) as cluster:
        cluster.prefetch()
        for _ in range(2):
            with pytest.raises(Unreachable, match="no broker of"):
                cluster.facts()
        with pytest.raises(Unreachable, match="no broker of"):
            cluster.observe([])


def test_missing_topics_are_requested_again() -> None:
    """A broker may not have heard yet of a topic that the metadata of another shows."""
    source = Waiting()
    prefetched = Prefetched(source, ["a", "b", "hidden"], source.configs(["a", "b", "hidden"]))
    assert prefetched.names() == ["a", "b", "hidden"]
    answers = prefetched.configs(["a", "b", "hidden"])
    assert (set(answers.found), set(answers.denied), answers.missing) == ({"a", "b"}, {"hidden"}, [])
    assert source.asked == [["a", "b", "hidden"], ["b"]]
    assert prefetched.names() == ["a"]
    assert prefetched.configs(["a"]).found.keys() == {"a"}
    assert source.asked[-1] == ["a"]


class Waiting:
    """A source that does not know of `b` at first, and may not show `hidden`."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def names(self) -> list[str]:
        return ["a"]

    def configs(self, names: Sequence[str]) -> TopicResponses[Configs]:
        self.asked.append(list(names))
        answers: TopicResponses[Configs] = TopicResponses()
        for name in names:
            if name == "hidden":
                answers.deny(name, PermissionDenied("no"))
            elif name == "b" and len(self.asked) == 1:
                answers.missing.append(name)
            else:
                answers.found[name] = Configs({}, {})
        return answers

    def descriptions(self, names: Sequence[str]) -> TopicResponses[Description]:
        raise AssertionError(names)
