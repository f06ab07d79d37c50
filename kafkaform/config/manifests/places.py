"""Where a manifest sets a field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

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
    """

    document: Document
    shorthands: Mapping[str, Shorthand]
    environment: str | None

    def __call__(self, path: str) -> Location:
        """The place of a field, or of the nearest thing around it."""
        steps = self.keys(path)
        return self.document.locate(steps or ["metadata", "name"], key=steps is not None)

    def keys(self, path: str) -> tuple[str, ...] | None:
        """The keys that lead to a field in the manifest; None where the manifest does not set it."""
        return next((steps for steps in self._candidates(path) if self.document.has(steps)), None)

    def nearest(self, keys: Sequence[str]) -> Location:
        """Where these keys lead to, or where the nearest that is there does."""
        return self.document.locate(keys, key=True)

    def _candidates(self, path: str) -> Iterator[tuple[str, ...]]:
        if not path:
            return
        if path.startswith("metadata."):
            yield ("metadata", *_steps(path.removeprefix("metadata.")))
            return
        bases: list[tuple[str, ...]] = [("spec",)]
        if self.environment is not None:
            bases.insert(0, ("spec", "overrides", self.environment))
        for base in bases:
            yield (*base, *_steps(path))
            if (shorthand := self.shorthands.get(path)) is not None:
                yield (*base, shorthand.section, shorthand.field)
                if shorthand.is_main:
                    yield (*base, shorthand.section)


def _steps(path: str) -> list[str]:
    head, _, rest = path.partition(".")
    if not rest:
        return [head]
    return [head, rest] if head in _OPEN else [head, *rest.split(".")]
