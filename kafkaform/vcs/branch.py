"""The origin of each change of a plan: a branch, or drift that existed before it.

A reviewer approves the edits of a branch. Drift from the earlier manifests is marked, so that it is not
approved by accident.
"""

from __future__ import annotations

import shlex
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from kafkaform.config.manifests.loader import load
from kafkaform.config.settings import Settings, read_settings
from kafkaform.core.errors import InvalidInput
from kafkaform.core.model import (
    Create,
    Delete,
    Diagnostic,
    Recreate,
    ResourceRef,
    Severity,
    Undeclared,
    Update,
)
from kafkaform.core.plans import ChangeOrigin, Plan, PlannedChange
from kafkaform.core.printable import clipped
from kafkaform.core.units import word_size
from kafkaform.core.values import Value, replace
from kafkaform.core.wording import code, command, counted, listed, nearest, setting
from kafkaform.plan.planning import BEFORE_CHANGES
from kafkaform.plan.summary import DROPPED
from kafkaform.resources import KINDS, is_group, is_topic, list_references
from kafkaform.resources.base import Itemized
from kafkaform.resources.replicas.facts import PLACEMENT, REPLICATION_FACTOR
from kafkaform.resources.succession import CLOSE_WRITES
from kafkaform.resources.values import format_value, label
from kafkaform.rules import NOTES, RULES, RuleContext, check
from kafkaform.vcs.repository import Repository

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kafkaform.core.model import Desired, FieldChange, FieldValue


def attribute_changes(
    plan: Plan, earlier: Iterable[Desired], desired: Iterable[Desired], context: RuleContext
) -> Plan:
    """Return a plan with the origin of every change.

    Args:
        plan: The plan for `desired`.
        earlier: The declarations before the branch.
        desired: The declarations of the branch.
        context: The reading of the cluster, with the resources that only `earlier` has.
    """
    before = {declared.ref: declared for declared in earlier}
    now = {declared.ref: declared for declared in desired}
    changes = tuple(_attribute_change(planned, before, now.get(planned.ref)) for planned in plan.changes)
    added = [declared for ref, declared in now.items() if declared.state is not None and ref not in before]
    gone = sorted(_find_dropped(before.values(), now.values()))
    named_by: dict[ResourceRef, list[str]] = {}
    for declared in now.values() if gone else ():
        for ref in dict.fromkeys(list_references(declared)):
            named_by.setdefault(ref, []).append(str(declared.ref))
    # A manifest that is gone deletes nothing: its resource is on the cluster, and nobody looks after it.
    dropped = [
        _DroppedResource(before[ref], added, context, named_by.get(ref, []))
        for ref in gone
        if _is_left(before[ref], plan, context)
    ]
    # What is in use comes first: reports show the first of many in full.
    notes = [each.describe() for each in sorted(dropped, key=lambda each: (not each.is_used, -each.bytes))]
    notes += [
        _describe_handover(before[ref], now[ref])
        for ref in sorted(before.keys() & now.keys())
        if "" not in (teams := {before[ref].intent.team, now[ref].intent.team}) and len(teams) > 1
    ]
    notes += [note for planned in plan.changes for note in _find_manual_changes(planned, before, now)]
    return replace(plan, changes=changes, diagnostics=(*notes, *plan.diagnostics))


def _find_manual_changes(
    planned: PlannedChange, before: Mapping[ResourceRef, Desired], now: Mapping[ResourceRef, Desired]
) -> Iterator[Diagnostic]:
    """Find the fields that the branch changes, and whose live value was not declared before."""
    earlier, desired = before.get(planned.ref), now.get(planned.ref)
    if not isinstance(planned.change, Update) or earlier is None or earlier.state is None:
        return
    kind = KINDS[planned.ref.kind]
    for field in planned.change.fields:
        if (
            field.path == PLACEMENT
            or field.path not in earlier.state
            or _is_unchanged(field, earlier, desired)
        ):
            continue
        declared = earlier.state[field.path]
        compared = kind.field(field.path)
        values = [compared.visible(value) for value in (field.before, declared, field.after)]
        # Neither the branch nor its base explains the live value, as far as a reading shows it.
        if not compared.equal(values[1], values[0]):
            live, old, new = (format_value(planned.ref.kind, field.path, value).short for value in values)
            yield Diagnostic(
                "KF451",
                Severity.WARNING,
                f"{label(field.path)} is {live} on the cluster, and {old} was declared before this branch: "
                f"it was changed there, or {old} was never applied; this plan sets {new}",
                desired.locate(field.path) if desired is not None else None,
                f"find out which: {command('history', str(planned.ref))}",
                ref=planned.ref,
            )


def _attribute_change(
    planned: PlannedChange, before: Mapping[ResourceRef, Desired], now: Desired | None
) -> PlannedChange:
    earlier = before.get(planned.ref)
    match planned.change:
        case Create(ref=ref, state=state):
            had = earlier.state if earlier is not None and earlier.state is not None else None
            same = (
                []
                if had is None
                else [
                    path
                    for path, value in state.items()
                    if KINDS[ref.kind].field(path).equal(had.get(path), value)
                ]
            )
            return _set_origin(planned, same, whole=had is not None and len(same) == len(state))
        case Update(fields=fields):
            same = [
                field.path for field in fields if earlier is not None and _is_unchanged(field, earlier, now)
            ]
            return _set_origin(planned, same, whole=len(same) == len(fields))
        case Delete():
            return _set_origin(planned, [], whole=earlier is not None and earlier.state is None)
        case Recreate(uid=uid):
            asked = earlier is not None and earlier.intent.recreate == uid
            return _set_origin(planned, [], whole=asked)


def _is_unchanged(field: FieldChange, earlier: Desired, now: Desired | None) -> bool:
    """Return whether the earlier manifest already declared this value of the field."""
    if earlier.state is None:
        return False
    # The planner chooses the replicas: only what decides the choice can be compared.
    if field.path == PLACEMENT and now is not None:
        return _read_placement(earlier) == _read_placement(now)
    # A consent in the manifest is the reason for this change: it may set the live value again.
    if KINDS[earlier.ref.kind].field(field.path).equal(field.before, field.after):
        return now is not None and now.intent.allow == earlier.intent.allow
    if field.path in earlier.state:
        return KINDS[earlier.ref.kind].field(field.path).equal(earlier.state[field.path], field.after)
    # An undeclared config was already to be reset before the branch.
    return field.after is None and earlier.intent.undeclared is Undeclared.RESET


def _read_placement(declared: Desired) -> object:
    """Return all values of a manifest that decide the placement of replicas."""
    state = declared.state or {}
    counts = [state.get(path) for path in ("partitions", REPLICATION_FACTOR, PLACEMENT)]
    return counts, declared.intent.spec.get(PLACEMENT)


def _set_origin(planned: PlannedChange, same: list[str], *, whole: bool) -> PlannedChange:
    if whole:
        return replace(planned, origin=ChangeOrigin.DRIFT)
    if same:
        return replace(planned, origin=ChangeOrigin.MIXED, earlier=tuple(same))
    return replace(planned, origin=ChangeOrigin.BRANCH)


def _find_dropped(earlier: Iterable[Desired], desired: Iterable[Desired]) -> frozenset[ResourceRef]:
    """Return the resources that only the earlier manifests declare."""
    present = {declared.ref for declared in earlier if declared.state is not None}
    return frozenset(present.difference(declared.ref for declared in desired))


def _is_left(earlier: Desired, plan: Plan, context: RuleContext) -> bool:
    """Return whether what is no longer declared exists, or may: of items, such as ACLs, at least one."""
    ref, live = earlier.ref, context.live.get(earlier.ref)
    if live is not None and isinstance(KINDS[ref.kind], Itemized):
        return not live.state.keys().isdisjoint(earlier.state or ())
    return ref in plan.unmanaged or ref in context.invisible or live is not None


_MAX_NAME_LENGTH = 120


class _DroppedResource:
    """A resource that the branch no longer declares and that stays on the cluster.

    Attributes:
        successor: The resource of which the branch has the manifest in its place, as after a renaming.
        bytes: The size of its data, as far as it was read.
        contents: What it holds on the cluster: data, ACLs, members.
        readers: The live groups that read it, with the number of their members.
        named_by: The declared resources that name it.
    """

    def __init__(
        self, earlier: Desired, added: Sequence[Desired], context: RuleContext, named_by: list[str]
    ) -> None:
        self.ref = ref = earlier.ref
        kind, live = KINDS[ref.kind], context.live.get(ref)
        self.successor = _find_successor(earlier, added)
        self._is_visible = ref not in context.invisible
        # Only a topic's `closeWrites` declares an ACL of a principal, and keeps the others.
        self._is_closing = isinstance(kind, Itemized) and earlier.intent.undeclared is Undeclared.KEEP
        self.contents: list[str] = []
        size = context.facts.sizes.get(ref) if context.facts is not None else None
        self.bytes = size.bytes if size is not None else 0
        if size is not None:
            self.contents.append(word_size(size))
        if isinstance(kind, Itemized) and live is not None:
            self.contents += [path for path in sorted(earlier.state or ()) if path in live.state]
        members = getattr(live.live, "members", ()) if live is not None and is_group(ref) else ()
        if members:
            self.contents.append(counted(len(members), "member"))
        self.readers = [
            f"{clipped(name, _MAX_NAME_LENGTH)} ({counted(len(group.members), 'member')})"
            for name, group in sorted(context.groups.items())
            if is_topic(ref) and ref.name in group.topics
        ]
        self.named_by = [clipped(name, _MAX_NAME_LENGTH) for name in named_by]
        self.is_used = bool(self.readers or self.named_by or members)

    def describe(self) -> Diagnostic:
        """Describe what is left of it, what uses it, and how to go on."""
        kept = f", with {listed(self.contents)}" if self.contents else ""
        outcome = f"it stays on the cluster, unmanaged{kept}"
        if not self._is_visible:
            outcome = "this account cannot see whether it stays on the cluster"
        uses = [
            f"{verb} {listed(names)}"
            for verb, names in (("read by", self.readers), ("named by", self.named_by))
            if names
        ]
        renamed = f"renamed to {self.successor}? " if self.successor is not None else ""
        remedy = "to delete it, declare it with `state: absent`; to keep it, do nothing"
        if self._is_closing:
            remedy = f"write {setting(CLOSE_WRITES, 'false')}, until it is removed"
        if self.successor is not None:
            remedy = (
                "Kafka renames nothing: keep this manifest beside the new one until nothing uses "
                f"{self.ref.name}, then write `state: absent`"
            )
        return Diagnostic(
            DROPPED,
            Severity.WARNING,
            "; ".join([f"{renamed}{self.ref} is no longer declared: {outcome}", *uses]),
            None,
            remedy,
            ref=self.ref,
            by_branch=True,
        )


def _find_successor(earlier: Desired, added: Sequence[Desired]) -> ResourceRef | None:
    """Find the new declaration that an earlier one became: in the same file, or with the same values."""
    alike = [declared for declared in added if declared.ref.kind == earlier.ref.kind]
    file = earlier.location.file if earlier.location is not None else None
    same_file = [each for each in alike if each.location is not None and each.location.file == file]
    same_state = [each for each in alike if each.state == earlier.state]
    for candidates in (same_file, same_state):
        names = [declared.ref.name for declared in candidates]
        if name := nearest(earlier.ref.name, names):
            return ResourceRef(earlier.ref.kind, name)
    # Another name altogether: only if there is no other manifest that it can be.
    return same_file[0].ref if len(same_file) == 1 else None


def _describe_handover(before: Desired, now: Desired) -> Diagnostic:
    """Describe a change of the owning team, which is not a change of the plan."""
    return Diagnostic(
        "KF440",
        Severity.WARNING,
        f"{now.ref} moves from team {before.intent.team} to {now.intent.team}",
        now.locate("metadata.labels"),
        "ask both teams to approve it",
        by_branch=True,
    )


class BranchComparison(Value):
    """The declarations of manifests with and without the changes of a branch.

    Attributes:
        without: The declarations without the branch; None if they could not be read.
        desired: The declarations once the branch is merged.
        settings: The settings of the project without the branch.
        notes: Diagnostics about the branch itself, for a plan of `desired`.
    """

    without: Sequence[Desired] | None
    desired: Sequence[Desired]
    settings: Settings
    notes: tuple[Diagnostic, ...] = ()

    @property
    def dropped(self) -> frozenset[ResourceRef]:
        """The resources that the branch no longer declares."""
        return _find_dropped(self.without or (), self.desired)

    def attribute(self, plan: Plan, context: RuleContext) -> Plan:
        """Return the plan of `desired` with the origin of each change and of the findings of rules.

        Without the earlier manifests, the origins are unknown.

        Args:
            context: The context in which its rules were checked.
        """
        if self.without is not None:
            plan = self._mark_findings(plan, self.without, context)
            plan = attribute_changes(plan, self.without, self.desired, context)
        return replace(plan, diagnostics=(*self.notes, *plan.diagnostics))

    def _mark_findings(self, plan: Plan, without: Sequence[Desired], context: RuleContext) -> Plan:
        """Mark the findings on manifests and live resources that are not there without the branch."""
        earlier = replace(
            context,
            desired=tuple(sorted(without, key=lambda declared: declared.ref)),
            limits=self.settings.limits,
            changes=(),
        )
        findings = check(earlier, self.settings.rules, BEFORE_CHANGES, more=self.settings.policies)
        known = {(finding.code, finding.ref, finding.message) for finding in findings}
        return replace(
            plan,
            diagnostics=tuple(
                replace(finding, by_branch=True)
                if (finding.code, finding.ref, finding.message) not in known
                and finding.code not in NOTES
                # A code without a rule is that of a policy.
                and ((rule := RULES.get(finding.code)) is None or rule.stage in BEFORE_CHANGES)
                else finding
                for finding in plan.diagnostics
            ),
        )


def compare_branch(
    ref: str,
    desired: Sequence[Desired],
    paths: Sequence[Path],
    settings: Settings,
    environment: str | None,
    *,
    cluster: str | None = None,
    select: Callable[[ResourceRef], bool],
) -> BranchComparison:
    """Compare the declarations of the checked-out branch with those of its merge base and of `ref`.

    If `ref` is ahead, a plan of the branch's own manifests would undo what was merged since. Therefore
    declarations that the branch does not change are taken from `ref`, as a merge would do.

    Args:
        ref: The commit or branch that this branch will be merged into.
        desired: The declarations of the branch.
        paths: The files and folders of the manifests.
        settings: The current settings of the project.
        select: Returns whether the plan includes a resource.

    Raises:
        RepositoryError: The manifests are in no Git repository, or there is no such commit.
    """
    repository = Repository.find(_find_folder(paths))
    # Both: the merge base has what the branch started from, and the tip what it will be merged into.
    start, tip = repository.find_merge_base(ref), repository.resolve(ref)
    try:
        before, settings_before = _load_at(repository, start, paths, settings, (environment, cluster))
        since = before
        if start != tip:
            since, settings_before = _load_at(repository, tip, paths, settings, (environment, cluster))
    # The plan itself is fine: only the origin of its changes is unknown.
    except InvalidInput as error:
        first = error.problems[0]
        note = Diagnostic(
            "KF426",
            Severity.WARNING,
            f"cannot distinguish drift from the changes of this branch: at {ref}, {first.message}",
            None,
            "treat every change of this plan as caused by the branch",
        )
        return BranchComparison(None, desired, settings, (note,))
    if start == tip:
        return BranchComparison(before, desired, settings_before)
    start_selected, tip_selected = ([d for d in side if select(d.ref)] for side in (before, since))
    merged, taken, conflicts = merge_declarations(start_selected, tip_selected, desired)
    if not taken and not conflicts:
        return BranchComparison(since, merged, settings_before)
    ahead = counted(repository.count_commits(start, tip), "commit")
    used = f"this plan uses the manifests of {ref} for {listed(taken)}" if taken else ""
    both = f"both change {listed(conflicts)}: this plan uses the values of the branch" if conflicts else ""
    note = Diagnostic(
        "KF450",
        Severity.WARNING,
        f"{ref} is {ahead} ahead of this branch; {'; '.join(filter(None, (used, both)))}",
        None,
        f"rebase the branch: {code(f'git rebase {shlex.quote(ref)}')}",
    )
    return BranchComparison(since, merged, settings_before, (note,))


def find_changed_files(ref: str, paths: Sequence[Path], config_file: Path | None) -> frozenset[Path]:
    """Find the manifests and the configuration file that the checked-out branch changes.

    Args:
        ref: The commit or branch that this branch will be merged into.
        paths: The files and folders of the manifests.
        config_file: The configuration file; None if there is none.

    Returns:
        Absolute paths.

    Raises:
        RepositoryError: The manifests are in no Git repository, or there is no such commit.
    """
    repository = Repository.find(_find_folder(paths))
    files = [*paths, *([config_file] if config_file is not None else [])]
    return frozenset(
        repository.root / path for path in repository.find_changes(repository.find_merge_base(ref), files)
    )


def merge_declarations(
    before: Iterable[Desired], since: Iterable[Desired], desired: Iterable[Desired]
) -> tuple[list[Desired], list[str], list[str]]:
    """Merge the declarations of a branch with those of the branch that it started from, field by field.

    Args:
        before: The declarations at the merge base.
        since: The current declarations without the branch.
        desired: The declarations of the branch.

    Returns:
        The merged declarations; the resources with fields taken from `since`; and the resources of which both
        sides set a field to different values, where the branch's value is used.
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


def _declares_same(first: Desired | None, second: Desired | None) -> bool:
    if first is None or second is None:
        return first is second
    return first.state == second.state and first.intent == second.intent


def _merge_fields(old: Desired | None, theirs: Desired, mine: Desired) -> tuple[Desired, bool]:
    """Merge two changes of one resource; also return whether they set a field to different values."""
    # Intents (labels, consents, waivers) are not merged field by field: those of the branch hold if it
    # changed them.
    intent = theirs.intent if old is not None and mine.intent == old.intent else mine.intent
    if mine.state is None or theirs.state is None:
        return replace(mine, intent=intent), not _declares_same(theirs, mine) and not _declares_same(
            old, theirs
        )
    before = (old.state if old is not None else None) or {}
    state: dict[str, FieldValue] = {}
    conflicting = False
    for path in {**theirs.state, **mine.state}:
        own, upstream, base = ((path in side, side.get(path)) for side in (mine.state, theirs.state, before))
        present, value = upstream if own == base else own
        # Both sides changed the field, and not to the same value.
        conflicting |= own != base != upstream != own
        if present:
            state[path] = value
    return replace(mine, state=state, intent=intent), conflicting


def _load_at(
    repository: Repository,
    commit: str,
    paths: Sequence[Path],
    settings: Settings,
    scopes: tuple[str | None, str | None],
) -> tuple[list[Desired], Settings]:
    """Load the declarations of the paths and the settings as they were at a commit; raises InvalidInput."""
    config = _find_configuration(settings, repository)
    with tempfile.TemporaryDirectory(prefix="kafkaform-") as folder:
        # Resolved: on macOS, temporary folders lie behind a link, and locations would not be relative to it.
        then = Path(folder).resolve()
        repository.export(commit, [*paths, *config], then)
        for exported in [then / repository.relative_path(path) for path in config[:1]]:
            # Defaults and environments of that commit: a change of them is a change of the branch.
            settings = read_settings(exported) if exported.exists() else settings
        there = [then / repository.relative_path(path) for path in paths]
        # A folder that did not exist at that commit, or had no manifest, is no problem of this branch.
        existing = [path for path in there if path.is_file() or any(path.rglob("*.y*ml"))]
        context = replace(
            settings.build_context(*scopes),
            root=then,
            fetch=lambda path: repository.export(commit, [repository.root / path.relative_to(then)], then),
        )
        return load(existing, context) if existing else [], settings


def _find_configuration(settings: Settings, repository: Repository) -> list[Path]:
    """Return the configuration file and that of its profiles, if they are in the repository."""
    if settings.file is None:
        return []
    path = Path(settings.file) if settings.root is None else settings.root / Path(settings.file).name
    files = [path, settings.profile_file] if isinstance(settings.profile_file, Path) else [path]
    return [file for file in files if file.resolve().is_relative_to(repository.root)]


def describe_configuration(settings: Settings, cluster: str) -> Iterator[Diagnostic]:
    """Describe how the configuration of an untrusted branch differs, for a plan of one cluster."""
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
            suggestion="review these lines too: this plan does not report what they permit",
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
            suggestion="merge the change of clusters first, in its own pull request",
        )


def _find_folder(paths: Sequence[Path]) -> Path:
    """Return the nearest existing folder at or above the first path."""
    path = paths[0].resolve()
    while not path.is_dir():
        path = path.parent
    return path
