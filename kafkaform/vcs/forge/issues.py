"""One open issue for a state that lasts: opened when it begins, kept up to date, closed when it has ended."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kafkaform.vcs.forge.comments import keep_comment, moved
from kafkaform.vcs.forge.failures import Purpose
from kafkaform.vcs.forge.keeping import Kept, find_or_create
from kafkaform.vcs.forge.marked import is_same

if TYPE_CHECKING:
    from collections.abc import Sequence

    from github.Issue import Issue

    from kafkaform.vcs.forge.client import GitHub
    from kafkaform.vcs.forge.marked import Marker

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
    purpose = Purpose(f"keep the issue {title!r}", _PERMISSION)
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
        _close(hub, other, marker, f"#{oldest.number} is about the same.", "not_planned")
    return Kept("created" if is_new else "updated" if is_changed else "unchanged", oldest.html_url)


def close_issues(hub: GitHub, marker: Marker, text: str) -> list[Kept]:
    """Close what is open of the marker, with a comment.

    Raises:
        ForgeError: GitHub refuses, or does not answer.
    """
    purpose = Purpose("look for open issues", _PERMISSION)
    return [_close(hub, issue, marker, text, "completed") for issue in _open(hub, marker, purpose)]


def _open(hub: GitHub, marker: Marker, purpose: Purpose) -> list[Issue]:
    def marked() -> list[Issue]:
        listed = [i for i in hub.repository.get_issues(state="open") if marker.marks(i.body)]
        return [issue for issue in listed if issue.pull_request is None]

    return [issue for issue in hub.ask(purpose, marked) if hub.is_mine(issue.user, purpose)]


def _close(hub: GitHub, issue: Issue, marker: Marker, text: str, reason: str) -> Kept:
    # The comment first: if the second request is lost, the issue is still open and the next run does both.
    keep_comment(hub, issue.number, replace(marker, part="closed"), text, permission=_PERMISSION)
    purpose = Purpose(f"close #{issue.number}", _PERMISSION)
    hub.ask(purpose, lambda: issue.edit(state="closed", state_reason=reason))
    return Kept("closed", issue.html_url)
