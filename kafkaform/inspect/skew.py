"""What an analysis of key skew needs to know of a cluster and of manifests: topics, policies, readers.

How far the logs of topics reach is read before any record is.

Nothing here imports Spark: `kafkaform.cli.skew` brings the two together.

A folder of earlier reports: kept under the time they were made at, and never overwritten.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field, replace
from datetime import datetime
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, cast

from kafkaform.core.errors import ClusterError, KafkaformError
from kafkaform.core.model import CONFIG_PREFIX
from kafkaform.core.wording import counted, listed, nearest
from kafkaform.inspect.arrivals import log_ends, offset_finder
from kafkaform.resources.skew import limits_of
from kafkaform.resources.topic import TopicKind, is_topic, topic_ref
from kafkaform.rules.catalogue import RuleContext
from kafkaform.rules.group_values import CLASSIC, CONSUMER, groups
from spark_validation.arrivals import find_arrivals
from spark_validation.results import SkewLimits

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Collection,
        Iterable,
        Mapping,
        Sequence,
    )
    from pathlib import Path

    from kafkaform.audit.entries import AuditEntry
    from kafkaform.cluster.protocol import ClusterReader, PartitionReader, ResourceReader
    from kafkaform.core.model import Desired, Observation, Observed, ResourceRef
    from spark_validation.arrivals import TopicArrivals
    from spark_validation.results import SkewReport
    from spark_validation.sampled_topic import PartitionChange


_KAFKAS_OWN = "__*"
_SPECIAL = frozenset("*?[")
REMOTE_ASSIGNOR = "group.remote.assignor"
DEFAULT_REMOTE_ASSIGNOR = "uniform"
"""What brokers take where members of the consumer protocol name none (group.consumer.assignors)."""


@dataclass(frozen=True, slots=True)
class DeclaredReader:
    """A declared group that reads a topic.

    Attributes:
        name: The group.
        assignor: How it deals out partitions, by short name where Kafka has one.
        members: How many members its manifest expects.
    """

    name: str
    assignor: str
    members: int


@dataclass(frozen=True, slots=True)
class Chosen:
    """The topics to analyse.

    Attributes:
        topics: The partition count of each, by name in order.
        failed: Why a topic that was asked for cannot be analysed.
        compacted: Those from which compaction removes records.
        retention_bytes: The retention.bytes of those that have a limit.
    """

    topics: Mapping[str, int]
    failed: Mapping[str, KafkaformError] = field(default_factory=dict)
    compacted: frozenset[str] = frozenset()
    retention_bytes: Mapping[str, int] = field(default_factory=dict)


def is_glob(text: str) -> bool:
    """Whether a text is a pattern of names; no topic has one of its special characters in its name."""
    return not _SPECIAL.isdisjoint(text)


def with_policy(desired: Sequence[Desired]) -> list[str]:
    """The declared topics that have a skew policy."""
    return [
        one.ref.name
        for one in desired
        if is_topic(one.ref) and one.state is not None and limits_of(one.intent) is not None
    ]


def choose_by_pattern(cluster: ClusterReader, globs: Sequence[str], ignore: Collection[str]) -> Chosen:
    """Find the topics that match globs, with their partition counts alone: no config is read.

    Args:
        cluster: Who is asked.
        globs: The globs.
        ignore: Globs of topics to leave out.

    Raises:
        KafkaformError: Nothing matches a glob.
        ClusterError: The cluster cannot be read.
    """
    inventory = cluster.observe([], kinds=[TopicKind.name]).inventory
    left_out = (_KAFKAS_OWN, *ignore)
    names = sorted(
        ref.name
        for ref in inventory
        if is_topic(ref)
        and any(fnmatchcase(ref.name, glob) for glob in globs)
        and not any(fnmatchcase(ref.name, glob) for glob in left_out)
    )
    _require_matches(globs, names)
    return Chosen(cluster.partition_counts(names))


def _require_matches(globs: Sequence[str], names: Collection[str]) -> None:
    for glob in globs:
        if not any(fnmatchcase(name, glob) for name in names):
            raise KafkaformError(
                f"no topic matches {glob!r}",
                hint="topics that Kafka or ignore: of kafkaform.yaml keeps apart are chosen by their full"
                " name; kafkaform get topics lists all",
            )


def choose(
    cluster: ResourceReader, asked: Sequence[str], desired: Sequence[Desired], ignore: Collection[str]
) -> Chosen:
    """Find the topics that are asked for.

    Args:
        cluster: Who is asked.
        asked: Names and globs; none for every declared topic that has a skew policy.
        desired: What manifests declare.
        ignore: Globs of topics that only their full names choose, unless they are declared.

    Raises:
        KafkaformError: Nothing has this name, nothing matches this glob, or no topic has a policy.
        ClusterError: The cluster cannot be read.
    """
    policed = with_policy(desired)
    if not asked and not policed:
        raise KafkaformError(
            "no declared topic has a skew policy, and no topic is named",
            hint="name topics (kafkaform skew orders.v1), or give manifests a policy:"
            " skew: {maxPartitionRatio: 2.0}",
        )
    names = [one for one in asked if not is_glob(one)] if asked else policed
    globs = [one for one in asked if is_glob(one)]
    declared = {one.ref.name for one in desired if is_topic(one.ref) and one.state is not None}

    def taken(ref: ResourceRef) -> bool:
        left_out = any(fnmatchcase(ref.name, glob) for glob in (_KAFKAS_OWN, *ignore))
        return (
            is_topic(ref)
            and any(fnmatchcase(ref.name, glob) for glob in globs)
            and (ref.name in declared or not left_out)
        )

    refs = [topic_ref(name) for name in dict.fromkeys(names)]
    observation = cluster.observe(refs, taken, kinds=[TopicKind.name])
    observed = {
        ref.name: topic
        for ref, topic in sorted(observation.resources.items())
        if ref in refs or not topic.internal
    }
    found = {name: int(cast("int", topic.state["partitions"])) for name, topic in observed.items()}
    missing = {ref.name: _missing(ref, observation) for ref in refs if ref.name not in found}
    for ref in refs:
        if asked and ref.name in missing and ref not in observation.invisible:
            raise missing[ref.name]
    _require_matches(globs, found)
    limits = {name: int(_config(topic, "retention.bytes") or -1) for name, topic in observed.items()}
    return Chosen(
        found,
        missing,
        frozenset(name for name, topic in observed.items() if "compact" in _config(topic, "cleanup.policy")),
        {name: limit for name, limit in limits.items() if limit >= 0},
    )


def _config(topic: Observed, name: str) -> str:
    """The value of a config that is in force; nothing if the account may not read it."""
    return str(topic.effective.get(f"{CONFIG_PREFIX}{name}") or "")


def _missing(ref: ResourceRef, observation: Observation) -> KafkaformError:
    if ref in observation.invisible:
        return KafkaformError(
            f"topic {ref.name}: {observation.invisible[ref]}",
            hint="the account needs DESCRIBE and READ on the topic, or the topic does not exist",
        )
    near = nearest(ref.name, [other.name for other in observation.inventory if is_topic(other)])
    return KafkaformError(
        f"there is no topic {ref.name!r} on the cluster",
        hint=f"did you mean {near}?" if near else "kafkaform get topics lists the names",
    )


def limits(desired: Sequence[Desired], topic: str) -> SkewLimits:
    """The skew policy of a topic, as advice needs it."""
    for one in desired:
        if one.ref == topic_ref(topic) and one.state is not None:
            return limits_of(one.intent) or SkewLimits()
    return SkewLimits()


def declared_partitions(desired: Sequence[Desired], topic: str) -> int | None:
    """The partition count that a topic's manifest declares; None if none does."""
    for one in desired:
        if one.ref == topic_ref(topic) and one.state is not None:
            return cast("int | None", one.state.get("partitions"))
    return None


def readers(desired: Sequence[Desired], topic: str) -> tuple[DeclaredReader, ...]:
    """The declared groups that read a topic, where it is said how many members they have.

    Share and streams groups are left out: they do not give a partition to one member by an assignor that
    a manifest can name.
    """
    found = []
    for group in groups(RuleContext(tuple(desired))):
        members = group.amount("members", "expected")
        if topic not in group.topics or not members:
            continue
        if group.protocol == CLASSIC:
            found.append(DeclaredReader(group.desired.ref.name, group.assignors[0], members))
        elif group.protocol == CONSUMER:
            assignor = group.declared_client.get(REMOTE_ASSIGNOR, DEFAULT_REMOTE_ASSIGNOR)
            found.append(DeclaredReader(group.desired.ref.name, assignor, members))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class PartitionLog:
    """The log of one partition.

    Attributes:
        partition: Its number.
        start: The first offset that an analysis is about.
        end: The offset after the last one.
        log_bytes: The bytes of the whole partition, one replica; None if nobody told.
        kept_from: The first offset that is kept.
        kept_since_ms: The time of the first record that is kept, in milliseconds since 1970; None if there is
            none.
    """

    partition: int
    start: int
    end: int
    log_bytes: int | None = None
    kept_from: int = 0
    kept_since_ms: int | None = None


@dataclass(frozen=True, slots=True)
class TopicLogs:
    """One reading of the logs of topics.

    Attributes:
        logs: The partitions of each topic, by number, without a gap.
        failed: Why the log of a topic is not known.
        notes: What else could not be read, a line each.
        arrivals: What was written to each topic, by offsets.
    """

    logs: Mapping[str, tuple[PartitionLog, ...]] = field(default_factory=dict)
    failed: Mapping[str, KafkaformError] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    arrivals: Mapping[str, TopicArrivals] = field(default_factory=dict)


def read_logs(
    cluster: PartitionReader, topics: Mapping[str, int], now_ms: int, since_ms: int | None = None
) -> TopicLogs:
    """Read how far logs reach, and what was written to them, in a few requests to each leader.

    They begin where all logs of a topic cover the same time, and end before the first open transaction: a
    reader of committed records would wait there.

    Args:
        cluster: Who is asked.
        topics: The partition count of each topic.
        now_ms: The time, in milliseconds since 1970.
        since_ms: Only from the first record on that is not older, in milliseconds since 1970.

    Raises:
        ClusterError: The cluster cannot be read at all.
    """
    asked = [(name, number) for name, count in topics.items() for number in range(count)]
    spans = cluster.log_spans(asked, committed=True)
    sizes: Mapping[tuple[str, int], int] = {}
    notes: list[str] = []
    try:
        sizes = cluster.partition_sizes(asked)
    except ClusterError as error:
        notes.append(f"the bytes of partitions: {error.message}")
    else:
        untold = sorted({name for name, number in asked if (name, number) not in sizes})
        if untold:
            notes.append(f"the bytes of all partitions of {listed(untold)}: the brokers do not report them")
    arrivals = find_arrivals(log_ends(spans, topics), offset_finder(cluster), now_ms, since_ms, recent=True)
    logs, failed = {}, {}
    for name, count in topics.items():
        missing = [number for number in range(count) if (name, number) not in spans]
        if missing:
            failed[name] = KafkaformError(
                f"topic {name}: no broker reports the offsets of {counted(len(missing), 'partition')} of "
                f"{count}"
                f" ({listed(list(map(str, missing)))})",
                hint="the partition has no leader, or the topic was just deleted; kafkaform doctor says more",
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
            )
            for number in range(count)
        )
    return TopicLogs(logs, failed, tuple(notes), {name: arrivals[name] for name in logs})


def new_records(before: TopicLogs, after: TopicLogs) -> TopicLogs:
    """Return the logs with what was written between two readings, as the period of each topic."""
    logs, arrivals = {}, {}
    for name, now in after.logs.items():
        if name not in before.logs or len(before.logs[name]) != len(now):
            continue
        earlier, known = before.arrivals[name], after.arrivals[name]
        logs[name] = tuple(
            replace(log, start=min(log.end, old.end)) for log, old in zip(now, before.logs[name], strict=True)
        )
        counts = tuple(log.end - log.start for log in logs[name])
        length_ms = max(1, known.until_ms - earlier.until_ms)
        arrivals[name] = replace(
            known,
            period_ms=length_ms,
            counts=counts,
            per_second=sum(counts) * 1000 / length_ms,
            since_made=False,
            since_ms=earlier.until_ms,
            starts=tuple(log.start for log in logs[name]),
            limited_by=None,
            added_from=None,
            unknown=None,
        )
    return TopicLogs(logs, after.failed, after.notes, arrivals)


def count_between(
    cluster: PartitionReader, topic: str, ends: Sequence[int], since_ms: int, until_ms: int
) -> tuple[int, ...]:
    """Count the offsets that were written to each partition of a topic between two times.

    Args:
        cluster: Who is asked.
        topic: The topic.
        ends: The offset after the last record of each partition.
        since_ms: From then on, in milliseconds since 1970; all logs must cover that.
        until_ms: Up to, and without, then.

    Raises:
        ClusterError: The leaders cannot be asked.
    """
    find = offset_finder(cluster)
    asked = [(topic, number) for number in range(len(ends))]
    first, last = find(dict.fromkeys(asked, since_ms)), find(dict.fromkeys(asked, until_ms))
    return tuple(
        max(0, last.get(partition, (end, 0))[0] - first.get(partition, (end, 0))[0])
        for partition, end in zip(asked, ends, strict=True)
    )


def recorded_increases(
    entries: Iterable[AuditEntry], reports: Iterable[SkewReport], cluster_id: str, topic: str
) -> tuple[PartitionChange, ...]:
    """The increases of a topic's partition count that were recorded, in the order of time.

    Args:
        entries: The audit record, oldest first.
        reports: Earlier reports, oldest first: where two have different counts, there was a change between.
        cluster_id: The cluster; entries and reports of others are left out.
        topic: The topic. What was before it was last made or deleted is left out.
    """
    from spark_validation.sampled_topic import PartitionChange

    found: list[PartitionChange] = []
    made = 0
    for entry in entries:
        if entry.cluster_id != cluster_id or entry.ref != topic_ref(topic) or not entry.took_place:
            continue
        if entry.action != "update":
            found, made = [], _milliseconds(entry.at)
            continue
        until = _milliseconds(entry.outcome.at if entry.outcome else entry.at)
        found += [
            PartitionChange(one.before, one.after, _milliseconds(entry.at), until, "the audit record")
            for one in entry.carried_out
            if one.path == "partitions" and isinstance(one.before, int) and isinstance(one.after, int)
        ]
    counts = [
        (len(result.partitions), _milliseconds(report.created_at))
        for report in reports
        for result in report.topics
        if report.cluster_id == cluster_id and result.name == topic and result.partitions
    ]
    recorded = {change.before for change in found}
    for (before, since), (after, until) in itertools.pairwise(counts):
        if before < after and before not in recorded and since >= made:
            found.append(PartitionChange(before, after, since, until, "earlier skew reports"))
    return tuple(sorted(found, key=lambda change: change.since_ms))


def _milliseconds(at: str) -> int:
    """The milliseconds since 1970 of a time as records and reports have it (RFC 3339)."""
    return int(datetime.fromisoformat(at).timestamp() * 1000)


_PREFIX = "skew-"
_SUFFIX = ".json"
_MOST_OF_ONE_SECOND = 1000


@dataclass(frozen=True, slots=True)
class EarlierReports:
    """What a folder has of earlier reports.

    Attributes:
        reports: Those of the same cluster that have one of the same topics, oldest first.
        damaged: Why a file was left out, a line each.
    """

    reports: tuple[SkewReport, ...] = ()
    damaged: tuple[str, ...] = ()


def earlier(
    folder: Path, cluster_id: str | None, topics: Collection[str], read: Callable[[Path], SkewReport]
) -> EarlierReports:
    """The reports of a folder on one of some topics of a cluster.

    Args:
        folder: It may not exist yet.
        cluster_id: The cluster; None for reports on files.
        topics: The topics.
        read: Reads the report of one file.

    Raises:
        KafkaformError: The folder cannot be read.
    """
    found: list[SkewReport] = []
    damaged: list[str] = []
    for file in _files(folder):
        try:
            one = read(file)
        except KafkaformError as error:
            damaged.append(error.message)
            continue
        if one.cluster_id == cluster_id and any(topic.name in topics for topic in one.topics):
            found.append(one)
    return EarlierReports(tuple(sorted(found, key=lambda one: one.created_at)), tuple(damaged))


def keep(folder: Path, report: SkewReport, text: str, write: Callable[[Path, str], None]) -> Path:
    """Keep a report; a second one of the same second gets a number.

    Args:
        folder: Made if it does not exist.
        report: The report.
        text: The report as JSON.
        write: Writes a file whole or not at all.

    Returns:
        The file.

    Raises:
        KafkaformError: It cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = _reserved(folder, re.sub(r"[^0-9A-Za-z]", "", report.created_at))
    except OSError as error:
        raise KafkaformError(f"cannot write into {folder}: {error.strerror}") from error
    try:
        write(file, text)
    except BaseException:
        file.unlink(missing_ok=True)
        raise
    return file


def _reserved(folder: Path, time: str) -> Path:
    """A new, empty file: whoever else keeps a report at the same time gets another."""
    for number in range(1, _MOST_OF_ONE_SECOND):
        again = f"-{number}" if number > 1 else ""
        file = folder / f"{_PREFIX}{time}{again}{_SUFFIX}"
        try:
            file.touch(exist_ok=False)
        except FileExistsError:
            continue
        return file
    raise KafkaformError(f"{folder} has {_MOST_OF_ONE_SECOND:,} reports of the same second")


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(folder.glob(f"{_PREFIX}*{_SUFFIX}")) if folder.is_dir() else []
    except OSError as error:
        raise KafkaformError(f"cannot read {folder}: {error.strerror}") from error
