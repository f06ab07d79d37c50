"""Printing reports: the only place that knows about terminals."""

from __future__ import annotations

import os
import sys
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from inspect import signature
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

import click

from kafkaform import __version__
from kafkaform.cli.terminal import WIDEST, colours, prose_width, table_width
from kafkaform.config.manifests.files import CONFIG_FILE, DASH, NO_CONFIG_FILE
from kafkaform.core.errors import InvalidInput, KafkaformError, RepositoryError
from kafkaform.core.files import write_file
from kafkaform.core.printable import plain_quotes, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from rich.text import Text

    from kafkaform.cli.session import Session
    from kafkaform.config.settings import Settings
    from kafkaform.plan.plan_header import PlanHeader
    from kafkaform.plan.plan_signature import Purpose
    from kafkaform.report.findings import ChangedFiles, Workspace
    from kafkaform.report.page import Page

RENDERERS: Mapping[str, Mapping[str, str]] = {
    "plan": {
        "text": "kafkaform.report.text:render_plan",
        "json": "kafkaform.plan.plan_file:plan_to_json",
        "markdown": "kafkaform.report.markdown:render_markdown",
        "github": "kafkaform.report.diagnostics:plan_to_github",
        "sarif": "kafkaform.report.diagnostics:plan_to_sarif",
    },
    "fleet": {
        "text": "kafkaform.report.fleet:render_fleet",
        "json": "kafkaform.report.fleet:fleet_to_json",
        "markdown": "kafkaform.report.fleet:fleet_to_markdown",
    },
    "balance": {"text": "kafkaform.report.moves:render_balance"},
    "apply": {
        "text": "kafkaform.report.apply:render_apply",
        "json": "kafkaform.report.apply:apply_to_json",
    },
    "drift": {
        "text": "kafkaform.report.drift_text:render_drift",
        "json": "kafkaform.report.drift_json:drift_to_json",
        "markdown": "kafkaform.report.drift_markdown:render_drift_markdown",
        "prometheus": "kafkaform.report.prometheus:drift_metrics",
        "github": "kafkaform.report.drift_json:drift_to_github",
    },
    "adoption": {"text": "kafkaform.report.edits:render_adoption"},
    "edits": {"text": "kafkaform.report.edits:render_edits"},
    "findings": {
        "text": "kafkaform.report.diagnostics:findings_to_text",
        "json": "kafkaform.report.diagnostics:findings_to_json",
        "github": "kafkaform.report.diagnostics:findings_to_github",
        "sarif": "kafkaform.report.diagnostics:findings_to_sarif",
    },
    "rules": {
        "text": "kafkaform.report.rules:rules_to_text",
        "json": "kafkaform.report.rules:rules_to_json",
    },
    "rule": {
        "text": "kafkaform.report.rules:rule_to_text",
        "json": "kafkaform.report.rules:rule_to_json",
    },
    "doctor": {
        "text": "kafkaform.report.doctor:render_health",
        "json": "kafkaform.report.doctor:health_to_json",
        "markdown": "kafkaform.report.doctor:health_to_markdown",
        "prometheus": "kafkaform.report.prometheus:doctor_metrics",
    },
    "status": {
        "text": "kafkaform.report.status:render_status",
        "json": "kafkaform.report.status:status_to_json",
    },
    "history": {
        "text": "kafkaform.report.history:render_history",
        "json": "kafkaform.report.history:history_to_json",
    },
    "compare": {
        "text": "kafkaform.report.comparison:render_comparison",
        "json": "kafkaform.report.comparison:comparison_to_json",
        "markdown": "kafkaform.report.comparison:comparison_to_markdown",
    },
    "graph": {
        "mermaid": "kafkaform.report.graph:render_mermaid",
        "dot": "kafkaform.report.graph:render_dot",
        "json": "kafkaform.report.graph:graph_to_json",
    },
    "import": {"text": "kafkaform.report.edits:render_import"},
    "arrivals": {
        "text": "kafkaform.report.arrivals:render_arrivals",
        "json": "kafkaform.report.arrivals:arrivals_to_json",
    },
    "skew": {
        "text": "kafkaform.report.skew_text:render_skew",
        "json": "spark_validation.results:to_json",
        "markdown": "kafkaform.report.skew_markdown:render_skew_markdown",
        "html": "kafkaform.report.skew_html:render_skew_html",
    },
}
"""The function that renders each report in each format, imported when it is used; the default comes first."""

_TABLES = frozenset({"arrivals", "compare", "status", "balance"})
"""Reports that are tables, as wide as the terminal; prose is wrapped earlier."""
_PROSE = frozenset(
    {"adoption", "apply", "doctor", "drift", "edits", "fleet", "history", "import", "plan", "skew"}
)
"""Reports that are wrapped in pipes and files, too; programs read those of which each line is a record."""
_ANNOTATIONS = frozenset({"github", "sarif"})
"""The formats that put findings on the lines of files, problems of the input too."""

verbose_option = click.option(
    "-v", "--verbose", is_flag=True, help="List everything, including what is otherwise only counted."
)


def format_option(report: str, explanation: str | None = None) -> Callable[..., Any]:
    """Give a command `--format`, its argument `output_format`, with the formats of a report."""
    formats = list(RENDERERS[report])
    return click.option(
        "--format",
        "output_format",
        type=click.Choice(formats),
        default=formats[0],
        show_default=True,
        help=explanation,
    )


plan_format_option = format_option(
    "plan",
    "text for people, json for programs (schemas/plan.schema.json), markdown for a pull request; "
    "github (annotations) and sarif contain only the findings.",
)


def render(report: str, output_format: str, content: object, **options: object) -> Text | Page | str:
    """Render a report, with those of the options that the renderer of the format takes."""
    renderer = resolve_name(RENDERERS[report][output_format])
    taken = signature(renderer).parameters
    rendered: Text | Page | str = renderer(
        content, **{name: options[name] for name in options if name in taken}
    )
    return rendered


def show(
    report: str,
    output_format: str,
    content: object,
    *,
    out: Path | None = None,
    err: bool = False,
    **options: object,
) -> None:
    """Print a report, or write it into a file, whole or not at all.

    Args:
        report: Which one, a key of RENDERERS.
        output_format: The format.
        content: What is reported.
        out: The file; None for stdout.
        err: Print to stderr instead, where stdout is for something else.
        options: What the renderers need besides; all can have the width of the reader's terminal, the time
            (`at`) and the folder that paths are relative to (`workspace`).
    """
    stream = None if out is not None else sys.stderr if err else sys.stdout
    width = table_width(stream) if report in _TABLES else prose_width(stream)
    if report in _PROSE:
        width = width or WIDEST
    options = {"width": width, "at": time.time(), "workspace": workspace(), **options}
    rendered = render(report, output_format, content, **options)
    if not isinstance(rendered, str):
        if out is None:
            print_text(rendered, err=err)
            return
        rendered = rendered.plain
    if rendered and not rendered.endswith("\n"):
        rendered += "\n"
    put(rendered, out, err=err)


def header(
    session: Session, paths: Sequence[Path] = (), *, exact: bool = False, purpose: Purpose | None = None
) -> PlanHeader:
    """What a plan made now says about its making.

    Args:
        session: What it is made with.
        paths: The manifests, as the command line has them.
        exact: Mark the commit where files of these differ from it, which means reading all of them again.
        purpose: What it is to be signed for; None: it is not signed.
    """
    from kafkaform.audit.record import timestamp
    from kafkaform.plan.plan_header import PlanHeader
    from kafkaform.plan.plan_signature import SignedFor

    commit, ref = _commit(session, paths, exact=exact, with_ref=purpose is not None)
    return PlanHeader(
        tool_version=__version__,
        commit=commit,
        cluster_name=session.target.name if session.target else None,
        environment=session.environment,
        created_at=timestamp(datetime.now(UTC)),
        signed_for=None if purpose is None else SignedFor(purpose, ref),
        configuration=session.config_file,
        servers=session.servers,
    )


def _commit(
    session: Session, paths: Sequence[Path], *, exact: bool, with_ref: bool
) -> tuple[str | None, str | None]:
    """The Git commit that the manifests are of, if they are in a repository, and perhaps its ref.

    Of manifests of which one comes by standard input, it is not known.
    """
    if DASH in paths:
        return None, None
    from kafkaform.vcs.repository import Repository

    looked_at = [path.resolve() for path in session.paths(paths)]
    folder = next((path if path.is_dir() else path.parent for path in looked_at), Path.cwd())
    try:
        repository = Repository.at(folder)
        if session.settings.file is not None and session.settings.root is None:
            config = Path(session.settings.file).resolve()
            looked_at += [config] if config.is_relative_to(repository.root) else []
        commit = repository.describe(looked_at) if exact else repository.head()
        return commit, repository.ref() if with_ref else None
    except RepositoryError:
        return None, None


def changed_files(settings: Settings, paths: Sequence[Path], since: str | None) -> ChangedFiles | None:
    """Find the files that the branch changes; None without `since`, the branch that it is to be merged into.

    Raises:
        RepositoryError: The manifests are in no Git repository, or there is no such commit.
    """
    if since is None:
        return None
    from kafkaform.report.findings import ChangedFiles
    from kafkaform.vcs.branch import find_changed_files

    file = None
    if settings.file is not None:
        file = settings.root / Path(settings.file).name if settings.root is not None else Path(settings.file)
    changed = find_changed_files(since, paths or settings.manifests, file)
    return ChangedFiles(changed, (settings.root or Path()).resolve())


def workspace() -> Workspace:
    """What reports for programs take paths relative to: the checkout of a GitHub job, or this folder."""
    from kafkaform.report.findings import Workspace

    here = Path.cwd()
    checkout = os.environ.get("GITHUB_WORKSPACE")
    inside = checkout and here.is_relative_to(checkout)
    return Workspace(checkout if checkout and inside else str(here), str(here))


@contextmanager
def problems_as_annotations(output_format: str) -> Iterator[None]:
    """Print problems of the input as annotations, where these were asked for, and exit 1."""
    try:
        yield
    except InvalidInput as error:
        if output_format not in _ANNOTATIONS:
            raise
        from kafkaform.report.findings import from_problems

        show("findings", output_format, from_problems(error.problems), known={})
        if output_format == "github":
            click.echo(error.message)
        raise click.exceptions.Exit(error.exit_code) from error


@contextmanager
def failure_as_metrics(report: str, output_format: str, name: str, out: Path | None) -> Iterator[None]:
    """Write the metrics of a failed run: without them, monitoring would go on with those of the last one."""
    try:
        yield
    except KafkaformError:
        if output_format == "prometheus":
            show(report, output_format, None, out=out, name=name)
        raise


def print_text(text: Text | Page, *, err: bool = False) -> None:
    """Print styled text; without escape codes where the reader cannot or will not have them."""
    stream = sys.stderr if err else sys.stdout
    system = colours(stream)
    if system is None:
        # As rich does without colours, 0.2 s faster for 1,000 changes; without `file`, click takes UTF-8.
        click.echo(text.plain, file=stream)
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(
        stderr=err,
        color_system=system,
        force_terminal=True,
        markup=False,
        highlight=False,
        emoji=False,
        soft_wrap=True,
    )
    console.print(text if isinstance(text, Text) else text.text)


def tell(text: str) -> None:
    """Say on stderr what is being waited for."""
    click.echo(plain_quotes(printable(text)), err=True)


def tell_configuration(settings: Settings) -> None:
    """Say on stderr which configuration file is read, where that is not the one of this folder."""
    if settings.file != CONFIG_FILE:
        tell(f"configuration {settings.file or NO_CONFIG_FILE}")


def put(text: str, out: Path | None, *, err: bool = False) -> None:
    """Write a report to a file, whole or not at all, or print it if there is none."""
    if out is not None:
        write_file(out, text)
    else:
        click.echo(text, nl=False, err=err)
