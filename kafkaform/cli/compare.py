"""`kafkaform compare`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import click

from kafkaform.cli import completion
from kafkaform.cli.options import KINDS_BY_NOUN, Where, config_option, kinds_option, match_option
from kafkaform.cli.output import format_option, show, tell
from kafkaform.cli.session import Session
from kafkaform.cli.status import declared_if_any
from kafkaform.config.manifests.loader import load_all
from kafkaform.config.settings import find_settings
from kafkaform.core.errors import ClusterError, KafkaformError, UsageError
from kafkaform.inspect.comparison import Side, Thing, compare_sides, declared_states, live_things
from kafkaform.inspect.resource_status import Selection
from kafkaform.plan.planning import check_identity
from kafkaform.plan.policy import is_own

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafkaform.cluster.protocol import ResourceReader
    from kafkaform.core.model import Observation, ResourceRef, State


@click.command()
@click.argument("a", metavar="A", shell_complete=completion.sides)
@click.argument("b", metavar="B", shell_complete=completion.sides)
@config_option
@click.option(
    "--environments", is_flag=True, help="A and B are environments: compare their manifests, offline."
)
@match_option
@kinds_option
@click.option(
    "--manifests/--no-manifests",
    "with_manifests",
    default=True,
    show_default=True,
    help="Mark differences that the manifests declare, and do not count them.",
)
@format_option("compare", "text for people, json for programs, markdown for a pull request.")
def compare(
    a: str,
    b: str,
    config_file: Path | None,
    environments: bool,
    globs: tuple[str, ...],
    kinds: tuple[str, ...],
    with_manifests: bool,
    output_format: str,
) -> int:
    """Show how two clusters, or two environments, differ.

    A and B are clusters of kafkaform.yaml. Topics are compared, and the protocols and configs of groups, but
    not their offsets. Exit codes: 0 same, or different as declared; 2 different; 1 not everything could be
    read.
    """
    if a == b:
        raise UsageError(f"{a!r} is compared with itself", hint="name two different clusters or environments")
    chosen = tuple(KINDS_BY_NOUN[kind] for kind in kinds or KINDS_BY_NOUN)
    if environments:
        sides = _environments(config_file, (a, b), Selection(globs, chosen))
    else:
        tells = output_format == "text"
        sides = _clusters(config_file, (a, b), globs, chosen, with_manifests=with_manifests, tells=tells)
    comparison = compare_sides(*sides)
    show("compare", output_format, comparison)
    if comparison.unknown:
        return 1
    return 2 if comparison.unexpected else 0


def _environments(
    config_file: Path | None, names: tuple[str, str], selection: Selection
) -> tuple[Side, Side]:
    settings = find_settings(config_file)
    for name in names:
        settings.check_environment(name)
    loaded = load_all(settings.manifests, [settings.context(name) for name in names])
    sides = [
        Side(
            name,
            {ref: Thing(state) for ref, state in declared_states(desired).items() if selection.takes(ref)},
        )
        for name, desired in zip(names, loaded, strict=True)
    ]
    return sides[0], sides[1]


def _clusters(
    config_file: Path | None,
    names: tuple[str, str],
    globs: tuple[str, ...],
    kinds: tuple[str, ...],
    *,
    with_manifests: bool,
    tells: bool,
) -> tuple[Side, Side]:
    sessions = [Session.start(Where(config_file, cluster_name=name)) for name in names]
    if tells:
        for session in sessions:
            session.tell()
    selection = Selection(globs, kinds, sessions[0].settings.ignore)
    wanted = [_declared(session) if with_manifests else None for session in sessions]
    # Prepared here, where the secrets in them become known as such, and used in threads.
    with ExitStack() as stack, ThreadPoolExecutor(len(sessions)) as pool:
        clusters = [stack.enter_context(session.cluster()) for session in sessions]
        readings = list(pool.map(partial(_read, selection), sessions, clusters))
        chosen = {
            ref
            for reading in readings
            for ref in reading.inventory
            if selection.takes(ref) and not is_own(ref)
        }
        readings = list(pool.map(partial(_completed, chosen), sessions, clusters, readings))
    chosen -= {ref for reading in readings for ref, one in reading.resources.items() if one.internal}
    for name, reading in zip(names, readings, strict=True):
        for note in reading.diagnostics:
            tell(f"note: {name}: {note.message}")
    sides = [
        Side(
            name,
            live_things(reading, chosen),
            {ref: why for ref, why in reading.invisible.items() if ref in chosen},
            declared,
        )
        for name, reading, declared in zip(names, readings, wanted, strict=True)
    ]
    return sides[0], sides[1]


def _declared(session: Session) -> dict[ResourceRef, State] | None:
    desired = declared_if_any(session)
    return None if desired is None else declared_states(desired)


def _read(selection: Selection, session: Session, cluster: ResourceReader) -> Observation:
    """What a cluster has of the selection."""
    with _named(session):
        target = session.require_cluster()
        if target.cluster_id is not None:
            check_identity(cluster.facts(), target)
        return cluster.observe(
            (), lambda ref: selection.takes(ref) and not is_own(ref), kinds=selection.kinds
        )


def _completed(
    chosen: set[ResourceRef], session: Session, cluster: ResourceReader, reading: Observation
) -> Observation:
    """The reading, with what it does not show asked for by name: it may be there and hidden."""
    missing = chosen - reading.inventory
    if not missing:
        return reading
    with _named(session):
        more = cluster.observe(missing)
    return replace(
        reading,
        resources={**reading.resources, **more.resources},
        invisible={**reading.invisible, **more.invisible},
    )


@contextmanager
def _named(session: Session) -> Iterator[None]:
    """Say which of the two clusters it was."""
    try:
        yield
    except ClusterError as error:
        name = session.require_cluster().name
        raise KafkaformError(f"{name}: {error.message}", hint=error.hint) from error
