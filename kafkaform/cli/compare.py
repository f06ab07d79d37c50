"""`kafkaform compare`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING

import click

from kafkaform.cli import completion
from kafkaform.cli.fleet import ClusterOutcome, Fleet, run_on_clusters
from kafkaform.cli.options import (
    KINDS_BY_NOUN,
    ClusterSelector,
    SectionedCommand,
    clusters_option,
    config_option,
    kinds_option,
    match_option,
    option_group,
)
from kafkaform.cli.output import format_option, show, tell
from kafkaform.cli.session import Session
from kafkaform.cli.status import declared_if_any
from kafkaform.config.manifests.loader import load_all
from kafkaform.config.settings import find_settings
from kafkaform.core.errors import ClusterError, KafkaformError, UsageError
from kafkaform.core.values import Value, replace
from kafkaform.inspect.comparison import (
    ComparedResource,
    Comparison,
    Side,
    compare_sides,
    declared_states,
    select_live_resources,
)
from kafkaform.inspect.resource_status import Selection
from kafkaform.plan.planning import check_identity
from kafkaform.plan.policy import is_own

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafkaform.cluster.protocol import ResourceReader
    from kafkaform.core.model import Observation, ResourceRef, State


class CompareOptions(Value):
    """The resources to compare, and the format of the report.

    Attributes:
        environments: Whether the sides are environments.
        clusters: The clusters to compare A with, in place of B.
        globs: Only resources with these names.
        kinds: Only resources of these kinds.
        with_manifests: Whether declared differences are marked.
        output_format: The format of the report.
    """

    environments: bool
    clusters: tuple[str, ...]
    globs: tuple[str, ...]
    kinds: tuple[str, ...]
    with_manifests: bool
    output_format: str


@click.command(cls=SectionedCommand)
@click.argument("a", metavar="A", shell_complete=completion.sides)
@click.argument("b", metavar="[B]", required=False, shell_complete=completion.sides)
@config_option
@option_group(
    CompareOptions,
    "options",
    click.option(
        "--environments", is_flag=True, help="A and B are environments: compare their manifests, offline."
    ),
    clusters_option("A is compared with each, in place of B."),
    match_option,
    kinds_option,
    click.option(
        "--manifests/--no-manifests",
        "with_manifests",
        default=True,
        show_default=True,
        help="Mark differences that the manifests declare, and do not count them.",
    ),
    format_option("compare", "markdown is for a pull request."),
)
def compare(a: str, b: str | None, config_file: Path | None, options: CompareOptions) -> int:
    """Show how two clusters, or two environments, differ.

    Topics are compared, and the protocols and configs of groups, but not their offsets. Exit codes: 0 same,
    or different as declared; 2 different; 1 not everything could be read.
    """
    chosen = tuple(KINDS_BY_NOUN[kind] for kind in options.kinds or KINDS_BY_NOUN)
    read = partial(
        _read_clusters, config_file, globs=options.globs, kinds=chosen, with_manifests=options.with_manifests
    )
    if options.clusters:
        if b is not None or options.environments:
            raise UsageError("--clusters takes the place of B, which is a cluster", hint=f"compare {a}")
        find_settings(config_file).select_cluster(a)

        def run(session: Session) -> ClusterOutcome:
            comparison = compare_sides(*read((a, session.require_cluster().name)))
            return ClusterOutcome(comparison, _find_exit_code(comparison))

        fleet = Fleet(options.clusters, "compare", options.output_format, without=a)
        return run_on_clusters(ClusterSelector(config_file), run, fleet)
    if b is None:
        raise UsageError("compare needs a second cluster or environment", hint="name B, or use --clusters")
    if a == b:
        raise UsageError(f"{a!r} is compared with itself", hint="name two different clusters or environments")
    if options.environments:
        sides = _load_environments(config_file, (a, b), Selection(options.globs, chosen))
    else:
        sides = read((a, b), tells=options.output_format == "text")
    comparison = compare_sides(*sides)
    show("compare", options.output_format, comparison)
    return _find_exit_code(comparison)


def _find_exit_code(comparison: Comparison) -> int:
    # 1 before 2: with a part that could not be read, equal and different are both guesses.
    if comparison.unknown:
        return 1
    return 2 if comparison.unexpected else 0


def _load_environments(
    config_file: Path | None, names: tuple[str, str], selection: Selection
) -> tuple[Side, Side]:
    settings = find_settings(config_file)
    for name in names:
        settings.check_environment(name)
    loaded = load_all(settings.manifests, [settings.build_context(name) for name in names])
    sides = [
        Side(
            name,
            {
                ref: ComparedResource(state)
                for ref, state in declared_states(desired).items()
                if selection.takes(ref)
            },
        )
        for name, desired in zip(names, loaded, strict=True)
    ]
    return sides[0], sides[1]


def _read_clusters(
    config_file: Path | None,
    names: tuple[str, str],
    *,
    globs: tuple[str, ...],
    kinds: tuple[str, ...],
    with_manifests: bool,
    tells: bool = False,
) -> tuple[Side, Side]:
    # KAFKAFORM_CLUSTER and KAFKAFORM_ENVIRONMENT are not read: arguments name both clusters.
    sessions = [Session.start(ClusterSelector(config_file, cluster_name=name)) for name in names]
    if tells:
        for session in sessions:
            session.tell()
    # Both sessions have the same configuration file, and so the same `ignore`.
    selection = Selection(globs, kinds, sessions[0].settings.ignore)
    wanted = [_read_declared(session) if with_manifests else None for session in sessions]
    # Connected here, where their secrets are registered for redaction, and used in threads.
    with ExitStack() as stack, ThreadPoolExecutor(len(sessions)) as pool:
        clusters = [stack.enter_context(session.cluster()) for session in sessions]
        readings = list(pool.map(partial(_read, selection), sessions, clusters))
        chosen = {
            ref
            for reading in readings
            for ref in reading.inventory
            if selection.takes(ref) and not is_own(ref)
        }
        # A topic in one list only may be absent, or hidden by missing rights. A request by name shows which:
        # Kafka leaves topics out of a list that may not be described, and refuses them by name.
        readings = list(pool.map(partial(_add_hidden, chosen), sessions, clusters, readings))
    # Internal topics, such as __consumer_offsets, follow the settings of the brokers, not those of a user.
    chosen -= {ref for reading in readings for ref, topic in reading.resources.items() if topic.internal}
    for name, reading in zip(names, readings, strict=True):
        for note in reading.diagnostics:
            tell(f"note: {name}: {note.message}")
    sides = [
        Side(
            name,
            select_live_resources(reading, chosen),
            {ref: why for ref, why in reading.invisible.items() if ref in chosen},
            declared,
        )
        for name, reading, declared in zip(names, readings, wanted, strict=True)
    ]
    return sides[0], sides[1]


def _read_declared(session: Session) -> dict[ResourceRef, State] | None:
    # Live clusters can be compared even if a manifest is invalid; then no difference counts as declared.
    desired = declared_if_any(session)
    return None if desired is None else declared_states(desired)


def _read(selection: Selection, session: Session, cluster: ResourceReader) -> Observation:
    """Read the selected resources of a cluster."""
    with _cluster_name_in_errors(session):
        target = session.require_cluster()
        if target.cluster_id is not None:
            check_identity(cluster.facts(), target)
        return cluster.observe(
            (), lambda ref: selection.takes(ref) and not is_own(ref), kinds=selection.kinds
        )


def _add_hidden(
    chosen: set[ResourceRef], session: Session, cluster: ResourceReader, reading: Observation
) -> Observation:
    """Add resources that are missing in the reading, by name: they may exist but be hidden."""
    missing = chosen - reading.inventory
    if not missing:
        return reading
    with _cluster_name_in_errors(session):
        named = cluster.observe(missing)
    return replace(
        reading,
        resources={**reading.resources, **named.resources},
        invisible={**reading.invisible, **named.invisible},
    )


@contextmanager
def _cluster_name_in_errors(session: Session) -> Iterator[None]:
    """Add the name of the cluster to its errors."""
    try:
        yield
    except ClusterError as error:
        name = session.require_cluster().name
        raise KafkaformError(f"{name}: {error.message}", hint=error.hint) from error
