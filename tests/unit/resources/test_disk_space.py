"""Tests of the copies of replicas that fit into log directories, as brokers report them."""

from syrupy.assertion import SnapshotAssertion

from kafkaform.core.errors import ClusterError
from kafkaform.core.health import LogDir
from kafkaform.resources.replicas.disk_space import Copies, DiskSpace, find_doubts
from tests.support.plans.risk import render_catalogue

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
