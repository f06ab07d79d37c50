"""What the manifests declared where a branch began, and which changes of a plan the branch asks for.

Which changes of a plan a branch asks for, and which would be there without it: drift.

A reviewer answers for the edits of a branch. What the cluster owes to the manifests as they were before is
somebody else's, and must not be waved through with it.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kafkaform.config.manifests.loader import load
from kafkaform.config.settings import read_settings
from kafkaform.core.errors import InvalidInput
from kafkaform.core.model import (
    ChangeOrigin,
    Create,
    Delete,
    Diagnostic,
    Severity,
    Undeclared,
    Update,
)
from kafkaform.core.wording import listed
from kafkaform.resources import KINDS
from kafkaform.resources.topic.live import REPLICATION_FACTOR
from kafkaform.resources.topic.operations import PLACEMENT
from kafkaform.vcs.repository import Repository

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kafkaform.config.settings import Settings
    from kafkaform.core.model import (
        Desired,
        FieldChange,
        Plan,
        PlannedChange,
        ResourceRef,
    )


def attributed(plan: Plan, earlier: Iterable[Desired], desired: Iterable[Desired]) -> Plan:
    """Say of every change of a plan where it comes from.

    Args:
        plan: The plan for what the manifests declare now.
        earlier: What they declared before the branch.
        desired: What they declare now.
    """
    before = {declared.ref: declared for declared in earlier}
    now = {declared.ref: declared for declared in desired}
    changes = tuple(_attributed(planned, before, now.get(planned.ref)) for planned in plan.changes)
    dropped = [ref for ref in sorted(before.keys() - now.keys()) if before[ref].state is not None]
    notes = [_dropped(ref) for ref in dropped if ref in plan.unmanaged]
    notes += [
        _handed_over(before[ref], now[ref])
        for ref in sorted(before.keys() & now.keys())
        if "" not in (teams := {before[ref].intent.team, now[ref].intent.team}) and len(teams) > 1
    ]
    return replace(plan, changes=changes, diagnostics=(*notes, *plan.diagnostics))


def _attributed(
    planned: PlannedChange, before: Mapping[ResourceRef, Desired], now: Desired | None
) -> PlannedChange:
    earlier = before.get(planned.ref)
    match planned.change:
        case Create(ref=ref, state=state):
            had = earlier.state if earlier is not None and earlier.state is not None else None
            equal = KINDS[ref.kind].equal
            same = (
                []
                if had is None
                else [path for path, value in state.items() if equal(path, had.get(path), value)]
            )
            return _from(planned, same, whole=had is not None and len(same) == len(state))
        case Update(fields=fields):
            same = [field.path for field in fields if earlier is not None and _stood(field, earlier, now)]
            return _from(planned, same, whole=len(same) == len(fields))
        case Delete():
            return _from(planned, [], whole=earlier is not None and earlier.state is None)


def _stood(field: FieldChange, earlier: Desired, now: Desired | None) -> bool:
    """Whether the manifest asked for this value of the field before, too."""
    if earlier.state is None:
        return False
    if field.path == PLACEMENT and now is not None:
        return _places(earlier) == _places(now)
    if field.path in earlier.state:
        return KINDS[earlier.ref.kind].equal(field.path, earlier.state[field.path], field.after)
    return field.after is None and earlier.intent.undeclared is Undeclared.RESET


def _places(declared: Desired) -> object:
    """All that a manifest says that decides where replicas are to be."""
    state = declared.state or {}
    counts = [state.get(path) for path in ("partitions", REPLICATION_FACTOR, PLACEMENT)]
    return counts, declared.intent.spec.get(PLACEMENT)


def _from(planned: PlannedChange, same: list[str], *, whole: bool) -> PlannedChange:
    if whole:
        return replace(planned, origin=ChangeOrigin.DRIFT)
    if same:
        return replace(planned, origin=ChangeOrigin.MIXED, earlier=tuple(same))
    return replace(planned, origin=ChangeOrigin.BRANCH)


def _dropped(ref: ResourceRef) -> Diagnostic:
    return Diagnostic(
        "KF424",
        Severity.WARNING,
        f"{ref} is no longer declared: it stays on the cluster, unmanaged",
        None,
        "to delete it, keep its manifest with `state: absent`; to keep it, do nothing",
    )


def _handed_over(before: Desired, now: Desired) -> Diagnostic:
    """What is said of a resource that another team owns than before; it is about no change of the plan."""
    return Diagnostic(
        "KF440",
        Severity.WARNING,
        f"{now.ref} moves from team {before.intent.team} to {now.intent.team}",
        now.place("metadata.labels"),
        "ask both teams to approve it",
    )


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
            f"the changes caused by this branch are not known: at {ref}, {first.message}",
            None,
            "treat every change of this plan as caused by the branch",
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
    """Return the configuration file, where it is a part of the branch."""
    if settings.file is None:
        return []
    path = Path(settings.file) if settings.root is None else settings.root / Path(settings.file).name
    return [path] if path.resolve().is_relative_to(repository.root) else []


def describe_configuration(settings: Settings, cluster: str) -> Iterator[Diagnostic]:
    """Describe how the configuration of a branch that is not trusted differs, for a plan of one cluster."""
    difference = settings.branch
    if difference is None:
        return
    file = Path(str(settings.file)).name
    if difference.sections:
        yield Diagnostic(
            "KF425",
            Severity.WARNING,
            f"the branch changes {', '.join(sorted(difference.sections))} in {file}: "
            "this plan uses the branch's values",
            suggestion="review these lines, too: what they permit is not reported by this plan",
        )
    if difference.clusters:
        planned = cluster in difference.clusters
        names = listed([f"clusters.{name}" for name in sorted(difference.clusters)])
        yield Diagnostic(
            "KF425",
            Severity.ERROR if planned else Severity.WARNING,
            f"the branch changes {names} in {file}: "
            f"this plan uses the values of {settings.file}"
            + (", so an apply of the merged branch can differ from it" if planned else ""),
            suggestion="merge the change of clusters first, in a pull request of its own",
        )


def _folder(paths: Sequence[Path]) -> Path:
    """A folder that exists, at or above the first path."""
    path = paths[0].resolve()
    while not path.is_dir():
        path = path.parent
    return path
