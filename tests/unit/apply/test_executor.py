"""Applying: what is done in which order, what is left alone, and what is said about it."""

from collections.abc import Mapping, Sequence
from threading import Event
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaform.apply.change_execution import Observer
from kafkaform.apply.executor import VERIFY_TIMEOUT_S, ApplyOptions, apply
from kafkaform.apply.moves.reassignment import HEALTH_WAIT_S
from kafkaform.cluster.protocol import Cluster
from kafkaform.core.acl_fields import parse_path
from kafkaform.core.apply_result import ApplyReport, ResourceResult, Result
from kafkaform.core.errors import (
    AuditError,
    AuthenticationFailed,
    ClusterError,
    OutcomeUnknown,
    PermissionDenied,
    RequestRejected,
    Unreachable,
)
from kafkaform.core.lock import Guard, lock_lost_error
from kafkaform.core.model import Desired, FieldValue, Intent, Observation, ResourceRef, State, Status
from kafkaform.core.operations import MAX_WEIGHT, AlterConfigs, Operation
from kafkaform.core.partitions import Replicas, TopicPartition
from kafkaform.core.plans import Plan
from kafkaform.core.values import replace
from kafkaform.resources.consumer_group.operations import CommitInitialOffsets
from kafkaform.resources.replicas.facts import get_replicas
from kafkaform.resources.replicas.moves import MoveOptions, MoveProgress
from kafkaform.resources.replicas.operations import AlterConfigsInSync, Reassign
from kafkaform.resources.topic.operations import AddPartitions, CreateTopic, DeleteTopic
from tests.support.builds import builds
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.moves import LimitedGuard, MemoryThrottleJournal, Notes, fail, override
from tests.support.plans.scenes import (
    DAY,
    WEEK,
    FakeClock,
    Watched,
    absent,
    create_topic,
    declare_reader,
    declare_topic,
    judge_saved,
    plan_for,
    state_of,
    topic,
)
from tests.support.plans.strategies import examples

NO = RequestRejected("a policy says no (POLICY_VIOLATION)", code="POLICY_VIOLATION", hint="ask them")
LOST = OutcomeUnknown("no answer in time")


@pytest.fixture
def time() -> FakeClock:
    return FakeClock()


def carry_out(plan: Plan, cluster: Cluster, time: FakeClock, **options: Any) -> ApplyReport:
    return apply(plan, cluster, ApplyOptions(clock=time.clock, **options))


def results(report: ApplyReport) -> dict[str, Result]:
    return {result.planned.ref.name: result.result for result in report.results}


def result_of(report: ApplyReport, name: str) -> ResourceResult:
    (found,) = (result for result in report.results if result.planned.ref.name == name)
    return found


def sorts(operations: Sequence[Operation]) -> list[type[Operation]]:
    return [type(operation) for operation in operations]


def test_reversible_operations_precede_deletion(memory: MemoryCluster, time: FakeClock) -> None:
    for name in ("changed", "doomed"):
        create_topic(memory, name)
    desired = [absent("doomed"), declare_topic("changed", 6, retention_ms=WEEK), declare_topic("new", 2)]
    plan, watched = plan_for(memory, *desired), Watched(memory)
    report = carry_out(plan, watched, time)
    assert report.complete
    in_order = [CreateTopic, AlterConfigs, AddPartitions, DeleteTopic]
    assert [sorts(request) for request in watched.requests] == [[stage] for stage in in_order]
    assert results(report) == dict.fromkeys(("changed", "doomed", "new"), Result.APPLIED)
    assert plan_for(memory, *desired).changes == ()
    again = carry_out(plan, watched, time)
    assert again.complete
    assert results(again) == dict.fromkeys(("changed", "doomed", "new"), Result.ALREADY)
    assert all(result.done == result.not_done == () for result in again.results)
    assert len(watched.requests) == len(in_order)


@pytest.mark.parametrize(
    ("size", "skipped", "error"),
    [((6, 1), AddPartitions, NO), ((3, 3), Reassign, NO), ((6, 1), AddPartitions, LOST)],
)
def test_failed_config_operation_skips_following_operations(
    memory: MemoryCluster, time: FakeClock, size: tuple[int, int], skipped: object, error: ClusterError
) -> None:
    """Of one without an answer, a reading shows that it was carried out."""
    for name in ("bad", "good"):
        create_topic(memory, name)
    desired = (declare_topic(name, *size, retention_ms=WEEK) for name in ("bad", "good"))
    plan = plan_for(memory, *desired)
    memory.fail_next(error, topic("bad"), carried_out=error is LOST)
    report = carry_out(plan, memory, time)
    assert results(report) == {"bad": Result.FAILED, "good": Result.APPLIED}
    bad = result_of(report, "bad")
    assert (bad.message, bad.hint) == (error.message, error.hint)
    done, changed = ([AlterConfigs], {"retention.ms": WEEK}) if error is LOST else ([], {})
    assert (sorts(bad.done), sorts([*bad.done, *bad.not_done])) == (done, [AlterConfigs, skipped])
    assert state_of(memory, "bad") == {"partitions": 3, "replicationFactor": 1, **changed}


def test_requests_are_bounded(memory: MemoryCluster, time: FakeClock) -> None:
    watched = Watched(memory)
    desired = [declare_topic(f"t{number:04}", 12, retention_ms=WEEK) for number in range(1000)]
    report = carry_out(plan_for(watched, *desired), watched, time)
    assert report.complete
    for requests in (watched.requests, watched.checks):
        weights = [sum(operation.weight for operation in request) for request in requests]
        assert [weight <= MAX_WEIGHT for weight in weights] == [True] * 3
        assert sum(map(len, requests)) == 1000
    assert len(memory.executed) == 1000
    assert watched.readings
    assert min(map(len, watched.readings)) == 1000  # nothing is asked about one topic alone


def test_unchanged_plan_reads_nothing(memory: MemoryCluster, time: FakeClock) -> None:
    create_topic(memory, "a")
    watched = Watched(memory)
    report = carry_out(plan_for(memory, declare_topic("a")), watched, time)
    assert report.complete
    assert (watched.readings, watched.requests, time.naps) == ([], [], [])


def test_passed_observation_is_not_read_again(memory: MemoryCluster, time: FakeClock) -> None:
    now, watched = judge_saved(plan_for(memory, declare_topic("a")), memory), Watched(memory)
    assert apply(now.plan, watched, ApplyOptions(clock=time.clock), now.observation).complete
    assert len(watched.readings) == 1  # afterwards


@pytest.mark.parametrize("desired", [declare_topic("a", 6), absent("a")])
def test_recreated_topic_is_skipped(memory: MemoryCluster, time: FakeClock, desired: Desired) -> None:
    uid = create_topic(memory, "a")
    plan = plan_for(memory, desired)
    memory.execute([DeleteTopic(topic("a"), uid)])
    create_topic(memory, "a")
    before = list(memory.executed)
    report = carry_out(plan, memory, time)
    assert results(report) == {"a": Result.MOVED}
    assert "created again since the plan" in result_of(report, "a").message
    assert memory.executed == before


@pytest.mark.parametrize("error", [Unreachable("nobody there"), AuthenticationFailed("go away")])
def test_unreachable_cluster_gets_no_further_requests(
    memory: MemoryCluster, time: FakeClock, error: ClusterError
) -> None:
    create_topic(memory, "z")
    plan = plan_for(memory, declare_topic("a"), declare_topic("b"), declare_topic("z", 6))
    watched = Watched(memory, before=fail(error))
    report = carry_out(plan, watched, time)
    assert len(watched.requests) == 1
    assert results(report) == {"a": Result.FAILED, "b": Result.FAILED, "z": Result.NOT_TRIED}
    known = isinstance(error, AuthenticationFailed)  # not carried out, for sure
    unverified = "" if known else "; not verified: the cluster does not show the change yet"
    assert result_of(report, "a").message == error.message + unverified
    assert bool(time.naps) is not known
    assert error.message in result_of(report, "z").message
    assert sorts(result_of(report, "z").not_done) == [AddPartitions]


@pytest.mark.parametrize(
    ("desired", "sort"),
    [
        (declare_topic("a"), CreateTopic),
        (declare_topic("a", retention_ms=WEEK), AlterConfigs),
        (declare_topic("a", 6), AddPartitions),
        (absent("a"), DeleteTopic),
    ],
)
@pytest.mark.parametrize("error", [LOST, Unreachable("connection lost"), ClusterError("the client failed")])
@pytest.mark.parametrize("carried_out", [True, False])
def test_unknown_outcome_is_read_back(
    memory: MemoryCluster,
    time: FakeClock,
    desired: Desired,
    sort: type[Operation],
    error: ClusterError,
    carried_out: bool,
) -> None:
    if sort is not CreateTopic:
        create_topic(memory, "a")
    plan = plan_for(memory, desired)
    before = state_of(memory, "a")
    memory.lag(4)
    memory.fail_next(error, topic("a"), carried_out=carried_out)
    item = result_of(carry_out(plan, memory, time), "a")
    memory.lag(0)
    if carried_out:
        assert item.result is Result.APPLIED
        assert (sorts(item.done), item.not_done) == ([sort], ())
        assert len(time.naps) == 4
        assert plan_for(memory, desired).changes == ()
    else:
        assert item.result is Result.FAILED
        assert (item.done, sorts(item.not_done), sorts(item.in_doubt)) == ((), [sort], [sort])
        assert item.message.startswith(f"{error.message}; not verified: ")
        assert item.hint is not None
        assert sum(time.naps) >= VERIFY_TIMEOUT_S
        assert state_of(memory, "a") == before


def test_concurrent_equal_change_is_already_applied(memory: MemoryCluster, time: FakeClock) -> None:
    again, doomed = (create_topic(memory, name) for name in ("again", "doomed"))
    plan = plan_for(memory, declare_topic("same"), declare_topic("other"), absent("again"), absent("doomed"))

    def meanwhile(batch: Sequence[Operation]) -> None:
        if sorts(batch) == [CreateTopic, CreateTopic]:
            memory.execute([CreateTopic(topic("same"), 3, 1, {}), CreateTopic(topic("other"), 4, 1, {})])
        elif sorts(batch) == [DeleteTopic, DeleteTopic]:
            memory.execute([DeleteTopic(topic("again"), again), DeleteTopic(topic("doomed"), doomed)])
            create_topic(memory, "again", 1)

    report = carry_out(plan, Watched(memory, before=meanwhile), time)
    assert results(report) == {
        **dict.fromkeys(("same", "doomed"), Result.ALREADY),
        **dict.fromkeys(("other", "again"), Result.MOVED),
    }
    assert "partitions 4 instead of 3" in result_of(report, "other").message
    assert [result.done for result in report.results] == [()] * 4
    assert state_of(memory, "again") == {"partitions": 1, "replicationFactor": 1}


@pytest.mark.parametrize("answered", [True, False])
def test_topic_recreated_by_client_is_reported(
    memory: MemoryCluster, time: FakeClock, answered: bool
) -> None:
    create_topic(memory, "a")
    plan = plan_for(memory, absent("a"))
    if not answered:
        memory.fail_next(LOST, topic("a"), carried_out=True)
    report = carry_out(plan, Watched(memory, after=lambda _: create_topic(memory, "a", 1)), time)
    item = result_of(report, "a")
    assert (item.result, sorts(item.done)) == (Result.FAILED, [DeleteTopic])
    assert item.message.startswith("deleted, ")
    assert item.hint is not None
    assert "producer" in item.hint
    assert not report.complete


@pytest.mark.parametrize(
    ("desired", "reason"),
    [
        (declare_topic("a", 6), "partitions is now 9; the plan saw 3 and sets 6"),
        (declare_topic("a", 3, retention_ms=WEEK), "it was deleted and created again since the plan"),
        (absent("a"), "it is no longer visible to this account"),
    ],
)
def test_topic_changed_during_verification_is_not_verified(
    memory: MemoryCluster, time: FakeClock, desired: Desired, reason: str
) -> None:
    uid = create_topic(memory, "a")
    plan = plan_for(memory, desired)

    def change(batch: Sequence[Operation]) -> None:
        match batch:
            case [AddPartitions()]:
                memory.execute([AddPartitions(topic("a"), 6, 9)])
            case [AlterConfigs()]:
                memory.execute([DeleteTopic(topic("a"), uid)])
                create_topic(memory, "a")
            case _:
                memory.hide(topic("a"))

    item = result_of(carry_out(plan, Watched(memory, after=change), time), "a")
    assert item.result is Result.FAILED
    assert item.message.startswith(f"not verified: {reason}")
    assert (len(item.done), item.not_done) == (1, ())


def test_verification_pauses_grow_with_waiting_time(memory: MemoryCluster, time: FakeClock) -> None:
    plan = plan_for(memory, declare_topic("a"))
    start = time.time
    memory.lag(40)  # readings
    assert carry_out(plan, memory, time).complete
    assert len(time.naps) == 40
    waited = 0.0
    for nap in time.naps:
        assert nap == pytest.approx(min(max(waited / 5, 0.02), 1.0))
        waited += nap
    assert start + waited == pytest.approx(time.time)


def test_verification_continues_while_changes_appear(memory: MemoryCluster, time: FakeClock) -> None:
    """Brokers take up a large plan piece by piece, which in all may take longer than a piece may take."""
    names = [f"t{number}" for number in range(5)]
    plan = plan_for(memory, *map(declare_topic, names))
    start = time.time

    def observe_fields(fields: Mapping[ResourceRef, State]) -> Observation:
        seen = memory.observe_fields(fields)
        shown = set(names[: int((time.time - start) / (VERIFY_TIMEOUT_S - 5))])
        return replace(seen, resources={r: o for r, o in seen.resources.items() if r.name in shown})

    assert carry_out(plan, override(memory, observe_fields=observe_fields), time).complete
    assert sum(time.naps) > 4 * (VERIFY_TIMEOUT_S - 5)


def test_offsets_are_committed_after_topics_appear(memory: MemoryCluster, time: FakeClock) -> None:
    requests: list[tuple[list[type[Operation]], int]] = []
    watched = Watched(memory, before=lambda batch: requests.append((sorts(batch), len(time.naps))))
    plan = plan_for(memory, declare_topic("new"), declare_reader("new"))
    memory.lag(3)
    assert carry_out(plan, watched, time).complete
    assert requests == [([CreateTopic], 0), ([CommitInitialOffsets], 3)]


def test_only_denial_on_a_doomed_topic_waits_for_its_deletion(memory: MemoryCluster, time: FakeClock) -> None:
    opened = []
    for name in ("doomed", "kept"):
        create_topic(memory, name)
        memory._contents.acls.add(parse_path(f"deny Write on topic {name}", f"User:{name}"))
        memory.fail_next(NO, topic(name))
        opened.append(Desired(ResourceRef("Access", f"User:{name}"), None))
    desired = (absent("doomed"), declare_topic("kept", 6), declare_reader("doomed"))
    report = carry_out(plan_for(memory, *desired, *opened, allow="destructive"), memory, time)
    failed = {name for name, result in results(report).items() if result is Result.FAILED}
    assert (failed, len(report.results)) == ({"doomed", "kept", "User:doomed"}, 5)
    assert "Topic/doomed" in result_of(report, "User:doomed").message


@pytest.mark.parametrize("last", [4, 10**6])
def test_readings_that_fail_are_repeated(memory: MemoryCluster, time: FakeClock, last: int) -> None:
    """A refused request needs none."""
    create_topic(memory, "half")
    plan = plan_for(
        memory, declare_topic("a"), declare_topic("b"), declare_topic("half", 6, retention_ms=WEEK)
    )
    memory.fail_next(NO, topic("b"))
    watched = Watched(memory)

    def fail_reading() -> None:
        if 2 <= len(watched.readings) < last:
            raise Unreachable("nobody there")

    def refuse(batch: Sequence[Operation]) -> None:
        if sorts(batch) == [AddPartitions]:
            memory.fail_next(NO, topic("half"))

    watched.reading, watched.before = fail_reading, refuse
    report = carry_out(plan, watched, time)
    assert sorts(result_of(report, "a").done) == [CreateTopic]
    half = result_of(report, "half")
    assert (sorts(half.done), sorts(half.not_done)) == ([AlterConfigs], [AddPartitions])
    assert result_of(report, "b").message == NO.message
    if last == 4:
        assert results(report) == {"a": Result.APPLIED, "b": Result.FAILED, "half": Result.FAILED}
        assert (half.message, len(time.naps)) == (NO.message, 2)
    else:
        assert results(report) == dict.fromkeys(("a", "b", "half"), Result.FAILED)
        assert result_of(report, "a").message == "not verified: nobody there"
        assert half.message == f"{NO.message}; not verified: nobody there"


def test_stop_during_last_request_does_not_interrupt(memory: MemoryCluster, time: FakeClock) -> None:
    stop = Event()
    watched = Watched(memory, after=lambda _: stop.set())
    assert carry_out(plan_for(memory, declare_topic("a")), watched, time, stop=stop).complete


@pytest.mark.parametrize(
    ("end", "message"),
    [
        ("stop", "stopped; 0 of 3 partitions in place"),
        ("Ctrl-C", "stopped; 0 of 3 partitions in place"),
        ("Ctrl-C twice", "abandoned while waiting for the answer"),
        ("timeout", "not finished within 1m; 0 of 3 partitions in place"),
    ],
)
def test_cancelled_moves_are_not_done(memory: MemoryCluster, time: FakeClock, end: str, message: str) -> None:
    """Right after a cancellation, brokers may name the new replicas and the controller no reassignment."""
    create_topic(memory, "a", 3, 1)
    plan = plan_for(memory, declare_topic("a", 3, 3), allow="destructive")
    memory.pace(10**6)
    stop = Event()

    def reassign(targets: Mapping[TopicPartition, Replicas | None], guard: Guard) -> object:
        if None not in targets.values():
            if end != "timeout":
                stop.set()
            return memory.reassign(targets, guard)
        running = memory.observe_fields({topic("a"): {"placement": None, "replicationFactor": None}})
        resources = {
            ref: replace(found, live=replace(get_replicas(found), moving=frozenset()))
            for ref, found in running.resources.items()
        }
        cancelled = replace(running, resources=resources)
        vars(late).update(
            observe_fields=lambda _: cancelled,
            layout=lambda topics=None: replace(memory.layout(topics), reassigning={}),
        )
        if end == "stop":
            return memory.reassign(targets, guard)
        if end == "Ctrl-C twice":
            vars(late).update(throttles=fail(KeyboardInterrupt()))
        raise Unreachable("nobody there") if end == "timeout" else KeyboardInterrupt

    late, moves = override(memory, reassign=reassign), MoveOptions(timeout_s=60 if end == "timeout" else None)
    options = {"stop": stop, "throttle_journal": MemoryThrottleJournal(), "moves": moves}
    report = carry_out(plan, late, time, **options)
    item = result_of(report, "a")
    assert report.interrupted == (end != "timeout")
    assert (item.result, item.done) == (Result.FAILED, ())
    unproven = "; not verified: its replicas are still being moved, or moved back" if end != "stop" else ""
    assert item.message == f"{message}{unproven}"
    # Only where nobody has stopped it, the cluster is read again and again.
    waited = sum(time.naps)
    assert waited > 60 + VERIFY_TIMEOUT_S if end == "timeout" else waited < VERIFY_TIMEOUT_S


def test_abandoned_reading_is_reported(memory: MemoryCluster, time: FakeClock) -> None:
    plan = plan_for(memory, declare_topic("a"))
    memory.lag(10**6)
    watched = Watched(memory)

    def interrupt() -> None:
        if len(watched.readings) == 3:
            raise KeyboardInterrupt

    watched.reading = interrupt
    report = carry_out(plan, watched, time)
    item = result_of(report, "a")
    assert report.interrupted
    assert item.result is Result.FAILED
    assert item.message.startswith("not verified: abandoned")
    # It was acknowledged, and no reading showed it.
    assert (item.done, sorts(item.in_doubt)) == ((), [CreateTopic])


@pytest.mark.parametrize(
    ("configs", "replicas", "result"),
    [
        pytest.param({"retention_ms": WEEK}, 3, Result.APPLIED, id="carried out by somebody"),
        pytest.param({"retention_ms": WEEK}, 2, Result.MOVED, id="moved: the rest waits"),
        pytest.param({}, 1, Result.REFUSED, id="nothing else"),
    ],
)
def test_deferred_field_is_checked_against_live_replicas(
    memory: MemoryCluster, time: FakeClock, configs: Any, replicas: int, result: Result
) -> None:
    create_topic(memory, "a")
    blind = override(memory, layout=fail(PermissionDenied("no right to see that")))
    plan = plan_for(blind, declare_topic("a", 3, 3, **configs))
    memory.replicate(topic("a"), [replicas] * 3)
    before = len(memory.executed)
    report = carry_out(plan, memory, time)
    assert results(report) == {"a": result}
    assert report.complete == (result is Result.APPLIED)
    assert (len(memory.executed) > before) == (result is Result.APPLIED)


def note_order(memory: MemoryCluster) -> tuple[Watched, list[tuple[type[Operation], int]]]:
    """Return a cluster that notes what it was asked, in order, and the replicas in sync when it was."""
    asked: list[tuple[type[Operation], int]] = []

    def note(*kinds: type[Operation]) -> None:
        in_sync = min(len(state.isr) for state in memory.layout().topics["a"])
        asked.extend((sort, in_sync) for sort in kinds)

    def reassign(*request: Any) -> Mapping[TopicPartition, ClusterError | None]:
        note(Reassign)
        return memory.reassign(*request)

    watched = override(memory, reassign=reassign)
    watched.before = lambda batch: note(*sorts(batch))
    return watched, asked


def test_min_isr_is_raised_after_replica_moves(memory: MemoryCluster, time: FakeClock) -> None:
    create_topic(memory, "a")
    memory.pace(10)
    watched, asked = note_order(memory)
    plan = plan_for(memory, declare_topic("a", 6, 3, min_insync_replicas="2", retention_ms=WEEK))
    report = carry_out(plan, watched, time)
    assert report.complete
    assert asked == [(AlterConfigs, 1), (AddPartitions, 1), (Reassign, 1), (AlterConfigsInSync, 3)]
    wanted = {"partitions": 6, "replicationFactor": 3, "min.insync.replicas": "2", "retention.ms": WEEK}
    assert state_of(memory, "a") == wanted
    assert sorts(result_of(report, "a").done) == [sort for sort, _ in asked]
    assert carry_out(plan, memory, time).complete


def test_min_isr_is_lowered_before_replica_moves(memory: MemoryCluster, time: FakeClock) -> None:
    create_topic(memory, "a", 3, 3, min_insync_replicas="2")
    watched, asked = note_order(memory)
    desired = declare_topic("a", 3, 1, min_insync_replicas="1", allow={"durability": "TICKET-1"})
    assert carry_out(plan_for(memory, desired, allow="destructive"), watched, time).complete
    assert asked == [(AlterConfigs, 3), (Reassign, 3)]


@pytest.mark.parametrize("end", ["lock lost", "stopped", "Ctrl-C"])
def test_min_isr_is_not_raised_if_moves_end_early(memory: MemoryCluster, time: FakeClock, end: str) -> None:
    """Neither of what waits for replicas, nor of what has had them before: `ready` has them all along."""
    create_topic(memory, "moved")
    create_topic(memory, "ready", 3, 3)
    memory.pace(10)
    plan = plan_for(memory, *(declare_topic(n, 3, 3, min_insync_replicas="2") for n in ("moved", "ready")))
    ended, stop, notes = Event(), Event(), Notes()

    def step(progress: MoveProgress) -> None:
        if progress.partitions_done == 1 and not ended.is_set():
            ended.set()
            if end == "stopped":
                stop.set()
            elif end == "Ctrl-C":
                raise KeyboardInterrupt

    def guard() -> None:
        if ended.is_set() and end == "lock lost":
            raise lock_lost_error("bob has it")

    notes.on_progress = step
    watched, moves = Watched(memory), MoveOptions(batch_partitions=1)
    report = carry_out(plan, watched, time, stop=stop, observer=notes, guard=guard, moves=moves)
    assert ended.is_set()
    assert watched.requests == []
    assert not report.complete
    item = result_of(report, "moved")
    assert "1 of 3 partitions in place" in item.message
    assert "not verified" not in item.message
    assert (sorts(item.not_done), sorts(item.in_doubt)) == ([Reassign, AlterConfigsInSync], [Reassign])


@pytest.mark.parametrize("stopped", [True, False])
def test_min_isr_is_not_raised_before_replicas_are_in_sync(
    memory: MemoryCluster, time: FakeClock, stopped: bool
) -> None:
    create_topic(memory, "a", 3, 3)
    plan = plan_for(memory, declare_topic("a", 3, 3, min_insync_replicas="2"))
    for broker in (1, 2):
        memory.stop_broker(broker)
    watched, stop = Watched(memory), Event()
    observer = Mock(spec=Observer)
    if stopped:
        observer.show_line.side_effect = lambda _: stop.set()
    report = carry_out(plan, watched, time, stop=stop, observer=observer)
    assert watched.requests == []
    line = observer.show_line.call_args_list[0].args[0]
    assert line.startswith("waiting for replicas of a: partition 0 has 1 replica in sync")
    if stopped:
        assert (report.interrupted, results(report)) == (True, {"a": Result.NOT_TRIED})
        assert observer.show_line.call_count == 1
    else:
        assert result_of(report, "a").message.startswith("partition 0 has 1 replica in sync")
        assert sum(time.naps) == pytest.approx(HEALTH_WAIT_S)


def test_throttles_are_read_only_with_journal(memory: MemoryCluster, time: FakeClock) -> None:
    """The record itself is not read where nothing is throttled."""
    journal, throttles, notes = MemoryThrottleJournal(), Mock(side_effect=memory.throttles), Notes()
    journal.read_leftovers = fail(AssertionError())  # type: ignore[method-assign]
    cluster = override(memory, throttles=throttles)
    assert carry_out(plan_for(memory, declare_topic("a")), cluster, time).complete
    assert throttles.call_count == 0
    assert carry_out(plan_for(memory, declare_topic("b")), cluster, time, throttle_journal=journal).complete
    assert throttles.call_count == 1
    # An apply that moves replicas has looked for them already.
    moves, journal = plan_for(memory, declare_topic("b", 3, 3)), MemoryThrottleJournal()
    assert carry_out(moves, cluster, time, throttle_journal=journal).complete
    assert [call.args for call in throttles.call_args_list].count(((),)) == 1
    throttles.side_effect = Unreachable("nobody there")
    plan = plan_for(memory, declare_topic("c"))
    assert carry_out(plan, cluster, time, observer=notes, throttle_journal=journal).complete
    (line,) = notes.lines
    assert line.endswith("nobody there")


@pytest.mark.parametrize(
    ("end", "message"),
    [
        ("lock lost", "bob has it"),
        ("cluster gone", "nobody there"),
        ("stopped", "stopped halfway"),
        ("Ctrl-C", "abandoned while waiting for the answer"),
        ("Ctrl-C at once", "; not verified: the cluster does not show the change yet"),
    ],
)
def test_early_end_leaves_the_rest_and_earlier_throttles(
    memory: MemoryCluster, time: FakeClock, end: str, message: str
) -> None:
    for name in ("a", "b"):
        create_topic(memory, name)
    plan = plan_for(memory, declare_topic("a", 6, retention_ms=WEEK), declare_topic("b", 6))
    watched, stop = override(memory, throttles=fail(AssertionError())), Event()
    memory.lag(2)
    if end == "cluster gone":
        memory.fail_next(Unreachable("nobody there"), topic("a"), carried_out=True)
    watched.after = {"stopped": lambda _: stop.set(), "Ctrl-C": fail(KeyboardInterrupt())}.get(end)
    watched.before = fail(KeyboardInterrupt()) if end == "Ctrl-C at once" else None
    options = {"stop": stop, "guard": LimitedGuard(1 if end == "lock lost" else 2)}
    report = carry_out(plan, watched, time, throttle_journal=MemoryThrottleJournal(), **options)
    assert report.interrupted == (end not in {"lock lost", "cluster gone"})
    assert results(report) == {"a": Result.FAILED, "b": Result.NOT_TRIED}
    item = result_of(report, "a")
    assert item.message.endswith(message)
    assert sorts(item.done) == ([] if end == "Ctrl-C at once" else [AlterConfigs])
    assert sorts([*item.done, *item.not_done]) == [AlterConfigs, AddPartitions]
    memory.lag(0)
    assert carry_out(plan, memory, time).complete


def test_interrupted_request_stops_others_halfway(memory: MemoryCluster, time: FakeClock) -> None:
    create_topic(memory, "a")
    create_topic(memory, "b", 3, 3)
    half = declare_topic("b", 3, 3, min_insync_replicas="2", retention_ms=WEEK)
    plan = plan_for(memory, declare_topic("a", 6), half)

    def interrupt(batch: Sequence[Operation]) -> None:
        if sorts(batch) == [AddPartitions]:
            raise KeyboardInterrupt

    item = result_of(carry_out(plan, Watched(memory, before=interrupt), time), "b")
    assert (item.message, sorts(item.done)) == ("stopped halfway", [AlterConfigs])


def test_observer_gets_every_operation(memory: MemoryCluster, time: FakeClock) -> None:
    create_topic(memory, "a")
    plan = plan_for(
        memory, declare_topic("a", 6, 3, retention_ms=WEEK), declare_topic("b"), declare_topic("c")
    )
    memory.fail_next(NO, topic("c"))
    observer = Mock(spec=Observer)
    carry_out(plan, memory, time, observer=observer)
    observer.started.assert_called_once_with(5)
    assert [call.args[1] for call in observer.finished.call_args_list] == [None, NO, None, None, None]
    assert [call.args for call in observer.verifying.call_args_list] == [(3,)]


NAMES = ("a", "b", "c", "d")
CONFIGS: dict[str, tuple[str, ...]] = {
    "retention.ms": ("1000", DAY, WEEK, "-1"),
    "cleanup.policy": ("delete", "compact", "compact,delete"),
    "min.insync.replicas": ("1", "2", "3"),
    "max.message.bytes": ("1000", "2000000"),
}
ERRORS: tuple[tuple[ClusterError, bool], ...] = (
    (NO, False),
    (PermissionDenied("not allowed"), False),
    (LOST, False),
    (LOST, True),
    (Unreachable("connection lost"), True),
)


REPLICAS = st.sampled_from((3, 3, 3, 2))
OPERATIONS: tuple[type[Operation], ...] = (CreateTopic, AlterConfigs, AddPartitions, Reassign, DeleteTopic)
HAZARDS = ("retention-cut", "cleanup-policy", "min-isr-cut", "partition-increase-compacted")


def configs() -> st.SearchStrategy[dict[str, str]]:
    return st.fixed_dictionaries({}, optional={k: st.sampled_from(v) for k, v in CONFIGS.items()})


def live_topics() -> st.SearchStrategy[dict[str, CreateTopic]]:
    def build(name: str) -> st.SearchStrategy[CreateTopic]:
        return builds(CreateTopic, st.just(topic(name)), st.integers(1, 4), REPLICAS, configs())

    return st.fixed_dictionaries({}, optional={name: build(name) for name in NAMES})


def failures() -> st.SearchStrategy[dict[tuple[str, type[Operation]], tuple[ClusterError, bool]]]:
    return st.fixed_dictionaries(
        {}, optional={(name, sort): st.sampled_from(ERRORS) for name in NAMES for sort in OPERATIONS}
    )


@st.composite
def wanted_topics(draw: st.DrawFn) -> list[Desired]:
    found = []
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=1)):
        if draw(st.integers(0, 4)) == 0:
            found.append(absent(name, protected=draw(st.booleans())))
            continue
        state = draw(configs() | st.just(dict.fromkeys(CONFIGS)))
        desired = declare_topic(name, draw(st.integers(2, 6)), draw(REPLICAS))
        merged: dict[str, FieldValue] = dict(desired.state or {})
        merged |= {f"config.{key}": value for key, value in state.items()}
        hazards = draw(st.sampled_from((HAZARDS, HAZARDS, ())))
        intent = replace(desired.intent, allow=dict.fromkeys(hazards, "meant"))
        found.append(replace(desired, state=merged, intent=intent))
    return found


def says_what_was_done(one: ResourceResult, carried_out: list[Operation]) -> None:
    assert [operation for operation in one.done if not isinstance(operation, Reassign)] == carried_out
    match one.result:
        case Result.APPLIED:
            assert one.done
            assert one.not_done == ()
        case Result.FAILED:
            assert one.not_done
            assert one.message
        case Result.NOT_TRIED:
            assert one.not_done
            assert one.done == ()
        case _:
            assert one.done == one.not_done == ()
    if one.planned.status is not Status.PLANNED:
        assert one.result.value == one.planned.status.value


@examples(3)
@given(
    live_topics(),
    wanted_topics(),
    failures(),
    st.integers(0, 3),
    st.sampled_from((None, None, 0, 1, 2)),
    st.sampled_from((100, 100, 0, 1, 2, 3)),
)
def test_each_resource_ends_planned_unchanged_or_reported_partial(
    live: dict[str, CreateTopic],
    desired: list[Desired],
    failing: dict[tuple[str, type[Operation]], tuple[ClusterError, bool]],
    lag: int,
    stop_after: int | None,
    proofs: int,
) -> None:
    memory, time, stop = MemoryCluster(), FakeClock(), Event()
    assert set(memory.execute(list(live.values()))) <= {None}
    before = memory.observe(list(map(topic, NAMES))).resources
    consents = " ".join(f"{item.ref}:{hazard}" for item in desired for hazard in item.intent.allow)
    plan = plan_for(memory, *desired, allow=consents)
    started = len(memory.executed)
    memory.lag(lag)
    memory.pace(2)
    throttle_journal = MemoryThrottleJournal()

    def let_fail(due: Sequence[tuple[str, type[Operation]]]) -> None:
        for name, sort in due:
            if found := failing.pop((name, sort), None):
                memory.fail_next(found[0], topic(name), carried_out=found[1])

    def reassign(
        targets: Mapping[TopicPartition, Replicas | None], guard: Guard
    ) -> Mapping[TopicPartition, ClusterError | None]:
        let_fail([(name, Reassign) for name in sorted({name for name, _ in targets})])
        return memory.reassign(targets, guard)

    watched = override(memory, reassign=reassign)
    watched.before = lambda batch: let_fail([(each.ref.name, type(each)) for each in batch])
    watched.after = lambda _: stop.set() if len(watched.requests) - 1 == stop_after else None
    options = {"stop": stop, "guard": LimitedGuard(proofs), "throttle_journal": throttle_journal}
    report = carry_out(plan, watched, time, **options)

    memory._failures.clear()  # of what was not sent, as the lock was lost
    memory.lag(0)
    for _ in range(lag):
        memory.observe([])
    after = memory.observe(list(map(topic, NAMES))).resources
    assert [result.planned for result in report.results] == list(plan.changes)
    for entry in report.results:
        ref = entry.planned.ref
        says_what_was_done(entry, [each for each in memory.executed[started:] if each.ref == ref])
        # What is being moved goes on where the lock is lost.
        if not entry.done and Reassign not in sorts(entry.not_done):
            assert after.get(ref) == before.get(ref)
    for ref in set(map(topic, NAMES)) - {result.planned.ref for result in report.results}:
        assert after.get(ref) == before.get(ref)

    throttle_journal.run = 2
    finished = carry_out(plan, memory, time, throttle_journal=throttle_journal)
    assert not memory.throttles(NAMES)
    for entry in finished.results:
        if entry.planned.status is Status.PLANNED:
            assert entry.result in {Result.APPLIED, Result.ALREADY}
    left = plan_for(memory, *desired, allow=consents)
    assert {c.ref for c in left.changes if c.status is Status.PLANNED} == set()
    assert finished.complete == (
        not any(result.deferred or result.planned.status is not Status.PLANNED for result in finished.results)
    )


def test_each_request_is_preceded_by_lock_proof(memory: MemoryCluster, time: FakeClock) -> None:
    create_topic(memory, "a")
    plan = plan_for(memory, declare_topic("a", 6, retention_ms=WEEK), declare_topic("b"), declare_topic("c"))
    log: list[str] = []
    watched = Watched(memory, before=lambda batch: log.append(type(batch[0]).__name__))
    assert carry_out(plan, watched, time, guard=lambda: log.append("proof")).complete
    assert log == ["CreateTopic", "proof", "AlterConfigs", "proof", "AddPartitions", "proof"]


def test_missing_lock_proof_sends_no_requests(memory: MemoryCluster, time: FakeClock) -> None:
    create_topic(memory, "z")
    plan = plan_for(memory, declare_topic("a"), declare_topic("b"), declare_topic("z", 6))
    watched, before = Watched(memory), list(memory.executed)
    report = carry_out(plan, watched, time, guard=LimitedGuard(0))
    for result in report.results:
        assert (result.result, result.done) == (Result.NOT_TRIED, ())
        assert result.message.endswith("bob has it")
        assert "run the same apply again" in (result.hint or "")
        assert result.not_done != ()
    assert (len(watched.requests), memory.executed, time.naps) == (1, before, [])
    assert (report.complete, report.interrupted) == (False, False)
    assert carry_out(plan, memory, time).complete


def test_moves_finished_after_lock_loss_are_done(memory: MemoryCluster, time: FakeClock) -> None:
    """They go on all the same, and are over by the time that the cluster is read again."""
    create_topic(memory, "a", 1, 3)
    plan = plan_for(memory, declare_topic("a", 2, 2, retention_ms=WEEK), allow="destructive")
    memory.lag(1)

    def reassign(*request: Any) -> object:
        memory.fail_next(LOST, topic("a"), carried_out=True)
        return memory.reassign(*request)

    cluster, guard = override(memory, reassign=reassign), LimitedGuard(3)
    item = result_of(carry_out(plan, cluster, time, guard=guard), "a")
    assert (item.result, sorts(item.done)) == (Result.APPLIED, [AlterConfigs, AddPartitions, Reassign])
    assert (item.not_done, item.in_doubt) == ((), ())


def test_lock_loss_within_batch_keeps_earlier_outcomes(memory: MemoryCluster, time: FakeClock) -> None:
    """Groups take a request each: some of a batch were carried out, and the others surely were not."""
    create_topic(memory, "read")
    refs = [ResourceRef("ConsumerGroup", f"g{number}") for number in range(3)]
    for ref in refs:
        memory.commit(ref.name, {("read", 0): 0})
    plan = plan_for(memory, *(Desired(ref, None, Intent(allow={"delete": "TICKET-1"})) for ref in refs))
    report = carry_out(plan, memory, time, guard=LimitedGuard(2))
    assert results(report) == {"g0": Result.APPLIED, "g1": Result.APPLIED, "g2": Result.NOT_TRIED}
    assert memory.groups().groups.keys() == {"g2"}


def test_journal_has_intended_changes_only(memory: MemoryCluster, time: FakeClock) -> None:
    for name in ("agreed", "changed", "done", "moved", "refused", "unsure"):
        create_topic(memory, name, retention_ms=WEEK)
    grown = (declare_topic(name, 6, retention_ms=WEEK) for name in ("changed", "done", "moved"))
    unsure = (declare_topic(name, retention_ms=DAY) for name in ("agreed", "unsure"))
    plan = plan_for(
        memory, *grown, declare_topic("new"), declare_topic("refused", 1, retention_ms=WEEK), *unsure
    )
    grow = AddPartitions(topic("done"), 3, 6, ((1,), (2,), (3,)))
    memory.execute([grow, AddPartitions(topic("moved"), 3, 4)])
    memory.execute([AlterConfigs(topic("agreed"), {"retention.ms": DAY})])
    log: list[object] = []
    watched, stop = Watched(memory, before=lambda batch: log.append(type(batch[0]).__name__)), Event()
    journal = SimpleNamespace(intend=lambda changes: log.append([planned.ref.name for planned in changes]))
    stop.set()
    assert carry_out(plan, watched, time, stop=stop, journal=journal).interrupted
    assert log == []
    report = carry_out(plan, watched, time, journal=journal)
    assert log == [["changed", "new"], "CreateTopic", "AddPartitions"]
    assert results(report) == {
        **dict.fromkeys(("agreed", "done"), Result.ALREADY),
        **dict.fromkeys(("changed", "new"), Result.APPLIED),
        "moved": Result.MOVED,
        "refused": Result.REFUSED,
        "unsure": Result.NEEDS_CONSENT,
    }
    refused = result_of(report, "refused")
    assert refused.message == refused.planned.reason
    assert refused.hint == refused.planned.remedy
    assert carry_out(plan, watched, time, journal=journal).complete is False
    assert len(log) == 3


@pytest.mark.parametrize("broken", [AuditError("cannot be written"), KeyboardInterrupt()])
def test_failed_journal_stops_requests(memory: MemoryCluster, time: FakeClock, broken: BaseException) -> None:
    plan, watched = plan_for(memory, declare_topic("a")), Watched(memory)
    with pytest.raises(type(broken)):
        carry_out(plan, watched, time, journal=SimpleNamespace(intend=fail(broken)))
    assert (watched.requests, memory.executed) == ([], [])
