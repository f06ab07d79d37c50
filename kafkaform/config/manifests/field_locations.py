"""The places of fields in a manifest, and in the layers under it."""

from __future__ import annotations

from functools import cache, reduce
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from kafkaform.config.manifests.scalars import render_inline
from kafkaform.core.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkaform.config.manifests.yaml12 import Document
    from kafkaform.core.model import Location
    from kafkaform.resources.base import Shorthand

_OPEN = frozenset({"config", "client", "labels", "annotations"})
"""Mappings whose keys may contain dots."""


class FieldSetting(NamedTuple):
    """A setting of a field in one layer.

    Attributes:
        layer: The layer, with the environment or cluster of its overrides: `profile/events, in prod`.
        value: The value as it is written.
    """

    layer: str
    value: object
    location: Location

    @property
    def text(self) -> str:
        """The value in one line, as YAML writes it."""
        return render_inline(self.value)


class FieldLocations(Value):
    """The places of fields in a manifest: an implementation of `Locations`.

    Attributes:
        shorthands: The alternative places of its configs.
        scopes: The names whose overrides take precedence: an environment, then a cluster of it.
        base: The keys of the mapping that contains the fields.
        under: The places of the layer under it in kafkaform.yaml, for fields that the manifest does not set.
        layer: The layer that this is, such as `profile/events`; empty for a manifest.
    """

    document: Document
    shorthands: Mapping[str, Shorthand]
    scopes: tuple[str, ...] = ()
    base: tuple[str, ...] = ("spec",)
    under: FieldLocations | None = None
    layer: str = ""

    def __call__(self, path: str) -> Location:
        """Return the place of a field, or of the name of the resource if it is not set."""
        locations = (layer.find(path) for layer in self.layers)
        nearest = next((location for location in locations if location is not None), None)
        return nearest or self.document.locate(("metadata", "name"))

    @property
    def layers(self) -> Iterator[FieldLocations]:
        """The manifest and the layers under it, from the one that takes precedence."""
        layer: FieldLocations | None = self
        while layer is not None:
            yield layer
            layer = layer.under

    def find_layer(self, path: str) -> str | None:
        """Return the layer that sets a field; empty for the manifest, None if nothing sets it."""
        return next((layer.layer for layer in self.layers if layer.keys(path) is not None), None)

    def list_settings(self, path: str) -> tuple[FieldSetting, ...]:
        """List the settings of a field, in the order of precedence."""
        return tuple(
            layer._read_setting(steps)  # noqa: SLF001 - of its own class
            for layer in self.layers
            for steps in layer.list_candidates(path)
            if layer.document.has(steps)
        )

    def _read_setting(self, steps: tuple[str, ...]) -> FieldSetting:
        below = steps[len(self.base) :]
        scope = f", in {below[1]}" if below[0] == "overrides" else ""
        value = reduce(lambda data, key: data[key], steps, cast("Any", self.document.data))
        return FieldSetting((self.layer or "manifest") + scope, value, self.document.locate(steps, key=True))

    def find(self, path: str) -> Location | None:
        """Return the place of a field; None if the document does not set it."""
        locations = map(self.document.find, self.list_candidates(path))
        return next((location for location in locations if location is not None), None)

    def keys(self, path: str) -> tuple[str, ...] | None:
        """Return the path of a field in the manifest; None if the manifest does not set it."""
        return next((steps for steps in self.list_candidates(path) if self.document.has(steps)), None)

    def find_file(self, path: str) -> str | None:
        """Return the file that the manifest names as the text of a field; None if it has the text itself."""
        keys = self.keys(path)
        value = reduce(lambda data, key: data[key], keys or (), cast("Any", self.document.data))
        return str(value["file"]) if keys and isinstance(value, dict) and value.keys() == {"file"} else None

    def nearest(self, keys: Sequence[str | int]) -> Location:
        """Return the place of the last of these keys that exists."""
        return self.document.locate(keys, key=True)

    def list_candidates(self, path: str) -> tuple[tuple[str, ...], ...]:
        """List the keys that may set a field, in the order of precedence."""
        return _list_candidates(path, self.shorthands.get(path), self.scopes, self.base)


@cache  # a rule looks up the same few paths in each of thousands of manifests
def _list_candidates(
    path: str, shorthand: Shorthand | None, scopes: tuple[str, ...], spec: tuple[str, ...]
) -> tuple[tuple[str, ...], ...]:
    """List the paths that may set a field, in the order of precedence."""
    if not path:
        return ()
    if path.startswith("metadata."):
        return (("metadata", *_split_path(path.removeprefix("metadata."))),)
    bases = [*((*spec, "overrides", scope) for scope in reversed(scopes)), spec]
    candidates = []
    for base in bases:
        candidates.append((*base, *_split_path(path)))
        if shorthand is not None:
            candidates.append((*base, shorthand.section, shorthand.field))
            if shorthand.is_main:
                candidates.append((*base, shorthand.section))
    return tuple(candidates)


def _split_path(path: str) -> list[str]:
    head, _, tail = path.partition(".")
    if not tail:
        return [head]
    return [head, tail] if head in _OPEN else [head, *tail.split(".")]
