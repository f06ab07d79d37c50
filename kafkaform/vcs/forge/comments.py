"""One comment on a pull request, and one open issue for a lasting condition, both kept up to date.

Their first line, which GitHub does not display, identifies them.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from github import UnknownObjectException

from kafkaform.core.errors import ForgeError
from kafkaform.core.values import replace
from kafkaform.vcs.forge.failures import RequestPurpose
from kafkaform.vcs.forge.markers import Marker, is_same
from kafkaform.vcs.forge.publishing import Publication, find_or_create

if TYPE_CHECKING:
    from collections.abc import Sequence

    from github.Issue import Issue
    from github.IssueComment import IssueComment

    from kafkaform.vcs.forge.client import GitHub

PULL_REQUESTS = "pull-requests: write"
"""The permission that a token needs to comment on a pull request."""


def publish_comment(
    github: GitHub, number: int, marker: Marker, text: str, *, permission: str = PULL_REQUESTS
) -> Publication:
    """Create the comment with this marker, or update it; of duplicates, keep the oldest.

    Comments of other accounts are ignored, even if they have the marker.

    Args:
        number: The number of the pull request or issue.
        marker: The marker of the comment.
        permission: The permission that the token needs, for error messages.

    Raises:
        ForgeError: GitHub rejects a request, or does not respond.
    """
    purpose = RequestPurpose(f"comment on #{number}", permission)
    body = marker.render_body(text)
    issue = github.repository.get_issue(number)

    def find() -> list[IssueComment]:
        marked = github.request(purpose, lambda: [c for c in issue.get_comments() if marker.marks(c.body)])
        # Anybody who can comment can copy a marker: edits are limited to comments of our own.
        return [comment for comment in marked if github.is_mine(comment.user, purpose)]

    def create() -> IssueComment | None:
        comment = github.attempt(purpose, lambda: issue.create_comment(body))
        # GitHub redirects the requests for a repository that has moved: nothing was created, and the answer
        # has no id.
        if comment is not None and not comment.id:
            raise build_moved_error(github, purpose)
        return comment

    comments, is_new = find_or_create(find, create)
    # Runs that overlap may each create one. All of them keep the oldest, so that they agree without a lock.
    oldest, *duplicates = sorted(comments, key=lambda comment: comment.id)
    is_changed = not is_same(oldest.body, body)
    if is_changed:
        github.request(purpose, lambda: oldest.edit(body))
    for comment in duplicates:
        github.request(purpose, partial(_delete, comment))
    return Publication("created" if is_new else "updated" if is_changed else "unchanged", oldest.html_url)


def build_moved_error(github: GitHub, purpose: RequestPurpose) -> ForgeError:
    """Return the error for a request to create something that GitHub only redirected."""
    return ForgeError(
        f"cannot {purpose.action}: {github.address.repository} has moved",
        hint="use its new name (--repository)",
    )


def _delete(comment: IssueComment) -> None:
    with suppress(UnknownObjectException):  # it was deleted by another run
        comment.delete()


_PERMISSION = "issues: write"


def publish_issue(
    github: GitHub, marker: Marker, title: str, text: str, labels: Sequence[str]
) -> Publication:
    """Create the open issue with this marker, or update it; of duplicates, keep the oldest.

    A closed issue stays closed: if the condition returns, it gets a new issue. GitHub does not notify anybody
    of an update.

    Args:
        marker: The marker of the issue.
        title: The title of the issue.
        labels: Labels that a new issue gets; those of an existing issue are not changed.

    Raises:
        ForgeError: GitHub rejects a request, or does not respond.
    """
    purpose = RequestPurpose(f"publish the issue {title!r}", _PERMISSION)
    body = marker.render_body(text)

    def create() -> Issue | None:
        issue = github.attempt(
            purpose, lambda: github.repository.create_issue(title=title, body=body, labels=[*labels])
        )
        if issue is not None and not issue.id:
            raise build_moved_error(github, purpose)
        return issue

    issues, is_new = find_or_create(lambda: _list_open_issues(github, marker, purpose), create)
    oldest, *duplicates = sorted(issues, key=lambda issue: issue.number)
    is_changed = oldest.title != title or not is_same(oldest.body, body)
    if is_changed:
        github.request(purpose, lambda: oldest.edit(title=title, body=body))
    for issue in duplicates:
        _close_issue(github, issue, marker, f"Duplicate of #{oldest.number}.", "not_planned")
    return Publication("created" if is_new else "updated" if is_changed else "unchanged", oldest.html_url)


def close_issues(github: GitHub, marker: Marker, text: str) -> list[Publication]:
    """Close all open issues with this marker, with a comment.

    Raises:
        ForgeError: GitHub rejects a request, or does not respond.
    """
    purpose = RequestPurpose("look for open issues", _PERMISSION)
    issues = _list_open_issues(github, marker, purpose)
    return [_close_issue(github, issue, marker, text, "completed") for issue in issues]


def _list_open_issues(github: GitHub, marker: Marker, purpose: RequestPurpose) -> list[Issue]:
    def list_marked() -> list[Issue]:
        marked = [i for i in github.repository.get_issues(state="open") if marker.marks(i.body)]
        # GitHub's API lists pull requests as issues too.
        return [issue for issue in marked if issue.pull_request is None]

    return [issue for issue in github.request(purpose, list_marked) if github.is_mine(issue.user, purpose)]


def _close_issue(github: GitHub, issue: Issue, marker: Marker, text: str, reason: str) -> Publication:
    # The comment first: if the second request is lost, the issue is still open and the next run does both.
    publish_comment(github, issue.number, replace(marker, part="closed"), text, permission=_PERMISSION)
    purpose = RequestPurpose(f"close #{issue.number}", _PERMISSION)
    github.request(purpose, lambda: issue.edit(state="closed", state_reason=reason))
    return Publication("closed", issue.html_url)
