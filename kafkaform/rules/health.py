"""Rules about the whole cluster: controllers, brokers, leaders, replicas and transactions."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import timedelta
from functools import wraps
from typing import TYPE_CHECKING

from kafkaform.core.model import Severity
from kafkaform.core.transactions import OpenTransaction, group_by_producer, list_places
from kafkaform.core.units import format_duration, rounded_size
from kafkaform.core.wording import MAX_LISTED, code, command, counted, format_age, listed
from kafkaform.rules.catalogue import Check, Finding, RuleContext, Stage, rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kafkaform.core.health import Health, Quorum, Voter
    from kafkaform.core.partitions import PartitionState

CRITICAL = frozenset({"KF301", "KF303", "KF304", "KF305"})
"""Rules of which a finding means that moving or deleting data may destroy the last good copy."""


# A voter fetches several times a second, and considers the leader dead after 2 s
# (controller.quorum.fetch.timeout.ms).
SILENT_MS = 10_000
"""A voter that has not fetched for this many milliseconds is down."""
UNEVEN_RATIO = 2.0
"""The ratio of the fullest partition to the mean from which a topic is reported."""
# The controller writes at most so many records for one request: a voter that is further behind does not keep
# up.
BEHIND = 10_000
"""A voter that is this many records of the metadata log behind is out of sync."""

# Small clusters are never even.
MIN_LEADERS_ABOVE_MEAN = 3
"""The least number of leaders above the mean to report."""
# Brokers delete whole segments, and minutes after they have expired: a log may be larger than its
# retention.
MIN_FREE_SHARE = 0.1
"""The share of a volume that must stay free."""
_MAX_NAMES = 50
"""The most names in a command to paste."""


def health_rule(code: str, severity: Severity) -> Callable[[Callable[[Health], Iterable[Finding]]], Check]:
    """Return the decorator of a rule about the health of the cluster, which no manifest can waive."""

    def register(check_health: Callable[[Health], Iterable[Finding]]) -> Check:
        @wraps(check_health)
        def check(context: RuleContext) -> Iterable[Finding]:
            return check_health(context.health) if context.health is not None else ()

        return rule(code, severity, stage=Stage.HEALTH, waivable=False)(check)

    return register


@health_rule("KF301", Severity.ERROR)
def controllers(health: Health) -> Iterator[Finding]:
    """There is no active controller, or voters of the controller quorum are out of sync.

    Topics cannot be changed, and partitions get no new leader when a broker stops. A voter is out of sync
    when it has not fetched for 10 s, or is 10,000 records behind. Check that its process runs and reaches
    the other voters, and bring it back before you stop another one.
    """
    quorum = health.quorum
    # An account that may not describe the quorum still gets the controller from metadata.
    if quorum is None or quorum.leader is None:
        if quorum is not None or health.controller is None:
            yield Finding(
                "no active controller answers: topics cannot be changed, and partitions get no new leader",
                "check that a majority of the controllers runs and can connect; their logs show elections",
            )
        return
    out = [(voter, why) for voter in quorum.voters if (why := _out_of_sync(voter, quorum))]
    if out:
        total = len(quorum.voters)
        # An election needs a majority of all voters, also of those that are out of sync.
        spare = total - len(out) - (total // 2 + 1)
        reasons = listed([f"{voter.id} {why}" for voter, why in out])
        verb = "is" if len(out) == 1 else "are"
        yield Finding(
            f"{len(out)} of {counted(total, 'controller voter')} {verb} out of sync ({reasons}): "
            f"{spare if spare > 0 else 'no'} more may fail",
            "check that it runs and reaches the others, and do not stop another controller until it is back",
        )


def _out_of_sync(voter: Voter, quorum: Quorum) -> str:
    if voter.id == quorum.leader:
        return ""
    if voter.silent_ms is not None and voter.silent_ms >= SILENT_MS:
        return f"has not fetched for {format_duration(voter.silent_ms // 1000 * 1000)}"
    if voter.lag is None:
        return f"has not fetched since {quorum.leader} was elected"
    if voter.lag >= BEHIND:
        return f"is {counted(voter.lag, 'record')} behind"
    return ""


@rule("KF302", Severity.ERROR, stage=Stage.HEALTH, waivable=False)
def enough_brokers(context: RuleContext) -> Iterator[Finding]:
    """Fewer brokers are live than the cluster is declared to have.

    The minimum is `brokers:` of the cluster in kafkaform.yaml. Check whether the broker is down on
    purpose; if the cluster was made smaller, lower it.
    """
    health = context.health
    if health is None or context.brokers is None or len(health.brokers) >= context.brokers:
        return
    live = [broker.id for broker in health.brokers]
    missing = context.brokers - len(live)
    # Metadata lists only live brokers, but replica lists contain those that are down, too.
    known = {broker for partition in health.partitions for broker in partition.replicas}
    gone = [str(broker) for broker in sorted(known - {*live})]
    holders = f" (replicas are assigned to {listed(gone)}, not live)" if gone else ""
    yield Finding(
        f"{counted(len(live), 'broker')} live of at least {context.brokers}: {missing} missing{holders}",
        "start the missing brokers, or lower `brokers:` of this cluster in kafkaform.yaml",
    )


@rule("KF308", Severity.INFO, stage=Stage.HEALTH, waivable=False)
def leaders_even(context: RuleContext) -> Iterator[Finding]:
    """Leaders are uneven over the brokers, or preferred leaders do not lead.

    A broker that leads more partitions carries more load. Reported if it leads at least three more than
    the mean, and more above it than `leaderImbalance` of `limits:` allows (30 percent). After a restart,
    preferred leaders lead again within five minutes; if not, run `kafkaform rebalance`.
    """
    health = context.health
    if health is None or not health.brokers:
        return
    # A broker that leads nothing counts too: it lowers the mean.
    leaders = Counter({broker.id: 0 for broker in health.brokers})
    leaders.update(p.leader for p in health.partitions if p.leader is not None)
    mean = leaders.total() / len(leaders)
    limit = mean * (1 + context.limits.leader_imbalance / 100)
    above = [
        f"broker {broker} leads {number:,}"
        for broker, number in leaders.most_common()
        # Both: with a mean of 3, one leader more is already 33 %.
        if number > limit and number - mean >= MIN_LEADERS_ABOVE_MEAN
    ]
    if above:
        yield Finding(
            f"leaders are uneven over {counted(len(leaders), 'broker')}: {listed(above)}, "
            f"the mean is {mean:,.1f}",
            "`kafkaform rebalance` plans an even distribution of leaders with few moves",
        )
    yield from _report_passed_over(health)


def _report_passed_over(health: Health) -> Iterator[Finding]:
    live = {broker.id for broker in health.brokers}
    passed_over = Counter(
        p.replicas[0]
        for p in health.partitions
        # One that is down or out of sync cannot lead; other rules report that.
        if p.leader not in {None, p.replicas[0]} and p.replicas[0] in live and p.replicas[0] in p.isr
    )
    if passed_over:
        total = passed_over.total()
        brokers = [f"broker {broker} in {number:,}" for broker, number in passed_over.most_common()]
        yield Finding(
            f"the preferred leader of {counted(total, 'partition')} is in sync but does not lead: "
            f"{listed(brokers)}",
            "wait: brokers elect them again within five minutes of a restart (auto.leader.rebalance.enable)",
        )


def find_offline(health: Health) -> list[PartitionState]:
    """Return the partitions without a leader."""
    return [partition for partition in health.partitions if partition.leader is None]


def find_under_replicated(health: Health) -> list[PartitionState]:
    """Return the partitions with a leader and a replica that is not in sync.

    Replicas that a running reassignment adds do not count, as they are expected to be behind.
    """
    return [p for p in health.partitions if p.leader is not None and _find_missing(p, health)]


def find_under_min_isr(health: Health) -> list[PartitionState]:
    """Return the partitions with a leader and fewer replicas in sync than acks=all requires.

    Brokers require no more replicas than exist, whatever min.insync.replicas is.
    """
    partitions = []
    for partition in health.partitions:
        least = min(health.min_insync_replicas.get(partition.topic, 0), len(partition.replicas))
        if partition.leader is not None and len(partition.isr) < least:
            partitions.append(partition)
    return partitions


@health_rule("KF303", Severity.ERROR)
def replicas_in_sync(health: Health) -> Iterator[Finding]:
    """Partitions are under-replicated.

    These partitions tolerate fewer failures than intended; the finding names the missing brokers. No
    replicas are moved meanwhile, as a move could drop the last good copy.
    """
    if not (partitions := find_under_replicated(health)):
        return
    missing = Counter(broker for partition in partitions for broker in _find_missing(partition, health))
    live = {broker.id for broker in health.brokers}
    brokers = [
        f"broker {broker} is missing from {number:,}" + ("" if broker in live else " and is not live")
        for broker, number in missing.most_common()
    ]
    down = sorted({*missing} - live)
    yield Finding(
        f"{_amount(partitions)} under-replicated: {listed(brokers)} ({_names(partitions)})",
        f"start {_brokers(down)}, and wait until its replicas have caught up: `kafkaform doctor --wait 10m`"
        if down
        else f"check whether {_brokers(sorted(missing))} keeps up: disk, network and log",
    )


@health_rule("KF304", Severity.ERROR)
def partitions_led(health: Health) -> Iterator[Finding]:
    """Partitions are offline.

    Every replica that was last in sync is on a broker that is down or a disk that failed. Start those
    brokers. An unclean election loses the records that the new leader does not have.
    """
    if not (partitions := find_offline(health)):
        return
    live = {broker.id for broker in health.brokers}
    # The last replicas in sync: once one of them is back, the partition has a leader again.
    holders = Counter(broker for partition in partitions for broker in partition.isr or partition.replicas)
    brokers = [
        f"broker {broker} ({'live' if broker in live else 'not live'}) has {number:,}"
        for broker, number in holders.most_common()
    ]
    down = sorted({*holders} - live)
    yield Finding(
        f"{_amount(partitions)} offline, not readable or writable: {listed(brokers)} ({_names(partitions)})",
        f"start {_brokers(down)}: it has an in-sync replica"
        if down
        else "look for failed disks in the logs of these brokers",
    )


@health_rule("KF305", Severity.ERROR)
def enough_in_sync(health: Health) -> Iterator[Finding]:
    """Partitions have fewer replicas in sync than min.insync.replicas.

    Brokers refuse writes with acks=all there (NOT_ENOUGH_REPLICAS). Bring the missing replicas back. Lowering
    min.insync.replicas lets producers continue, but the next failure may lose acknowledged records.
    """
    if not (partitions := find_under_min_isr(health)):
        return
    missing = Counter(broker for partition in partitions for broker in _find_missing(partition, health))
    brokers = [f"broker {broker} is missing from {number:,}" for broker, number in missing.most_common()]
    yield Finding(
        f"{_amount(partitions)} under min.insync.replicas, writes with acks=all are refused: "
        f"{listed(brokers)} ({_names(partitions)})",
        f"bring {_brokers(sorted(missing))} back in sync",
    )


@health_rule("KF309", Severity.INFO)
def reassignment(health: Health) -> Iterator[Finding]:
    """A partition reassignment is running.

    Copying uses the brokers' network and disks. Start no other move before it ends. If it does not end,
    its throttle may be below the rate at which producers write.
    """
    moving = health.reassigning
    if not moving:
        return
    topics = sorted({topic for topic, _ in moving})
    adding = sorted({broker for brokers in moving.values() for broker in brokers})
    where = f", adding replicas on {_brokers(adding)}" if adding else ""
    yield Finding(
        f"a reassignment of {counted(len(moving), 'partition')} of {counted(len(topics), 'topic')} is running"
        f"{where} ({listed(topics)})",
        "before moving more data, wait until it has finished: `kafkaform doctor --rule KF309 --fail-on info "
        "--wait 1h`",
    )


@health_rule("KF310", Severity.WARNING)
def room_on_disks(health: Health) -> Iterator[Finding]:
    """Volumes of log directories are nearly full, or log directories are offline.

    A broker with a full volume takes the log directory offline, and stops if it has no other one.
    Reported below 10 % of free space, from Kafka 3.3 on. Move replicas, shorten retention, or enlarge the
    volume. An offline directory has failed: repair the volume and restart the broker.
    """
    for log_dir in health.log_dirs:
        where = f"{log_dir.path} of broker {log_dir.broker}"
        if log_dir.total is None:
            yield Finding(
                f"log directory {where} is offline", "repair or replace the volume, and restart the broker"
            )
        elif log_dir.usable < MIN_FREE_SHARE * log_dir.total:
            share = log_dir.usable / log_dir.total
            yield Finding(
                f"the volume of log directory {where} is nearly full: {rounded_size(log_dir.usable)} "
                f"({share:.1%}) of {rounded_size(log_dir.total)} free",
                "move replicas to brokers that have room, or enlarge the volume: "
                "`kafkaform rebalance --out rebalance.json`",
            )


@health_rule("KF311", Severity.ERROR)
def no_hanging_transactions(health: Health) -> Iterator[Finding]:
    """Transactions are hanging: they have been open for longer than their timeout allows.

    Consumers with isolation.level=read_committed get no record after the first offset of an open
    transaction. Reported one minute past its timeout, or, if no coordinator has it open, past
    transaction.max.timeout.ms (15 minutes by default). Stop the producer, check what it wrote, and abort
    the transaction with the command in the finding.
    """
    for hanging in group_by_producer(t for t in health.transactions if t.is_hanging):
        # The partitions of one transaction have one producer and timeout, so the first stands for all.
        first = hanging[0]
        age = format_age(timedelta(milliseconds=max(t.age_ms for t in hanging)))
        limit = format_duration(first.timeout_ms)
        if first.coordinated:
            why = f"open for {age}, its timeout is {limit}"
        elif first.producer is not None:
            why = f"no coordinator has it open, and its last record is {age} old"
        else:
            why = f"open for more than {limit}; its producer could not be read: {first.unknown}"
        yield Finding(
            f"{first.name} is hanging in {list_places(hanging)} ({why}): read_committed consumers get no "
            "record from there on",
            _describe_ending(hanging),
        )


@rule("KF312", Severity.INFO, stage=Stage.HEALTH, waivable=False)
def even_arrivals(context: RuleContext) -> Iterator[Finding]:
    """Records arrive in one partition of a topic at twice the rate of the others, or more.

    The consumer of that partition lags first, and more consumers or partitions often change nothing.
    `kafkaform arrivals` lists all such topics, `kafkaform skew` finds the keys. As it is slow, it runs
    only with `--rule KF312`, or if `rules:` of kafkaform.yaml gives it a severity.
    """
    from spark_validation.arrivals import Spread  # takes 3 ms, and only this rule needs it

    uneven = [
        topic
        for topic in context.arrivals
        if topic.spread is Spread.UNEVEN and topic.ratio is not None and topic.ratio >= UNEVEN_RATIO
    ]
    for topic in uneven[:MAX_LISTED]:
        yield Finding(
            f"partition {topic.fullest} of {topic.name} gets {topic.ratio:.1f} times the mean of its "
            f"{counted(len(topic.counts), 'partition')}",
            f"find out why: {command('skew', topic.name)}",
        )
    if uneven[MAX_LISTED:]:
        yield Finding(
            f"records arrive unevenly in {counted(len(uneven) - MAX_LISTED, 'more topic')}",
            f"list them: {command('arrivals')}",
        )


@health_rule("KF313", Severity.INFO)
def throttles_left(health: Health) -> Iterator[Finding]:
    """Replication throttles are set, though no reassignment is running.

    A move of replicas left them: a tool that was killed, or `kafka-reassign-partitions.sh` without
    `--verify`. Replicas that a topic lists as throttled (a warning) catch up no faster. The finding shows
    the commands that remove them.
    """
    # While replicas move, throttles belong there; an account that cannot see that gets no finding.
    if health.reassigning != {}:
        return
    groups: dict[tuple[str, bool, bool, tuple[str, ...]], list[str]] = defaultdict(list)
    for entity in health.throttles:
        throttled = entity.entity_type == "topics" and any(entity.values.values())
        groups[entity.entity_type, throttled, not entity.name, tuple(entity.values)].append(entity.name)
    for (entity_type, throttled, is_default, configs), names in groups.items():
        held = f"{counted(len(names), entity_type.removesuffix('s'))} ({listed(names)})"
        verb = "has" if len(names) == 1 else "have"
        if throttled:
            text = f"{held} {verb} throttled replicas, which are slow to catch up while a broker has a rate"
        elif entity_type == "topics":
            text = f"{held} {verb} empty lists of throttled replicas, which throttle nothing"
        else:
            held = "the default of all brokers" if is_default else held
            text = f"{held} {verb} replication rates, which the next move of replicas takes over"
        yield Finding(
            f"{text}; no reassignment is running",
            _suggest_removal(entity_type, names, configs),
            Severity.WARNING if throttled else None,
        )


def _suggest_removal(entity_type: str, names: Sequence[str], configs: Sequence[str]) -> str:
    """Suggest the command of Kafka's own tool that removes configs; of many names, the first ones.

    Args:
        entity_type: `topics` or `brokers`.
        names: The entities that have the configs; an empty name is the default of all brokers.
        configs: The names of the configs.
    """
    name = f"--entity-name {names[0]}" if len(names) == 1 else '--entity-name "$name"'
    command = (
        f"kafka-configs.sh --bootstrap-server HOST:PORT --alter --entity-type {entity_type} "
        f"{name if names[0] else '--entity-default'} --delete-config {','.join(configs)}"
    )
    if len(names) > 1:
        command = f"for name in {' '.join(names[:_MAX_NAMES])}; do {command}; done"
    remainder = "; then run doctor again for the others" if len(names) > _MAX_NAMES else ""
    return f"if it is no longer needed, remove it: {command}{remainder}"


def _describe_ending(transactions: Sequence[OpenTransaction]) -> str:
    first = transactions[0]
    if first.producer is None:
        topic, number = first.partition
        return (
            "find its producer with an account that may read the topic: `kafka-transactions.sh "
            f"--bootstrap-server HOST:PORT describe-producers --topic {topic} --partition {number}`"
        )
    places = f" in each of the {len(transactions):,} partitions, as in" if len(transactions) > 1 else ""
    return f"stop its producer, then abort it{places}: {code(first.abort_command)}"


def _find_missing(partition: PartitionState, health: Health) -> list[int]:
    adding = (health.reassigning or {}).get((partition.topic, partition.partition), ())
    return [broker for broker in partition.replicas if broker not in partition.isr and broker not in adding]


def _amount(partitions: Sequence[PartitionState]) -> str:
    topics = len({partition.topic for partition in partitions})
    verb = "is" if len(partitions) == 1 else "are"
    return f"{counted(len(partitions), 'partition')} of {counted(topics, 'topic')} {verb}"


def _names(partitions: Iterable[PartitionState]) -> str:
    return listed([f"{partition.topic}-{partition.partition}" for partition in partitions])


def _brokers(numbers: Sequence[int]) -> str:
    noun = "broker" if len(numbers) == 1 else "brokers"
    return f"{noun} {listed([str(number) for number in numbers])}"
