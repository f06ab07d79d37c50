"""`kafkaform validate`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kafkaform import rules
from kafkaform.cli.options import (
    config_option,
    environment_option,
    manifests_option,
    paths_argument,
)
from kafkaform.cli.output import tell_configuration, telling_problems, workspace
from kafkaform.cli.session import Session
from kafkaform.errors import InvalidInput
from kafkaform.manifests.loader import load_all
from kafkaform.report.diagnostics import FORMATS, has_errors, render, tally
from kafkaform.report.findings import by_environment, from_problems
from kafkaform.rules import plugins
from kafkaform.rules.waivers import idle_waivers
from kafkaform.settings import find_settings
from kafkaform.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from kafkaform.model import Desired, Diagnostic, ResourceRef
    from kafkaform.report.findings import Reported
    from kafkaform.rules import Note, Rule
    from kafkaform.settings import Settings

_STAGES = (rules.Stage.MANIFESTS,)


@click.command()
@paths_argument
@config_option
@manifests_option
@environment_option
@click.option(
    "--format",
    "output_format",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    help="text for people, json for programs, github for annotations on a pull request, sarif for scanners.",
)
def validate(
    paths: tuple[Path, ...],
    config_file: Path | None,
    manifests_from: Path | None,
    environment: str | None,
    output_format: str,
) -> int:
    """Check manifests and configuration, offline: every problem in one run.

    PATHs are manifests or folders of them; without any, those of kafkaform.yaml (or topics/). A PATH of -
    is standard input. Without an environment, all environments of kafkaform.yaml are checked.
    """
    with telling_problems(output_format):
        try:
            settings = find_settings(config_file, untrusted=manifests_from)
            if output_format == "text":
                tell_configuration(settings)
            if manifests_from is not None:
                settings = settings.elsewhere(manifests_from)
            plugins.load()
            settings.check_environment(environment)
            declared = _load(paths or settings.manifests, settings, environment)
        except InvalidInput as error:
            if output_format == "json":
                _print(from_problems(error.problems), "json", {}, None)
                return 1
            raise
    subset = Session(settings, None, environment).is_subset(paths, ())
    known = rules.entries() | {policy.code: policy for policy in settings.policies}
    found = _findings(
        {one: settings.scene(tuple(desired), one, subset=subset) for one, desired in declared.items()},
        settings,
        known,
    )
    resources = len(next(iter(declared.values())))
    _print(found, output_format, known, resources)
    if output_format in {"text", "github"}:
        click.echo(_summary(resources, found))
    return int(has_errors(found))


def _load(
    paths: Sequence[Path], settings: Settings, environment: str | None
) -> dict[str | None, list[Desired]]:
    every = settings.environments or (None,)
    chosen = (environment,) if environment is not None else every
    loaded = load_all(paths, [settings.context(one) for one in chosen])
    return dict(zip(chosen, loaded, strict=True))


def _findings(
    scenes: Mapping[str | None, rules.Scene], settings: Settings, known: Mapping[str, Rule | Note]
) -> list[Reported]:
    found: dict[str | None, list[Diagnostic]] = {}
    idle: list[dict[Diagnostic, None]] = []
    for environment, scene in scenes.items():
        tripped = list(rules.check(scene, settings.rules, _STAGES, more=settings.policies))
        found[environment] = _diagnostics(tripped)
        idle.append(dict.fromkeys(_diagnostics(idle_waivers(scene, tripped, settings.rules, _STAGES, known))))
    # A waiver is of use if it is in one environment.
    useless = [waiver for waiver in idle[0] if all(waiver in others for others in idle)]
    return by_environment({environment: [*every, *useless] for environment, every in found.items()})


def _diagnostics(found: Iterable[tuple[ResourceRef | None, Diagnostic]]) -> list[Diagnostic]:
    return [diagnostic for _, diagnostic in found]


def _print(
    found: Sequence[Reported], output_format: str, known: Mapping[str, Rule | Note], resources: int | None
) -> None:
    """Print the findings; `resources` is None where the files could not be read as manifests."""
    about = {"resources": resources}
    click.echo(render(found, output_format, workspace(), known=known, about=about), nl=False)


def _summary(resources: int, found: Sequence[Reported]) -> str:
    parts = tally(found)
    if not has_errors(found):
        parts.insert(0, "valid")
    return f"{counted(resources, 'resource')}: {', '.join(parts)}."
