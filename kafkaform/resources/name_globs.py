"""Globs of the names of resources, as kafkaform.yaml has them for `owns:` and `ignore:`."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from kafkaform.core.values import Value
from kafkaform.resources import KINDS

if TYPE_CHECKING:
    from collections.abc import Collection

    from kafkaform.core.model import ResourceRef


class NameGlobs(Value):
    """Globs of resources; principals have their own, as `*` for topics must not mean everyone's access.

    Attributes:
        names: Globs of names of topics, groups and quotas.
        principals: Globs of principals, such as `User:checkout-*`.
    """

    names: tuple[str, ...] = ()
    principals: tuple[str, ...] = ()

    def select(self, kind: str) -> tuple[str, ...]:
        """Return the globs that apply to a kind."""
        return self.principals if KINDS[kind].scope.names_principals else self.names

    def match(self, ref: ResourceRef) -> bool:
        """Return whether a glob matches a resource."""
        return matches(ref.name, self.select(ref.kind))


NO_GLOBS = NameGlobs()
ALL = NameGlobs(("*",), ("*",))


def matches(name: str, globs: Collection[str]) -> bool:
    """Return whether a name matches one of the globs (case matters, as in Kafka)."""
    return any(fnmatchcase(name, glob) for glob in globs)
