"""`kafkaform help`, `kafkaform version` and `kafkaform completion`."""

from __future__ import annotations

import click
from click.shell_completion import BashComplete, FishComplete, ZshComplete

from kafkaform import __version__
from kafkaform.cli.options import CONNECTION_OPTIONS, SectionedCommand
from kafkaform.core.errors import UsageError

CONNECTION = "connection"
_SHELLS = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@click.command(cls=SectionedCommand)
@click.argument("names", nargs=-1, metavar="[COMMAND]...")
@click.pass_context
def help_(context: click.Context, names: tuple[str, ...]) -> None:
    """Show the help of a command, or of the connection options.

    `kafkaform help connection` explains the options that all commands that connect have.
    """
    parent = context.find_root()
    if names == (CONNECTION,):
        formatter = context.make_formatter()
        formatter.write_text(
            "The options of every command that connects to a cluster, or reads its settings:"
        )
        with formatter.section("Options"):
            records = [record for o in CONNECTION_OPTIONS if (record := o.get_help_record(context))]
            formatter.write_dl(records)
        click.echo(formatter.getvalue(), nl=False)
        return
    command: click.Command = parent.command
    for name in names:
        below = command.resolve_command(parent, [name])[1] if isinstance(command, click.Group) else None
        if below is None:
            raise UsageError(f"there is no command {' '.join(names)!r}", hint="`kafkaform help` lists them")
        parent, command = click.Context(below, parent, name, **below.context_settings), below
    click.echo(parent.get_help())


@click.command(cls=SectionedCommand)
def version() -> None:
    """Show the version of kafkaform."""
    click.echo(f"kafkaform, version {__version__}")


@click.command(cls=SectionedCommand)
@click.argument("shell", type=click.Choice([*_SHELLS]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that completes commands in a shell.

    For bash or zsh, write `eval "$(kafkaform completion bash)"` into ~/.bashrc or ~/.zshrc, with your
    shell's name; for fish, write the script to ~/.config/fish/completions/kafkaform.fish.
    """
    root = context.find_root().command
    click.echo(_SHELLS[shell](root, {}, "kafkaform", "_KAFKAFORM_COMPLETE").source())
