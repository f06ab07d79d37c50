"""The command line: parse, wire, echo, exit. Commands are imported when they are called."""

from __future__ import annotations

import importlib
import logging
import os
import sys
from collections.abc import Sequence

import click

from kafkaform import __version__
from kafkaform.errors import InvalidInput, KafkaformError, UsageError

COMMANDS: dict[str, tuple[str, str]] = {
    "init": ("kafkaform.cli.init", "Write a starter repository."),
    "validate": ("kafkaform.cli.validate", "Check manifests and configuration, offline."),
    "plan": ("kafkaform.cli.plan", "Show what would change on the cluster."),
    "show": ("kafkaform.cli.show", "Show a saved plan."),
    "apply": ("kafkaform.cli.apply", "Carry out a plan: a saved one, or one made now."),
    "rules": ("kafkaform.cli.rules", "List the rules, or explain one."),
    "dev": ("kafkaform.cli.dev", "Run a real Kafka on this machine."),
}
"""The commands with their module and first line, so that --help imports none of them."""

_GENERIC_ERROR = 1
_INTERRUPTED = 1


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """The commands, in the order of work."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import one command."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(COMMANDS[cmd_name][0])
        command = getattr(module, cmd_name)
        assert isinstance(command, click.Command)  # noqa: S101 - the table above is ours
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Say which command was probably meant."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from kafkaform.spelling import nearest  # noqa: PLC0415

            near = nearest(args[0], COMMANDS)
            if near is not None:
                error.message += f" Did you mean {near!r}?"
            raise


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="kafkaform")
@click.option("--debug", is_flag=True, help="Show tracebacks, and what the Kafka clients log.")
@click.pass_context
def cli(ctx: click.Context, debug: bool) -> None:
    """Declarative, GitOps management of Apache Kafka: plan, apply, drift.

    Exit codes: 0 done; 1 error, refusal or missing consent; 2 changes (plan --detailed-exitcode);
    64 wrong usage.
    """
    ctx.obj = {"debug": debug}
    if debug:
        logging.basicConfig(level=logging.DEBUG, stream=sys.stderr)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; every error becomes a line on stderr, a hint, and an exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        result = cli.main(given, prog_name="kafkaform", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return UsageError.exit_code
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "kafkaform"
        _complain(error.format_message(), f"see {command} --help")
        return UsageError.exit_code
    except click.ClickException as error:
        _complain(error.format_message(), None)
        return _GENERIC_ERROR
    except (click.Abort, KeyboardInterrupt):
        _complain("interrupted; nothing more was done", None)
        return _INTERRUPTED
    except BrokenPipeError:
        # The reader (head, less) has seen enough; keep Python from complaining about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _GENERIC_ERROR
    except KafkaformError as error:
        if "--debug" in given:
            raise
        _report(error)
        return error.exit_code
    except Exception as error:
        if "--debug" in given:
            raise
        _complain(f"unexpected {type(error).__name__}: {error}", "run it again with --debug first for the traceback")
        return _GENERIC_ERROR
    return result if isinstance(result, int) else 0


def _report(error: KafkaformError) -> None:
    if isinstance(error, InvalidInput):
        from kafkaform.report.printable import printable  # noqa: PLC0415

        for problem in error.problems:
            click.echo(printable(str(problem)), err=True)
    _complain(error.message, error.hint)


def _complain(message: str, hint: str | None) -> None:
    from kafkaform.report.printable import printable  # noqa: PLC0415

    label = click.style("Error:", fg="red", bold=True)
    click.echo(f"{label} {printable(message)}", err=True)
    if hint:
        click.echo(f"hint: {printable(hint)}", err=True)
