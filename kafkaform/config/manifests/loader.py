"""The loader of manifests: it returns desired resources, or reports all problems of all files."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, cast

from kafkaform.config.manifests.field_locations import FieldLocations
from kafkaform.config.manifests.files import CONFIG_FILE, find_manifest_files, read_bytes
from kafkaform.config.manifests.structure import check_structure
from kafkaform.config.manifests.templates import find_placeholder, find_template
from kafkaform.config.manifests.yaml12 import Document, read_documents
from kafkaform.core.errors import InvalidInput, KafkaformError, Problem
from kafkaform.core.files import read_file
from kafkaform.core.model import Desired, Intent, Location, ResourceRef, Undeclared
from kafkaform.core.schema_files import find_marked
from kafkaform.core.values import Value, field, replace
from kafkaform.core.wording import listed, nearest, quoted
from kafkaform.resources import KINDS, consent, find_kind, group_ref, list_topics_read, misspelt_hazard
from kafkaform.resources.base import Itemized, Kind, Layer, WholeChecked, list_shorthands
from kafkaform.rules.waivers import WAIVER_PREFIX

if TYPE_CHECKING:
    from kafkaform.config.manifests.yaml12 import Path as ValuePath

MAX_VALUES = 5_000_000
"""The maximum number of values, including keys, in the manifests of one run."""
API_VERSION = "kafkaform/v1"
OWN_PREFIX = "kafkaform/"
"""The prefix of kafkaform's annotations."""
SECRETS = frozenset[str]().union(*(find_marked(kind.schema, "x-secret") for kind in KINDS.values()))
"""The keys whose value may be a reference to a secret."""
VERBATIM = frozenset({"config", "labels", "annotations"}).union(
    SECRETS, *(find_marked(kind.schema, "x-verbatim") for kind in KINDS.values())
)
"""Below these keys scalars keep their source text, which the kind of the resource interprets."""

_EMPTY: Mapping[str, Any] = {}
"""Shared by all manifests without labels, annotations or overrides, to save memory."""

_NO_SETTINGS = frozenset({"overrides", "profile"})
"""The keys of a spec that are not settings of a resource, but choose them."""
_PATTERNS = frozenset({"client", "config"})
"""Below these keys, braces may be what an application replaces: `group.instance.id: checkout-{pod}`."""
_OTHER_TOOLS = {
    "kafka.strimzi.io/": ("Strimzi", "`kafkaform import --from strimzi FILE` writes one of kafkaform"),
    "kafka.jikkou.io/": ("jikkou", "`kafkaform import --from jikkou FILE` writes one of kafkaform"),
    "platform.confluent.io/": (
        "Confluent for Kubernetes",
        "in a Topic, partitionCount is partitions, replicas replicationFactor, and configs config",
    ),
}
"""Hints for the manifests of other tools, by the prefix of their apiVersion."""


class Underlay(Value):
    """The settings under a manifest, in the chosen environment and cluster.

    Attributes:
        layers: The layers in normal form, the least specific first.
        locations: Their places; None if there are no layers.
    """

    layers: tuple[Layer, ...] = ()
    locations: FieldLocations | None = None


class Context(Value):
    """The settings of a repository that apply to all of its manifests.

    Attributes:
        environments: The allowed environments; None for any.
        environment: The chosen environment, if any.
        defaults: For each kind, the layers (normal form, least specific first) under every spec.
        undeclared: The default of `spec.undeclared`.
        root: The folder that paths in locations are relative to; None leaves them as given.
        default_locations: For each kind, the places of its defaults in the configuration file.
        fetch: Writes a file that a manifest names, if it is missing below the root; raises KafkaformError.
        profiles: For each profile, by kind, what lies under a spec that names it; with the defaults.
        clusters: The environments of the clusters by name, which overrides may also name.
        cluster: The chosen cluster, if it is one of them.
    """

    environments: tuple[str, ...] | None = None
    environment: str | None = None
    defaults: Mapping[str, tuple[Layer, ...]] = field(default_factory=dict)
    undeclared: Undeclared = Undeclared.REPORT
    root: Path | None = None
    default_locations: Mapping[str, FieldLocations] = field(default_factory=dict)
    fetch: Callable[[Path], None] | None = None
    profiles: Mapping[str, Mapping[str, Underlay]] = field(default_factory=dict)
    clusters: Mapping[str, str | None] = field(default_factory=dict)
    cluster: str | None = None

    @property
    def scopes(self) -> tuple[str, ...]:
        """The names whose overrides apply, the least specific first."""
        return tuple(dict.fromkeys(scope for scope in (self.environment, self.cluster) if scope is not None))

    def find_sibling(self, named: Collection[str]) -> str | None:
        """Return another cluster of the chosen environment, without overrides; None if there is none.

        Args:
            named: The names that have overrides.
        """
        # Clusters without an environment often have manifests of their own, in a folder for each. Overrides
        # for a cluster with the name of an environment are those of the environment.
        if None in {self.cluster, self.environment} or self.cluster in (self.environments or ()):
            return None
        siblings = (name for name in self.clusters if name not in {self.cluster, *named})
        return next((name for name in siblings if self.clusters[name] == self.environment), None)

    def choose(self, scope: str) -> Context:
        """Return the context of an environment, or of a cluster, that overrides name."""
        if scope in self.clusters and scope not in (self.environments or ()):
            return replace(self, environment=self.clusters[scope], cluster=scope)
        return replace(self, environment=scope, cluster=None)

    def find_underlay(self, kind: str, profile: str | None = None) -> Underlay | None:
        """Return what lies under a spec; None if the profile does not exist or does not have the kind."""
        if profile is not None:
            return self.profiles.get(profile, {}).get(kind)
        return Underlay(self.defaults.get(kind, ()), self.default_locations.get(kind))

    def merge_underlay(self, kind: str, profile: str | None = None) -> Layer:
        """Return the values that a manifest inherits from the defaults and from a profile with its kind."""
        under = self.find_underlay(kind, profile)
        return merge([{"undeclared": self.undeclared.value}, *(under.layers if under is not None else ())])


class _Manifest(Value):
    """A parsed manifest without its environment; an unsound one is only used to find more problems."""

    ref: ResourceRef
    kind: Kind
    document: Document
    base: Layer
    overrides: Mapping[str, Layer]
    profile: str | None
    labels: Mapping[str, str]
    allow: Mapping[str, str]
    waivers: Mapping[str, str]
    sound: bool


class InvalidManifests(InvalidInput):
    """Manifests are invalid.

    Args:
        readable: The resources of each context, for checking rules in the same run: those of valid manifests,
            and the names of the others.
        unread: Whether there are manifests whose names are not known, either.
    """

    def __init__(self, problems: Iterable[Problem], readable: list[list[Desired]], *, unread: bool) -> None:
        super().__init__(problems)
        self.readable = readable
        self.unread = unread


def ignore_ref(_: ResourceRef) -> None:
    """Do nothing: the default for `found`."""


def load(
    paths: Iterable[Path], context: Context, found: Callable[[ResourceRef], None] = ignore_ref
) -> list[Desired]:
    """Load every manifest at or below the paths for one context, as `load_all` does."""
    return load_all(paths, [context], found)[0]


def load_all(
    paths: Iterable[Path],
    contexts: Sequence[Context],
    found: Callable[[ResourceRef], None] = ignore_ref,
    *,
    combined: bool = True,
    folder: Path | None = None,
) -> list[list[Desired]]:
    """Load every manifest, once for each context (`validate` checks all environments at once).

    Args:
        paths: Manifests or folders of them.
        contexts: The contexts, one for each list that is returned.
        found: Called with each resource as soon as its manifest was parsed, sound or not.
        combined: Whether manifests that declare a resource together become one; else, each is one.
        folder: The folder that the files named in manifests are relative to; None for that of the manifest.

    Raises:
        InvalidManifests: Some are invalid; has all problems of all files, each once.
    """
    return parse(paths, contexts[0], found, folder).resolve(contexts, combined=combined)


class ParsedManifests(Value):
    """Manifests that were read, before an environment is chosen.

    Attributes:
        manifests: The manifests, sound or not.
        unread: Whether there are manifests whose names are not known, either.
    """

    manifests: list[_Manifest]
    problems: list[Problem]
    unread: bool

    @property
    def scopes(self) -> frozenset[str]:
        """The environments and clusters that have overrides."""
        return frozenset(scope for manifest in self.manifests for scope in manifest.overrides)

    def resolve(self, contexts: Sequence[Context], *, combined: bool = True) -> list[list[Desired]]:
        """Return the resources that the manifests declare in each context; see `load_all`.

        Raises:
            InvalidManifests: Some are invalid; has all problems of all files, each once.
        """
        manifests, problems = self.manifests, [*self.problems]
        resolved = [[*_resolve_all(manifests, context, problems)] for context in contexts]
        invalid = _select_invalid(manifests, problems) if problems else []
        if invalid:
            locations = {declared.location for declared in invalid}
            resolved = [
                [declared for declared in each if declared.location not in locations] for each in resolved
            ]
        if combined:
            resolved = [_combine(desired, invalid, problems, unread=self.unread) for desired in resolved]
        if problems:
            readable = [[*desired, *invalid] for desired in resolved]
            # Contexts share the manifests, and so their problems: each is reported once.
            unique = sorted(dict.fromkeys(problems), key=_get_sort_key)
            raise InvalidManifests(unique, readable, unread=self.unread)
        return resolved


def parse(
    paths: Iterable[Path],
    context: Context,
    found: Callable[[ResourceRef], None] = ignore_ref,
    folder: Path | None = None,
) -> ParsedManifests:
    """Read every manifest at or below the paths; see `load_all`."""
    problems: list[Problem] = []
    root = context.root
    files = find_manifest_files(paths if root is None else _select_inside(root, paths, problems), problems)
    if root is not None:
        problems = [make_relative(root, problem) for problem in problems]
    manifests = []
    values = 0
    unread = bool(problems)
    for file in files:
        before = len(problems)
        documents = _read_manifests(file, root, problems)
        unread = unread or len(problems) > before
        values += sum(document.size for document in documents)
        # The limit is for memory: checked after each file, it is exceeded by one file at most.
        if values > MAX_VALUES:
            message = (
                f"the manifests up to this one have more than {MAX_VALUES:,} values; the others are not read"
            )
            hint = "give the paths of fewer manifests"
            problems.append(Problem(message, Location(_display_path(root, str(file))), hint))
            unread = True
            break
        for document in documents:
            home = file if folder is None else folder / file.name
            manifest = _parse_manifest(document, problems, home, context)
            if manifest is not None:
                # A plan asks the cluster for it while the next files are parsed.
                found(manifest.ref)
                manifests.append(manifest)
            unread = unread or manifest is None or not manifest.ref.name
    _check_duplicates(manifests, problems)
    return ParsedManifests(manifests, problems, unread)


def _select_invalid(manifests: Sequence[_Manifest], problems: Iterable[Problem]) -> list[Desired]:
    """Return the resources of the manifests that problems are in, each with its name alone."""
    starts: dict[str, list[int]] = {}
    for manifest in manifests:
        starts.setdefault(manifest.document.file, []).append(manifest.document.locate().line)
    # A problem belongs to the last manifest of its file that begins before it.
    flawed = {
        (location.file, lines[bisect_right(lines, location.line) - 1])
        for location in (problem.location for problem in problems)
        if location is not None and (lines := starts.get(location.file)) is not None
    }
    starts_of = ((manifest, manifest.document.locate()) for manifest in manifests)
    return [
        _build_invalid(manifest)
        for manifest, location in starts_of
        if manifest.ref.name and (not manifest.sound or (location.file, location.line) in flawed)
    ]


def _build_invalid(manifest: _Manifest) -> Desired:
    """Return the resource of an invalid manifest, for rules that only need its name."""
    document = manifest.document
    intent = Intent(waivers=manifest.waivers)
    return Desired(
        manifest.ref,
        {},
        intent,
        document.locate(),
        FieldLocations(document, list_shorthands(manifest.kind)),
        invalid=True,
    )


def find_file_problems(paths: Iterable[Path]) -> list[Problem]:
    """Find the problems of manifests that do not depend on the configuration, if that cannot be read."""
    problems: list[Problem] = []
    files = find_manifest_files(paths, problems)
    read = [
        _parse_manifest(document, problems, file, Context())
        for file in files
        for document in _read_manifests(file, None, problems)
    ]
    _check_duplicates([manifest for manifest in read if manifest is not None], problems)
    return sorted(dict.fromkeys(problems), key=_get_sort_key)


def _get_sort_key(problem: Problem) -> tuple[str, int, int]:
    location = problem.location
    return (location.file, location.line, location.column) if location else ("", 0, 0)


def _select_inside(root: Path, paths: Iterable[Path], problems: list[Problem]) -> list[Path]:
    """Return the paths below the root with links followed, as the files there are not trusted."""
    inside = []
    # Files of an untrusted branch: a link or `..` must not lead to other files of this machine.
    for path in paths:
        if path.resolve().is_relative_to(root.resolve()):
            inside.append(path)
        else:
            problems.append(Problem(f"is outside {root}: not read", Location(str(path))))
    return inside


def _display_path(root: Path | None, path: str) -> str:
    """Return a path as in locations."""
    inside = root is not None and PurePath(path).is_relative_to(root)
    return str(PurePath(path).relative_to(cast("Path", root))) if inside else path


def make_relative(root: Path, problem: Problem) -> Problem:
    """Return a problem with its file relative to the root."""
    location = problem.location
    return (
        replace(problem, location=location._replace(file=_display_path(root, location.file)))
        if location
        else problem
    )


def _read_manifests(path: Path, root: Path | None, problems: list[Problem]) -> list[Document]:
    """Read the documents of a file that are not empty."""
    read_problems: list[Problem] = []
    raw = read_bytes(path, read_problems)
    problems.extend(p if root is None else make_relative(root, p) for p in read_problems)
    if raw is None:
        return []
    before = len(problems)
    shown = _display_path(root, str(path))
    documents = read_documents(raw, shown, problems.append, verbatim=VERBATIM)
    given = [document for document in documents if document.data is not None]
    if not given and len(problems) == before:
        hint = "write a manifest, or delete the file"
        problems.append(Problem("the file contains no manifest", Location(shown), hint))
    source = raw.decode(errors="replace")
    # Few files have one, and walking all texts of the others would take time.
    if find_template(source) is not None:
        for document in given:
            problems.extend(dict.fromkeys(_find_templates(document, source.splitlines())))
    return given


def _find_templates(document: Document, source: Sequence[str]) -> Iterator[Problem]:
    known: set[str] = set()
    for path, location, text in document.walk_texts():
        template = find_template(text)
        # An escape in quotes says that it is text: it is not in the source.
        if (
            template is None
            or (template.is_placeholder and not _PATTERNS.isdisjoint(path))
            or not any(
                template.mark in line
                for line in source[location.line - 1 : location.line + text.count("\n") + 1]
            )
        ):
            continue
        if template.mark == "${":
            # The kind checks references to secrets.
            if path[-1:] and path[-1] in SECRETS:
                continue
            hint = "write the value; values that differ by environment go into spec.overrides"
            yield Problem("${…} is not expanded in manifests", location, hint)
        # Annotations are for people and for other tools.
        elif "annotations" not in path and template.message not in known:
            known.add(template.message)
            yield Problem(template.message, location)


def _parse_manifest(
    document: Document, problems: list[Problem], path: Path, context: Context
) -> _Manifest | None:
    kind = _parse_kind(document, problems)
    if kind is None:
        return None
    schema = kind.schema
    # An unsound manifest is parsed as far as possible, so that one run reports all of its problems.
    flaws, sound = check_structure(document, schema)
    problems.extend(flaws)
    data = cast("dict[str, dict[str, Any]]", sound.data)
    metadata, spec = data.get("metadata", _EMPTY), data.get("spec", _EMPTY)
    annotations, overrides = metadata.get("annotations", _EMPTY), spec.get("overrides", _EMPTY)
    profile = spec.get("profile")
    if overrides or profile is not None:
        spec = {name: value for name, value in spec.items() if name not in _NO_SETTINGS}
    if files := find_marked(schema, "x-file"):
        known = len(problems)
        spec = _read_files(spec, files, document, ("spec",), path, context, problems)
        overrides = {
            name: _read_files(layer, files, document, ("spec", "overrides", name), path, context, problems)
            for name, layer in overrides.items()
        }
        flaws = flaws or problems[known:]
    return _Manifest(
        ResourceRef(kind.name, metadata.get("name", "")),
        kind,
        document,
        kind.normalise(spec, sound.create_reporter(("spec",), problems)),
        {
            name: kind.normalise(layer, sound.create_reporter(("spec", "overrides", name), problems))
            for name, layer in overrides.items()
        }
        or _EMPTY,
        profile,
        metadata.get("labels", _EMPTY),
        _parse_consents(document, annotations, problems),
        dict(_parse_waivers(document, annotations, problems)) or _EMPTY,
        not flaws,
    )


MAX_FILE_BYTES = 1 << 20
"""The most bytes of a file that a manifest names."""


def _read_files(
    layer: Mapping[str, Any],
    names: Collection[str],
    document: Document,
    steps: ValuePath,
    path: Path,
    context: Context,
    problems: list[Problem],
) -> Mapping[str, Any]:
    """Return a layer of a spec with the texts of files in place of their names; reports those that fail."""
    read = dict(layer)
    for name in names:
        if not isinstance(given := layer.get(name), Mapping):
            continue
        try:
            read[name] = _read_file(path, str(given["file"]), context)
        except (OSError, ValueError, KafkaformError) as error:
            del read[name]
            reason = error.strerror if isinstance(error, OSError) else str(error)
            location = document.locate((*steps, name, "file"))
            problems.append(Problem(f"{name}: cannot read {quoted(given['file'])}: {reason}", location))
    return read


def _read_file(manifest: Path, name: str, context: Context) -> str:
    """Return the text of a file beside a manifest; raises ValueError for one outside the project."""
    path, project = (manifest.parent / name).resolve(), context.root or _find_project(manifest)
    # What is read here is shown in plans: a pull request must not be able to name other files of a machine.
    if not path.is_relative_to(project.resolve()):
        raise ValueError(f"it is outside of {project.name or project}, the folder of the project")
    if context.fetch is not None and not path.exists():
        context.fetch(path)
    content = read_file(path, MAX_FILE_BYTES, pipes=False)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None


def _find_project(manifest: Path) -> Path:
    """Return the folder of the project of a manifest: that of kafkaform.yaml, or the repository."""
    folder = manifest.resolve().parent
    markers = (CONFIG_FILE, ".git")
    return next((up for up in (folder, *folder.parents) if any((up / m).exists() for m in markers)), folder)


def _parse_kind(document: Document, problems: list[Problem]) -> Kind | None:
    if not isinstance(document.data, dict):
        hint = f"start with apiVersion: {API_VERSION}, without a dash; a line --- separates manifests"
        problems.append(Problem("a manifest must be a mapping", document.locate(), hint))
        return None
    name = document.data.get("kind")
    version = document.data.get("apiVersion")
    for prefix, (tool, hint) in _OTHER_TOOLS.items():
        # People try kafkaform on the manifests that they have.
        if str(version).startswith(prefix):
            problems.append(Problem(f"this is a manifest of {tool}", document.locate(["kind"]), hint))
            return None
    kind = KINDS.get(name) if isinstance(name, str) else None
    if kind is None and (template := find_placeholder(document, ["kind"], name)) is not None:
        problems.append(Problem(template.message, document.locate(["kind"])))
    elif kind is None:
        message = "kind is missing" if name is None else "kind must be text"
        message = f"unknown kind {quoted(name)}" if isinstance(name, str) else message
        meant = find_kind(str(name))
        hint = f"did you mean {meant!r}?" if meant else suggest_names(str(name), KINDS, "known kinds")
        problems.append(Problem(message, document.locate(["kind"]), hint))
        if version != API_VERSION:
            flaw = "is missing" if version is None else f"must be {API_VERSION}, not {quoted(str(version))}"
            hint = f"write `apiVersion: {API_VERSION}`"
            problems.append(Problem(f"apiVersion {flaw}", document.locate(["apiVersion"]), hint))
    return kind


def _parse_consents(
    document: Document, annotations: Mapping[str, str], problems: list[Problem]
) -> Mapping[str, str]:
    if consent.ANNOTATION not in annotations:
        return _EMPTY
    allow, bad = consent.parse_annotation(annotations[consent.ANNOTATION])
    location = document.locate(["metadata", "annotations", consent.ANNOTATION])
    problems.extend(
        Problem(
            f"{quoted(line)} is not a valid consent",
            location,
            "write one per line: `HAZARD from VALUE: reason`, `delete of TOPIC-ID: reason`, or `HAZARD: "
            "reason`",
        )
        for line in bad
    )
    problems.extend(
        Problem(f"there is no hazard {quoted(hazard)}", location, meant)
        for hazard in dict.fromkeys(consent.split_head(head)[0] for head in allow)
        if (meant := misspelt_hazard(hazard)) is not None
    )
    return allow


def _parse_waivers(
    document: Document, annotations: Mapping[str, str], problems: list[Problem]
) -> Iterator[tuple[str, str]]:
    """Yield the codes of waived rules with the reasons; unknown annotations of kafkaform are problems."""
    for name, reason in annotations.items():
        location = document.locate(["metadata", "annotations", name], key=True)
        code = name.removeprefix(WAIVER_PREFIX)
        if name.startswith(WAIVER_PREFIX):
            if reason.strip():
                yield code, reason.strip()
            else:
                problems.append(
                    Problem(f"the waiver of {quoted(code)} has no reason", location, "add a reason")
                )
        elif name.startswith(OWN_PREFIX) and name != consent.ANNOTATION:
            hint = suggest_names(name, [consent.ANNOTATION, f"{WAIVER_PREFIX}KF104"], "annotations")
            problems.append(Problem(f"there is no annotation {quoted(name)}", location, hint))


def _check_duplicates(manifests: Iterable[_Manifest], problems: list[Problem]) -> None:
    first: dict[ResourceRef, Document] = {}
    for manifest in manifests:
        ref, document = manifest.ref, manifest.document
        # A missing name is reported by the schema; two nameless manifests are not duplicates.
        if not ref.name:
            continue
        if first.setdefault(ref, document) is not document:
            name = ["metadata", "name"]
            hint = f"first declared at {first[ref].locate(name)}; a resource can have only one manifest"
            problems.append(Problem(f"{ref} is declared twice", document.locate(name), hint))


def _resolve_all(
    manifests: Sequence[_Manifest], context: Context, problems: list[Problem]
) -> Iterator[Desired]:
    @cache
    def find_shared(kind: str, name: str) -> object:
        values = {manifest.base.get(name) for manifest in manifests if manifest.kind.name == kind} - {None}
        return values.pop() if len(values) == 1 else None

    for manifest in manifests:
        problems.extend(_check_overrides(manifest, context))
        if manifest.sound:
            yield _resolve(manifest, context, problems, find_shared)


def _combine(
    desired: Sequence[Desired], invalid: Iterable[Desired], problems: list[Problem], *, unread: bool
) -> list[Desired]:
    """Return the resources that manifests declare: of some kinds, several manifests declare one."""
    read_by = {declared.ref.name: topics for declared in desired if (topics := list_topics_read(declared))}
    unknown = {declared.ref for declared in invalid}

    def find_read_topics(group: str) -> Sequence[str] | None:
        # That a group's own manifest is invalid is no problem of the manifests that name the group.
        return read_by.get(group, () if unread or group_ref(group) in unknown else None)

    combined: list[Desired] = []
    for name, kind in KINDS.items():
        resources: Sequence[Desired] = [d for d in desired if d.ref.kind == name]
        if isinstance(kind, Itemized):
            resources, combine_problems = kind.combine(desired, find_read_topics)
            problems += combine_problems
        combined += resources
    order = {id(declared): number for number, declared in enumerate(desired)}
    return sorted(combined, key=lambda declared: order.get(id(declared), len(order)))


def _resolve(
    manifest: _Manifest, context: Context, problems: list[Problem], find_shared: Callable[[str, str], object]
) -> Desired:
    document, kind = manifest.document, manifest.kind
    under = context.find_underlay(kind.name, manifest.profile)
    if under is None:
        problems.append(_explain_profile(manifest, context))
        # What is missing without the profile would be reported as well.
        under, problems = Underlay(), []
    layers: list[Layer] = [
        {"undeclared": context.undeclared.value},
        *under.layers,
        {} if manifest.profile is None else {"profile": manifest.profile},
        manifest.base,
        *(manifest.overrides.get(scope, {}) for scope in context.scopes),
    ]
    report_problem = document.create_reporter(("spec",), problems)

    def report(path: tuple[str | int, ...], message: str, hint: str | None, /, *, key: bool = False) -> None:
        # A required field that is missing: the value of the other manifests is the likely one.
        if path and path[0] not in merged and (shared := find_shared(kind.name, str(path[0]))) is not None:
            hint = f"{hint}; the others of this kind have {shared}"
        report_problem(path, message, hint, key=key)

    merged = merge(layers)
    state, intent = kind.resolve(merged, report)
    intent = replace(intent, labels=manifest.labels, allow=manifest.allow, waivers=manifest.waivers)
    locations = FieldLocations(document, list_shorthands(kind), context.scopes, under=under.locations)
    desired = Desired(manifest.ref, state, intent, document.locate(), locations)
    if isinstance(kind, WholeChecked):
        problems.extend(kind.find_problems(desired))
    return desired


def _explain_profile(manifest: _Manifest, context: Context) -> Problem:
    """Return the problem of a profile that does not exist, or that is none of this kind."""
    name, kind = manifest.profile or "", manifest.kind.name
    location = manifest.document.locate(("spec", "profile"))
    if name in context.profiles:
        known = [profile for profile, kinds in context.profiles.items() if kind in kinds]
        hint = f"add {kind}: below profiles.{name}, or use one that has it: {listed(known) or 'none'}"
        return Problem(f"the profile {quoted(name)} has nothing for a {kind}", location, hint)
    hint = suggest_names(name, context.profiles, f"profiles in {CONFIG_FILE}")
    return Problem(f"there is no profile {quoted(name)}", location, hint)


def _check_overrides(manifest: _Manifest, context: Context) -> Iterator[Problem]:
    document, path = manifest.document, ("spec", "overrides")
    # Overrides of a cluster need the cluster, or an environment, in which other clusters may be meant.
    undecided = {*manifest.overrides}.difference(context.clusters if context.cluster is not None else ())
    if undecided and context.environment is None:
        # Without an environment, the manifest would be planned as no cluster has it.
        hint = f"choose one with --environment ({', '.join(manifest.overrides)})"
        location = document.locate(path, key=True)
        yield Problem("there are overrides, but no environment is chosen", location, hint)
    if context.environments is not None:
        for name in manifest.overrides:
            yield from check_environment(
                document, (*path, name), name, context.environments, key=True, clusters=context.clusters
            )


def check_environment(
    document: Document,
    path: ValuePath,
    name: str,
    known: Collection[str],
    *,
    key: bool,
    clusters: Collection[str] = (),
) -> Iterator[Problem]:
    """Yield a problem if a name is not one of the allowed environments, or of the clusters."""
    if name not in known and name not in clusters:
        hint = suggest_names(
            name, [*dict.fromkeys((*known, *clusters))], "known names" if clusters else "environments"
        )
        scope = "environment or cluster" if clusters else "environment"
        yield Problem(f"unknown {scope} {quoted(name)}", document.locate(path, key=key), hint)


def suggest_names(name: str, known: Collection[str], what: str) -> str:
    """Return a hint: the nearest of the known names, or all of them."""
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
