"""Consent: somebody's word that a hazard of a resource is meant."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from fnmatch import fnmatchcase
from glob import escape
from typing import TYPE_CHECKING

from kafkaform.errors import UsageError
from kafkaform.kinds import misspelt_hazard
from kafkaform.model import Consent, ResourceRef, Risk

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ANNOTATION = "kafkaform/allow"
"""The manifest annotation that carries consents: a line each, `hazard: reason`."""


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
    """All consents that may hold for one resource: from the command line, and from its manifest."""

    grants: tuple[Grant, ...]
    annotated: Mapping[str, str]

    def find(self, ref: ResourceRef, hazard: str) -> Consent | None:
        """The consent to a hazard; the manifest's own, which was reviewed, is preferred."""
        if hazard in self.annotated:
            return Consent(str(ref), hazard, self.annotated[hazard])
        if any(grant.covers(ref, hazard) for grant in self.grants):
            return Consent(str(ref), hazard, "--allow")
        return None


def allow_flags(ref: ResourceRef, hazards: Iterable[str]) -> str:
    """The command-line flags that consent to hazards of a resource, quoted for a shell."""
    return " ".join(shlex.join(("--allow", grant_of(ref, hazard))) for hazard in hazards)


def grant_of(ref: ResourceRef, hazard: str) -> str:
    """The value of `--allow` for one hazard of this resource alone, also where its name is a pattern."""
    return f"{ref.kind}/{escape(ref.name)}:{hazard}"


def parse_annotation(text: str) -> tuple[dict[str, str], list[str]]:
    """Read the annotation: the reasons by hazard, and the lines that are not `hazard: reason`."""
    reasons: dict[str, str] = {}
    bad: list[str] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        hazard, _, reason = (part.strip() for part in line.partition(":"))
        if hazard and reason and " " not in hazard:
            reasons[hazard] = reason
        else:
            bad.append(line)
    return reasons, bad
