"""Where a manifest sets a field."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkaform.config.manifests.yaml12 import Document
    from kafkaform.core.model import Location
    from kafkaform.resources.base import Shorthand

_OPEN = frozenset({"config", "client", "labels", "annotations"})
"""Mappings whose keys may have dots of their own."""


@dataclass(frozen=True, slots=True)
class FieldPlaces:
    """Finds fields in a manifest; see `Places`.

    Attributes:
        document: The manifest.
        shorthands: The second places of its configs.
        environment: Whose overrides are looked at first.
        base: The keys that lead to the fields.
        defaults: Finds what the manifest leaves to the defaults of kafkaform.yaml.
    """

    document: Document
    shorthands: Mapping[str, Shorthand]
    environment: str | None
    base: tuple[str, ...] = ("spec",)
    defaults: FieldPlaces | None = None

    def __call__(self, path: str) -> Location:
        """The place of a field, or of the nearest thing around it."""
        place = self.find(path)
        if place is None and self.defaults is not None:
            place = self.defaults.find(path)
        return place or self.document.locate(("metadata", "name"))

    def find(self, path: str) -> Location | None:
        """The place of a field; None where the document does not set it."""
        places = map(self.document.find, self._candidates(path))
        return next((place for place in places if place is not None), None)

    def keys(self, path: str) -> tuple[str, ...] | None:
        """The keys that lead to a field in the manifest; None where the manifest does not set it."""
        return next((steps for steps in self._candidates(path) if self.document.has(steps)), None)

    def nearest(self, keys: Sequence[str]) -> Location:
        """Where these keys lead to, or where the nearest that is there does."""
        return self.document.locate(keys, key=True)

    def _candidates(self, path: str) -> tuple[tuple[str, ...], ...]:
        return _candidates(path, self.shorthands.get(path), self.environment, self.base)


@cache  # a rule asks for the same few paths in each of thousands of manifests
def _candidates(
    path: str, shorthand: Shorthand | None, environment: str | None, spec: tuple[str, ...]
) -> tuple[tuple[str, ...], ...]:
    """The keys that may lead to a field, those that count first."""
    if not path:
        return ()
    if path.startswith("metadata."):
        return (("metadata", *_steps(path.removeprefix("metadata."))),)
    bases = [spec] if environment is None else [(*spec, "overrides", environment), spec]
    candidates = []
    for base in bases:
        candidates.append((*base, *_steps(path)))
        if shorthand is not None:
            candidates.append((*base, shorthand.section, shorthand.field))
            if shorthand.is_main:
                candidates.append((*base, shorthand.section))
    return tuple(candidates)


def _steps(path: str) -> list[str]:
    head, _, rest = path.partition(".")
    if not rest:
        return [head]
    return [head, rest] if head in _OPEN else [head, *rest.split(".")]
