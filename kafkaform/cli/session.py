"""Wiring: from options to settings, manifests and a cluster."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import click

from kafkaform import client_properties as properties
from kafkaform.cli.complaints import Complaints
from kafkaform.errors import InvalidInput, KafkaformError, UsageError
from kafkaform.settings import ClusterSettings, Settings, find_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from kafkaform.cli.options import Where
    from kafkaform.cluster.kafka import KafkaCluster
    from kafkaform.model import Desired, ResourceRef


@dataclass(frozen=True, slots=True)
class Session:
    """What one call of the command line works with.

    Attributes:
        settings: The configuration file, or its defaults.
        target: The cluster, with the command line's own properties in it; None if none is named.
        environment: Whose overrides hold; None if none was chosen.
    """

    settings: Settings
    target: ClusterSettings | None
    environment: str | None

    @classmethod
    def start(cls, where: Where, *, manifests_from: Path | None = None) -> Session:
        """Read the configuration and choose the cluster and the environment.

        Args:
            where: What the command line says of both.
            manifests_from: The folder below which the manifests lie, if it is not the configuration's own.
        """
        settings = find_settings(where.config_file)
        if manifests_from is not None:
            settings = settings.elsewhere(manifests_from)
        if where.bootstrap_server is not None and where.cluster_name is None:
            # The credentials of a configured cluster must not reach a host that it does not name.
            target: ClusterSettings | None = ClusterSettings(
                where.bootstrap_server, properties.ClientProperties()
            )
        else:
            target = settings.cluster(where.cluster_name)
        if target is not None:
            target = replace(target, client=_client(target, where.bootstrap_server, where.command_config))
        chosen = where.environment or (target.environment if target else None)
        settings.check_environment(chosen)
        return cls(settings, target, chosen)

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
        from kafkaform.manifests.loader import ignored, load

        context = self.settings.context(self.environment)
        if not targets:
            return load(self.paths(paths), context, found or ignored)
        desired = load(self.paths(paths), context)
        for target in targets:
            if not any(fnmatchcase(str(d.ref), target) for d in desired):
                raise UsageError(
                    f"--target {target!r} matches no declared resource",
                    hint="write KIND/NAME, such as Topic/orders.v1 or 'Topic/orders.*'",
                )
        return [d for d in desired if any(fnmatchcase(str(d.ref), target) for target in targets)]

    def paths(self, paths: Sequence[Path]) -> Sequence[Path]:
        """The given paths, or those of the configuration file."""
        return paths or self.settings.manifests

    def is_subset(self, paths: Sequence[Path], targets: Sequence[str]) -> bool:
        """Whether only a part of what the repository declares is looked at."""
        if targets:
            return True
        if not paths or self.settings.file is None:
            return False
        return {p.resolve() for p in paths} != {p.resolve() for p in self.settings.manifests}

    def require_cluster(self) -> ClusterSettings:
        """The cluster's settings; raises UsageError where no cluster was named."""
        if self.target is None:
            raise UsageError(
                "no cluster is named", hint="give --bootstrap-server HOST:PORT, or name one in kafkaform.yaml"
            )
        return self.target

    def cluster(self) -> KafkaCluster:
        """The cluster; connects on first use.

        Raises:
            UsageError: No cluster was named.
            InvalidInput: A secret is not there.
        """
        from kafkaform.cluster.kafka import KafkaCluster

        resolved = self.client()
        return KafkaCluster(properties.to_librdkafka(resolved), lambda: properties.to_kafka_python(resolved))

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


def _client(
    target: ClusterSettings, bootstrap_server: str | None, command_config: Path | None
) -> properties.ClientProperties:
    client = target.client
    if command_config is not None:
        client = client.merged(_read_command_config(command_config))
    if bootstrap_server is not None:
        given, problems = properties.parse({"bootstrap.servers": bootstrap_server}, lambda _: None)
        if problems:
            raise UsageError(f"--bootstrap-server: {problems[0].message}", hint=problems[0].hint)
        client = client.merged(given)
    return client


def _read_command_config(path: Path) -> properties.ClientProperties:
    from kafkaform.client_properties.java_file import from_java_properties

    try:
        text = path.read_text("iso-8859-1")
    except OSError as error:
        raise KafkaformError(f"--command-config {path}: {error.strerror}") from error
    translated, problems = from_java_properties(text, str(path))
    parsed, more = properties.parse(translated, translated.locate)
    if problems or more:
        raise InvalidInput([*problems, *more])
    return parsed
