"""The proof of an edited manifest: the loader reads in it what was meant, and nothing else has changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from kafkaform.config.manifests.loader import Context, load_all
from kafkaform.core.errors import InvalidInput
from kafkaform.core.model import CONFIG_PREFIX
from kafkaform.resources import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from kafkaform.core.model import Desired, FieldValue, ResourceRef

Wanted: TypeAlias = Mapping[str, "FieldValue"]
"""New values by path; None for no own one."""


class Unproven(Exception):  # noqa: N818 - becomes the reason of a refused edit
    """The text does not say what it should; the message says what it says instead."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What the loader reads in a text.

    Attributes:
        environment: The environment that is edited; None if there is none.
        chosen: Its resources in that environment.
        others: Those in every other one.
    """

    environment: str | None
    chosen: Mapping[ResourceRef, Desired]
    others: Mapping[str, Mapping[ResourceRef, Desired]]


@dataclass(frozen=True, slots=True)
class Reader:
    """Has the loader read texts.

    Attributes:
        folder: Where the loader finds them.
        context: What the edited environment is read with.
        others: The other environments.
    """

    folder: Path
    context: Context
    others: tuple[str, ...]

    def read(self, text: str) -> Reading:
        """Read a text.

        Raises:
            Unproven: The loader refuses it.
        """
        path = self.folder / "manifest.yaml"
        path.write_bytes(text.encode())
        # What lies under the manifests of environments whose defaults nobody knows here: a difference must
        # never be hidden by a default that says the same.
        nowhere = {kind.name: (kind.nowhere,) for kind in KINDS.values()}
        contexts = [replace(self.context, root=None)]
        contexts += [
            replace(self.context, root=None, environment=name, defaults=nowhere) for name in self.others
        ]
        try:
            chosen, *others = load_all([path], contexts)
        except InvalidInput as error:
            raise Unproven(error.problems[0].message) from error
        by_name = {name: _by_ref(found) for name, found in zip(self.others, others, strict=True)}
        return Reading(self.context.environment, _by_ref(chosen), by_name)


def said(desired: Desired, path: str) -> FieldValue:
    """What a manifest, with everything under it, says of a field; None for no own value.

    Of a tombstone too: what it would say if it were none.
    """
    spec = desired.intent.spec
    if path == "state":
        return "absent" if spec.get("state") == "absent" else None
    name = path.removeprefix(CONFIG_PREFIX)
    holder = spec if name == path else cast("Mapping[str, Any]", spec.get("config", {}))
    return cast("FieldValue", holder.get(name))


def says(desired: Desired, path: str, value: FieldValue) -> bool:
    """Whether a manifest gives a field this value."""
    return KINDS[desired.ref.kind].equal(path, said(desired, path), value)


def check(before: Reading, after: Reading, wanted: Mapping[ResourceRef, Wanted]) -> None:
    """Raise Unproven unless exactly the wanted values are what is new, in the chosen environment alone."""
    if list(before.chosen) != list(after.chosen):
        raise Unproven("the file would declare other resources than before")
    for ref, old in before.chosen.items():
        _check_resource(old, after.chosen[ref], wanted.get(ref, {}))
    for name, resources in before.others.items():
        for ref, old in resources.items():
            if old != after.others[name][ref]:
                choose = "" if before.environment else ": choose the one that is meant with --environment"
                raise Unproven(f"{ref} would change in environment {name} too{choose}")


def _check_resource(before: Desired, after: Desired, wanted: Wanted) -> None:
    for path, value in wanted.items():
        if not says(after, path, value):
            raise Unproven(f"{path} would be {_shown(said(after, path))}")
    if _rest(before, wanted) != _rest(after, wanted):
        raise Unproven(f"more of {before.ref} would change than {', '.join(wanted) or 'nothing'}")


def _rest(desired: Desired, wanted: Wanted) -> object:
    """All that a manifest says besides some fields."""
    spec: dict[str, Any] = {**desired.intent.spec}
    config = {k: v for k, v in spec.pop("config", {}).items() if CONFIG_PREFIX + k not in wanted}
    spec = {name: value for name, value in spec.items() if name not in wanted}
    state: object = None
    if desired.state is not None and "state" not in wanted:
        state = {path: value for path, value in desired.state.items() if path not in wanted}
    return replace(desired.intent, spec={**spec, "config": config}), state


def _shown(value: FieldValue) -> str:
    return "unset" if value is None else str(value)


def _by_ref(found: Iterable[Desired]) -> dict[ResourceRef, Desired]:
    return {desired.ref: replace(desired, location=None) for desired in found}
