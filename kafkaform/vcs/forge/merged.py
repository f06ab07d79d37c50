"""The pull request that a commit came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkaform.core.errors import ForgeError
from kafkaform.vcs.forge.failures import Purpose
from kafkaform.vcs.forge.patience import Trouble

if TYPE_CHECKING:
    from datetime import datetime

    from kafkaform.vcs.forge.client import GitHub

_PERMISSION = "contents: read, pull-requests: read"
_LOOKS = 4
_PAUSE_S = 5.0


@dataclass(frozen=True, slots=True)
class Merged:
    """A pull request that was merged.

    Attributes:
        number: Of the pull request.
        head: Its last commit before the merge, in full: what was reviewed.
        at: When it was merged.
        is_from_fork: Whether its branch is (or was) in another repository.
    """

    number: int
    head: str
    at: datetime
    is_from_fork: bool


def merged_as(hub: GitHub, commit: str, branch: str | None) -> Merged:
    """The pull request whose merge made this commit: by a merge, a squash or a rebase.

    GitHub may know it only some seconds after the push, so it is asked more than once.

    Args:
        hub: The repository.
        commit: In full.
        branch: What it was merged into; None for the default branch.

    Raises:
        ForgeError: There is none, or GitHub does not say.
    """
    purpose = Purpose(f"find the pull request of {commit[:12]}", _PERMISSION)
    into = branch or hub.ask(purpose, lambda: hub.repository.default_branch)
    for look in range(_LOOKS):
        if look:
            hub.wait(Trouble(f"no pull request of {commit[:12]} is known yet", _PAUSE_S))
        if found := hub.ask(purpose, lambda: _find(hub, commit, into)):
            return found
    raise ForgeError(
        f"no pull request was merged into {into} as commit {commit[:12]}: nobody reviewed a plan of it",
        hint="was it pushed directly? Apply by hand what `kafkaform plan` shows, "
        "or revert it and open a pull request",
    )


def _find(hub: GitHub, commit: str, into: str) -> Merged | None:
    repository = hub.repository
    for pull in repository.get_commit(commit).get_pulls():
        if pull.merged_at and pull.merge_commit_sha == commit and pull.base.ref == into:
            source = pull.head.repo
            is_from_fork = source is None or source.id != repository.id
            return Merged(pull.number, pull.head.sha, pull.merged_at, is_from_fork)
    return None
