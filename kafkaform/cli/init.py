"""`kafkaform init`."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from kafkaform.cli.options import SectionedCommand

_ABOUT = {
    "kafkaform.yaml": "clusters, environments and defaults",
    "topics/example.yaml": "two example topics to change, copy or delete",
    "topics/example-group.yaml": "a consumer group that reads one of them",
    "schemas/config.schema.json": "completion and errors for kafkaform.yaml",
    "schemas/manifest.schema.json": "the same for manifests of every kind",
    ".vscode/settings.json": "tells VS Code which schema is for which file",
    ".gitignore": "keeps saved plans and local data out of Git",
}
NEXT_COMMANDS = {
    "kafkaform dev up --port 9092": "a local Kafka, if you have none (Java 17)",
    "kafkaform plan --out plan.json": "show what would change",
    "kafkaform apply plan.json": "apply exactly that",
}
"""The first commands in a new repository, as the README and `make demo` show them."""


@click.command(cls=SectionedCommand)
@click.argument("directory", type=click.Path(path_type=Path), default=Path())
@click.option(
    "--schemas",
    is_flag=True,
    help="In an existing repository: write only the schemas for editors, and into each manifest the "
    "line that refers to them.",
)
def init(directory: Path, schemas: bool) -> None:
    """Create a repository with a configuration and manifests.

    Also writes schemas for editors. DIRECTORY is created if it does not exist; the default is the current
    one. Existing files are never changed without --schemas.
    """
    from kafkaform.config.starter import write_starter
    from kafkaform.core.printable import printable

    if schemas:
        _write_schemas(directory)
        return
    starter = write_starter(directory)
    here = directory == Path()
    click.echo("Written:" if here else f"Written to {printable(str(directory))}:")
    _table({name: _ABOUT[name] for name in starter.files})
    if starter.ignore:
        click.echo(f"\nThe existing .gitignore was kept. It should contain: {', '.join(starter.ignore)}")
    click.echo("\nNext:")
    if not here:
        click.echo(f"  cd {printable(shlex.quote(str(directory)))}")
    _table(NEXT_COMMANDS)


def _write_schemas(directory: Path) -> None:
    from kafkaform.config.starter import write_schemas
    from kafkaform.core.printable import printable
    from kafkaform.core.wording import counted

    written = write_schemas(directory)
    folder = printable(str(directory / "schemas"))
    click.echo(
        f"Written: {counted(len(written.schemas), 'schema')} in {folder}."
        if written.schemas
        else f"{folder} has the schemas of this version."
    )
    if written.linked:
        click.echo(f"Added the line for editors to {counted(len(written.linked), 'file')}.")


def _table(rows: dict[str, str]) -> None:
    width = max(map(len, rows))
    for name, about in rows.items():
        click.echo(f"  {name:{width}}  {about}")
