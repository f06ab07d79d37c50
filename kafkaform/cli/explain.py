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
    parse_kind,
    paths_argument,
)
from kafkaform.cli.output import format_option, show
from kafkaform.cli.session import Session
from kafkaform.config.manifests.loader import load_all
from kafkaform.core.errors import UsageError
from kafkaform.core.kafka_configs import ConfigKey, consumer_configs, group_configs, topic_configs
from kafkaform.core.schema_files import UnknownFieldError, find_field, list_fields
from kafkaform.core.wording import command, nearest, quoted
from kafkaform.report.explanation import Explanation, list_paths
from kafkaform.report.field_help import FieldHelp
from kafkaform.resources import KINDS, suggest_reference

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from kafkaform.config.manifests.field_locations import FieldLocations

CONFIG = "Config"
"""The kind of kafkaform.yaml."""
_CATALOGUES: Mapping[tuple[str, str], Callable[[], Mapping[str, ConfigKey]]] = {
    ("Topic", "config"): topic_configs,
    ("ConsumerGroup", "config"): group_configs,
    ("ConsumerGroup", "client"): consumer_configs,
}


@click.command(cls=SectionedCommand)
@click.argument("subject", metavar="KIND[.FIELD]|KIND/NAME", shell_complete=completion.kinds_and_resources)
@paths_argument
@format_option("explanation", "text for people, json for programs.")
@config_option
@cluster_option
@environment_option
def explain(
    subject: str,
    paths: tuple[Path, ...],
    output_format: str,
    config_file: Path | None,
    cluster_name: str | None,
    environment: str | None,
) -> int:
    """Explain the fields of a kind, or the values of a resource.

    Of a KIND or a field, such as Topic.spec.retention: type, units, default and allowed values, and the
    fields below it. The kind of kafkaform.yaml is Config.

    Of a KIND/NAME, such as Topic/orders.v1: each field with its value, the layer that sets it, and the values
    that it replaces. Connects to no cluster.
    """
    if "/" not in subject:
        show("field", output_format, _explain_field(subject))
        return 0
    session = Session.start_offline(ClusterSelector(config_file, environment, cluster_name))
    explanation = _explain_resource(subject, session, paths)
    show("explanation", output_format, explanation)
    return 0


def _explain_resource(resource: str, session: Session, paths: tuple[Path, ...]) -> Explanation:
    # Not combined: each manifest of rights is explained by itself.
    files, contexts = session.paths(paths), [session.build_context()]
    (desired,) = load_all(files, contexts, combined=False)
    declared = next((each for each in desired if str(each.ref) == resource), None)
    if declared is None:
        (combined,) = load_all(files, contexts)
        if place := next((each.location for each in combined if str(each.ref) == resource), None):
            parts = [each for each in desired if each.location and each.location.file == place.file]
            part = [each for each in parts if each.location and each.location.line <= place.line][-1]
            hint = f"explain the first manifest that declares it: {command('explain', str(part.ref))}"
            raise UsageError(f"no manifest has the name {resource!r}", hint=hint)
        hint = suggest_reference(resource, [each.ref for each in desired])
        raise UsageError(f"no manifest declares {resource!r}", hint=hint)
    locations = cast("FieldLocations", declared.locations)
    fields = {path: locations.list_settings(path) for path in list_paths(declared.intent.spec)}
    names = (("environment", session.environment), ("cluster", session.cluster_name))
    return Explanation(
        declared,
        tuple(f"{label} {name}" for label, name in names if name is not None),
        {path: settings for path, settings in fields.items() if settings},
    )


def _explain_field(subject: str) -> FieldHelp:
    """Find a field such as `Topic.spec.retention` in the schema of its kind."""
    noun, _, path = subject.partition(".")
    if noun.casefold() == CONFIG.casefold():
        kind, schema = CONFIG, CONFIG.lower()
    else:
        try:
            kind = parse_kind(noun)
        except UsageError as error:
            hint = f"{error.hint}, {CONFIG}; a resource is written KIND/NAME"
            raise UsageError(error.message, hint=hint) from None
        schema = KINDS[kind].schema
    try:
        field = find_field(schema, path)
    except UnknownFieldError as error:
        raise _describe_unknown(kind, schema, error) from error
    fields = list_fields(schema, field)
    if not path and kind != CONFIG:
        # All of a manifest at once: its top level is the same for each kind.
        fields = {
            below.path: below
            for name in ("metadata", "spec")
            for below in list_fields(schema, fields[name]).values()
        }
    every = [field, *fields.values()]
    keys = {each.path: key for each in every if (key := _find_config(kind, each.path)) is not None}
    return FieldHelp(f"{kind}.{field.path}".removesuffix("."), field, tuple(fields.values()), keys)


def _describe_unknown(kind: str, schema: str, error: UnknownFieldError) -> UsageError:
    parent = f"{kind}.{error.parent}".removesuffix(".")
    below = list_fields(schema, find_field(schema, "spec")) if not error.parent and kind != CONFIG else {}
    known = {**{f"spec.{name}": name for name in below}, **{name: name for name in error.known}}
    near = nearest(error.name, known.values()) or nearest(error.name.partition(".")[0], known.values())
    path = next((path for path, name in known.items() if name == near), None)
    hint = (
        f"did you mean {command('explain', f'{parent}.{path}')}?"
        if path
        else f"{command('explain', parent)} lists its fields"
    )
    return UsageError(f"{parent} has no field {quoted(error.name)}", hint=hint)


def _find_config(kind: str, path: str) -> ConfigKey | None:
    """Find a config of Kafka in its catalogue, by the path of its field."""
    section, _, name = path.partition(".")[2].partition(".")
    catalogue = _CATALOGUES.get((kind, section))
    return catalogue().get(name) if catalogue is not None else None
