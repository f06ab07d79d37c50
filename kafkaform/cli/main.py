"""The command line: parse, wire, echo, exit. Commands are imported when they are called."""

from __future__ import annotations

import gc
import importlib
import sys
from typing import TYPE_CHECKING

import click

from kafkaform import __version__
from kafkaform.cli.error_handler import ErrorHandler
from kafkaform.cli.groups import SuggestingGroup
from kafkaform.cli.terminal import tolerate_encoding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from click.shell_completion import CompletionItem

SECTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "Daily": {
        "init": ("kafkaform.cli.init", "Create a repository with a configuration and manifests."),
        "import": ("kafkaform.cli.import_", "Write manifests for the resources of a cluster."),
        "new": ("kafkaform.cli.new", "Write the manifest of a new topic, access or group."),
        "validate": ("kafkaform.cli.validate", "Check manifests and configuration, without a cluster."),
        "plan": ("kafkaform.cli.plan", "Show what would change on the cluster. Changes nothing."),
        "show": ("kafkaform.cli.show", "Show a saved plan. Needs no cluster."),
        "apply": ("kafkaform.cli.apply", "Apply a plan, and verify it by reading the cluster again."),
        "drift": ("kafkaform.cli.drift", "Show how the cluster differs from the manifests."),
    },
    "Look": {
        "status": ("kafkaform.cli.status", "Show topics, consumer groups with their lag, and quotas."),
        "explain": ("kafkaform.cli.explain", "Explain the fields of a kind, or the values of a resource."),
        "get": ("kafkaform.cli.get", "Print a live resource as a manifest, or list all names."),
        "doctor": ("kafkaform.cli.doctor", "Check the health of brokers, partitions and groups."),
        "history": ("kafkaform.cli.history", "Show past changes to the cluster, from the audit record."),
        "compare": ("kafkaform.cli.compare", "Show how two clusters, or two environments, differ."),
        "graph": ("kafkaform.cli.graph", "Draw which group reads which topic."),
    },
    "Access": {"can": ("kafkaform.cli.can", "Show whether a principal may do something, or who may.")},
    "Operate": {
        "reset": ("kafkaform.cli.reset", "Plan an offset reset of a group."),
        "rebalance": (
            "kafkaform.cli.rebalance",
            "Plan replica moves that balance the brokers, or empty one.",
        ),
        "revert": ("kafkaform.cli.revert", "Change manifests back to the values before an apply."),
        "succession": (
            "kafkaform.cli.succession",
            "Show which groups have moved to the successor of a topic.",
        ),
        "skew": ("kafkaform.cli.skew", "Measure how evenly records spread over partitions, and why."),
        "arrivals": ("kafkaform.cli.arrivals", "List the topics whose records arrive unevenly, by offsets."),
        "client-config": ("kafkaform.cli.client_config", "Print the client settings of a declared group."),
    },
    "CI and tools": {
        "ci": ("kafkaform.cli.ci", "Comment on pull requests, post issues, fetch reviewed plans."),
        "agent": ("kafkaform.cli.agent", "Follow a Git branch, and apply its signed, reviewed plan."),
        "rules": ("kafkaform.cli.rules", "List all rules, or explain one: kafkaform rules KF109."),
        "dev": ("kafkaform.cli.dev", "Run a real Apache Kafka on this machine, without Docker."),
        "completion": ("kafkaform.cli.help", "Print the script that completes commands in a shell."),
        "help": ("kafkaform.cli.help", "Show the help of a command, or of the connection options."),
        "version": ("kafkaform.cli.help", "Show the version of kafkaform."),
    },
}
"""The modules and summaries of the commands by section of the help, so that --help imports none of them."""
COMMANDS = {name: command for commands in SECTIONS.values() for name, command in commands.items()}


OTHER_NAMES = {
    "who-can": "can anyone",
    "github": "ci",
    "gitlab": "ci",
    "describe": "status",
    "list": "get",
    "diff": "plan",
    "lint": "validate",
    "check": "validate",
    "export": "import",
    "reassign": "rebalance",
    "create": "new",
    "scaffold": "new",
}
"""Commands by other words for them, such as those of other tools, which no similarity finds."""


class LazyGroup(SuggestingGroup):
    """A group whose commands are imported when they are called."""

    other_names = OTHER_NAMES

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the commands, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the module of a command and return the command."""
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
        matches = {name: summary for name, (_, summary) in COMMANDS.items() if name.startswith(incomplete)}
        return [*options, *(CompletionItem(name, help=summary) for name, summary in matches.items())]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the commands by section, without importing them."""
        width = max(map(len, COMMANDS))
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:{width}}", summary) for name, (_, summary) in commands.items()])


@click.group(
    cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, "-V", "--version", prog_name="kafkaform")
@click.option(
    "--debug",
    is_flag=True,
    help="Show tracebacks, one line per request to Kafka (no contents, no secrets), and what the Kafka "
    "clients log.",
)
@click.pass_obj
def cli(error_handler: ErrorHandler | None, debug: bool) -> None:
    """Declarative, GitOps management of Apache Kafka: plan, apply, drift.

    Exit codes: 0 done; 1 error, refusal or missing consent; 2 changes (plan --detailed-exitcode),
    drift, differences, unhealthy; 64 wrong usage.
    """  # noqa: D401 - the first line of the help says what kafkaform is
    if debug and error_handler is not None:
        error_handler.debug()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    # Thousands of manifests are many objects with few cycles: with Python's default thresholds, garbage
    # collection took 20 % of the time of a large plan, and 5 % with a threshold of 100,000 objects.
    gc.set_threshold(1_000_000, 50, 50)
    tolerate_encoding()
    code = run(arguments)
    gc.freeze()  # skips the final collection, 0.1 s after a large plan
    sys.exit(code)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; every error becomes a line on stderr, a hint, and an exit code."""
    error_handler = ErrorHandler()
    given = None if arguments is None else list(arguments)
    try:
        # With standalone_mode, click prints its own errors and exits, without hints and exit codes of ours.
        result = cli.main(given, prog_name="kafkaform", standalone_mode=False, obj=error_handler)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - every error is reported
        return error_handler.tell(error)
    # `--help` and some commands return None.
    return result if isinstance(result, int) else 0
