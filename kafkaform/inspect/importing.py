"""Import: manifest files from a reading of a live cluster, checked by the planner. Pure functions.

A plan that is made right after an import, with the same defaults, is empty. Resources for which it is not
are listed. The files of another tool are converted into the reading of a cluster that it made: see
`kafkaform.inspect.importers`.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kafkaform.config.manifest_text import (
    NO_ADDITIONS,
    build_live_manifest,
    choose_file_names,
    get_prefix,
    render_schema_line,
)
from kafkaform.config.manifests.loader import MAX_FILE_BYTES, Context, merge
from kafkaform.config.manifests.yaml12 import MAX_BYTES
from kafkaform.core.errors import KafkaformError, Problem
from kafkaform.core.model import NOT_KNOWN, UNLISTED, Desired, Facts, Severity
from kafkaform.core.schema_files import first_problem
from kafkaform.core.values import Value, field, replace
from kafkaform.core.wording import counted
from kafkaform.plan.difference import diff
from kafkaform.plan.policy import is_own
from kafkaform.resources import GROUP, KINDS, TOPIC, is_group, is_topic
from kafkaform.resources.base import Itemized, WholeChecked
from kafkaform.resources.values import fields_of, label
from kafkaform.rules import RULES, RuleContext
from kafkaform.rules.waivers import WAIVER_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from kafkaform.config.manifest_text import Additions, LiveManifest
    from kafkaform.core.model import Location, Observation, Observed, ResourceRef
    from kafkaform.inspect.resource_status import Selection

_COLLISION = "KF102"

ODD_VALUE = "it has a value that no manifest can declare"

NOTHING_ADDED: Mapping[ResourceRef, Additions] = MappingProxyType({})


class FileGrouping(StrEnum):
    """The division of manifests into files."""

    TOPIC = "topic"
    PREFIX = "prefix"


class ImportLayout(Value):
    """The layout of the files of an import.

    Attributes:
        folder: The folder of the files.
        by: The division of manifests into files.
        schemas: The folder of the manifest schemas, for the first line of each file.
        overwrite: Whether existing files may be replaced.
        labels: The labels of every manifest.
    """

    folder: Path
    by: FileGrouping = FileGrouping.TOPIC
    schemas: Path | None = None
    overwrite: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)


class ImportedFile(Value):
    """A file of manifests and the resources in it, in order; or a text that a manifest names."""

    path: Path
    text: str
    refs: tuple[ResourceRef, ...]


class Import(Value):
    """The result of an import.

    Attributes:
        files: The files, by path.
        ignored: Selected resources that `ignore` of kafkaform.yaml excludes.
        internal: Selected resources that belong to Kafka or kafkaform.
        declared: Resources that a manifest already declares, and where.
        idle: Groups that no manifest can declare, because they read no topic.
        partial: Values of resources that their manifests leave out, a line each.
        not_converged: Resources for which a plan will still show changes, and the fields.
        unread: Resources that could not be read in full, and why.
        undeclarable: Resources that no manifest can declare, and why.
        notes: Other notes on the reading, a line each.
        is_complete: Whether this version knows everything that the cluster has, and all services listed it.
        unconverted: Parts of the files of another tool that have no counterpart.
        support: Other files that are written with them: schemas for editors, and .gitignore.
        ignored_by_default: Whether kafkaform.yaml has no `ignore` of its own.
    """

    files: tuple[ImportedFile, ...] = ()
    ignored: tuple[ResourceRef, ...] = ()
    internal: tuple[ResourceRef, ...] = ()
    declared: Mapping[ResourceRef, Location | None] = field(default_factory=dict)
    idle: tuple[ResourceRef, ...] = ()
    partial: tuple[tuple[ResourceRef, str], ...] = ()
    not_converged: Mapping[ResourceRef, str] = field(default_factory=dict)
    unread: Mapping[ResourceRef, str] = field(default_factory=dict)
    undeclarable: Mapping[ResourceRef, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    is_complete: bool = True
    unconverted: tuple[Problem, ...] = ()
    support: tuple[Path, ...] = ()
    ignored_by_default: bool = False

    @property
    def refs(self) -> tuple[ResourceRef, ...]:
        """The resources that were imported."""
        return tuple(ref for file in self.files for ref in file.refs)


def make_import(
    observation: Observation,
    selection: Selection,
    declared: Mapping[ResourceRef, Location | None],
    context: Context,
    layout: ImportLayout,
    additions: Mapping[ResourceRef, Additions] = NOTHING_ADDED,
) -> Import:
    """Make manifest files of live resources.

    Args:
        observation: A reading of the cluster, with the details of every selected resource.
        selection: The resources to import.
        declared: The resources that manifests already declare, and where.
        context: The context of the manifests; values that equal its defaults are left out.
        layout: The layout of the files.
        additions: The parts of manifests that no cluster stores.

    Raises:
        KafkaformError: A file would exceed the size limit of manifests.
    """
    matching = sorted(ref for ref in observation.inventory if _matches_selection(ref, selection))
    chosen = {ref for ref in matching if selection.takes(ref)}
    # Topics of Kafka, and kafkaform's own: their owners create and configure them.
    internal = {ref for ref in chosen if is_own(ref) or _is_internal(observation.resources.get(ref))}
    paths = _choose_paths(chosen - internal, layout)
    already_declared = {
        ref: location
        for ref, location in declared.items()
        if ref in paths and _keeps_manifest(location, paths[ref], layout)
    }
    # In a fixed order, so that two imports of one cluster write the same files.
    wanted = [ref for ref in sorted(paths) if ref not in already_declared]
    unread = {ref: reason for ref in wanted if (reason := _explain_unread(ref, observation)) is not None}
    readable = [ref for ref in wanted if ref in observation.resources and ref not in unread]
    idle = [ref for ref in readable if is_group(ref) and GROUP.is_idle(observation.resources[ref])]
    manifests = {
        ref: _build_manifest(
            observation.resources[ref], context, _add_labels(additions.get(ref, NO_ADDITIONS), layout.labels)
        )
        for ref in readable
        if ref not in idle
    }
    undeclarable, not_converged, desired = _read_back(manifests, context)
    manifests = {ref: manifest for ref, manifest in manifests.items() if ref not in undeclarable}
    # An import must pass `validate`, which has no cluster to see that both exist already.
    manifests.update(_waive_collisions(manifests, observation))
    return Import(
        _render_files(manifests, paths, layout),
        tuple(ref for ref in matching if ref not in chosen),
        tuple(sorted(internal)),
        already_declared,
        tuple(idle),
        tuple((ref, line) for ref, manifest in manifests.items() for line in manifest.left_out),
        _find_changes(desired, observation) | not_converged,
        unread,
        undeclarable,
        tuple(note.message for note in observation.diagnostics),
        is_complete=not any(
            note.code == NOT_KNOWN or (note.code == UNLISTED and note.severity is Severity.WARNING)
            for note in observation.diagnostics
        ),
    )


def _build_manifest(observed: Observed, context: Context, added: Additions) -> LiveManifest:
    """Return the manifest of a resource: with a profile, if that leaves less to write."""
    kind = observed.ref.kind
    best = build_live_manifest(observed, context.merge_underlay(kind), added)
    for name in context.profiles:
        under = context.find_underlay(kind, name)
        # That live values are those of a profile says nothing of what no cluster stores, such as `keyed`.
        if under is None or any(layer.keys() - LIVE_FIELDS for layer in under.layers):
            continue
        named = replace(added, spec={"profile": name, **added.spec})
        manifest = build_live_manifest(observed, context.merge_underlay(kind, name), named)
        if _count_fields(manifest) < _count_fields(best):
            best = manifest
    return best


def _count_fields(manifest: LiveManifest) -> int:
    spec = manifest.data["spec"]
    return len(spec) + len(spec.get("config", ()))


LIVE_FIELDS = frozenset({"partitions", "replicationFactor", "config"})
"""The fields of a spec whose values are on the cluster, so that a resource shows whether it has a profile."""
MIN_PROFILE_SIZE = 5
"""The fewest topics with equal settings for which a profile is offered."""


def find_profiles(observation: Observation, context: Context) -> dict[str, Any]:
    """Find the settings that several topics have, as profiles by name, the most frequent ones first.

    Args:
        observation: A reading of the cluster.
        context: The context of the manifests; values that equal its defaults are left out.
    """
    specs = [
        spec
        for ref, observed in sorted(observation.resources.items())
        if is_topic(ref) and not is_own(ref) and not _is_internal(observed)
        for spec in (_build_manifest(observed, context, NO_ADDITIONS).data["spec"],)
        if "profile" not in spec and "placement" not in spec
    ]
    counts = Counter(json.dumps(spec) for spec in specs)
    profiles: dict[str, Any] = {}
    for text, count in counts.most_common():
        spec = json.loads(text)
        if count >= MIN_PROFILE_SIZE and spec:
            name = _name_profile(spec)
            taken = [*profiles, *context.profiles]
            numbers = (f"{name}-{number}" for number in range(2, len(taken) + 3))
            free = next(each for each in (name, *numbers) if each not in taken)
            profiles[free] = {TOPIC.name: spec}
    return profiles


def _name_profile(spec: Mapping[str, Any]) -> str:
    """Return a name that says what distinguishes a spec; people choose a better one."""
    config, retention = spec.get("config", {}), spec.get("retention")
    time = retention.get("time") if isinstance(retention, dict) else retention
    parts = [config.get("cleanup.policy", "delete"), time, spec.get("partitions")]
    text = "-".join(str(part) for part in parts if part is not None)
    return re.sub(r"[^A-Za-z0-9._]+", "-", text)


def _add_labels(added: Additions, labels: Mapping[str, str]) -> Additions:
    return replace(added, labels={**added.labels, **labels})


def shared_values(observation: Observation, context: Context) -> dict[str, Any]:
    """Find the values that more than half of the topics have as their own, at least two of them.

    Partition counts stay with each topic, as do the places of replicas.

    Args:
        observation: A reading of the cluster.
        context: The context of the manifests; values that equal its defaults are left out.

    Returns:
        The shared values, in the form of a manifest's `spec`; empty if there are none.
    """
    refs = [ref for ref in observation.resources if is_topic(ref) and not is_own(ref)]
    specs = [
        build_live_manifest(observation.resources[ref], context.merge_underlay(ref.kind)).data["spec"]
        for ref in sorted(refs)
        if not _is_internal(observation.resources[ref])
    ]
    fields = [spec | spec.get("config", {}) for spec in specs]
    shared: dict[str, Any] = {}
    for name in sorted({name for topic in fields for name in topic}.difference(_UNSHARED_FIELDS)):
        # As JSON, as lists and mappings cannot be counted.
        counts = Counter(json.dumps(topic[name]) for topic in fields if topic.get(name) is not None)
        value, count = max(counts.items(), key=lambda item: item[1], default=("", 0))
        # A default for more than half saves lines; the others state their own value.
        if count > max(1, len(specs) // 2):
            layer = shared.setdefault("config", {}) if "." in name else shared
            layer[name] = json.loads(value)
    return shared


_UNSHARED_FIELDS = frozenset({"partitions", "placement", "config", "undeclared", "state"})


def _matches_selection(ref: ResourceRef, selection: Selection) -> bool:
    globs = selection.globs
    return ref.kind in selection.kinds and (not globs or any(fnmatchcase(ref.name, glob) for glob in globs))


def _is_internal(observed: Observed | None) -> bool:
    return observed is not None and observed.internal


def _explain_unread(ref: ResourceRef, observation: Observation) -> str | None:
    """Return why a resource is not known in full; None if it is."""
    # Named in the result: an import that silently lacks a resource would look complete.
    if ref in observation.invisible:
        return observation.invisible[ref]
    observed = observation.resources.get(ref)
    if observed is None:
        return None  # gone since it was listed
    # A manifest from half a reading would declare the missing half as absent.
    return observed.live.unread or None if observed.live is not None else None


def _keeps_manifest(location: Location | None, path: Path, layout: ImportLayout) -> bool:
    """Return whether an existing manifest is kept, and not replaced in its own file."""
    return not (layout.overwrite and location is not None and Path(location.file).resolve() == path.resolve())


def _waive_collisions(
    manifests: Mapping[ResourceRef, LiveManifest], observation: Observation
) -> Iterator[tuple[ResourceRef, LiveManifest]]:
    """Waive KF102 for live topics with colliding names: `validate` cannot see that both exist."""
    desired = tuple(Desired(ref, {}) for ref in manifests)
    context = RuleContext(desired, inventory=observation.inventory)
    for finding in RULES[_COLLISION].check(context):
        if finding.ref is not None:
            manifest = manifests[finding.ref]
            metadata = manifest.data["metadata"]
            waiver = {f"{WAIVER_PREFIX}{_COLLISION}": "both topics existed when they were imported"}
            metadata = {**metadata, "annotations": {**metadata.get("annotations", {}), **waiver}}
            yield finding.ref, replace(manifest, data={**manifest.data, "metadata": metadata})


# --- files -----------------------------------------------------------------------------------------


def _choose_paths(refs: Collection[ResourceRef], layout: ImportLayout) -> dict[ResourceRef, Path]:
    """Choose the file of each resource, regardless of what is already declared."""
    name_of: Callable[[str], str] = get_prefix if layout.by is FileGrouping.PREFIX else str
    paths: dict[ResourceRef, Path] = {}
    for name, kind in KINDS.items():
        folder = layout.folder / kind.words.folder
        kind_refs = [ref for ref in refs if ref.kind == name]
        names = choose_file_names({name_of(ref.name) for ref in kind_refs})
        paths.update({ref: folder / names[name_of(ref.name)] for ref in kind_refs})
    return paths


def _render_files(
    manifests: Mapping[ResourceRef, LiveManifest], paths: Mapping[ResourceRef, Path], layout: ImportLayout
) -> tuple[ImportedFile, ...]:
    refs_by_path: dict[Path, list[ResourceRef]] = defaultdict(list)
    for ref in manifests:
        refs_by_path[paths[ref]].append(ref)
    files = []
    stems = _choose_paths(manifests, replace(layout, by=FileGrouping.TOPIC))
    for path, refs in sorted(refs_by_path.items()):
        schema_line = "" if layout.schemas is None else render_schema_line(path, layout.schemas)
        texts = []
        for ref in refs:
            manifest, beside = _split_texts(manifests[ref], stems[ref])
            # In each document: the language server of editors reads the line for one document only.
            texts.append(schema_line + manifest.to_yaml())
            files += beside
        text = "---\n".join(texts)
        # The loader would refuse the file.
        if len(text) > MAX_BYTES:
            raise KafkaformError(
                f"{path} would exceed the size limit of manifests, with {counted(len(refs), 'resource')}; "
                "nothing was written",
                hint="write one file per resource: --by topic",
            )
        files.append(ImportedFile(path, text, tuple(refs)))
    return tuple(files)


def _split_texts(manifest: LiveManifest, path: Path) -> tuple[LiveManifest, list[ImportedFile]]:
    """Return a manifest that names files with its long texts, such as schemas, and these files."""
    files = {
        name: ImportedFile(path.with_suffix(suffix), text, ())
        for name, suffix in manifest.suffixes.items()
        if isinstance(text := manifest.data["spec"].get(name), str)
        and "\n" in text.strip()
        and len(text.encode()) <= MAX_FILE_BYTES
    }
    spec = manifest.data["spec"] | {name: {"file": file.path.name} for name, file in files.items()}
    return replace(manifest, data={**manifest.data, "spec": spec}), [*files.values()]


# --- the check by a plan -------------------------------------------------------------------------------


def _read_back(
    manifests: Mapping[ResourceRef, LiveManifest], context: Context
) -> tuple[dict[ResourceRef, str], dict[ResourceRef, str], list[Desired]]:
    """Read manifests by the code that reads files.

    Returns:
        Why some would be refused, which stops every plan; why others are not what was read; what those that
        are not refused declare.
    """
    refused: dict[ResourceRef, str] = {}
    not_converged: dict[ResourceRef, str] = {}
    desired: list[Desired] = []
    for ref, manifest in manifests.items():
        kind = KINDS[ref.kind]
        problems: list[str] = []
        missing: list[str] = []

        def report(
            path: tuple[str | int, ...],
            message: str,
            hint: str | None,  # noqa: ARG001
            /,
            *,
            key: bool = False,  # noqa: ARG001
            lists: tuple[list[str], list[str]] = (problems, missing),
        ) -> None:
            lists[not path].append(message)

        if (flaw := first_problem(kind.schema, manifest.data)) is not None:
            refused[ref] = flaw
            continue
        spec = {name: value for name, value in manifest.data["spec"].items() if name != "profile"}
        own = kind.normalise(spec, report)
        layer = merge([context.merge_underlay(ref.kind, manifest.data["spec"].get("profile")), own])
        declared = Desired(ref, *kind.resolve(layer, report))
        combined: Sequence[Desired] = [declared]
        if isinstance(kind, Itemized):
            combined, flaws = kind.combine(combined, lambda _: None)
            problems += [problem.message for problem in flaws]
        if isinstance(kind, WholeChecked):
            problems += [problem.message for problem in kind.find_problems(declared)]
        if problems:
            refused[ref] = "; ".join([*manifest.left_out, *problems])
            continue
        if isinstance(kind, Itemized) and not combined[0].state:
            refused[ref] = "; ".join(manifest.left_out)  # no item is left
            continue
        desired += combined
        # Other tools leave fields to the broker, and their manifests are to be completed.
        if missing or manifest.undeclarable:
            not_converged[ref] = "; ".join(missing) or ODD_VALUE
    return refused, not_converged, desired


def _find_changes(desired: Sequence[Desired], observation: Observation) -> dict[ResourceRef, str]:
    """Return the changes that a plan of manifests will still show, by resource."""
    # By the differ of every plan, from the reading that the manifests were made of: nothing can have changed.
    return {
        proposal.ref: "a plan will change "
        + ", ".join(label(changed.path) for changed in fields_of(proposal.change))
        for proposal in diff(desired, observation, Facts(cluster_id=""), unseen=True).proposals
    }
