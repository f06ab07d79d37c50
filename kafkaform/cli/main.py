"""The command line: parse, wire, echo, exit. Commands are imported when they are called."""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

import click

from kafkaform import __version__
from kafkaform.cli.error_handler import Complaints
from kafkaform.cli.terminal import tolerate_encoding
from kafkaform.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from click.shell_completion import CompletionItem

COMMANDS: dict[str, tuple[str, str]] = {
    "init": (
        "kafkaform.cli.init",
        "Create a starter repository: configuration, manifests and editor schemas.",
    ),
    "validate": (
        "kafkaform.cli.validate",
        "Check manifests and configuration offline, and list every problem.",
    ),
    "plan": ("kafkaform.cli.plan", "Show what would change on the cluster. Changes nothing."),
    "show": ("kafkaform.cli.show", "Show a saved plan. Needs no cluster."),
    "apply": ("kafkaform.cli.apply", "Apply a plan, and verify it by reading the cluster again."),
    "drift": (
        "kafkaform.cli.drift",
        "Show how the cluster differs from the manifests, since when, and how to fix it.",
    ),
    "import": ("kafkaform.cli.import_", "Write manifests for the topics and groups of a live cluster."),
    "history": ("kafkaform.cli.history", "Show past changes to the cluster, from the audit record."),
    "revert": (
        "kafkaform.cli.revert",
        "Change manifests back to the values before an apply. Changes no cluster.",
    ),
    "compare": ("kafkaform.cli.compare", "Show how two clusters, or two environments, differ."),
    "github": (
        "kafkaform.cli.github",
        "Comment on pull requests, keep issues up to date, fetch reviewed plans.",
    ),
    "reset": (
        "kafkaform.cli.reset",
        "Plan an offset reset of a group, to be applied with `apply RESET.json`.",
    ),
    "rebalance": (
        "kafkaform.cli.rebalance",
        "Plan replica moves that balance the brokers, or empty one.",
    ),
    "status": (
        "kafkaform.cli.status",
        "Show topics with their consumer groups, and groups with members and lag.",
    ),
    "get": ("kafkaform.cli.get", "Print a live topic or group as a manifest, or list all names."),
    "graph": (
        "kafkaform.cli.graph",
        "Draw which group reads which topic. Needs a cluster only with --live.",
    ),
    "client-config": (
        "kafkaform.cli.client_config",
        "Print the client settings of a declared group, for its application.",
    ),
    "doctor": (
        "kafkaform.cli.doctor",
        "Check the health of the cluster: controllers, brokers, partitions, groups.",
    ),
    "skew": (
        "kafkaform.cli.skew",
        "Measure how evenly written records spread over partitions, why, and what would help.",
    ),
    "rules": ("kafkaform.cli.rules", "List all rules, or explain one: kafkaform rules KF109."),
    "dev": ("kafkaform.cli.dev", "Run a real Apache Kafka on this machine, without Docker."),
}
"""The commands with their module and first line, so that --help imports none of them."""


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
        name = cmd_name.replace("-", "_")
        command = getattr(module, name, None) or getattr(module, f"{name}_")
        assert isinstance(command, click.Command)  # noqa: S101 - the table above is ours
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete commands without importing them, and options."""
        from click.shell_completion import CompletionItem

        options = click.Command.shell_complete(self, ctx, incomplete)
        found = {name: summary for name, (_, summary) in COMMANDS.items() if name.startswith(incomplete)}
        return [*options, *(CompletionItem(name, help=summary) for name, summary in found.items())]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Say which command was probably meant."""
        name = args[0]
        if name not in COMMANDS and not ctx.resilient_parsing and not name.startswith("-"):
            from kafkaform.core.wording import nearest

            near = nearest(name, COMMANDS)
            hint = f"did you mean kafkaform {near}?" if near else "kafkaform --help lists them"
            raise UsageError(f"there is no command {name!r}", hint=hint)
        return super().resolve_command(ctx, args)


@click.group(
    cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="kafkaform")
@click.option(
    "--debug",
    is_flag=True,
    help="Show tracebacks, one line per request to Kafka (no contents, no secrets), and what the Kafka "
    "clients log.",
)
@click.pass_obj
def cli(complaints: Complaints | None, debug: bool) -> None:
    """Declarative, GitOps management of Apache Kafka: plan, apply, drift.

    Exit codes: 0 done; 1 error, refusal or missing consent; 2 changes (plan --detailed-exitcode),
    drift, differences, unhealthy; 64 wrong usage.
    """
    if debug and complaints is not None:
        complaints.debug()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    # Thousands of manifests are many objects and hardly a cycle: collecting as often as a long-lived process
    # should was a fifth of the time of a large plan, and at every 100,000 objects still a twentieth.
    gc.set_threshold(1_000_000, 50, 50)
    tolerate_encoding()
    _leave(run(arguments))


def _leave(code: int) -> NoReturn:
    """End the process as the interpreter does, up to and without tearing itself down.

    A run that ends early, over a wrong manifest say, leaves requests of the prefetch unanswered. If one is
    answered while the interpreter is torn down, librdkafka's background thread calls into Python, and the
    process dies of SIGSEGV: 4 of 120 runs of `plan` and `drift` that ended early. This way it was 0 of 300
    runs of each command (scripts/exit_codes.py). To wait for the answers instead would keep everybody with a
    typo in a manifest waiting for a broker that may never answer, and the client cannot take a request back.
    What a large plan leaves is not collected once more either, which was 0.1 s.
    """
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001 - wait for all but daemon threads
    atexit._run_exitfuncs()  # noqa: SLF001 - logging, temporary folders, child processes, coverage
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # it was told already
            if stream is not None:
                stream.flush()
    os._exit(code)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; every error becomes a line on stderr, a hint, and an exit code."""
    complaints = Complaints()
    given = None if arguments is None else list(arguments)
    try:
        result = cli.main(given, prog_name="kafkaform", standalone_mode=False, obj=complaints)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - all of them are told, none is lost
        return complaints.tell(error)
    return result if isinstance(result, int) else 0
