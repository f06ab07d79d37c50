"""One comment on a pull request or an issue, kept up to date."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from github import UnknownObjectException

from kafkaform.core.errors import ForgeError
from kafkaform.vcs.forge.failures import Purpose
from kafkaform.vcs.forge.keeping import Kept, find_or_create
from kafkaform.vcs.forge.marked import is_same

if TYPE_CHECKING:
    from github.IssueComment import IssueComment

    from kafkaform.vcs.forge.client import GitHub
    from kafkaform.vcs.forge.marked import Marker

PULL_REQUESTS = "pull-requests: write"
"""What a token needs to comment on a pull request."""


def keep_comment(
    hub: GitHub, number: int, marker: Marker, text: str, *, permission: str = PULL_REQUESTS
) -> Kept:
    """Let exactly one comment with the marker say the text.

    Only comments by the token's own account count, whatever their first line; of several the oldest stays.

    Args:
        hub: The repository.
        number: Of the pull request or the issue.
        marker: Which of our comments it is.
        text: Markdown.
        permission: What the token needs, for error messages.

    Raises:
        ForgeError: GitHub refuses, or does not answer.
    """
    purpose = Purpose(f"comment on #{number}", permission)
    body = marker.body(text)
    issue = hub.repository.get_issue(number)

    def look() -> list[IssueComment]:
        marked = hub.ask(purpose, lambda: [c for c in issue.get_comments() if marker.marks(c.body)])
        return [comment for comment in marked if hub.is_mine(comment.user, purpose)]

    def create() -> IssueComment | None:
        made = hub.attempt(purpose, lambda: issue.create_comment(body))
        if made is not None and not made.id:
            raise moved(hub, purpose)
        return made

    found, is_new = find_or_create(look, create)
    oldest, *others = sorted(found, key=lambda comment: comment.id)
    is_changed = not is_same(oldest.body, body)
    if is_changed:
        hub.ask(purpose, lambda: oldest.edit(body))
    for other in others:
        hub.ask(purpose, partial(_delete, other))
    return Kept("created" if is_new else "updated" if is_changed else "unchanged", oldest.html_url)


def moved(hub: GitHub, purpose: Purpose) -> ForgeError:
    """What to say where GitHub only redirected a request that was to create something."""
    return ForgeError(
        f"cannot {purpose.doing}: {hub.address.repository} has moved", hint="give its new name (--repository)"
    )


def _delete(comment: IssueComment) -> None:
    with suppress(UnknownObjectException):  # somebody else did it
        comment.delete()
