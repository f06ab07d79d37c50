"""`kafkaform get`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from kafkaform.cli import completion
from kafkaform.cli.options import KINDS_BY_NOUN, SectionedCommand, Where, report_option, where_options
from kafkaform.cli.output import put
from kafkaform.cli.session import Session
from kafkaform.cli.status import declared_if_any
from kafkaform.config.manifest_text import live_manifest
from kafkaform.core.errors import KafkaformError, PermissionDenied, UsageError
from kafkaform.core.model import ResourceRef
from kafkaform.core.printable import printable
from kafkaform.core.wording import command, nearest, quoted
from kafkaform.inspect.resource_status import Selection
from kafkaform.plan.planning import check_identity
from kafkaform.resources import KINDS

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from kafkaform.cluster.protocol import ResourceReader

_FORMATS = ("yaml", "json")
_KINDS = {name: kind for noun, kind in KINDS_BY_NOUN.items() for name in (noun, f"{noun}s")}
_USAGE = "|".join([*KINDS_BY_NOUN, *(f"{noun}s" for noun in KINDS_BY_NOUN)])


@click.command(cls=SectionedCommand)
@click.argument("kind", type=click.Choice(list(_KINDS)), metavar=_USAGE)
@click.argument("name", required=False, shell_complete=completion.of_kind)
@where_options
@click.option(
    "--format",
    "output",
    type=click.Choice(_FORMATS),
    help="[default: yaml; plain text for names]",
)
@report_option
@click.option("--all", "everything", is_flag=True, help="Include what `ignore:` in kafkaform.yaml hides.")
def get(
    kind: str, name: str | None, where: Where, output: str | None, out: Path | None, everything: bool
) -> int:
    """Print a live topic or group as a manifest, or list all names.

    The manifest contains only the resource's own values. A plan of this manifest is empty.
    """
    if out is not None and str(out) in _FORMATS:  # as kubectl is told of a format
        raise UsageError(
            f"-o {out} would write a file of that name", hint=f"--format {out} chooses the format"
        )
    if name is None and output == "yaml":
        raise UsageError(
            "a list of names cannot be printed as a manifest",
            hint=f"give a NAME, or --format json: {command('get', kind, options=('--format', 'json'))}",
        )
    session = Session.start(where)
    target = session.require_cluster()
    if output != "json":
        session.tell()
    with session.cluster() as cluster:
        if target.cluster_id is not None:
            check_identity(cluster.facts(), target)
        if name is None:
            hidden = () if everything else session.settings.ignore
            declared = {one.ref for one in declared_if_any(session) or ()} if hidden else ()
            text = _list(cluster, Selection(kinds=(_KINDS[kind],), ignore=hidden), declared, output)
        else:
            text = _show(cluster, ResourceRef(_KINDS[kind], name), output)
    put(text, out)
    return 0


def _list(
    cluster: ResourceReader, selection: Selection, declared: Collection[ResourceRef], output: str | None
) -> str:
    """The names, with a newline behind each, or as a JSON list."""
    inventory = cluster.observe((), kinds=selection.kinds).inventory
    names = [ref.name for ref in sorted(inventory) if selection.takes(ref, declared)]
    if output == "json":
        return json.dumps(names, indent=2) + "\n"
    return "".join(f"{printable(name)}\n" for name in names)


def _show(cluster: ResourceReader, ref: ResourceRef, output: str | None) -> str:
    """The manifest, with a newline at its end; what it leaves out is told on stderr."""
    observation = cluster.observe([ref], kinds=[ref.kind])
    noun = KINDS[ref.kind].noun
    if ref in observation.resources:
        manifest = live_manifest(observation.resources[ref])
        for line in manifest.left_out:
            click.echo(printable(f"left out: {line}"), err=True)
        return manifest.to_json() + "\n" if output == "json" else manifest.to_yaml()
    if ref in observation.invisible:
        raise PermissionDenied(
            f"{noun} {quoted(ref.name)} may or may not exist: {observation.invisible[ref]}",
            hint=f"the account needs Describe and DescribeConfigs on the {noun}",
        )
    near = nearest(ref.name, [one.name for one in observation.inventory if one.kind == ref.kind])
    hint = f"did you mean {near}?" if near else f"{command('get', f'{noun}s')} lists the existing ones"
    raise KafkaformError(f"{noun} {quoted(ref.name)} does not exist", hint=hint)
