"""Waivers that waive nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkaform.core.model import Diagnostic, Severity
from kafkaform.core.spelling import nearest, quoted
from kafkaform.core.wording import command
from kafkaform.rules.catalogue import Rule, Scene

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from kafkaform.core.model import ResourceRef
    from kafkaform.rules.catalogue import Stage
    from kafkaform.rules.notes import Note

_CLUSTER = frozenset({"facts", "inventory", "brokers", "live", "groups", "health"})

PREFIX = "kafkaform/waive."
"""The beginning of an annotation that waives a rule: the rule's code follows."""


def idle_waivers(
    scene: Scene,
    found: Iterable[tuple[ResourceRef | None, Diagnostic]],
    severities: Mapping[str, str],
    stages: Collection[Stage],
    known: Mapping[str, Rule | Note],
) -> Iterator[tuple[ResourceRef, Diagnostic]]:
    """Waivers of the scene's manifests that have nothing to overlook, as KF418.

    A rule that was not run, or that looks at something of the cluster that this scene does not have, may
    trip where more is known: nothing is said of its waivers.

    Args:
        scene: What was looked at.
        found: Everything that `check` found in it.
        severities: The project's own severities.
        stages: The stages that were run.
        known: Every rule and note by code, with those of plug-ins and the project's policies.
    """
    tripped = {(ref, diagnostic.code) for ref, diagnostic in found}
    inconclusive: dict[str, bool] = {}
    for desired in scene.desired:
        for code in desired.intent.waivers:
            entry = known.get(code)
            why, suggestion = None, "take the waiver out"
            if not isinstance(entry, Rule):
                why, suggestion = _no_rule(code, entry, known)
            elif not entry.waivable:
                why, suggestion = f"{code} cannot be waived", f"mend what it says: {command('rules', code)}"
            elif severities.get(code) == "off":
                why = f"{code} is waived, but kafkaform.yaml switches it off"
            elif entry.stage in stages and (desired.ref, code) not in tripped and desired.state is not None:
                if code not in inconclusive:
                    inconclusive[code] = _wants_more(entry, scene)
                if not inconclusive[code]:
                    why = f"{code} is waived, but has nothing to say about {desired.ref}"
            if why is not None:
                place = desired.place(f"metadata.annotations.{PREFIX}{code}")
                yield desired.ref, Diagnostic("KF418", Severity.WARNING, why, place, suggestion)


def _no_rule(code: str, entry: Note | None, known: Mapping[str, Rule | Note]) -> tuple[str, str]:
    if entry is not None:
        return f"{code} is waived, but is a note, not a rule", "take the waiver out"
    near = nearest(code, [known_code for known_code, one in known.items() if isinstance(one, Rule)])
    hint = f"did you mean {near}?" if near else "kafkaform rules lists the rules"
    return f"{quoted(code)} is waived, but there is no such rule", hint


def _wants_more(rule: Rule, scene: Scene) -> bool:
    """Whether a rule asks for something of the cluster that the scene does not have."""
    watched = _Watched(**{name: getattr(scene, name) for name in scene.__dataclass_fields__})
    list(rule.check(watched))
    return watched.missed


class _Watched(Scene):
    """A scene that notices when a rule asks for what it does not have."""

    @property
    def missed(self) -> bool:
        return bool(self.__dict__.get("_missed", False))

    def __getattribute__(self, name: str) -> Any:
        value = object.__getattribute__(self, name)
        if name in _CLUSTER and not value:
            object.__getattribute__(self, "__dict__")["_missed"] = True
        return value
