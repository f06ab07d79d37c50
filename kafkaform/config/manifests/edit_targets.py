"""The target in a manifest of a new value of a field, for one environment or cluster only."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import yaml

from kafkaform.config.manifests.edit_text import (
    Steps,
    drop_item,
    drop_value,
    find_node,
    list_entries,
    put_item,
    put_value,
)
from kafkaform.config.manifests.scalars import Plain, format_like, render_inline
from kafkaform.core.model import CONFIG_PREFIX, FieldValue
from kafkaform.core.values import Value
from kafkaform.resources import KINDS
from kafkaform.resources.base import Shorthand, config_keys, list_shorthands

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kafkaform.config.manifests.edit_text import Formatter


class TextEdit(NamedTuple):
    """An edit of the text of a document.

    Attributes:
        steps: The path of keys to the value or the list.
        apply: Returns the new text; raises Uneditable if the text has another form.
        by_hand: What a person would do instead.
    """

    steps: Steps
    apply: Callable[[str], str]
    by_hand: str


class Manifest(Value):
    """A manifest to edit.

    Attributes:
        root: The nodes of the manifest.
        kind: The kind of the resource.
        scopes: The environment and the cluster to edit, whose overrides apply; empty if there are none.
        other_scopes: The other environments and clusters.
        base: The keys of the mapping that contains the fields.
    """

    root: yaml.Node | None
    kind: str
    scopes: tuple[str, ...]
    other_scopes: frozenset[str]
    base: Steps = ("spec",)

    def propose_edits(self, path: str, value: FieldValue) -> Iterator[TextEdit]:
        """Propose edits that may set a value, the best one first; the caller verifies each.

        Args:
            path: The field, as in `model.State`, or `state`.
            value: The value; None to remove it.
        """
        overrides = [(*self.base, "overrides", scope) for scope in self.scopes]
        in_force = [steps for steps in overrides if self._find_steps(steps, path) is not None]
        # An override is in force: a new value under it would have no effect.
        layers: list[Steps] = overrides[overrides.index(in_force[-1]) :] if in_force else overrides
        # First in the spec, where readers look; an override is the way out if other environments would
        # change.
        if not in_force and (not overrides or self._is_unshared(path)):
            layers = [self.base, *layers]
        for layer in layers:
            yield from self._propose_layer_edits(layer, path, value)

    def propose_item_edits(
        self, name: str, removed: int | None, items: Sequence[Mapping[str, object]]
    ) -> Iterator[TextEdit]:
        """Propose edits that add the last item of a list of the spec, or remove one.

        Args:
            removed: The index of the item that is removed; None if one is added.
        """
        overrides = [(*self.base, "overrides", scope) for scope in self.scopes]
        in_force = [steps for steps in overrides if self._find_steps(steps, name) is not None]
        steps = (*(in_force[-1] if in_force else self.base), name)
        if removed is None:
            item = render_inline(items[-1])
            by_hand = f"add {item} to {'.'.join(steps)}"
            yield TextEdit(steps, lambda text: put_item(text, steps, items[-1]), by_hand)
        else:
            by_hand = f"remove item {removed + 1} of {'.'.join(steps)}"
            yield TextEdit(steps, lambda text: drop_item(text, steps, removed), by_hand)
        # A list in an override replaces that of the spec, so that other environments stay as they are.
        for override in () if in_force else overrides:
            yield _put((*override, name), lambda _: items)

    def _is_unshared(self, path: str) -> bool:
        """Return whether the value of a field in the spec affects no other environment."""
        overridden = all(
            self._find_steps((*self.base, "overrides", name), path) is not None for name in self.other_scopes
        )
        return overridden and (self._find_steps(self.base, path) is not None or not self.other_scopes)

    def _propose_layer_edits(self, layer: Steps, path: str, value: FieldValue) -> Iterator[TextEdit]:
        steps = self._find_steps(layer, path)
        # Removing the line is tried first. It fails where a default lies under it; then null is written.
        if value is None and steps is not None:
            by_hand = f"remove {steps[-1]} from {'.'.join(steps[:-1])}"
            yield TextEdit(steps, lambda text: drop_value(text, steps), by_hand)
        yield _put(*self._choose_entry(layer, path, value))

    def describe_entry(self, layer: Steps, path: str, value: FieldValue) -> tuple[Steps, object]:
        """Return the path and the value of the entry of a layer that gives a field a value."""
        steps, format_value = self._choose_entry(layer, path, value)
        old = find_node(self.root, steps)
        return steps, format_value(old.value if isinstance(old, yaml.ScalarNode) else None)

    def _choose_entry(self, layer: Steps, path: str, value: FieldValue) -> tuple[Steps, Formatter]:
        """Choose the entry of a layer that gives a field a value: its path, and the format of its value."""
        format_value = self._build_formatter(path, value)
        steps = self._find_steps(layer, path)
        shorthand = self._find_shorthand(path)
        if shorthand is None:
            return steps or (*layer, *_split_path(path)), format_value
        section, field = (*layer, shorthand.section), shorthand.field
        if steps == section and value is None:
            return section, lambda _: {field: None}
        main = find_node(self.root, section)
        if steps is None and isinstance(main, yaml.ScalarNode):
            values = {self._find_main_field(shorthand.section): main.value, field: format_value(None)}
            return section, lambda _: values
        return steps or self._choose_steps(layer, path, shorthand, value), format_value

    def _choose_steps(self, layer: Steps, path: str, shorthand: Shorthand, value: FieldValue) -> Steps:
        """Choose the path of a new config in a layer: its shorthand, if the manifest uses it."""
        section = (*layer, shorthand.section)
        short, below = find_node(self.root, section), find_node(self.root, (*self.base, shorthand.section))
        if short is None and below is None:
            return (*layer, *_split_path(path))
        if short is None and isinstance(below, yaml.ScalarNode) and shorthand.is_main and value is not None:
            return section
        return (*section, shorthand.field)

    def _find_steps(self, layer: Steps, path: str) -> Steps | None:
        """Return the path at which a layer sets a field; None if it does not."""
        shorthand = self._find_shorthand(path)
        candidates = [(*layer, *_split_path(path))]
        if shorthand is not None:
            section = (*layer, shorthand.section)
            candidates.append((*section, shorthand.field))
            if shorthand.is_main and not isinstance(find_node(self.root, section), yaml.CollectionNode):
                candidates.append(section)
        return next((steps for steps in candidates if find_node(self.root, steps) is not None), None)

    def _find_shorthand(self, path: str) -> Shorthand | None:
        return list_shorthands(KINDS[self.kind]).get(path)

    def _find_main_field(self, section: str) -> str:
        """Return the field that a scalar in the section of a shorthand sets."""
        shorthands = list_shorthands(KINDS[self.kind]).values()
        return next(short.field for short in shorthands if short.section == section and short.is_main)

    def _build_formatter(self, path: str, value: FieldValue) -> Callable[[str | None], Plain]:
        """Return a function that formats a value in the unit of the old one, or of the one in the spec."""
        if path == "state":
            return lambda _: "present" if value is None else str(value)
        if value is None or isinstance(value, int) or not path.startswith(CONFIG_PREFIX):
            return lambda _: value
        key = config_keys(KINDS[self.kind]).get(path.removeprefix(CONFIG_PREFIX))
        below = find_node(self.root, self._find_steps(self.base, path) or ("",))
        inherited = below.value if isinstance(below, yaml.ScalarNode) else None
        return lambda old: format_like(key, value, inherited if old is None else old)


def list_overrides(root: yaml.Node | None) -> Iterable[str]:
    """List the environments and clusters for which a manifest has overrides."""
    overrides = list_entries(find_node(root, ("spec", "overrides")))
    return [entry.name for entry in overrides if entry.name is not None]


def _put(steps: Steps, format_value: Formatter) -> TextEdit:
    by_hand = f"write {steps[-1]}: {render_inline(format_value(None))} in {'.'.join(steps[:-1])}"
    return TextEdit(steps, lambda text: put_value(text, steps, format_value), by_hand)


def _split_path(path: str) -> Steps:
    config = path.removeprefix(CONFIG_PREFIX)
    return (path,) if config == path else ("config", config)
