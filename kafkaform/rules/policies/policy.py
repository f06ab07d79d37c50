"""One policy: which resources it is about, and what it finds wrong with them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from kafkaform.rules import Finding
from kafkaform.rules.policies.fields import LABEL_PREFIX, field_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkaform.core.model import Desired
    from kafkaform.rules import Scene
    from kafkaform.rules.policies.constraint import Constraint

PLACEHOLDER = re.compile(r"\{([A-Za-z][^{}]*)\}")
"""What stands for a label in a pattern; the braces of a repetition hold digits."""


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy of kafkaform.yaml.

    Attributes:
        kind: The kind that it is about.
        message: What the reader is told first.
        names: A glob of the names that it is about.
        labels: Labels of the resources that it is about.
        environments: Where it holds; empty: everywhere.
        pattern: What the name must be like.
        required: Labels that must be there.
        constraints: What fields must be.
    """

    kind: str
    message: str
    names: str = "*"
    labels: Mapping[str, str] | None = None
    environments: tuple[str, ...] = ()
    pattern: str | None = None
    required: tuple[str, ...] = ()
    constraints: tuple[Constraint, ...] = ()

    def check(self, scene: Scene) -> Iterator[Finding]:
        """What is wrong with the resources that it is about."""
        if self.environments and scene.environment not in self.environments:
            return
        for desired in scene.of_kind(self.kind):
            if desired.state is not None and self._is_about(desired):
                yield from self._name(desired)
                yield from self._labels(desired)
                for constraint in self.constraints:
                    yield from self._field(constraint, desired, scene)

    @property
    def explanation(self) -> str:
        """What it says, about what, and what it asks for."""
        about = f"every {self.kind}" if self.names == "*" else f"every {self.kind} named {self.names}"
        if self.labels:
            about += f" with {', '.join(f'{name}: {value}' for name, value in self.labels.items())}"
        where = f" in {', '.join(self.environments)}" if self.environments else ""
        demands = [f"the name matches {self.pattern}"] if self.pattern is not None else []
        demands += [f"there is a label {name}" for name in self.required]
        demands += [
            f"{constraint.label} is {' and '.join(constraint.demands())}" for constraint in self.constraints
        ]
        lines = "".join(f"\n- {demand}" for demand in demands)
        return f"{self.message}\n\nA policy of kafkaform.yaml. Of {about}{where} it asks that\n{lines}"

    def _is_about(self, desired: Desired) -> bool:
        has = desired.intent.labels
        return fnmatchcase(desired.ref.name, self.names) and all(
            has.get(name) == value for name, value in (self.labels or {}).items()
        )

    def _name(self, desired: Desired) -> Iterator[Finding]:
        if self.pattern is None:
            return
        missing = [
            label for label in placeholders(self.pattern) if not desired.intent.labels.get(label, "").strip()
        ]
        if missing:
            text = f"the name must match {self.pattern}, but the label {missing[0]} is missing"
            yield self._finding(desired, text, "metadata.labels")
            return
        wanted = PLACEHOLDER.sub(
            lambda found: re.escape(desired.intent.labels[found[1].removeprefix(LABEL_PREFIX)]), self.pattern
        )
        if not re.search(wanted, desired.ref.name):
            yield self._finding(
                desired, f"the name is {desired.ref.name}; it must match {wanted}", "metadata.name"
            )

    def _labels(self, desired: Desired) -> Iterator[Finding]:
        missing = [name for name in self.required if not desired.intent.labels.get(name, "").strip()]
        if missing:
            many = "the labels" if len(missing) > 1 else "the label"
            are = "are" if len(missing) > 1 else "is"
            text = f"{many} {' and '.join(missing)} of {desired.ref.name} {are} missing"
            yield self._finding(desired, text, "metadata.labels")

    def _field(self, constraint: Constraint, desired: Desired, scene: Scene) -> Iterator[Finding]:
        value, owner = field_value(desired, constraint.path, scene)
        path = f"metadata.{constraint.path}" if constraint.path.startswith(LABEL_PREFIX) else constraint.path
        if value is None:
            must = " and ".join(constraint.demands())
            yield self._finding(desired, f"{constraint.label} is not set; it must be {must}", path)
            return
        wanted = constraint.broken(value)
        if wanted:
            whose = f" ({owner})" if owner else ""
            must = " and ".join(wanted)
            is_now = f"{constraint.label} is {constraint.shown(value)}{whose}"
            yield self._finding(desired, f"{is_now}; it must be {must}", path)

    def _finding(self, desired: Desired, text: str, path: str) -> Finding:
        return Finding(desired, f"{self.message.rstrip('.:')}: {text}", path=path)


def placeholders(pattern: str) -> list[str]:
    """The labels that a pattern names."""
    return [found.removeprefix(LABEL_PREFIX) for found in PLACEHOLDER.findall(pattern)]
