"""Findings of rules as they are reported: each once, with the environments where it holds."""

from __future__ import annotations

import os.path
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

from kafkaform.model import Diagnostic, Location, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkaform.errors import Problem


@dataclass(frozen=True, slots=True)
class Reported:
    """A finding, and where it holds.

    Attributes:
        diagnostic: The finding; a problem of the input has no code, as no rule can overlook it.
        environments: The environments in which it holds; empty: in all that were looked at.
    """

    diagnostic: Diagnostic
    environments: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        """The message, with the environments."""
        where = f" (in {', '.join(self.environments)})" if self.environments else ""
        return self.diagnostic.message + where


@dataclass(frozen=True, slots=True)
class Workspace:
    """What reports for other programs take paths relative to; both paths are absolute.

    Attributes:
        root: The folder that the reader of the report knows: the checkout of a repository.
        cwd: The folder that the paths of locations start from.
    """

    root: str
    cwd: str

    def path(self, file: str) -> str:
        """The path from the root, with slashes; the absolute path of a file that is not below the root."""
        absolute = os.path.normpath(os.path.join(self.cwd, file))  # noqa: PTH118 - pure: nothing is looked up
        inside = os.path.relpath(absolute, self.root)
        outside = PurePath(inside).parts[:1] == (os.pardir,)
        return PurePath(absolute if outside else inside).as_posix()


def everywhere(diagnostics: Iterable[Diagnostic]) -> list[Reported]:
    """Findings that hold wherever was looked, each once."""
    return [Reported(diagnostic) for diagnostic in dict.fromkeys(diagnostics)]


def by_environment(found: Mapping[str | None, Iterable[Diagnostic]]) -> list[Reported]:
    """The findings of several environments, each once, in the order of their places.

    Args:
        found: What was found in each; with None as its only key where there are no environments.
    """
    holds: dict[Diagnostic, list[str | None]] = {}
    for environment, diagnostics in found.items():
        for diagnostic in dict.fromkeys(diagnostics):
            holds.setdefault(diagnostic, []).append(environment)
    reported = [
        Reported(diagnostic, () if len(where) == len(found) else tuple(filter(None, where)))
        for diagnostic, where in holds.items()
    ]
    return sorted(reported, key=lambda one: _place(one.diagnostic.location))


def from_problems(problems: Iterable[Problem]) -> list[Reported]:
    """Problems of the input, as findings."""
    return [
        Reported(Diagnostic("", Severity.ERROR, problem.message, problem.location, problem.hint))
        for problem in problems
    ]


def _place(location: Location | None) -> tuple[bool, str, int, int]:
    """Findings about the whole cluster come last."""
    if location is None:
        return True, "", 0, 0
    return False, location.file, location.line, location.column
