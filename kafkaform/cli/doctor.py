"""`kafkaform doctor`."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import click

from kafkaform.cli import completion
from kafkaform.cli.fleet import ClusterOutcome, Fleet, run_on_clusters
from kafkaform.cli.options import (
    ClusterSelector,
    SectionedCommand,
    clusters_option,
    option_group,
    parse_milliseconds,
    paths_argument,
    report_option,
    require_files,
    where_options,
)
from kafkaform.cli.output import ReportOutput, failure_as_metrics, format_option, show, tell, verbose_option
from kafkaform.cli.session import Session
from kafkaform.cli.terminal import is_animated
from kafkaform.core.errors import ClusterError, UsageError
from kafkaform.core.model import Desired, Severity
from kafkaform.core.printable import printable
from kafkaform.core.units import format_duration
from kafkaform.core.values import Value
from kafkaform.core.wording import nearest
from kafkaform.inspect.health_check import (
    Examination,
    HealthReport,
    HealthVerdict,
    await_health,
    health_rules,
)
from kafkaform.report.doctor import headline
from kafkaform.rules import plugins

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kafkaform.config.settings import Settings

HEALTH_CODES = {HealthVerdict.HEALTHY: 0, HealthVerdict.UNKNOWN: 1, HealthVerdict.UNHEALTHY: 2}
"""The exit codes by verdict."""


class DoctorOptions(Value):
    """The rules to check, and the verdict.

    Attributes:
        clusters: The selected clusters; empty for one. Each is checked.
        wait: The most milliseconds to wait for a healthy cluster; None: it is checked once.
        fail_on: The lowest severity that counts as unhealthy.
        codes: Only these rules.
    """

    clusters: tuple[str, ...]
    wait: int | None
    fail_on: str
    codes: tuple[str, ...]


@click.command(cls=SectionedCommand)
@paths_argument
@where_options
@option_group(
    DoctorOptions,
    "options",
    clusters_option(),
    click.option(
        "--wait",
        callback=parse_milliseconds,
        metavar="DURATION",
        help="Check until the cluster is healthy, for at most this long, such as 5m.",
    ),
    click.option(
        "--fail-on",
        type=click.Choice([severity.value for severity in Severity]),
        default=Severity.WARNING.value,
        show_default=True,
        help="The lowest severity of a finding that makes the cluster unhealthy.",
    ),
    click.option(
        "--rule",
        "codes",
        multiple=True,
        metavar="CODE",
        shell_complete=completion.health_codes,
        help="Check only this rule (repeatable), such as KF303.",
    ),
)
@option_group(
    ReportOutput,
    "output",
    format_option(
        "doctor", "markdown is for an issue, prometheus for the textfile collector of node_exporter."
    ),
    report_option,
    verbose_option,
)
def doctor(
    paths: tuple[Path, ...], where: ClusterSelector, options: DoctorOptions, output: ReportOutput
) -> int:
    """Check the health of brokers, partitions and groups.

    PATHs are manifests or folders of manifests; the default is `manifests:` of kafkaform.yaml, or topics/, if
    there are any. Exits 0 if healthy, 2 if unhealthy, 1 if that could not be determined.
    """
    timeout_s = None if options.wait is None else options.wait / 1000
    examine = partial(
        examine_cluster,
        paths=paths,
        fail_on=Severity(options.fail_on),
        codes=options.codes,
        timeout_s=timeout_s,
    )
    if options.clusters:
        require_files(paths, "--clusters reads the manifests once for each cluster")

        def run(session: Session) -> ClusterOutcome:
            # Clusters are examined in threads, and a live line of each would overwrite those of the others.
            report = examine(session, animated=False)
            return ClusterOutcome(
                report, HEALTH_CODES[report.verdict], {"name": session.require_cluster().name}
            )

        return run_on_clusters(
            where, run, Fleet(options.clusters, "doctor", output.output_format, output.verbose, output.out)
        )
    session = Session.start(where)
    target = session.require_cluster()
    if output.output_format == "text":
        session.tell()
    plugins.load()
    with failure_as_metrics("doctor", output.output_format, target.name, output.out):
        report = examine(session, animated=is_animated(sys.stderr))
    show("doctor", output.output_format, report, out=output.out, name=target.name, verbose=output.verbose)
    return HEALTH_CODES[report.verdict]


def examine_cluster(
    session: Session,
    *,
    paths: tuple[Path, ...] = (),
    fail_on: Severity = Severity.WARNING,
    codes: tuple[str, ...] = (),
    timeout_s: float | None = None,
    animated: bool = False,
) -> HealthReport:
    """Examine one cluster, once or until it is healthy.

    Args:
        session: The session of the cluster.
        paths: The manifests that it is compared with; empty for those of the configuration.
        fail_on: The lowest severity of a finding that makes it unhealthy.
        codes: Only these rules; empty for all.
        timeout_s: The seconds to wait until it is healthy; None to examine it once.
        animated: Whether the wait is shown in one live line.
    """
    target = session.require_cluster()
    examination = Examination(
        tuple(_read_declared(session, paths)),
        session.settings,
        target,
        session.environment,
        _parse_codes(codes, session.settings),
        fail_on,
        session.is_subset(paths, ()),
    )

    def examine() -> HealthReport:
        # A new connection for each reading: brokers may restart between two readings.
        with session.cluster() as cluster:
            return examination.examine(cluster)

    if timeout_s is None:
        return examine()
    with _progress(target.name, timeout_s, animated=animated) as tell:
        return await_health(examine, timeout_s, tell)


def _read_declared(session: Session, paths: tuple[Path, ...]) -> list[Desired]:
    """Return the declared resources; none where there are no manifests."""
    folders = session.paths(paths)
    # Given paths must exist; default folders may be missing, as health can be checked without manifests.
    if paths or any(path.exists() for path in folders):
        return session.manifests(paths)
    if session.settings.file is not None:
        tell(f"no manifests in {', '.join(map(str, folders))}: the cluster is not compared with manifests")
    return []


def _parse_codes(codes: tuple[str, ...], settings: Settings) -> frozenset[str]:
    known = health_rules(settings)
    for code in codes:
        if code.upper() not in known:
            near = nearest(code, known)
            hint = f"did you mean {near}?" if near else f"the health rules are {', '.join(sorted(known))}"
            raise UsageError(f"--rule {code}: there is no such health rule", hint=hint)
    return frozenset(code.upper() for code in codes)


@contextmanager
def _progress(
    name: str, timeout_s: float, *, animated: bool
) -> Iterator[Callable[[HealthReport | ClusterError], None]]:
    """Yield a function that shows readings on stderr: in one live line, or a line per change."""
    deadline = time.monotonic() + timeout_s
    if animated:
        from rich.console import Console
        from rich.markup import escape

        with Console(stderr=True, highlight=False).status("Reading") as status:

            def show(outcome: HealthReport | ClusterError) -> None:
                remaining = format_duration(max(0, round(deadline - time.monotonic())) * 1000)
                status.update(escape(f"{_describe_outcome(outcome, name)}, {remaining} left"))

            yield show
        return
    lines: list[str] = []

    def follow(outcome: HealthReport | ClusterError) -> None:
        line = _describe_outcome(outcome, name)
        # A log gets a line per change. A wait of minutes would otherwise fill it with equal lines.
        if lines[-1:] != [line]:
            lines.append(line)
            click.echo(f"waiting: {line}", err=True)

    yield follow


def _describe_outcome(outcome: HealthReport | ClusterError, name: str) -> str:
    if isinstance(outcome, ClusterError):
        return printable(f"not read: {outcome.message}")
    codes = ", ".join(dict.fromkeys(finding.code for finding in outcome.findings))
    return f"{headline(outcome, name)}{f': {codes}' if codes else ''}"
