"""`kafkaform ci`: what jobs do on GitHub and GitLab."""

from __future__ import annotations

import os
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafkaform.cli.options import SectionedGroup
from kafkaform.cli.output import tell
from kafkaform.core.errors import ForgeError, KafkaformError, UsageError
from kafkaform.core.files import MAX_FILE_BYTES, read_file, write_file
from kafkaform.core.printable import printable
from kafkaform.core.wording import command

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaform.vcs.forge.client import GitHub
    from kafkaform.vcs.forge.markers import Marker
    from kafkaform.vcs.forge.publishing import Publication

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_ARTEFACT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_WORKFLOW = re.compile(r"[A-Za-z0-9._-]+\.ya?ml")

GITHUB = "github"
GITLAB = "gitlab"
_SIGNS = (
    {GITHUB: "GITHUB_ACTIONS", GITLAB: "GITLAB_CI"},
    {GITHUB: "GITHUB_REPOSITORY", GITLAB: "CI_PROJECT_ID"},
    {GITHUB: "GITHUB_TOKEN", GITLAB: "GITLAB_TOKEN"},
)
"""The variables that show the forge: a job's own, then those that somebody sets elsewhere."""

_forge_option = click.option(
    "--forge", type=click.Choice([GITHUB, GITLAB]), help="The forge.  [default: that of this CI job]"
)
_repository = click.option(
    "--repository",
    "--project",
    metavar="OWNER/NAME",
    help="The repository; on GitLab, the project's path or number.  [default: that of this CI job]",
)


def _build_pattern_check(pattern: re.Pattern[str], description: str) -> Any:
    def check(_context: click.Context, parameter: click.Parameter, value: str) -> str:
        if not pattern.fullmatch(value):
            raise UsageError(f"{parameter.opts[0]} {value!r} is not {description}")
        return value

    return check


def _parse_marker(_context: click.Context, _parameter: click.Parameter, value: str) -> Marker:
    from kafkaform.vcs.forge.markers import Marker

    try:
        return Marker(value)
    except ValueError as error:
        raise UsageError(f"--id: {error}") from error


@click.group(cls=SectionedGroup)
def ci() -> None:
    """Comment on pull requests, post issues, fetch reviewed plans.

    The token is read from GITHUB_TOKEN or GITLAB_TOKEN, and the forge's address from GITHUB_API_URL or
    CI_API_V4_URL.
    """


@ci.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True), metavar="FILE.md")
@click.option(
    "--pull-request",
    "--merge-request",
    "number",
    type=click.IntRange(min=1),
    envvar="CI_MERGE_REQUEST_IID",
    show_envvar=True,
    required=True,
    metavar="N",
    help="The number of the pull or merge request.",
)
@click.option(
    "--id",
    "marker",
    default="plan",
    show_default=True,
    callback=_parse_marker,
    help="The id of the comment, such as plan-prod.",
)
@_forge_option
@_repository
def comment(file: Path, number: int, marker: Marker, forge: str | None, repository: str | None) -> None:
    """Post a comment on a pull or merge request, or update it.

    FILE.md is its text, or - for standard input; text that is too long is cut, with a note. Only comments by
    the token's own account are ever changed.
    """
    # Read before the connection, so that an empty or missing file sends nothing.
    text = _read_markdown(file)
    if _choose_forge(forge, os.environ) == GITLAB:
        from kafkaform.vcs.forge.gitlab import GitLabProject, publish_note

        address = GitLabProject.from_environment(os.environ, repository)
        _report_publication("note", publish_note(address, number, marker, text, tell))
        return
    with _connect(repository) as hub:
        from kafkaform.vcs.forge.comments import publish_comment

        _report_publication("comment", publish_comment(hub, number, marker, text))


@ci.command()
@click.argument(
    "file",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    metavar="[FILE.md]",
    required=False,
)
@click.option(
    "--id", "marker", required=True, callback=_parse_marker, help="The id of the issue, such as drift-prod."
)
@click.option("--title", help="The issue's title. Required without --close.")
@click.option("--label", "labels", multiple=True, help="A label for a new issue (repeatable).")
@click.option("--close", "is_over", is_flag=True, help="Close the issue, if one is open.")
@_forge_option
@_repository
def issue(
    file: Path | None,
    marker: Marker,
    title: str | None,
    labels: tuple[str, ...],
    is_over: bool,
    forge: str | None,
    repository: str | None,
) -> None:
    """Post an issue of GitHub, update it, or close it.

    FILE.md is its text, or - for standard input. An update sends no notification. A closed issue stays
    closed: a new one is opened.
    """
    if is_over and (file or title or labels):
        raise UsageError("--close takes no FILE.md, --title or --label")
    if not is_over and (file is None or not title):
        raise UsageError("FILE.md and --title are required", hint="or use --close to close the issue")
    _require_github(forge, "issue")
    text = _read_markdown(file) if file is not None else ""
    with _connect(repository) as hub:
        from kafkaform.vcs.forge.comments import close_issues, publish_issue

        if title:
            _report_publication("issue", publish_issue(hub, marker, title, text, labels))
            return
        when = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        run = f" ({hub.address.run_url})" if hub.address.run_url else ""
        # All open issues with the marker are closed: two jobs at the same time may have opened one each.
        closed = close_issues(hub, marker, f"Clean since {when}{run}.")
    for publication in closed:
        _report_publication("issue", publication)
    if not closed:
        click.echo("no issue is open")


@ci.command("reviewed-plan")
@click.option(
    "--commit",
    required=True,
    callback=_build_pattern_check(_COMMIT, "a full commit id"),
    metavar="SHA",
    help="The full id of the merge commit: GITHUB_SHA of a push.",
)
@click.option(
    "--artifact",
    "prefix",
    required=True,
    callback=_build_pattern_check(_ARTEFACT, "the name of an artifact"),
    metavar="NAME",
    help="The artifact's name without its '-NUMBER-COMMIT' suffix, such as kafkaform-plan-prod.",
)
@click.option(
    "--workflow",
    default="plan.yml",
    show_default=True,
    callback=_build_pattern_check(_WORKFLOW, "the file name of a workflow"),
    help="The workflow that created it, on pull_request_target.",
)
@click.option("--branch", help="The branch that was merged into.  [default: the default branch]")
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    metavar="PLAN.json",
    help="The file to save the plan to.",
)
@_forge_option
@_repository
def reviewed_plan(
    commit: str,
    prefix: str,
    workflow: str,
    branch: str | None,
    out: Path,
    forge: str | None,
    repository: str | None,
) -> None:
    """Fetch the reviewed plan of a merged commit from GitHub.

    `kafkaform apply --reviewed` compares with it. Exits 1 with a reason if there is none.
    """
    _require_github(forge, "reviewed-plan")
    with _connect(repository) as hub:
        from kafkaform.vcs.forge.reviewed_plan import fetch_reviewed_plan

        reviewed = fetch_reviewed_plan(hub, commit, prefix, workflow, branch)
    write_file(out, reviewed.plan)
    line = f"{out}: the plan of #{reviewed.pull_request} at {reviewed.head[:12]}, made by {reviewed.run_url}"
    click.echo(printable(line))


def _choose_forge(given: str | None, environment: Mapping[str, str]) -> str:
    """Return the forge: as given, or that of this job.

    Raises:
        UsageError: The environment is that of no forge, or of both.
    """
    candidates = [[forge for forge, variable in signs.items() if variable in environment] for signs in _SIGNS]
    forge = given or next((forges[0] for forges in candidates if len(forges) == 1), None)
    if forge is None:
        raise UsageError(
            "no forge is given, and this is not a CI job of one",
            hint=f"give --forge {GITHUB} with GITHUB_TOKEN set, or --forge {GITLAB} with GITLAB_TOKEN",
        )
    return forge


def _require_github(forge: str | None, name: str) -> None:
    if _choose_forge(forge, os.environ) != GITHUB:
        raise UsageError(
            f"{command('ci', name)} works on GitHub, not on GitLab", hint="`ci comment` works on both"
        )


def _connect(repository: str | None) -> GitHub:
    from kafkaform.vcs.forge.address import Address

    address = Address.from_environment(os.environ, repository)
    try:
        from kafkaform.vcs.forge.client import GitHub
    except ModuleNotFoundError as error:
        # A missing dependency of PyGithub is another error, and keeps its name.
        if error.name != "github":
            raise
        raise ForgeError(
            "`kafkaform ci` needs PyGithub for GitHub, which is not installed",
            hint="`pip install 'kafkaform[github]'`",
        ) from error
    return GitHub(address, tell)


def _read_markdown(file: Path) -> str:
    """Read the text of a comment; raises KafkaformError if there is none."""
    try:
        text = sys.stdin.read(MAX_FILE_BYTES) if str(file) == "-" else read_file(file).decode("utf-8")
    except OSError as error:
        raise KafkaformError(f"{file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise KafkaformError(f"{file}: not UTF-8") from error
    # An empty file is usually a failed step before this one. It must not replace a comment with nothing.
    if not text.strip():
        raise KafkaformError(f"{file} is empty; nothing was sent")
    return text


def _report_publication(noun: str, publication: Publication) -> None:
    """Print what was done, and where."""
    click.echo(printable(f"{noun} {publication.outcome}: {publication.url}"))
