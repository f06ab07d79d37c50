"""The configuration file `kafkaform.yaml`: clusters, environments, defaults and policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from kafkaform import client_properties
from kafkaform.client_properties import ClientProperties
from kafkaform.errors import InvalidInput, KafkaformError, Problem, UsageError
from kafkaform.kinds import KINDS
from kafkaform.kinds.base import Layer
from kafkaform.manifests.files import CONFIG_FILE, read_bytes
from kafkaform.manifests.loader import API_VERSION, Context
from kafkaform.manifests.structure import structure_problems
from kafkaform.manifests.yaml12 import Document, read_documents
from kafkaform.model import Location, Undeclared
from kafkaform.spelling import nearest

VERBATIM = frozenset({"config", "client"})
DEFAULT_MANIFESTS = ("topics",)
DEFAULT_IGNORE = ("__*", "_schemas", "*-changelog", "*-repartition")
"""Topics that Kafka, a schema registry and Kafka Streams make for themselves."""


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """One cluster of the configuration file."""

    name: str
    client: ClientProperties
    environment: str | None = None
    cluster_id: str | None = None
    forbid: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Settings:
    """What a repository says; without a configuration file, the defaults of this class.

    Attributes:
        file: The configuration file, or None.
        manifests: Where manifests are.
        environments: The closed list of environments; None without a configuration file.
        clusters: By name.
        defaults: For each kind, its layer in normal form and those of environments.
        undeclared: The default of `spec.undeclared`.
        owns: Globs of the topics that pruning may delete.
        protected: Globs of the resources that are never deleted.
        ignore: Globs of live resources that nobody declares and nobody is told of.
        rules: Severities by rule code; `off` switches a rule off.
    """

    file: str | None = None
    manifests: tuple[Path, ...] = tuple(map(Path, DEFAULT_MANIFESTS))
    environments: tuple[str, ...] | None = None
    clusters: Mapping[str, ClusterSettings] = field(default_factory=dict)
    defaults: Mapping[str, tuple[Layer, Mapping[str, Layer]]] = field(default_factory=dict)
    undeclared: Undeclared = Undeclared.REPORT
    owns: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    ignore: tuple[str, ...] = DEFAULT_IGNORE
    rules: Mapping[str, str] = field(default_factory=dict)

    def context(self, environment: str | None) -> Context:
        """What manifests are read with, in one environment."""
        layers: dict[str, tuple[Layer, ...]] = {}
        for kind, (base, overrides) in self.defaults.items():
            over = overrides.get(environment) if environment is not None else None
            layers[kind] = (base,) if over is None else (base, over)
        return Context(self.environments, environment, layers, self.undeclared)

    def cluster(self, name: str | None) -> ClusterSettings | None:
        """The cluster of that name; the only one if no name is given; None if there are none.

        Raises:
            UsageError: There is no such cluster, or there are several and none was chosen.
        """
        known = ", ".join(self.clusters)
        if name is not None:
            if name not in self.clusters:
                near = nearest(name, self.clusters)
                hint = f"did you mean {near!r}?" if near else f"clusters: {known or 'none'}"
                raise UsageError(f"there is no cluster {name!r} in {self.file or CONFIG_FILE}", hint=hint)
            return self.clusters[name]
        if len(self.clusters) > 1:
            raise UsageError(f"{self.file} names several clusters", hint=f"choose one with --cluster ({known})")
        return next(iter(self.clusters.values()), None)

    def check_environment(self, name: str | None) -> None:
        """Raise a UsageError for an environment that is not in the closed list."""
        if name is None or self.environments is None or name in self.environments:
            return
        near = nearest(name, self.environments)
        hint = f"did you mean {near!r}?" if near else f"environments: {', '.join(self.environments) or 'none'}"
        raise UsageError(f"there is no environment {name!r} in {self.file}", hint=hint)


def find_settings(given: Path | None) -> Settings:
    """Read the configuration file: the given one, or `kafkaform.yaml` here, or none at all.

    Raises:
        InvalidInput: With every problem of the file.
        KafkaformError: The given file does not exist.
    """
    path = given or Path(CONFIG_FILE)
    if path.exists():
        return read_settings(path)
    if given is not None:
        raise KafkaformError(f"{given}: no such file", hint="run kafkaform init for a starter set")
    return Settings()


def read_settings(path: Path) -> Settings:
    """Read a configuration file; raises InvalidInput with every problem in it."""
    problems: list[Problem] = []
    raw = read_bytes(path, problems)
    documents = read_documents(raw, str(path), problems.append, verbatim=VERBATIM) if raw is not None else []
    if raw is not None and not problems and len(documents) != 1:
        problems.append(Problem("a configuration file holds one document", Location(str(path))))
    settings = _settings(path, documents[0], problems) if not problems else None
    if problems or settings is None:
        raise InvalidInput(problems)
    return settings


def _settings(path: Path, document: Document, problems: list[Problem]) -> Settings | None:
    problems.extend(structure_problems(document, "config"))
    if problems:
        return None
    data = cast("dict[str, object]", document.data)
    environments = tuple(cast("list[str]", data.get("environments", [])))
    settings = Settings(
        file=str(path),
        manifests=tuple(path.parent / m for m in cast("list[str]", data.get("manifests", DEFAULT_MANIFESTS))),
        environments=environments,
        clusters={c.name: c for c in _clusters(document, environments, problems)},
        defaults=_defaults(document, environments, problems),
        undeclared=Undeclared(cast("str", data.get("undeclared", Undeclared.REPORT.value))),
        rules=cast("dict[str, str]", data.get("rules", {})),
        owns=_globs(data, "owns", ()),
        protected=_globs(data, "protected", ()),
        ignore=_globs(data, "ignore", DEFAULT_IGNORE),
    )
    return None if problems else settings


def _globs(data: Mapping[str, object], name: str, default: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(cast("list[str]", data.get(name, default)))


def _clusters(
    document: Document, environments: tuple[str, ...], problems: list[Problem]
) -> Iterator[ClusterSettings]:
    data = cast("dict[str, dict[str, dict[str, object]]]", document.data)
    for name, cluster in data.get("clusters", {}).items():
        where = ("clusters", name)
        client, found = client_properties.parse(
            cast("dict[str, object]", cluster["client"]),
            lambda key, where=where: document.locate([*where, "client", key], key=True),  # type: ignore[misc]
        )
        problems.extend(found)
        environment = cast("str | None", cluster.get("environment"))
        if environment is not None and environment not in environments:
            problems.append(_unknown_environment(document, [*where, "environment"], environment, environments))
        yield ClusterSettings(
            name,
            client,
            environment,
            cast("str | None", cluster.get("clusterId")),
            tuple(cast("list[str]", cluster.get("forbid", []))),
        )


def _defaults(
    document: Document, environments: tuple[str, ...], problems: list[Problem]
) -> dict[str, tuple[Layer, Mapping[str, Layer]]]:
    data = cast("dict[str, dict[str, dict[str, object]]]", document.data)
    defaults: dict[str, tuple[Layer, Mapping[str, Layer]]] = {}
    for name, spec in data.get("defaults", {}).items():
        kind = KINDS[name]
        path = ("defaults", name)
        found = structure_problems(document, kind.schema, part="spec", path=path)
        problems.extend(found)
        if found:
            continue
        overrides = cast("dict[str, dict[str, object]]", spec.get("overrides", {}))
        for environment in overrides:
            if environment not in environments:
                place = [*path, "overrides", environment]
                problems.append(_unknown_environment(document, place, environment, environments))
        defaults[name] = (
            kind.normalise(spec, document.reporter(path, problems)),
            {
                environment: kind.normalise(
                    layer, document.reporter((*path, "overrides", environment), problems)
                )
                for environment, layer in overrides.items()
            },
        )
    return defaults


def _unknown_environment(
    document: Document, path: list[str], name: str, environments: tuple[str, ...]
) -> Problem:
    near = nearest(name, environments)
    hint = f"did you mean {near!r}?" if near else f"environments: {', '.join(environments) or 'none'}"
    return Problem(f"unknown environment {name!r}", document.locate(path), hint)
