"""Options that several commands share."""

from __future__ import annotations

import functools
import sys
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click
from click.core import ParameterSource

from kafkaform.cli import completion
from kafkaform.cli.examples import EXAMPLES
from kafkaform.cli.groups import SuggestingGroup
from kafkaform.cli.terminal import is_terminal
from kafkaform.config.manifests.files import DASH
from kafkaform.core.errors import KafkaformError, UsageError
from kafkaform.core.units import parse_age
from kafkaform.core.values import Value, replace
from kafkaform.core.wording import did_you_mean, pluralize, quoted
from kafkaform.resources import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_FILE = click.Path(path_type=Path, dir_okay=False)


CONNECTION = {
    "--cluster": "--cluster NAME",
    "--bootstrap-server": "--bootstrap-server HOST:PORT",
    "--command-config": "--command-config FILE",
    "--config": "--config FILE",
    "--environment": "-e/--environment NAME",
}
"""The options of every command that connects, as their one line in its help has them."""

SECTIONS = {
    "Scope": ("--manifests-from", "--target", "--prune", "--changed-since", "--clusters"),
    "Consent and safety": (
        "--allow",
        "--auto-approve",
        "--apply-while-unhealthy",
        "--again",
        "--lock",
        "--lock-timeout",
        "--audit",
    ),
    "Saved plans": ("--reviewed", "--verify-key", "--max-age", "--require-commit"),
    "Skew": ("--skew", "plan --max-age"),
    "Moving replicas": ("--throttle",),
    "Output": (
        "--out",
        "--sign-key",
        "--sign-for",
        "--export",
        "--format",
        "--verbose",
        "--detailed-exitcode",
        "--strict",
        "--notify",
        "--help",
    ),
}
"""The sections of a long help with their options; `plan --max-age` holds for that command only."""

CONNECTION_SECTION = "Cluster and configuration (`kafkaform help connection`)"
"""The title of the line that names the options of the connection."""

_MIN_OPTIONS_FOR_SECTIONS = 10
"""The number of options from which a help has sections."""


class SectionedCommand(click.Command):
    """A command whose help begins with examples, and has sections if there are many options."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, the options, those of the connection in one line, and sections if many."""
        name = ctx.command_path.partition(" ")[2]
        if name in EXAMPLES:
            with formatter.section("Examples"):
                for example in EXAMPLES[name]:
                    formatter.write(f"{'':{formatter.current_indent}}kafkaform {example}\n")
        options = [option for option in self.get_params(ctx) if isinstance(option, click.Option)]
        connection = [CONNECTION[flag] for flag in CONNECTION if flag in map(_get_flag, options)]
        options = [option for option in options if _get_flag(option) not in CONNECTION]
        # A short help is easier to read as one list.
        is_long = len(options) >= _MIN_OPTIONS_FOR_SECTIONS
        rows: dict[str, list[tuple[str, str]]] = {title: [] for title in ("Options", *SECTIONS)}
        for option in options:
            if (row := option.get_help_record(ctx)) is not None:
                rows[self._section(option) if is_long else "Options"].append(row)
        for title, records in rows.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)
        if connection:
            with formatter.section(CONNECTION_SECTION):
                formatter.write_text(", ".join(connection))

    def _section(self, option: click.Option) -> str:
        flag = _get_flag(option)
        for name in (f"{self.name} {flag}", flag):
            for title, flags in SECTIONS.items():
                if name in flags:
                    return title
        return "Options"


class SectionedGroup(SuggestingGroup):
    """A group of such commands."""

    command_class = SectionedCommand


def _get_flag(option: click.Option) -> str:
    # The long form: the tables have no short forms.
    return max(option.opts, key=len)


def parsed_by(parse: Callable[[str], object]) -> Callable[..., object]:
    """Return a callback that parses the value of an option, with a ValueError of `parse` as wrong usage."""

    def callback(_context: click.Context, option: click.Parameter, given: str | None) -> object:
        try:
            return None if given is None else parse(given)
        except ValueError as error:
            raise UsageError(f"{max(option.opts, key=len)}: {error}") from error

    return callback


parse_milliseconds = parsed_by(parse_age)
"""The callback of an option with a duration."""


_Decorator: TypeAlias = "Callable[[Callable[..., int]], Callable[..., int]]"


def option_group(build: Callable[..., object], argument: str, *options: _Decorator) -> _Decorator:
    """Return a decorator that adds options to a command, which gets them as one argument.

    Args:
        build: The class of that argument, with a field for each option, or a function with a parameter
            for each option.
        argument: The argument's name.
        options: The options, in the order of the help.
    """
    # Not `signature` of a class: it needs the types, which are imported for checks only.
    names = getattr(build, "__struct_fields__", None) or tuple(signature(build).parameters)

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        @functools.wraps(command)
        def call(**given: Any) -> int:
            # click passes every option as a keyword argument; those of the group are replaced by one object.
            group = build(**{name: given.pop(name) for name in names})
            return command(**{argument: group}, **given)

        wrapped: Callable[..., int] = call
        # From the last to the first, as decorators are applied: click then lists the options in their order.
        for option in reversed(options):
            wrapped = option(wrapped)
        return wrapped

    return decorate


def clusters_option(explanation: str = "") -> Callable[..., Any]:
    """Return a decorator that adds `--clusters`, as the argument `clusters`."""
    return click.option(
        "--clusters",
        multiple=True,
        metavar="GLOB",
        shell_complete=completion.cluster_selectors,
        help="Several clusters, by name ('prod-*', '*') or label (region=eu); repeatable. "
        f"{explanation}".rstrip(),
    )


def require_files(paths: Sequence[Path], why: str) -> None:
    """Refuse `-` among paths; raises UsageError with the reason."""
    if DASH in paths:
        raise UsageError(
            f"{why}, so manifests cannot come from stdin", hint="use files or folders instead of -"
        )


def _announce_stdin(
    context: click.Context, _argument: click.Parameter, paths: tuple[Path, ...]
) -> tuple[Path, ...]:
    """Print a note if `-` reads from a terminal; the callback of the paths."""
    # Without the note, a command that waits for input looks as if it hangs. `resilient_parsing` is set during
    # shell completion, which must print nothing.
    if DASH in paths and is_terminal(sys.stdin) and not context.resilient_parsing:
        click.echo("reading manifests from standard input, up to Ctrl-D", err=True)
    return paths


paths_argument = click.argument(
    "paths", nargs=-1, type=click.Path(path_type=Path), metavar="[PATH]...", callback=_announce_stdin
)


def _check_config_file(context: click.Context, option: click.Parameter, given: Path | None) -> Path | None:
    """Refuse a missing file, naming the environment variable that it comes from."""
    source = context.get_parameter_source(option.name or "")
    # A variable may be left over from other work: an error without its name would be hard to understand.
    if given is not None and source is ParameterSource.ENVIRONMENT and not given.exists():
        raise KafkaformError(f"KAFKAFORM_CONFIG: {given}: no such file", hint="unset or correct it")
    return given


config_option = click.option(
    "--config",
    "config_file",
    type=_FILE,
    callback=_check_config_file,
    envvar="KAFKAFORM_CONFIG",
    show_envvar=True,
    help="The configuration file.  [default: the nearest kafkaform.yaml, up to the repository's root]",
)
manifests_option = click.option(
    "--manifests-from",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    metavar="DIR",
    help="Read the manifests, and all settings but `clusters`, from this folder: for branches that are not "
    "trusted.",
)
environment_option = click.option(
    "-e",
    "--environment",
    envvar="KAFKAFORM_ENVIRONMENT",
    show_envvar=True,
    metavar="NAME",
    shell_complete=completion.environments,
    help="The environment whose overrides apply.  [default: the cluster's]",
)
target_option = click.option(
    "--target",
    "targets",
    multiple=True,
    metavar="KIND/NAME",
    shell_complete=completion.resources,
    help="Only these resources (globs allowed; repeatable), such as 'Topic/orders.*'.",
)
KINDS_BY_NOUN = {kind.words.noun: kind.name for kind in KINDS.values()}
"""The kinds by their nouns in options."""


def parse_kind(given: str, among: Iterable[str] = KINDS_BY_NOUN) -> str:
    """Parse a kind: its noun or plural as in options, or its name as in manifests, in any case.

    Args:
        among: The nouns of the kinds to choose from.

    Raises:
        UsageError: It is none of these.
    """
    spellings = {
        spelling.casefold(): KINDS_BY_NOUN[noun]
        for noun in among
        for spelling in (noun, pluralize(noun), KINDS_BY_NOUN[noun])
    }
    kind = spellings.get(given.casefold())
    if kind is None:
        suggestion = did_you_mean(given, spellings)
        raise UsageError(f"{quoted(given)} is not a kind{suggestion}", hint=f"kinds: {', '.join(among)}")
    return kind


match_option = click.option(
    "--match",
    "globs",
    multiple=True,
    metavar="GLOB",
    shell_complete=completion.names,
    help="Only resources whose names match (repeatable), such as 'orders.*'.",
)
kinds_option = click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice(list(KINDS_BY_NOUN)),
    help="Only resources of this kind (repeatable).",
)
report_option = click.option(
    "-o",
    "--out",
    type=_FILE,
    metavar="FILE",
    help="Write the report to this file, once it is complete, instead of stdout.",
)
allow_option = click.option(
    "--allow",
    multiple=True,
    metavar="KIND/NAME:HAZARD",
    help="Consent to a hazard (globs allowed; repeatable), to all hazards of a resource: "
    "KIND/NAME:destructive, or to everything: destructive.",
)
prune_option = click.option(
    "--prune",
    is_flag=True,
    help="Also delete topics, and the access of principals, that no manifest declares, inside `owns:`.",
)


class ClusterSelector(Value):
    """The options that choose a cluster and an environment, and the way to connect.

    Attributes:
        environment: The environment whose overrides apply.
        cluster_name: A cluster of the configuration file.
        bootstrap_server: Addresses of brokers.
        command_config: A file of client properties.
        variables: The names of the attributes above that come from environment variables.
    """

    config_file: Path | None = None
    environment: str | None = None
    cluster_name: str | None = None
    bootstrap_server: str | None = None
    command_config: Path | None = None
    variables: frozenset[str] = frozenset()

    def source(self, name: str) -> str:
        """Return the option or environment variable of a value, for messages."""
        option, variable = _SOURCES[name]
        return variable if name in self.variables else option

    def describe_removal(self, name: str) -> str:
        """Return how to remove a value, for hints: leave out an option, or unset a variable."""
        return f"{'unset' if name in self.variables else 'leave out'} {self.source(name)}"

    def options(self) -> tuple[str, ...]:
        """Return the options that choose the same cluster and environment, for commands to paste."""
        given = {
            "--config": self.config_file,
            "--cluster": self.cluster_name,
            "--bootstrap-server": self.bootstrap_server,
            "--command-config": self.command_config,
            "--environment": self.environment,
        }
        return tuple(
            word for name, value in given.items() if value is not None for word in (name, str(value))
        )

    def resolve_conflict(self) -> tuple[ClusterSelector, str | None]:
        """Return a copy without values that an explicit option overrides, and a note on the ignored one.

        `--cluster` and `--bootstrap-server` both choose the brokers. Given as two options, they belong
        together: that cluster, by another address. A variable is often left over from other work, so it never
        changes the meaning of an option.
        """
        cluster, address = "cluster_name", "bootstrap_server"
        if self.cluster_name is None or self.bootstrap_server is None:
            return self, None
        if address in self.variables and cluster not in self.variables:
            note = f"{self.source(address)} is ignored, because --cluster {self.cluster_name} is given"
            return replace(self, bootstrap_server=None), note
        if cluster in self.variables and address not in self.variables:
            note = f"{self.source(cluster)} is ignored, because --bootstrap-server is given"
            return replace(self, cluster_name=None), note
        return self, None


_SOURCES = {
    "config_file": ("--config", "KAFKAFORM_CONFIG"),
    "environment": ("--environment", "KAFKAFORM_ENVIRONMENT"),
    "cluster_name": ("--cluster", "KAFKAFORM_CLUSTER"),
    "bootstrap_server": ("--bootstrap-server", "KAFKAFORM_BOOTSTRAP_SERVER"),
    "command_config": ("--command-config", "KAFKAFORM_COMMAND_CONFIG"),
}


cluster_option = click.option(
    "--cluster",
    "cluster_name",
    envvar="KAFKAFORM_CLUSTER",
    show_envvar=True,
    metavar="NAME",
    shell_complete=completion.clusters,
    help="A cluster of kafkaform.yaml.  [default: the only one]",
)
_WHERE = (
    config_option,
    cluster_option,
    click.option(
        "--bootstrap-server",
        envvar="KAFKAFORM_BOOTSTRAP_SERVER",
        show_envvar=True,
        metavar="HOST:PORT[,...]",
        help="The bootstrap brokers. Without --cluster, no credentials from kafkaform.yaml are used.",
    ),
    click.option(
        "--command-config",
        type=_FILE,
        envvar="KAFKAFORM_COMMAND_CONFIG",
        show_envvar=True,
        help="A properties file as Kafka's own tools use it (Java names).",
    ),
    environment_option,
)


def _build_where(
    config_file: Path | None,
    environment: str | None,
    cluster_name: str | None,
    bootstrap_server: str | None,
    command_config: Path | None,
) -> ClusterSelector:
    source = click.get_current_context().get_parameter_source
    # Only click's context has the source of a value, and only while the command is called.
    variables = frozenset(name for name in _SOURCES if source(name) is ParameterSource.ENVIRONMENT)
    return ClusterSelector(
        config_file, environment, cluster_name, bootstrap_server, command_config, variables
    )


where_options = option_group(_build_where, "where", *_WHERE)
"""Adds the options of a `ClusterSelector` to a command."""


@where_options
def _take_connection(**_: object) -> int:
    return 0


CONNECTION_OPTIONS: Sequence[click.Option] = tuple(
    reversed(getattr(_take_connection, "__click_params__", ()))
)
"""The options of a `ClusterSelector`, in the order of their help."""
