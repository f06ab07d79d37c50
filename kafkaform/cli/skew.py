"""`kafkaform skew`."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafkaform import __version__
from kafkaform.cli import completion
from kafkaform.cli.error_handler import ErrorHandler
from kafkaform.cli.options import ClusterSelector, SectionedCommand, where_options
from kafkaform.cli.session import Session
from kafkaform.cli.skew_options import URL, GivenOptions, SkewOptions, resolve_options, skew_options
from kafkaform.cli.skew_run import AnalysisResults, class_archive_folder, publish, require_spark, run
from kafkaform.core.errors import AuditError, KafkaformError
from kafkaform.core.printable import printable
from kafkaform.core.values import replace
from kafkaform.core.wording import counted
from kafkaform.inspect.skew_analysis import ClusterAnalysis, skew_errors
from kafkaform.inspect.skew_folder import read_reports
from kafkaform.inspect.skew_input import choose, find_declared_partitions, find_limits, find_reader_groups
from kafkaform.plan.planning import check_identity

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from kafkaform.audit.entries import AuditEntry
    from kafkaform.cli.skew_run import Progress
    from kafkaform.cluster.protocol import AuditReader
    from kafkaform.core.model import Desired
    from spark_validation.configuration import SessionSettings
    from spark_validation.errors import SkewError
    from spark_validation.results import SkewReport, TopicResult

_PATTERN = re.compile(r"[\\*?\[\]{}^,]")


@click.command(cls=SectionedCommand)
@click.argument("topics", nargs=-1, metavar="[TOPIC]...", shell_complete=completion.topics)
@where_options
@skew_options
def skew(topics: tuple[str, ...], where: ClusterSelector, given: GivenOptions) -> int:
    """Measure how evenly records spread over partitions, and why.

    TOPICs are names or globs; the default is every declared topic with a skew policy. Spark reads a sample of
    the records, which needs `pip install 'kafkaform[spark]'` and Java 17; `kafkaform arrivals` needs neither.
    Exits 2 if a topic breaks its declared skew policy with statistical confidence, 1 if a topic could not be
    read.
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
    # Spark connects on its own, with the resolved properties.
    kafka = session.client()
    with session.cluster() as cluster:
        facts = cluster.facts()
        check_identity(facts, session.target)
        report = partial(_report, session, facts.cluster_id)
        analysis = ClusterAnalysis(
            cluster,
            facts.cluster_id,
            choose(cluster, topics, desired, session.settings.ignore.names),
            topics,
            desired,
            kafka,
            options.job,
            options.since_ms,
            options.watch_ms,
            options.read_all,
            partial(_read_partition_history, session, cluster, options, facts.cluster_id),
            lambda line: click.echo(printable(line), err=True),
        )
        outcome, failed = analysis.run(
            lambda analyse: run(analyse, _build_spark_settings(options), report, options)
        )
    outcome = outcome or AnalysisResults(report(()))
    return replace(outcome, failed={**failed, **outcome.failed})


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

    location = _resolve_source(source, options)

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
                        options.job,
                        FileTopic(
                            find_limits(desired, name),
                            options.partitions,
                            find_declared_partitions(desired, name),
                            find_reader_groups(desired, name),
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
