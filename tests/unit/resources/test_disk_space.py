"""Which copies of replicas fit into log directories, as brokers report them."""

from __future__ import annotations

from kafkaform.core.errors import ClusterError
from kafkaform.core.health import LogDir
from kafkaform.resources.replicas.disk_space import Copies, DiskSpace, find_doubts, find_shortages
from tests.support.golden import wording

MIB = 1024**2


def space(*log_dirs: LogDir, reserve: float = 0.15, **unread: str) -> DiskSpace:
    errors = {int(broker.removeprefix("b")): ClusterError(why) for broker, why in unread.items()}
    return DiskSpace.from_reading(log_dirs, errors, reserve)


def small(broker: int = 3, usable: int = 160, total: int = 160, path: str = "/a") -> LogDir:
    return LogDir(broker, path, total * MIB, usable * MIB)


def copies(size: int, growth: int = 0, largest: int = 0) -> Copies:
    return Copies(size * MIB, growth * MIB, largest * MIB)


def test_what_does_not_fit_beside_the_reserve_is_refused_to_the_byte() -> None:
    assert space(small()).shortage(3, copies(212, 10), copies(5)) == wording
    assert space(small()).shortage(3, copies(136)) is None
    assert space(small()).shortage(3, Copies(136 * MIB + 1)) is not None
    assert space(small()).shortage(3, copies(130), copies(6, 1)) is not None
    assert space(small(), reserve=0).shortage(3, copies(160)) is None
    full = space(small(usable=10))
    assert full.shortage(3, Copies(1)) is not None
    assert full.shortage(3, Copies(0), copies(500)) is None


def test_a_replica_lies_in_one_directory_of_a_volume_that_is_online() -> None:
    two = space(small(path="/a"), small(path="/b", total=100, usable=100))
    assert two.shortage(3, copies(150, largest=75)) is None
    assert str(two.shortage(3, copies(150, largest=150))) == wording
    # Directories on one volume count once.
    shared = space(small(path="/a"), small(path="/b"))
    assert shared.shortage(3, copies(150)) is not None
    # Two disks of the same size differ in what is used.
    apart = space(small(path="/a"), small(path="/b", usable=150))
    assert apart.shortage(3, copies(150)) is None
    assert space(small(), LogDir(3, "/broken", None)).shortage(3, copies(137)) is not None
    dead = space(LogDir(3, "/broken", None))
    assert dead.shortage(3, copies(1)) is None
    assert "since Kafka 3.3" in str(dead.doubt(3, copies(1)))


def test_what_is_not_known_of_disks_is_doubted_and_not_refused() -> None:
    # What is not known is doubted not refused.
    unknown = space(b3="not authorised")
    assert unknown.shortage(3, copies(10_000)) is None
    assert unknown.doubt(3, copies(1)) == wording
    assert unknown.doubt(3, Copies()) is None
    assert unknown.doubt(4, copies(1)) == wording
    # Kafka may choose the tightest directory.
    two = space(small(path="/a", usable=30), small(path="/b", total=1000, usable=900))
    assert two.shortage(3, copies(200)) is None
    assert two.doubt(3, copies(5)) is None
    assert two.doubt(3, copies(200)) == wording
    assert space(small()).doubt(3, copies(100)) is None
    two = space(small(path="/a"), small(path="/b", total=1000, usable=900))
    needed = {"a": {3: copies(100)}, "b": {3: copies(100)}, "c": {4: Copies()}}
    assert sorted(find_doubts(needed, two)) == ["a", "b"]
    assert find_doubts({"a": needed["a"]}, two) == {}


def test_topics_add_up_and_the_smallest_come_first() -> None:
    needed = {
        "b": {3: copies(100)},
        "a": {3: copies(100), 4: copies(1)},
        "c": {3: copies(30)},
        "d": {4: copies(9)},
    }
    disks = space(small(), small(4))
    found = find_shortages(needed, {}, disks)
    assert sorted(found) == ["a"]
    assert found["a"] == wording
    assert sorted(find_shortages(needed, {3: copies(40)}, disks)) == ["a", "b"]
