"""The session of a command: settings, manifests and cluster, from the options."""

from __future__ import annotations

import os
import sys
from fnmatch import fnmatchcase
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING

import click

from kafkaform.cli.error_handler import ErrorHandler
from kafkaform.cli.options import ClusterSelector
from kafkaform.cli.terminal import prose_width
from kafkaform.config import client_properties as properties
from kafkaform.config.manifests.files import CONFIG_FILE, DASH, NO_CONFIG_FILE
from kafkaform.config.settings import ClusterSettings, Settings, find_settings
from kafkaform.core.errors import InvalidInput, KafkaformError, UsageError
from kafkaform.core.files import read_file
from kafkaform.core.printable import clipped, printable
from kafkaform.core.values import Value, field, replace
from kafkaform.plan.plan_header import describe_environment
from kafkaform.resources import suggest_reference
from kafkaform.resources.replicas.moves import MoveOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from kafkaform.cluster.kafka.cluster import KafkaCluster
    from kafkaform.config.manifests.loader import Context, ParsedManifests
    from kafkaform.core.model import Desired, ResourceRef

_SERVERS = "bootstrap.servers"
_MAX_ADDRESS_LENGTH = 120


class SharedManifests:
    """The manifests of a command on several clusters, which are read and parsed once."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._parsed: dict[tuple[Path, ...], ParsedManifests] = {}

    def parse(self, paths: Sequence[Path], context: Context) -> ParsedManifests:
        """Return the manifests at or below the paths; the first caller parses them for all."""
        from kafkaform.config.manifests.loader import parse

        with self._lock:
            if (key := tuple(paths)) not in self._parsed:
                self._parsed[key] = parse(paths, context)
            return self._parsed[key]


class Session(Value):
    """The configuration, cluster and environment of one command.

    Attributes:
        settings: The configuration file, or its defaults.
        target: The cluster, with the properties from the command line; None if none is named.
        environment: The environment whose overrides apply; None if none was chosen.
        where: The options that choose them, without overridden ones.
        shared: The manifests, if the command is for several clusters.
    """

    settings: Settings
    target: ClusterSettings | None
    environment: str | None
    where: ClusterSelector = field(default_factory=ClusterSelector)
    shared: SharedManifests | None = None

    @classmethod
    def start(cls, where: ClusterSelector, *, manifests_from: Path | None = None) -> Session:
        """Read the configuration and choose the cluster and the environment.

        Args:
            where: The options that choose both.
            manifests_from: The folder of the manifests, if it is not that of the configuration.

        Raises:
            UsageError: There is no such cluster or environment, or options, environment variables and the
                configuration contradict each other.
            InvalidInput: The configuration is not valid, or the one below `manifests_from`.
        """
        settings = find_settings(where.config_file, untrusted=manifests_from)
        # After the configuration is found: its path does not depend on the options that may conflict.
        where, note = where.resolve_conflict()
        if note is not None:
            _tell_once(note)
        if manifests_from is not None:
            # The configuration of a branch that is not trusted must not choose addresses or credentials.
            settings = settings.read_branch_settings(manifests_from)
        if where.bootstrap_server is not None and where.cluster_name is None:
            # The credentials of a configured cluster must not reach a host that it does not name. Hazards
            # that a configured cluster forbids are also forbidden by address.
            target: ClusterSettings | None = ClusterSettings(
                where.bootstrap_server,
                properties.ClientProperties(),
                forbid=settings.forbidden,
                moves=MoveOptions(disk_reserve=settings.limits.disk_reserve),
            )
            # The loopback address that `kafkaform dev` prints cannot be another cluster by mistake.
            hosts = [address.rpartition(":")[0] for address in where.bootstrap_server.split(",")]
            is_foreign = not all(properties.is_loopback(host.strip()) for host in hosts)
            if settings.clusters and is_foreign and "bootstrap_server" in where.variables:
                name = where.source("bootstrap_server")
                _tell_once(f"{name} is set, so no cluster of {settings.file} is used: --cluster chooses one")
        else:
            target = _select_cluster(settings, where)
        if target is not None:
            # Templates of secrets stay unresolved until `client`: a command that does not connect needs no
            # secrets.
            target = replace(target, client=_build_client(target, where))
        chosen = choose_environment(settings, target, where)
        return cls(settings, target, chosen, where)

    @classmethod
    def start_offline(cls, where: ClusterSelector) -> Session:
        """Read the configuration and choose the environment, for a command that connects to no cluster.

        Raises:
            UsageError: There is no such cluster or environment, or they contradict each other.
            InvalidInput: The configuration is not valid.
        """
        settings = find_settings(where.config_file)
        # As for a plan, a single configured cluster is the default; unlike there, several are no error.
        is_open = where.cluster_name is None and (where.environment is not None or len(settings.clusters) > 1)
        target = None if is_open else settings.select_cluster(where.cluster_name)
        return cls(settings, target, choose_environment(settings, target, where), where)

    def manifests(
        self,
        paths: Sequence[Path],
        targets: Sequence[str] = (),
        *,
        found: Callable[[ResourceRef], None] | None = None,
    ) -> list[Desired]:
        """Read the declared resources at or below the paths that match a target.

        Args:
            paths: Manifests or folders of them; empty for those of the configuration.
            targets: Globs of `KIND/NAME`; empty for all.
            found: A callback for each resource as soon as its manifest is read, valid or not.
        """
        # Not at the top: applying a saved plan reads no manifest.
        from kafkaform.config.manifests.loader import ignore_ref, parse

        # With targets, nothing is requested early: which resources match is known only after all are read.
        report_ref = ignore_ref if found is None or targets else found
        context = self.build_context()
        if self.shared is None:
            parsed = parse(self.paths(paths), context, report_ref)
        else:
            parsed = self.shared.parse(self.paths(paths), context)
            for manifest in parsed.manifests:
                report_ref(manifest.ref)
        (desired,) = parsed.resolve([context])
        for target in targets:
            # A glob with a typing error would otherwise be an empty plan, which looks like success.
            if not any(fnmatchcase(str(d.ref), target) for d in desired):
                raise UsageError(
                    f"--target {target!r} matches no declared resource",
                    hint=suggest_reference(target, (d.ref for d in desired)),
                )
        return [d for d in desired if is_target(d.ref, targets)]

    @property
    def cluster_name(self) -> str | None:
        """The name of the cluster; None if none is named."""
        return self.target.name if self.target is not None else None

    def build_context(self) -> Context:
        """Build the context for loading manifests in its environment, and for its cluster."""
        return self.settings.build_context(self.environment, self.cluster_name)

    def paths(self, paths: Sequence[Path]) -> Sequence[Path]:
        """Return the given paths, or those of the configuration file."""
        return paths or self.settings.manifests

    def is_subset(self, paths: Sequence[Path], targets: Sequence[str]) -> bool:
        """Return whether paths and targets select only a part of the manifests; stdin counts as a part."""
        if targets or DASH in paths:
            return True
        # Without a configuration file, no other manifests are known, so the given ones are all.
        if not paths or self.settings.file is None:
            return False
        # `topics`, `./topics` and an absolute path are the same folder.
        return {p.resolve() for p in paths} != {p.resolve() for p in self.settings.manifests}

    def require_cluster(self) -> ClusterSettings:
        """Return the cluster's settings; raises UsageError if no cluster is named."""
        if self.target is None:
            raise UsageError(
                "no cluster is configured",
                hint="give --bootstrap-server HOST:PORT, or name one in kafkaform.yaml: `kafkaform init`",
            )
        return self.target

    @property
    def config_file(self) -> str:
        """The name of the configuration file, for headers."""
        return self.settings.file or NO_CONFIG_FILE

    @property
    def servers(self) -> str | None:
        """The addresses of the brokers, without secrets; None if no cluster is named."""
        return self.target.client.describe().get(_SERVERS) if self.target is not None else None

    def tell(self) -> None:
        """Print cluster, environment and configuration on stderr, for reports without a header."""
        parts = []
        if self.target is not None:
            parts.append(f"cluster {self.target.name}")
        if self.environment is not None:
            parts.append(f"environment {self.environment}")
        if self.target is not None and self.servers not in {None, self.target.name}:
            parts.append(f"brokers {clipped(self.servers or '', _MAX_ADDRESS_LENGTH)}")
        parts.append(self.settings.file or f"no {CONFIG_FILE} found")
        width = prose_width(sys.stderr)
        line = printable(" · ".join(parts))
        if width is not None and len(line) > width:
            line = f"{printable(' · '.join(parts[:2]))}\n  {printable(' · '.join(parts[2:]))}"
        click.echo(line, err=True)

    def enter_environment(
        self, environment: str | None, what: str, error: type[KafkaformError], *, instead: str = ""
    ) -> Session:
        """Return a copy for the environment of a plan or a recorded change.

        Args:
            environment: The environment; None for none.
            what: What was made for it, as in "the plan".
            error: The class of the error.
            instead: What else can be done than to choose another cluster, for the hint.

        Raises:
            error: The cluster has another environment, or there is no such environment.
        """
        made_for = f"{what} was made for {describe_environment(environment)}"
        own = self.target.environment if self.target is not None else None
        if self.target is not None and own not in {None, environment}:
            # Production values on a test cluster, or the reverse, are the mistake that this check is for.
            clusters = self.settings.clusters.values()
            fits = [c.name for c in clusters if c.environment == environment and environment is not None]
            choices = [f"choose --cluster {fits[0]}" if fits else "", instead]
            raise error(
                f"{made_for}, but cluster {self.target.name} has environment {own} ({self.settings.file})",
                hint=self.name_left_overs() + ", or ".join(filter(None, choices)) or None,
            )
        try:
            self.settings.check_environment(environment)
        except UsageError as unknown:
            raise error(f"{made_for}: {unknown.message}", hint=unknown.hint) from unknown
        return replace(self, environment=environment)

    def name_left_overs(self) -> str:
        """Name the variables that chose the cluster, to begin a hint: one may be left from other work."""
        chosen_by = [name for name in ("cluster_name", "bootstrap_server") if name in self.where.variables]
        return "".join(f"{self.where.source(name)} chose this cluster; " for name in chosen_by)

    def cluster(self) -> KafkaCluster:
        """Return the cluster, which connects on first use.

        Raises:
            UsageError: No cluster is named.
            InvalidInput: A secret is missing.
        """
        from kafkaform.cluster.kafka.cluster import KafkaCluster
        from kafkaform.cluster.services import SERVICES, Services

        resolved = self.client()
        # librdkafka gets its own names of settings. Requests that it does not support use another connection,
        # whose settings are built only if there are such requests.
        librdkafka, transport = properties.to_librdkafka(resolved), partial(properties.to_transport, resolved)
        services = Services(
            {kind: partial(open_service, resolved) for kind, open_service in SERVICES.items()}
        )
        return KafkaCluster(
            librdkafka, transport, lambda line: click.echo(printable(line), err=True), services
        )

    def client(self) -> properties.Resolved:
        """Return the cluster's client properties with secrets, which are redacted in all later output.

        Raises:
            UsageError: No cluster is named.
            InvalidInput: A secret is missing.
        """
        client = self.require_cluster().client
        resolved = properties.resolve(client, os.environ, properties.read_secret_file)
        context = click.get_current_context(silent=True)
        if context is not None and (error_handler := context.find_object(ErrorHandler)) is not None:
            # Before the client is created, so that its first error is redacted, too.
            error_handler.hide(resolved)
        return resolved


def is_target(ref: ResourceRef, targets: Sequence[str]) -> bool:
    """Return whether one of the globs of `KIND/NAME` matches a resource; without globs, all match."""
    return not targets or any(fnmatchcase(str(ref), target) for target in targets)


def _tell_once(note: str) -> None:
    """Print a note on stderr, once per command."""
    context = click.get_current_context(silent=True)
    if context is None:
        return
    # Kept by the root context: commands that start several sessions, such as compare, print the note once.
    printed = context.find_root().meta.setdefault(f"{__name__}.told", set())
    if note not in printed:
        printed.add(note)
        click.echo(f"note: {printable(note)}", err=True)


def _select_cluster(settings: Settings, where: ClusterSelector) -> ClusterSettings | None:
    """Return the named cluster, or the only one.

    Raises:
        UsageError: There is no such cluster, or a variable has another address for it.
    """
    try:
        target = settings.select_cluster(where.cluster_name)
    except UsageError as error:
        # With a variable, the message names it: its user did not write --cluster on the command line.
        if "cluster_name" not in where.variables:
            raise
        message = f"{where.source('cluster_name')}: {error.message}"
        raise UsageError(message, hint=error.hint) from error
    if target is None or where.bootstrap_server is None or "bootstrap_server" not in where.variables:
        return target
    configured = target.client.describe().get(_SERVERS)
    # Two variables contradict each other, and neither is more explicit. A guess might change the wrong
    # cluster.
    if configured != where.bootstrap_server:
        address, cluster = where.source("bootstrap_server"), where.source("cluster_name")
        raise UsageError(
            f"{address} is {where.bootstrap_server}, but {cluster} is {target.name}, with brokers "
            f"{configured}",
            hint=f"unset one of the two, or give both as options to reach {target.name} by that address",
        )
    return target


def choose_environment(
    settings: Settings, target: ClusterSettings | None, where: ClusterSelector
) -> str | None:
    """Return the environment whose overrides apply.

    Raises:
        UsageError: There is no such environment, or the cluster has another one.
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
        # Production values on a test cluster, or the reverse, are the mistake that this check is for.
        fits = [c.name for c in settings.clusters.values() if c.environment == where.environment]
        instead = f", or choose a cluster of {where.environment}: --cluster {fits[0]}" if fits else ""
        raise UsageError(
            f"cluster {target.name} has environment {own} ({settings.file}), but "
            f"{where.source('environment')} is {where.environment}",
            hint=f"{where.describe_removal('environment')}{instead}",
        )
    return where.environment


def _build_client(target: ClusterSettings, where: ClusterSelector) -> properties.ClientProperties:
    client = target.client
    # The address comes last, as it overrides the one of the file.
    if where.command_config is not None:
        given = _read_command_config(where.command_config, where.source("command_config"))
        _check_overrides(target, given, where)
        client = client.merge(given)
    if where.bootstrap_server is not None:
        source = where.source("bootstrap_server")
        # No callback for locations: the value comes from the command line, and not from a line of a file.
        given, problems = properties.parse({_SERVERS: where.bootstrap_server}, lambda _: None)
        if problems:
            raise UsageError(f"{source}: {problems[0].message}", hint=problems[0].hint)
        client = client.merge(given)
    return client


def _check_overrides(
    target: ClusterSettings, given: properties.ClientProperties, where: ClusterSelector
) -> None:
    """Refuse a file of client properties that contradicts a configured cluster.

    A file from an option overrides the configuration, except for the address, which takes an explicit
    `--bootstrap-server`. A file from an environment variable only adds properties.

    Raises:
        UsageError: The file contradicts the configuration.
    """
    variable = "command_config" in where.variables
    for name, value in given.templates.items():
        if name == _SERVERS and where.bootstrap_server is not None:
            continue
        # An added property, or the same value again, contradicts nothing.
        if name not in target.client.templates or target.client.templates[name] == value:
            continue
        if not variable and name != _SERVERS:
            continue
        source = f"{where.source('command_config')} ({where.command_config})"
        # `describe` redacts secrets: passwords may be among the properties that differ.
        here, there = given.describe()[name], target.client.describe()[name]
        hint = (
            f"to reach {target.name} at that address, use --bootstrap-server; otherwise remove the line"
            if name == _SERVERS
            else f"unset {where.source('command_config')}, or give the file as --command-config to override"
        )
        raise UsageError(f"{source} sets {name} to {here}; cluster {target.name} has {there}", hint=hint)


def _read_command_config(path: Path, source: str) -> properties.ClientProperties:
    from kafkaform.config.client_properties.java_file import read_java_properties

    try:
        # The encoding in which Java's Properties.load reads bytes; other characters are \uXXXX escapes.
        text = read_file(path).decode("iso-8859-1")
    except OSError as error:
        raise KafkaformError(f"{source} {path}: {error.strerror}") from error
    parsed, problems = read_java_properties(text, str(path))
    if problems:
        raise InvalidInput(problems)
    return parsed
