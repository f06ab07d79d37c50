"""Planning offset resets, on a cluster in memory, and CSV of offsets, as Kafka's own tool writes it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaform.apply.executor import ApplyOptions, apply
from kafkaform.config.client_properties import ClientProperties
from kafkaform.config.settings import ClusterSettings, Settings
from kafkaform.core.apply_result import Result
from kafkaform.core.errors import ClusterError, InvalidInput, KafkaformError
from kafkaform.core.model import ResourceRef, Status, Update
from kafkaform.core.offset_spec import Latest, parse_offset
from kafkaform.core.plans import Plan
from kafkaform.inspect.resets import (
    Reset,
    ResetRequest,
    make_reset,
    parse_topics,
    read_offsets,
    write_offsets,
)
from kafkaform.resources.consent import Grant
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.moves import fail, override
from tests.support.plans.scenes import FakeClock, create_topic

NOW = 1_000_000
GROUP = ResourceRef("ConsumerGroup", "g")


@pytest.fixture
def cluster() -> MemoryCluster:
    """Topic a with 3 partitions of 100 records, of which the first 10 have expired; g stands at 50 in two."""
    memory = MemoryCluster()
    create_topic(memory, "a", partitions=3)
    for number in range(3):
        for step in range(10):
            memory.write("a", number, 10, 100_000 * step)
        memory.expire("a", number, 10)
    memory.commit("g", {("a", 0): 50, ("a", 1): 50})
    return memory


def reset(cluster: MemoryCluster, place: str, *topics: str, allow: str | None = None) -> Reset:
    grants = (Grant.parse(allow),) if allow else ()
    request = ResetRequest("g", parse_offset(place), topics=parse_topics(topics), allow=grants)
    return make_reset(request, cluster, Settings(), None, NOW)


def moves(plan: Plan) -> dict[str, tuple[object, object]]:
    (change,) = plan.changes
    assert isinstance(change.change, Update)
    return {field.path: (field.before, field.after) for field in change.change.fields}


@pytest.mark.parametrize(
    ("place", "offset"),
    [
        ("earliest", 10),
        ("latest", 100),
        ("20", 20),
        ("shift-by -10", 40),
        ("shift-by +5", 55),
        ("1970-01-01T00:05:00Z", 30),
        ("1970-01-01T01:00:00Z", 100),
        ("600s ago", 40),
    ],
)
def test_reset_target_is_resolved(cluster: MemoryCluster, place: str, offset: int) -> None:
    planned = reset(cluster, place)
    moved: dict[str, tuple[object, object]] = {"offsets.a:0": (50, offset), "offsets.a:1": (50, offset)}
    offsets = {("a", 0): offset, ("a", 1): offset}
    if not place.startswith("shift-by"):
        # The group has no offset in a:2, and needs none to be put somewhere.
        moved |= {"offsets.a:2": (None, offset)}
        offsets |= {("a", 2): offset}
    assert moves(planned.plan) == moved
    assert planned.offsets == offsets


def notes(planned: Reset) -> list[tuple[str, str, str | None]]:
    return [
        (found.code, found.message, found.suggestion)
        for found in planned.plan.diagnostics
        if found.code in {"KF438", "KF439"}
    ]


def test_unchanged_partitions_are_noted(cluster: MemoryCluster) -> None:
    assert notes(reset(cluster, "earliest")) == []
    there = ("KF439", "a:0-1 is not changed: the group is already there", None)
    assert notes(reset(cluster, "50")) == [there]
    message = "a:2 is not changed: the group has no offset there, and shift-by +1 needs one"
    suggestion = "give it an offset with: `kafkaform reset g --to earliest --topic a:2`"
    assert notes(reset(cluster, "shift-by 1")) == [("KF438", message, suggestion)]
    # Whoever chooses partitions knows that there are others.
    assert notes(reset(cluster, "earliest", "a:0")) == []
    planned = reset(cluster, "current")
    assert (planned.plan.changes, planned.offsets) == ((), {("a", 0): 50, ("a", 1): 50})
    assert [code for code, _, _ in notes(planned)] == ["KF438", "KF439"]


def test_offsets_of_file_are_planned_and_missing_ones_noted(cluster: MemoryCluster) -> None:
    request = ResetRequest("g", offsets={("a", 0): 20})
    planned = make_reset(request, cluster, Settings(), None, NOW)
    assert moves(planned.plan) == {"offsets.a:0": (50, 20)}
    ((code, message, suggestion),) = notes(planned)
    assert (code, message.partition(" ")[0]) == ("KF438", "a:1-2")
    assert "`kafkaform reset g --to earliest --topic a:1-2`" in (suggestion or "")
    request = ResetRequest("g", offsets={("a", 0): 50, ("a", 2): 70})
    assert moves(make_reset(request, cluster, Settings(), None, NOW).plan) == {"offsets.a:2": (None, 70)}


@pytest.mark.parametrize(("place", "offset"), [("0", 10), ("999", 100), ("shift-by -99", 10)])
def test_target_outside_log_is_limited(cluster: MemoryCluster, place: str, offset: int) -> None:
    plan = reset(cluster, place, "a:0").plan
    assert moves(plan) == {"offsets.a:0": (50, offset)}
    (note,) = [found for found in plan.diagnostics if found.code == "KF408"]
    assert "(10 to 100)" in note.message
    assert note.message.endswith(f"using {offset}")


def list_skipped(made: Reset) -> list[tuple[str, str | None]]:
    return [
        (diagnostic.message, diagnostic.suggestion)
        for diagnostic in made.plan.diagnostics
        if diagnostic.code == "KF452"
    ]


def test_skipped_open_transaction_is_noted(cluster: MemoryCluster) -> None:
    for age_ms, age, ending in (
        (5_000, "5 seconds", "wait until the transaction has ended"),
        (3_600_000, "60 minutes", "`kafkaform doctor --rule KF311`"),
    ):
        with cluster.transaction("a", 1, transactional_id="tx", age_ms=age_ms):
            cluster.write("a", 1, 3)
            ((message, suggestion),) = list_skipped(reset(cluster, "latest"))
            assert f"transaction 'tx' (producer 1, epoch 0) has been open for {age} in a:1" in message
            assert ending in (suggestion or "")
            # Up to the last stable offset nothing is skipped that could not be read.
            stable = cluster.log_spans([("a", 1)], committed=True)[("a", 1)].end
            assert list_skipped(reset(cluster, str(stable))) == []
            assert len(list_skipped(reset(cluster, str(stable + 1)))) == 1
            assert list_skipped(reset(cluster, "latest", "a:0")) == []
    assert list_skipped(reset(cluster, "latest")) == []


def test_open_transaction_with_unreadable_producer_is_noted(cluster: MemoryCluster) -> None:
    silent = override(cluster, open_transactions=fail(KafkaformError("this login is not possible")))
    with cluster.transaction("a", 1):
        cluster.write("a", 1, 3)
        made = make_reset(ResetRequest("g", Latest()), silent, Settings(), None, NOW)
        ((message, _),) = list_skipped(made)
        assert message.startswith("a transaction has been open in a:1 from offset 100")


def test_reset_is_destructive_and_counts_records(cluster: MemoryCluster) -> None:
    for place, word in (("earliest", "40"), ("latest", "50")):
        (change,) = reset(cluster, place, "a:0").plan.changes
        assert change.status is Status.NEEDS_CONSENT
        assert isinstance(change.change, Update)
        (field,) = change.change.fields
        assert field.assessment.hazard == "offset-reset"
        assert f"{word} records" in field.assessment.reason


def test_reset_is_refused_by_rights_or_rule(cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    target = ClusterSettings("prod", ClientProperties(), forbid=("offset-reset",))
    request = ResetRequest("g", parse_offset("earliest"), allow=(Grant.parse("destructive"),))
    (change,) = make_reset(request, cluster, Settings(), target, NOW).plan.changes
    assert change.status is Status.REFUSED
    monkeypatch.setattr("kafkaform.plan.measuring.time.sleep", lambda _: cluster.commit("g", {("a", 0): 51}))
    (change,) = make_reset(request, cluster, Settings(rules={"KF407": "error"}), None, NOW).plan.changes
    assert change.status is Status.REFUSED
    assert "KF407: g looks empty, but its offset in a:0 went from 50 to 51" in (change.reason or "")


@pytest.mark.parametrize(
    ("group", "place", "topics", "problem"),
    [
        ("gg", "earliest", (), "group 'gg' does not exist"),
        ("g", "earliest", ("b",), "topic 'b' does not exist"),
        ("g", "earliest", ("a:3",), "a has no partition 3"),
        ("g", "shift-by 1", ("a:2",), "no offset in a:2"),
    ],
)
def test_missing_reset_resource_is_refused(
    cluster: MemoryCluster, group: str, place: str, topics: tuple[str, ...], problem: str
) -> None:
    request = ResetRequest(group, parse_offset(place), topics=parse_topics(topics))
    with pytest.raises(KafkaformError, match=problem) as caught:
        make_reset(request, cluster, Settings(), None, NOW)
    assert caught.value.hint


def test_invisible_group_is_refused(cluster: MemoryCluster) -> None:
    cluster.hide(GROUP)
    with pytest.raises(ClusterError, match="not visible"):
        reset(cluster, "earliest")


def apply_again(plan: Plan, cluster: MemoryCluster) -> list[Result]:
    report = apply(plan, cluster, ApplyOptions(clock=FakeClock().clock))
    assert report.complete == all(each.result in {Result.APPLIED, Result.ALREADY} for each in report.results)
    return [each.result for each in report.results]


def test_reset_is_carried_out_once(cluster: MemoryCluster) -> None:
    plan = reset(cluster, "earliest", allow="destructive").plan
    assert apply_again(plan, cluster) == [Result.APPLIED]
    assert cluster.groups(["g"]).groups["g"].committed == {("a", 0): 10, ("a", 1): 10, ("a", 2): 10}
    assert apply_again(plan, cluster) == [Result.ALREADY]
    cluster.commit("g", {("a", 0): 20, ("a", 1): 20})
    assert apply_again(plan, cluster) == [Result.MOVED]
    assert cluster.groups(["g"]).groups["g"].committed == {("a", 0): 20, ("a", 1): 20, ("a", 2): 10}


def test_reset_that_no_longer_fits_is_not_carried_out(cluster: MemoryCluster) -> None:
    plan = reset(cluster, "earliest", "a:0", allow="destructive").plan
    cluster.join("g")
    (found,) = apply(plan, cluster, ApplyOptions(clock=FakeClock().clock)).results
    assert found.result is Result.MOVED
    assert "member" in found.message
    cluster.leave("g")
    cluster.expire("a", 0, 60)
    assert apply_again(plan, cluster) == [Result.FAILED]
    assert cluster.groups(["g"]).groups["g"].committed[("a", 0)] == 50


@pytest.mark.parametrize(
    ("texts", "topics"),
    [
        ((), {}),
        (("a",), {"a": None}),
        (("a:1,2", "a:0", "b:7"), {"a": frozenset({0, 1, 2}), "b": frozenset({7})}),
        (("a:0-2,7",), {"a": frozenset({0, 1, 2, 7})}),
        (("a:1", "a"), {"a": None}),
        (("a", "a:1"), {"a": None}),
    ],
)
def test_topics_are_parsed(texts: tuple[str, ...], topics: dict[str, frozenset[int] | None]) -> None:
    assert parse_topics(texts) == topics


@pytest.mark.parametrize("text", ["", ":1", "a:", "a:x", "a:1,", "a:-1", "a:²", "a:3-1", "a:0-99999999"])
def test_invalid_topic_partitions_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="TOPIC:0,1,2"):
        parse_topics([text])


PARTITIONS = st.tuples(st.text("abcXYZ019._-", min_size=1, max_size=20), st.integers(0, 10_000))


@given(st.dictionaries(PARTITIONS, st.integers(0, 2**63 - 1), min_size=1))
def test_offset_file_is_read_back(wanted: dict[tuple[str, int], int]) -> None:
    assert read_offsets(write_offsets(wanted), "f.csv", "g") == wanted


def test_offset_file_uses_kafka_format_and_locates_errors() -> None:
    assert write_offsets({("b", 0): 7, ("a", 10): 1, ("a", 2): 0}) == "a,2,0\na,10,1\nb,0,7\n"
    assert read_offsets("g,a,0,5\nh,a,0,9\n\n", "f.csv", "g") == {("a", 0): 5}
    assert read_offsets('"a", 0 ,5\r\n', "f.csv", "g") == {("a", 0): 5}
    assert problems("topic,partition,offset\na,0,5\na,0,6\na,-1,5\na,1\n") == [
        "f.csv:1:1: is not an offset",
        "f.csv:3:1: another offset for a:0",
        "f.csv:4:1: is not an offset",
        "f.csv:5:1: is not an offset",
    ]
    assert read_offsets("a,0,5\na,0,5\n", "f.csv", "g") == {("a", 0): 5}


def problems(text: str) -> list[str]:
    with pytest.raises(InvalidInput) as caught:
        read_offsets(text, "f.csv", "g")
    return [f"{problem.location}: {problem.message}" for problem in caught.value.problems]


@pytest.mark.parametrize("text", ["", "\n\n", "h,a,0,5\n"])
def test_file_without_offset_of_group_is_refused(text: str) -> None:
    assert problems(text) == ["f.csv:1:1: no offset of group g"]
