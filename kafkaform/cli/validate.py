"""`kafkaform validate`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from kafkaform import rules
from kafkaform.cli.options import config_option, environment_option, paths_argument
from kafkaform.manifests.loader import load_all
from kafkaform.model import Desired, Diagnostic, Severity
from kafkaform.report.printable import printable
from kafkaform.settings import Settings, find_settings


@click.command()
@paths_argument
@config_option
@environment_option
@click.option(
    "--format", "output_format", type=click.Choice(["text", "json"]), default="text", show_default=True
)
def validate(paths: tuple[Path, ...], config_file: Path | None, environment: str | None, output_format: str) -> int:
    """Check manifests and configuration, offline: every problem in one run.

    Without an environment, all environments of kafkaform.yaml are checked.
    """
    settings = find_settings(config_file)
    settings.check_environment(environment)
    loaded = _load(paths or settings.manifests, settings, environment)
    found = list(
        dict.fromkeys(
            diagnostic
            for desired in loaded
            for _, diagnostic in rules.check(rules.Scene(tuple(desired)), settings.rules)
        )
    )
    errors = [d for d in found if d.severity is Severity.ERROR]
    resources = len(loaded[0])
    if output_format == "json":
        click.echo(json.dumps({"resources": resources, "diagnostics": [_json(d) for d in found]}, indent=2))
    else:
        for diagnostic in found:
            click.echo(_line(diagnostic))
        count = f"{resources} resource{'s' if resources != 1 else ''}"
        verdict = f"{len(errors)} errors" if errors else "valid"
        click.echo(f"{count}: {verdict}, {len(found) - len(errors)} warnings.")
    return 1 if errors else 0


def _load(paths: tuple[Path, ...], settings: Settings, environment: str | None) -> list[list[Desired]]:
    every = settings.environments or (None,)
    chosen = (environment,) if environment is not None else every
    return load_all(paths, [settings.context(one) for one in chosen])


def _line(diagnostic: Diagnostic) -> str:
    where = f"{diagnostic.location}: " if diagnostic.location else ""
    hint = f" ({diagnostic.suggestion})" if diagnostic.suggestion else ""
    return printable(f"{where}{diagnostic.severity.value}: {diagnostic.code} {diagnostic.message}{hint}")


def _json(diagnostic: Diagnostic) -> dict[str, object]:
    place = diagnostic.location
    return {
        "code": diagnostic.code,
        "severity": diagnostic.severity.value,
        "message": diagnostic.message,
        "source": {"file": place.file, "line": place.line} if place else None,
        "suggestion": diagnostic.suggestion,
    }
