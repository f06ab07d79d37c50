"""`kafkaform show`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafkaform.cli.output import plan_format_option, print_text, verbose_option
from kafkaform.cli.output import show as show_report
from kafkaform.core.errors import PlanFileError

if TYPE_CHECKING:
    from kafkaform.core.model import Plan
    from kafkaform.plan.plan_header import PlanHeader

PLAN_SUFFIX = ".json"
"""What the name of a saved plan ends in: by this, apply tells it from manifests."""

plan_file_type = click.Path(path_type=Path, dir_okay=False)


@click.command()
@click.argument("file", type=plan_file_type, metavar="PLAN.json")
@click.option(
    "--verify-key",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Refuse plans that are not signed with a key in this file (PEM).",
)
@plan_format_option
@verbose_option
def show(file: Path, verify_key: Path | None, output_format: str, verbose: bool) -> int:
    """Show a saved plan. Needs no cluster."""
    saved, made = read_plan_file(file)
    if verify_key is not None:
        from kafkaform.plan.plan_signature import read_public_keys, require_signed

        require_signed(made.signature, read_public_keys(verify_key), str(file))
    if output_format == "text":
        from kafkaform.report.text import render_provenance, render_signature

        print_text(render_provenance(made))
        print_text(render_signature(made, verified=verify_key is not None))
    show_report("plan", output_format, saved, header=made, verbose=verbose)
    return 0


def read_plan_file(file: Path) -> tuple[Plan, PlanHeader]:
    """Read a saved plan; raises PlanFileError with one line."""
    from kafkaform.plan.plan_file import plan_from_json

    try:
        text = file.read_text("utf-8")
    except OSError as error:
        raise PlanFileError(f"{file}: {error.strerror}", hint="make one with kafkaform plan --out") from error
    except UnicodeDecodeError as error:
        raise PlanFileError(f"{file}: not UTF-8, so not a plan") from error
    return plan_from_json(text, str(file))
