"""From a reading of a live cluster to manifest files: pure, and checked by the planner itself.

A plan that is made right after an import, with the same defaults, is empty. Whatever would not be so is
told by name.
"""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkaform.config.manifest_text import file_names, live_manifest, prefix
from kafkaform.config.manifests.loader import merge
from kafkaform.config.manifests.yaml12 import MAX_BYTES
from kafkaform.core.errors import KafkaformError
from kafkaform.core.model import Desired, Facts
from kafkaform.core.wording import counted
from kafkaform.plan.planner import diff
from kafkaform.plan.policy import is_own
from kafkaform.resources import KINDS
from kafkaform.resources.topic import is_topic
from kafkaform.resources.values import fields_of, label
from kafkaform.rules import RULES, RuleContext
from kafkaform.rules.notes import PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from kafkaform.config.manifest_text import LiveManifest
    from kafkaform.config.manifests.loader import Context
    from kafkaform.core.model import Location, Observation, Observed, ResourceRef
    from kafkaform.inspect.resource_status import Selection
    from kafkaform.resources.base import Layer


_COLLISION = "KF102"


class By(StrEnum):
    """What goes into one file."""

    TOPIC = "topic"
    PREFIX = "prefix"


@dataclass(frozen=True, slots=True)
class ImportLayout:
    """How files are to be laid out.

    Attributes:
        folder: The folder that they go into.
        by: What goes into one.
        schemas: The folder that has the schemas of manifests, for the first line of each file.
        overwrite: Whether files that exist may be replaced.
        labels: The labels of every manifest.
    """

    folder: Path
    by: By = By.TOPIC
    schemas: Path | None = None
    overwrite: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ImportedFile:
    """A file of manifests, and the resources in it, in order."""

    path: Path
    text: str
    refs: tuple[ResourceRef, ...]


@dataclass(frozen=True, slots=True)
class Import:
    """What comes of an import.

    Attributes:
        files: The files, by path.
        ignored: Resources that fit, and that `ignore` of kafkaform.yaml leaves out.
        internal: Resources that fit, and are Kafka's or kafkaform's own.
        declared: Resources that a manifest declares already, and where.
        idle: Groups that no manifest can be made of, because they read no topic.
        partial: What the manifests do not say of resources that were written, a line each.
        unlike: Resources for which a plan will show changes all the same: which fields.
        unread: Resources that could not be read, or not in full: why.
        notes: What else is to be known of the reading, a line each.
    """

    files: tuple[ImportedFile, ...] = ()
    ignored: tuple[ResourceRef, ...] = ()
    internal: tuple[ResourceRef, ...] = ()
    declared: Mapping[ResourceRef, Location | None] = field(default_factory=dict)
    idle: tuple[ResourceRef, ...] = ()
    partial: tuple[tuple[ResourceRef, str], ...] = ()
    unlike: Mapping[ResourceRef, str] = field(default_factory=dict)
    unread: Mapping[ResourceRef, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def refs(self) -> tuple[ResourceRef, ...]:
        """The resources that manifests were made of."""
        return tuple(ref for file in self.files for ref in file.refs)


def make_import(
    observation: Observation,
    selection: Selection,
    declared: Mapping[ResourceRef, Location | None],
    context: Context,
    layout: ImportLayout,
) -> Import:
    """Make manifest files of live resources.

    Args:
        observation: A reading of the cluster, with every resource that the selection takes in detail.
        selection: What is wanted.
        declared: What manifests declare already, and where.
        context: What manifests will be read with: its defaults are not said again.
        layout: Where the files go.

    Raises:
        KafkaformError: A file would be too large to be read back.
    """
    fitting = sorted(ref for ref in observation.inventory if _fits(ref, selection))
    chosen = {ref for ref in fitting if selection.takes(ref)}
    internal = {ref for ref in chosen if is_own(ref) or _is_internal(observation.resources.get(ref))}
    paths = _paths(chosen - internal, layout)
    kept = {
        ref: place for ref, place in declared.items() if ref in paths and _stays(place, paths[ref], layout)
    }
    wanted = [ref for ref in sorted(paths) if ref not in kept]
    unread = {ref: why for ref in wanted if (why := _unread(ref, observation)) is not None}
    there = [ref for ref in wanted if ref in observation.resources and ref not in unread]
    idle = [ref for ref in there if KINDS[ref.kind].idle(observation.resources[ref])]
    manifests = {
        ref: live_manifest(observation.resources[ref], _under(ref.kind, context), layout.labels)
        for ref in there
        if ref not in idle
    }
    manifests.update(_waive_collisions(manifests, observation))
    return Import(
        _files(manifests, paths, layout),
        tuple(ref for ref in fitting if ref not in chosen),
        tuple(sorted(internal)),
        kept,
        tuple(idle),
        tuple((ref, line) for ref, manifest in manifests.items() for line in manifest.left_out),
        _unlike(manifests, observation, context),
        unread,
        tuple(note.message for note in observation.diagnostics),
    )


def shared_values(observation: Observation, context: Context) -> dict[str, Any]:
    """Find the values that more than half of the topics have as their own, at least two of them.

    Partition counts stay with each topic, as do the places of replicas.

    Args:
        observation: A reading of the cluster.
        context: What manifests are read with: what its defaults say is not said again.

    Returns:
        What a manifest's `spec` would have; empty if nothing is shared.
    """
    refs = [ref for ref in observation.resources if is_topic(ref) and not is_own(ref)]
    specs = [
        live_manifest(observation.resources[ref], _under(ref.kind, context)).data["spec"]
        for ref in sorted(refs)
        if not _is_internal(observation.resources[ref])
    ]
    fields = [spec | spec.get("config", {}) for spec in specs]
    shared: dict[str, Any] = {}
    for name in sorted({name for topic in fields for name in topic}.difference(_EACH_ITS_OWN)):
        counts = Counter(json.dumps(topic[name]) for topic in fields if topic.get(name) is not None)
        value, count = max(counts.items(), key=lambda item: item[1], default=("", 0))
        if count > max(1, len(specs) // 2):
            layer = shared.setdefault("config", {}) if "." in name else shared
            layer[name] = json.loads(value)
    return shared


_EACH_ITS_OWN = frozenset({"partitions", "placement", "config", "undeclared", "state"})


def _fits(ref: ResourceRef, selection: Selection) -> bool:
    globs = selection.globs
    return ref.kind in selection.kinds and (not globs or any(fnmatchcase(ref.name, glob) for glob in globs))


def _is_internal(observed: Observed | None) -> bool:
    return observed is not None and observed.internal


def _unread(ref: ResourceRef, observation: Observation) -> str | None:
    """Why a resource is not known in full."""
    if ref in observation.invisible:
        return observation.invisible[ref]
    observed = observation.resources.get(ref)
    if observed is None:
        return None  # gone since it was listed
    if not ref.name:
        return "a manifest cannot declare a resource with an empty name"
    return observed.live.unread or None if observed.live is not None else None


def _stays(place: Location | None, path: Path, layout: ImportLayout) -> bool:
    """Whether a manifest that exists is left as it is, rather than written anew in its own file."""
    return not (layout.overwrite and place is not None and _same(Path(place.file), path))


def _same(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve()


def _waive_collisions(
    manifests: Mapping[ResourceRef, LiveManifest], observation: Observation
) -> Iterator[tuple[ResourceRef, LiveManifest]]:
    """Waive KF102 for live topics whose names collide: offline, `validate` cannot see that both exist."""
    desired = tuple(Desired(ref, {}) for ref in manifests)
    context = RuleContext(desired, inventory=observation.inventory)
    for finding in RULES[_COLLISION].check(context):
        if finding.ref is not None:
            manifest = manifests[finding.ref]
            annotations = {f"{PREFIX}{_COLLISION}": "both topics existed when they were imported"}
            metadata = {**manifest.data["metadata"], "annotations": annotations}
            yield finding.ref, replace(manifest, data={**manifest.data, "metadata": metadata})


# --- files -----------------------------------------------------------------------------------------


def _paths(refs: Collection[ResourceRef], layout: ImportLayout) -> dict[ResourceRef, Path]:
    """The file of each resource; the same whatever is declared already."""
    name_of: Callable[[str], str] = prefix if layout.by is By.PREFIX else str
    paths: dict[ResourceRef, Path] = {}
    for name, kind in KINDS.items():
        folder = layout.folder / kind.folder
        of_kind = [ref for ref in refs if ref.kind == name]
        names = file_names({name_of(ref.name) for ref in of_kind})
        paths.update({ref: folder / names[name_of(ref.name)] for ref in of_kind})
    return paths


def _files(
    manifests: Mapping[ResourceRef, LiveManifest], paths: Mapping[ResourceRef, Path], layout: ImportLayout
) -> tuple[ImportedFile, ...]:
    together: dict[Path, list[ResourceRef]] = defaultdict(list)
    for ref in manifests:
        together[paths[ref]].append(ref)
    files = []
    for path, refs in sorted(together.items()):
        head = _schema_line(path, refs[0].kind, layout.schemas)
        text = head + "---\n".join(manifests[ref].to_yaml() for ref in refs)
        if len(text) > MAX_BYTES:
            raise KafkaformError(
                f"{path} would exceed the size limit of manifests, with {counted(len(refs), 'resource')}; "
                "nothing was written",
                hint="write one file per resource: --by topic",
            )
        files.append(ImportedFile(path, text, tuple(refs)))
    return tuple(files)


def _schema_line(path: Path, kind: str, schemas: Path | None) -> str:
    """The line by which editors find the schema."""
    if schemas is None:
        return ""
    schema = schemas / f"{KINDS[kind].schema}.schema.json"
    return f"# yaml-language-server: $schema={Path(os.path.relpath(schema, path.parent)).as_posix()}\n\n"


# --- the proof -------------------------------------------------------------------------------------


def _under(kind: str, context: Context) -> Layer:
    """The layer below a manifest's own."""
    return merge([{"undeclared": context.undeclared.value}, *context.defaults.get(kind, ())])


def _unlike(
    manifests: Mapping[ResourceRef, LiveManifest], observation: Observation, context: Context
) -> dict[ResourceRef, str]:
    """What a plan of these manifests will still show, by resource."""
    unlike: dict[ResourceRef, str] = {}
    desired = []
    for ref, manifest in manifests.items():
        problems: list[str] = []
        desired.append(_read_back(ref, manifest, context, problems))
        if problems:
            unlike[ref] = "; ".join(problems)
    for proposal in diff(desired, observation, Facts(cluster_id="")).proposals:
        fields = ", ".join(label(changed.path) for changed in fields_of(proposal.change))
        unlike.setdefault(proposal.ref, f"a plan will change {fields}")
    return unlike


def _read_back(ref: ResourceRef, manifest: LiveManifest, context: Context, problems: list[str]) -> Desired:
    kind = KINDS[ref.kind]

    def report(_: tuple[str | int, ...], message: str, hint: str | None, /, *, key: bool = False) -> None:  # noqa: ARG001
        problems.append(message)

    layer = merge([_under(ref.kind, context), kind.normalise(manifest.data["spec"], report)])
    return Desired(ref, *kind.resolve(layer, report))
