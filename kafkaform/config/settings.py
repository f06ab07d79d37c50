"""The configuration file `kafkaform.yaml`: clusters, environments, defaults and policy."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from kafkaform.config import client_properties
from kafkaform.config.manifests.files import CONFIG_FILE, read_bytes
from kafkaform.config.manifests.loader import Context, hint_for, located_below, merge, unknown_environment
from kafkaform.config.manifests.places import FieldPlaces
from kafkaform.config.manifests.structure import sound_part, structure_problems
from kafkaform.config.manifests.yaml12 import read_documents
from kafkaform.core.errors import InvalidInput, KafkaformError, Problem, UsageError
from kafkaform.core.model import Location, Undeclared
from kafkaform.core.moves import MoveOptions, WhenBusy, parse_rate
from kafkaform.core.units import parse_age, parse_size
from kafkaform.core.wording import quoted
from kafkaform.resources import KINDS, misspelt_hazard
from kafkaform.rules.catalogue import DEFAULT_LIMITS, ProjectLimits, read_limits
from kafkaform.rules.policies import check_severities, read_policies

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from kafkaform.config.client_properties import ClientProperties
    from kafkaform.config.manifests.yaml12 import Document
    from kafkaform.core.model import Desired
    from kafkaform.resources.base import Layer
    from kafkaform.rules.catalogue import Rule, RuleContext

T = TypeVar("T")

MISNAMED = "kafkaform.yml"
_GIT = ".git"  # a folder; in a worktree or a submodule, a file
VERBATIM = frozenset({"config", "retention", "client", "labels", "fields", "offsets"})
DEFAULT_MANIFESTS = ("topics",)
DEFAULT_IGNORE = ("__*", "_schemas", "*-changelog", "*-repartition")
"""Topics that Kafka, a schema registry and Kafka Streams make for themselves."""


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """Where the applies to one cluster write down what they do.

    Attributes:
        topic: Whether to the topic `__kafkaform_audit` of that cluster.
        file: To which file of JSON lines; None: to none.
    """

    topic: bool = True
    file: Path | None = None

    @property
    def enabled(self) -> bool:
        """Whether anything is written down at all."""
        return self.topic or self.file is not None


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """One cluster of the configuration file.

    Attributes:
        name: Its name there.
        client: Its client properties.
        environment: Whose overrides hold on it.
        cluster_id: The id that it must have.
        forbid: Hazards (globs) that are refused on it whatever the consent.
        brokers: How many brokers it is meant to have, at the least.
        lock: Whether an apply holds the cluster's lock while it is at work.
        audit: Where applies write down what they do.
        verify_key: The public key (PEM) of whoever may sign saved plans; None: plans need no signature.
        max_plan_age: How old a saved plan may be, in milliseconds; None: any age.
        moves: How replicas are moved on it.
    """

    name: str
    client: ClientProperties
    environment: str | None = None
    cluster_id: str | None = None
    forbid: tuple[str, ...] = ()
    brokers: int | None = None
    lock: bool = True
    audit: AuditSettings = AuditSettings()
    verify_key: Path | None = None
    max_plan_age: int | None = None
    moves: MoveOptions = field(default_factory=MoveOptions)


@dataclass(frozen=True, slots=True)
class BranchConfiguration:
    """The difference between the configuration file of a branch that is not trusted and the trusted one.

    Attributes:
        sections: The sections that differ, and take effect: all but `clusters`.
        clusters: The clusters that differ; the trusted ones are in use.
    """

    sections: frozenset[str]
    clusters: frozenset[str]


@dataclass(frozen=True, slots=True)
class Settings:
    """What a repository says; without a configuration file, the defaults of this class.

    Attributes:
        file: The configuration file, or None.
        manifests: Where manifests are.
        environments: The closed list of environments; None without a configuration file.
        clusters: By name.
        defaults: For each kind, its layer in normal form and those of environments.
        default_places: For each kind with defaults, what finds them in the file.
        undeclared: The default of `spec.undeclared`.
        owns: Globs of the topics that pruning may delete.
        protected: Globs of the resources that are never deleted.
        ignore: Globs of live resources that nobody declares and nobody is told of.
        rules: Severities by rule code; `off` switches a rule off.
        limits: What rules take for normal.
        policies: The project's own rules.
        root: The folder that the paths of manifests are told from; None: as they were given.
        branch: How the configuration of a branch that is not trusted differs; None if it does not.
    """

    file: str | None = None
    manifests: tuple[Path, ...] = tuple(map(Path, DEFAULT_MANIFESTS))
    environments: tuple[str, ...] | None = None
    clusters: Mapping[str, ClusterSettings] = field(default_factory=dict)
    defaults: Mapping[str, tuple[Layer, Mapping[str, Layer]]] = field(default_factory=dict)
    default_places: Mapping[str, FieldPlaces] = field(default_factory=dict, compare=False, repr=False)
    undeclared: Undeclared = Undeclared.REPORT
    owns: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    ignore: tuple[str, ...] = DEFAULT_IGNORE
    rules: Mapping[str, str] = field(default_factory=dict)
    limits: ProjectLimits = DEFAULT_LIMITS
    policies: tuple[Rule, ...] = ()
    root: Path | None = None
    branch: BranchConfiguration | None = None

    def read_branch_settings(self, folder: Path) -> Settings:
        """Return the settings for the manifests of a branch that is not trusted.

        If the branch has a configuration file, all of it takes effect except `clusters`: a branch must not
        choose addresses, credentials or what is forbidden on a cluster.

        Args:
            folder: Where the branch is checked out, as this file's folder would be.

        Raises:
            InvalidInput: The configuration file of the branch is not valid, or leads out of the folder.
        """
        file = Path(self.file) if self.file is not None else None
        home = file.parent if file is not None else Path()
        trusted = replace(
            self, manifests=tuple(folder / p.relative_to(home) for p in self.manifests), root=folder
        )
        if file is None or not os.path.lexists(proposed := folder / file.name):
            return trusted
        if not proposed.resolve().is_relative_to(folder.resolve()):
            raise InvalidInput([Problem(f"leads out of {folder}: not read", Location(file.name))])
        try:
            settings = read_settings(proposed)
        except InvalidInput as error:
            raise InvalidInput([located_below(folder, problem) for problem in error.problems]) from error
        difference = _compare_configurations(file, proposed)
        places = {
            kind: replace(each, document=replace(each.document, file=file.name))
            for kind, each in settings.default_places.items()
        }
        return replace(
            settings,
            file=self.file,
            clusters=self.clusters,
            root=folder,
            branch=difference,
            default_places=places,
        )

    @property
    def forbidden(self) -> tuple[str, ...]:
        """The hazards that any of the clusters forbids: for a cluster that may be any of them."""
        return tuple(dict.fromkeys(one for cluster in self.clusters.values() for one in cluster.forbid))

    def context(self, environment: str | None) -> Context:
        """What manifests are read with, in one environment.

        Raises:
            UsageError: The defaults differ by environment, and none was chosen.
        """
        if environment is None and any(overrides for _, overrides in self.defaults.values()):
            raise UsageError(
                f"the defaults in {self.file} have overrides, but no environment is chosen",
                hint=f"choose one with --environment ({', '.join(self.environments or ())})",
            )
        layers: dict[str, tuple[Layer, ...]] = {}
        for kind, (base, overrides) in self.defaults.items():
            over = overrides.get(environment) if environment is not None else None
            layers[kind] = (base,) if over is None else (base, over)
        places = {kind: replace(each, environment=environment) for kind, each in self.default_places.items()}
        return Context(self.environments, environment, layers, self.undeclared, self.root, places)

    def cluster(self, name: str | None) -> ClusterSettings | None:
        """The cluster of that name; the only one if no name is given; None if there are none.

        Raises:
            UsageError: There is no such cluster, or there are several and none was chosen.
        """
        if name is not None:
            if name not in self.clusters:
                hint = hint_for(name, self.clusters, "clusters")
                raise UsageError(f"there is no cluster {name!r} in {self.file or CONFIG_FILE}", hint=hint)
            return self.clusters[name]
        if len(self.clusters) > 1:
            hint = f"choose one with --cluster ({', '.join(self.clusters)})"
            raise UsageError(f"{self.file} names several clusters", hint=hint)
        return next(iter(self.clusters.values()), None)

    def brokers(self, environment: str | None) -> int | None:
        """How many brokers the only cluster of an environment is meant to have; None if nobody says."""
        there = [cluster for cluster in self.clusters.values() if cluster.environment == environment]
        return there[0].brokers if len(there) == 1 else None

    def rule_context(
        self, desired: tuple[Desired, ...], environment: str | None, *, subset: bool
    ) -> RuleContext:
        """What rules look at offline."""
        from kafkaform.rules import RuleContext

        context = self.context(environment)
        return RuleContext(
            desired,
            limits=self.limits,
            environment=environment,
            brokers=self.brokers(environment),
            subset=subset,
            defaults={
                (kind, path): place
                for kind, places in context.default_places.items()
                for path in _fields(merge(context.defaults.get(kind, ())))
                if (place := places.find(path)) is not None
            },
        )

    def check_environment(self, name: str | None) -> None:
        """Raise a UsageError for an environment that is not in the closed list."""
        if name is None or self.environments is None or name in self.environments:
            return
        hint = hint_for(name, self.environments, "environments")
        raise UsageError(f"there is no environment {name!r} in {self.file}", hint=hint)


def _fields(layer: Layer) -> Iterator[str]:
    """The paths of the fields that a layer in normal form sets."""
    for name, value in layer.items():
        if isinstance(value, Mapping):
            yield from (f"{name}.{key}" for key in value)
        elif value is not None:
            yield name


def find_settings(given: Path | None, *, untrusted: Path | None = None) -> Settings:
    """Read the configuration file: the given one, or the nearest `kafkaform.yaml`, or none at all.

    The nearest one is that of the working directory, or else of a folder above it, up to the root of the Git
    repository; outside of a repository, only the working directory is searched.

    Args:
        given: The file that was asked for by name.
        untrusted: A folder whose own configuration is not to be read.

    Raises:
        InvalidInput: With every problem of the file.
        KafkaformError: The given file does not exist, one has the wrong name, or it is not to be read.
    """
    if given is not None:
        if given.exists():
            return read_settings(given)
        raise KafkaformError(f"{given}: no such file", hint="run kafkaform init for an example")
    here = Path.cwd()
    for folder in _searched(here):
        _refuse_misnamed(folder, here)
        if (found := folder / CONFIG_FILE).exists():
            if untrusted is not None and _belongs_to(folder, untrusted.resolve()):
                raise KafkaformError(
                    f"{_from(here, found)} is the configuration of {untrusted}, which is not read with "
                    "--manifests-from",
                    hint=f"run in the folder of a trusted {CONFIG_FILE}, or name one with --config",
                )
            return read_settings(_from(here, found))
    return Settings()


def _searched(here: Path) -> Iterator[Path]:
    """The folders in which the configuration file may lie, the nearest first."""
    folders = (here, *here.parents)
    root = next((number for number, folder in enumerate(folders) if (folder / _GIT).exists()), 0)
    # As Git does, no repository of somebody else's is trusted for being above this folder, such as in /tmp.
    if root and (folders[root] / _GIT).stat().st_uid not in {os.geteuid(), here.stat().st_uid}:
        root = 0
    yield from folders[: root + 1]


def _belongs_to(folder: Path, tree: Path) -> bool:
    """Whether a folder is in a tree, and in no repository of its own there."""
    if not folder.is_relative_to(tree):
        return False
    between = [folder, *folder.parents][: len(folder.parts) - len(tree.parts)]
    return not any((one / _GIT).exists() for one in between)


def _from(here: Path, path: Path) -> Path:
    return Path(os.path.relpath(path, here))


def _refuse_misnamed(folder: Path, here: Path) -> None:
    """Raise a KafkaformError for a file that somebody takes for the configuration, and that is not read."""
    misnamed = folder / MISNAMED
    if not misnamed.exists():
        return
    shown = _from(here, misnamed)
    beside = (folder / CONFIG_FILE).exists()
    raise KafkaformError(
        f"{shown} is not read: the configuration file must be named {CONFIG_FILE}",
        hint=f"remove it: {CONFIG_FILE} also exists" if beside else f"rename it to {CONFIG_FILE}",
    )


def read_settings(path: Path) -> Settings:
    """Read a configuration file; raises InvalidInput with every problem in it."""
    problems: list[Problem] = []
    settings = _settings(path, _read_document(path), problems)
    if problems:
        raise InvalidInput(sorted(problems, key=lambda p: p.location or Location(str(path))))
    return settings


def _read_document(path: Path) -> Document:
    problems: list[Problem] = []
    raw = read_bytes(path, problems)
    documents = read_documents(raw, str(path), problems.append, verbatim=VERBATIM) if raw is not None else []
    if not problems and len(documents) != 1:
        message = f"a configuration file contains one document, not {len(documents) or 'none'}"
        problems.append(Problem(message, Location(str(path))))
    if problems:
        raise InvalidInput(problems)
    return documents[0]


def _compare_configurations(trusted: Path, proposed: Path) -> BranchConfiguration | None:
    """Return what differs between two valid files as data, not as text; None if nothing does."""
    before, after = (cast("dict[str, Any]", _read_document(file).data) for file in (trusted, proposed))
    sections = _differing_keys(before, after)
    clusters = _differing_keys(before.get("clusters", {}), after.get("clusters", {}))
    return BranchConfiguration(sections - {"clusters"}, clusters) if sections else None


def _differing_keys(one: Mapping[str, Any], other: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(key for key in {**one, **other} if one.get(key) != other.get(key))


def _settings(path: Path, document: Document, problems: list[Problem]) -> Settings:
    found = structure_problems(document, "config")
    problems.extend(found)
    data: Any = (sound_part(document, "config") or {}) if found else document.data
    said = cast("dict[str, Any]", document.data)
    environments = tuple(data.get("environments", ()))
    # A list that is itself wrong says nothing about the names in it.
    known = None if "environments" in (said or {}) and "environments" not in data else environments
    policies = _policies(document, data.get("policies", []), known, problems)
    severities = data.get("rules", {})
    limits = read_limits(data.get("limits") or {}, document.reporter(("limits",), problems))
    clusters = _clusters(path.parent, document, data.get("clusters", {}), known, problems)
    check_severities(severities, policies, document.reporter(("rules",), problems))
    return Settings(
        file=str(path),
        manifests=tuple(path.parent / folder for folder in data.get("manifests", DEFAULT_MANIFESTS)),
        environments=environments,
        clusters={
            c.name: replace(c, moves=replace(c.moves, disk_reserve=limits.disk_reserve)) for c in clusters
        },
        defaults=_defaults(document, data.get("defaults", {}), known, problems),
        default_places={
            kind: FieldPlaces(document, KINDS[kind].shorthands, None, ("defaults", kind))
            for kind in data.get("defaults", {})
        },
        undeclared=Undeclared(data.get("undeclared", Undeclared.REPORT.value)),
        rules=severities,
        limits=limits,
        policies=policies,
        owns=tuple(data.get("owns", ())),
        protected=tuple(data.get("protected", ())),
        ignore=tuple(data.get("ignore", DEFAULT_IGNORE)),
    )


def _clusters(
    folder: Path,
    document: Document,
    clusters: Mapping[str, Mapping[str, Any]],
    environments: Collection[str] | None,
    problems: list[Problem],
) -> Iterator[ClusterSettings]:
    for name, cluster in clusters.items():
        path = ("clusters", name)
        environment = cluster.get("environment")
        if environment is not None and environments is not None:
            place = (*path, "environment")
            problems.extend(unknown_environment(document, place, environment, environments, key=False))
        if "client" not in cluster:
            continue  # which the schema has reported
        client, found = client_properties.parse(cluster["client"], partial(_property, document, name))
        problems.extend(found)
        forbid = tuple(cluster.get("forbid", ()))
        for index, hazard in enumerate(forbid):
            meant = misspelt_hazard(hazard)
            if meant is not None:
                at = document.locate([*path, "forbid", index])
                problems.append(Problem(f"there is no hazard {quoted(hazard)}", at, meant))
        yield ClusterSettings(
            name,
            client.located(folder),
            environment,
            cluster.get("clusterId"),
            forbid,
            cluster.get("brokers"),
            cluster.get("lock", True),
            _audit(folder, cluster.get("audit", {})),
            folder / cluster["verifyKey"] if "verifyKey" in cluster else None,
            _read(document, (*path, "maxPlanAge"), cluster.get("maxPlanAge"), parse_age, None, problems),
            _moves(document, (*path, "moves"), cluster.get("moves", {}), problems),
        )


def _audit(folder: Path, said: Mapping[str, Any]) -> AuditSettings:
    file = said.get("file")
    return AuditSettings(said.get("topic", True), None if file is None else folder / file)


def _moves(
    document: Document, path: tuple[str, ...], said: Mapping[str, Any], problems: list[Problem]
) -> MoveOptions:
    usual = MoveOptions()
    return MoveOptions(
        _read(document, (*path, "throttle"), said.get("throttle"), parse_rate, usual.throttle, problems),
        said.get("batchPartitions", usual.batch_partitions),
        _read(
            document, (*path, "batchBytes"), said.get("batchBytes"), parse_size, usual.batch_bytes, problems
        ),
        when_busy=WhenBusy(said.get("whenBusy", usual.when_busy.value)),
    )


def _read(
    document: Document,
    path: tuple[str, ...],
    said: str | int | None,
    parse: Callable[[str], T],
    unsaid: T,
    problems: list[Problem],
) -> T:
    """A value with a unit."""
    if said is None:
        return unsaid
    try:
        return parse(str(said))
    except ValueError as error:
        problems.append(Problem(f"{path[-1]}: {error}", document.locate(path)))
        return unsaid


def _policies(
    document: Document,
    policies: list[Mapping[str, Any]],
    environments: Collection[str] | None,
    problems: list[Problem],
) -> tuple[Rule, ...]:
    for number, policy in enumerate(policies):
        for index, name in enumerate((policy or {}).get("environments") or ()):
            if environments is not None:
                place = ("policies", number, "environments", index)
                problems.extend(unknown_environment(document, place, name, environments, key=False))
    return read_policies(policies, document.reporter(("policies",), problems))


def _property(document: Document, cluster: str, name: str) -> Location:
    return document.locate(["clusters", cluster, "client", name], key=True)


def _defaults(
    document: Document,
    defaults: Mapping[str, Mapping[str, Any]],
    environments: Collection[str] | None,
    problems: list[Problem],
) -> dict[str, tuple[Layer, Mapping[str, Layer]]]:
    layers: dict[str, tuple[Layer, Mapping[str, Layer]]] = {}
    for name, spec in defaults.items():
        kind, path = KINDS[name], ("defaults", name)
        base = kind.normalise(spec, document.reporter(path, problems))
        overrides: dict[str, Layer] = {}
        for environment, layer in spec.get("overrides", {}).items():
            place = (*path, "overrides", environment)
            if environments is not None:
                problems.extend(unknown_environment(document, place, environment, environments, key=True))
            overrides[environment] = kind.normalise(layer, document.reporter(place, problems))
        layers[name] = base, overrides
    return layers
