"""`kafkaform client-config`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from kafkaform.cli import completion
from kafkaform.cli.options import (
    ClusterSelector,
    SectionedCommand,
    cluster_option,
    config_option,
    environment_option,
    paths_argument,
)
from kafkaform.cli.session import Session
from kafkaform.config.client_config import FORMATS, render_settings
from kafkaform.config.manifests.loader import suggest_names
from kafkaform.core.errors import UsageError
from kafkaform.core.wording import listed
from kafkaform.resources import is_group, nearest_name

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kafkaform.core.model import Desired


@click.command("client-config", cls=SectionedCommand)
@click.argument("group", shell_complete=completion.groups)
@paths_argument
@click.option(
    "--format",
    "output_format",
    type=click.Choice(list(FORMATS)),
    default="properties",
    show_default=True,
    help="librdkafka uses that client's names, the other formats those of the Java client.",
)
@click.option(
    "--without",
    multiple=True,
    metavar="NAME",
    help="Leave this setting out (the Java client's name; repeatable).",
)
@config_option
@cluster_option
@environment_option
def client_config(
    group: str,
    paths: tuple[Path, ...],
    output_format: str,
    without: tuple[str, ...],
    config_file: Path | None,
    cluster_name: str | None,
    environment: str | None,
) -> None:
    """Print the client settings of a declared group.

    Prints group.id, group.protocol and the settings below `client:` in the manifest; no addresses, no
    secrets. Settings that the client would refuse are refused. Connects to no cluster.
    """
    source = click.get_current_context().get_parameter_source
    variables = frozenset(
        name for name in ("cluster_name", "environment") if source(name) is ParameterSource.ENVIRONMENT
    )
    where = ClusterSelector(config_file, environment, cluster_name, variables=variables)
    desired = _find_group(group, Session.start_offline(where).manifests(paths))
    _check_without(desired, without)
    click.echo(render_settings(desired, output_format, without), nl=False)


def _find_group(name: str, desired: Sequence[Desired]) -> Desired:
    groups = {declared.ref.name: declared for declared in desired if is_group(declared.ref)}
    group = groups.get(name)
    if group is None:
        near = nearest_name(name, groups)
        hint = f"did you mean {near!r}?" if near else f"declared groups: {listed([*groups]) or 'none'}"
        raise UsageError(f"no manifest declares a group {name!r}", hint=hint)
    if group.state is None:
        raise UsageError(
            f"the group {name!r} is declared to be absent", hint="it has no clients to configure"
        )
    return group


def _check_without(desired: Desired, without: Sequence[str]) -> None:
    declared = desired.intent.spec.get("client", {})
    assert isinstance(declared, dict)  # noqa: S101 - the kind's normal form
    for name in without:
        if name not in declared:
            raise UsageError(
                f"--without {name}: the group has no such client setting",
                hint=suggest_names(name, declared, "settings")
                if declared
                else "the group has no client settings",
            )
