"""One command for every cluster of the configuration at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import click
from click.globals import pop_context, push_context

from kafkaform.cli.error_handler import Complaints
from kafkaform.cli.output import RENDERERS, render, show
from kafkaform.cli.session import Session
from kafkaform.config.settings import find_settings
from kafkaform.core.errors import InvalidInput, KafkaformError, UsageError
from kafkaform.rules import plugins

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from rich.text import Text

    from kafkaform.cli.options import Where
    from kafkaform.report.fleet import Failed
    from kafkaform.report.page import Page

_AT_ONCE = 8
"""How many clusters are read at the same time."""
_PRECEDENCE = (1, 2, 0)
"""The exit codes: an error outweighs changes, drift or bad health, which outweigh that there are none."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of a command for one cluster.

    Attributes:
        content: What is reported.
        code: The exit code of a command for this cluster alone.
        options: What the renderers of the report need besides.
        finish: Saves it, or prints what belongs on stderr; called after the report, one cluster at a time.
    """

    content: object
    code: int
    options: Mapping[str, object] = field(default_factory=dict)
    finish: Callable[[], None] | None = None


@dataclass(frozen=True, slots=True)
class Fleet:
    """How the reports of all clusters are shown.

    Attributes:
        command: The command, and the name of its report.
        output_format: text, json or markdown.
        verbose: List everything, also what is usually only counted.
        out: The file for the report; None for stdout.
        manifests_from: See `Session.start`.
    """

    command: str
    output_format: str
    verbose: bool = False
    out: Path | None = None
    manifests_from: Path | None = None


def ask_all(where: Where, ask: Callable[[Session], Answer], fleet: Fleet) -> int:
    """Run a command for every cluster of the configuration, and print one report.

    A cluster for which it fails does not keep the others from it.

    Args:
        where: What the command line says; it may not choose a cluster or an environment.
        ask: Runs it for one cluster; called in a thread of its own.
        fleet: How the reports are shown.

    Returns:
        The worst exit code: 1, then 2, then 0.

    Raises:
        UsageError: A cluster or an environment was chosen, the format is none that holds several reports, or
            the call is wrong for every cluster.
    """
    from kafkaform.report.fleet import Answered  # of no use to a command for one cluster

    _check(where, fleet)
    clusters = find_settings(where.config_file).clusters
    if not clusters:
        raise UsageError("--all-clusters: kafkaform.yaml names no cluster", hint="add them below `clusters:`")
    plugins.load()  # once, and not from several threads
    context = click.get_current_context()
    with ThreadPoolExecutor(min(len(clusters), _AT_ONCE)) as pool:
        answers = list(pool.map(partial(_answer, context, where, ask, fleet.manifests_from), clusters))
    errors = [answer for answer in answers if isinstance(answer, UsageError)]
    if len(errors) == len(answers):
        raise errors[0]
    complaints = context.find_object(Complaints) or Complaints()
    members = [
        Answered(name, cluster.environment, answer.content, partial(_render, fleet, answer))
        if isinstance(answer, Answer)
        else _failed(name, cluster.environment, answer, complaints)
        for (name, cluster), answer in zip(clusters.items(), answers, strict=True)
    ]
    show("fleet", fleet.output_format, members, out=fleet.out, command=fleet.command, verbose=fleet.verbose)
    for answer in answers:
        if isinstance(answer, Answer) and answer.finish is not None:
            answer.finish()
    return worst(answer.code if isinstance(answer, Answer) else 1 for answer in answers)


def worst(codes: Iterable[int]) -> int:
    """Return the exit code of a whole."""
    return min(codes, key=_PRECEDENCE.index, default=0)


def path_part(cluster: str, option: str) -> str:
    """Return the name of a cluster as a part of a path.

    Raises:
        UsageError: It cannot be one.
    """
    if "/" in cluster or "\0" in cluster or cluster in {".", ".."}:
        raise UsageError(f"{option}: the name of cluster {cluster!r} cannot be part of a path")
    return cluster


def plan_path(out: Path, cluster: str) -> Path:
    """Return where the plan of one of several clusters is saved: beside `out`, with the cluster in its name.

    Raises:
        UsageError: The cluster's name cannot be part of a file name.
    """
    return out.with_name(f"{out.stem}.{path_part(cluster, '--out')}{out.suffix}")


def _check(where: Where, fleet: Fleet) -> None:
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
    formats = [name for name in RENDERERS["fleet"] if name in RENDERERS[fleet.command]]
    if fleet.output_format not in formats:
        raise UsageError(
            f"--all-clusters has no --format {fleet.output_format}",
            hint=f"choose {' or '.join(formats)}, or one cluster at a time",
        )


def _answer(
    context: click.Context,
    where: Where,
    ask: Callable[[Session], Answer],
    manifests_from: Path | None,
    name: str,
) -> Answer | KafkaformError:
    # click knows the context of a call by thread; without it no secret would be known as one here.
    push_context(context)
    try:
        return ask(Session.start(replace(where, cluster_name=name), manifests_from=manifests_from))
    except KafkaformError as error:
        return error
    finally:
        pop_context()


def _render(fleet: Fleet, answer: Answer, **options: object) -> Text | Page | str:
    return render(fleet.command, fleet.output_format, answer.content, **{**answer.options, **options})


def _failed(name: str, environment: str | None, error: KafkaformError, complaints: Complaints) -> Failed:
    from kafkaform.report.fleet import Failed

    problems = error.problems if isinstance(error, InvalidInput) else ()
    lines = tuple(complaints.redacted(str(problem)) for problem in problems)
    return Failed(name, environment, complaints.redacted(error.message), error.hint, lines)
