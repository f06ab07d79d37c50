"""The bytes of answers: lengths, and answers that are damaged, or made by somebody who means harm."""

import random
import tracemalloc
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from struct import pack
from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafkaform.cluster.kafka import (
    client_quotas,
    group_description,
    group_listing,
    health,
    reassignments,
    sizes,
)
from kafkaform.cluster.kafka.coordinators import commit, delete, read_committed
from kafkaform.cluster.kafka.groups import read_committed_offsets
from kafkaform.cluster.kafka.replicas import read_placement
from kafkaform.cluster.kafka.responses import GroupResponses
from kafkaform.cluster.kafka.sizes import read_log_dirs
from kafkaform.cluster.kafka.throttles import read_rates
from kafkaform.cluster.kafka.topic_sources import TopicRequests
from kafkaform.cluster.kafka.writer import _send
from kafkaform.cluster.transport.connection import Connection
from kafkaform.cluster.wire import group_messages, large_responses, message_schema, messages
from kafkaform.cluster.wire.message_schema import (
    MAX_RESPONSE_BYTES,
    RequestType,
    T,
    make_malformed_error,
    read_response,
)
from kafkaform.core.errors import ClusterError, KafkaformError, MalformedResponse, NotOffered
from kafkaform.core.health import LogDir
from kafkaform.core.lock import unguarded
from kafkaform.core.model import ResourceRef
from kafkaform.resources.client_quota.operations import AlterQuota
from kafkaform.resources.groups import Group
from tests.support.builds import builds
from tests.support.clusters.responses import (
    TELLING,
    CountedBytes,
    compact,
    encode,
    encode_config_response,
    entry,
    read_or_refuse,
    short,
    varint,
)
from tests.support.plans.strategies import examples

TAGS = b"\x00"
GROUP = "g"


def array(*elements: bytes) -> bytes:
    return varint(len(elements) + 1) + b"".join(elements)


def ints(*numbers: int) -> bytes:
    return array(*(pack(">i", number) for number in numbers))


def string(text: str) -> bytes:
    return compact(text.encode())


def metadata(version: int = 12, cluster: bytes | None = b"cluster") -> bytes:
    broker = pack(">i", 1) + string("localhost") + pack(">i", 9092) + string("rack") + TAGS
    partition = pack(">hiii", 0, 0, 1, 7) + ints(1, 2, 3) + ints(1) + ints(2, 3) + TAGS
    topic = (
        pack(">h", 0) + string("t") + (bytes(range(16)) if version >= 10 else b"") + b"\x00"
        + array(partition, partition) + pack(">i", 0) + b"\x01\x05\x03abc"
    )  # fmt: skip
    topics = array(topic) + (pack(">i", 0) if version < 11 else b"")
    return pack(">i", 0) + array(broker) + compact(cluster) + pack(">i", 1) + topics + TAGS


def configs(name: str = "t") -> bytes:
    entries = entry("retention.ms", "1", 1, synonyms=2), entry("cleanup.policy", None, 5)
    topics = [encode_config_response(name, *entries), encode_config_response("u", code=29, message="no")]
    return pack(">ii", 0, len(topics)) + b"".join(topics)


def offsets() -> bytes:
    read = pack(">ihqqi", 0, 0, 1_000, 5, 3)
    refused = pack(">ihqqi", 1, 6, -1, -1, -1)
    tagged = string("u") + array(read + b"\x01\x05\x03abc", refused + TAGS) + b"\x01\x05\x03abc"
    return pack(">i", 0) + array(string("t") + array(read + TAGS, refused + TAGS) + TAGS, tagged) + TAGS


def acls() -> bytes:
    granted = string("User:a") + string("*") + b"\x03\x03" + TAGS
    tagged = string("User:b") + string("10.0.0.1") + b"\x04\x02\x01\x05\x03abc"
    resource = b"\x02" + string("t") + b"\x03" + array(granted, tagged) + b"\x01\x05\x03abc"
    return pack(">ih", 0, 0) + compact(None) + array(resource) + TAGS


ACL_TUPLES = large_responses.describe_acls(lambda *fields: fields)
"""Describes ACLs as the fields that are read."""


def encode_group(request_type: RequestType[Any], **values: Any) -> bytes:
    """Return an answer about the group, with these values of fields."""
    group = {"group_id": GROUP, "state": "Stable", "group_state": "Stable", "group_type": "Classic"}
    return encode(request_type, **{**group, "protocol_type": "connect", **values})


QUOTA = {"type": "user", "name": "alice", "key": "producer_byte_rate"}
SAMPLES: list[tuple[RequestType[Any], int, bytes]] = [
    (large_responses.METADATA, 12, metadata()),
    (large_responses.TOPIC_CONFIGS, 1, configs()),
    (messages.LIST_OFFSETS, 7, offsets()),
    (ACL_TUPLES, 3, acls()),
    *(
        (request_type, request_type.versions[1], encode_group(request_type, **values))
        for request_type, values in (
            (messages.API_VERSIONS, {}),
            (messages.QUORUM, {"name": health.METADATA_LOG}),
            (messages.LIST_REASSIGNMENTS, {}),
            (messages.LOG_DIRS, {}),
            (messages.CONFIG_RESOURCES, {"name": GROUP, "type": 32}),
            (messages.DESCRIBE_QUOTAS, QUOTA),
            (messages.ALTER_QUOTAS, QUOTA),
            (group_messages.LIST_GROUPS, {}),
            (group_messages.FIND_COORDINATORS, {"key": GROUP, "node_id": 1}),
            (group_messages.DESCRIBE_CLASSIC, {}),
            (group_messages.DESCRIBE_CONSUMER, {}),
            (group_messages.OFFSET_FETCHES, {}),
            (group_messages.OFFSET_COMMIT, {}),
            (group_messages.DELETE_GROUPS, {}),
            (group_messages.DESCRIBE_SHARE, {}),
            (group_messages.DESCRIBE_STREAMS, {}),
            (group_messages.SHARE_OFFSETS, {}),
        )
    ),
]
VERSIONS = {request_type.key: version for request_type, version, _ in SAMPLES}
ANSWERS = {request_type.key: body for request_type, _, body in SAMPLES}


CONFIGS = (large_responses.TOPIC_CONFIGS, large_responses.BROKER_CONFIGS, large_responses.GROUP_CONFIGS)


def test_config_requests_have_kafka_resource_types() -> None:
    """ConfigResource.Type of Kafka: TOPIC is 2, BROKER is 4, GROUP is 32."""
    item = pack(">i", 1)
    key = item + pack(">h", 1) + b"k"
    described = large_responses._describe_configs(2, 1)
    assert (described.key, described.versions, described.flexible) == (32, (1, 1), 4)
    for requests, number in zip(CONFIGS, (2, 4, 32), strict=True):
        written = requests.write({"7": ["k"]}, 1)
        assert written == item + bytes([number]) + pack(">h", 1) + b"7" + key + b"\x00"
    every = large_responses.TOPIC_CONFIGS.write({"t": None}, 1)
    assert every == item + b"\x02" + pack(">h", 1) + b"t" + b"\xff" * 4 + b"\x00"


@pytest.mark.parametrize(
    ("version", "every", "none", "one"),
    [
        (4, b"\xff\xff\xff\xff\x00", bytes(4) + b"\x00", pack(">ih", 1, 1) + b"t\x00"),
        (8, b"\xff\xff\xff\xff" + bytes(3), bytes(4) + bytes(3), pack(">ih", 1, 1) + b"t" + bytes(3)),
        (9, b"\x00" + bytes(4), b"\x01" + bytes(4), b"\x02\x02t\x00" + bytes(4)),
        (10, b"\x00" + bytes(4), b"\x01" + bytes(4), b"\x02" + bytes(16) + b"\x02t\x00" + bytes(4)),
        (12, b"\x00" + bytes(3), b"\x01" + bytes(3), b"\x02" + bytes(16) + b"\x02t\x00" + bytes(3)),
    ],
)
def test_metadata_requests_create_no_topic(version: int, every: bytes, none: bytes, one: bytes) -> None:
    for messages_ in (large_responses.METADATA, large_responses.METADATA_SCHEMA):
        assert (messages_.key, messages_.versions) == (3, (4, 12))
    write = large_responses.METADATA.write
    assert (write(None, version), write((), version), write(["t"], version)) == (every, none, one)


@pytest.mark.parametrize("version", range(9, 13))
@pytest.mark.parametrize("cluster", [b"cluster", None])
def test_metadata_reader_agrees_with_schema(version: int, cluster: bytes | None) -> None:
    body = metadata(version, cluster)
    response = large_responses.METADATA.read(body, version)
    assert response == large_responses._convert_metadata(large_responses.METADATA_SCHEMA.read(body, version))
    assert response.brokers == {1: ("localhost", 9092, "rack")}
    assert (response.cluster_id, response.controller) == ((cluster or b"").decode(), 1)
    topic_id = bytes(range(16)) if version >= 10 else bytes(16)
    assert [(topic.name, topic.topic_id) for topic in response.topics] == [("t", topic_id)]
    assert response.topics[0].partitions == [(0, 1, (1, 2, 3), (1,))] * 2


def test_own_configs_have_expected_source() -> None:
    """ConfigSource of Kafka: DYNAMIC_TOPIC_CONFIG is 1, DYNAMIC_BROKER_CONFIG 2, DYNAMIC_GROUP_CONFIG 8."""

    def read_own(requests: RequestType[Any], source: int) -> object:
        answer = encode_config_response("x", entry("a", "1", source))
        return requests.read(pack(">ii", 0, 1) + answer, 1)[0].configs

    own = read_own(CONFIGS[0], 1)
    for requests, source in zip(CONFIGS, (1, 2, 8), strict=True):
        assert read_own(requests, source) == own != read_own(requests, 5)


@pytest.mark.parametrize("version", [4, 5, 7, 8])
def test_metadata_is_read_in_inflexible_versions(version: int) -> None:
    """Fields came with versions 5 (offline replicas), 7 (the leader's epoch) and 8 (operations)."""

    def numbers(*values: int) -> bytes:
        return pack(f">{len(values) + 1}i", len(values), *values)

    broker = pack(">i", 1) + short("localhost") + pack(">i", 9092) + short("rack")
    epoch, offline = pack(">i", 7) if version >= 7 else b"", numbers(3) if version >= 5 else b""
    operations = pack(">i", 0) if version >= 8 else b""
    partition = pack(">hii", 0, 0, 1) + epoch + numbers(1, 2, 3) + numbers(1) + offline
    described = pack(">h", 0) + short("t") + b"\0" + pack(">i", 1) + partition + operations
    body = pack(">ii", 0, 1) + broker + short("cluster") + pack(">ii", 1, 1) + described + operations
    response = large_responses.METADATA.read(body, version)
    assert response.brokers == {1: ("localhost", 9092, "rack")}
    assert (response.cluster_id, response.controller) == ("cluster", 1)
    assert [(topic.name, topic.partitions) for topic in response.topics] == [("t", [(0, 1, (1, 2, 3), (1,))])]


def test_unsupported_fields_are_refused_and_tags_skipped() -> None:
    offset, refused = (
        {"index": number, "error_code": code, "timestamp": time, "offset": offset, "epoch": epoch}
        for number, code, time, offset, epoch in ((0, 0, 1_000, 5, 3), (1, 6, -1, -1, -1))
    )
    topics = [{"name": name, "partitions": [offset, refused]} for name in ("t", "u")]
    assert messages.LIST_OFFSETS.read(offsets(), 7) == {"throttle_ms": 0, "topics": topics}
    # The highest version that both sides know is chosen.
    log_dirs = messages.LOG_DIRS
    assert [log_dirs.version({35: most}) for most in ((0, 9), (0, 3), (1, 1))] == [4, 3, 1]
    for offered, message in (
        ({}, "this cluster does not support DescribeLogDirs"),
        ({35: (5, 7)}, "this cluster does not support DescribeLogDirs in version 1 to 4, only in 5 to 7"),
        ({35: (0, 0)}, "this cluster does not support DescribeLogDirs in version 1 to 4, only in 0"),
    ):
        assert not log_dirs.is_offered(offered)
        with pytest.raises(NotOffered) as caught:
            log_dirs.version(offered)
        assert (caught.value.message, caught.value.request) == (message, "DescribeLogDirs")
    assert group_messages.LIST_GROUPS.write({}, 3) == b"\x00"
    with pytest.raises(NotOffered, match="ListGroups with types"):
        group_messages.LIST_GROUPS.write({"types": ["share"]}, 4)


@given(st.integers(0, 2**32 - 1), st.binary(max_size=3), st.binary(max_size=3))
@example(2**14 - 1, b"", b"")
@example(2**14, b"", b"")
@example(2**21 - 1, b"", b"\xff")
@example(2**21, b"", b"\xff")
@example(2**28, b"\xff", b"")
def test_encoded_length_is_read_back(number: int, before: bytes, behind: bytes) -> None:
    written = message_schema.encode_length(number)
    assert written == varint(number)
    read = message_schema.read_uvarint(before + written + behind, len(before))
    assert read == (number, len(before + written))


def test_length_over_five_bytes_is_refused() -> None:
    with pytest.raises(ValueError, match="more than 32 bits"):
        message_schema.read_uvarint(b"\x80" * 1_000 + b"\x01", 0)


@dataclass(frozen=True)
class Damage:
    """Some changes to bytes: where each is, as a part of the whole, and what is done there."""

    changes: tuple[tuple[float, str, bytes], ...]

    def to(self, body: bytes) -> bytes:
        changed = bytearray(body)
        for part, kind, new in self.changes:
            at = int(part * len(changed))
            if kind == "cut":
                del changed[at:]
            elif kind == "insert":
                changed[at:at] = new
            elif kind == "remove":
                del changed[at : at + len(new)]
            else:
                changed[at : at + len(new)] = new
        return bytes(changed)


damages = builds(
    lambda changes: Damage(tuple(changes)),
    st.lists(
        st.tuples(
            st.floats(0, 1, exclude_max=True),
            st.sampled_from(["replace", "insert", "remove", "cut"]),
            st.one_of(st.sampled_from(TELLING), st.binary(min_size=1, max_size=4)),
        ),
        min_size=1,
        max_size=4,
    ),
)


@pytest.mark.parametrize(
    ("request_type", "version", "body"), SAMPLES, ids=lambda one: str(getattr(one, "name", ""))
)
def test_sample_responses_are_read_only_when_complete(
    request_type: RequestType[Any], version: int, body: bytes
) -> None:
    assert request_type.largest <= max(MAX_RESPONSE_BYTES, 100_000_000), "what clients take"
    assert read_response(request_type, body, version, "") is not None
    for end in range(len(body)):
        assert read_or_refuse(request_type, version, body[:end]) is None, f"cut at {end} of {len(body)}"
    assert read_or_refuse(request_type, version, body + b"\x00") is None


def test_responses_within_size_limits_are_valid() -> None:
    # Lists that are null where the protocol has none: every topic would be planned anew.
    assert read_or_refuse(large_responses.METADATA, 12, bytes(12)) is None
    # 100,000 partitions of 20,000 topics, and 2,000 topics with 30 configs, asked for at a time.
    partition = pack(">hiii", 0, 0, 1, 7) + ints(1, 2, 3) * 2 + ints() + TAGS
    topic = pack(">h", 0) + string("n" * 100) + bytes(17) + array(*[partition] * 5) + pack(">i", 0) + TAGS
    assert 2 * 20_000 * len(topic) < large_responses.METADATA.largest
    described_topic = encode_config_response(
        "n" * 100, *[entry("leader.replication.throttled.replicas", "x" * 20, 5)] * 30
    )
    assert 10 * 2_000 * len(described_topic) < large_responses.TOPIC_CONFIGS.largest
    error = make_malformed_error("kafka-1:9092", "Metadata v12", "index out of range")
    assert error.message.startswith("kafka-1:9092: malformed answer to Metadata v12: ")
    assert error.hint


@pytest.mark.parametrize(
    "body", [pack(">ii", 0, -1), pack(">iih", 0, 1, 0) + encode_config_response("t")[2:-4] + b"\xff" * 4]
)
def test_negative_config_lengths_are_refused(body: bytes) -> None:
    assert read_or_refuse(large_responses.TOPIC_CONFIGS, 1, body) is None


@examples(10)
@given(st.sampled_from(SAMPLES), damages)
def test_damaged_response_is_read_or_malformed(
    sample: tuple[RequestType[Any], int, bytes], damage: Damage
) -> None:
    request_type, version, body = sample
    read_or_refuse(request_type, version, damage.to(body))


@given(st.sampled_from(SAMPLES), st.data(), st.binary(max_size=200))
def test_any_bytes_are_read_or_malformed(
    sample: tuple[RequestType[Any], int, bytes], data: st.DataObject, body: bytes
) -> None:
    request_type = sample[0]
    read_or_refuse(request_type, data.draw(st.integers(*request_type.versions)), body)


def test_claimed_lengths_take_no_memory() -> None:
    """Lengths of up to 2^32 in every place of every answer."""
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    try:
        for request_type, version, body in SAMPLES:
            for at in range(len(body)):
                for claim in (b"\xff\xff\xff\xff\x0f", b"\x7f\xff\xff\xff", b"\xff\xff\xff\x7f"):
                    read_or_refuse(request_type, version, body[:at] + claim + body[at + 1 :])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak - before < 5_000_000


class Damaged:
    """A connection to brokers that know what is given, and answer just that."""

    def __init__(self, answers: Mapping[int, bytes]) -> None:
        self._answers = answers

    def offers(self, request_type: RequestType[Any]) -> bool:
        return request_type.key in self._answers and request_type is not group_messages.FIND_COORDINATOR

    def send(self, request_type: RequestType[T], requests: list[Any], **_: Any) -> list[T]:
        body = CountedBytes(self._answers[request_type.key])
        return [read_response(request_type, body, VERSIONS[request_type.key], "broker") for _ in requests]

    def send_to_controller(self, request_type: RequestType[T], request: Any, _: float) -> T:
        return self.send(request_type, [request])[0]

    def send_to_nodes(
        self, request_type: RequestType[T], requests: Mapping[int, list[Any]], _: float
    ) -> dict[int, list[T] | ClusterError]:
        try:
            return {node: self.send(request_type, of_node) for node, of_node in requests.items()}
        except MalformedResponse as error:
            return dict.fromkeys(requests, error)

    def send_to_each(
        self, request_type: RequestType[T], request: Any, _: float
    ) -> dict[int, T | ClusterError]:
        try:
            (response,) = self.send(request_type, [request])
        except MalformedResponse as error:
            return {1: error}
        return {1: response}


def request_configs(connection: Connection) -> None:
    source = TopicRequests(connection)
    source.descriptions(source.names())
    source.configs(["t", "u"])


def alter_quota(connection: Connection) -> None:
    alteration = AlterQuota(ResourceRef("ClientQuota", "user=alice"), {"producer_byte_rate": "1"})
    client_quotas.QuotaWriter(_send).write(connection, [alteration], validate_only=True, guard=unguarded)


READERS: dict[str, tuple[Callable[[Connection], object], Collection[int]]] = {
    "topics": (request_configs, (3, 32)),
    "placement": (read_placement, (3,)),
    "rates": (read_rates, (3, 32)),
    "quorum": (lambda c: health.read_quorum(c, 1, 1.0), (55,)),
    "reassignments": (lambda c: reassignments.read_running(c, 1.0), (46, 3)),
    "sizes": (lambda c: sizes.read_replica_sizes(c, [("t", 0)]), (35,)),
    "groups": (group_listing.list_groups, (16,)),
    "groups with configs": (group_listing.list_groups_with_configs, (74,)),
    "quotas": (client_quotas.read_quotas, (48,)),
    "altered quotas": (alter_quota, (49,)),
    "classic": (lambda c: group_description._describe_classic(c, [GROUP]), (10, 15)),
    "consumer": (lambda c: group_description._describe_consumer(c, [GROUP]), (10, 69)),
    "committed": (lambda c: read_committed(c, [GROUP]), (10, 9)),
    "commit": (lambda c: commit(c, GROUP, {("t", 0): 5}, 1.0), (10, 8)),
    "delete": (lambda c: delete(c, GROUP, 1.0), (10, 42)),
    "share": (lambda c: group_description._describe_share(c, [GROUP]), (10, 77)),
    "streams": (lambda c: group_description._describe_streams(c, [GROUP]), (3, 10, 89)),
    "offsets": (lambda c: read_committed_offsets(c, {GROUP: "share"}), (10, 90)),
}
"""What reads answers, and the requests that it sends."""


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("responses", "group_listing"):
        monkeypatch.setattr(f"kafkaform.cluster.kafka.{module}.COORDINATOR_TIMEOUT_S", -1.0)
    monkeypatch.setattr("kafkaform.cluster.transport.brokers._PAUSE_S", 0)


@pytest.mark.parametrize("name", READERS)
def test_corrupted_responses_raise_no_unexpected_error(name: str) -> None:
    reader, keys = READERS[name]
    answers = {key: configs("1") if (name, key) == ("rates", 32) else ANSWERS[key] for key in keys}
    chance = random.Random(name)
    for _ in range(500):
        key = chance.choice([*answers])
        body = bytearray(answers[key])
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(body))
            body[at : at + 1] = chance.choice([bytes([chance.randrange(256)]), *TELLING[:5]])
        try:
            reader(cast("Connection", Damaged({**answers, key: bytes(body)})))
            message = ""
        except KafkaformError as error:
            message = error.message
        assert "\n" not in message


def test_invalid_assignment_fails_own_group_only() -> None:
    """As Kafka's ConsumerProtocolAssignment is: a version, topics with partitions, and the user's bytes."""
    assigned = pack(">hih", 1, 1, 1) + b"t" + pack(">iii", 2, 0, 3) + pack(">i", -1)

    def describe_damaged(raw: bytes) -> GroupResponses[Group]:
        classic = encode_group(group_messages.DESCRIBE_CLASSIC, protocol_type="consumer", raw_assignment=raw)
        answers = {10: ANSWERS[10], 15: classic}
        return group_description._describe_classic(cast("Connection", Damaged(answers)), [GROUP])

    (member,) = describe_damaged(assigned).found[GROUP].members
    assert member.assignment == {("t", 0), ("t", 3)}
    (member,) = describe_damaged(b"").found[GROUP].members
    assert member.assignment == frozenset()
    for damaged in (assigned[:-8], b"assigned"):
        response = describe_damaged(damaged)
        assert response.found == {}
        assert f"its {len(damaged)} bytes end" in response.failed[GROUP].message


def test_response_about_other_resource_is_error() -> None:
    answers = {10: ANSWERS[10], 77: encode_group(group_messages.DESCRIBE_SHARE, group_id="h")}
    response = group_description._describe_share(cast("Connection", Damaged(answers)), [GROUP])
    assert response.found == {}
    assert response.failed[GROUP].message.startswith("broker 1 returned a group")
    answers = {10: encode_group(group_messages.FIND_COORDINATORS, key="h"), 77: ANSWERS[77]}
    response = group_description._describe_share(cast("Connection", Damaged(answers)), [GROUP])
    assert "returned the coordinator of a group" in response.failed[GROUP].message
    answers = {3: metadata(), 32: configs("2")}
    (rates,) = read_rates(cast("Connection", Damaged(answers))).values()
    assert isinstance(rates, ClusterError)
    assert rates.message.startswith("broker 1 returned the configs of other brokers")


class Volumes:
    """A connection whose brokers answer DescribeLogDirs as told, in the version that is given."""

    def __init__(self, answers: Mapping[int, bytes | ClusterError], version: int) -> None:
        self._answers = answers
        self._version = version

    def send_to_each(self, request_type: RequestType[Any], request: Any, timeout_s: float) -> dict[int, Any]:
        assert request_type is messages.LOG_DIRS
        assert (request_type.write(request, self._version), timeout_s) == (b"\x01\x00", 3.0)
        return {
            broker: answer
            if isinstance(answer, ClusterError)
            else read_response(request_type, answer, self._version, f"broker {broker}")
            for broker, answer in self._answers.items()
        }


def described_volumes(*dirs: tuple[str, int, int, int], error: int = 0) -> bytes:
    each = [
        pack(">h", code) + string(path) + b"\x01" + pack(">qq", total, usable) + b"\x00"
        for path, code, total, usable in dirs
    ]
    return pack(">ih", 0, error) + bytes([len(dirs) + 1]) + b"".join(each) + b"\x00"


def read_volumes(
    answers: Mapping[int, bytes | ClusterError], version: int = 4
) -> tuple[tuple[LogDir, ...], dict[int, str]]:
    log_dirs, unread = read_log_dirs(cast("Connection", Volumes(answers, version)), 3.0)
    return log_dirs, {broker: error.message for broker, error in unread.items()}


def test_log_dirs_have_volume_sizes() -> None:
    # Each log directory is told with its volume.
    first = described_volumes(("/b", 0, 100, 7), ("/a", 56, -1, -1))
    assert read_volumes({2: described_volumes(("/a", 0, 50, 50)), 1: first}) == (
        (LogDir(1, "/a", None), LogDir(1, "/b", 100, 7), LogDir(2, "/a", 50, 50)),
        {},
    )
    # Version 2, of Kafka 2.8: neither an error of the whole nor volumes.
    each = b"".join(pack(">h", code) + string(path) + b"\x01\x00" for path, code in (("/a", 56), ("/b", 0)))
    assert read_volumes({1: bytes(4) + b"\x03" + each + b"\x00"}, 2) == ((LogDir(1, "/a", None),), {})


def test_unsupported_log_dirs_request_is_reported_once() -> None:
    nobody: dict[int, bytes | ClusterError] = dict.fromkeys((1, 2, 3), NotOffered("DescribeLogDirs"))
    with pytest.raises(NotOffered, match="DescribeLogDirs"):
        read_volumes(nobody)
    assert read_volumes({**nobody, 3: described_volumes(("/a", 0, 9, 1))}) == (
        (LogDir(3, "/a", 9, 1),),
        dict.fromkeys((1, 2), "this cluster does not support DescribeLogDirs"),
    )


def test_broker_without_volumes_is_named() -> None:
    found, unread = read_volumes(
        {1: ClusterError("no answer"), 2: described_volumes(error=31), 3: described_volumes(("/a", 0, 9, 1))}
    )
    assert (found, unread[1]) == ((LogDir(3, "/a", 9, 1),), "no answer")
    assert "Describe on the cluster" in unread[2]


def test_acls_are_read_in_all_versions() -> None:
    granted, denied = (
        short(principal) + short(host) + codes
        for principal, host, codes in (("User:a", "*", b"\x03\x03"), ("User:b", "10.0.0.1", b"\x04\x02"))
    )
    resource = b"\x02" + short("t") + b"\x03" + pack(">i", 2) + granted + denied
    plain = pack(">ihhi", 0, 0, -1, 1) + resource
    expected = [(2, "t", 3, "User:a", "*", 3, 3), (2, "t", 3, "User:b", "10.0.0.1", 4, 2)]
    describe_acls = large_responses.describe_acls(lambda *fields: fields)
    assert (describe_acls.key, describe_acls.versions) == (29, (1, 3))
    every = dict.fromkeys(("resource_name", "principal", "host"))
    every |= dict.fromkeys(("resource_type", "pattern_type", "operation", "permission_type"), 1)
    for version, body, text in ((1, plain, b"\xff\xff"), (2, acls(), b"\x00"), (3, acls(), b"\x00")):
        found = describe_acls.read(body, version)
        assert (found.error_code, found.error_message, found.acls) == (0, "", expected)
        wanted = b"\x01" + text + b"\x01" + text * 2 + b"\x01\x01" + TAGS[: version - 1]
        assert describe_acls.write(every, version) == wanted
    failed = ACL_TUPLES.read(pack(">ih", 0, 31) + string("no") + array() + TAGS, 3)
    assert (failed.error_code, failed.error_message, failed.acls) == (31, "no", [])
