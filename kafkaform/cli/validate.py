"""`kafkaform validate`."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

import click

from kafkaform import rules
from kafkaform.cli.options import config_option, environment_option, paths_argument
from kafkaform.errors import InvalidInput
from kafkaform.manifests.loader import load_all
from kafkaform.model import Severity
from kafkaform.report.printable import printable
from kafkaform.report.summary import counted
from kafkaform.settings import find_settings

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kafkaform.errors import Problem
    from kafkaform.model import Desired, Diagnostic, Location
    from kafkaform.settings import Settings


@click.command()
@paths_argument
@config_option
@environment_option
@click.option(
    "--format", "output_format", type=click.Choice(["text", "json"]), default="text", show_default=True
)
def validate(
    paths: tuple[Path, ...], config_file: Path | None, environment: str | None, output_format: str
) -> int:
    """Check manifests and configuration, offline: every problem in one run.

    Without an environment, all environments of kafkaform.yaml are checked.
    """
    try:
        settings = find_settings(config_file)
        settings.check_environment(environment)
        loaded = _load(paths or settings.manifests, settings, environment)
    except InvalidInput as error:
        if output_format == "json":
            _print_json(None, [_problem_json(problem) for problem in error.problems])
            return 1
        raise
    found = list(
        dict.fromkeys(
            diagnostic
            for desired in loaded
            for _, diagnostic in rules.check(rules.Scene(tuple(desired)), settings.rules)
        )
    )
    resources = len(loaded[0])
    if output_format == "json":
        _print_json(resources, [_json(diagnostic) for diagnostic in found])
    else:
        for diagnostic in found:
            click.echo(_line(diagnostic))
        click.echo(_summary(resources, found))
    return 1 if any(d.severity is Severity.ERROR for d in found) else 0


def _load(paths: tuple[Path, ...], settings: Settings, environment: str | None) -> list[list[Desired]]:
    every = settings.environments or (None,)
    chosen = (environment,) if environment is not None else every
    return load_all(paths, [settings.context(one) for one in chosen])


def _summary(resources: int, found: Sequence[Diagnostic]) -> str:
    counts = Counter(diagnostic.severity for diagnostic in found)
    parts = [
        counted(counts[severity], word)
        for severity, word in (
            (Severity.ERROR, "error"),
            (Severity.WARNING, "warning"),
            (Severity.INFO, "note"),
        )
        if counts[severity]
    ]
    if not counts[Severity.ERROR]:
        parts.insert(0, "valid")
    return f"{counted(resources, 'resource')}: {', '.join(parts)}."


def _line(diagnostic: Diagnostic) -> str:
    where = f"{diagnostic.location}: " if diagnostic.location else ""
    hint = f" ({diagnostic.suggestion})" if diagnostic.suggestion else ""
    return printable(f"{where}{diagnostic.severity.value}: {diagnostic.code} {diagnostic.message}{hint}")


def _print_json(resources: int | None, diagnostics: Sequence[dict[str, object]]) -> None:
    """The result for programs; `resources` is None where the files could not be read as manifests."""
    click.echo(json.dumps({"resources": resources, "diagnostics": diagnostics}, indent=2))


def _json(diagnostic: Diagnostic) -> dict[str, object]:
    return {
        "code": diagnostic.code,
        "severity": diagnostic.severity.value,
        "message": diagnostic.message,
        "source": _source(diagnostic.location),
        "suggestion": diagnostic.suggestion,
    }


def _problem_json(problem: Problem) -> dict[str, object]:
    """A problem in the shape of a diagnostic; it has no code, as no rule can be told to overlook it."""
    return {
        "code": None,
        "severity": Severity.ERROR.value,
        "message": problem.message,
        "source": _source(problem.location),
        "suggestion": problem.hint,
    }


def _source(place: Location | None) -> dict[str, object] | None:
    return {"file": place.file, "line": place.line, "column": place.column} if place else None
