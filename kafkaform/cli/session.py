"""Wiring: from options to settings, manifests and a cluster."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import click

from kafkaform.cli.error_handler import Complaints
from kafkaform.cli.options import Where
from kafkaform.cli.terminal import prose_width
from kafkaform.config import client_properties as properties
from kafkaform.config.manifests.files import CONFIG_FILE, DASH, NO_CONFIG_FILE
from kafkaform.config.settings import ClusterSettings, Settings, find_settings
from kafkaform.core.errors import InvalidInput, KafkaformError, UsageError
from kafkaform.core.moves import MoveOptions
from kafkaform.core.printable import clipped, printable
from kafkaform.core.wording import target_hint

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from kafkaform.cluster.kafka.cluster import KafkaCluster
    from kafkaform.core.model import Desired, ResourceRef

_SERVERS = "bootstrap.servers"
_LONGEST_ADDRESS = 120


@dataclass(frozen=True, slots=True)
class Session:
    """What one call of the command line works with.

    Attributes:
        settings: The configuration file, or its defaults.
        target: The cluster, with the command line's own properties in it; None if none is named.
        environment: Whose overrides hold; None if none was chosen.
        where: What the command line says of them, without what an option overrides.
    """

    settings: Settings
    target: ClusterSettings | None
    environment: str | None
    where: Where = field(default_factory=Where)

    @classmethod
    def start(cls, where: Where, *, manifests_from: Path | None = None) -> Session:
        """Read the configuration and choose the cluster and the environment.

        Args:
            where: What the command line says of both.
            manifests_from: The folder below which the manifests lie, if it is not the configuration's own.

        Raises:
            UsageError: There is no such cluster or environment, or two of the options, environment variables
                and the configuration contradict each other.
            InvalidInput: The configuration is not valid, or that below `manifests_from` is not.
        """
        settings = find_settings(where.config_file, untrusted=manifests_from)
        where, note = where.settled()
        if note is not None:
            _tell_once(note)
        if manifests_from is not None:
            settings = settings.read_branch_settings(manifests_from)
        if where.bootstrap_server is not None and where.cluster_name is None:
            # The credentials of a configured cluster must not reach a host that it does not name; what nobody
            # may do on one of them, nobody may do by its address either.
            target: ClusterSettings | None = ClusterSettings(
                where.bootstrap_server,
                properties.ClientProperties(),
                forbid=settings.forbidden,
                moves=MoveOptions(disk_reserve=settings.limits.disk_reserve),
            )
            # The variable that `kafkaform dev` prints is no slip that leads to another cluster.
            hosts = [address.rpartition(":")[0] for address in where.bootstrap_server.split(",")]
            is_foreign = not all(properties.is_loopback(host.strip()) for host in hosts)
            if settings.clusters and is_foreign and "bootstrap_server" in where.variables:
                name = where.source("bootstrap_server")
                _tell_once(f"{name} is set, so no cluster of {settings.file} is used: --cluster chooses one")
        else:
            target = _named_cluster(settings, where)
        if target is not None:
            target = replace(target, client=_client(target, where))
        chosen = choose_environment(settings, target, where)
        return cls(settings, target, chosen, where)

    def manifests(
        self,
        paths: Sequence[Path],
        targets: Sequence[str] = (),
        *,
        found: Callable[[ResourceRef], None] | None = None,
    ) -> list[Desired]:
        """The declared resources at or below the paths, or all; only those that a target matches.

        Args:
            paths: Manifests or folders of them; none: those of the configuration.
            targets: Globs of `KIND/NAME`.
            found: Is told of each resource as soon as its manifest has been read, sound or not.
        """
        # Not at the top: a saved plan is applied without reading a manifest.
        from kafkaform.config.manifests.loader import ignored, load

        context = self.settings.context(self.environment)
        if not targets:
            return load(self.paths(paths), context, found or ignored)
        desired = load(self.paths(paths), context)
        for target in targets:
            if not any(fnmatchcase(str(d.ref), target) for d in desired):
                raise UsageError(
                    f"--target {target!r} matches no declared resource",
                    hint=target_hint(target),
                )
        return [d for d in desired if is_target(d.ref, targets)]

    def paths(self, paths: Sequence[Path]) -> Sequence[Path]:
        """The given paths, or those of the configuration file."""
        return paths or self.settings.manifests

    def is_subset(self, paths: Sequence[Path], targets: Sequence[str]) -> bool:
        """Whether only a part of what the repository declares is looked at; stdin always is one."""
        if targets or DASH in paths:
            return True
        if not paths or self.settings.file is None:
            return False
        return {p.resolve() for p in paths} != {p.resolve() for p in self.settings.manifests}

    def require_cluster(self) -> ClusterSettings:
        """The cluster's settings; raises UsageError where no cluster was named."""
        if self.target is None:
            raise UsageError(
                "no cluster is configured",
                hint="give --bootstrap-server HOST:PORT, or name one in kafkaform.yaml: kafkaform init",
            )
        return self.target

    @property
    def config_file(self) -> str:
        """The configuration file as headers name it."""
        return self.settings.file or NO_CONFIG_FILE

    @property
    def servers(self) -> str | None:
        """The addresses of brokers in use, secrets left out; None where no cluster was named."""
        return self.target.client.shown().get(_SERVERS) if self.target is not None else None

    def tell(self) -> None:
        """Say on stderr what is used: for commands whose report has no header of its own."""
        parts = []
        if self.target is not None:
            parts.append(f"cluster {self.target.name}")
        if self.environment is not None:
            parts.append(f"environment {self.environment}")
        if self.target is not None and self.servers not in {None, self.target.name}:
            parts.append(f"brokers {clipped(self.servers or '', _LONGEST_ADDRESS)}")
        parts.append(self.settings.file or f"no {CONFIG_FILE} found")
        width = prose_width(sys.stderr)
        line = printable(" · ".join(parts))
        if width is not None and len(line) > width:
            line = f"{printable(' · '.join(parts[:2]))}\n  {printable(' · '.join(parts[2:]))}"
        click.echo(line, err=True)

    def cluster(self) -> KafkaCluster:
        """The cluster; connects on first use.

        Raises:
            UsageError: No cluster was named.
            InvalidInput: A secret is not there.
        """
        from kafkaform.cluster.kafka.cluster import KafkaCluster

        resolved = self.client()
        return KafkaCluster(properties.to_librdkafka(resolved), lambda: properties.to_transport(resolved))

    def client(self) -> properties.Resolved:
        """The cluster's client properties, secrets included, which nothing says from now on.

        Raises:
            UsageError: No cluster was named.
            InvalidInput: A secret is not there.
        """
        client = self.require_cluster().client
        resolved = properties.resolve(client, os.environ, properties.read_secret_file)
        context = click.get_current_context(silent=True)
        if context is not None and (complaints := context.find_object(Complaints)) is not None:
            complaints.hide(resolved)
        return resolved


def is_target(ref: ResourceRef, targets: Sequence[str]) -> bool:
    """Tell whether one of the globs of `KIND/NAME` matches a resource; no globs match all."""
    return not targets or any(fnmatchcase(str(ref), target) for target in targets)


def _tell_once(note: str) -> None:
    """Say something on stderr, once in a call of the command line."""
    context = click.get_current_context(silent=True)
    if context is None:
        return
    told = context.find_root().meta.setdefault(f"{__name__}.told", set())
    if note not in told:
        told.add(note)
        click.echo(f"note: {printable(note)}", err=True)


def _named_cluster(settings: Settings, where: Where) -> ClusterSettings | None:
    """The cluster that is named, or the only one.

    Raises:
        UsageError: There is no such cluster, or a variable gives it an address that it does not have.
    """
    try:
        target = settings.cluster(where.cluster_name)
    except UsageError as error:
        if "cluster_name" not in where.variables:
            raise
        message = f"{where.source('cluster_name')}: {error.message}"
        raise UsageError(message, hint=error.hint) from error
    if target is None or where.bootstrap_server is None or "bootstrap_server" not in where.variables:
        return target
    configured = target.client.shown().get(_SERVERS)
    if configured != where.bootstrap_server:
        address, cluster = where.source("bootstrap_server"), where.source("cluster_name")
        raise UsageError(
            f"{address} says {where.bootstrap_server}, and {cluster} says {target.name}, with brokers "
            f"{configured}",
            hint=f"unset one of the two, or give both as options to reach {target.name} by that address",
        )
    return target


def choose_environment(settings: Settings, target: ClusterSettings | None, where: Where) -> str | None:
    """Return the environment whose overrides hold.

    Raises:
        UsageError: There is no such environment, or it is not that of the cluster.
    """
    own = target.environment if target else None
    if where.environment is None:
        return own
    try:
        settings.check_environment(where.environment)
    except UsageError as error:
        message = f"{where.source('environment')}: {error.message}"
        raise UsageError(message, hint=error.hint) from error
    if target is not None and own is not None and own != where.environment:
        fits = [one.name for one in settings.clusters.values() if one.environment == where.environment]
        instead = f", or choose a cluster of {where.environment}: --cluster {fits[0]}" if fits else ""
        raise UsageError(
            f"cluster {target.name} is of environment {own} ({settings.file}), and "
            f"{where.source('environment')} says {where.environment}",
            hint=f"{where.without('environment')}{instead}",
        )
    return where.environment


def _client(target: ClusterSettings, where: Where) -> properties.ClientProperties:
    client = target.client
    if where.command_config is not None:
        given = _read_command_config(where.command_config, where.source("command_config"))
        _check_overrides(target, given, where)
        client = client.merged(given)
    if where.bootstrap_server is not None:
        source = where.source("bootstrap_server")
        given, problems = properties.parse({_SERVERS: where.bootstrap_server}, lambda _: None)
        if problems:
            raise UsageError(f"{source}: {problems[0].message}", hint=problems[0].hint)
        client = client.merged(given)
    return client


def _check_overrides(target: ClusterSettings, given: properties.ClientProperties, where: Where) -> None:
    """Refuse a file of client properties that says something else of a configured cluster than is meant.

    A file that is given as an option overrides the configuration, but for the address: `--bootstrap-server`
    does that, in sight. A file that is named by an environment variable only adds to it.

    Raises:
        UsageError: The file contradicts the configuration.
    """
    variable = "command_config" in where.variables
    for name, value in given.templates.items():
        if name == _SERVERS and where.bootstrap_server is not None:
            continue
        if name not in target.client.templates or target.client.templates[name] == value:
            continue
        if not variable and name != _SERVERS:
            continue
        source = f"{where.source('command_config')} ({where.command_config})"
        here, there = given.shown()[name], target.client.shown()[name]
        hint = (
            f"to reach {target.name} at that address, use --bootstrap-server; otherwise remove the line"
            if name == _SERVERS
            else f"unset {where.source('command_config')}, or give the file as --command-config to override"
        )
        raise UsageError(
            f"{source} sets {name} to {here}; cluster {target.name} has {there}",
            hint=hint,
        )


def _read_command_config(path: Path, source: str) -> properties.ClientProperties:
    from kafkaform.config.client_properties.java_file import from_java_properties

    try:
        text = path.read_text("iso-8859-1")
    except OSError as error:
        raise KafkaformError(f"{source} {path}: {error.strerror}") from error
    translated, problems = from_java_properties(text, str(path))
    parsed, more = properties.parse(translated, translated.locate)
    if problems or more:
        raise InvalidInput([*problems, *more])
    return parsed
