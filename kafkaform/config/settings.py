"""The configuration file `kafkaform.yaml`: clusters, environments, defaults and policy."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from kafkaform.config import client_properties
from kafkaform.config.manifests.files import CONFIG_FILE, read_bytes
from kafkaform.config.manifests.loader import (
    Context,
    Underlay,
    check_environment,
    make_relative,
    merge,
    suggest_names,
)
from kafkaform.config.manifests.structure import check_structure
from kafkaform.config.manifests.yaml12 import Document, read_documents
from kafkaform.config.profiles import (
    DEFAULTS,
    build_limit_rules,
    build_underlays,
    check_profiles,
    find_duplicates,
    read_layers,
    read_profiles,
)
from kafkaform.config.webhook import Webhook, parse_webhook
from kafkaform.core.authorizer import AuthorizerSettings
from kafkaform.core.errors import InvalidInput, KafkaformError, Problem, UsageError
from kafkaform.core.model import Desired, Location, Undeclared
from kafkaform.core.units import parse_age, parse_size
from kafkaform.core.values import Value, field, replace
from kafkaform.core.wording import quoted
from kafkaform.resources import find_kind, misspelt_hazard
from kafkaform.resources.name_globs import NO_GLOBS, NameGlobs
from kafkaform.resources.replicas.moves import MoveOptions, WhenBusy, parse_rate
from kafkaform.rules.catalogue import DEFAULT_LIMITS, ProjectLimits, Rule, RuleContext, read_limits
from kafkaform.rules.policies import check_severities, read_policies
from spark_validation.durations import parse_duration

if TYPE_CHECKING:
    from kafkaform.config.client_properties import ClientProperties
    from kafkaform.config.pinned_file import PinnedFile
    from kafkaform.config.profiles import Profile, Scopes, SpecLayer
    from kafkaform.resources.base import Layer

T = TypeVar("T")

MISNAMED = "kafkaform.yml"
NO_FILE_HINT = f"run in the folder of a {CONFIG_FILE}, give --config FILE, or write one: `kafkaform init`"
_GIT = ".git"  # a folder; in a worktree or a submodule, a file
VERBATIM = frozenset({"config", "retention", "client", "labels", "fields", "offsets"})
DEFAULT_MANIFESTS = ("topics",)
DEFAULT_IGNORE = NameGlobs(("__*", "_schemas", "*-changelog", "*-repartition"))
"""The topics that Kafka, schema registries and Kafka Streams create for themselves."""


class AuditSettings(Value):
    """The places of the audit record of one cluster.

    Attributes:
        topic: Whether it is written to the topic `__kafkaform_audit` of that cluster.
        file: The file of JSON lines that it is written to; None for no file.
    """

    topic: bool = True
    file: Path | None = None

    @property
    def enabled(self) -> bool:
        """True if a record is kept."""
        return self.topic or self.file is not None


class Costs(Value):
    """The prices of a cluster.

    Attributes:
        currency: A word, such as EUR.
        gigabyte_month: The price of a gigabyte (10^9 bytes) of a replica for a month.
        partition_month: The price of a replica of a partition for a month.
    """

    currency: str
    gigabyte_month: float = 0.0
    partition_month: float = 0.0

    def compute(self, replicas: int, size: int) -> float:
        """Return the price of replicas of partitions that hold so many bytes together, for a month."""
        return replicas * self.partition_month + size / 10**9 * self.gigabyte_month


class ClusterSettings(Value):
    """One cluster of the configuration file.

    Attributes:
        name: The name of the cluster in the file.
        environment: The environment whose overrides apply to it.
        cluster_id: The required id of the cluster.
        forbid: Hazards (globs) that are refused even with consent.
        brokers: The minimum number of brokers that it should have.
        lock: Whether an apply takes the lock of the cluster.
        audit: The places of the audit record.
        verify_key: The public key (PEM) that verifies saved plans; None if plans need no signature.
        max_plan_age: The maximum age of a saved plan in milliseconds; None for any age.
        moves: The options for moving replicas.
        authorizer: The settings of the authorizer that brokers do not show.
        notify: The webhook that `--notify` posts to; None if there is none.
        labels: Its labels, by which commands select clusters.
        costs: The prices of data and partitions; None if they are not declared.
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
    authorizer: AuthorizerSettings = AuthorizerSettings()
    notify: Webhook | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    costs: Costs | None = None

    @property
    def selectors(self) -> list[str]:
        """Its labels, as selectors."""
        return [f"{label}={value}" for label, value in self.labels.items()]

    def matches(self, selector: str) -> bool:
        """Return whether a selector is for it: a glob of its name, or `LABEL=VALUE`."""
        return selector in self.selectors if "=" in selector else fnmatchcase(self.name, selector)


class ApplyStage(Value):
    """A stage of an apply to several clusters.

    Attributes:
        selectors: Its clusters, by globs of names or by labels.
        wait_ms: The most milliseconds to wait until they are healthy, before the next stage; None: no wait.
    """

    selectors: tuple[str, ...]
    wait_ms: int | None = None


class BranchConfiguration(Value):
    """The difference between the configuration file of an untrusted branch and the trusted one.

    Attributes:
        sections: The sections that differ and take effect: all but `clusters`.
        clusters: The clusters that differ; the trusted settings are used.
    """

    sections: frozenset[str]
    clusters: frozenset[str]


class Settings(Value):
    """The settings of a repository; without a configuration file, the defaults of this class.

    Attributes:
        file: The configuration file, or None.
        manifests: The files and folders of manifests.
        environments: The allowed environments: as listed, or those of the clusters; None without a
            configuration file.
        clusters: The clusters by name.
        defaults: For each kind, the layer under every manifest.
        profiles: The layers between the defaults and the manifests that name them.
        profile_file: The further file of profiles, perhaps of another repository; None without one.
        undeclared: The default of `spec.undeclared`.
        owns: Globs of the resources that pruning may delete.
        protected: Globs of the resources that are never deleted.
        ignore: Globs of undeclared live resources that are not reported.
        rules: Severities by rule code; `off` disables a rule.
        limits: The thresholds of rules.
        policies: The project's own rules.
        stages: The stages of an apply to several clusters; empty for one cluster after the other.
        class_archive: Whether skew makes an archive of Spark's classes in the background (`auto`), before it
            measures (`now`), or does without one (`off`).
        root: The folder that paths of manifests are relative to; None leaves them as given.
        branch: The difference to the configuration of an untrusted branch; None if there is none.
    """

    file: str | None = None
    manifests: tuple[Path, ...] = tuple(map(Path, DEFAULT_MANIFESTS))
    environments: tuple[str, ...] | None = None
    clusters: Mapping[str, ClusterSettings] = field(default_factory=dict)
    defaults: Mapping[str, SpecLayer] = field(default_factory=dict)
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    profile_file: Path | PinnedFile | None = None
    stages: tuple[ApplyStage, ...] = ()
    undeclared: Undeclared = Undeclared.REPORT
    owns: NameGlobs = NO_GLOBS
    protected: tuple[str, ...] = ()
    ignore: NameGlobs = DEFAULT_IGNORE
    rules: Mapping[str, str] = field(default_factory=dict)
    limits: ProjectLimits = DEFAULT_LIMITS
    policies: tuple[Rule, ...] = ()
    class_archive: str = "auto"
    root: Path | None = None
    branch: BranchConfiguration | None = None

    def read_branch_settings(self, folder: Path) -> Settings:
        """Return the settings for the manifests of an untrusted branch.

        If the branch has a configuration file, all of it takes effect except `clusters`: a branch must not
        choose addresses, credentials or the forbidden hazards of a cluster.

        Args:
            folder: The checkout of the branch, at the folder of this configuration file.

        Raises:
            InvalidInput: The configuration file of the branch is invalid, or outside the folder.
        """
        file = Path(self.file) if self.file is not None else None
        home = file.parent if file is not None else Path()
        trusted = replace(
            self, manifests=tuple(folder / p.relative_to(home) for p in self.manifests), root=folder
        )
        # lexists: a link is read, and checked below, even if it leads nowhere.
        if file is None or not os.path.lexists(proposed := folder / file.name):
            return trusted
        if not proposed.resolve().is_relative_to(folder.resolve()):
            raise InvalidInput([Problem(f"is outside {folder}: not read", Location(file.name))])
        try:
            settings = read_settings(proposed, folder, self.profile_file)
        except InvalidInput as error:
            # The checkout is a temporary folder, whose path means nothing to a reader.
            raise InvalidInput([make_relative(folder, problem) for problem in error.problems]) from error
        # By their data: comments and layout have no effect.
        difference = _compare_configurations(file, proposed)
        return replace(
            settings,
            file=self.file,
            # Addresses, credentials and forbidden hazards are those of the trusted file.
            clusters=self.clusters,
            root=folder,
            branch=difference,
        )

    @property
    def forbidden(self) -> tuple[str, ...]:
        """The hazards that at least one cluster forbids, for a check without a cluster."""
        return tuple(dict.fromkeys(hazard for cluster in self.clusters.values() for hazard in cluster.forbid))

    def build_context(self, environment: str | None, cluster: str | None = None) -> Context:
        """Build the context for loading manifests in one environment, and for one cluster of it.

        Raises:
            UsageError: The defaults differ by environment, and none was chosen.
        """
        # Without the overrides, the defaults would be those of no environment.
        if environment is None and any(layer.overrides for layer in self.defaults.values()):
            raise UsageError(
                f"the defaults in {self.file} have overrides, but no environment is chosen",
                hint=f"choose one with --environment ({', '.join(self.environments or ())})",
            )
        context = Context(
            self.environments,
            environment,
            undeclared=self.undeclared,
            root=self.root,
            clusters={name: settings.environment for name, settings in self.clusters.items()},
            cluster=cluster if cluster in self.clusters else None,
        )
        under = {kind: layer.lay_over(Underlay(), context.scopes) for kind, layer in self.defaults.items()}
        return replace(
            context,
            defaults={kind: layer.layers for kind, layer in under.items()},
            default_locations={
                kind: layer.locations for kind, layer in under.items() if layer.locations is not None
            },
            profiles=build_underlays(self.profiles, under, context.scopes),
        )

    def select_clusters(self, selectors: Sequence[str]) -> dict[str, ClusterSettings]:
        """Return the clusters that selectors match, by name, in the order of the file.

        Raises:
            UsageError: There are no clusters, or a selector matches none.
        """
        if self.file is None:
            raise UsageError(f"--clusters: no {CONFIG_FILE} was found", hint=NO_FILE_HINT)
        if not self.clusters:
            raise UsageError(f"--clusters: {self.file} names no cluster", hint="add them below `clusters:`")
        for selector in selectors:
            if not any(cluster.matches(selector) for cluster in self.clusters.values()):
                labels = (label for each in self.clusters.values() for label in each.selectors)
                hint = suggest_names(
                    selector, [*self.clusters, *dict.fromkeys(labels)], "clusters and labels"
                )
                raise UsageError(f"--clusters {selector!r} matches no cluster of {self.file}", hint=hint)
        return {
            name: cluster
            for name, cluster in self.clusters.items()
            if any(cluster.matches(selector) for selector in selectors)
        }

    def select_cluster(self, name: str | None) -> ClusterSettings | None:
        """Return the cluster of this name, or the only one without a name; None if there are none.

        Raises:
            UsageError: There is no such cluster, or there are several and none was chosen.
        """
        if name is not None:
            if self.file is None:
                raise UsageError(
                    f"there is no cluster {name!r}: no {CONFIG_FILE} was found", hint=NO_FILE_HINT
                )
            if name not in self.clusters:
                hint = (
                    suggest_names(name, self.clusters, "clusters")
                    if self.clusters
                    else "add it below clusters:"
                )
                raise UsageError(f"there is no cluster {name!r} in {self.file}", hint=hint)
            return self.clusters[name]
        if len(self.clusters) > 1:
            hint = f"choose one with --cluster ({', '.join(self.clusters)})"
            raise UsageError(f"{self.file} has several clusters, and none is chosen", hint=hint)
        return next(iter(self.clusters.values()), None)

    def count_brokers(self, environment: str | None) -> int | None:
        """Return the expected number of brokers of an environment with one cluster; None if it is not set."""
        clusters = [cluster for cluster in self.clusters.values() if cluster.environment == environment]
        # Clusters of one environment may differ in size: a manifest for both is checked against neither.
        return clusters[0].brokers if len(clusters) == 1 else None

    def build_contexts(
        self, environments: tuple[str | None, ...] | None, scopes: Collection[str]
    ) -> list[Context]:
        """Build the contexts of environments, and of their clusters that overrides name.

        Args:
            environments: The environments; None for all.
            scopes: The names of the overrides in manifests.
        """
        layers = [*self.defaults.values()]
        layers += [layer for profile in self.profiles.values() for layer in profile.layers.values()]
        named = {*scopes, *(scope for layer in layers for scope in layer.overrides)}
        chosen = environments or self.environments or (None,)
        clusters = [
            self.build_context(cluster.environment, name)
            for name, cluster in self.clusters.items()
            if name in named and name not in (self.environments or ()) and cluster.environment in chosen
        ]
        return [*map(self.build_context, chosen), *clusters]

    def build_rule_context(
        self,
        desired: tuple[Desired, ...],
        environment: str | None,
        *,
        subset: bool,
        unread: bool = False,
        cluster: str | None = None,
    ) -> RuleContext:
        """Build the context of rules that need no cluster, for an environment or a cluster of it."""
        # Imported here: the package imports the modules of all rules.
        from kafkaform.rules import RuleContext

        context, chosen = self.build_context(environment, cluster), self.clusters.get(cluster or "")
        return RuleContext(
            desired,
            limits=self.limits,
            environment=environment,
            brokers=self.count_brokers(environment) if chosen is None else chosen.brokers,
            subset=subset,
            unread=unread,
            defaults={
                (kind, path): location
                for kind, locations in context.default_locations.items()
                for path in _list_fields(merge(context.defaults.get(kind, ())))
                if (location := locations.find(path)) is not None
            },
        )

    def check_environment(self, name: str | None) -> None:
        """Raise a UsageError for an environment that is not allowed."""
        if name is None or self.environments is None or name in self.environments:
            return
        hint = suggest_names(name, self.environments, "environments")
        raise UsageError(f"there is no environment {name!r} in {self.file}", hint=hint)


def _list_fields(layer: Layer) -> Iterator[str]:
    """Yield the paths of the fields that a layer in normal form sets."""
    for name, value in layer.items():
        if isinstance(value, Mapping):
            yield from (f"{name}.{key}" for key in value)
        elif value is not None:
            yield name


def find_settings(given: Path | None, *, untrusted: Path | None = None) -> Settings:
    """Read the given configuration file, or the nearest `kafkaform.yaml`; without one, return the defaults.

    The working directory is searched first, then the folders above it up to the root of the Git repository;
    outside a repository, only the working directory.

    Args:
        given: The path of the configuration file, if the user gave one.
        untrusted: A folder whose configuration must not be read.

    Raises:
        InvalidInput: The file is invalid; has all problems.
        KafkaformError: The given file does not exist, a file has the wrong name, or must not be read.
    """
    if given is not None:
        if given.exists():
            return read_settings(given)
        raise KafkaformError(f"{given}: no such file", hint="run `kafkaform init` for an example")
    here = Path.cwd()
    for folder in _list_searched_folders(here):
        _refuse_misnamed(folder, here)
        if (file := folder / CONFIG_FILE).exists():
            # A pull request could otherwise choose the cluster and the options of this run.
            if untrusted is not None and _belongs_to(folder, untrusted.resolve()):
                raise KafkaformError(
                    f"{_make_relative(here, file)} is the configuration of {untrusted}, which "
                    "--manifests-from does not read",
                    hint=f"run in the folder of a trusted {CONFIG_FILE}, or name one with --config",
                )
            return read_settings(_make_relative(here, file))
    return Settings()


def _list_searched_folders(here: Path) -> Iterator[Path]:
    """Yield the folders that may contain the configuration file, the nearest first."""
    folders = (here, *here.parents)
    root = next((number for number, folder in enumerate(folders) if (folder / _GIT).exists()), 0)
    # Like Git, do not trust a repository above this folder that belongs to another user, such as in /tmp.
    if root and (folders[root] / _GIT).stat().st_uid not in {os.geteuid(), here.stat().st_uid}:
        root = 0
    yield from folders[: root + 1]


def _belongs_to(folder: Path, tree: Path) -> bool:
    """Return whether a folder is in a tree, and not in a nested repository."""
    if not folder.is_relative_to(tree):
        return False
    between = [folder, *folder.parents][: len(folder.parts) - len(tree.parts)]
    return not any((parent / _GIT).exists() for parent in between)


def _make_relative(here: Path, path: Path) -> Path:
    return Path(os.path.relpath(path, here))


def _refuse_misnamed(folder: Path, here: Path) -> None:
    """Raise a KafkaformError for a configuration file with the wrong name, which would be ignored."""
    misnamed = folder / MISNAMED
    if not misnamed.exists():
        return
    shown = _make_relative(here, misnamed)
    exists = (folder / CONFIG_FILE).exists()
    raise KafkaformError(
        f"{shown} is not read: the configuration file must be named {CONFIG_FILE}",
        hint=f"remove it: {CONFIG_FILE} also exists" if exists else f"rename it to {CONFIG_FILE}",
    )


def read_settings(path: Path, root: Path | None = None, trusted: Path | PinnedFile | None = None) -> Settings:
    """Read a configuration file; raises InvalidInput with all its problems.

    Args:
        root: The checkout of an untrusted branch, which the file must not lead out of; locations are relative
            to it.
        trusted: The further file of profiles in the trusted configuration of that branch.
    """
    problems: list[Problem] = []
    settings = _parse_settings(path, partial(_read_document, root=root, trusted=trusted), problems)
    if problems:
        raise InvalidInput(sorted(problems, key=lambda p: p.location or Location(str(path))))
    return settings


def parse_edited(settings: Settings, texts: Mapping[str, str]) -> Settings:
    """Parse the configuration again, with new texts of files.

    Args:
        texts: The texts by the paths of the files.

    Raises:
        InvalidInput: The configuration would be invalid.
    """
    problems: list[Problem] = []
    path = Path(settings.file or CONFIG_FILE)
    edited = _parse_settings(path, partial(_read_document, texts=texts), problems)
    if problems:
        raise InvalidInput(problems)
    return edited


def _read_document(
    path: Path | PinnedFile,
    root: Path | None = None,
    texts: Mapping[str, str] = MappingProxyType({}),
    trusted: Path | PinnedFile | None = None,
) -> Document:
    problems: list[Problem] = []
    raw: bytes | None
    if isinstance(path, Path):
        # Files of an untrusted branch: a link or `..` must not lead to other files of this machine.
        if root is not None and not path.resolve().is_relative_to(root.resolve()):
            raise InvalidInput([Problem(f"{quoted(path.name)} is outside of the branch: not read", None)])
        if not path.exists():
            raise InvalidInput([Problem(f"there is no file {quoted(str(path))}", None)])
        text = texts.get(str(path))
        raw = read_bytes(path, problems) if text is None else text.encode()
        shown = str(path if root is None else path.relative_to(root))
    else:
        # An untrusted branch chooses the commit alone. Otherwise it could make this machine connect to any
        # other, or show parts of a private file in messages.
        if root is not None and not path.is_same_file(trusted):
            hint = "merge the change of profilesFrom first, in its own pull request"
            raise InvalidInput([Problem("the branch changes more than the commit: not read", None, hint)])
        raw, shown = path.read(), str(path)
    documents = read_documents(raw, shown, problems.append, verbatim=VERBATIM) if raw is not None else []
    if not problems and len(documents) != 1:
        message = f"a configuration file contains one document, not {len(documents) or 'none'}"
        problems.append(Problem(message, Location(str(path))))
    if problems:
        raise InvalidInput(problems)
    return documents[0]


def _compare_configurations(trusted: Path, proposed: Path) -> BranchConfiguration | None:
    """Compare the data of two valid files; None if they are equal."""
    before, after = (cast("dict[str, Any]", _read_document(file).data) for file in (trusted, proposed))
    for file, data in ((trusted, before), (proposed, after)):
        # The profiles of another file are part of the configuration.
        if isinstance(data.get("profilesFrom"), str):
            data["profilesFrom"] = _read_document(file.parent / data["profilesFrom"]).data
    sections = _find_differing_keys(before, after)
    clusters = _find_differing_keys(before.get("clusters", {}), after.get("clusters", {}))
    return BranchConfiguration(sections - {"clusters"}, clusters) if sections else None


def _find_differing_keys(first: Mapping[str, Any], second: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(key for key in {**first, **second} if first.get(key) != second.get(key))


def _parse_settings(
    path: Path, read: Callable[[Path | PinnedFile], Document], problems: list[Problem]
) -> Settings:
    written = read(path)
    flaws, document = check_structure(written, "config")
    problems.extend(flaws)
    data: Any = document.data or {}
    used = (cluster.get("environment") for cluster in data.get("clusters", {}).values())
    environments = tuple(data.get("environments") or dict.fromkeys(name for name in used if name is not None))
    # If the list itself, or what it is read from, is invalid, environments are not checked against it.
    is_unknown = any(written.has([name]) and name not in data for name in ("environments", "clusters"))
    known = None if is_unknown else environments
    policies = _parse_policies(document, data.get("policies", []), known, problems)
    severities = data.get("rules", {})
    limits = read_limits(data.get("limits") or {}, document.create_reporter(("limits",), problems))
    clusters = _parse_clusters(path.parent, document, data.get("clusters", {}), known, problems)
    scopes = None if known is None else (known, data.get("clusters", {}))
    profiles = read_profiles(document, data.get("profiles", {}), scopes, problems)
    profile_file = _parse_profile_file(path.parent, document, data.get("profilesFrom"), problems)
    if profile_file is not None:
        try:
            further = _read_profile_file(profile_file, read, scopes, problems)
        except InvalidInput as error:
            at = document.locate(("profilesFrom",))
            problems += [
                replace(each, location=at) if each.location is None else each for each in error.problems
            ]
        else:
            problems.extend(find_duplicates(profiles, further))
            profiles = {**further, **profiles}
    profiles = check_profiles(profiles, problems)
    policies += tuple(build_limit_rules(profiles))
    check_severities(severities, policies, document.create_reporter(("rules",), problems))
    return Settings(
        file=str(path),
        manifests=tuple(path.parent / folder for folder in data.get("manifests", DEFAULT_MANIFESTS)),
        environments=environments,
        clusters={
            # `limits.diskReserve` is written once, for all clusters.
            # `costs`, too, unless the cluster has its own.
            c.name: replace(
                c,
                moves=replace(c.moves, disk_reserve=limits.disk_reserve),
                costs=c.costs or _parse_costs(data.get("costs")),
            )
            for c in clusters
        },
        defaults=read_layers(document, (DEFAULTS,), data.get(DEFAULTS, {}), scopes, problems),
        profiles=profiles,
        profile_file=profile_file,
        stages=_parse_stages(document, data.get("stages", []), problems),
        undeclared=Undeclared(data.get("undeclared", Undeclared.REPORT.value)),
        rules=severities,
        limits=limits,
        policies=policies,
        class_archive=data.get("skew", {}).get("classArchive", "auto"),
        owns=_parse_globs(document, "owns", data, NO_GLOBS, problems),
        protected=_parse_globs(document, "protected", data, NO_GLOBS, problems).names,
        ignore=_parse_globs(document, "ignore", data, DEFAULT_IGNORE, problems),
    )


def _parse_profile_file(
    folder: Path, document: Document, given: str | Mapping[str, str] | None, problems: list[Problem]
) -> Path | PinnedFile | None:
    """Parse the place of further profiles; None without one, or if it is invalid."""
    if given is None or isinstance(given, str):
        return None if given is None else folder / given
    from kafkaform.config.pinned_file import PinnedFile  # few configurations need Git

    if len(given) < len(PinnedFile.__struct_fields__):
        return None  # reported already
    pinned = PinnedFile(**given)
    flaws = [
        Problem(message, document.locate(("profilesFrom", name)), hint)
        for name, message, hint in pinned.find_problems()
    ]
    problems.extend(flaws)
    return None if flaws else pinned


def _read_profile_file(
    path: Path | PinnedFile,
    read: Callable[[Path | PinnedFile], Document],
    scopes: Scopes | None,
    problems: list[Problem],
) -> dict[str, Profile]:
    """Read the profiles of another file; raises InvalidInput, without a place if there is no such file."""
    written = read(path)
    flaws, document = check_structure(written, "config")
    problems.extend(flaws)
    data: Any = document.data or {}
    for section in data.keys() - {"apiVersion", "kind", "profiles"}:
        # Clusters there would look as if they were in use.
        message = f"only profiles are read from this file, not {section}"
        problems.append(Problem(message, document.locate((section,), key=True), f"move it to {CONFIG_FILE}"))
    return read_profiles(document, data.get("profiles", {}), scopes, problems)


def _parse_clusters(
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
            steps = (*path, "environment")
            problems.extend(check_environment(document, steps, environment, environments, key=False))
        client, flaws = client_properties.parse(cluster["client"], partial(_locate_property, document, name))
        problems.extend(flaws)
        forbid = tuple(cluster.get("forbid", ()))
        for index, hazard in enumerate(forbid):
            hint = misspelt_hazard(hazard)
            if hint is not None:
                at = document.locate([*path, "forbid", index])
                problems.append(Problem(f"there is no hazard {quoted(hazard)}", at, hint))
        yield ClusterSettings(
            name,
            client.resolve_paths(folder),
            environment,
            cluster.get("clusterId"),
            forbid,
            cluster.get("brokers"),
            cluster.get("lock", True),
            _parse_audit(folder, cluster.get("audit", {})),
            folder / cluster["verifyKey"] if "verifyKey" in cluster else None,
            _parse_quantity(
                document, (*path, "maxPlanAge"), cluster.get("maxPlanAge"), parse_age, None, problems
            ),
            _parse_moves(document, (*path, "moves"), cluster.get("moves", {}), problems),
            _parse_authorizer(cluster.get("authorizer", {})),
            parse_webhook(
                cluster.get("notify", {}), folder, document.locate((*path, "notify"), key=True), problems
            ),
            {label: str(value) for label, value in cluster.get("labels", {}).items()},
            _parse_costs(cluster.get("costs")),
        )


def _parse_costs(section: Mapping[str, Any] | None) -> Costs | None:
    if section is None:
        return None
    return Costs(section["currency"], section.get("gigabyteMonth", 0.0), section.get("partitionMonth", 0.0))


def _parse_stages(
    document: Document, stages: Sequence[Any], problems: list[Problem]
) -> tuple[ApplyStage, ...]:
    return tuple(
        ApplyStage(
            tuple(stage["clusters"]),
            _parse_quantity(
                document,
                ("stages", number, "waitHealthy"),
                stage.get("waitHealthy"),
                parse_duration,
                None,
                problems,
            ),
        )
        if isinstance(stage, Mapping)
        else ApplyStage(tuple(stage))
        for number, stage in enumerate(stages)
    )


def _parse_globs(
    document: Document, name: str, data: Mapping[str, Any], default: NameGlobs, problems: list[Problem]
) -> NameGlobs:
    section: Sequence[str] | Mapping[str, Sequence[str]] = data.get(name, {})
    given = section if isinstance(section, Mapping) else {"names": section}
    for number, glob in enumerate(given.get("names", ())):
        head, _, own_name = glob.partition("/")
        # It would match no name, and protect nothing.
        if own_name and find_kind(head) is not None:
            at = document.locate([name, *(["names"] if given is section else []), number])
            problems.append(
                Problem(f"{quoted(glob)} in {name} has a kind: no name matches it", at, f"write {own_name}")
            )
    return replace(default, **{key: tuple(globs) for key, globs in given.items()})


def _parse_authorizer(section: Mapping[str, Any]) -> AuthorizerSettings:
    super_users = frozenset(section["superUsers"]) if "superUsers" in section else None
    return AuthorizerSettings(super_users, section.get("allowEveryoneIfNoAclFound"), section.get("principal"))


def _parse_audit(folder: Path, section: Mapping[str, Any]) -> AuditSettings:
    file = section.get("file")
    return AuditSettings(section.get("topic", True), None if file is None else folder / file)


def _parse_moves(
    document: Document, path: tuple[str, ...], section: Mapping[str, Any], problems: list[Problem]
) -> MoveOptions:
    default = MoveOptions()
    timeout = _parse_quantity(
        document, (*path, "timeout"), section.get("timeout"), parse_duration, None, problems
    )
    return MoveOptions(
        _parse_quantity(
            document, (*path, "throttle"), section.get("throttle"), parse_rate, default.throttle, problems
        ),
        section.get("batchPartitions", default.batch_partitions),
        _parse_quantity(
            document,
            (*path, "batchBytes"),
            section.get("batchBytes"),
            parse_size,
            default.batch_bytes,
            problems,
        ),
        None if timeout is None else timeout / 1000,
        when_busy=WhenBusy(section.get("whenBusy", default.when_busy.value)),
    )


def _parse_quantity(
    document: Document,
    path: tuple[str | int, ...],
    value: str | int | None,
    parse: Callable[[str], T],
    default: T,
    problems: list[Problem],
) -> T:
    if value is None:
        return default
    try:
        return parse(str(value))
    except ValueError as error:
        problems.append(Problem(f"{path[-1]}: {error}", document.locate(path)))
        return default


def _parse_policies(
    document: Document,
    policies: list[Mapping[str, Any]],
    environments: Collection[str] | None,
    problems: list[Problem],
) -> tuple[Rule, ...]:
    for number, policy in enumerate(policies):
        for index, name in enumerate(policy.get("environments", ())):
            if environments is not None:
                steps = ("policies", number, "environments", index)
                problems.extend(check_environment(document, steps, name, environments, key=False))
    return read_policies(policies, document.create_reporter(("policies",), problems))


def _locate_property(document: Document, cluster: str, name: str) -> Location:
    return document.locate(["clusters", cluster, "client", name], key=True)
