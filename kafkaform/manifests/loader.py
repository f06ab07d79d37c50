"""From manifest files to desired resources: every problem of all files in one run, or none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from kafkaform import consent
from kafkaform.errors import InvalidInput, Problem
from kafkaform.kinds import KINDS
from kafkaform.kinds.base import Kind, Layer
from kafkaform.manifests.files import manifest_files, read_bytes
from kafkaform.manifests.structure import structure_problems
from kafkaform.manifests.yaml12 import Document, read_documents
from kafkaform.model import Desired, Location, ResourceRef, Undeclared
from kafkaform.spelling import nearest

API_VERSION = "kafkaform/v1"
VERBATIM = frozenset({"config", "labels", "annotations"})
"""Below these keys scalars keep their source text: what they mean is for their kind to say."""


@dataclass(frozen=True, slots=True)
class Context:
    """What a repository says about all of its manifests.

    Attributes:
        environments: The closed list of environments, or None where nobody gave one.
        environment: The one that was chosen, or None.
        defaults: For each kind, the layers (normal form, least specific first) under every spec.
        undeclared: The default of `spec.undeclared`.
    """

    environments: tuple[str, ...] | None = None
    environment: str | None = None
    defaults: Mapping[str, tuple[Layer, ...]] = field(default_factory=dict)
    undeclared: Undeclared = Undeclared.REPORT


@dataclass(frozen=True, slots=True)
class _Manifest:
    ref: ResourceRef
    kind: Kind
    document: Document
    base: Layer
    overrides: Mapping[str, Layer]


def load(paths: Iterable[Path], context: Context) -> list[Desired]:
    """Load every manifest at or below the paths, for one environment.

    Raises:
        InvalidInput: With every problem of every file.
    """
    return load_all(paths, [context])[0]


def load_all(paths: Iterable[Path], contexts: Sequence[Context]) -> list[list[Desired]]:
    """Load every manifest, once for each context (`validate` checks all environments at once).

    Raises:
        InvalidInput: With every problem of every file, each once.
    """
    problems: list[Problem] = []
    manifests = [m for path in manifest_files(paths, problems) for m in _read(path, problems)]
    _check_duplicates(manifests, problems)
    resolved = [[_resolve(manifest, context, problems) for manifest in manifests] for context in contexts]
    if problems:
        raise InvalidInput(sorted(dict.fromkeys(problems), key=_place))
    return resolved


def _place(problem: Problem) -> tuple[str, int, int]:
    place = problem.location
    return (place.file, place.line, place.column) if place else ("", 0, 0)


def _read(path: Path, problems: list[Problem]) -> Iterator[_Manifest]:
    raw = read_bytes(path, problems)
    if raw is None:
        return
    before = len(problems)
    documents = read_documents(raw, str(path), problems.append, verbatim=VERBATIM)
    given = [document for document in documents if document.data is not None]
    if not given and len(problems) == before:
        problems.append(Problem("the file holds no manifest", Location(str(path)), "write one, or delete the file"))
    for document in given:
        if b"${" in raw:
            problems.extend(_references(document))
        manifest = _manifest(document, problems)
        if manifest is not None:
            yield manifest


def _references(document: Document) -> Iterator[Problem]:
    for place, text in document.scalars():
        if "${" in text:
            hint = "write the value; what differs by environment goes into spec.overrides"
            yield Problem("${…} is not expanded in manifests", place, hint)


def _manifest(document: Document, problems: list[Problem]) -> _Manifest | None:
    kind = _kind(document, problems)
    if kind is None:
        return None
    found = structure_problems(document, kind.schema)
    problems.extend(found)
    if found:
        return None
    data = cast("dict[str, dict[str, object]]", document.data)
    spec = data["spec"]
    overrides = cast("Mapping[str, Mapping[str, object]]", spec.get("overrides", {}))
    return _Manifest(
        ResourceRef(kind.name, str(data["metadata"]["name"])),
        kind,
        document,
        kind.normalise(spec, document.reporter(("spec",), problems)),
        {
            name: kind.normalise(layer, document.reporter(("spec", "overrides", name), problems))
            for name, layer in overrides.items()
        },
    )


def _kind(document: Document, problems: list[Problem]) -> Kind | None:
    if not isinstance(document.data, dict):
        problems.append(Problem("a manifest must be a mapping", document.locate()))
        return None
    version, name = document.data.get("apiVersion"), document.data.get("kind")
    if version != API_VERSION:
        said = f"not {version!r}" if version is not None else "and is missing"
        problems.append(Problem(f"apiVersion must be {API_VERSION}, {said}", document.locate(["apiVersion"])))
        return None
    kind = KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        near = nearest(str(name), KINDS)
        hint = f"did you mean {near!r}?" if near else f"known kinds: {', '.join(KINDS)}"
        what = f"unknown kind {name!r}" if name is not None else "kind is missing"
        problems.append(Problem(what, document.locate(["kind"]), hint))
    return kind


def _check_duplicates(manifests: Iterable[_Manifest], problems: list[Problem]) -> None:
    first: dict[ResourceRef, Location] = {}
    for manifest in manifests:
        place = manifest.document.locate(["metadata", "name"])
        if manifest.ref in first:
            hint = f"first declared at {first[manifest.ref]}; one resource has one manifest"
            problems.append(Problem(f"{manifest.ref} is declared twice", place, hint))
        else:
            first[manifest.ref] = place


def _resolve(manifest: _Manifest, context: Context, problems: list[Problem]) -> Desired:
    document = manifest.document
    layers = [{"undeclared": context.undeclared.value}, *context.defaults.get(manifest.kind.name, ())]
    layers.append(manifest.base)
    problems.extend(_override_problems(manifest, context))
    if context.environment in manifest.overrides:
        layers.append(manifest.overrides[context.environment])
    state, intent = manifest.kind.resolve(merge(layers), document.reporter(("spec",), problems))
    metadata = cast("dict[str, dict[str, dict[str, str]]]", document.data)["metadata"]
    annotations = metadata.get("annotations", {})
    allow, bad = consent.parse_annotation(annotations.get(consent.ANNOTATION, ""))
    for line in bad:
        place = document.locate(["metadata", "annotations", consent.ANNOTATION])
        problems.append(Problem(f"{line!r} is no consent", place, "write `hazard: reason`, a line each"))
    intent = replace(intent, labels=metadata.get("labels", {}), allow=allow)
    return Desired(manifest.ref, state, intent, document.locate())


def _override_problems(manifest: _Manifest, context: Context) -> Iterator[Problem]:
    if manifest.overrides and context.environment is None:
        place = manifest.document.locate(["spec", "overrides"], key=True)
        hint = f"choose one with --environment ({', '.join(manifest.overrides)})"
        yield Problem("there are overrides, but no environment is chosen", place, hint)
    if context.environments is None:
        return
    for name in manifest.overrides:
        if name not in context.environments:
            near = nearest(name, context.environments)
            hint = f"did you mean {near!r}?" if near else f"environments: {', '.join(context.environments)}"
            place = manifest.document.locate(["spec", "overrides", name], key=True)
            yield Problem(f"unknown environment {name!r}", place, hint)


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
