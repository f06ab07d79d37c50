"""`kafkaform rules`."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from kafkaform.cli import completion
from kafkaform.cli.options import config_option
from kafkaform.cli.terminal import prose_width
from kafkaform.config.settings import Settings, find_settings
from kafkaform.core.errors import InvalidInput, UsageError
from kafkaform.core.model import Severity
from kafkaform.core.printable import plain_quotes, printable, wrapped
from kafkaform.core.wording import nearest
from kafkaform.rules import Note, Rule, entries, notes, plugins

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_OFF = "off"
_NEEDS = {
    "manifests": "the manifests; run by validate, plan and apply",
    "live": "the manifests and the live resources; run by plan and apply",
    "changes": "the changes of a plan; run by plan and apply",
    "health": "the live cluster; run by doctor, and before apply",
    "skew": "a measurement of records; run by skew, and by plan --skew",
    "forecast": "the changes of a plan and a measurement of records; run by plan --skew",
}


@dataclass(frozen=True, slots=True)
class Listed:
    """A code, and what holds of it in this repository.

    Attributes:
        entry: The rule or note.
        origin: `kafkaform`, the configuration file, or the plug-in that it comes from.
        in_force: The severity that the project gave it, `off` too; that of the rule where it gave none.
    """

    entry: Rule | Note
    origin: str
    in_force: str

    @property
    def kind(self) -> str:
        """What it is."""
        if isinstance(self.entry, Note):
            return "note"
        return "policy" if self.entry.code.startswith("policy/") else "rule"

    @property
    def stage(self) -> str | None:
        """What it needs; None for a note."""
        return self.entry.stage.value if isinstance(self.entry, Rule) else None

    @property
    def waivable(self) -> bool:
        """Whether a manifest can have it overlook itself."""
        return isinstance(self.entry, Rule) and self.entry.waivable


@click.command()
@click.argument("code", required=False, shell_complete=completion.codes)
@config_option
@click.option(
    "--format", "output_format", type=click.Choice(["text", "json"]), default="text", show_default=True
)
def rules(code: str | None, config_file: Path | None, output_format: str) -> int:
    """List the rules, or explain one: kafkaform rules KF109.

    Rules of plug-ins and the policies of kafkaform.yaml are among them.
    """
    listed = _listed(_settings(config_file))
    if code is not None:
        one = _named(code, listed)
        click.echo(json.dumps(_json(one), indent=2) if output_format == "json" else _explained(one))
    elif output_format == "json":
        click.echo(json.dumps([_json(one) for one in listed.values()], indent=2))
    else:
        width = max(map(len, listed))
        for one in listed.values():
            line = f"{one.entry.code:<{width}}  {one.in_force:<8} {one.entry.summary}"
            click.echo(printable(line))
    return 0


def _settings(config_file: Path | None) -> Settings:
    """The configuration; a broken one is said, and left out: this command explains what is wrong in it."""
    try:
        return find_settings(config_file)
    except InvalidInput as error:
        problem = printable(str(error.problems[0]))
        click.echo(f"the configuration is not valid, so none of it is shown here: {problem}", err=True)
        return Settings()


def _listed(settings: Settings) -> dict[str, Listed]:
    sources = plugins.load()
    policies = {policy.code: policy for policy in settings.policies}
    known: dict[str, Rule | Note] = {**entries(), **policies}
    return {
        code: Listed(
            entry,
            str(settings.file) if code in policies else sources.get(code, "kafkaform"),
            settings.rules.get(code, entry.severity.value),
        )
        for code, entry in known.items()
    }


def _named(code: str, listed: Mapping[str, Listed]) -> Listed:
    for spelling in (code, code.upper(), code.lower(), f"policy/{code}"):
        if spelling in listed:
            return listed[spelling]
    near = nearest(code, listed)
    raise UsageError(f"there is no rule {code!r}", hint=f"did you mean {near}?" if near else None)


def _explained(one: Listed) -> str:
    entry = one.entry
    own = "" if one.in_force == entry.severity.value else f", {entry.severity.value} unless configured"
    lines = [f"{entry.code} ({one.in_force}{own})", "", *_paragraphs(entry.explanation), ""]
    if one.stage is not None:
        lines.append(f"needs      {_NEEDS[one.stage]}")
    if one.origin != "kafkaform":
        lines.append(f"from       {one.origin}")
    if one.kind == "note":
        lines.append("severity   fixed: this is a note, not a rule")
        return "\n".join(map(printable, lines))
    other = Severity.INFO if one.in_force != Severity.INFO.value else Severity.WARNING
    lines.append(f"severity   rules: {{{entry.code}: {other.value}}} in kafkaform.yaml, or {_OFF}")
    waiver = f'metadata.annotations: {{{notes.PREFIX}{entry.code}: "why it is right here"}}'
    lines.append(f"waiver     {waiver if one.waivable else 'none: Kafka would refuse it all the same'}")
    return "\n".join(map(printable, lines))


def _paragraphs(explanation: str) -> Iterator[str]:
    """An explanation in lines of a terminal, or its own; lists and what is indented stay as they are."""
    width = prose_width(sys.stdout)
    for number, paragraph in enumerate(explanation.split("\n\n")):
        if number:
            yield ""
        lines = [plain_quotes(printable(line)) for line in paragraph.splitlines()]
        if width is None or any(line.startswith((" ", "-", "|")) for line in lines):
            yield from lines
        else:
            yield from wrapped(plain_quotes(printable(" ".join(paragraph.splitlines()))), width)


def _json(one: Listed) -> dict[str, object]:
    return {
        "code": one.entry.code,
        "kind": one.kind,
        "severity": one.entry.severity.value,
        "in_force": one.in_force,
        "stage": one.stage,
        "waivable": one.waivable,
        "origin": one.origin,
        "summary": one.entry.summary,
        "explanation": one.entry.explanation,
    }
