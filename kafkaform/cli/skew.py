"""`kafkaform skew`."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafkaform import __version__
from kafkaform.cli import completion
from kafkaform.cli.error_handler import Complaints
from kafkaform.cli.options import SectionedCommand, Where, where_options
from kafkaform.cli.output import show
from kafkaform.cli.session import Session
from kafkaform.cli.skew_options import URL, SkewOptions, skew_options
from kafkaform.core.errors import AuditError, KafkaformError
from kafkaform.core.printable import printable
from kafkaform.core.wording import counted
from kafkaform.inspect.arrivals import read_arrivals
from kafkaform.inspect.skew import (
    choose,
    choose_by_pattern,
    count_between,
    declared_partitions,
    is_glob,
    limits,
    new_records,
    read_logs,
    readers,
    recorded_increases,
    with_policy,
)
from kafkaform.plan.planning import check_identity
from spark_validation.arrivals import Spread

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from kafkaform.audit.entries import AuditEntry
    from kafkaform.cli.skew_run import AnalysisResults, Progress
    from kafkaform.cluster.protocol import AuditReader, PartitionReader
    from kafkaform.core.model import Desired
    from kafkaform.inspect.skew import Chosen, PartitionLog, TopicLogs
    from spark_validation.configuration import SessionSettings
    from spark_validation.errors import SkewError
    from spark_validation.job import JobSettings
    from spark_validation.results import SkewReport, TopicResult
    from spark_validation.sampled_topic import PartitionChange
    from spark_validation.windows import Span

_PATTERN = re.compile(r"[\\*?\[\]{}^,]")


@click.command(cls=SectionedCommand)
@click.argument("topics", nargs=-1, metavar="[TOPIC]...", shell_complete=completion.topics)
@where_options
@skew_options
def skew(topics: tuple[str, ...], where: Where, options: SkewOptions) -> int:
    """Measure how evenly written records spread over partitions, why, and what would help.

    TOPICs are names or globs; the default is every declared topic with a skew policy. What was written is
    counted by offsets, whatever has been removed since. For the keys, Spark reads a sample of the records,
    which needs `pip install 'kafkaform[spark]'` and Java 17. Exits 2 if a topic breaks its
    declared skew policy with statistical confidence, 1 if a topic could not be read. With --arrivals, nothing
    but offsets is read, of all topics unless some are named, and no Spark is needed.
    """
    if options.class_archive in {"make", "remove"}:
        from kafkaform.cli.skew_run import keep_class_archive

        return keep_class_archive(options.class_archive)
    session = Session.start(where)
    if options.arrivals:
        return _show_arrivals(session, topics, options)
    from kafkaform.cli.skew_run import publish, require_spark
    from kafkaform.plan.skew_report import is_beyond_policy, judged

    if options.source is None:
        session.require_cluster()
        if options.output_format == "text":
            session.tell()
    desired = _declared(session, topics)
    require_spark()
    if options.source is None:
        outcome = _of_cluster(session, topics, desired, options)
    else:
        outcome = _of_files(session, options.source, topics, desired, options)
    _tell_failures(outcome)
    report = judged(outcome.report, desired, session.settings, session.environment)
    publish(report, options, outcome.past)
    if outcome.metrics_error is not None:
        raise outcome.metrics_error
    if outcome.failed:
        return 1
    return 2 if is_beyond_policy(report) else 0


def _show_arrivals(session: Session, topics: Sequence[str], options: SkewOptions) -> int:
    """Show how the records written to topics spread over partitions; returns the exit code."""
    session.require_cluster()
    if options.output_format == "text":
        session.tell()
    with session.cluster() as cluster:
        check_identity(cluster.facts(), session.target)
        asked, ignore = topics or ("*",), session.settings.ignore
        patterns_only = all(map(is_glob, asked))
        chosen = (
            choose_by_pattern(cluster, asked, ignore) if patterns_only else choose(cluster, asked, (), ignore)
        )
        arrivals = read_arrivals(cluster, chosen.topics, time.time_ns() // 1_000_000, options.since_ms)
    for name, error in chosen.failed.items():
        click.echo(printable(f"not read: {name}: {error.message}"), err=True)
    named = not any(map(is_glob, topics or ("*",)))
    show("arrivals", options.output_format, arrivals, out=options.out, verbose=options.verbose or named)
    return int(bool(chosen.failed) or any(topic.spread is Spread.UNKNOWN for topic in arrivals))


def _declared(session: Session, topics: Sequence[str]) -> list[Desired]:
    """What manifests declare; skew can also be measured where there are none.

    Outside a repository a folder named topics/ may be anybody's: whatever is in it, a topic that is named can
    be measured.
    """
    if session.settings.file is None and topics:
        from kafkaform.cli.status import declared_if_any

        return declared_if_any(session) or []
    if session.settings.file is None and not any(path.exists() for path in session.paths(())):
        return []
    return session.manifests(())


def _of_cluster(
    session: Session, topics: Sequence[str], desired: Sequence[Desired], options: SkewOptions
) -> AnalysisResults:
    """The analysis of records that are read from the cluster."""
    from kafkaform.cli.skew_run import AnalysisResults, run
    from spark_validation.analysis import LogFacts
    from spark_validation.job import TopicRequest, run_topics

    kafka = session.client()
    job = _job(options)
    with session.cluster() as cluster:
        facts = cluster.facts()
        check_identity(facts, session.target)
        chosen = choose(cluster, topics, desired, session.settings.ignore)
        reading = _read_logs(cluster, chosen, options)
        if any(map(is_glob, topics)) and not options.read_all:
            reading = _leave_out_even(reading, topics, desired)
        for note in reading.notes:
            click.echo(printable(f"not read: {note}"), err=True)
        failed = {**chosen.failed, **reading.failed}
        report = partial(_report, session, facts.cluster_id)
        if not reading.logs:
            return AnalysisResults(report(()), failed)

        # Most topics have no record that the present partition count does not explain.
        records = cache(partial(_records, session, cluster, options, facts.cluster_id, reading.logs))

        def partition_changes(name: str) -> Sequence[PartitionChange]:
            return recorded_increases(*records(), facts.cluster_id, name)

        requests = [
            TopicRequest(
                name,
                _spans(logs),
                limits(desired, name),
                _groups(desired, name),
                partial(partition_changes, name),
                LogFacts(
                    reading.arrivals[name],
                    name in chosen.compacted,
                    chosen.retention_bytes.get(name),
                    count_between=partial(count_between, cluster, name, [log.end for log in logs]),
                ),
                reading.arrivals[name].since_ms or options.since_ms,
            )
            for name, logs in reading.logs.items()
        ]
        counts = {name: len(logs) for name, logs in reading.logs.items()}

        def analyse(spark: Any, progress: Progress) -> Mapping[str, TopicResult | SkewError]:
            title = requests[0].name if len(requests) == 1 else counted(len(requests), "topic")
            with progress(title) as tell:
                return run_topics(
                    spark,
                    requests,
                    kafka,
                    job,
                    on_progress=tell,
                    spans_now=lambda names: _spans_now(cluster, {name: counts[name] for name in names}),
                )

        outcome = run(analyse, _spark(options), report, options)
    return replace(outcome, failed={**failed, **outcome.failed})


def _read_logs(cluster: PartitionReader, chosen: Chosen, options: SkewOptions) -> TopicLogs:
    """Read how far logs reach; with --watch, after a wait, and only what was written meanwhile."""
    now_ms = time.time_ns() // 1_000_000
    reading = read_logs(cluster, chosen.topics, now_ms, options.since_ms)
    if options.watch_ms is None or not reading.logs:
        return reading
    end = datetime.fromtimestamp((now_ms + options.watch_ms) / 1000, UTC)
    subject = next(iter(reading.logs)) if len(reading.logs) == 1 else counted(len(reading.logs), "topic")
    click.echo(printable(f"watching {subject} until {end:%H:%M:%S} UTC"), err=True)
    time.sleep(options.watch_ms / 1000)
    return new_records(reading, read_logs(cluster, chosen.topics, time.time_ns() // 1_000_000))


def _leave_out_even(reading: TopicLogs, topics: Sequence[str], desired: Sequence[Desired]) -> TopicLogs:
    """Leave out the topics that only a pattern chose, if their records arrive evenly and no policy asks."""
    policed = {*with_policy(desired), *topics}
    even = [
        name
        for name, arrivals in reading.arrivals.items()
        if name not in policed and arrivals.spread in {Spread.EVEN, Spread.LITTLE}
    ]
    if not even:
        return reading
    click.echo(
        f"left out: {counted(len(even), 'topic')} without a policy whose records arrive evenly, or are too "
        "few (--all reads them, too)",
        err=True,
    )
    return replace(reading, logs={name: logs for name, logs in reading.logs.items() if name not in even})


def _records(
    session: Session, cluster: AuditReader, options: SkewOptions, cluster_id: str, topics: Collection[str]
) -> tuple[Sequence[AuditEntry], Sequence[SkewReport]]:
    """The audit record, and the reports of --history: where partition counts of the past are recorded.

    What cannot be read is said on stderr, and left out: records show an increase too, if not so well.
    """
    from kafkaform.audit.trail import read_record
    from kafkaform.cli.skew_run import earlier

    entries: Sequence[AuditEntry] = ()
    reports: Sequence[SkewReport] = ()
    try:
        if session.target is not None and session.target.audit.enabled:
            entries = read_record(cluster, session.target.audit).entries
    except AuditError as error:
        click.echo(printable(f"not read: when partitions were added: {error.message}"), err=True)
    if options.history is not None:
        reports = earlier(options.history, cluster_id, topics).reports
    return entries, reports


def _of_files(
    session: Session, source: str, topics: Sequence[str], desired: Sequence[Desired], options: SkewOptions
) -> AnalysisResults:
    """The analysis of records that lie in files."""
    from kafkaform.cli.skew_run import run
    from spark_validation.errors import SkewError
    from spark_validation.files import open_files, run_file

    job, place = _job(options), _place(source, options)

    def analyse(spark: Any, progress: Progress) -> dict[str, TopicResult | SkewError]:
        files = open_files(spark, place, topics, called=source)
        found: dict[str, TopicResult | SkewError] = {}
        for name in files.topics:
            with progress(name) as tell:
                try:
                    found[name] = run_file(
                        spark,
                        files,
                        name,
                        job,
                        partitions=options.partitions,
                        declared=declared_partitions(desired, name),
                        limits=limits(desired, name),
                        groups=_groups(desired, name),
                        on_progress=tell,
                    )
                except SkewError as error:
                    found[name] = error
        return found

    return run(analyse, _spark(options), partial(_report, session, None), options)


def _place(source: str, options: SkewOptions) -> str:
    """Where files are, as Spark is to be told; a cluster knows other folders than this machine.

    Raises:
        KafkaformError: They are to be on this machine, and are not.
    """
    here = options.remote is None and (options.master or "local").startswith("local")
    if not here or URL.match(source):
        return source
    path = Path(source).absolute()
    if not path.exists():
        raise KafkaformError(f"--from {source}: no such file or folder")
    # To Spark a path is a pattern.
    return _PATTERN.sub(r"\\\g<0>", str(path))


def _job(options: SkewOptions) -> JobSettings:
    from spark_validation.job import JobSettings

    return JobSettings(
        records=options.records,
        seed=options.seed,
        full=options.full,
        precision=options.precision,
        what_if=options.what_if,
        show_keys=options.show_keys,
    )


def _spark(options: SkewOptions) -> SessionSettings:
    """How Spark is to run."""
    from kafkaform.cli.skew_run import class_archive_folder
    from kafkaform.devcluster.jars.java import find_java
    from spark_validation.class_archive import archive_file, is_usable
    from spark_validation.configuration import SessionSettings

    home = None if options.remote is not None else find_java().path.parent.parent
    home = home if home is not None and (home / "bin" / "java").exists() else None
    settings = SessionSettings(
        options.master,
        options.remote,
        options.spark_conf,
        debug=bool(click.get_current_context().find_root().params.get("debug")),
        # What only passes calls on to a Java elsewhere has no home: Spark finds it as we did.
        java_home=home,
    )
    archive = archive_file(class_archive_folder(), home)
    if options.class_archive == "off" or not settings.local or not is_usable(archive):
        return settings
    return replace(settings, class_archive=archive)


def _spans(logs: Sequence[PartitionLog]) -> list[Span]:
    from spark_validation.windows import Span

    return [
        Span(log.partition, log.start, log.end, log.log_bytes, log.kept_from, log.kept_since_ms)
        for log in logs
    ]


def _spans_now(cluster: PartitionReader, counts: Mapping[str, int]) -> dict[str, list[Span]]:
    """How far the logs of topics reach by now; a partition of which nobody tells is left out."""
    from spark_validation.windows import Span

    places = [(topic, number) for topic, count in counts.items() for number in range(count)]
    spans: dict[str, list[Span]] = {topic: [] for topic in counts}
    for (topic, number), span in sorted(cluster.log_spans(places).items()):
        spans[topic].append(Span(number, span.start, span.end))
    return spans


def _groups(desired: Sequence[Desired], topic: str) -> tuple[Any, ...]:
    """The groups whose assignor is known; of others nobody can say what a member gets."""
    from spark_validation.analysis import ASSIGNORS, ReaderGroup

    return tuple(
        ReaderGroup(one.name, one.assignor, one.members)
        for one in readers(desired, topic)
        if one.assignor in ASSIGNORS
    )


def _report(session: Session, cluster_id: str | None, results: Iterable[TopicResult]) -> SkewReport:
    from spark_validation.results import SkewReport

    name = session.target.name if session.target and cluster_id is not None else None
    return SkewReport(
        __version__,
        cluster_id,
        name if name in session.settings.clusters else None,
        datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        tuple(sorted(results, key=lambda one: one.name)),
    )


def _tell_failures(outcome: AnalysisResults) -> None:
    """Say why topics have no result; raises where none has one."""
    failures: Mapping[str, KafkaformError] = outcome.failed
    if not outcome.report.topics and len(failures) == 1:
        raise next(iter(failures.values()))
    complaints = click.get_current_context().find_object(Complaints)
    for error in failures.values():
        hint = f" ({error.hint})" if error.hint else ""
        text = f"not read: {error.message}{hint}"
        click.echo(printable(complaints.redacted(text) if complaints else text), err=True)
    if failures and not outcome.report.topics:
        raise KafkaformError(f"none of {counted(len(failures), 'topic')} could be analysed")
