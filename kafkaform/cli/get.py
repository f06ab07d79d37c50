"""`kafkaform get`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from kafkaform.cli import completion
from kafkaform.cli.options import (
    KINDS_BY_NOUN,
    ClusterSelector,
    SectionedCommand,
    parse_kind,
    report_option,
    where_options,
)
from kafkaform.cli.output import put
from kafkaform.cli.session import Session
from kafkaform.cli.status import declared_if_any
from kafkaform.config.manifest_text import build_live_manifest
from kafkaform.core.errors import KafkaformError, PermissionDenied, UsageError
from kafkaform.core.model import ResourceRef
from kafkaform.core.printable import escape_text, printable
from kafkaform.core.rights import grant
from kafkaform.core.wording import code, command, pluralize, quoted
from kafkaform.inspect.resource_status import Selection
from kafkaform.plan.planning import check_identity
from kafkaform.resources import KINDS, nearest_name
from kafkaform.resources.base import list_reading_rights
from kafkaform.resources.name_globs import NO_GLOBS

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from kafkaform.cluster.protocol import ResourceReader

_FORMATS = ("yaml", "json")


def _parse(_context: click.Context, _argument: click.Parameter, given: str) -> tuple[str, str | None]:
    """Parse a kind, or a resource as plans show it, such as `Topic/orders.v1`; returns kind and name."""
    kind, slash, name = given.partition("/")
    return parse_kind(kind), name if slash else None


@click.command(cls=SectionedCommand)
@click.argument(
    "kind_or_resource",
    callback=_parse,
    metavar="|".join(KINDS_BY_NOUN),
    shell_complete=completion.kinds_and_resources,
)
@click.argument("name", required=False, shell_complete=completion.resources_of_kind)
@where_options
@click.option("--format", "output", type=click.Choice(_FORMATS), help="[default: yaml; plain text for names]")
@report_option
@click.option("--all", "everything", is_flag=True, help="Include what `ignore:` in kafkaform.yaml hides.")
def get(
    kind_or_resource: tuple[str, str | None],
    name: str | None,
    where: ClusterSelector,
    output: str | None,
    out: Path | None,
    everything: bool,
) -> int:
    """Print a live resource as a manifest, or list all names.

    The manifest contains only the resource's own values, and its plan is empty. Plurals and Topic/orders.v1
    are accepted too.
    """
    kind, name_of_resource = kind_or_resource
    if name_of_resource and name is not None:
        raise UsageError(
            f"two names are given: {quoted(name_of_resource)} and {quoted(name)}", hint="give one of them"
        )
    name = name_of_resource or name
    if out is not None and str(out) in _FORMATS:  # kubectl takes a format here
        raise UsageError(
            f"-o {out} would write a file of that name", hint=f"--format {out} chooses the format"
        )
    noun = pluralize(KINDS[kind].words.noun)
    if name is None and output == "yaml":
        raise UsageError(
            "a list of names cannot be printed as a manifest",
            hint=f"give a NAME, or --format json: {command('get', noun, options=('--format', 'json'))}",
        )
    session = Session.start(where)
    target = session.require_cluster()
    if output != "json":
        session.tell()
    with session.cluster() as cluster:
        if target.cluster_id is not None:
            check_identity(cluster.facts(), target)
        if name is None:
            hidden = NO_GLOBS if everything else session.settings.ignore
            # A declared resource is listed although `ignore` matches it. Without `ignore`, no manifest need
            # be read.
            declared = {resource.ref for resource in declared_if_any(session) or ()} if not everything else ()
            text = _list(cluster, Selection(kinds=(kind,), ignore=hidden), declared, output)
        else:
            text = _show(cluster, ResourceRef(kind, name), output)
    put(text, out)
    return 0


def _list(
    cluster: ResourceReader, selection: Selection, declared: Collection[ResourceRef], output: str | None
) -> str:
    """Render the names, one per line or as a JSON list."""
    observation = cluster.observe((), kinds=selection.kinds)
    for note in observation.diagnostics:
        click.echo(printable(f"note: {note.message}"), err=True)
    names = [ref.name for ref in sorted(observation.inventory) if selection.takes(ref, declared)]
    if output == "json":
        return json.dumps(names, indent=2) + "\n"
    return "".join(f"{escape_text(name)}\n" for name in names)


def _show(cluster: ResourceReader, ref: ResourceRef, output: str | None) -> str:
    """Render the manifest; parts that it leaves out are listed on stderr."""
    # With the list of the kind, so that a name that does not exist gets a suggestion.
    observation = cluster.observe([ref], kinds=[ref.kind])
    noun = KINDS[ref.kind].words.noun
    if ref in observation.resources:
        manifest = build_live_manifest(observation.resources[ref])
        for line in manifest.left_out:
            click.echo(printable(f"left out: {line}"), err=True)
        return manifest.to_json() + "\n" if output == "json" else manifest.to_yaml()
    if ref in observation.invisible:
        rights = list_reading_rights(KINDS[ref.kind], ref.name)
        raise PermissionDenied(
            f"{noun} {quoted(ref.name)} may or may not exist: {observation.invisible[ref]}",
            hint=f"grant it: {code(grant(*rights))}" if rights else None,
        )
    near = nearest_name(
        ref.name, [existing.name for existing in observation.inventory if existing.kind == ref.kind]
    )
    hint = f"did you mean {near}?" if near else f"{command('get', f'{noun}s')} lists the existing ones"
    raise KafkaformError(f"{noun} {quoted(ref.name)} does not exist", hint=hint)
