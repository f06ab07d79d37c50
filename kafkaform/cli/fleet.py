"""Planning every cluster of the configuration at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import click
from click.globals import pop_context, push_context

from kafkaform.cli.error_handler import Complaints
from kafkaform.cli.output import RENDERERS, show
from kafkaform.cli.session import Session
from kafkaform.config.settings import find_settings
from kafkaform.core.errors import InvalidInput, KafkaformError, UsageError
from kafkaform.plan.fleet import Failed, Made, worst
from kafkaform.rules import plugins

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kafkaform.cli.options import Where
    from kafkaform.core.model import Plan
    from kafkaform.plan.plan_header import PlanHeader

_AT_ONCE = 8
"""How many clusters are read at the same time."""


def plan_all(
    where: Where,
    make: Callable[[Session], tuple[Plan, PlanHeader]],
    *,
    judge: Callable[[Plan], int],
    output_format: str,
    verbose: bool = False,
    save: Callable[[str, Plan, PlanHeader], None] | None = None,
    manifests_from: Path | None = None,
) -> int:
    """Plan every cluster of the configuration, and print one report.

    A cluster that cannot be planned does not keep the others from it.

    Args:
        where: What the command line says; it may not choose a cluster or an environment.
        make: Plans one; called in a thread of its own.
        judge: The exit code of a plan.
        output_format: text, json or markdown.
        verbose: List everything, also what is usually only counted.
        save: Keeps the plan of the cluster of that name.
        manifests_from: See `Session.start`.

    Returns:
        The worst exit code: 1, then 2, then 0.

    Raises:
        UsageError: A cluster or an environment was chosen, the format is none that holds several plans, or
            the call is wrong for every cluster.
    """
    _check(where, output_format)
    names = list(find_settings(where.config_file).clusters)
    if not names:
        raise UsageError("--all-clusters: kafkaform.yaml names no cluster", hint="add them below `clusters:`")
    plugins.load()  # once, and not from several threads
    context = click.get_current_context()
    with ThreadPoolExecutor(min(len(names), _AT_ONCE)) as pool:
        outcomes = list(pool.map(partial(_planned, context, where, make, manifests_from), names))
    if all(isinstance(outcome, UsageError) for outcome in outcomes):
        raise next(outcome for outcome in outcomes if isinstance(outcome, UsageError))
    complaints = context.find_object(Complaints) or Complaints()
    members = [
        outcome if isinstance(outcome, Made) else _failed(name, outcome, complaints)
        for name, outcome in zip(names, outcomes, strict=True)
    ]
    for member in members:
        if save is not None and isinstance(member, Made):
            save(member.name, member.plan, member.header)
    show("fleet", output_format, members, verbose=verbose)
    return worst(judge(member.plan) if isinstance(member, Made) else 1 for member in members)


def plan_path(out: Path, cluster: str) -> Path:
    """Where the plan of one of several clusters is saved: beside `out`, with the cluster in its name.

    Raises:
        UsageError: The cluster's name cannot be part of a file name.
    """
    if "/" in cluster or "\0" in cluster:
        raise UsageError(f"--out: the name of cluster {cluster!r} cannot be part of a file name")
    return out.with_name(f"{out.stem}.{cluster}{out.suffix}")


def _check(where: Where, output_format: str) -> None:
    chosen = {
        where.source(name): getattr(where, name)
        for name in ("cluster_name", "environment", "bootstrap_server", "command_config")
    }
    for option, value in chosen.items():
        if value is not None:
            raise UsageError(
                f"--all-clusters uses every cluster of kafkaform.yaml; {option} chooses one",
                hint="use only one of the two",
            )
    if output_format not in RENDERERS["fleet"]:
        raise UsageError(
            f"--all-clusters has no --format {output_format}",
            hint="choose text, json or markdown, or plan one cluster at a time",
        )


def _planned(
    context: click.Context,
    where: Where,
    make: Callable[[Session], tuple[Plan, PlanHeader]],
    manifests_from: Path | None,
    name: str,
) -> Made | KafkaformError:
    # click knows the context of a call by thread; without it no secret would be known as one here.
    push_context(context)
    try:
        session = Session.start(replace(where, cluster_name=name), manifests_from=manifests_from)
        return Made(name, *make(session))
    except KafkaformError as error:
        return error
    finally:
        pop_context()


def _failed(name: str, error: KafkaformError, complaints: Complaints) -> Failed:
    problems = error.problems if isinstance(error, InvalidInput) else ()
    said = tuple(complaints.redacted(str(problem)) for problem in problems)
    return Failed(name, complaints.redacted(error.message), error.hint, said)
