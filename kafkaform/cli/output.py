"""Printing reports: the only place that knows about terminals."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafkaform import __version__
from kafkaform.cli.terminal import colours, prose_width
from kafkaform.config.manifests.files import CONFIG_FILE, DASH, NO_CONFIG_FILE
from kafkaform.core.errors import InvalidInput, RepositoryError
from kafkaform.core.files import write_file
from kafkaform.core.printable import plain_quotes, printable
from kafkaform.report.diagnostics import ANNOTATING, render
from kafkaform.report.findings import Workspace, everywhere, from_problems, of_plan

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.text import Text

    from kafkaform.cli.session import Session
    from kafkaform.config.settings import Settings
    from kafkaform.core.model import Plan
    from kafkaform.plan.plan_header import PlanHeader
    from kafkaform.plan.plan_signature import Purpose
    from kafkaform.rules import Note, Rule

plan_format_option = click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json", "markdown", "github", "sarif"]),
    default="text",
    show_default=True,
    help="text for people, json for programs (schemas/plan.schema.json), markdown for a pull request; "
    "github (annotations) and sarif have the findings only.",
)
verbose_option = click.option("-v", "--verbose", is_flag=True, help="List what is otherwise only counted.")


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


def workspace() -> Workspace:
    """What reports for programs take paths relative to: the checkout of a GitHub job, or this folder."""
    here = Path.cwd()
    checkout = os.environ.get("GITHUB_WORKSPACE")
    inside = checkout and here.is_relative_to(checkout)
    return Workspace(checkout if checkout and inside else str(here), str(here))


@contextmanager
def telling_problems(output_format: str) -> Iterator[None]:
    """Tell problems of the input as annotations, where these were asked for, and exit 1."""
    try:
        yield
    except InvalidInput as error:
        if output_format not in ANNOTATING:
            raise
        found = from_problems(error.problems)
        click.echo(render(found, output_format, workspace(), known={}), nl=False)
        if output_format == "github":
            click.echo(error.message)
        raise click.exceptions.Exit(error.exit_code) from error


def print_plan(
    plan: Plan,
    made: PlanHeader,
    output_format: str,
    *,
    verbose: bool,
    err: bool = False,
    policies: Mapping[str, Rule] | None = None,
) -> None:
    """Print a plan to stdout, or to stderr where stdout is for something else."""
    if output_format in ANNOTATING:
        _print_findings(plan, output_format, policies or {})
    elif output_format == "json":
        from kafkaform.plan.plan_file import plan_to_json

        click.echo(plan_to_json(plan, made), nl=False)
    elif output_format == "markdown":
        from kafkaform.report.markdown import render_markdown

        click.echo(render_markdown(plan, made), nl=False)
    else:
        from kafkaform.report.text import render_plan

        print_text(
            render_plan(plan, made, verbose=verbose, width=prose_width(sys.stderr if err else sys.stdout)),
            err=err,
        )


def _print_findings(plan: Plan, output_format: str, policies: Mapping[str, Rule]) -> None:
    from kafkaform.plan.summary import summary_sentence
    from kafkaform.rules import entries

    known: dict[str, Rule | Note] = {**entries(), **policies}
    if output_format != "github":
        # A scanner takes an alert that is not there any more for mended: it gets all of them.
        click.echo(render(everywhere(plan.diagnostics), output_format, workspace(), known=known), nl=False)
        return
    found = of_plan(plan)
    click.echo(render(everywhere(found.relevant), output_format, workspace(), known=known), nl=False)
    for elsewhere in found.elsewhere:
        click.echo(f"Also {printable(elsewhere.code)} {elsewhere.where}")
    click.echo(summary_sentence(plan))


def print_text(text: Text, *, err: bool = False) -> None:
    """Print styled text; without escape codes where the reader cannot or will not have them."""
    stream = sys.stderr if err else sys.stdout
    system = colours(stream)
    if system is None:
        # As rich does without colours, 0.2 s faster for 1,000 changes; without `file`, click takes UTF-8.
        click.echo(text.plain, file=stream)
        return
    from rich.console import Console

    console = Console(
        stderr=err,
        color_system=system,
        force_terminal=True,
        markup=False,
        highlight=False,
        emoji=False,
        soft_wrap=True,
    )
    console.print(text)


def tell(text: str) -> None:
    """Say on stderr what is being waited for."""
    click.echo(plain_quotes(printable(text)), err=True)


def tell_configuration(settings: Settings) -> None:
    """Say on stderr which configuration file is read, where that is not the one of this folder."""
    if settings.file != CONFIG_FILE:
        tell(f"configuration {settings.file or NO_CONFIG_FILE}")


def put(text: str, out: Path | None) -> None:
    """Write a report to a file, whole or not at all, or to stdout if there is none."""
    if out is not None:
        write_file(out, text)
    else:
        click.echo(text, nl=False)
