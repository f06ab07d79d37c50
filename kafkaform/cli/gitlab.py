"""`kafkaform gitlab`: what jobs do on GitLab."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from kafkaform.cli.github import comment_id_option, read_markdown, report_publication, text_argument
from kafkaform.cli.options import SectionedGroup
from kafkaform.cli.output import tell

if TYPE_CHECKING:
    from pathlib import Path

    from kafkaform.vcs.forge.markers import Marker


@click.group(cls=SectionedGroup)
def gitlab() -> None:
    """Comment on merge requests.

    The token is read from GITLAB_TOKEN, and GitLab's address from CI_API_V4_URL. If GitLab limits the rate or
    fails, the command prints a note, and retries for up to five minutes.
    """


@gitlab.command()
@text_argument
@click.option(
    "--merge-request",
    "number",
    type=click.IntRange(min=1),
    envvar="CI_MERGE_REQUEST_IID",
    show_envvar=True,
    required=True,
    metavar="N",
    help="The number of the merge request.",
)
@comment_id_option
@click.option(
    "--project",
    envvar="CI_PROJECT_ID",
    show_envvar=True,
    required=True,
    metavar="ID",
    help="The project: its number, or its path such as kafka/topics.",
)
def comment(file: Path, number: int, marker: Marker, project: str) -> None:
    """Post FILE.md ('-' for stdin) as a note on a merge request, or update it.

    The note is found by its id and updated in place. Only notes by the token's own account are ever changed.
    Text that is too long is cut, with a note.
    """
    from kafkaform.vcs.forge.gitlab import GitLabProject, publish_note

    # Read before the connection, so that an empty or missing file sends nothing.
    text = read_markdown(file)
    address = GitLabProject.from_environment(os.environ, project)
    report_publication("note", publish_note(address, number, marker, text, tell))
