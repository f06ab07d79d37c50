"""`kafkaform skew`."""

from __future__ import annotations

import re
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafkaform import __version__
from kafkaform.cli import completion
from kafkaform.cli.error_handler import ErrorHandler
from kafkaform.cli.options import ClusterSelector, SectionedCommand, where_options
from kafkaform.cli.session import Session
from kafkaform.cli.skew_options import URL, GivenOptions, SkewOptions, resolve_options, skew_options
from kafkaform.cli.skew_run import (
    AnalysisResults,
    class_archive_folder,
    publish,
    read_reports,
    require_spark,
    run,
    skew_errors,
)
from kafkaform.core.errors import AuditError, ClusterError, KafkaformError
from kafkaform.core.printable import printable
from kafkaform.core.values import replace
from kafkaform.core.wording import counted
from kafkaform.inspect.arrivals import mark_transactional
from kafkaform.inspect.skew_input import (
    choose,
    count_between,
    find_declared_partitions,
    find_limits,
    find_recorded_increases,
    is_glob,
    list_consumers,
    list_topics_with_policy,
    read_logs,
    read_new_records,
    read_offsets_at,
)
from kafkaform.plan.planning import check_identity
from spark_validation.arrivals import Spread

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from kafkaform.audit.entries import AuditEntry
    from kafkaform.cli.skew_run import Progress
    from kafkaform.cluster.protocol import AuditReader, PartitionReader
    from kafkaform.core.model import Desired
    from kafkaform.core.partitions import TopicPartition
    from kafkaform.inspect.skew_input import PartitionLog, TopicLogs, TopicSelection
    from spark_validation.configuration import SessionSettings
    from spark_validation.errors import SkewError
    from spark_validation.job import JobSettings
    from spark_validation.results import PartitionChange, SkewReport, TopicResult
    from spark_validation.time_search import ReadRecords
    from spark_validation.windows import Span

_PATTERN = re.compile(r"[\\*?\[\]{}^,]")


@click.command(cls=SectionedCommand)
@click.argument("topics", nargs=-1, metavar="[TOPIC]...", shell_complete=completion.topics)
@where_options
@skew_options
def skew(topics: tuple[str, ...], where: ClusterSelector, given: GivenOptions) -> int:
    """Measure how evenly written records spread over partitions, why, and what would help.

    TOPICs are names or globs; the default is every declared topic with a skew policy. What was written is
    counted by offsets, whatever has been removed since. For the keys, Spark reads a sample of the records,
    which needs `pip install 'kafkaform[spark]'` and Java 17; `kafkaform arrivals` needs neither. Exits 2 if a
    topic breaks its declared skew policy with statistical confidence, 1 if a topic could not be read.
    """
    options = resolve_options(given, topics)
    session = Session.start(where)
    options = replace(options, class_archive=session.settings.class_archive)
    from kafkaform.plan.skew_report import is_beyond_policy, is_unknown, judge_report

    if options.source is None:
        session.require_cluster()
        if options.output_format == "text":
            session.tell()
    desired = _read_declared(session, topics)
    # After the manifests, whose errors are found faster, and before the cluster is read for nothing.
    require_spark()
    if options.source is None:
        outcome = _analyse_cluster(session, topics, desired, options)
    else:
        outcome = _analyse_files(session, options.source, topics, desired, options)
    _tell_failures(outcome)
    report = judge_report(outcome.report, desired, session.settings, session.environment)
    publish(report, options, outcome.past)
    # After the report: an analysis may take minutes, and must not be lost because a table cannot be written
    # to.
    if outcome.metrics_error is not None:
        raise outcome.metrics_error
    if outcome.failed or is_unknown(report):
        return 1
    return 2 if is_beyond_policy(report) else 0


def _read_declared(session: Session, topics: Sequence[str]) -> list[Desired]:
    """Return the declared resources; none where there are no manifests.

    Outside a repository, a folder named topics/ may have another purpose: with topics on the command line,
    its problems are not errors.
    """
    if session.settings.file is None and topics:
        from kafkaform.cli.status import declared_if_any

        return declared_if_any(session) or []
    if session.settings.file is None and not any(path.exists() for path in session.paths(())):
        return []
    return session.manifests(())


def _analyse_cluster(
    session: Session, topics: Sequence[str], desired: Sequence[Desired], options: SkewOptions
) -> AnalysisResults:
    """Analyse records from the cluster."""
    from spark_validation.analysis import LogFacts
    from spark_validation.job import TopicRequest, run_topics

    # Spark connects on its own, with the resolved properties.
    kafka = session.client()
    job = _build_job(options)
    with session.cluster() as cluster:
        facts = cluster.facts()
        check_identity(facts, session.target)
        chosen = choose(cluster, topics, desired, session.settings.ignore.names)
        failed = dict(chosen.failed)
        report = partial(_report, session, facts.cluster_id)
        read_records = _make_record_reader(kafka)

        def read() -> TopicLogs:
            reading = _read_logs(cluster, chosen, options, read_records)
            # Reading records costs far more than reading offsets: even topics are left out by their offsets.
            if any(map(is_glob, topics)) and not options.read_all:
                reading = _leave_out_even(reading, topics, desired)
            for note in reading.notes:
                click.echo(printable(f"not read: {note}"), err=True)
            # `failed` is filled in the other thread, and read only after `pending.result()`.
            failed.update(reading.failed)
            return reading

        def analyse(spark: Any, progress: Progress) -> Mapping[str, TopicResult | SkewError]:
            reading = pending.result()
            # Read on demand: most topics have no record outside the partition that its key now maps to.
            records = cache(
                partial(_read_partition_history, session, cluster, options, facts.cluster_id, reading.logs)
            )

            def partition_changes(name: str) -> Sequence[PartitionChange]:
                return find_recorded_increases(*records(), facts.cluster_id, name)

            requests = [
                TopicRequest(
                    name,
                    _build_spans(logs),
                    find_limits(desired, name),
                    _groups(desired, name),
                    partial(partition_changes, name),
                    LogFacts(
                        reading.arrivals[name],
                        None if name in chosen.unread else name in chosen.compacted,
                        chosen.retention_bytes.get(name),
                        count_between=partial(
                            _query_leaders, name, partial(count_between, cluster, reading, read_records, name)
                        ),
                        offsets_at=partial(
                            _query_leaders, name, partial(read_offsets_at, cluster, reading, name)
                        ),
                    ),
                    reading.arrivals[name].since_ms,
                )
                for name, logs in reading.logs.items()
            ]
            title = requests[0].name if len(requests) == 1 else counted(len(requests), "topic")
            with progress(title) as tell:
                return run_topics(
                    spark,
                    requests,
                    kafka,
                    job,
                    on_progress=tell,
                    spans_now=partial(_read_spans, cluster, reading),
                )

        with ThreadPoolExecutor(1) as pool:
            pending = pool.submit(read)
            # Spark takes seconds to start, and leaders answer meanwhile. Their answers are awaited first only
            # if there may be nothing to analyse.
            narrowed = any(map(is_glob, topics)) and not options.read_all
            first = narrowed or options.watch_ms is not None or not chosen.topics
            if first and not pending.result().logs:
                return AnalysisResults(report(()), failed)
            outcome = run(analyse, _build_spark_settings(options), report, options)
    return replace(outcome, failed={**failed, **outcome.failed})


def _make_record_reader(kafka: Mapping[str, str]) -> ReadRecords:
    """Return a function that reads the first records from given offsets on, with a client that it makes."""
    from spark_validation.kafka_client import OffsetReader

    connect = cache(lambda: OffsetReader(kafka))

    def read(offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, Sequence[tuple[int, int]]]:
        with skew_errors():
            return connect().read_records(offsets)

    return read


def _query_leaders(
    topic: str, run: Callable[..., Sequence[int] | None], *times_ms: int
) -> Sequence[int] | None:
    """Ask for offsets by time; returns None and prints a line if leaders do not answer."""
    try:
        return run(*times_ms)
    except ClusterError as error:
        click.echo(printable(f"not read: the offsets of {topic} by time: {error.message}"), err=True)
        return None


def _read_logs(
    cluster: PartitionReader, chosen: TopicSelection, options: SkewOptions, read_records: ReadRecords
) -> TopicLogs:
    """Read the ends of logs; with --watch, those of the records written during the wait."""
    now_ms = time.time_ns() // 1_000_000
    reading = read_logs(
        cluster, chosen.topics, now_ms, options.since_ms, ordered=chosen.ordered, read_records=read_records
    )
    marked = mark_transactional(cluster, [*reading.arrivals.values()], reading.arrivals)
    reading = replace(reading, arrivals={topic.name: topic for topic in marked})
    if options.watch_ms is None or not reading.logs:
        return reading
    end = datetime.fromtimestamp((now_ms + options.watch_ms) / 1000, UTC)
    subject = next(iter(reading.logs)) if len(reading.logs) == 1 else counted(len(reading.logs), "topic")
    click.echo(printable(f"watching {subject} until {end:%H:%M:%S} UTC"), err=True)
    time.sleep(options.watch_ms / 1000)
    # The ends before and after the wait enclose the records that were written meanwhile.
    return read_new_records(cluster, reading, time.time_ns() // 1_000_000)


def _leave_out_even(reading: TopicLogs, topics: Sequence[str], desired: Sequence[Desired]) -> TopicLogs:
    """Leave out topics that only a pattern selects, without a policy, whose records arrive evenly."""
    required = {*list_topics_with_policy(desired), *topics}
    even = [
        name
        for name, arrivals in reading.arrivals.items()
        if name not in required and arrivals.spread in {Spread.EVEN, Spread.LITTLE}
    ]
    if not even:
        return reading
    click.echo(
        f"left out: {counted(len(even), 'topic')} without a policy whose records arrive evenly, or are too "
        "few (--all reads them, too)",
        err=True,
    )
    return replace(reading, logs={name: logs for name, logs in reading.logs.items() if name not in even})


def _read_partition_history(
    session: Session, cluster: AuditReader, options: SkewOptions, cluster_id: str, topics: Collection[str]
) -> tuple[Sequence[AuditEntry], Sequence[SkewReport]]:
    """Read the audit record and the reports of --history, which contain earlier partition counts.

    Errors are printed, and the part is left out: the sampled records show an increase too, less exactly.
    """
    from kafkaform.audit.trail import read_record

    entries: Sequence[AuditEntry] = ()
    reports: Sequence[SkewReport] = ()
    try:
        if session.target is not None and session.target.audit.enabled:
            entries = read_record(cluster, session.target.audit).entries
    except AuditError as error:
        click.echo(printable(f"not read: when partitions were added: {error.message}"), err=True)
    if options.history.folder is not None:
        reports = read_reports(options.history.folder, cluster_id, topics).reports
    return entries, reports


def _analyse_files(
    session: Session, source: str, topics: Sequence[str], desired: Sequence[Desired], options: SkewOptions
) -> AnalysisResults:
    """Analyse records from files."""
    from spark_validation.errors import SkewError
    from spark_validation.files import FileTopic, open_files, run_file

    job, location = _build_job(options), _resolve_source(source, options)

    def analyse(spark: Any, progress: Progress) -> dict[str, TopicResult | SkewError]:
        files = open_files(spark, location, topics, called=source)
        results: dict[str, TopicResult | SkewError] = {}
        for name in files.topics:
            with progress(name) as tell:
                try:
                    results[name] = run_file(
                        spark,
                        files,
                        name,
                        job,
                        FileTopic(
                            find_limits(desired, name),
                            options.partitions,
                            find_declared_partitions(desired, name),
                            _groups(desired, name),
                        ),
                        tell,
                    )
                except SkewError as error:
                    results[name] = error
        return results

    return run(analyse, _build_spark_settings(options), partial(_report, session, None), options)


def _resolve_source(source: str, options: SkewOptions) -> str:
    """Return the path of the files for Spark; local paths are made absolute, and escaped.

    Raises:
        KafkaformError: A local path does not exist, or has another thing than files.
    """
    here = options.remote is None and (options.master or "local").startswith("local")
    if not here or URL.match(source):
        return source
    path = Path(source).absolute()
    if not path.exists():
        raise KafkaformError(f"--from {source}: no such file or folder")
    for file in (path, *path.rglob("*")):
        if file.exists() and not (file.is_file() or file.is_dir()):
            # Spark would wait for a named pipe.
            raise KafkaformError(f"--from {source}: {file} is not a regular file")
    # Spark takes a path as a pattern.
    return _PATTERN.sub(r"\\\g<0>", str(path))


def _build_job(options: SkewOptions) -> JobSettings:
    from spark_validation.job import JobSettings

    return JobSettings(
        records=options.records,
        seed=options.seed,
        full=options.full,
        precision=options.precision,
        what_if=options.what_if,
        show_keys=options.show_keys,
    )


def _build_spark_settings(options: SkewOptions) -> SessionSettings:
    """Build the settings of the Spark session."""
    from kafkaform.devcluster.jars.java import find_java
    from spark_validation.class_archive import archive_file, is_usable, make
    from spark_validation.configuration import SessionSettings

    home = None if options.remote is not None else find_java().path.parent.parent
    home = home if home is not None and (home / "bin" / "java").exists() else None
    settings = SessionSettings(
        options.master,
        options.remote,
        options.spark_conf,
        debug=bool(click.get_current_context().find_root().params.get("debug")),
        # A wrapper that calls a Java elsewhere has no Java home; Spark then finds Java as we did.
        java_home=home,
    )
    if options.class_archive == "off" or not settings.local:
        return settings
    archive = archive_file(class_archive_folder(), home)
    if options.class_archive == "now" and not is_usable(archive):
        click.echo("making the archive of Spark's classes, once; this takes some 20 seconds", err=True)
        try:
            with skew_errors():
                make(archive, home)
        except OSError as error:
            raise KafkaformError(f"cannot write {archive}: {error.strerror}") from error
    # Another process may still be making it.
    return replace(settings, class_archive=archive) if is_usable(archive) else settings


def _build_spans(logs: Sequence[PartitionLog]) -> list[Span]:
    from spark_validation.windows import Span

    return [
        Span(log.partition, log.start, log.end, log.log_bytes, log.kept_from, log.kept_since_ms)
        for log in logs
    ]


def _read_spans(
    cluster: PartitionReader, before: TopicLogs, topics: Sequence[str]
) -> dict[str, Sequence[Span] | SkewError]:
    """Read the current ends of the logs of topics; partitions that cannot be read are left out.

    A topic that was deleted and made again since the first reading gets an error.
    """
    from spark_validation.errors import find_changed_topics
    from spark_validation.windows import Span

    partitions = [(topic, log.partition) for topic in topics for log in before.logs[topic]]
    spans: dict[str, list[Span]] = {topic: [] for topic in topics}
    for (topic, number), span in sorted(cluster.log_spans(partitions).items()):
        spans[topic].append(Span(number, span.start, span.end))
    return {**spans, **find_changed_topics(before.ids, cluster.topic_ids(topics))}


def _groups(desired: Sequence[Desired], topic: str) -> tuple[Any, ...]:
    """Return the groups that read a topic with a known assignor; others cannot be simulated."""
    from spark_validation.analysis import ASSIGNORS, ReaderGroup

    return tuple(
        ReaderGroup(group.name, group.assignor, group.members)
        for group in list_consumers(desired, topic)
        if group.assignor in ASSIGNORS
    )


def _report(session: Session, cluster_id: str | None, results: Iterable[TopicResult]) -> SkewReport:
    from spark_validation.results import SkewReport

    name = session.target.name if session.target and cluster_id is not None else None
    return SkewReport(
        __version__,
        cluster_id,
        name if name in session.settings.clusters else None,
        datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        tuple(sorted(results, key=lambda result: result.name)),
    )


def _tell_failures(outcome: AnalysisResults) -> None:
    """Print why topics have no result; raises KafkaformError if none has one."""
    failures: Mapping[str, KafkaformError] = outcome.failed
    if not outcome.report.topics and len(failures) == 1:
        raise next(iter(failures.values()))
    error_handler = click.get_current_context().find_object(ErrorHandler)
    for error in failures.values():
        hint = f" ({error.hint})" if error.hint else ""
        text = f"not read: {error.message}{hint}"
        click.echo(printable(error_handler.redact(text) if error_handler else text), err=True)
    if failures and not outcome.report.topics:
        raise KafkaformError(f"none of {counted(len(failures), 'topic')} could be analysed")
