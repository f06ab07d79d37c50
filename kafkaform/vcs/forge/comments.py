"""One comment on a pull request, and one open issue for a state that lasts.

Both are found again by their first line, which nobody sees, and kept up to date.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeVar

from github import UnknownObjectException

from kafkaform.core.errors import ForgeError
from kafkaform.vcs.forge.failures import RequestPurpose
from kafkaform.vcs.forge.marked import is_same

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from github.Issue import Issue
    from github.IssueComment import IssueComment

    from kafkaform.vcs.forge.client import GitHub
    from kafkaform.vcs.forge.marked import Marker


_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Kept:
    """What became of a comment or an issue.

    Attributes:
        outcome: What was done.
        url: Its page.
    """

    outcome: Literal["created", "updated", "unchanged", "closed"]
    url: str


def find_or_create(
    look: Callable[[], Sequence[_T]], create: Callable[[], _T | None]
) -> tuple[Sequence[_T], bool]:
    """All that there are, at least one; and whether one of them was made now.

    GitHub is looked at after every attempt to create: an attempt whose answer got lost may have been carried
    out, and another run may have made one in the same moment. More than one is for the caller to settle.

    Args:
        look: Finds what there is.
        create: Makes one; returns None if it is not known whether it did.
    """
    made: _T | None = None
    tried = False
    while not (found := look()):
        if made is not None:  # what was made now is not always listed at once
            return [made], True
        made = create()
        tried = True
    return found, tried


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
    purpose = RequestPurpose(f"comment on #{number}", permission)
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


def moved(hub: GitHub, purpose: RequestPurpose) -> ForgeError:
    """What to say where GitHub only redirected a request that was to create something."""
    return ForgeError(
        f"cannot {purpose.doing}: {hub.address.repository} has moved", hint="use its new name (--repository)"
    )


def _delete(comment: IssueComment) -> None:
    with suppress(UnknownObjectException):  # somebody else did it
        comment.delete()


_PERMISSION = "issues: write"


def keep_issue(hub: GitHub, marker: Marker, title: str, text: str, labels: Sequence[str]) -> Kept:
    """Let exactly one open issue with the marker say the text.

    One that was closed, whoever did it, stays closed: what begins anew gets an issue of its own. Nobody is
    notified of an update. Of several open ones the oldest stays.

    Args:
        hub: The repository.
        marker: Which of our issues it is.
        title: Of the issue.
        text: Markdown.
        labels: Put on it when it is created, and left alone afterwards.

    Raises:
        ForgeError: GitHub refuses, or does not answer.
    """
    purpose = RequestPurpose(f"keep the issue {title!r}", _PERMISSION)
    body = marker.body(text)

    def create() -> Issue | None:
        made = hub.attempt(
            purpose, lambda: hub.repository.create_issue(title=title, body=body, labels=[*labels])
        )
        if made is not None and not made.id:
            raise moved(hub, purpose)
        return made

    found, is_new = find_or_create(lambda: _open(hub, marker, purpose), create)
    oldest, *others = sorted(found, key=lambda issue: issue.number)
    is_changed = oldest.title != title or not is_same(oldest.body, body)
    if is_changed:
        hub.ask(purpose, lambda: oldest.edit(title=title, body=body))
    for other in others:
        _close(hub, other, marker, f"Duplicate of #{oldest.number}.", "not_planned")
    return Kept("created" if is_new else "updated" if is_changed else "unchanged", oldest.html_url)


def close_issues(hub: GitHub, marker: Marker, text: str) -> list[Kept]:
    """Close what is open of the marker, with a comment.

    Raises:
        ForgeError: GitHub refuses, or does not answer.
    """
    purpose = RequestPurpose("look for open issues", _PERMISSION)
    return [_close(hub, issue, marker, text, "completed") for issue in _open(hub, marker, purpose)]


def _open(hub: GitHub, marker: Marker, purpose: RequestPurpose) -> list[Issue]:
    def marked() -> list[Issue]:
        listed = [i for i in hub.repository.get_issues(state="open") if marker.marks(i.body)]
        return [issue for issue in listed if issue.pull_request is None]

    return [issue for issue in hub.ask(purpose, marked) if hub.is_mine(issue.user, purpose)]


def _close(hub: GitHub, issue: Issue, marker: Marker, text: str, reason: str) -> Kept:
    # The comment first: if the second request is lost, the issue is still open and the next run does both.
    keep_comment(hub, issue.number, replace(marker, part="closed"), text, permission=_PERMISSION)
    purpose = RequestPurpose(f"close #{issue.number}", _PERMISSION)
    hub.ask(purpose, lambda: issue.edit(state="closed", state_reason=reason))
    return Kept("closed", issue.html_url)
