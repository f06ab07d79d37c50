"""`kafkaform rules`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kafkaform.cli import completion
from kafkaform.cli.options import SectionedCommand, config_option
from kafkaform.cli.output import format_option, show
from kafkaform.config.settings import Settings, find_settings
from kafkaform.core.errors import InvalidInput, UsageError
from kafkaform.core.printable import printable
from kafkaform.core.wording import nearest
from kafkaform.report.rules import CatalogueEntry
from kafkaform.rules import Note, Rule, list_entries, plugins

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@click.command(cls=SectionedCommand)
@click.argument("code", required=False, shell_complete=completion.codes)
@config_option
@format_option("rules")
def rules(code: str | None, config_file: Path | None, output_format: str) -> int:
    """List all rules, or explain one: kafkaform rules KF109.

    This includes rules of plug-ins and the policies of kafkaform.yaml.
    """
    listed = _list_rules(_read_settings(config_file))
    if code is not None:
        show("rule", output_format, _find_rule(code, listed))
    else:
        show("rules", output_format, listed.values())
    return 0


def _read_settings(config_file: Path | None) -> Settings:
    """Return the configuration; an invalid one is ignored with a note, so that rules can be looked up."""
    try:
        return find_settings(config_file)
    except InvalidInput as error:
        problem = printable(str(error.problems[0]))
        click.echo(f"the configuration is not valid, so it is ignored here: {problem}", err=True)
        return Settings()


def _list_rules(settings: Settings) -> dict[str, CatalogueEntry]:
    sources = plugins.load()
    policies = {policy.code: policy for policy in settings.policies}
    known: dict[str, Rule | Note] = {**list_entries(), **policies}
    return {
        code: CatalogueEntry(
            entry,
            str(settings.file) if code in policies else sources.get(code, "kafkaform"),
            settings.rules.get(code, entry.severity.value),
        )
        for code, entry in known.items()
    }


def _find_rule(code: str, listed: Mapping[str, CatalogueEntry]) -> CatalogueEntry:
    for spelling in (code, code.upper(), code.lower(), f"policy/{code}"):
        if spelling in listed:
            return listed[spelling]
    near = nearest(code, listed)
    raise UsageError(
        f"there is no rule {code!r}", hint=f"did you mean {near}?" if near else "`kafkaform rules` lists them"
    )
