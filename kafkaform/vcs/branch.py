"""The changes of a plan that a branch causes, and those that are not caused by it: drift.

A reviewer answers for the edits of a branch. What the cluster owes to the manifests as they were before is
somebody else's, and must not be waved through with it.
"""

from __future__ import annotations

import shlex
import tempfile
from dataclasses import dataclass, replace
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
from kafkaform.core.wording import command, counted, listed
from kafkaform.resources import KINDS
from kafkaform.resources.topic.live import REPLICATION_FACTOR
from kafkaform.resources.topic.operations import PLACEMENT
from kafkaform.resources.values import label, single
from kafkaform.vcs.repository import Repository

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kafkaform.config.settings import Settings
    from kafkaform.core.model import (
        Desired,
        FieldChange,
        FieldValue,
        Plan,
        PlannedChange,
        ResourceRef,
    )


def attribute_changes(plan: Plan, earlier: Iterable[Desired], desired: Iterable[Desired]) -> Plan:
    """Say of every change of a plan where it comes from.

    Args:
        plan: The plan for what the manifests declare now.
        earlier: What they declared before the branch.
        desired: What they declare now.
    """
    before = {declared.ref: declared for declared in earlier}
    now = {declared.ref: declared for declared in desired}
    changes = tuple(_attribute_change(planned, before, now.get(planned.ref)) for planned in plan.changes)
    dropped = [ref for ref in sorted(before.keys() - now.keys()) if before[ref].state is not None]
    notes = [_describe_dropped(ref) for ref in dropped if ref in plan.unmanaged]
    notes += [
        _describe_handover(before[ref], now[ref])
        for ref in sorted(before.keys() & now.keys())
        if "" not in (teams := {before[ref].intent.team, now[ref].intent.team}) and len(teams) > 1
    ]
    notes += [note for planned in plan.changes for note in _changed_by_hand(planned, before, now)]
    return replace(plan, changes=changes, diagnostics=(*notes, *plan.diagnostics))


def _changed_by_hand(
    planned: PlannedChange, before: Mapping[ResourceRef, Desired], now: Mapping[ResourceRef, Desired]
) -> Iterator[Diagnostic]:
    """Find the fields that the branch changes, and whose live value is not what was declared before it."""
    earlier, desired = before.get(planned.ref), now.get(planned.ref)
    if not isinstance(planned.change, Update) or earlier is None or earlier.state is None:
        return
    kind = KINDS[planned.ref.kind]
    for field in planned.change.fields:
        if field.path == PLACEMENT or field.path not in earlier.state or _stood(field, earlier, desired):
            continue
        declared = earlier.state[field.path]
        if not kind.equal(field.path, declared, field.before):
            live, old, new = (
                single(planned.ref.kind, field.path, value).short
                for value in (field.before, declared, field.after)
            )
            yield Diagnostic(
                "KF451",
                Severity.WARNING,
                f"{label(field.path)} is {live} on the cluster, and {old} was declared before this branch: "
                f"somebody changed it on the cluster; this plan sets {new}",
                desired.place(field.path) if desired is not None else None,
                f"find out why it was changed: {command('history', str(planned.ref))}",
                ref=planned.ref,
            )


def _attribute_change(
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
            return _set_origin(planned, same, whole=had is not None and len(same) == len(state))
        case Update(fields=fields):
            same = [field.path for field in fields if earlier is not None and _stood(field, earlier, now)]
            return _set_origin(planned, same, whole=len(same) == len(fields))
        case Delete():
            return _set_origin(planned, [], whole=earlier is not None and earlier.state is None)


def _stood(field: FieldChange, earlier: Desired, now: Desired | None) -> bool:
    """Tell whether the manifest asked for this value of the field before, too."""
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


def _set_origin(planned: PlannedChange, same: list[str], *, whole: bool) -> PlannedChange:
    if whole:
        return replace(planned, origin=ChangeOrigin.DRIFT)
    if same:
        return replace(planned, origin=ChangeOrigin.MIXED, earlier=tuple(same))
    return replace(planned, origin=ChangeOrigin.BRANCH)


def _describe_dropped(ref: ResourceRef) -> Diagnostic:
    return Diagnostic(
        "KF424",
        Severity.WARNING,
        f"{ref} is no longer declared: it stays on the cluster, unmanaged",
        None,
        "to delete it, keep its manifest with `state: absent`; to keep it, do nothing",
    )


def _describe_handover(before: Desired, now: Desired) -> Diagnostic:
    """Describe a resource that another team owns than before; it is about no change of the plan."""
    return Diagnostic(
        "KF440",
        Severity.WARNING,
        f"{now.ref} moves from team {before.intent.team} to {now.intent.team}",
        now.place("metadata.labels"),
        "ask both teams to approve it",
    )


@dataclass(frozen=True, slots=True)
class BranchComparison:
    """The declarations of manifests with and without the changes of a branch.

    Attributes:
        without: What is declared without the branch; None if it could not be read.
        desired: What is declared once the branch is merged.
        notes: What a plan of `desired` says of the branch itself.
    """

    without: Sequence[Desired] | None
    desired: Sequence[Desired]
    notes: tuple[Diagnostic, ...] = ()

    def attribute(self, plan: Plan) -> Plan:
        """Return the plan of `desired` with the origin of each change; with none where it is not known."""
        known = plan if self.without is None else attribute_changes(plan, self.without, self.desired)
        return replace(known, diagnostics=(*self.notes, *known.diagnostics))


def compare_branch(
    ref: str,
    desired: Sequence[Desired],
    paths: Sequence[Path],
    settings: Settings,
    environment: str | None,
    *,
    select: Callable[[ResourceRef], bool],
) -> BranchComparison:
    """Compare what the checked out branch declares with what it started from, and with what `ref` has since.

    A branch that is behind would undo what was merged since, if its manifests were planned as they are.
    Therefore what it does not change is taken from `ref`, as a merge would do.

    Args:
        ref: The commit or branch that this branch is to be merged into.
        desired: What the manifests declare now.
        paths: Where the manifests are.
        settings: What the project says now.
        environment: The chosen environment.
        select: Which resources the plan is about.

    Raises:
        RepositoryError: The manifests are in no Git repository, or there is no such commit.
    """
    repository = Repository.at(_folder(paths))
    start, tip = repository.merge_base(ref), repository.resolve(ref)
    try:
        before = _declared_at(repository, start, paths, settings, environment)
        since = before if start == tip else _declared_at(repository, tip, paths, settings, environment)
    except InvalidInput as error:
        first = error.problems[0]
        note = Diagnostic(
            "KF426",
            Severity.WARNING,
            f"the changes caused by this branch are not known: at {ref}, {first.message}",
            None,
            "treat every change of this plan as caused by the branch",
        )
        return BranchComparison(None, desired, (note,))
    if start == tip:
        return BranchComparison(before, desired)
    start_selected, tip_selected = ([d for d in side if select(d.ref)] for side in (before, since))
    merged, taken, conflicts = merge_declarations(start_selected, tip_selected, desired)
    if not taken and not conflicts:
        return BranchComparison(since, merged)
    ahead = counted(repository.count_commits(start, tip), "commit")
    used = f"this plan uses the manifests of {ref} for {listed(taken)}" if taken else ""
    both = f"both change {listed(conflicts)}: this plan uses the values of the branch" if conflicts else ""
    note = Diagnostic(
        "KF450",
        Severity.WARNING,
        f"{ref} is {ahead} ahead of this branch; {'; '.join(filter(None, (used, both)))}",
        None,
        f"rebase the branch: git rebase {shlex.quote(ref)}",
    )
    return BranchComparison(since, merged, (note,))


def find_changed_files(ref: str, paths: Sequence[Path], config_file: Path | None) -> frozenset[Path]:
    """Find the manifests, and the configuration, that the checked out branch changes.

    Args:
        ref: The commit or branch that this branch is to be merged into.
        paths: Where the manifests are.
        config_file: The configuration; None if there is none.

    Returns:
        Their absolute paths.

    Raises:
        RepositoryError: The manifests are in no Git repository, or there is no such commit.
    """
    repository = Repository.at(_folder(paths))
    files = [*paths, *([config_file] if config_file is not None else [])]
    return frozenset(repository.root / path for path in repository.changed(repository.merge_base(ref), files))


def merge_declarations(
    before: Iterable[Desired], since: Iterable[Desired], desired: Iterable[Desired]
) -> tuple[list[Desired], list[str], list[str]]:
    """Merge what a branch declares with what was declared elsewhere since it started, field by field.

    Args:
        before: What was declared where the branch started.
        since: What is declared by now without the branch.
        desired: What the branch declares.

    Returns:
        What is declared by both; the resources of which something is taken from `since`, and those of
        which both changed the same field to different values, where the branch's value is kept.
    """
    start, tip, ours = ({d.ref: d for d in side} for side in (before, since, desired))
    merged, taken, conflicts = [], [], []
    for ref in sorted({*tip, *ours}):
        old, theirs, mine = start.get(ref), tip.get(ref), ours.get(ref)
        if mine is not None and theirs is not None and not (_declares_same(old, mine)):
            both, conflicting = _merge_fields(old, theirs, mine)
            merged.append(both)
            if conflicting:
                conflicts.append(str(ref))
            elif not _declares_same(both, mine):
                taken.append(str(ref))
        elif _declares_same(old, mine):
            if theirs is not None:
                merged.append(theirs)
            if not _declares_same(old, theirs):
                taken.append(str(ref))
        elif mine is not None:
            merged.append(mine)
    return merged, taken, conflicts


def _declares_same(one: Desired | None, other: Desired | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.state == other.state and one.intent == other.intent


def _merge_fields(old: Desired | None, theirs: Desired, mine: Desired) -> tuple[Desired, bool]:
    """Merge two changes of one resource; whether both gave some field different values."""
    intent = theirs.intent if old is not None and mine.intent == old.intent else mine.intent
    if mine.state is None or theirs.state is None:
        return replace(mine, intent=intent), not _declares_same(theirs, mine) and not _declares_same(
            old, theirs
        )
    before = (old.state if old is not None else None) or {}
    state: dict[str, FieldValue] = {}
    conflicting = False
    for path in {**theirs.state, **mine.state}:
        here, there, then = ((path in side, side.get(path)) for side in (mine.state, theirs.state, before))
        present, value = there if here == then else here
        conflicting |= here != then != there != here
        if present:
            state[path] = value
    return replace(mine, state=state, intent=intent), conflicting


def _declared_at(
    repository: Repository, commit: str, paths: Sequence[Path], settings: Settings, environment: str | None
) -> list[Desired]:
    """Return what the manifests at or below the paths declared at a commit; raises InvalidInput."""
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
