"""`kafkaform init`."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from kafkaform.resources import KINDS

_ABOUT = {
    "kafkaform.yaml": "clusters, environments and defaults",
    "topics/example.yaml": "two example topics to change, copy or delete",
    "topics/example-group.yaml": "a consumer group that reads one of them",
    "schemas/config.schema.json": "completion and errors in editors",
    **{
        f"schemas/{kind.format.schema}.schema.json": f"the same for {kind.words.collection}"
        for kind in KINDS.values()
    },
    ".gitignore": "keeps saved plans and local data out of Git",
}
_NEXT = {
    "kafkaform validate": "check the manifests, offline",
    "kafkaform dev up --port 9092": "start a local Kafka, if you have none (needs Java 17)",
    "kafkaform plan --out plan.json": "show what would change",
    "kafkaform apply plan.json": "apply exactly that",
}


@click.command()
@click.argument("directory", type=click.Path(path_type=Path), default=Path())
def init(directory: Path) -> None:
    """Create a starter repository: configuration, manifests and editor schemas.

    DIRECTORY is created if it does not exist. The default is the current directory. Existing files are
    never changed.
    """
    from kafkaform.config.starter import write_starter
    from kafkaform.core.printable import printable

    starter = write_starter(directory)
    here = directory == Path()
    click.echo("Written:" if here else f"Written to {printable(str(directory))}:")
    _table({name: _ABOUT[name] for name in starter.files})
    if starter.ignore:
        click.echo(f"\nThe existing .gitignore was kept. It should contain: {', '.join(starter.ignore)}")
    click.echo("\nNext:")
    if not here:
        click.echo(f"  cd {printable(shlex.quote(str(directory)))}")
    _table(_NEXT)


def _table(rows: dict[str, str]) -> None:
    width = max(map(len, rows))
    for name, about in rows.items():
        click.echo(f"  {name:{width}}  {about}")
