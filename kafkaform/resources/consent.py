"""Consent: a recorded statement that a hazard of a resource is accepted."""

from __future__ import annotations

import shlex
from fnmatch import fnmatchcase
from glob import escape
from typing import TYPE_CHECKING

from kafkaform.core.errors import UsageError
from kafkaform.core.model import ResourceRef, Risk
from kafkaform.core.plans import Binding, Consent
from kafkaform.core.values import Value, field
from kafkaform.core.wording import code, double_quoted
from kafkaform.resources import misspelt_hazard

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

ANNOTATION = "kafkaform/allow"
"""The manifest annotation that holds consents, one a line: `retention-cut from 7d: reason`.

The text between the hazard and the colon is the scope of the consent; see `Kind.binding`. For a hazard
without one, the line is `hazard: reason`.
"""


BY_FLAG = "--allow"
"""The reason of a consent that was given on the command line."""
PROFILE = "profile/"
"""The beginning of the name of a profile in consents on the command line and in the codes of rules."""
WHY = "<why>"
"""The placeholder for the reason of a consent."""


class Grant(Value):
    """A consent given on the command line, for the resources and hazards that its globs match."""

    resource: str
    hazard: str

    @classmethod
    def parse(cls, text: str) -> Grant:
        """Parse the value of `--allow`: `KIND/NAME:HAZARD` (globs allowed), or `destructive` for all hazards.

        Raises:
            UsageError: The value has neither form, or the hazard does not exist.
        """
        if text == Risk.DESTRUCTIVE.label:
            return cls("*", "*")
        # The last colon: names of groups may contain others.
        resource, colon, hazard = text.rpartition(":")
        if not colon or "/" not in resource or not hazard:
            raise UsageError(
                f"--allow {text!r} names no resource and hazard",
                hint="write `--allow KIND/NAME:HAZARD`, such as `Topic/orders.v1:retention-cut`",
            )
        if hazard == Risk.DESTRUCTIVE.label:
            return cls(resource, "*")
        hint = misspelt_hazard(hazard)
        if hint is not None:
            raise UsageError(f"--allow {text!r}: there is no hazard {hazard!r}", hint=hint)
        return cls(resource, hazard)

    @property
    def text(self) -> str:
        """The value of `--allow`."""
        if self.hazard == "*":
            every = Risk.DESTRUCTIVE.label
            return every if self.resource == "*" else f"{self.resource}:{every}"
        return f"{self.resource}:{self.hazard}"

    def __str__(self) -> str:
        return code(f"--allow {shlex.quote(self.text)}")

    @property
    def is_exact(self) -> bool:
        """True if it names one resource."""
        return not set(self.resource) & set("*?[")

    def covers(self, ref: ResourceRef, hazard: str, layer: str = "") -> bool:
        """Return whether this grant covers a hazard of a resource, or of the layer of its change."""
        return fnmatchcase(hazard, self.hazard) and any(
            fnmatchcase(name, self.resource) for name in (str(ref), layer) if name
        )


class Consents(Value):
    """The consents that may apply to one resource.

    Attributes:
        grants: The consents on the command line.
        annotated: The consents in its manifest: reasons by hazard and scope.
        earlier: The consents of a saved plan: reasons by hazard. Their scope is the plan.
        layer: The layer that the whole change comes from; empty for none.
    """

    grants: tuple[Grant, ...]
    annotated: Mapping[str, str] = field(default_factory=dict)
    earlier: Mapping[str, str] = field(default_factory=dict)
    layer: str = ""

    def find(
        self, ref: ResourceRef, hazard: str, bindings: Sequence[Binding | None] = (None,)
    ) -> Consent | None:
        """Return the consent to a hazard; one in the manifest, which was reviewed, takes precedence.

        Args:
            bindings: The scope of a consent in the manifest, for each part of the change with the hazard.
        """
        # Every part of the change with this hazard needs a line of its own: two retentions are cut from two
        # values.
        heads = [find_covering(self.annotated, hazard, binding) for binding in bindings]
        if None not in heads:
            reasons = dict.fromkeys(self.annotated[head] for head in heads if head is not None)
            return Consent(str(ref), hazard, "; ".join(reasons))
        if hazard in self.earlier:
            return Consent(str(ref), hazard, self.earlier[hazard])
        if any(grant.covers(ref, hazard, self.layer) for grant in self.grants):
            return Consent(str(ref), hazard, BY_FLAG)
        return None


def find_covering(annotated: Iterable[str], hazard: str, binding: Binding | None) -> str | None:
    """Return the consent in a manifest that covers a hazard, if there is one."""
    # Compared by meaning, not as text: a scope of `from 7d` fits a value of 604800000.
    for head in annotated:
        name, bound = split_head(head)
        if name == hazard and (bound == "" if binding is None else binding.fits(bound)):
            return head
    return None


def split_head(head: str) -> tuple[str, str]:
    """Split a consent into its hazard and its scope, which may be empty."""
    hazard, _, bound = head.partition(" ")
    return hazard, bound


def consent_line(hazard: str, binding: Binding | None, reason: str) -> str:
    """Return a line of the annotation that covers a hazard."""
    return f"{hazard}{f' {binding.text}' if binding is not None else ''}: {reason}"


def annotation(lines: Iterable[str]) -> str:
    """Return the line of a manifest's `metadata.annotations` with these consents, to paste."""
    return f"{ANNOTATION}: {double_quoted(chr(10).join(lines))}"


def allow_flags(ref: ResourceRef, hazards: Iterable[str]) -> str:
    """Return the command-line flags that consent to hazards of a resource, quoted for a shell."""
    return " ".join(shlex.join(("--allow", grant_of(ref, hazard))) for hazard in hazards)


def layer_flags(layer: str, hazards: Iterable[str]) -> str:
    """Return the command-line flags that consent to hazards of all changes from a layer."""
    return " ".join(shlex.join(("--allow", f"{escape(layer)}:{hazard}")) for hazard in hazards)


def grant_of(ref: ResourceRef, hazard: str) -> str:
    """Return the value of `--allow` for a hazard of this resource alone, even if its name is a pattern."""
    return f"{ref.kind}/{escape(ref.name)}:{hazard}"


def parse_annotation(text: str) -> tuple[dict[str, str], list[str]]:
    """Parse the annotation into the reasons by hazard and scope, and the invalid lines."""
    reasons: dict[str, str] = {}
    bad: list[str] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        # The first colon ends the scope; a reason may contain others.
        head, _, reason = line.partition(":")
        words = head.split()
        is_bound = len(words) > 2 and words[1] in {"from", "of"}
        if reason.strip() and (len(words) == 1 or is_bound):
            reasons[" ".join(words)] = reason.strip()
        else:
            bad.append(line)
    return reasons, bad
