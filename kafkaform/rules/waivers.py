"""The waivers of rules in manifests, and the report of those that waive nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkaform.core.model import Diagnostic, Severity
from kafkaform.core.wording import command, nearest, quoted
from kafkaform.resources import KINDS
from kafkaform.rules.catalogue import Rule, RuleContext, Stage

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from kafkaform.rules.notes import Note

WAIVER_PREFIX = "kafkaform/waive."
"""The beginning of an annotation that waives a rule: the rule's code follows."""
_CLUSTER = frozenset({"facts", "inventory", "brokers", "live", "groups", "health"})
"""The attributes of a context that are read from a cluster."""


def find_idle_waivers(
    context: RuleContext,
    findings: Iterable[Diagnostic],
    severities: Mapping[str, str],
    stages: Collection[Stage],
    known: Mapping[str, Rule | Note],
) -> Iterator[Diagnostic]:
    """Report the waivers in manifests that waive no finding (KF418).

    A rule that was not run, or that uses data of the cluster that this context does not have, may have a
    finding elsewhere: its waivers are not reported. Manifests that were not read may be the cause, too.

    Args:
        context: The input of the rules.
        findings: All findings of `check` for it.
        severities: The project's own severities by code.
        stages: The stages of the rules that were run.
        known: All rules and notes by code, including those of plug-ins and the project's policies.
    """
    waiving = [desired for desired in context.desired if desired.intent.waivers]
    if not waiving:
        return
    reported = {(diagnostic.ref, diagnostic.code) for diagnostic in findings}
    inconclusive: dict[str, bool] = {}
    is_complete = all(map(context.is_complete, KINDS))
    for desired in waiving:
        for code in desired.intent.waivers:
            entry = known.get(code)
            why, suggestion = None, "remove the waiver"
            if not isinstance(entry, Rule):
                why, suggestion = _explain_no_rule(code, entry, known)
            elif not entry.waivable:
                why, suggestion = (
                    f"{code} cannot be waived",
                    f"fix what it reports: {command('rules', code)}",
                )
            elif severities.get(code) == "off":
                why = f"{code} is waived, but kafkaform.yaml switches it off"
            elif (
                is_complete
                and entry.stage in stages
                and (desired.ref, code) not in reported
                and desired.state is not None
            ):
                # A rule is run again to find this out, so once for all manifests that waive it.
                if code not in inconclusive:
                    inconclusive[code] = _lacks_input(entry, context)
                if not inconclusive[code]:
                    why = f"{code} is waived, but has no finding for {desired.ref}"
            if why is not None:
                location = desired.locate(f"metadata.annotations.{WAIVER_PREFIX}{code}")
                yield Diagnostic("KF418", Severity.WARNING, why, location, suggestion, ref=desired.ref)


def _explain_no_rule(code: str, entry: Note | None, known: Mapping[str, Rule | Note]) -> tuple[str, str]:
    if entry is not None:
        return f"{code} is waived, but is a note, not a rule", "remove the waiver"
    near = nearest(code, [known_code for known_code, item in known.items() if isinstance(item, Rule)])
    hint = f"did you mean {near}?" if near else "`kafkaform rules` lists the rules"
    return f"{quoted(code)} is waived, but there is no such rule", hint


def _lacks_input(rule: Rule, context: RuleContext) -> bool:
    """Return whether a rule uses data of the cluster that the context does not have."""
    recording = _RecordingContext(**{name: getattr(context, name) for name in context.__dataclass_fields__})
    # A rule is a generator: only consuming it runs it.
    list(rule.check(recording))
    return recording.missed


class _RecordingContext(RuleContext):
    """A context that records whether a rule uses data that it does not have."""

    @property
    def missed(self) -> bool:
        return bool(self.__dict__.get("_missed", False))

    def __getattribute__(self, name: str) -> Any:
        # Rules read the context as attributes, so this sees every use, also by functions that they share.
        value = object.__getattribute__(self, name)
        if name in _CLUSTER and not value:
            object.__getattribute__(self, "__dict__")["_missed"] = True
        return value
