"""The places of fields in a manifest."""

from __future__ import annotations

from functools import cache, reduce
from typing import TYPE_CHECKING, Any, cast

from kafkaform.core.values import Value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkaform.config.manifests.yaml12 import Document
    from kafkaform.core.model import Location
    from kafkaform.resources.base import Shorthand

_OPEN = frozenset({"config", "client", "labels", "annotations"})
"""Mappings whose keys may contain dots."""


class FieldLocations(Value):
    """The places of fields in a manifest: an implementation of `Locations`.

    Attributes:
        document: The manifest.
        shorthands: The alternative places of its configs.
        environment: The environment whose overrides take precedence.
        base: The keys of the mapping that contains the fields.
        defaults: The places of the defaults in kafkaform.yaml, for fields that the manifest does not set.
    """

    document: Document
    shorthands: Mapping[str, Shorthand]
    environment: str | None
    base: tuple[str, ...] = ("spec",)
    defaults: FieldLocations | None = None

    def __call__(self, path: str) -> Location:
        """Return the place of a field, or of the name of the resource if it is not set."""
        location = self.find(path)
        if location is None and self.defaults is not None:
            location = self.defaults.find(path)
        return location or self.document.locate(("metadata", "name"))

    def find(self, path: str) -> Location | None:
        """Return the place of a field; None if the document does not set it."""
        locations = map(self.document.find, self._candidates(path))
        return next((location for location in locations if location is not None), None)

    def keys(self, path: str) -> tuple[str, ...] | None:
        """Return the path of a field in the manifest; None if the manifest does not set it."""
        return next((steps for steps in self._candidates(path) if self.document.has(steps)), None)

    def find_file(self, path: str) -> str | None:
        """Return the file that the manifest names as the text of a field; None if it has the text itself."""
        keys = self.keys(path)
        value = reduce(lambda data, key: data[key], keys or (), cast("Any", self.document.data))
        return str(value["file"]) if keys and isinstance(value, dict) and value.keys() == {"file"} else None

    def nearest(self, keys: Sequence[str | int]) -> Location:
        """Return the place of the last of these keys that exists."""
        return self.document.locate(keys, key=True)

    def _candidates(self, path: str) -> tuple[tuple[str, ...], ...]:
        return _list_candidates(path, self.shorthands.get(path), self.environment, self.base)


@cache  # a rule looks up the same few paths in each of thousands of manifests
def _list_candidates(
    path: str, shorthand: Shorthand | None, environment: str | None, spec: tuple[str, ...]
) -> tuple[tuple[str, ...], ...]:
    """List the paths that may set a field, in the order of precedence."""
    if not path:
        return ()
    if path.startswith("metadata."):
        return (("metadata", *_split_path(path.removeprefix("metadata."))),)
    bases = [spec] if environment is None else [(*spec, "overrides", environment), spec]
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
