"""Output of reports to terminals and files."""

from __future__ import annotations

import os
import sys
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

import click

from kafkaform import __version__
from kafkaform.cli.terminal import WIDEST, colours, prose_width, table_width
from kafkaform.config.manifests.files import CONFIG_FILE, DASH, NO_CONFIG_FILE
from kafkaform.core.errors import InvalidInput, KafkaformError, RepositoryError
from kafkaform.core.files import write_file
from kafkaform.core.printable import MAX_LINE_LENGTH, clipped
from kafkaform.core.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from rich.text import Text

    from kafkaform.cli.session import Session
    from kafkaform.config.settings import Settings
    from kafkaform.plan.plan_header import PlanHeader
    from kafkaform.plan.plan_signature import Purpose
    from kafkaform.report.findings import ChangedFiles, Workspace
    from kafkaform.report.page import Page


class Renderer:
    """A function that renders a report, by its name, with the options that it takes by theirs."""

    def __init__(self, path: str, *options: str) -> None:
        self.path = path
        self.options = options

    def __call__(self, content: object, **options: object) -> Page | str:
        """Render the content; options of other formats are ignored."""
        # By name, so that only the renderer in use is imported.
        rendered: Page | str = resolve_name(self.path)(
            content, **{name: options[name] for name in self.options if name in options}
        )
        return rendered


RENDERERS: Mapping[str, Mapping[str, Renderer]] = {
    "plan": {
        "text": Renderer("kafkaform.report.plan:render_plan", "header", "verbose", "width"),
        "json": Renderer("kafkaform.plan.plan_file:plan_to_json", "header"),
        "markdown": Renderer("kafkaform.report.plan:render_plan_markdown", "header", "limit"),
        "github": Renderer("kafkaform.report.diagnostics:plan_to_github", "workspace", "changed"),
        "sarif": Renderer("kafkaform.report.diagnostics:plan_to_sarif", "policies", "workspace"),
    },
    "fleet": {
        "text": Renderer("kafkaform.report.fleet:render_fleet", "command", "verbose", "width"),
        "json": Renderer("kafkaform.report.fleet:fleet_to_json"),
        "markdown": Renderer("kafkaform.report.fleet:fleet_to_markdown", "command", "limit"),
    },
    "overview": {
        "text": Renderer("kafkaform.report.fleet:render_overview", "width"),
        "json": Renderer("kafkaform.report.fleet:overview_to_json"),
        "markdown": Renderer("kafkaform.report.fleet:overview_to_markdown"),
    },
    "stages": {
        "text": Renderer("kafkaform.report.fleet:render_stages", "width"),
        "json": Renderer("kafkaform.report.fleet:stages_to_json"),
        "markdown": Renderer("kafkaform.report.fleet:stages_to_markdown", "limit"),
    },
    "balance": {"text": Renderer("kafkaform.report.moves:render_balance", "width")},
    "apply": {
        "text": Renderer("kafkaform.report.apply:render_apply", "verbose", "width"),
        "json": Renderer("kafkaform.report.apply:apply_to_json"),
        "markdown": Renderer("kafkaform.report.apply:apply_to_markdown", "cluster", "limit"),
    },
    "drift": {
        "text": Renderer("kafkaform.report.drift:render_drift", "header", "context", "verbose", "width"),
        "json": Renderer("kafkaform.report.drift_json:drift_to_json", "header", "context"),
        "markdown": Renderer("kafkaform.report.drift:render_drift_markdown", "header", "context", "limit"),
        "prometheus": Renderer("kafkaform.report.prometheus:drift_metrics", "name", "at"),
        "github": Renderer("kafkaform.report.drift_json:drift_to_github", "context", "workspace"),
    },
    "adoption": {"text": Renderer("kafkaform.report.edits:render_adoption", "editing", "written")},
    "edits": {"text": Renderer("kafkaform.report.edits:render_edits")},
    "findings": {
        "text": Renderer("kafkaform.report.diagnostics:findings_to_text", "width", "verbose"),
        "json": Renderer("kafkaform.report.diagnostics:findings_to_json", "about"),
        "github": Renderer("kafkaform.report.diagnostics:findings_to_github", "workspace"),
        "sarif": Renderer("kafkaform.report.diagnostics:findings_to_sarif", "known", "workspace"),
    },
    "statistics": {
        "text": Renderer("kafkaform.report.diagnostics:statistics_to_text", "known"),
        "json": Renderer("kafkaform.report.diagnostics:statistics_to_json", "known"),
    },
    "rules": {
        "text": Renderer("kafkaform.report.rules:rules_to_text"),
        "json": Renderer("kafkaform.report.rules:rules_to_json"),
    },
    "rule": {
        "text": Renderer("kafkaform.report.rules:rule_to_text", "width"),
        "json": Renderer("kafkaform.report.rules:rule_to_json"),
    },
    "doctor": {
        "text": Renderer("kafkaform.report.doctor:render_health", "name", "verbose", "width"),
        "json": Renderer("kafkaform.report.doctor:health_to_json", "name"),
        "markdown": Renderer("kafkaform.report.doctor:health_to_markdown", "name", "limit"),
        "prometheus": Renderer("kafkaform.report.prometheus:doctor_metrics", "name", "at"),
    },
    "status": {
        "text": Renderer("kafkaform.report.status:render_status", "globs", "width"),
        "json": Renderer("kafkaform.report.status:status_to_json"),
        "markdown": Renderer("kafkaform.report.status:status_to_markdown", "globs", "limit"),
    },
    "history": {
        "text": Renderer("kafkaform.report.history:render_history", "earlier", "verbose", "width"),
        "json": Renderer("kafkaform.report.history:history_to_json", "log"),
    },
    "compare": {
        "text": Renderer("kafkaform.report.comparison:render_comparison", "width"),
        "json": Renderer("kafkaform.report.comparison:comparison_to_json"),
        "markdown": Renderer("kafkaform.report.comparison:comparison_to_markdown", "limit"),
    },
    "succession": {
        "text": Renderer("kafkaform.report.succession:render_successions", "width"),
        "json": Renderer("kafkaform.report.succession:successions_to_json"),
        "markdown": Renderer("kafkaform.report.succession:successions_to_markdown", "limit"),
    },
    "access": {
        "text": Renderer("kafkaform.report.access:render_access", "width"),
        "json": Renderer("kafkaform.report.access:access_to_json"),
    },
    "grants": {
        "text": Renderer("kafkaform.report.access:render_grants", "width"),
        "json": Renderer("kafkaform.report.access:grants_to_json"),
    },
    "explanation": {
        "text": Renderer("kafkaform.report.explanation:render_explanation", "width"),
        "json": Renderer("kafkaform.report.explanation:explanation_to_json"),
    },
    "field": {
        "text": Renderer("kafkaform.report.field_help:render_field", "width"),
        "json": Renderer("kafkaform.report.field_help:field_to_json"),
    },
    "graph": {
        "mermaid": Renderer("kafkaform.report.graph:render_mermaid"),
        "dot": Renderer("kafkaform.report.graph:render_dot"),
        "json": Renderer("kafkaform.report.graph:graph_to_json"),
    },
    "import": {"text": Renderer("kafkaform.report.edits:render_import", "folder", "dry_run")},
    "arrivals": {
        "text": Renderer("kafkaform.report.arrivals:render_arrivals", "verbose", "width", "earlier"),
        "json": Renderer("kafkaform.report.arrivals:arrivals_to_json", "earlier"),
    },
    "skew": {
        "text": Renderer("kafkaform.report.skew:render_skew", "what_if", "width", "verbose"),
        "json": Renderer("spark_validation.results:to_json"),
        "markdown": Renderer("kafkaform.report.skew:render_skew_markdown", "limit"),
        "html": Renderer("kafkaform.report.skew:render_skew_html", "history"),
    },
}
"""The renderers of each report by format; the first format is the default."""

_TABLES = frozenset(
    {
        "arrivals",
        "balance",
        "compare",
        "explanation",
        "field",
        "grants",
        "overview",
        "stages",
        "status",
        "succession",
    }
)
"""The reports that are tables, as wide as the terminal; prose is wrapped earlier."""
_PROSE = frozenset(
    {"access", "adoption", "apply", "doctor", "drift", "edits", "fleet", "history", "import", "plan", "skew"}
)
"""The reports that are also wrapped in pipes and files; the others have one record per line, for programs."""
_ANNOTATIONS = frozenset({"github", "sarif"})
"""The formats that attach findings, and problems of the input, to lines of files."""


class ReportOutput(Value):
    """The format and destination of a report.

    Attributes:
        out: A file; None for stdout.
        verbose: Whether everything is listed.
    """

    output_format: str
    out: Path | None
    verbose: bool


verbose_option = click.option(
    "-v", "--verbose", is_flag=True, help="List everything, including what is otherwise only counted."
)


def format_option(report: str, explanation: str | None = None) -> Callable[..., Any]:
    """Return a decorator that adds `--format` with the formats of a report, as `output_format`."""
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
    "json has schemas/plan.schema.json, markdown is for a pull request; github (annotations) and "
    "sarif contain only the findings.",
)


def render(report: str, output_format: str, content: object, **options: object) -> Page | str:
    """Render a report, with the options that the renderer of the format takes."""
    return RENDERERS[report][output_format](content, **options)


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
        report: The report, a key of RENDERERS.
        content: The content of the report.
        out: The file; None for stdout.
        err: Print to stderr instead of stdout.
        options: Options of the renderers; those for the width of the terminal, the time (`at`) and the folder
            that paths are relative to (`workspace`) have defaults.
    """
    stream = None if out is not None else sys.stderr if err else sys.stdout
    width = table_width(stream) if report in _TABLES else prose_width(stream)
    if report in _PROSE:
        # A pipe or file has no width, and viewers of logs differ in whether they wrap.
        width = width or WIDEST
    # The given options come last, so that a caller can replace these defaults.
    options = {"width": width, "at": time.time(), "workspace": workspace(), **options}
    rendered = render(report, output_format, content, **options)
    if not isinstance(rendered, str):
        if out is None:
            print_text(rendered, err=err)
            return
        # A file gets no escape codes.
        rendered = rendered.plain
    if rendered and not rendered.endswith("\n"):
        rendered += "\n"
    put(rendered, out, err=err)


def header(
    session: Session, paths: Sequence[Path] = (), *, exact: bool = False, purpose: Purpose | None = None
) -> PlanHeader:
    """Return the header of a plan that is made now.

    Args:
        session: The session of the plan.
        paths: The manifests, from the command line.
        exact: Whether to mark the commit if the manifests differ from it, which reads all of them again.
        purpose: The purpose of its signature; None for no signature.
    """
    from kafkaform.audit.record import format_timestamp
    from kafkaform.plan.plan_header import PlanHeader
    from kafkaform.plan.plan_signature import SignedFor

    commit, ref = _commit(session, paths, exact=exact, with_ref=purpose is not None)
    return PlanHeader(
        tool_version=__version__,
        commit=commit,
        cluster_name=session.target.name if session.target else None,
        environment=session.environment,
        created_at=format_timestamp(datetime.now(UTC)),
        signed_for=None if purpose is None else SignedFor(purpose, ref),
        configuration=session.config_file,
        servers=session.servers,
    )


def _commit(
    session: Session, paths: Sequence[Path], *, exact: bool, with_ref: bool
) -> tuple[str | None, str | None]:
    """Return the Git commit of the manifests, and its ref if `with_ref` is set; None outside a repository.

    Manifests from standard input have no commit.
    """
    if DASH in paths:
        return None, None
    from kafkaform.vcs.repository import Repository

    manifests = [path.resolve() for path in session.paths(paths)]
    # The repository of the manifests, which may be another one than that of the current folder.
    folder = next((path if path.is_dir() else path.parent for path in manifests), Path.cwd())
    try:
        repository = Repository.find(folder)
        # A changed configuration, too, makes a plan differ from what its commit would give.
        if session.settings.file is not None and session.settings.root is None:
            config = Path(session.settings.file).resolve()
            manifests += [config] if config.is_relative_to(repository.root) else []
        commit = repository.describe(manifests) if exact else repository.read_head()
        return commit, repository.read_ref() if with_ref else None
    # Manifests outside Git are valid: the plan then has no commit.
    except RepositoryError:
        return None, None


def changed_files(settings: Settings, paths: Sequence[Path], since: str | None) -> ChangedFiles | None:
    """Find the files that the branch changes since it diverged from `since`; None without `since`.

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
    """Return the base of relative paths in reports: the checkout of a GitHub job, or this folder."""
    from kafkaform.report.findings import Workspace

    here = Path.cwd()
    checkout = os.environ.get("GITHUB_WORKSPACE")
    # GitHub relates the paths of annotations to the checkout, also where a job runs in a folder of it.
    inside = checkout and here.is_relative_to(checkout)
    return Workspace(checkout if checkout and inside else str(here), str(here))


@contextmanager
def problems_as_annotations(output_format: str) -> Iterator[None]:
    """Print problems of the input as annotations in the formats that have them, and exit 1."""
    try:
        yield
    except InvalidInput as error:
        if output_format not in _ANNOTATIONS:
            raise
        from kafkaform.report.findings import from_problems

        show("findings", output_format, from_problems(error.problems), known={})
        if output_format == "github":
            click.echo(error.message)
        # Exit, and not the error itself, which would be printed a second time on stderr.
        raise click.exceptions.Exit(error.exit_code) from error


@contextmanager
def failure_as_metrics(report: str, output_format: str, name: str, out: Path | None) -> Iterator[None]:
    """Write the metrics of a failed run, as monitoring would otherwise keep those of the last run."""
    try:
        yield
    except KafkaformError:
        if output_format == "prometheus":
            show(report, output_format, None, out=out, name=name)
        raise


def print_text(text: Text | Page, *, err: bool = False) -> None:
    """Print styled text, without escape codes where colours are not supported or not wanted."""
    stream = sys.stderr if err else sys.stdout
    system = colours(stream)
    if system is None:
        # Same output as rich's, 0.2 s faster for 1,000 changes. Without `file`, click would use UTF-8.
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
        # Reports are already wrapped for this width: rich must not wrap them again.
        soft_wrap=True,
    )
    console.print(text if isinstance(text, Text) else text.text)


def tell(text: str) -> None:
    """Print a line on stderr."""
    click.echo(clipped(text, MAX_LINE_LENGTH), err=True)


def tell_configuration(settings: Settings) -> None:
    """Print the configuration file on stderr, unless it is the one of this folder."""
    if settings.file != CONFIG_FILE:
        tell(f"configuration {settings.file or NO_CONFIG_FILE}")


def put(text: str, out: Path | None, *, err: bool = False) -> None:
    """Write a report to a file, whole or not at all, or print it if `out` is None."""
    if out is not None:
        # A scraper or a later step of CI must never read half of a report.
        write_file(out, text)
    else:
        click.echo(text, nl=False, err=err)
