"""Options that several commands share."""

from __future__ import annotations

import functools
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafkaform.errors import UsageError
from kafkaform.units import parse_age

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_FILE = click.Path(path_type=Path, dir_okay=False)


def in_milliseconds(_context: click.Context, option: click.Parameter, given: str | None) -> int | None:
    """The callback of an option such as `--max-age 7d`; raises UsageError where it is no such thing."""
    if given is None:
        return None
    try:
        return parse_age(given)
    except ValueError as error:
        raise UsageError(f"{option.opts[0]}: {error}") from error


def bundled(
    bundle: type, argument: str, options: Sequence[Callable[[Callable[..., int]], Callable[..., int]]]
) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """A decorator that gives a command options, which it takes together as one argument.

    Args:
        bundle: The dataclass of that argument, with a field for each option.
        argument: The argument's name.
        options: The options, in the order of the help.
    """

    def decorated(command: Callable[..., int]) -> Callable[..., int]:
        @functools.wraps(command)
        def gathered(**given: Any) -> int:
            taken = bundle(**{field.name: given.pop(field.name) for field in fields(bundle)})
            return command(**{argument: taken}, **given)

        for option in reversed(options):
            gathered = option(gathered)
        return gathered

    return decorated


paths_argument = click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="[PATH]...")

config_option = click.option(
    "--config",
    "config_file",
    type=_FILE,
    envvar="KAFKAFORM_CONFIG",
    show_envvar=True,
    help="The configuration file.  [default: kafkaform.yaml, if there is one]",
)
manifests_option = click.option(
    "--manifests-from",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    metavar="DIR",
    help="Read the manifests from here, and not from the configuration file's folder: for a branch that is "
    "not trusted, whose own configuration is not read.",
)
environment_option = click.option(
    "-e",
    "--environment",
    envvar="KAFKAFORM_ENVIRONMENT",
    show_envvar=True,
    help="Whose overrides hold.  [default: the cluster's]",
)
target_option = click.option(
    "--target",
    "targets",
    multiple=True,
    metavar="KIND/NAME",
    help="Only these resources (globs allowed; repeatable), such as 'Topic/orders.*'.",
)
KINDS_BY_NOUN = {"topic": "Topic", "group": "ConsumerGroup"}
"""The kinds as options name them."""

match_option = click.option(
    "--match",
    "globs",
    multiple=True,
    metavar="GLOB",
    help="Only topics and groups of such a name (repeatable), such as 'orders.*'.",
)
kinds_option = click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice(list(KINDS_BY_NOUN)),
    help="Only topics, or only groups.",
)
allow_option = click.option(
    "--allow",
    multiple=True,
    metavar="KIND/NAME:HAZARD",
    help="Consent to a hazard that the plan names (globs allowed; repeatable), or to all of a resource's: "
    "KIND/NAME:destructive; 'destructive' for everything.",
)
prune_option = click.option(
    "--prune",
    is_flag=True,
    help="Also delete topics inside owns: (kafkaform.yaml) that no manifest declares.",
)


@dataclass(frozen=True, slots=True)
class Where:
    """Which cluster and environment a call is about, and how to reach it, as the command line says."""

    config_file: Path | None = None
    environment: str | None = None
    cluster_name: str | None = None
    bootstrap_server: str | None = None
    command_config: Path | None = None


_WHERE = (
    config_option,
    click.option(
        "--cluster",
        "cluster_name",
        envvar="KAFKAFORM_CLUSTER",
        show_envvar=True,
        help="A cluster of kafkaform.yaml.  [default: the only one]",
    ),
    click.option(
        "--bootstrap-server",
        envvar="KAFKAFORM_BOOTSTRAP_SERVER",
        show_envvar=True,
        metavar="HOST:PORT[,...]",
        help="Brokers to ask first. Without --cluster, no credentials of kafkaform.yaml are used.",
    ),
    click.option(
        "--command-config",
        type=_FILE,
        envvar="KAFKAFORM_COMMAND_CONFIG",
        show_envvar=True,
        help="Client properties as Kafka's own tools take them (Java names).",
    ),
    environment_option,
)


where_options = bundled(Where, "where", _WHERE)
"""Gives a command the options of a `Where`."""
