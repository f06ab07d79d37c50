"""Consent: a recorded statement that a hazard of a resource is accepted."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from glob import escape
from typing import TYPE_CHECKING

from kafkaform.core.errors import UsageError
from kafkaform.core.model import Consent, ResourceRef, Risk
from kafkaform.core.wording import double_quoted
from kafkaform.resources import misspelt_hazard

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafkaform.resources.base import Binding

ANNOTATION = "kafkaform/allow"
"""The manifest annotation that carries consents, a line each: `retention-cut from 7d: reason`.

What stands between the hazard and the colon is what the consent is for, and it covers nothing else; see
`Kind.binding`. Of a hazard that is bound to nothing, the line is `hazard: reason`.
"""


BY_FLAG = "--allow"
"""The reason of a consent that was given on the command line."""
WHY = "<why>"
"""Where the author of a consent writes the reason."""


@dataclass(frozen=True, slots=True)
class Grant:
    """A consent given on the command line, for the resources and hazards that its globs match."""

    resource: str
    hazard: str

    @classmethod
    def parse(cls, text: str) -> Grant:
        """Read the value of `--allow`: `KIND/NAME:HAZARD` (globs allowed), or `destructive` for every hazard.

        Raises:
            UsageError: The value has neither form, or there is no such hazard.
        """
        if text == Risk.DESTRUCTIVE.label:
            return cls("*", "*")
        resource, colon, hazard = text.rpartition(":")
        if not colon or "/" not in resource or not hazard:
            raise UsageError(
                f"--allow {text!r} names no resource and hazard",
                hint="write --allow KIND/NAME:HAZARD, such as Topic/orders.v1:retention-cut",
            )
        if hazard == Risk.DESTRUCTIVE.label:
            return cls(resource, "*")
        meant = misspelt_hazard(hazard)
        if meant is not None:
            raise UsageError(f"--allow {text!r}: there is no hazard {hazard!r}", hint=meant)
        return cls(resource, hazard)

    def __str__(self) -> str:
        return f"--allow {shlex.quote(f'{self.resource}:{self.hazard}')}"

    @property
    def is_exact(self) -> bool:
        """Whether it names one resource."""
        return not set(self.resource) & set("*?[")

    def covers(self, ref: ResourceRef, hazard: str) -> bool:
        """Whether this grant is for that hazard of that resource."""
        return fnmatchcase(str(ref), self.resource) and fnmatchcase(hazard, self.hazard)


@dataclass(frozen=True, slots=True)
class Consents:
    """All consents that may hold for one resource.

    Attributes:
        grants: Those of the command line.
        annotated: Those of its manifest: the reason of each by hazard, with what it is for.
        earlier: Those that a saved plan rests on: the reason of each by hazard. They are for what it does.
    """

    grants: tuple[Grant, ...]
    annotated: Mapping[str, str] = field(default_factory=dict)
    earlier: Mapping[str, str] = field(default_factory=dict)

    def find(
        self, ref: ResourceRef, hazard: str, bindings: Sequence[Binding | None] = (None,)
    ) -> Consent | None:
        """The consent to a hazard; the manifest's own, which was reviewed, is preferred.

        Args:
            ref: The resource.
            hazard: The hazard.
            bindings: What consents in a manifest have to be for, at each place that has the hazard.
        """
        heads = [covering(self.annotated, hazard, binding) for binding in bindings]
        if None not in heads:
            reasons = dict.fromkeys(self.annotated[head] for head in heads if head is not None)
            return Consent(str(ref), hazard, "; ".join(reasons))
        if hazard in self.earlier:
            return Consent(str(ref), hazard, self.earlier[hazard])
        if any(grant.covers(ref, hazard) for grant in self.grants):
            return Consent(str(ref), hazard, BY_FLAG)
        return None


def covering(annotated: Iterable[str], hazard: str, binding: Binding | None) -> str | None:
    """The consent of a manifest that is for a hazard at one place, if there is one."""
    for head in annotated:
        name, bound = split_head(head)
        if name == hazard and (bound == "" if binding is None else binding.fits(bound)):
            return head
    return None


def split_head(head: str) -> tuple[str, str]:
    """The hazard, and what the consent to it is for; empty if that is not said."""
    hazard, _, bound = head.partition(" ")
    return hazard, bound


def consent_line(hazard: str, binding: Binding | None, reason: str) -> str:
    """A line of the annotation that covers a hazard at one place."""
    return f"{hazard}{f' {binding.text}' if binding is not None else ''}: {reason}"


def annotation(lines: Iterable[str]) -> str:
    """The line of a manifest's `metadata.annotations` that holds these consents, to be pasted."""
    return f"{ANNOTATION}: {double_quoted(chr(10).join(lines))}"


def allow_flags(ref: ResourceRef, hazards: Iterable[str]) -> str:
    """The command-line flags that consent to hazards of a resource, quoted for a shell."""
    return " ".join(shlex.join(("--allow", grant_of(ref, hazard))) for hazard in hazards)


def grant_of(ref: ResourceRef, hazard: str) -> str:
    """The value of `--allow` for one hazard of this resource alone, also where its name is a pattern."""
    return f"{ref.kind}/{escape(ref.name)}:{hazard}"


def parse_annotation(text: str) -> tuple[dict[str, str], list[str]]:
    """Read the annotation: the reasons by hazard with what it is for, and the lines that are no consent."""
    reasons: dict[str, str] = {}
    bad: list[str] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        head, _, reason = line.partition(":")
        words = head.split()
        is_bound = len(words) > 2 and words[1] in {"from", "of"}
        if reason.strip() and (len(words) == 1 or is_bound):
            reasons[" ".join(words)] = reason.strip()
        else:
            bad.append(line)
    return reasons, bad
