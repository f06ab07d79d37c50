"""A Topic's spec in normal form, its placement, what is left of a move, and the room for its copies."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from syrupy.assertion import SnapshotAssertion

from kafkaform.core import kafka_configs
from kafkaform.core.errors import ClusterError
from kafkaform.core.health import LogDir
from kafkaform.core.model import Facts, FieldChange, Intent, Observed, Risk, RiskAssessment, State, Update
from kafkaform.core.partitions import PartitionState
from kafkaform.resources import KINDS
from kafkaform.resources.base import FieldOutcome, Layer, UpdateContext
from kafkaform.resources.replicas.disk_space import Copies, DiskSpace, find_doubts
from kafkaform.resources.replicas.facts import LiveReplicas, ReplicaFacts
from kafkaform.resources.replicas.layout import (
    Assignment,
    Layout,
    Reassignment,
    format_assignment,
    parse_assignment,
)
from kafkaform.resources.replicas.moves import Rates, ThrottledReplicas, Throttles
from kafkaform.resources.replicas.operations import Reassign
from kafkaform.resources.replicas.placement import initial_replicas, live, present
from kafkaform.resources.topic.spec import normalise, resolve
from tests.support.plans.risk import render_assessments, render_catalogue
from tests.support.plans.scenes import topic
from tests.support.plans.specs import Reports

A = topic("a")
TOPIC = KINDS["Topic"]


def build_move(before: str, after: str) -> FieldChange:
    return FieldChange("placement", before, after)


def build_observed(replicas: str, *moving: int) -> Observed:
    assignment = parse_assignment(replicas)
    counts = sorted(map(len, assignment))
    factor = counts[0] if counts[0] == counts[-1] else f"{counts[0]}-{counts[-1]}"
    state: State = {"partitions": len(assignment), "replicationFactor": factor}
    return Observed(A, "id", state, live=LiveReplicas(assignment, frozenset(moving)))


INVALID: list[Layer] = [
    {"strategy": "static"},
    {"strategy": "balanced", "replicas": [[1, 2], [2, 3]]},
    {"strategy": "static", "replicas": [[1, 2], [2, 2]]},
    {"strategy": "static", "replicas": [[1, 2]]},
    {"strategy": "static", "replicas": [[1, 2], [2, 3, 1]]},
]


def test_invalid_placement_messages_match_golden(golden: SnapshotAssertion) -> None:
    reports = Reports()
    for placement in INVALID:
        layer = normalise({"partitions": 2, "replicationFactor": 2, "placement": placement}, reports)
        resolve(layer, reports)
    assert reports.describe() == golden(name="invalid.txt")


@pytest.mark.parametrize(
    ("here", "moving", "left"),
    [
        ("1,2", (), "1,2"),
        ("1:2,2", (), "1:2,2"),
        ("1:2,2:3", (), FieldOutcome.DONE),
        ("1:2,2:3", (1,), "1:2,2"),
        ("1:2,2:3", (0, 1), "1,2"),
        ("1:3,2", (), FieldOutcome.MOVED),
        ("2,2", (), FieldOutcome.MOVED),
        ("1", (), "1"),
        ("1,2,3", (), FieldOutcome.MOVED),
    ],
)
def test_move_is_reduced_to_remainder(here: str, moving: tuple[int, ...], left: str | FieldOutcome) -> None:
    found = TOPIC.field("placement").remaining(build_move("1,2", "1:2,2:3"), build_observed(here, *moving))
    assert (found.before if isinstance(found, FieldChange) else found) == left


@st.composite
def moves(draw: DrawFn) -> tuple[Assignment, Assignment]:
    """Return the live and the planned replicas of a topic, added partitions included."""

    def assignment(partitions: int, factors: list[int]) -> Assignment:
        return tuple(
            tuple(draw(st.permutations([1, 2, 3, 4, 5]))[: draw(st.sampled_from(factors))])
            for _ in range(partitions)
        )

    there, extra = draw(st.integers(1, 4)), draw(st.integers(0, 2))
    return assignment(there, [1, 2, 3]), assignment(there + extra, [draw(st.integers(1, 4))])


@given(moves(), st.data())
def test_half_done_move_can_be_finished(ends: tuple[Assignment, Assignment], data: st.DataObject) -> None:
    before, after = ends
    start = (*before, *initial_replicas(before, after))
    done = data.draw(st.sets(st.sampled_from(range(len(after)))))
    here = tuple(after[n] if n in done else start[n] for n in range(len(after)))
    field = build_move(format_assignment(before), format_assignment(after))
    left = TOPIC.field(field.path).remaining(field, build_observed(format_assignment(here)))
    if here == after:
        assert left is FieldOutcome.DONE
        return
    assert isinstance(left, FieldChange)
    assert left == build_move(format_assignment(here), format_assignment(after))
    assert TOPIC.field(field.path).is_intermediate(field, format_assignment(here))
    steps = TOPIC.operations(Update(A, "id", (left,)))
    moved = {n for n in range(len(after)) if here[n] != after[n]}
    assert steps == (Reassign(A, {n: here[n] for n in moved}, {n: after[n] for n in moved}),)


@given(moves())
def test_added_partitions_start_with_replicas_of_first(ends: tuple[Assignment, Assignment]) -> None:
    before, after = ends
    for replicas, target in zip(initial_replicas(before, after), after[len(before) :], strict=True):
        assert len(replicas) == len(before[0]) == len({*replicas})
        shorter = min(len(replicas), len(target))
        assert replicas[:shorter] == target[:shorter]


def test_running_reassignment_counts_as_not_started() -> None:
    grows = Reassignment((1, 2), frozenset({2}), frozenset())
    goes = Reassignment((3,), frozenset({3}), frozenset({2}))
    partitions = tuple(PartitionState("a", n, at[0], at, at) for n, at in enumerate(((1, 2), (3, 2))))
    layout = Layout((), {"a": partitions}, {("a", 0): grows, ("a", 1): goes})
    observed = build_observed("1:2,3", 0, 1)
    assert present(observed, None) == ((1, 2), (3,))
    assert present(observed, layout) == ((1,), (3,))
    assert live(observed, Facts("c").add_part(ReplicaFacts(layout=layout))) == "1,3"
    assert live(Observed(A, "id", {})) is None


def judge_move(before: str, after: str, facts: ReplicaFacts) -> RiskAssessment:
    context = UpdateContext(
        A, {"placement": before}, {"placement": after}, Intent(), Facts("c").add_part(facts)
    )
    return TOPIC.field("placement").judge(context)


SIZES = {("a", 0): 600_000_000, ("a", 1): 100_000_000}
MOVES = {
    "throttled": ("1,2", "1:2:3,2:3:1", ReplicaFacts(partition_sizes=SIZES, throttle=50_000_000)),
    "of unknown size": ("1,2", "1:2,2", ReplicaFacts(throttle=50_000_000)),
    "without a throttle": ("1:2,2", "1:3,2", ReplicaFacts(partition_sizes=SIZES)),
    "only dropped": ("1:2:3,2:1", "1:2,2:1", ReplicaFacts()),
    "partly unknown": ("1,2", "1:3,2:3", ReplicaFacts(partition_sizes={("a", 0): 5}, throttle=100)),
}
ALL_LISTED = {"a": ThrottledReplicas(frozenset({"*"}), frozenset({"*"}))}
LEADER_LISTED = {"a": ThrottledReplicas(frozenset({"0:1"}))}
OTHERS_LISTED = {"a": ThrottledReplicas(frozenset({"1:1", "0:2"}))}
OWN = "about 12 seconds at 50 MB/s"
SENDER, RECEIVER = "as broker 1 sends at most", "as broker 2 receives at most"
RATES: list[tuple[int | None, Mapping[int, Rates], Mapping[str, ThrottledReplicas], str]] = [
    (50_000_000, {}, {}, OWN),
    (50_000_000, {1: Rates(leader=50_000_000)}, {}, OWN),
    (50_000_000, {2: Rates(follower=5_000_000)}, {}, f"about 2 minutes, {RECEIVER} 5 MB/s"),
    (
        50_000_000,
        {1: Rates(leader=6_000_000), 2: Rates(follower=8_000_000), 3: Rates(1, 1)},
        {},
        f"about 100 seconds, {SENDER} 6 MB/s",
    ),
    # An apply keeps a rate that is set, also a higher one; the others have its own.
    (5_000_000, {1: Rates(leader=90_000_000)}, {}, "about 2 minutes at 5 MB/s"),
    (50_000_000, {2: Rates(leader=1)}, {}, OWN),
    (50_000_000, {2: Rates(follower=0)}, {}, f"never done, {RECEIVER} 0 bytes/s"),
    # Without a throttle of its own, an apply lists no replicas.
    (None, {2: Rates(follower=5_000_000)}, {}, "without a throttle"),
    (None, {}, ALL_LISTED, "without a throttle"),
    (None, {2: Rates(follower=5_000_000)}, ALL_LISTED, f"about 2 minutes, {RECEIVER} 5 MB/s"),
    (None, {1: Rates(leader=5_000_000)}, LEADER_LISTED, f"about 2 minutes, {SENDER} 5 MB/s"),
    (None, {1: Rates(leader=5_000_000)}, OTHERS_LISTED, "without a throttle"),
]


@pytest.mark.parametrize(("throttle", "rates", "replicas", "duration"), RATES)
def test_existing_throttle_rates_are_used_in_estimate(
    throttle: int | None, rates: Mapping[int, Rates], replicas: Mapping[str, ThrottledReplicas], duration: str
) -> None:
    throttles = Throttles(rates, replicas)
    facts = ReplicaFacts(partition_sizes={("a", 0): 600_000_000}, throttle=throttle, throttles=throttles)
    assert duration in judge_move("1", "1:2", facts).reason


def test_move_reasons_match_golden(golden: SnapshotAssertion) -> None:
    slow = ReplicaFacts(partition_sizes=SIZES, throttle=9, throttles=Throttles({2: Rates(follower=5)}, {}))
    moves = [judge_move(*move) for move in (*MOVES.values(), ("1", "1:2", slow))]
    assert {(move.risk, move.hazard) for move in moves} == {(Risk.DISRUPTIVE, "replica-move")}
    assert render_assessments(moves) == golden(name="moves.txt")


def normalise_topic(layer: Layer) -> Layer:
    reports = Reports()
    normal = normalise(layer, reports)
    assert reports == []
    return normal


@pytest.mark.parametrize(
    ("layer", "config"),
    [
        ({"retention": "7d"}, {"retention.ms": "604800000"}),
        ({"retention": 1000}, {"retention.ms": "1000"}),
        ({"retention": {"bytes": "1KiB"}}, {"retention.bytes": "1024"}),
        (
            {"retention": {"time": None, "bytes": "unlimited"}},
            {"retention.ms": None, "retention.bytes": "-1"},
        ),
        ({"config": {"cleanup.policy": ["delete", "compact"]}}, {"cleanup.policy": "compact,delete"}),
        ({"config": {"min.cleanable.dirty.ratio": 0.5}}, {"min.cleanable.dirty.ratio": "0.5"}),
        (
            {"config": {"min.cleanable.dirty.ratio": "0.123456789"}},
            {"min.cleanable.dirty.ratio": "0.123456789"},
        ),
        ({"config": {"preallocate": "True"}}, {"preallocate": "true"}),
        ({"config": {"confluent.tier.enable": "True"}}, {"confluent.tier.enable": "True"}),
        ({"config": {"write.caching": ["a", "b"]}}, {"write.caching": "a,b"}),
    ],
)
def test_settings_have_canonical_spelling(layer: Layer, config: dict[str, str | None]) -> None:
    assert normalise_topic(layer) == {"config": config}


def test_access_accepts_principals_and_teams_only() -> None:
    reports = Reports()
    assert "access" in normalise({"access": {"read": ["team:a", "User:b"], "write": ["c"]}}, reports)
    ((path, message, hint, _),) = reports
    assert path == ("access", "write", 0)
    assert "'c' is not a principal" in message
    assert "team:c" in str(hint)


def test_every_kafka_config_accepts_own_default() -> None:
    for key in kafka_configs.topic_configs().values():
        if key.internal or key.default is None or key.name in kafka_configs.REASSIGNMENT_KEYS:
            continue
        assert normalise_topic({"config": {key.name: key.default}}) == {
            "config": {key.name: kafka_configs.canonical(key, key.default)}
        }


@pytest.mark.parametrize("name", sorted(kafka_configs.REASSIGNMENT_KEYS))
def test_throttles_cannot_be_declared(name: str) -> None:
    reports = Reports()
    assert normalise({"config": {name: "*"}}, reports) == {}
    assert [hint for _, _, hint, _ in reports] == ["remove it"]


@pytest.mark.parametrize(
    ("path", "a", "b", "same"),
    [
        ("config.min.cleanable.dirty.ratio", "0.50", "0.5", True),
        ("config.segment.ms", "060000", "60000", True),
        ("config.cleanup.policy", "delete,compact", "compact, delete", True),
        ("config.cleanup.policy", "delete", "compact,delete", False),
        ("config.preallocate", "TRUE", "true", True),
        ("config.confluent.x", "0.50", "0.5", False),
        ("config.retention.ms", None, "-1", False),
        ("config.retention.ms", None, None, True),
        ("partitions", 3, 4, False),
        ("replicationFactor", "1-3", 3, False),
    ],
)
def test_values_are_equal_by_meaning(path: str, a: int | str | None, b: int | str | None, same: bool) -> None:
    assert TOPIC.field(path).equal(a, b) is same
    assert TOPIC.field(path).equal(b, a) is same


MIB = 1024**2


def build_space(*log_dirs: LogDir, reserve: float = 0.15, **unread: str) -> DiskSpace:
    errors = {int(broker.removeprefix("b")): ClusterError(why) for broker, why in unread.items()}
    return DiskSpace.from_reading(log_dirs, errors, reserve)


def build_log_dir(broker: int = 3, usable: int = 160, total: int = 160, path: str = "/a") -> LogDir:
    return LogDir(broker, path, total * MIB, usable * MIB)


def build_copies(size: int, growth: int = 0, largest: int = 0) -> Copies:
    return Copies(size * MIB, growth * MIB, largest * MIB)


def test_replicas_beyond_reserve_are_refused() -> None:
    assert build_space(build_log_dir()).shortage(3, build_copies(212, 10), build_copies(5)) is not None
    assert build_space(build_log_dir()).shortage(3, build_copies(136)) is None
    assert build_space(build_log_dir()).shortage(3, Copies(136 * MIB + 1)) is not None
    assert build_space(build_log_dir()).shortage(3, build_copies(130), build_copies(6, 1)) is not None
    assert build_space(build_log_dir(), reserve=0).shortage(3, build_copies(160)) is None
    full = build_space(build_log_dir(usable=10))
    assert full.shortage(3, Copies(1)) is not None
    assert full.shortage(3, Copies(0), build_copies(500)) is None


def test_replica_must_fit_in_single_log_directory() -> None:
    two = build_space(build_log_dir(path="/a"), build_log_dir(path="/b", total=100, usable=100))
    assert two.shortage(3, build_copies(150, largest=75)) is None
    assert "its largest replica" in str(two.shortage(3, build_copies(150, largest=150)))
    # Directories on one volume count once.
    shared = build_space(build_log_dir(path="/a"), build_log_dir(path="/b"))
    assert shared.shortage(3, build_copies(150)) is not None
    # Two disks of the same size differ in what is used.
    apart = build_space(build_log_dir(path="/a"), build_log_dir(path="/b", usable=150))
    assert apart.shortage(3, build_copies(150)) is None
    assert build_space(build_log_dir(), LogDir(3, "/broken", None)).shortage(3, build_copies(137)) is not None
    dead = build_space(LogDir(3, "/broken", None))
    assert dead.shortage(3, build_copies(1)) is None
    assert "since Kafka 3.3" in str(dead.doubt(3, build_copies(1)))


def test_unknown_disk_space_is_doubted_not_refused() -> None:
    unknown = build_space(b3="not authorised")
    assert unknown.shortage(3, build_copies(10_000)) is None
    assert "not authorised" in str(unknown.doubt(3, build_copies(1)))
    assert unknown.doubt(3, Copies()) is None
    assert "broker 4" in str(unknown.doubt(4, build_copies(1)))
    # Kafka may choose the tightest directory.
    two = build_space(build_log_dir(path="/a", usable=30), build_log_dir(path="/b", total=1000, usable=900))
    assert two.shortage(3, build_copies(200)) is None
    assert two.doubt(3, build_copies(5)) is None
    assert "/a has 30.0 MiB usable" in str(two.doubt(3, build_copies(200)))
    assert build_space(build_log_dir()).doubt(3, build_copies(100)) is None
    two = build_space(build_log_dir(path="/a"), build_log_dir(path="/b", total=1000, usable=900))
    needed = {"a": {3: build_copies(100)}, "b": {3: build_copies(100)}, "c": {4: Copies()}}
    assert sorted(find_doubts(needed, two)) == ["a", "b"]
    assert find_doubts({"a": needed["a"]}, two) == {}


def test_shortage_and_doubt_messages_match_golden(golden: SnapshotAssertion) -> None:
    tight = build_space(build_log_dir(path="/a", usable=30), build_log_dir(path="/b", total=1000, usable=900))
    unread = build_space(b3="not authorised")
    messages = {
        "too much": build_space(build_log_dir()).shortage(3, build_copies(212, 10), build_copies(5)),
        "too large a replica": build_space(build_log_dir()).shortage(3, build_copies(150, largest=150)),
        "unread directories": unread.doubt(3, build_copies(1)),
        "directories that are not reported": unread.doubt(4, build_copies(1)),
        "tight directory": tight.doubt(3, build_copies(200)),
    }
    assert render_catalogue({name: str(message) for name, message in messages.items()}) == golden(
        name="disk_space.txt"
    )
