"""Printing reports: the only place that knows about terminals."""

from __future__ import annotations

import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafkaform import __version__

if TYPE_CHECKING:
    from rich.text import Text

    from kafkaform.cli.session import Session
    from kafkaform.model import Plan
    from kafkaform.plan_file import PlanHeader

plan_format_option = click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json", "markdown"]),
    default="text",
    show_default=True,
    help="text for people, json for programs (schemas/plan.schema.json), markdown for a pull request.",
)
verbose_option = click.option("-v", "--verbose", is_flag=True, help="List what is otherwise only counted.")


def header(session: Session) -> PlanHeader:
    """What a plan made now says about its making."""
    from kafkaform.plan_file import PlanHeader  # noqa: PLC0415

    return PlanHeader(
        tool_version=__version__,
        commit=_commit(),
        cluster_name=session.target.name if session.target else None,
        environment=session.environment,
        created_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    )


def _commit() -> str | None:
    """The Git commit that is checked out here, if this is a repository."""
    try:
        answer = subprocess.run(
            ["git", "rev-parse", "HEAD"],  # noqa: S607 - the user's own git
            capture_output=True,
            text=True,
            timeout=5,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() if answer.returncode == 0 else None


def print_plan(
    plan: Plan, made: PlanHeader, output_format: str, *, verbose: bool, err: bool = False
) -> None:
    """Print a plan to stdout, or to stderr where stdout is for something else."""
    if output_format == "json":
        from kafkaform.plan_file import plan_to_json  # noqa: PLC0415

        click.echo(plan_to_json(plan, made), nl=False)
    elif output_format == "markdown":
        from kafkaform.report.markdown import render_markdown  # noqa: PLC0415

        click.echo(render_markdown(plan, made), nl=False)
    else:
        from kafkaform.report.text import render_plan  # noqa: PLC0415

        print_text(render_plan(plan, made, verbose=verbose, width=terminal_width()), err=err)


def print_text(text: Text, *, err: bool = False) -> None:
    """Print styled text; colour only on a terminal, and never with NO_COLOR."""
    from rich.console import Console  # noqa: PLC0415 - 0.05 s that --format json does not need

    console = Console(stderr=err, markup=False, highlight=False, emoji=False, soft_wrap=True)
    console.print(text)


def terminal_width() -> int | None:
    """The width to wrap prose at, or None where no terminal reads it."""
    if not sys.stdout.isatty():
        return None
    return max(60, min(shutil.get_terminal_size().columns, 120))


def write_file(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(text, "utf-8")
    temporary.replace(path)
