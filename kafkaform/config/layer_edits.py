"""Edits of defaults and profiles: one new value for all resources that inherit the old one.

A layer is edited only if all resources that take a field from it are to get the same value. The edit is
verified on the layers that result: nothing else may change, and nothing in another environment or cluster.
What fits no layer is left for manifests.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

from kafkaform.config.manifests.edit_files import EditedFile
from kafkaform.config.manifests.edit_targets import Manifest
from kafkaform.config.manifests.edit_text import Uneditable, parse_layout
from kafkaform.config.manifests.editing import Edit, EditResult, edit_manifests
from kafkaform.config.manifests.field_locations import FieldLocations
from kafkaform.config.settings import Settings, parse_edited
from kafkaform.core.errors import InvalidInput
from kafkaform.core.files import read_file
from kafkaform.core.model import CONFIG_PREFIX, Desired, FieldValue, Location, ResourceRef
from kafkaform.core.values import replace
from kafkaform.resources import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkaform.config.manifests.loader import Context
    from kafkaform.resources.base import Layer


class _Source(NamedTuple):
    """The place in a layer from which resources take a field."""

    kind: str
    path: str
    location: Location


def edit_declarations(
    edits: Sequence[Edit], desired: Sequence[Desired], settings: Settings, context: Context, *, complete: bool
) -> EditResult:
    """Edit the texts of kafkaform.yaml and its file of profiles, and of manifests; nothing is written.

    Args:
        edits: The new values of resources.
        desired: The declared resources, as loaded in the context.
        context: The context with the environment to edit.
        complete: Whether these are all declared resources; if not, others may inherit what a layer has.
    """
    files, remaining = edit_layers(edits, desired, settings, context) if complete else ([], edits)
    result = edit_manifests(remaining, desired, context)
    return replace(result, files=(*files, *result.files))


def edit_layers(
    edits: Sequence[Edit], desired: Sequence[Desired], settings: Settings, context: Context
) -> tuple[list[EditedFile], Sequence[Edit]]:
    """Edit the layers; return the edited files, and the edits that are left for manifests."""
    values = {(edit.ref, edit.path): edit for edit in edits}
    layers: dict[_Source, FieldLocations] = {}
    members: dict[_Source, list[ResourceRef]] = {}
    for path in {edit.path: None for edit in edits}:
        for declared in desired:
            for layer, source in _find_source(declared, path):
                layers[source] = layer
                members.setdefault(source, []).append(declared.ref)
    texts: dict[str, str] = {}
    originals: dict[str, str] = {}
    done: set[Edit] = set()
    for source, refs in members.items():
        own = [values.get((ref, source.path)) for ref in refs]
        first = own[0]
        if first is None or not all(edit is not None and edit.value == first.value for edit in own):
            continue
        file = layers[source].document.file
        if file == str(settings.profile_file) and not isinstance(settings.profile_file, Path):
            continue  # it is in another repository
        if file not in texts:
            originals[file] = texts[file] = read_file(Path(file)).decode()
        edited = _edit(layers[source], source, first.value, texts, settings, context)
        if edited is not None:
            texts = edited
            done.update(edit for edit in own if edit is not None)
    files = [
        EditedFile(Path(file), originals[file], text)
        for file, text in texts.items()
        if text != originals[file]
    ]
    return files, [edit for edit in edits if edit not in done]


def _find_source(declared: Desired, path: str) -> Iterator[tuple[FieldLocations, _Source]]:
    """Yield the layer that a resource takes a field from, if it is not its manifest."""
    if not isinstance(declared.locations, FieldLocations):
        return
    for layer in declared.locations.layers:
        if (location := layer.find(path)) is not None:
            if layer.layer:
                yield layer, _Source(declared.ref.kind, path, location)
            return


def _edit(
    layer: FieldLocations,
    source: _Source,
    value: FieldValue,
    texts: Mapping[str, str],
    settings: Settings,
    context: Context,
) -> dict[str, str] | None:
    """Return the texts with a new value in a layer; None if no edit gives exactly that."""
    file = layer.document.file
    other_scopes = frozenset({*(settings.environments or ()), *settings.clusters}.difference(context.scopes))
    target = Manifest(parse_layout(texts[file]), source.kind, context.scopes, other_scopes, layer.base)
    for proposal in target.propose_edits(source.path, value):
        try:
            edited = {**texts, file: proposal.apply(texts[file])}
            before, after = parse_edited(settings, texts), parse_edited(settings, edited)
        # The next proposal may be possible; without one, the manifests are edited.
        except (Uneditable, InvalidInput):
            continue
        if _changes_only(before, after, source, value, context):
            return edited
    return None


def _changes_only(
    before: Settings, after: Settings, source: _Source, value: FieldValue, context: Context
) -> bool:
    """Return whether a field gets a value in one context, and nothing else changes."""
    scopes = {*context.scopes, *(scope for overrides in _list_overrides(before) for scope in overrides)}
    if (sibling := context.find_sibling(scopes)) is not None:
        scopes.add(sibling)
    equal = KINDS[source.kind].field(source.path).equal
    changed = False
    for old in before.build_contexts(None, scopes):
        new = after.build_context(old.environment, old.cluster)
        is_chosen = old.environment == context.environment and old.cluster in {None, context.cluster}
        for kind, profile in product(KINDS, (None, *before.profiles)):
            was, now = old.merge_underlay(kind, profile), new.merge_underlay(kind, profile)
            if was == now:
                continue
            own, unchanged = _split(now, source.path)
            if not is_chosen or kind != source.kind or unchanged != _split(was, source.path)[1]:
                return False
            if not equal(own, value):
                return False
            changed = True
    return changed


def _list_overrides(settings: Settings) -> Iterator[Mapping[str, Layer]]:
    yield from (layer.overrides for layer in settings.defaults.values())
    yield from (
        layer.overrides for profile in settings.profiles.values() for layer in profile.layers.values()
    )


def _split(layer: Layer, path: str) -> tuple[FieldValue, Layer]:
    """Return the value of a field in a merged layer, and the other values."""
    name = path.removeprefix(CONFIG_PREFIX)
    if name == path:
        return cast("FieldValue", layer.get(name)), {key: layer[key] for key in layer if key != name}
    config = cast("dict[str, FieldValue]", layer.get("config", {}))
    configs = {key: text for key, text in config.items() if key != name and text is not None}
    return config.get(name), {**layer, "config": configs}
