"""`kafkaform graph`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kafkaform.cli.options import ClusterSelector, SectionedCommand, paths_argument, where_options
from kafkaform.cli.output import format_option, show
from kafkaform.cli.session import Session
from kafkaform.cli.status import declared_if_any
from kafkaform.config.manifests.loader import load_all
from kafkaform.config.settings import find_settings
from kafkaform.core.printable import printable
from kafkaform.plan.planning import check_identity
from kafkaform.report.graph import LiveGraph, build_graph
from kafkaform.resources import group_ref, listed_kinds

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path


@click.command(cls=SectionedCommand)
@paths_argument
@where_options
@format_option("graph", "mermaid as GitHub draws it, dot for Graphviz.")
@click.option(
    "--live", "is_live", is_flag=True, help="Add unmanaged resources of the cluster, and the lag of groups."
)
def graph(paths: tuple[Path, ...], where: ClusterSelector, output_format: str, is_live: bool) -> int:
    """Draw which group reads which topic."""
    settings = find_settings(where.config_file)
    live = None
    if is_live:
        session = Session.start(where)
        if output_format != "json":
            session.tell()
        desired = session.manifests(paths) if paths else declared_if_any(session) or []
        live = _read(session, listed_kinds(declared.ref for declared in desired))
    else:
        environment = where.environment
        if environment is None and where.cluster_name is not None:
            cluster = settings.select_cluster(where.cluster_name)
            # A cluster is one environment; its graph must not contain the resources of others.
            environment = cluster.environment if cluster else None
        settings.check_environment(environment)
        chosen = (environment,) if environment is not None else settings.environments or (None,)
        loaded = load_all(paths or settings.manifests, [settings.build_context(name) for name in chosen])
        desired = [declared for each in loaded for declared in each]
    show("graph", output_format, build_graph(desired, live, settings.ignore))
    return 0


def _read(session: Session, kinds: Collection[str]) -> LiveGraph:
    target = session.require_cluster()
    with session.cluster() as cluster:
        if target.cluster_id is not None:
            check_identity(cluster.facts(), target)
        inventory = cluster.observe((), kinds=kinds).inventory
        reading = cluster.groups()
    for name, reason in sorted(reading.denied.items()):
        click.echo(printable(f"not read: group {name}: {reason}"), err=True)
    return LiveGraph(inventory, {group_ref(name): group.lags for name, group in reading.groups.items()})
