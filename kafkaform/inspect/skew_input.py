"""Input of a skew analysis from the cluster and the manifests: topics, log ends, policies, readers.

The ends of logs are read before any record. Nothing here imports Spark: `skew_analysis` does.
"""

from __future__ import annotations

import itertools
from datetime import datetime
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, cast

from kafkaform.core.errors import ClusterError, KafkaformError
from kafkaform.core.values import Value, compare_fields, field, replace
from kafkaform.core.wording import counted, listed
from kafkaform.inspect.arrivals import NO_SIZES, get_config, is_ordered, log_ends
from kafkaform.resources import TOPIC, is_topic, nearest_name, topic_ref
from kafkaform.resources.skew import limits_of
from kafkaform.rules.catalogue import RuleContext
from kafkaform.rules.group_values import CLASSIC, CONSUMER, list_groups
from spark_validation.arrivals import TopicArrivals, find_arrivals
from spark_validation.errors import find_changed_topics
from spark_validation.results import PartitionChange, SkewLimits, SkewReport

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from kafkaform.audit.entries import AuditEntry
    from kafkaform.cluster.protocol import ClusterReader, PartitionReader
    from kafkaform.core.model import Desired, Observation, ResourceRef
    from kafkaform.core.partitions import TopicPartition
    from spark_validation.analysis import ReaderGroup
    from spark_validation.time_search import ReadRecords

_KAFKAS_OWN = "__*"
_SPECIAL = frozenset("*?[")
REMOTE_ASSIGNOR = "group.remote.assignor"
DEFAULT_REMOTE_ASSIGNOR = "uniform"
"""The brokers' default where members of the consumer protocol name none (group.consumer.assignors)."""


class TopicSelection(Value):
    """The topics to analyse.

    Attributes:
        topics: The partition count of each topic, sorted by name.
        failed: The topics that cannot be analysed, and why.
        compacted: The topics with compaction.
        unread: The topics whose configs this account may not read: they may be compacted.
        retention_bytes: The retention.bytes of the topics whose configs were read; -1 without a limit.
        ordered: The topics whose records have the broker's times, in order and without gaps.
    """

    topics: Mapping[str, int]
    failed: Mapping[str, KafkaformError] = field(default_factory=dict)
    compacted: frozenset[str] = frozenset()
    retention_bytes: Mapping[str, int] = field(default_factory=dict)
    unread: frozenset[str] = frozenset()
    ordered: frozenset[str] = frozenset()


def is_glob(text: str) -> bool:
    """Return whether a text is a glob; no topic name contains its special characters."""
    return not _SPECIAL.isdisjoint(text)


def list_topics_with_policy(desired: Sequence[Desired]) -> list[str]:
    """List the declared topics that have a skew policy."""
    return [
        topic.ref.name
        for topic in desired
        if is_topic(topic.ref) and topic.state is not None and limits_of(topic.intent) is not None
    ]


def choose_by_pattern(
    cluster: ClusterReader, globs: Sequence[str], ignore: Collection[str]
) -> TopicSelection:
    """Find the topics that match globs, with their partition counts, without reading configs.

    Args:
        ignore: Globs of topics to leave out.

    Raises:
        KafkaformError: No topic matches a glob.
        ClusterError: The cluster cannot be read.
    """
    inventory = cluster.observe([], kinds=[TOPIC.name]).inventory
    # Kafka's own topics must be named in full: their keys are not the user's to change.
    left_out = (_KAFKAS_OWN, *ignore)
    names = sorted(
        ref.name
        for ref in inventory
        if is_topic(ref)
        and any(fnmatchcase(ref.name, glob) for glob in globs)
        and not any(fnmatchcase(ref.name, glob) for glob in left_out)
    )
    _require_matches(globs, names, [ref.name for ref in inventory])
    # Counting by offsets needs no configs, which take long to read: 6 MB for 5,000 topics.
    return TopicSelection(cluster.partition_counts(names))


def _require_matches(globs: Sequence[str], names: Collection[str], present: Collection[str]) -> None:
    for glob in globs:
        if not any(fnmatchcase(name, glob) for name in names):
            near = nearest_name(glob, present)
            raise KafkaformError(
                f"no topic matches {glob!r}",
                hint=f"did you mean {near}?"
                if near
                else "internal topics, and those that ignore: of kafkaform.yaml hides, must be named in full;"
                " `kafkaform get topics` lists all",
            )


def choose(
    cluster: ClusterReader, requested: Sequence[str], desired: Sequence[Desired], ignore: Collection[str]
) -> TopicSelection:
    """Find the topics to analyse.

    Args:
        requested: Names and globs; none for every declared topic that has a skew policy.
        desired: The declared resources.
        ignore: Globs of topics that must be declared, or named in full, to be selected.

    Raises:
        KafkaformError: Nothing has this name, nothing matches this glob, or no topic has a policy.
        ClusterError: The cluster cannot be read.
    """
    with_skew_policy = list_topics_with_policy(desired)
    if not requested and not with_skew_policy:
        raise KafkaformError(
            "no declared topic has a skew policy, and no topic is named",
            hint="name topics (`kafkaform skew orders.v1`), or give manifests a policy:"
            " `skew: {maxPartitionRatio: 2.0}`",
        )
    names = [text for text in requested if not is_glob(text)] if requested else with_skew_policy
    globs = [text for text in requested if is_glob(text)]
    declared = {d.ref.name for d in desired if is_topic(d.ref) and d.state is not None}

    def is_selected(ref: ResourceRef) -> bool:
        left_out = any(fnmatchcase(ref.name, glob) for glob in (_KAFKAS_OWN, *ignore))
        return (
            is_topic(ref)
            and any(fnmatchcase(ref.name, glob) for glob in globs)
            and (ref.name in declared or not left_out)
        )

    refs = [topic_ref(name) for name in dict.fromkeys(names)]
    observation = cluster.observe(refs, is_selected, kinds=[TOPIC.name])
    observed = {
        ref.name: topic
        for ref, topic in sorted(observation.resources.items())
        if ref in refs or not topic.internal
    }
    counts = {name: int(cast("int", topic.state["partitions"])) for name, topic in observed.items()}
    # A topic whose configs may not be read is not observed, although its records may be readable.
    denied = [ref.name for ref in sorted(observation.invisible) if ref in refs or is_selected(ref)]
    unread = cluster.partition_counts(denied) if denied else {}
    counts = dict(sorted({**counts, **unread}.items()))
    missing = {ref.name: _explain_missing(ref, observation) for ref in refs if ref.name not in counts}
    for ref in refs:
        # A name that does not exist is a mistake. A hidden topic is reported beside the others.
        if requested and ref.name in missing and ref not in observation.invisible:
            raise missing[ref.name]
    _require_matches(globs, counts, [ref.name for ref in observation.inventory])
    limits = {name: get_config(topic, "retention.bytes") for name, topic in observed.items()}
    return TopicSelection(
        counts,
        missing,
        frozenset(
            name for name, topic in observed.items() if "compact" in get_config(topic, "cleanup.policy")
        ),
        {name: int(limit) for name, limit in limits.items() if limit},
        frozenset(unread),
        frozenset(name for name, topic in observed.items() if is_ordered(topic)),
    )


def _explain_missing(ref: ResourceRef, observation: Observation) -> KafkaformError:
    if ref in observation.invisible:
        return KafkaformError(
            f"topic {ref.name}: {observation.invisible[ref]}",
            hint="the account needs DESCRIBE and READ on the topic, or the topic does not exist",
        )
    topics = [topic.name for topic in observation.inventory if is_topic(topic)]
    near = nearest_name(ref.name, topics)
    return KafkaformError(
        f"there is no topic {ref.name!r} on the cluster",
        hint=f"did you mean {near}?" if near else "`kafkaform get topics` lists the names",
    )


def find_limits(desired: Sequence[Desired], topic: str) -> SkewLimits:
    """Return the skew policy of a topic; default limits if it has none."""
    for declared in desired:
        if declared.ref == topic_ref(topic) and declared.state is not None:
            return limits_of(declared.intent) or SkewLimits()
    return SkewLimits()


def find_declared_partitions(desired: Sequence[Desired], topic: str) -> int | None:
    """Return the partition count that a topic's manifest declares; None without one."""
    for declared in desired:
        if declared.ref == topic_ref(topic) and declared.state is not None:
            return cast("int | None", declared.state.get("partitions"))
    return None


def find_reader_groups(desired: Sequence[Desired], topic: str) -> tuple[ReaderGroup, ...]:
    """Return the declared groups that read a topic, with their number of members and a known assignor.

    Share and streams groups are left out: no assignor that a manifest can name gives each partition to one of
    their members. Groups with another assignor cannot be simulated.
    """
    from spark_validation.analysis import ASSIGNORS, ReaderGroup

    groups = []
    for group in list_groups(RuleContext(tuple(desired))):
        members = group.amount("members", "expected")
        if topic not in group.topics or not members:
            continue
        # The members choose the first assignor that all of them support: the first one declared.
        if group.protocol == CLASSIC:
            groups.append(ReaderGroup(group.name, group.assignors[0], members))
        elif group.protocol == CONSUMER:
            assignor = group.declared_client.get(REMOTE_ASSIGNOR, DEFAULT_REMOTE_ASSIGNOR)
            groups.append(ReaderGroup(group.name, assignor, members))
    return tuple(group for group in groups if group.assignor in ASSIGNORS)


class PartitionLog(Value):
    """The log of one partition.

    Attributes:
        start: The first offset of the analysis.
        end: The offset after the last one.
        log_bytes: The bytes of the whole partition, one replica; None if not known.
        kept_from: The first offset in the log.
        kept_since_ms: The time of the first record in the log, in milliseconds since 1970; None if it is
            empty.
        epoch: The epoch of the leader that answered; None if unknown.
    """

    partition: int
    start: int
    end: int
    log_bytes: int | None = None
    kept_from: int = 0
    kept_since_ms: int | None = None
    epoch: int | None = None

    __eq__, __hash__ = compare_fields("partition", "start", "end", "log_bytes", "kept_from", "kept_since_ms")


class TopicLogs(Value):
    """One reading of the logs of topics.

    Attributes:
        logs: The partitions of each topic, by number, without a gap.
        failed: The topics whose logs could not be read, and why.
        notes: A line for each other part that could not be read.
        arrivals: The records written to each topic, by offsets.
        ids: The id of each topic when the reading began, as far as brokers have ids.
    """

    logs: Mapping[str, tuple[PartitionLog, ...]] = field(default_factory=dict)
    failed: Mapping[str, KafkaformError] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    arrivals: Mapping[str, TopicArrivals] = field(default_factory=dict)
    ids: Mapping[str, str] = field(default_factory=dict)


def read_logs(
    cluster: PartitionReader,
    topics: Mapping[str, int],
    now_ms: int,
    since_ms: int | None = None,
    *,
    ordered: Collection[str] = (),
    read_records: ReadRecords | None = None,
) -> TopicLogs:
    """Read the ends of logs, and the records written to them, in a few requests to each leader.

    The ranges begin where all logs of a topic cover the same time, and end before the first open transaction,
    where a read_committed consumer would wait.

    Args:
        topics: The partition count of each topic.
        now_ms: The present, in milliseconds since 1970.
        since_ms: Only records since then, in milliseconds since 1970.
        ordered: The topics whose records have the broker's times, in order and without gaps.
        read_records: Reads records where a search by time is misled; None to read none.

    Raises:
        ClusterError: The cluster cannot be read at all.
    """
    # First: what is read of a topic that is made again later is not this topic's.
    ids = cluster.topic_ids(topics)
    partitions = [(name, number) for name, count in topics.items() for number in range(count)]
    # A read_committed reader would wait at the first open transaction until it ends.
    spans = cluster.log_spans(partitions, committed=True)
    sizes: Mapping[tuple[str, int], int] = {}
    notes: list[str] = []
    try:
        sizes = cluster.partition_sizes(partitions)
    except ClusterError as error:
        notes.append(f"the bytes of partitions: {error.message}")
    else:
        unsized = sorted({name for name, number in partitions if (name, number) not in sizes})
        if unsized:
            notes.append(f"the bytes of all partitions of {listed(unsized)}: the brokers do not report them")
    # The period begins where the shortest log does: earlier, counts of different times would be compared.
    arrivals = find_arrivals(
        log_ends(spans, topics, sizes),
        cluster.offsets_at,
        now_ms,
        since_ms,
        recent=True,
        read_records=read_records,
        ordered=ordered,
    )
    logs, failed = {}, {}
    for name, count in topics.items():
        missing = [number for number in range(count) if (name, number) not in spans]
        if missing:
            failed[name] = KafkaformError(
                f"topic {name}: no broker reports the offsets of {counted(len(missing), 'partition')} of "
                f"{count}"
                f" ({listed(list(map(str, missing)))})",
                hint="it has no leader, or the topic was just deleted; `kafkaform doctor` says more",
            )
            continue
        logs[name] = tuple(
            PartitionLog(
                number,
                arrivals[name].starts[number],
                max(arrivals[name].starts[number], spans[name, number].end),
                sizes.get((name, number)),
                spans[name, number].start,
                arrivals[name].kept_since_ms[number],
                spans[name, number].epoch,
            )
            for number in range(count)
        )
    known = {name: arrivals[name] for name in logs}
    return TopicLogs(logs, failed, tuple(notes), known, ids)


def read_new_records(cluster: PartitionReader, before: TopicLogs, now_ms: int) -> TopicLogs:
    """Return the logs of topics with only the records written since a reading.

    Args:
        now_ms: The present, in milliseconds since 1970.

    Raises:
        ClusterError: The cluster cannot be read at all.
    """
    after = read_logs(cluster, {name: len(logs) for name, logs in before.logs.items()}, now_ms)
    epochs = {
        (name, log.partition): old.epoch
        for name, logs in after.logs.items()
        for log, old in zip(logs, before.logs[name], strict=True)
        if old.epoch is not None and log.epoch != old.epoch
    }
    return cut_to_new_records(before, after, cluster.epoch_ends(epochs))


def cut_to_new_records(
    before: TopicLogs, after: TopicLogs, epoch_ends: Mapping[TopicPartition, int] = NO_SIZES
) -> TopicLogs:
    """Return the logs with only the records written between two readings.

    An unclean leader election cuts a log short, and its offsets are given out again: what follows the last
    record of the leaders of before is new.

    Args:
        before: The first reading.
        after: The second one, of the same topics.
        epoch_ends: Where the records of the leaders of before end, in partitions with another leader since.
    """
    logs, arrivals, notes = {}, {}, [*after.notes]
    changed = {
        name: KafkaformError(error.message, hint=error.hint)
        for name, error in find_changed_topics(before.ids, after.ids).items()
    }
    failed = {**before.failed, **after.failed, **changed}
    for name, now in after.logs.items():
        if name in changed:
            continue
        earlier, latest = before.arrivals[name], after.arrivals[name]
        cuts = [
            min(log.end, old.end, epoch_ends.get((name, log.partition), old.end))
            for log, old in zip(now, before.logs[name], strict=True)
        ]
        logs[name] = tuple(replace(log, start=cut) for log, cut in zip(now, cuts, strict=True))
        notes += [
            f"offsets {cut:,} to {old.end - 1:,} of {name}:{old.partition}, whose records were lost"
            " meanwhile, as by an unclean leader election"
            for cut, old in zip(cuts, before.logs[name], strict=True)
            if cut < old.end
        ]
        counts = tuple(log.end - log.start for log in logs[name])
        length_ms = max(1, latest.until_ms - earlier.until_ms)
        arrivals[name] = replace(
            latest,
            period_ms=length_ms,
            counts=counts,
            per_second=sum(counts) * 1000 / length_ms,
            since_made=False,
            since_ms=earlier.until_ms,
            starts=tuple(log.start for log in logs[name]),
            limited_by=None,
            added_from=None,
            unknown=None,
            least=None,
            most=None,
            alternative=None,
        )
    return TopicLogs(logs, failed, tuple(notes), arrivals, before.ids)


def find_recorded_increases(
    entries: Iterable[AuditEntry], reports: Iterable[SkewReport], cluster_id: str, topic: str
) -> tuple[PartitionChange, ...]:
    """Return the recorded increases of a topic's partition count, oldest first.

    Args:
        entries: The audit record, oldest first.
        reports: Earlier reports, oldest first: two with different counts imply an increase between them.
        cluster_id: The cluster; entries and reports of others are skipped.
        topic: The topic; changes before it was last created or deleted are skipped.
    """
    from spark_validation.results import PartitionChange

    increases: list[PartitionChange] = []
    created_ms = 0
    for entry in entries:
        if entry.cluster_id != cluster_id or entry.ref != topic_ref(topic) or not entry.took_place:
            continue
        # A topic of the same name that was created again has another history.
        if entry.action != "update":
            increases, created_ms = [], _parse_milliseconds(entry.at)
            continue
        until = _parse_milliseconds(entry.outcome.at if entry.outcome else entry.at)
        increases += [
            PartitionChange(
                change.before, change.after, _parse_milliseconds(entry.at), until, "the audit record"
            )
            for change in entry.carried_out
            if change.path == "partitions"
            and isinstance(change.before, int)
            and isinstance(change.after, int)
        ]
    counts = [
        (len(result.partitions), _parse_milliseconds(report.created_at))
        for report in reports
        for result in report.topics
        if report.cluster_id == cluster_id and result.name == topic and result.partitions
    ]
    # The record is exact; reports only show that a count changed between two of them.
    recorded = {change.before for change in increases}
    for (before, since), (after, until) in itertools.pairwise(counts):
        if before < after and before not in recorded and since >= created_ms:
            increases.append(PartitionChange(before, after, since, until, "earlier skew reports"))
    return tuple(sorted(increases, key=lambda change: change.since_ms))


def _parse_milliseconds(at: str) -> int:
    """Parse a time of a record or report (RFC 3339) into milliseconds since 1970."""
    return int(datetime.fromisoformat(at).timestamp() * 1000)
