"""From manifest files to desired resources: every problem of all files in one run, or none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, cast

from kafkaform.config.manifests.files import manifest_files, read_bytes
from kafkaform.config.manifests.places import FieldPlaces
from kafkaform.config.manifests.structure import sound_part, structure_problems
from kafkaform.config.manifests.yaml12 import read_documents
from kafkaform.core.errors import InvalidInput, Problem
from kafkaform.core.model import Desired, Intent, Location, ResourceRef, Undeclared
from kafkaform.core.wording import nearest, quoted
from kafkaform.resources import KINDS, consent, misspelt_hazard
from kafkaform.rules import notes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from pathlib import Path

    from kafkaform.config.manifests.yaml12 import Document
    from kafkaform.config.manifests.yaml12 import Path as ValuePath
    from kafkaform.resources.base import Kind, Layer

MAX_VALUES = 5_000_000
"""The most values, keys counted, that the manifests of one run may have together."""
API_VERSION = "kafkaform/v1"
OWN_PREFIX = "kafkaform/"
"""What the annotations that waive a rule start with; its code follows."""
VERBATIM = frozenset({"config", "labels", "annotations"}).union(*(kind.verbatim for kind in KINDS.values()))
"""Below these keys scalars keep their source text: what they mean is for their kind to say."""

_NOTHING: Mapping[str, Any] = {}
"""What thousands of manifests say of labels, annotations or overrides: one object for all of them."""

_OTHER_TOOLS = {
    "kafka.strimzi.io/": (
        "Strimzi",
        "spec.replicas is spec.replicationFactor, spec.topicName metadata.name; the rest of spec stays",
    ),
    "kafka.jikkou.io/": (
        "Jikkou",
        "spec.replicas is spec.replicationFactor, spec.configs is spec.config; spec.partitions stays",
    ),
    "platform.confluent.io/": (
        "Confluent for Kubernetes",
        "spec.partitionCount is partitions, spec.replicas replicationFactor, spec.configs config",
    ),
}
"""What becomes of a topic's manifest of another tool, by the beginning of its apiVersion."""


@dataclass(frozen=True, slots=True)
class Context:
    """What a repository says about all of its manifests.

    Attributes:
        environments: The closed list of environments, or None where nobody gave one.
        environment: The one that was chosen, or None.
        defaults: For each kind, the layers (normal form, least specific first) under every spec.
        undeclared: The default of `spec.undeclared`.
        root: The folder that the paths of locations are told from; None: as they were given.
        default_places: For each kind, where the configuration has its defaults.
    """

    environments: tuple[str, ...] | None = None
    environment: str | None = None
    defaults: Mapping[str, tuple[Layer, ...]] = field(default_factory=dict)
    undeclared: Undeclared = Undeclared.REPORT
    root: Path | None = None
    default_places: Mapping[str, FieldPlaces] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Manifest:
    """A manifest before an environment is chosen; an unsound one is only good for finding more problems."""

    ref: ResourceRef
    kind: Kind
    document: Document
    base: Layer
    overrides: Mapping[str, Layer]
    labels: Mapping[str, str]
    allow: Mapping[str, str]
    waivers: Mapping[str, str]
    sound: bool


class InvalidManifests(InvalidInput):
    """Manifests are wrong.

    Args:
        problems: All of them.
        readable: What can be read for each context, so that rules can be checked in the same run: sound
            manifests, and of the others the names.
    """

    def __init__(self, problems: Iterable[Problem], readable: list[list[Desired]]) -> None:
        super().__init__(problems)
        self.readable = readable


def ignored(_: ResourceRef) -> None:
    """Nobody wants to know before all manifests have been read."""


def load(
    paths: Iterable[Path], context: Context, found: Callable[[ResourceRef], None] = ignored
) -> list[Desired]:
    """Load every manifest at or below the paths, for one environment; see `load_all`."""
    return load_all(paths, [context], found)[0]


def load_all(
    paths: Iterable[Path], contexts: Sequence[Context], found: Callable[[ResourceRef], None] = ignored
) -> list[list[Desired]]:
    """Load every manifest, once for each context (`validate` checks all environments at once).

    Args:
        paths: Manifests or folders of them.
        contexts: What the repository says, one for each list that is returned.
        found: Is told of each resource as soon as its manifest has been read, sound or not.

    Raises:
        InvalidInput: With every problem of every file, each once.
    """
    problems: list[Problem] = []
    root = contexts[0].root
    files = manifest_files(paths if root is None else _inside(root, paths, problems), problems)
    if root is not None:
        problems = [located_below(root, problem) for problem in problems]
    manifests = []
    values = 0
    for file in files:
        documents = _read(file, root, problems)
        values += sum(document.size for document in documents)
        if values > MAX_VALUES:
            message = f"the manifests up to this one have more than {MAX_VALUES:,} values: not read further"
            hint = "give the paths of fewer manifests"
            problems.append(Problem(message, Location(_shown(root, str(file))), hint))
            break
        for document in documents:
            manifest = _manifest(document, problems)
            if manifest is not None:
                found(manifest.ref)
                manifests.append(manifest)
    del files  # half a kilobyte each, which what follows can use
    _check_duplicates(manifests, problems)
    resolved = [list(_resolve_all(manifests, context, problems)) for context in contexts]
    if problems:
        others = [_named(manifest) for manifest in manifests if not manifest.sound]
        readable = [[*desired, *others] for desired in resolved]
        raise InvalidManifests(sorted(dict.fromkeys(problems), key=_place), readable)
    return resolved


def _named(manifest: _Manifest) -> Desired:
    """An unsound manifest, of which rules are told the name alone."""
    document = manifest.document
    intent = Intent(waivers=manifest.waivers)
    return Desired(
        manifest.ref,
        {},
        intent,
        document.locate(),
        FieldPlaces(document, KINDS[manifest.ref.kind].shorthands, None),
    )


def file_problems(paths: Iterable[Path]) -> list[Problem]:
    """What is wrong with manifests whatever a configuration says, for where that cannot be read."""
    problems: list[Problem] = []
    documents = [one for file in manifest_files(paths, problems) for one in _read(file, None, problems)]
    read = [_manifest(document, problems) for document in documents]
    _check_duplicates([manifest for manifest in read if manifest is not None], problems)
    return sorted(dict.fromkeys(problems), key=_place)


def _place(problem: Problem) -> tuple[str, int, int]:
    place = problem.location
    return (place.file, place.line, place.column) if place else ("", 0, 0)


def _inside(root: Path, paths: Iterable[Path], problems: list[Problem]) -> list[Path]:
    """The paths that lie below the root, whatever links are on the way: what is there is not trusted."""
    inside = []
    for path in paths:
        if path.resolve().is_relative_to(root.resolve()):
            inside.append(path)
        else:
            problems.append(Problem(f"leads out of {root}: not read", Location(str(path))))
    return inside


def _shown(root: Path | None, path: str) -> str:
    """A path as locations tell it."""
    inside = root is not None and PurePath(path).is_relative_to(root)
    return str(PurePath(path).relative_to(cast("Path", root))) if inside else path


def located_below(root: Path, problem: Problem) -> Problem:
    """Return the problem with its file named from the root."""
    place = problem.location
    return replace(problem, location=place._replace(file=_shown(root, place.file))) if place else problem


def _read(path: Path, root: Path | None, problems: list[Problem]) -> list[Document]:
    """The documents of a file that say something."""
    found: list[Problem] = []
    raw = read_bytes(path, found)
    problems.extend(found if root is None else [located_below(root, problem) for problem in found])
    if raw is None:
        return []
    before = len(problems)
    shown = _shown(root, str(path))
    documents = read_documents(raw, shown, problems.append, verbatim=VERBATIM)
    given = [document for document in documents if document.data is not None]
    if not given and len(problems) == before:
        hint = "write a manifest, or delete the file"
        problems.append(Problem("the file contains no manifest", Location(shown), hint))
    if b"${" in raw:
        for document in given:
            problems.extend(_references(document))
    return given


def _references(document: Document) -> Iterator[Problem]:
    for place, text in document.texts():
        if "${" in text:
            hint = "write the value; values that differ by environment go into spec.overrides"
            yield Problem("${…} is not expanded in manifests", place, hint)


def _manifest(document: Document, problems: list[Problem]) -> _Manifest | None:
    kind = _kind(document, problems)
    if kind is None:
        return None
    found = structure_problems(document, kind.schema)
    problems.extend(found)
    data = cast("dict[str, dict[str, Any]]", sound_part(document, kind.schema) if found else document.data)
    metadata, spec = data.get("metadata", _NOTHING), data.get("spec", _NOTHING)
    annotations, overrides = metadata.get("annotations", _NOTHING), spec.get("overrides", _NOTHING)
    return _Manifest(
        ResourceRef(kind.name, metadata.get("name", "")),
        kind,
        document,
        kind.normalise(spec, document.reporter(("spec",), problems)),
        {
            name: kind.normalise(layer, document.reporter(("spec", "overrides", name), problems))
            for name, layer in overrides.items()
        }
        or _NOTHING,
        metadata.get("labels", _NOTHING),
        _consents(document, annotations, problems),
        dict(_waivers(document, annotations, problems)) or _NOTHING,
        not found,
    )


def _kind(document: Document, problems: list[Problem]) -> Kind | None:
    if not isinstance(document.data, dict):
        hint = f"start with apiVersion: {API_VERSION}, without a dash; a line --- separates manifests"
        problems.append(Problem("a manifest must be a mapping", document.locate(), hint))
        return None
    name = document.data.get("kind")
    version = document.data.get("apiVersion")
    for prefix, (tool, differences) in _OTHER_TOOLS.items():
        if name == "KafkaTopic" and str(version).startswith(prefix):
            hint = f"write apiVersion: {API_VERSION} and kind: Topic; {differences}"
            problems.append(Problem(f"a KafkaTopic is {tool}'s manifest", document.locate(["kind"]), hint))
            return None
    kind = KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        what = "kind is missing" if name is None else f"unknown kind {quoted(str(name))}"
        hint = hint_for(str(name), KINDS, "known kinds")
        problems.append(Problem(what, document.locate(["kind"]), hint))
        if version != API_VERSION:
            what = "is missing" if version is None else f"must be {API_VERSION}, not {quoted(str(version))}"
            hint = f"write apiVersion: {API_VERSION}"
            problems.append(Problem(f"apiVersion {what}", document.locate(["apiVersion"]), hint))
    return kind


def _consents(
    document: Document, annotations: Mapping[str, str], problems: list[Problem]
) -> Mapping[str, str]:
    if consent.ANNOTATION not in annotations:
        return _NOTHING
    allow, bad = consent.parse_annotation(annotations[consent.ANNOTATION])
    place = document.locate(["metadata", "annotations", consent.ANNOTATION])
    problems.extend(
        Problem(
            f"{quoted(line)} is not a consent",
            place,
            "write one per line: `HAZARD from VALUE: reason`, `delete of TOPIC-ID: reason`, or `HAZARD: "
            "reason`",
        )
        for line in bad
    )
    problems.extend(
        Problem(f"there is no hazard {quoted(hazard)}", place, meant)
        for hazard in dict.fromkeys(consent.split_head(head)[0] for head in allow)
        if (meant := misspelt_hazard(hazard)) is not None
    )
    return allow


def _waivers(
    document: Document, annotations: Mapping[str, str], problems: list[Problem]
) -> Iterator[tuple[str, str]]:
    """The rules that a manifest waives, with the reasons; other annotations of ours are slips."""
    for name, reason in annotations.items():
        place = document.locate(["metadata", "annotations", name], key=True)
        code = name.removeprefix(notes.PREFIX)
        if name.startswith(notes.PREFIX):
            if reason.strip():
                yield code, reason.strip()
            else:
                problems.append(Problem(f"the waiver of {quoted(code)} has no reason", place, "write it"))
        elif name.startswith(OWN_PREFIX) and name != consent.ANNOTATION:
            hint = hint_for(name, [consent.ANNOTATION, f"{notes.PREFIX}KF104"], "annotations")
            problems.append(Problem(f"there is no annotation {quoted(name)}", place, hint))


def _check_duplicates(manifests: Iterable[_Manifest], problems: list[Problem]) -> None:
    first: dict[ResourceRef, Document] = {}
    for manifest in manifests:
        ref, document = manifest.ref, manifest.document
        if not ref.name:
            continue
        if first.setdefault(ref, document) is not document:
            name = ["metadata", "name"]
            hint = f"first declared at {first[ref].locate(name)}; a resource can have only one manifest"
            problems.append(Problem(f"{ref} is declared twice", document.locate(name), hint))


def _resolve_all(
    manifests: Iterable[_Manifest], context: Context, problems: list[Problem]
) -> Iterator[Desired]:
    for manifest in manifests:
        problems.extend(_override_problems(manifest, context))
        if manifest.sound:
            yield _resolve(manifest, context, problems)


def _resolve(manifest: _Manifest, context: Context, problems: list[Problem]) -> Desired:
    document = manifest.document
    layers: list[Layer] = [
        {"undeclared": context.undeclared.value},
        *context.defaults.get(manifest.kind.name, ()),
        manifest.base,
    ]
    if context.environment is not None:
        layers.append(manifest.overrides.get(context.environment, {}))
    state, intent = manifest.kind.resolve(merge(layers), document.reporter(("spec",), problems))
    intent = replace(intent, labels=manifest.labels, allow=manifest.allow, waivers=manifest.waivers)
    defaults = context.default_places.get(manifest.kind.name)
    places = FieldPlaces(document, manifest.kind.shorthands, context.environment, defaults=defaults)
    return Desired(manifest.ref, state, intent, document.locate(), places)


def _override_problems(manifest: _Manifest, context: Context) -> Iterator[Problem]:
    document, path = manifest.document, ("spec", "overrides")
    if manifest.overrides and context.environment is None:
        hint = f"choose one with --environment ({', '.join(manifest.overrides)})"
        place = document.locate(path, key=True)
        yield Problem("there are overrides, but no environment is chosen", place, hint)
    if context.environments is not None:
        for name in manifest.overrides:
            yield from unknown_environment(document, (*path, name), name, context.environments, key=True)


def unknown_environment(
    document: Document, path: ValuePath, name: str, known: Collection[str], *, key: bool
) -> Iterator[Problem]:
    """The problem of an environment that is not in the closed list, if it is not."""
    if name not in known:
        hint = hint_for(name, known, "environments")
        yield Problem(f"unknown environment {quoted(name)}", document.locate(path, key=key), hint)


def hint_for(name: str, known: Collection[str], what: str) -> str:
    """A hint: the nearest of the known names, or all of them."""
    near = nearest(name, known)
    return f"did you mean {near!r}?" if near else f"{what}: {', '.join(known) or 'none'}"


def merge(layers: Iterable[Layer]) -> Layer:
    """Merge layers in normal form, later ones over earlier ones; mappings are merged key by key."""
    merged: Layer = {}
    for layer in layers:
        for name, value in layer.items():
            under = merged.get(name)
            if isinstance(value, Mapping) and isinstance(under, Mapping):
                merged[name] = {**under, **value}
            else:
                merged[name] = value
    return merged
