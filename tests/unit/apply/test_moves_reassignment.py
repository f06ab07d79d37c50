"""Moving replicas on a cluster in memory: what is sent, what is waited for, and how it ends."""

from collections.abc import Callable, Collection, Mapping
from itertools import count
from threading import Event
from unittest.mock import Mock

import pytest

from kafkaform.apply.moves.context import PATIENCE_S
from kafkaform.apply.moves.obstacles import STALL_S
from kafkaform.apply.moves.reassignment import HEALTH_WAIT_S, ReassignmentReport
from kafkaform.core.errors import (
    AuditError,
    ClusterError,
    LockLost,
    MovesUnfinished,
    OutcomeUnknown,
    PermissionDenied,
    RequestRejected,
    Unreachable,
)
from kafkaform.core.health import LogDir
from kafkaform.core.lock import Guard, lock_lost_error
from kafkaform.core.partitions import Broker, Replicas, TopicPartition
from kafkaform.core.values import replace
from kafkaform.resources.replicas.layout import Assignment, Layout
from kafkaform.resources.replicas.moves import (
    MoveOptions,
    MoveProgress,
    Rates,
    ThrottledReplicas,
    Throttles,
    WhenBusy,
)
from kafkaform.resources.topic.operations import CreateTopic, DeleteTopic
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.moves import (
    MB,
    Crew,
    LimitedGuard,
    MemoryThrottleJournal,
    fail,
    laid_out,
    now_on,
    override,
    work,
)
from tests.support.plans.scenes import Watched, topic

SINGLE: Assignment = ((1,), (2,), (3,))
TRIPLE: Assignment = ((1, 2, 3), (2, 3, 1), (3, 1, 2))
LISTS = {"a": ThrottledReplicas(frozenset({"0:1"}), frozenset({"0:2"}))}


NO = RequestRejected("a policy says no (POLICY_VIOLATION)", code="POLICY_VIOLATION", hint="ask them")
RACKS = [Broker(number, f"rack-{number}") for number in (1, 2, 3)]
A, B = topic("a"), topic("b")


@pytest.fixture
def memory() -> MemoryCluster:
    """Three brokers, and a topic of 30 MB with one replica of each of three partitions."""
    cluster = MemoryCluster(brokers=RACKS)
    laid_out(cluster, "a", SINGLE)
    cluster.fill(A, 30 * MB)
    cluster.pace(5)
    return cluster


def failure(report: ReassignmentReport, name: str = "a") -> ClusterError:
    found = report.outcomes[topic(name)]
    assert found is not None
    return found


def act_at(moment: int, *acts: Callable[[], object]) -> Callable[..., None]:
    """Act when it is called for the n-th time, from 1 on."""
    left = [moment]

    def step(*_: object) -> None:
        left[0] -= 1
        if left[0] == 0:
            for act in acts:
                act()

    return step


def leave_throttles(memory: MemoryCluster) -> MemoryThrottleJournal:
    """Return the journal of an apply that was killed in its first batch, as the next one has it."""
    journal, killed = MemoryThrottleJournal(), Event()

    def guard() -> None:
        if killed.is_set():
            raise lock_lost_error("it is dead")

    crew = Crew(memory, throttle_journal=journal, guard=guard)
    crew.notes.on_progress = act_at(2, killed.set, crew.stop.set)
    memory.pace(20)
    crew.move(work("a", SINGLE, TRIPLE))
    journal.run = 2
    return journal


def test_added_replicas_are_throttled(memory: MemoryCluster) -> None:
    crew, during = Crew(override(memory, elect_leaders=fail(AssertionError()))), []
    crew.notes.on_progress = act_at(2, lambda: during.append(memory.throttles(["a"])))
    assert crew.move(work("a", SINGLE, TRIPLE)).outcomes == {A: None}  # whose leaders are the preferred ones
    assert now_on(memory, "a") == TRIPLE
    leaders = frozenset({"0:1", "1:2", "2:3"})
    followers = frozenset({"0:2", "0:3", "1:3", "1:1", "2:1", "2:2"})
    rates = dict.fromkeys((1, 2, 3), Rates(MB, MB))
    assert during == [Throttles(rates, {"a": ThrottledReplicas(leaders, followers)})]
    assert not memory.throttles(["a"])
    assert [item.throttles for item in crew.throttle_journal.announced.values()] == during
    assert crew.throttle_journal.gone == list(crew.throttle_journal.announced)


def test_decrease_needs_no_throttle_and_no_record(memory: MemoryCluster) -> None:
    laid_out(memory, "b", TRIPLE)
    unasked = fail(AssertionError())
    crew = Crew(override(memory, throttles=unasked, clear_throttles=unasked, log_dirs=unasked))
    assert crew.move(work("b", TRIPLE, ((1, 2), (2, 3), (3, 1)))).outcomes == {B: None}
    assert now_on(memory, "b") == ((1, 2), (2, 3), (3, 1))
    assert crew.throttle_journal.announced == {}


def test_batch_starts_after_previous_is_in_sync(memory: MemoryCluster) -> None:
    watched = Watched(memory)
    crew = Crew(watched, MoveOptions(throttle=MB, batch_partitions=1))
    assert crew.move(work("a", SINGLE, TRIPLE)).outcomes == {A: None}
    assert [list(request) for request in watched.reassigned] == [[("a", 0)], [("a", 1)], [("a", 2)]]
    running = [(item.batch, item.partitions_done) for item in crew.notes.progress]
    assert running == sorted(running)
    assert {batch: max(d for b, d in running if b == batch) for batch, _ in running} == {1: 1, 2: 2, 3: 3}


def test_progress_of_growing_topic_stays_within_the_total(memory: MemoryCluster) -> None:
    crew = Crew(memory, MoveOptions(throttle=MB, batch_partitions=1))
    crew.notes.on_progress = act_at(1, lambda: memory.fill(A, 33 * MB))
    assert crew.move(work("a", SINGLE, TRIPLE)).outcomes == {A: None}
    first, *_, last = crew.notes.progress
    assert (first.batch, first.batches, first.partitions_done, first.bytes_done) == (1, 3, 0, 0)
    assert (last.batch, last.partitions_done, last.partitions) == (3, 3, 3)
    copied = [item.bytes_done for item in crew.notes.progress]
    assert copied == sorted(copied)
    assert len(set(copied)) > 6
    assert {item.bytes_total for item in crew.notes.progress} == {copied[-1]} == {60 * MB}


def test_preferred_leaders_are_elected_after_moves(memory: MemoryCluster) -> None:
    assert Crew(memory).move(work("a", SINGLE, ((2, 1), (2, 1), (3, 1)))).outcomes == {A: None}
    assert [state.leader for state in memory.layout().topics["a"]] == [2, 2, 3]


def test_replica_out_of_sync_is_not_elected(memory: MemoryCluster) -> None:
    elected = Mock(side_effect=memory.elect_leaders)
    crew = Crew(override(memory, elect_leaders=elected), MoveOptions(throttle=None))
    crew.notes.on_progress = lambda progress: (
        memory.stop_broker(2) if progress.partitions_done == progress.partitions else None
    )
    assert crew.move(work("a", SINGLE, ((2, 1), (1, 2), (1, 3)))).outcomes == {A: None}
    assert [call.args[0] for call in elected.call_args_list] == [[("a", 2)]]
    assert crew.notes.lines == []


def test_partitions_deleted_before_election_are_skipped(memory: MemoryCluster) -> None:
    def remake(progress: MoveProgress) -> None:
        if progress.partitions_done == 3:
            assert memory.execute([DeleteTopic(A, memory.observe([A]).resources[A].uid)]) == [None]
            assert memory.execute([CreateTopic(A, 1, 1, {})]) == [None]

    crew = Crew(memory, MoveOptions(throttle=None))
    crew.notes.on_progress = remake
    assert crew.move(work("a", SINGLE, TRIPLE)).outcomes == {A: None}


def test_failed_election_is_noted(memory: MemoryCluster) -> None:
    crew = Crew(memory, MoveOptions(throttle=None))
    crew.notes.on_progress = lambda progress: (
        memory.fail_next(NO, A) if progress.partitions_done == 3 else None
    )
    assert crew.move(work("a", SINGLE, ((2, 1), (2,), (3,)))).outcomes == {A: None}
    (line,) = crew.notes.lines
    assert f"a-0: {NO.message}" in line


@pytest.mark.parametrize("end", ["stop", "stop while readings lag", "Ctrl-C", "timeout"])
def test_unfinished_moves_are_cancelled(memory: MemoryCluster, end: str) -> None:
    memory.pace(10_000)
    crew = Crew(memory, MoveOptions(throttle=MB, timeout_s=90 if end == "timeout" else None))
    # The controller lists no reassignment any more; a broker still shows the replicas of its target.
    lag = [lambda: memory.lag(3)] if end == "stop while readings lag" else []
    ending = fail(KeyboardInterrupt()) if end == "Ctrl-C" else crew.stop.set
    if end != "timeout":
        crew.notes.on_progress = act_at(2, *lag, ending)
    report = crew.move(work("a", SINGLE, TRIPLE))
    error = failure(report)
    assert "0 of 3 partitions in place" in str(error)
    assert error.hint is not None
    assert ("timeout: 2h" in error.hint) == (end == "timeout")
    assert report.interrupted == (end != "timeout")
    memory.lag(0)
    assert [now_on(memory, "a") for _ in range(4)][-1] == SINGLE
    assert not memory.throttles(["a"])
    if end == "timeout":
        assert "not finished within 90s" in str(error)
        assert sum(crew.time.naps) == pytest.approx(90)


def test_stop_cancels_running_batch_only(memory: MemoryCluster) -> None:
    laid_out(memory, "b", SINGLE)
    crew = Crew(memory, MoveOptions(throttle=MB, batch_partitions=1))
    crew.notes.on_progress = lambda progress: crew.stop.set() if progress.batch == 2 else None
    report = crew.move(work("a", SINGLE, TRIPLE), work("b", SINGLE, TRIPLE))
    assert (report.interrupted, {*report.outcomes}) == (True, {A})
    assert "1 of 3 partitions in place" in str(failure(report))
    assert failure(report).is_partial
    assert (now_on(memory, "a"), now_on(memory, "b")) == ((TRIPLE[0], *SINGLE[1:]), SINGLE)
    assert not memory.layout().reassigning
    assert crew.move(work("b", SINGLE, TRIPLE)).outcomes == {}


def test_cancelled_move_restores_replica_order(memory: MemoryCluster) -> None:
    """Kafka itself would leave 2:1, with a different preferred leader."""
    laid_out(memory, "b", ((1, 2),))
    crew = Crew(memory)
    crew.notes.on_progress = act_at(2, crew.stop.set)
    crew.move(work("b", ((1, 2),), ((2, 3),)))
    assert now_on(memory, "b") == ((1, 2),)


@pytest.mark.parametrize(("requests", "batch", "in_place"), [(1, 3, 0), (2, 1, 1)])
def test_lost_lock_leaves_moves(memory: MemoryCluster, requests: int, batch: int, in_place: int) -> None:
    """It is not asked for again to clean up."""
    memory.pace(2)
    guard = LimitedGuard(requests)
    crew = Crew(memory, MoveOptions(throttle=MB, batch_partitions=batch), guard=guard)
    error = failure(crew.move(work("a", SINGLE, TRIPLE)))
    assert isinstance(error, LockLost)
    assert error.is_partial
    assert f"{in_place} of 3 partitions in place" in error.message
    assert guard.asked == requests + 1
    assert memory.throttles(["a"]).rates.keys() == {1, 2, 3}
    assert [line for line in crew.notes.lines if line.startswith("still set: ")]


@pytest.mark.parametrize("end", ["stopped", "timeout"])
def test_lock_lost_at_the_cancellation_is_reported(memory: MemoryCluster, end: str) -> None:
    """An apply that ended without cancelling anything must not report that it did."""
    memory.pace(10_000)
    guard = LimitedGuard(2)  # the throttles and the first batch
    crew = Crew(memory, MoveOptions(throttle=MB, timeout_s=90 if end == "timeout" else None), guard=guard)
    if end == "stopped":
        crew.notes.on_progress = act_at(2, crew.stop.set)
    report = crew.move(work("a", SINGLE, TRIPLE))
    error = failure(report)
    assert report.interrupted == (end == "stopped")
    assert isinstance(error, LockLost)
    assert error.is_partial
    assert "0 of 3 partitions in place; running moves continue" in error.message
    assert guard.asked == 3
    assert sorted(memory.layout().reassigning or {}) == [("a", 0), ("a", 1), ("a", 2)]


@pytest.mark.parametrize("error", [Unreachable("nobody answers"), KeyboardInterrupt()])
def test_failed_cancellation_is_partial(memory: MemoryCluster, error: BaseException) -> None:
    """Nor is it known of what a second Ctrl-C leaves."""

    def reassign(targets: Mapping[TopicPartition, Replicas | None], guard: Guard) -> object:
        if None in targets.values():
            raise error
        return memory.reassign(targets, guard)

    memory.pace(10_000)
    crew = Crew(override(memory, reassign=reassign))
    crew.notes.on_progress = act_at(2, crew.stop.set)
    report = crew.move(work("a", SINGLE, TRIPLE))
    assert report.interrupted
    assert "0 of 3 partitions in place" in str(failure(report))
    assert failure(report).is_partial
    message = "the running moves could not be cancelled, and may continue: nobody answers"
    assert (message in crew.notes.lines) == isinstance(error, Unreachable)


@pytest.mark.parametrize("filled", [True, False])
def test_topic_with_unsynced_target_is_misplaced(memory: MemoryCluster, filled: bool) -> None:
    """As right after a cancellation, of which the controller knows and the brokers do not yet."""

    layout = memory.layout()
    states = tuple(
        replace(state, replicas=after, isr=after if filled else after[:1])
        for state, after in zip(layout.topics["a"], TRIPLE, strict=True)
    )
    late = replace(layout, topics={**layout.topics, "a": states}, reassigning={})
    cluster = override(memory, layout=lambda _=None: late)
    misplaced = Crew(cluster).reassigner().find_misplaced([work("a", SINGLE, TRIPLE)])
    assert misplaced == (set() if filled else {A})


@pytest.mark.parametrize("removed", [True, False])
def test_throttles_not_removed_are_noted(memory: MemoryCluster, removed: bool) -> None:
    """A request without an answer may have removed them."""

    def clear_throttles(throttles: Throttles, guard: Guard) -> None:
        if removed:
            memory.clear_throttles(throttles, guard)
        raise Unreachable("nobody answers")

    crew = Crew(override(memory, clear_throttles=clear_throttles))
    assert crew.move(work("a", SINGLE, TRIPLE)).outcomes == {A: None}
    assert any("could not be removed: nobody answers" in line for line in crew.notes.lines)
    still_set = [line for line in crew.notes.lines if line.startswith("still set: ")]
    assert ["the throttle of brokers 1, 2, 3" in line for line in still_set] == [True] * (not removed)


def test_moves_of_killed_apply_that_have_ended_need_no_request(memory: MemoryCluster) -> None:
    """There is nothing left to do then but to take its throttles off."""
    journal, second_reading = leave_throttles(memory), act_at(2, lambda: memory.pace(0))

    def layout(topics: Collection[str] | None = None) -> Layout:
        second_reading()
        return memory.layout(topics)

    crew = Crew(override(memory, layout=layout), throttle_journal=journal)
    assert crew.move(work("a", SINGLE, TRIPLE)).outcomes == {A: None}
    assert crew.notes.progress == []
    assert not memory.throttles(["a"])


@pytest.mark.parametrize("announced", [Throttles({1: Rates(MB, MB)}), Throttles({}, LISTS)])
@pytest.mark.parametrize("present", [True, False])
def test_announced_throttles_of_killed_apply_are_cleared(
    memory: MemoryCluster, announced: Throttles, present: bool
) -> None:
    """If it died after it had emptied a list, or before it had set anything, the list may be there."""
    journal = MemoryThrottleJournal()
    journal.announce(announced)
    journal.run = 2
    clear = Mock(side_effect=memory.clear_throttles)
    if present:
        memory.set_throttles(announced)
    crew = Crew(override(memory, clear_throttles=clear), MoveOptions(throttle=None), journal)
    assert crew.move(work("a", SINGLE, SINGLE[:1] + TRIPLE[1:])).outcomes == {A: None}
    needed = present or announced.replicas
    assert [call.args[0] for call in clear.call_args_list] == ([announced] if needed else [])
    assert ["removed the throttles" in line for line in crew.notes.lines] == [True] * present
    assert journal.gone == ["1.0"]


@pytest.mark.parametrize("throttle", [None, MB, 2 * MB])
def test_moves_of_a_killed_apply_are_continued(memory: MemoryCluster, throttle: int | None) -> None:
    journal = leave_throttles(memory)
    watched, during = Watched(memory), []
    crew = Crew(watched, MoveOptions(throttle=throttle), journal)
    crew.notes.on_progress = act_at(2, lambda: during.append(memory.throttles(["a"]).rates))
    assert crew.move(work("a", SINGLE, TRIPLE)).outcomes == {A: None}
    assert watched.reassigned == []
    assert [line for line in crew.notes.lines if line.endswith("already running: 3 partitions")]
    assert len(crew.notes.lines) == (1 if throttle else 2)
    assert during == [dict.fromkeys((1, 2, 3), Rates(throttle, throttle)) if throttle else {}]
    assert not memory.throttles(["a"])
    assert sorted(journal.gone) == sorted(journal.announced)


def test_throttles_of_a_killed_apply_are_removed(memory: MemoryCluster) -> None:
    journal = leave_throttles(memory)
    stopped = Crew(override(memory, layout=fail(Unreachable("nobody answers"))), throttle_journal=journal)
    stopped.stop.set()
    stopped.reassigner().recover()
    assert ["trying again" in line for line in stopped.notes.lines] == [True]
    crew = Crew(memory, throttle_journal=journal)
    crew.reassigner().recover()
    assert ["stay set" in line for line in crew.notes.lines] == [True]
    assert memory.throttles(["a"])
    memory.advance(100)
    crew.reassigner().recover()
    assert not memory.throttles(["a"])
    assert "brokers 1, 2, 3 and throttled replicas of 1 topic (a)" in crew.notes.lines[-1]
    assert journal.gone == list(journal.announced)


def test_changed_throttles_of_a_killed_apply_stay(memory: MemoryCluster) -> None:
    journal = leave_throttles(memory)
    foreign = Throttles({2: Rates(leader=7 * MB)}, {"a": ThrottledReplicas(frozenset({"9:1"}), frozenset())})
    memory.set_throttles(foreign)
    memory.advance(100)
    Crew(memory, throttle_journal=journal).reassigner().recover()
    assert memory.throttles(["a"]) == foreign


def test_throttle_of_stopped_broker_is_removed_by_later_apply(memory: MemoryCluster) -> None:
    journal = leave_throttles(memory)
    memory.advance(100)
    memory.stop_broker(3)
    crew = Crew(memory, throttle_journal=journal)
    crew.reassigner().recover()
    assert "the throttle of brokers 1, 2 and" in crew.notes.lines[0]
    assert "broker 3 is down" in crew.notes.lines[1]
    assert (memory.throttles(["a"]), journal.gone) == (Throttles(), [])
    memory.start_broker(3)
    assert memory.throttles(["a"]).rates == {3: Rates(MB, MB)}
    crew.reassigner().recover()
    assert not memory.throttles(["a"])
    assert journal.gone == list(journal.announced)


def test_unauthorized_throttles_read_no_journal(memory: MemoryCluster) -> None:
    """It moves nothing either: there is nothing to be said about it, and no record to be read."""

    journal = MemoryThrottleJournal()
    journal.read_leftovers = fail(AssertionError())  # type: ignore[method-assign]
    cluster = override(memory, throttles=fail(PermissionDenied("may not describe the brokers")))
    crew = Crew(cluster, throttle_journal=journal)
    crew.reassigner().recover()
    assert crew.notes.lines == []


@pytest.mark.parametrize("partly", [True, False])
def test_throttle_of_broker_stopped_during_move_stays(memory: MemoryCluster, partly: bool) -> None:
    """A request may fail as a whole for the one broker."""

    def clear_throttles(throttles: Throttles, guard: Guard) -> None:
        if not partly and 3 in throttles.rates:
            raise Unreachable("broker 3 is down")
        memory.clear_throttles(throttles, guard)

    laid_out(memory, "b", ((3, 1), (3, 2)))
    crew = Crew(override(memory, clear_throttles=clear_throttles))
    crew.notes.on_progress = lambda p: memory.stop_broker(3) if p.partitions_done == 2 else None
    assert crew.move(work("b", ((3, 1), (3, 2)), ((1, 2), (2, 1)))).outcomes == {B: None}
    assert ["broker 3" in line for line in crew.notes.lines[-2:]] == [True, True]
    assert not any("trying again" in line for line in crew.notes.lines), "nobody waits for a dead broker"
    memory.start_broker(3)
    assert memory.throttles(["a", "b"]) == Throttles({3: Rates(MB, MB)})


def test_foreign_reassignment_refuses_moves(memory: MemoryCluster) -> None:
    laid_out(memory, "b", SINGLE)
    memory.reassign({("b", 1): (2, 1)})
    before = memory.layout().reassigning
    watched = Watched(memory)
    error = failure(Crew(watched).move(work("a", SINGLE, TRIPLE)))
    assert error.message.endswith("b-1 from 2 to 2:1")
    assert "whenBusy: wait" in (error.hint or "")
    assert (watched.reassigned, memory.layout().reassigning) == ([], before)
    assert not memory.throttles(["a"])


def test_foreign_reassignment_to_the_target_is_joined(memory: MemoryCluster) -> None:
    memory.pace(20)
    memory.reassign({("a", 1): TRIPLE[1]})
    crew = Crew(memory)
    crew.notes.on_progress = act_at(2, crew.stop.set)
    assert crew.move(work("a", SINGLE, TRIPLE)).interrupted
    assert (memory.layout().reassigning or {}).keys() == {("a", 1)}
    joined, left = crew.notes.lines
    assert joined.endswith("already running: 1 partition")
    assert left.endswith("the reassignment of a-1")
    assert not memory.throttles(["a"])
    assert Crew(memory).move(work("a", SINGLE, TRIPLE)).outcomes == {A: None}


def test_foreign_reassignment_is_waited_for(memory: MemoryCluster) -> None:
    laid_out(memory, "b", SINGLE)
    memory.pace(40)
    memory.reassign({("b", 1): (2, 1)})
    crew = Crew(memory, MoveOptions(throttle=MB, when_busy=WhenBusy.WAIT))
    crew.notes.on_progress = lambda _: memory.pace(2)
    assert crew.move(work("a", SINGLE, TRIPLE)).outcomes == {A: None}
    waiting = "waiting: a reassignment that this apply did not start is running: b-1 from 2 to 2:1"
    assert crew.notes.lines == [waiting] * 3  # at first, and every 15 s
    assert now_on(memory, "b")[1] == (2, 1)


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ((1, 3), "partition 0: another client is moving it from 1:2 to 1:3"),
        (None, "partition 0: another client cancelled its reassignment"),
    ],
)
def test_partition_moved_or_cancelled_by_another_client_fails(
    memory: MemoryCluster, target: Replicas | None, why: str
) -> None:
    memory.pace(50)
    watched = Watched(memory)
    crew = Crew(watched)
    crew.notes.on_progress = act_at(2, lambda: memory.reassign({("a", 0): target}))
    error = failure(crew.move(work("a", SINGLE, TRIPLE)))
    assert error.message == f"{why}; 2 of 3 partitions in place"
    assert len(watched.reassigned) == 1
    assert now_on(memory, "a")[1:] == TRIPLE[1:]
    assert not memory.throttles(["a"])


def test_foreign_throttles_stay(memory: MemoryCluster) -> None:
    foreign = Throttles(
        {1: Rates(leader=5 * MB), 2: Rates(MB, 3 * MB)},
        {"a": ThrottledReplicas(frozenset({"0:1", "7:1"}), frozenset({"*"}))},
    )
    memory.set_throttles(foreign)
    crew, during = Crew(memory), []
    crew.notes.on_progress = act_at(2, lambda: during.append(memory.throttles(["a"]).rates))
    assert crew.move(work("a", SINGLE, TRIPLE)).outcomes == {A: None}
    assert during == [{1: Rates(5 * MB, MB), 2: Rates(MB, 3 * MB), 3: Rates(MB, MB)}]
    assert memory.throttles(["a"]) == foreign
    first, second = crew.notes.lines
    assert first.endswith("5 MB/s sending")
    assert second.endswith("1 MB/s sending, 3 MB/s receiving")
    # Where others have throttled all of it, nothing is left to set or to remove.
    laid_out(memory, "b", SINGLE)
    everything = ThrottledReplicas(frozenset({"*"}), frozenset({"*"}))
    memory.set_throttles(Throttles(dict.fromkeys((1, 2, 3), Rates(MB, MB)), {"b": everything}))
    watched = override(memory, set_throttles=fail(AssertionError()))
    second_crew = Crew(watched)
    assert second_crew.move(work("b", SINGLE, TRIPLE)).outcomes == {B: None}
    assert second_crew.throttle_journal.announced == {}


@pytest.mark.parametrize(
    ("present", "why"),
    [(((1,), (1,), (3,)), "partition 1 is now on 1; the plan saw 2"), (None, "partition 0 no longer exists")],
)
def test_topic_moved_or_deleted_since_plan_is_skipped(
    memory: MemoryCluster, present: Assignment | None, why: str
) -> None:
    if present:
        laid_out(memory, "b", present)
    watched = Watched(memory)
    report = Crew(watched).move(work("a", SINGLE, TRIPLE), work("b", SINGLE, TRIPLE))
    assert report.outcomes[A] is None
    assert failure(report, "b").message == f"{why}; 0 of 3 partitions in place"
    assert {key[0] for request in watched.reassigned for key in request} == {"a"}
    assert not failure(Crew(memory).move(work("b", SINGLE, TRIPLE)), "b").is_partial


def test_unhealthy_cluster_starts_no_move(memory: MemoryCluster) -> None:
    laid_out(memory, "b", ((1, 2), (2, 3)))
    memory.stop_broker(3)
    watched = Watched(memory)
    crew = Crew(watched)
    error = failure(crew.move(work("a", ((1,),), ((1, 2),))))
    sick = "the cluster is not healthy: a-2 without a leader; b-1 not in sync on broker 3"
    assert error.message == sick
    assert crew.notes.lines[0] == f"waiting: {sick}"
    assert sum(crew.time.naps) == pytest.approx(HEALTH_WAIT_S)
    assert watched.reassigned == []


def test_broker_stopped_during_move_is_awaited(memory: MemoryCluster) -> None:
    crew = Crew(memory)

    def step(progress: MoveProgress) -> None:
        if len(crew.notes.progress) == 2:
            memory.stop_broker(3)
        elif progress.stalled:
            memory.start_broker(3)

    crew.notes.on_progress = step
    assert crew.move(work("a", ((1,), (2,)), ((1, 2), (2, 3)))).outcomes == {A: None}
    stalled = {item.stalled for item in crew.notes.progress}
    assert stalled == {"", "broker 3 down, the target of a-1: start it again"}
    assert sum(crew.time.naps) > STALL_S
    assert not memory.throttles(["a"])


@pytest.mark.parametrize("error", [Unreachable("nobody answers"), OutcomeUnknown("no answer in time")])
@pytest.mark.parametrize("carried_out", [False, True])
def test_reassignment_without_response_is_read_back(
    memory: MemoryCluster, error: ClusterError, *, carried_out: bool
) -> None:
    memory.fail_next(error, A, carried_out=carried_out)
    crew = Crew(memory, MoveOptions(throttle=None))
    assert crew.move(work("a", SINGLE, TRIPLE)).outcomes == {A: None}
    assert now_on(memory, "a") == TRIPLE


def test_unreachable_cluster_ends_moves(memory: MemoryCluster) -> None:
    readings = count(1)

    def layout(topics: Collection[str] | None = None) -> Layout:
        if next(readings) > 3:
            raise Unreachable("nobody answers")
        return memory.layout(topics)

    crew = Crew(override(memory, layout=layout))
    error = failure(crew.move(work("a", SINGLE, TRIPLE)))
    assert error.message == "nobody answers; 0 of 3 partitions in place"
    assert "run the same apply again" in (error.hint or "")
    assert sum(crew.time.naps) >= PATIENCE_S
    assert "the cluster does not answer, trying again: nobody answers" in crew.notes.lines
    assert "the running moves could not be cancelled, and may continue: nobody answers" in crew.notes.lines
    assert not any("all replicas are in place" in line for line in crew.notes.lines)
    assert not memory.throttles(["a"])


def test_refused_partition_fails_own_topic_only(memory: MemoryCluster) -> None:
    laid_out(memory, "b", SINGLE)
    memory.fail_next(NO, B)
    crew = Crew(memory, MoveOptions(throttle=None))
    report = crew.move(work("a", SINGLE, TRIPLE), work("b", SINGLE, TRIPLE))
    assert report.outcomes[A] is None
    error = failure(report, "b")
    assert isinstance(error, MovesUnfinished)
    assert error.message == f"partition 0: {NO.message}; 2 of 3 partitions in place"
    assert error.hint == "ask them"


def test_moves_without_a_journal_are_not_begun(memory: MemoryCluster) -> None:
    broken, watched = MemoryThrottleJournal(), Watched(memory)
    broken.announce = fail(AuditError("it cannot be written", hint="mend that"))  # type: ignore[method-assign]
    error = failure(Crew(watched, throttle_journal=broken).move(work("a", SINGLE, TRIPLE)))
    assert "it cannot be written" in error.message
    assert error.hint == "mend that"
    assert (watched.reassigned, memory.throttles(["a"])) == ([], Throttles())


def test_moves_need_listed_reassignments(memory: MemoryCluster) -> None:
    journal = leave_throttles(memory)
    blind = replace(memory.layout(), reassigning=None)
    crew = Crew(override(memory, layout=lambda _=None: blind), throttle_journal=journal)
    error = failure(crew.move(work("a", SINGLE, TRIPLE)))
    assert isinstance(error, PermissionDenied)
    assert "Describe on the cluster" in error.message
    assert str(error.hint).endswith(" --operation Describe --cluster`")


def test_batch_that_no_longer_fits_is_not_started(memory: MemoryCluster) -> None:
    """Somebody fills the disk of broker 3 while the first batch is copied; what goes elsewhere goes on."""
    laid_out(memory, "b", ((1,),))
    memory.fill(B, MB)
    memory.pace(10)
    batches: dict[int, None] = {}

    def fill_disk(progress: MoveProgress) -> None:
        batches[progress.batch] = None
        if progress.partitions_done == 1:
            memory.set_log_dirs(3, LogDir(3, "/data", 100 * MB, 20 * MB))

    crew = Crew(memory, MoveOptions(throttle=MB, batch_partitions=1))
    crew.notes.on_progress = fill_disk
    found = crew.move(work("a", SINGLE, TRIPLE), work("b", ((1,),), ((2,),)))
    assert found.outcomes[B] is None
    assert [*batches] == [1, 4], "nothing is told of those of a"
    error = found.outcomes[A]
    assert isinstance(error, MovesUnfinished)
    assert error.message.startswith("broker 3 cannot hold its largest replica: 9.5 MiB; 19.1 MiB usable")
    assert error.message.endswith("1 of 3 partitions in place")
    assert "enlarge its volume" in str(error.hint)
    assert not memory.layout().reassigning
    assert not memory.throttles(["a", "b"])


@pytest.mark.parametrize(("method", "notes"), [("log_dirs", 1), ("replica_sizes", 3), ("read_leftovers", 1)])
def test_unreadable_sizes_or_journal_stop_no_batch(memory: MemoryCluster, method: str, notes: int) -> None:
    denied = fail(PermissionDenied("this account may not"))
    crew = Crew(override(memory, **{method: denied}))
    setattr(crew.throttle_journal, method, denied)
    assert crew.move(work("a", SINGLE, TRIPLE)).outcomes == {A: None}
    assert len(crew.notes.lines) == notes
    assert crew.notes.lines[0].endswith("this account may not")


def test_replicas_being_removed_do_not_count_as_in_sync(memory: MemoryCluster) -> None:
    laid_out(memory, "b", ((1, 2),))
    memory.stop_broker(3)
    memory.reassign({("b", 0): (1, 3)})
    crew = Crew(memory, MoveOptions(timeout_s=60))
    error = failure(crew.reassigner().wait_in_sync({B: 2}), "b")
    assert str(error).startswith("not finished within 1m")


def test_lock_lost_after_moves_is_noted(memory: MemoryCluster) -> None:
    crew = Crew(memory, guard=LimitedGuard(2))
    assert crew.move(work("a", SINGLE, TRIPLE)).outcomes == {A: None}
    assert any(line.startswith("all replicas are in place, but ") for line in crew.notes.lines)


def test_moves_not_begun_are_not_in_place(memory: MemoryCluster) -> None:
    def set_throttles(throttles: Throttles, *_: object) -> None:
        memory.set_throttles(throttles)
        crew.stop.set()
        raise Unreachable("the answer was lost")

    crew = Crew(override(memory, set_throttles=set_throttles), guard=LimitedGuard(0))
    report = crew.move(work("a", SINGLE, TRIPLE))
    assert (report.outcomes, report.interrupted) == ({}, True)
    assert [line for line in crew.notes.lines if "in place" in line] == []


def test_removal_of_throttles_is_repeated(memory: MemoryCluster) -> None:
    failures = [Unreachable("nobody answers")]

    def clear_throttles(throttles: Throttles, guard: Guard) -> None:
        if failures:
            raise failures.pop()
        memory.clear_throttles(throttles, guard)

    crew = Crew(override(memory, clear_throttles=clear_throttles))
    crew.throttle_journal.record_removal = fail(AuditError("it cannot be written"))
    assert crew.move(work("a", SINGLE, TRIPLE)).outcomes == {A: None}
    repeated, unrecorded = crew.notes.lines
    assert repeated.endswith("trying again: nobody answers")
    assert unrecorded.endswith("could not be recorded: it cannot be written")
    assert not memory.throttles(["a"])


def test_missing_record_is_noted_once(memory: MemoryCluster) -> None:
    journal = MemoryThrottleJournal()
    journal.kept = False
    crew = Crew(memory, MoveOptions(throttle=MB, batch_partitions=1), throttle_journal=journal)
    assert crew.move(work("a", SINGLE, TRIPLE)).outcomes == {topic("a"): None}
    (line,) = crew.notes.lines
    assert line.startswith("no record is kept")
