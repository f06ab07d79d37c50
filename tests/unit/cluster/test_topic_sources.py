"""The two ways of reading topics: our own connections must say exactly what librdkafka says."""

import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from struct import pack

import pytest

from kafkaform.cluster.kafka.prefetch import Prefetched
from kafkaform.cluster.kafka.responses import Description, TopicResponses
from kafkaform.cluster.kafka.topic_sources import TopicRequests
from kafkaform.cluster.wire import large_responses
from kafkaform.cluster.wire.large_responses import Configs
from kafkaform.cluster.wire.message_schema import RequestType, T
from kafkaform.core import kafka_configs
from kafkaform.core.errors import ClusterError, PermissionDenied, Unreachable
from tests.support.cli.project import environment
from tests.support.clusters.fixtures import connect
from tests.support.clusters.responses import compact, encode_config_response, entry, varint
from tests.support.plans.scenes import VARIED

_TIERED = {"remote.log.copy.disable", "remote.log.delete.on.disable", "remote.storage.enable"}


def test_varied_configs_cover_all_topic_configs() -> None:
    known = {name for name, key in kafka_configs.topic_configs().items() if not key.internal}
    assert VARIED[-1].keys() == known - _TIERED


def test_configs_of_every_shape_are_read() -> None:
    plain = entry("retention.ms", "1", 5), entry("größe", None, 1, synonyms=2)
    hidden = entry("password", None, 1, secret=True), entry("fixed", "", 4, read_only=True)
    topics = [
        encode_config_response("a", *plain),
        encode_config_response("denied", code=29, message="no"),
        encode_config_response("b", *plain),
        encode_config_response("a-prefix-of-the-block", plain[0]),
        encode_config_response("nothing"),
        encode_config_response("secretive", *hidden),
        encode_config_response(None, entry(None, "1", 1)),
    ]
    answers = large_responses.TOPIC_CONFIGS.read(pack(">ii", 7, len(topics)) + b"".join(topics), 1)
    assert [(a.name, a.error_code, a.message) for a in answers] == [
        ("a", 0, ""),
        ("denied", 29, "no"),
        ("b", 0, ""),
        ("a-prefix-of-the-block", 0, ""),
        ("nothing", 0, ""),
        ("secretive", 0, ""),
        ("", 0, ""),
    ]
    assert answers[0].configs.own == {"größe": None}
    assert answers[0].configs.effective == {"retention.ms": "1", "größe": None}
    assert answers[2].configs is answers[0].configs
    assert answers[3].configs.effective == {"retention.ms": "1"}
    assert answers[4].configs.effective == {}
    assert answers[5].configs == Configs({"password": None}, {"password": None, "fixed": ""})
    assert answers[6].configs == Configs({"": "1"}, {"": "1"})


def test_metadata_with_tags_and_null_names_is_read() -> None:
    tags = b"\x01\x05\x03abc"
    broker = pack(">i", 1) + compact(None) + pack(">i", 9092) + compact(None) + tags
    replicas = varint(201) + b"".join(pack(">i", n) for n in range(200))
    partition = pack(">hiii", 0, 3, 1, 0) + replicas + varint(2) + pack(">i", 1) + varint(1) + tags
    topic_id = bytes(range(16))
    name = b"x" * 200
    topic = pack(">h", 5) + compact(name) + topic_id + b"\x01" + varint(2) + partition + pack(">i", 0) + tags
    nameless = pack(">h", 100) + compact(None) + topic_id + b"\x00" + varint(1) + pack(">i", 0) + b"\x00"
    body = (
        pack(">i", 0) + varint(2) + broker + compact(b"cluster") + pack(">i", 1)
        + varint(3) + topic + nameless + b"\x00"
    )  # fmt: skip
    response = large_responses.METADATA.read(body, 12)
    first, second = response.topics
    assert response.brokers == {1: ("", 9092, None)}
    assert (first.name, first.error_code, first.internal) == (name.decode(), 5, True)
    assert first.topic_id == topic_id
    assert first.partitions == [(3, 1, tuple(range(200)), (1,))]
    assert (second.name, second.error_code, second.partitions) == ("", 100, [])


def test_config_requests_are_bounded_and_missing_topics_fail() -> None:
    class Counting:
        """A connection that counts, and answers that no topic has configs."""

        def __init__(self) -> None:
            self.sent: list[int] = []

        def send(self, request_type: RequestType[T], requests: list[object]) -> list[T]:
            assert request_type is large_responses.TOPIC_CONFIGS
            self.sent.append(len(requests))
            return [request_type.read(pack(">ii", 0, 0), 1)] * len(requests)

    connection = Counting()
    with pytest.raises(ClusterError, match=r"lacks 5,000 of them, such as t0"):
        TopicRequests(connection).configs([f"t{n}" for n in range(5_000)])  # type: ignore[arg-type]
    assert connection.sent == [10]


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
