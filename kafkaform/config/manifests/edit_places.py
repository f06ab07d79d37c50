"""Where in a manifest a new value of a field belongs, for one environment and no other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from kafkaform.config.manifests.edit_layout import Collection, Scalar, find
from kafkaform.config.manifests.edit_text import drop, nest, put
from kafkaform.config.manifests.scalars import respelled
from kafkaform.core.model import CONFIG_PREFIX
from kafkaform.resources import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kafkaform.config.manifests.edit_layout import Node, Steps
    from kafkaform.config.manifests.scalars import Plain
    from kafkaform.core.model import FieldValue
    from kafkaform.resources.base import Shorthand

Way: TypeAlias = "Callable[[str], str]"
"""One way to write a value into the text of a document; raises Uneditable where it does not fit."""

_BASE: Steps = ("spec",)


@dataclass(frozen=True, slots=True)
class Manifest:
    """A manifest to edit.

    Attributes:
        root: Its layout.
        kind: The name of its kind.
        environment: The environment whose values are to change; None if no manifest has overrides.
        others: The other environments that there are.
    """

    root: Node | None
    kind: str
    environment: str | None
    others: frozenset[str]

    def ways(self, path: str, value: FieldValue) -> Iterator[Way]:
        """The ways to write a value, the best one first: each is to be proven.

        Args:
            path: The field, as in `model.State`, or `state`.
            value: The value; None for no own one.
        """
        own = None if self.environment is None else _override(self.environment)
        if own is not None and self._place(own, path) is not None:
            yield from self._changes(own, path, value)
            return
        if own is None or self._is_unshared(path):
            yield from self._changes(_BASE, path, value)
        if own is not None:
            yield from self._changes(own, path, value)

    def _is_unshared(self, path: str) -> bool:
        """Whether what the spec says of a field reaches no other environment."""
        overridden = all(self._place(_override(name), path) is not None for name in self.others)
        return overridden and (self._place(_BASE, path) is not None or not self.others)

    def _changes(self, layer: Steps, path: str, value: FieldValue) -> Iterator[Way]:
        place = self._place(layer, path)
        if value is None and place is not None:
            yield lambda text: drop(text, place)
        yield self._setting(layer, path, value)

    def _setting(self, layer: Steps, path: str, value: FieldValue) -> Way:
        spell = self._spelling(path, value)
        place = self._place(layer, path)
        shorthand = self._shorthand(path)
        if shorthand is None:
            target = place or (*layer, *_steps(path))
            return lambda text: put(text, target, spell)
        section, field = (*layer, shorthand.section), shorthand.field
        if place == section and value is None:
            return lambda text: nest(text, section, None, field, spell)
        if place is None and isinstance(find(self.root, section), Scalar):
            main = self._main_field(shorthand.section)
            return lambda text: nest(text, section, main, field, spell)
        target = place or self._new_place(layer, path, shorthand, value)
        return lambda text: put(text, target, spell)

    def _new_place(self, layer: Steps, path: str, shorthand: Shorthand, value: FieldValue) -> Steps:
        """Where a config goes that a layer does not have: into its shorthand, if the manifest uses that."""
        section = (*layer, shorthand.section)
        short, below = find(self.root, section), find(self.root, (*_BASE, shorthand.section))
        if short is None and below is None:
            return (*layer, *_steps(path))
        if short is None and isinstance(below, Scalar) and shorthand.is_main and value is not None:
            return section
        return (*section, shorthand.field)

    def _place(self, layer: Steps, path: str) -> Steps | None:
        """Where a layer sets a field; None where it does not."""
        shorthand = self._shorthand(path)
        candidates = [(*layer, *_steps(path))]
        if shorthand is not None:
            section = (*layer, shorthand.section)
            candidates.append((*section, shorthand.field))
            if shorthand.is_main and not isinstance(find(self.root, section), Collection):
                candidates.append(section)
        return next((steps for steps in candidates if find(self.root, steps) is not None), None)

    def _shorthand(self, path: str) -> Shorthand | None:
        return KINDS[self.kind].shorthands.get(path)

    def _main_field(self, section: str) -> str:
        """The field that the section of a shorthand means by itself."""
        shorthands = KINDS[self.kind].shorthands.values()
        return next(one.field for one in shorthands if one.section == section and one.is_main)

    def _spelling(self, path: str, value: FieldValue) -> Callable[[str | None], Plain]:
        """Writes a value in the unit of the one that it replaces, or of that in the spec."""
        if path == "state":
            return lambda _: "present" if value is None else str(value)
        if value is None or isinstance(value, int) or not path.startswith(CONFIG_PREFIX):
            return lambda _: value
        key = KINDS[self.kind].configs().get(path.removeprefix(CONFIG_PREFIX))
        below = find(self.root, self._place(_BASE, path) or ("",))
        inherited = below.value if isinstance(below, Scalar) else None
        return lambda old: respelled(key, value, inherited if old is None else old)


def overridden(root: Node | None) -> Iterable[str]:
    """The environments that a manifest has overrides for."""
    overrides = find(root, ("spec", "overrides"))
    if not isinstance(overrides, Collection):
        return ()
    return [entry.name for entry in overrides.entries if entry.name is not None]


def _override(environment: str) -> Steps:
    return ("spec", "overrides", environment)


def _steps(path: str) -> Steps:
    config = path.removeprefix(CONFIG_PREFIX)
    return (path,) if config == path else ("config", config)
