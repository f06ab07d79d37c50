"""What the manifests declared where a branch began, and what of a branch is not read."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kafkaform.config.manifests.files import CONFIG_FILE
from kafkaform.config.manifests.loader import load
from kafkaform.config.settings import read_settings
from kafkaform.core.errors import InvalidInput
from kafkaform.core.model import Diagnostic, Severity
from kafkaform.vcs.attribution import attributed
from kafkaform.vcs.repository import Repository

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafkaform.config.settings import Settings
    from kafkaform.core.model import Desired, Plan


def against_branch(
    plan: Plan,
    desired: Iterable[Desired],
    ref: str,
    paths: Sequence[Path],
    settings: Settings,
    environment: str | None,
) -> Plan:
    """The plan, with the origin of each change.

    Where what was declared before cannot be read, nothing is attributed, and the plan says so.

    Args:
        plan: The plan.
        desired: What the manifests declare now.
        ref: A commit or branch; what counts is where the checked out branch left it.
        paths: Where the manifests are now.
        settings: What the project says now.
        environment: The chosen environment.

    Raises:
        RepositoryError: The manifests are in no Git repository, or there is no such commit.
    """
    try:
        earlier = declared_at(ref, paths, settings, environment)
    except InvalidInput as error:
        first = error.problems[0]
        note = Diagnostic(
            "KF426",
            Severity.WARNING,
            f"which changes this branch asks for is not known: at {ref}, {first.message}",
            None,
            "judge every change of this plan as if the branch asked for it",
        )
        return replace(plan, diagnostics=(note, *plan.diagnostics))
    return attributed(plan, earlier, desired)


def declared_at(
    ref: str, paths: Sequence[Path], settings: Settings, environment: str | None
) -> list[Desired]:
    """What the manifests at or below the paths declared where this branch left `ref`.

    Raises:
        InvalidInput: They were not valid.
        RepositoryError: The manifests are in no Git repository, or there is no such commit.
    """
    repository = Repository.at(_folder(paths))
    commit = repository.merge_base(ref)
    config = _own_configuration(settings, repository)
    with tempfile.TemporaryDirectory(prefix="kafkaform-") as folder:
        then = Path(folder).resolve()
        repository.export(commit, [*paths, *config], then)
        for exported in [then / repository.inside(path) for path in config]:
            settings = read_settings(exported) if exported.exists() else settings
        there = [then / repository.inside(path) for path in paths]
        existing = [path for path in there if path.is_file() or any(path.rglob("*.y*ml"))]
        return load(existing, replace(settings.context(environment), root=then)) if existing else []


def _own_configuration(settings: Settings, repository: Repository) -> list[Path]:
    """The configuration file, where it is a part of the branch."""
    if settings.file is None or settings.root is not None:
        return []
    path = Path(settings.file)
    return [path] if path.resolve().is_relative_to(repository.root) else []


def ignored_configuration(settings: Settings) -> Diagnostic | None:
    """What is said where the manifests' folder has a configuration of its own that is not the one in use."""
    if settings.root is None or not (theirs := settings.root / CONFIG_FILE).is_file():
        return None
    if settings.file is not None and theirs.read_bytes() == Path(settings.file).read_bytes():
        return None
    return Diagnostic(
        "KF425",
        Severity.WARNING,
        f"the branch has another {CONFIG_FILE}, which is not read: this is by {settings.file or 'none'}",
        None,
        "merge the configuration first, in a pull request of its own",
    )


def _folder(paths: Sequence[Path]) -> Path:
    """A folder that exists, at or above the first path."""
    path = paths[0].resolve()
    while not path.is_dir():
        path = path.parent
    return path
