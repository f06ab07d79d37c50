"""A new manifest, with the labels and values that its team's other manifests have."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from kafkaform import rules
from kafkaform.config.manifest_text import (
    SCHEMA_MARK,
    SUFFIX,
    LiveManifest,
    choose_file_names,
    render_schema_line,
)
from kafkaform.config.manifests.files import find_manifest_files, read_bytes
from kafkaform.config.manifests.loader import API_VERSION, Context, load_all, merge
from kafkaform.config.manifests.yaml12 import read_documents
from kafkaform.core.acls import USER_PREFIX
from kafkaform.core.errors import InvalidInput, KafkaformError, Problem, UsageError
from kafkaform.core.model import Location, ResourceRef, Severity
from kafkaform.core.schema_files import find_marked
from kafkaform.core.values import Value
from kafkaform.core.wording import command, count_shared, quoted
from kafkaform.resources import ACCESS, GROUP, KINDS, TOPIC, consent
from kafkaform.resources.succession import CLOSE_WRITES, SUCCEEDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafkaform.config.settings import Settings

TEAM = "team"
"""The label with the team that is responsible."""
_FALLBACKS = {"partitions": 6, "replicationFactor": 3}
"""Values of required fields where there are neither defaults nor neighbours: those of the starter."""
_COPIED = ("retention", "keyed")
"""Fields of topics that each manifest should state, and that are the same for most topics of a team."""
_OF_ONE_TOPIC = frozenset({"recreate", SUCCEEDS, CLOSE_WRITES})
"""Fields that a successor does not take over: the id of the live topic, and those about its predecessor."""


class Neighbour(Value):
    """A manifest of the project, as it is written.

    Attributes:
        has_schema: Whether the file has the line by which editors find its schema.
    """

    path: Path
    location: Location
    kind: str
    name: str
    labels: Mapping[str, Any]
    annotations: Mapping[str, Any]
    spec: Mapping[str, Any]
    has_schema: bool


class NewManifest(Value):
    """A manifest to write.

    Attributes:
        team: The team; None if it is not known.
        neighbours: The manifests that it follows.
        differing: The labels in which they differ, with the values, and that it does not have.
    """

    ref: ResourceRef
    path: Path
    text: str
    team: str | None
    neighbours: tuple[Neighbour, ...]
    differing: Mapping[str, tuple[str, ...]]


class ManifestRequest(Value):
    """The resource to declare.

    Attributes:
        kind: The kind: Topic, ConsumerGroup or Access.
        team: The team; None for that of the nearest names.
        reads: The topics that a group or an application reads.
        writes: The topics that an application writes to.
        succeeds: The topic that a topic takes over from, with all that its manifest says.
        out: The file; None for one beside its neighbours.
    """

    kind: str
    name: str
    team: str | None = None
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    succeeds: str | None = None
    out: Path | None = None


def read_neighbours(paths: Iterable[Path]) -> list[Neighbour]:
    """Read the manifests of a project; those that cannot be read are left out, as `validate` reports them."""
    ignored: list[Problem] = []
    neighbours = []
    for file in find_manifest_files([path for path in paths if path.exists()], ignored):
        raw = read_bytes(file, ignored) or b""
        # As the texts they are: a label 1.10 stays one.
        for document in read_documents(raw, str(file), ignored.append, verbatim=None):
            match document.data:
                case {"kind": str(kind), "metadata": {"name": str(name), **metadata}, **content}:
                    parts = (metadata.get("labels"), metadata.get("annotations"), content.get("spec"))
                    labels, annotations, spec = (part if isinstance(part, dict) else {} for part in parts)
                    neighbours.append(
                        Neighbour(
                            file,
                            document.locate(),
                            kind,
                            name,
                            labels,
                            annotations,
                            spec,
                            SCHEMA_MARK.encode() in raw,
                        )
                    )
                case _:
                    pass  # not a complete manifest
    return neighbours


def make_manifest(
    request: ManifestRequest, neighbours: Sequence[Neighbour], settings: Settings, schemas: Path | None
) -> NewManifest:
    """Make the manifest of a resource.

    Args:
        neighbours: The manifests of the project.
        settings: The settings of the project; the manifest must be valid in all its environments.
        schemas: The folder of the schemas for editors; None without one.

    Raises:
        KafkaformError: The resource is declared already, its predecessor is not, or its file exists.
        UsageError: Its team is not known, a value is missing, or the manifest would not be valid.
    """
    kind, name = request.kind, request.name.removeprefix(USER_PREFIX if request.kind == ACCESS.name else "")
    contexts = {each: settings.build_context(each) for each in settings.environments or (None,)}
    for each in neighbours:
        if (each.kind, each.name) == (kind, name):
            raise KafkaformError(f"{kind}/{name} is declared in {each.location}; nothing was written")
    predecessor = _find_predecessor(request, neighbours)
    if predecessor is not None:
        team, alike = request.team or predecessor.labels.get(TEAM), [predecessor]
    else:
        team = request.team or _find_team(name, neighbours)
        of_team = [each for each in neighbours if team is None or each.labels.get(TEAM) == team]
        alike = [each for each in of_team if each.kind == kind] or of_team
    labels, differing = _share_labels(alike)
    if team is not None:
        labels = {**labels, TEAM: team}
    metadata: dict[str, Any] = {"name": name, **({"labels": labels} if labels else {})}
    if predecessor is not None:
        metadata |= _copy_annotations(predecessor)
        spec = _copy_spec(predecessor)
    else:
        of_kind = [each for each in alike if each.kind == kind]
        spec = _build_spec(request, name, of_kind, next(iter(contexts.values())))
    data = {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}
    folders = [each.path.parent for each in alike] or [
        path for path in settings.manifests if not path.is_file()
    ]
    folder = max(folders, key=folders.count, default=Path())
    # The first of its kind: where an import writes it, unless the team has a folder of its own.
    if folder in settings.manifests and all(each.kind != kind for each in alike):
        folder /= KINDS[kind].words.folder
    path = request.out or _choose_path(kind, name, folder)
    if path.exists():
        raise KafkaformError(f"{path} exists; nothing was written", hint="give another file with --out")
    has_schema = schemas is not None and (not alike or any(each.has_schema for each in alike))
    line = render_schema_line(path, schemas) if schemas is not None and has_schema else ""
    text = line + LiveManifest(data).to_yaml()
    ref = _check(text, path, settings, contexts)
    return NewManifest(ref, path, text, team, tuple(alike), differing)


def _find_predecessor(request: ManifestRequest, neighbours: Sequence[Neighbour]) -> Neighbour | None:
    """Return the manifest of the topic that the new one succeeds; None if it succeeds none."""
    name = request.succeeds
    if name is None:
        return None
    if request.kind != TOPIC.name or request.reads or request.writes:
        raise UsageError("--succeeds is for topics, without --reads and --writes")
    for each in neighbours:
        if (each.kind, each.name) == (TOPIC.name, name) and each.spec.get("state") != "absent":
            return each
    raise KafkaformError(
        f"no manifest declares the topic {quoted(name)}; nothing was written",
        hint=f"import it first: {command('import', options=('--match', name))}",
    )


def _copy_annotations(predecessor: Neighbour) -> dict[str, Any]:
    """Copy annotations without consents, which are for values or for the id of the predecessor."""
    copied = {name: text for name, text in predecessor.annotations.items() if name != consent.ANNOTATION}
    return {"annotations": copied} if copied else {}


def _copy_spec(predecessor: Neighbour) -> dict[str, Any]:
    """Copy a spec to the topic that succeeds this one."""

    def copy(layer: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in layer.items() if name not in _OF_ONE_TOPIC}

    overrides = predecessor.spec.get("overrides")
    layers = overrides if isinstance(overrides, dict) else {}
    copied = {scope: copy(layer) for scope, layer in layers.items() if isinstance(layer, dict)}
    return {**copy(predecessor.spec), SUCCEEDS: predecessor.name, **({"overrides": copied} if copied else {})}


def _find_team(name: str, neighbours: Sequence[Neighbour]) -> str | None:
    """Return the team of the nearest names, or the only team."""
    teams = [(str(each.labels[TEAM]), each) for each in neighbours if TEAM in each.labels]
    words = _split_name(name)
    # A name may begin with that of the team itself.
    shared = [
        max(count_shared(words, _split_name(beginning)) for beginning in (each.name, team))
        for team, each in teams
    ]
    nearest = max(shared, default=0)
    counts = Counter(team for (team, _), count in zip(teams, shared, strict=True) if count == nearest)
    if len(counts) > 1 and not nearest:
        raise UsageError(
            f"the team of {quoted(name)} is not known: no name has the same beginning",
            hint=f"give one: --team {' | '.join(sorted(counts))}",
        )
    return counts.most_common(1)[0][0] if counts else None


def _split_name(name: str) -> list[str]:
    return re.split(r"[._-]", name.removeprefix(USER_PREFIX))


def _share_labels(neighbours: Sequence[Neighbour]) -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
    """Return the labels that all manifests have, and those in which they differ."""
    every: dict[str, Counter[str]] = {}
    for each in neighbours:
        for label, value in each.labels.items():
            every.setdefault(label, Counter())[str(value)] += 1
    shared = {
        label: next(iter(values))
        for label, values in every.items()
        if len(values) == 1 and values.total() == len(neighbours)
    }
    return shared, {label: tuple(sorted(values)) for label, values in every.items() if label not in shared}


def _build_spec(
    request: ManifestRequest, name: str, alike: Sequence[Neighbour], context: Context
) -> dict[str, Any]:
    match request.kind:
        case TOPIC.name:
            if request.reads or request.writes:
                raise UsageError("--reads and --writes are for groups and access, not for topics")
            return _build_topic(alike, context)
        case GROUP.name:
            if request.writes:
                raise UsageError("--writes is for access, not for groups")
            if not request.reads:
                raise UsageError("a group needs the topics that it reads", hint="give --reads TOPIC")
            return {"topics": [*request.reads], **_find_common(alike, ("protocol", "offsets"))}
        case _:
            if not (request.reads or request.writes):
                raise UsageError(
                    "access needs the topics that are read or written",
                    hint="give --reads TOPIC or --writes TOPIC",
                )
            principal = name if ":" in name else f"{USER_PREFIX}{name}"
            spec: dict[str, Any] = {"principals": [principal]}
            spec |= {"produces": [*request.writes]} if request.writes else {}
            return spec | (
                {"consumes": [{"group": name, "topics": [*request.reads]}]} if request.reads else {}
            )


def _build_topic(alike: Sequence[Neighbour], context: Context) -> dict[str, Any]:
    """Build a topic's spec from the values that most topics of the team have."""
    profile = _find_common(alike, ("profile",))
    under = context.find_underlay(TOPIC.name, profile.get("profile"))
    inherited = merge(under.layers) if under is not None else {}
    required = sorted(find_marked(TOPIC.schema, "x-required"))
    spec = {**_FALLBACKS, "keyed": True, **_find_common(alike, (*required, *_COPIED))}
    names = [each for each in (*required, *_COPIED) if each in spec and each not in inherited]
    return {**profile, **{each: spec[each] for each in names}}


def _find_common(neighbours: Sequence[Neighbour], fields: Iterable[str]) -> dict[str, Any]:
    """Return the value of each field that more than half of the manifests have."""
    common = {}
    for name in fields:
        values = [each.spec[name] for each in neighbours if name in each.spec]
        value = max(values, key=values.count, default=None)
        if value is not None and values.count(value) * 2 > len(neighbours):
            common[name] = value
    return common


def _choose_path(kind: str, name: str, folder: Path) -> Path:
    path = folder / choose_file_names([name])[name]
    # An application has a group and access of the same name, often beside a topic.
    if path.exists() and kind in {GROUP.name, ACCESS.name}:
        path = path.with_name(f"{path.name.removesuffix(SUFFIX)}-{KINDS[kind].words.noun}{SUFFIX}")
    return path


def _check(text: str, path: Path, settings: Settings, contexts: Mapping[str | None, Context]) -> ResourceRef:
    """Return the resource of a manifest; raises UsageError if it is not valid, or refused by brokers."""
    with TemporaryDirectory() as folder:
        # Through a file: the loader that reads it here is the one of every plan.
        file = Path(folder, path.name)
        file.write_text(text, "utf-8")
        try:
            loaded = load_all([file], [*contexts.values()], folder=path.parent)
        except InvalidInput as error:
            problem = error.problems[0]
            raise UsageError(f"{problem.message}; nothing was written", hint=problem.hint) from error
    for environment, desired in zip(contexts, loaded, strict=True):
        context = settings.build_rule_context(tuple(desired), environment, subset=True)
        for finding in rules.check(context, {}, (rules.Stage.MANIFESTS,)):
            # Other errors, such as of a policy, are to be mended in the file.
            if finding.severity is Severity.ERROR and not rules.RULES[finding.code].waivable:
                raise UsageError(f"{finding.message}; nothing was written", hint=finding.suggestion)
    return loaded[0][0].ref
