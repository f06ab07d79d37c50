"""`kafkaform explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import click

from kafkaform.cli import completion
from kafkaform.cli.options import (
    ClusterSelector,
    SectionedCommand,
    cluster_option,
    config_option,
    environment_option,
    paths_argument,
)
from kafkaform.cli.output import format_option, show
from kafkaform.cli.session import Session
from kafkaform.config.manifests.loader import load_all
from kafkaform.core.errors import UsageError
from kafkaform.report.explanation import Explanation, list_paths
from kafkaform.resources import suggest_reference

if TYPE_CHECKING:
    from pathlib import Path

    from kafkaform.config.manifests.field_locations import FieldLocations


@click.command(cls=SectionedCommand)
@click.argument("resource", shell_complete=completion.kinds_and_resources)
@paths_argument
@format_option("explanation", "text for people, json for programs.")
@config_option
@cluster_option
@environment_option
def explain(
    resource: str,
    paths: tuple[Path, ...],
    output_format: str,
    config_file: Path | None,
    cluster_name: str | None,
    environment: str | None,
) -> int:
    """Show where the values of a declared resource come from, with file and line.

    RESOURCE is a KIND/NAME, such as Topic/orders.v1. Each field is listed with its value and the layer that
    sets it: the manifest, a profile or the defaults of kafkaform.yaml, or their overrides for an environment
    or a cluster; and below it the values that this one replaces. Connects to no cluster.
    """
    session = Session.start_offline(ClusterSelector(config_file, environment, cluster_name))
    explanation = _explain(resource, session, paths)
    show("explanation", output_format, explanation)
    return 0


def _explain(resource: str, session: Session, paths: tuple[Path, ...]) -> Explanation:
    # Not combined: each manifest of rights is explained by itself.
    (desired,) = load_all(session.paths(paths), [session.build_context()], combined=False)
    declared = next((each for each in desired if str(each.ref) == resource), None)
    if declared is None:
        hint = suggest_reference(resource, [each.ref for each in desired])
        raise UsageError(f"no manifest declares {resource!r}", hint=hint)
    locations = cast("FieldLocations", declared.locations)
    fields = {path: locations.list_settings(path) for path in list_paths(declared.intent.spec)}
    names = (("environment", session.environment), ("cluster", session.cluster_name))
    return Explanation(
        declared,
        tuple(f"{what} {name}" for what, name in names if name is not None),
        {path: settings for path, settings in fields.items() if settings},
    )
