"""`kafkaform new`."""

from __future__ import annotations

from pathlib import Path

import click

from kafkaform.cli import completion
from kafkaform.cli.options import SectionedCommand, config_option, option_group, parse_kind
from kafkaform.cli.terminal import echo_prose
from kafkaform.config.new_manifest import ManifestRequest, NewManifest, make_manifest, read_neighbours
from kafkaform.config.settings import find_settings
from kafkaform.config.starter import find_schemas
from kafkaform.core.files import write_files
from kafkaform.core.printable import printable
from kafkaform.core.wording import command, counted

_NOUNS = ("topic", "access", "group")


def _parse_kind(_context: click.Context, _argument: click.Parameter, given: str) -> str:
    return parse_kind(given, _NOUNS)


@click.command(cls=SectionedCommand)
@option_group(
    ManifestRequest,
    "request",
    click.argument("kind", callback=_parse_kind, metavar="|".join(_NOUNS)),
    click.argument("name"),
    click.option("--team", help="The team, as in the label `team`.  [default: that of the nearest names]"),
    click.option(
        "--reads",
        multiple=True,
        metavar="TOPIC",
        shell_complete=completion.topics,
        help="A topic that the group or application reads (repeatable).",
    ),
    click.option(
        "--writes",
        multiple=True,
        metavar="TOPIC",
        shell_complete=completion.topics,
        help="A topic that the application writes to (repeatable).",
    ),
    click.option(
        "--succeeds",
        metavar="TOPIC",
        shell_complete=completion.topics,
        help="The topic that a topic takes over from, with all that its manifest says.",
    ),
    click.option(
        "-o",
        "--out",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="The file.  [default: NAME.yaml beside the team's other manifests]",
    ),
)
@config_option
def new(request: ManifestRequest, config_file: Path | None) -> int:
    """Write the manifest of a new topic, access or group.

    The manifest has what those of its team share; that of a topic that succeeds another one, all of its
    labels and values. Of access, NAME is the principal, with or without User:, and its consumer group.
    Existing files are never changed.
    """
    settings = find_settings(config_file)
    made = make_manifest(request, read_neighbours(settings.manifests), settings, find_schemas(settings.file))
    write_files({made.path: made.text})
    _tell(made)
    return 0


def _tell(made: NewManifest) -> None:
    team = f" of team {made.team}" if made.team is not None else ""
    like = f", like {counted(len(made.neighbours), 'manifest')}{team}" if made.neighbours else ""
    echo_prose(printable(f"Written: {made.path}{like}."))
    for label, values in made.differing.items():
        echo_prose(printable(f"No label {label}: the others have {', '.join(values)}."))
    target = command("plan", options=("--target", str(made.ref)))
    echo_prose(f"Next: look at the file, then {command('validate')} and {printable(target)}.")
