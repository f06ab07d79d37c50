"""The life cycle of a development cluster: choose its nodes and ports, start, inspect, stop and wipe it."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self, TypeVar

from kafkaform.core.errors import DevClusterError
from kafkaform.core.files import hold_lock
from kafkaform.core.progress import Progress, silent
from kafkaform.core.values import replace
from kafkaform.core.wording import counted, dev_command, join_words
from kafkaform.devcluster import configuration, processes, readiness, state
from kafkaform.devcluster.jars.cache import fetch_kafka_classpath
from kafkaform.devcluster.jars.java import Java, find_java
from kafkaform.devcluster.ports import HOST, check_consecutive_ports, find_free_ports, is_free
from kafkaform.devcluster.processes import LOG_FILE, format_nodes, generate_id
from kafkaform.devcluster.registry import fetch_registry, launch_registry
from kafkaform.devcluster.releases import KAFKA_VERSION, needs_zookeeper, parse_minor_version, resolve_version
from kafkaform.devcluster.state import (
    LOCK_FILE,
    ClusterState,
    ClusterStatus,
    DevBroker,
    NodeStatus,
    Registry,
    ZooKeeper,
    make_directory,
    refuse_foreign_files,
    remove_files,
    remove_folder,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    import psutil


# The last of several combined nodes waits 5 s for a quorum that no longer exists.
_GRACE_S = 20.0
_ZOOKEEPER_HEAP_MB = 128
# A process that is being forked during an interruption carries its token only after this time.
_FORK_S = 0.2

_Member = TypeVar("_Member", DevBroker, ZooKeeper, Registry)


def plan_nodes(
    stored: ClusterState | None,
    *,
    brokers: int | None,
    port: int | None,
    sasl: bool,
    directory: Path,
    versions: Sequence[str] = (),
) -> tuple[DevBroker, ...]:
    """Choose the ids, ports and versions of the nodes to start.

    Args:
        stored: The cluster that the directory holds.
        directory: The directory, for hints.
        brokers: The number of nodes; None for the number of the stored cluster, or one.
        port: The port of the first plaintext listener; None for the stored ports if they are free, else any.
        sasl: Whether each node needs a port for SASL too.
        versions: The versions of Kafka: one for all nodes, or one for each; none for those of the stored
            cluster, or the default.

    Raises:
        DevClusterError: The number of nodes or their versions do not fit the data, or a port is taken.
    """
    before = stored.nodes if stored else ()
    count = brokers or len(before) or len(versions) or 1
    # The voters of the quorum are fixed (controller.quorum.voters): a restart cannot add or remove one.
    if before and count != len(before):
        raise DevClusterError(
            f"the data in {directory} is from a cluster of {counted(len(before), 'broker')}, not {count}",
            hint=f"use --brokers {len(before)} or another --data, or remove the cluster: "
            f"{dev_command('down', directory, '--wipe')}",
        )
    if port is not None:
        clients = check_consecutive_ports(port, count)
    # The same ports again, so that addresses in configuration files and shells stay valid.
    elif before and all(is_free(node.port) for node in before):
        clients = tuple(node.port for node in before)
    else:
        clients = find_free_ports(count)
    if len(versions) > 1 and len(versions) != count:
        raise DevClusterError(
            f"--kafka-version names {len(versions)} versions for {counted(count, 'broker')}",
            hint="give one version for all brokers, or one for each",
        )
    chosen = [resolve_version(version) for version in versions or [node.kafka_version for node in before]]
    own = chosen * count if len(chosen) == 1 else chosen or [KAFKA_VERSION] * count
    _require_one_mode(own, before, directory)
    # Those of controllers may change: nothing outside of the cluster has them.
    logins = [node.sasl_port for node in before if node.sasl_port is not None and is_free(node.sasl_port)]
    ports = find_free_ports(2 * count, avoid=frozenset((*clients, *logins)))
    sasl_ports = logins if len(logins) == count else ports[count:]
    return tuple(
        DevBroker(
            id=index + 1,
            port=clients[index],
            controller_port=ports[index],
            sasl_port=sasl_ports[index] if sasl else None,
            kafka_version=own[index],
        )
        for index in range(count)
    )


def _require_one_mode(versions: Sequence[str], before: Sequence[DevBroker], directory: Path) -> None:
    """Refuse to mix brokers with ZooKeeper and with KRaft, at the same time or one after the other."""
    modes = {needs_zookeeper(version) for version in versions}
    # Kafka's migration from ZooKeeper to KRaft (KIP-866) takes steps that a development cluster does not
    # offer.
    if len(modes) > 1 or (modes == {True} and len(set(versions)) > 1):
        raise DevClusterError(
            f"--kafka-version {','.join(versions)}: mixed versions need Kafka 3.3 or later",
            hint="use one version for all brokers: earlier ones run with ZooKeeper",
        )
    if before and needs_zookeeper(before[0].kafka_version) not in modes:
        raise DevClusterError(
            f"the data in {directory} is from Kafka {before[0].kafka_version} and cannot be used by "
            f"{versions[0]}: brokers before 3.3 run with ZooKeeper, later ones with KRaft",
            hint=f"use another --data, or remove the cluster: {dev_command('down', directory, '--wipe')}",
        )


class AlreadyRunning(DevClusterError):  # noqa: N818
    """Nodes of the cluster in this directory are running."""

    def __init__(self, cluster: DevCluster) -> None:
        self.cluster = cluster
        super().__init__(
            f"a cluster is running in {cluster.directory}",
            hint=f"use it, or stop it: {dev_command('down', cluster.directory)}",
        )


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """The cluster to start.

    Attributes:
        brokers: The number of nodes; None for the number of the stored cluster, else of the versions, else
            one.
        port: The port of the first plaintext listener, the next nodes use the next ports; None for the
            ports of the previous start if they are free, else any free ones.
        properties: Additional or overriding broker properties, with the placeholders of
            `configuration.build_server_properties`.
        heap_mb: The heap of each node in MiB.
        full_jit: Whether Java compiles as in production. For benchmarks: such brokers start more slowly, and
            then respond up to three times as fast.
        format_args: Additional arguments for Kafka's storage tool; used when the storage is new.
        sasl_users: Passwords by user name. Adds a SASL_PLAINTEXT listener (PLAIN with these users, SCRAM with
            users created later) and an authorizer: these users need ACLs, while all clients of the plaintext
            listener are super users.
        acls: Whether the brokers have an authorizer, and a SASL listener. What no ACL names is open to
            everyone, and clients of the plaintext listener are super users. None: as at the previous start.
        kafka_version: The version of all nodes (`"3.9.1"`, or `"3.9"`), or of each (`("3.9", "4.0.0")`: the
            cluster has the features of the oldest); None for the versions of the previous start, or the
            default.
        registry: Whether a schema registry runs beside the brokers. None: as at the previous start.
    """

    brokers: int | None = None
    port: int | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    heap_mb: int = 384
    full_jit: bool = False
    format_args: Sequence[str] = ()
    sasl_users: Mapping[str, str] | None = field(default=None, repr=False)
    acls: bool | None = None
    kafka_version: str | Sequence[str] | None = None
    registry: bool | None = None


class DevCluster:
    """The cluster in a directory, whether its nodes run or not.

    A context manager: at its end the nodes are killed. Data that they have written is kept.
    """

    def __init__(self, directory: Path, stored: ClusterState) -> None:
        self.directory = directory
        self._state = stored

    @classmethod
    def start(
        cls,
        directory: Path,
        spec: ClusterSpec | None = None,
        *,
        timeout_s: float = 60,
        progress: Progress = silent,
    ) -> Self:
        """Start a cluster, or start it again with the data that its directory holds.

        Args:
            directory: Holds configuration, logs and data; created if missing.
            spec: The cluster to start.
            timeout_s: The time that the nodes may take to respond.
            progress: Called before steps that take time.

        Raises:
            AlreadyRunning: Some or all of its nodes are running.
            DevClusterError: It cannot be started; none of its nodes is left running.
        """
        spec = spec or ClusterSpec()
        directory = directory.absolute()
        make_directory(directory)
        # Two starts at the same time would choose ports and write the state of one cluster twice.
        with hold_lock(directory / LOCK_FILE, progress=progress):
            stored = state.read_state(directory)
            if stored is not None and any(_find_running(stored.nodes).values()):
                raise AlreadyRunning(cls(directory, stored))
            acls = spec.acls if spec.acls is not None else stored is not None and stored.acls
            sasl_users = {} if acls and spec.sasl_users is None else spec.sasl_users
            version = spec.kafka_version
            versions = (version,) if isinstance(version, str) else version or ()
            nodes = plan_nodes(
                stored,
                brokers=spec.brokers,
                port=spec.port,
                sasl=sasl_users is not None,
                directory=directory,
                versions=versions,
            )
            # Before anything is written: `--wipe` removes the folders of nodes.
            refuse_foreign_files(directory, stored, nodes)
            zookeeper = None
            if needs_zookeeper(nodes[0].kafka_version):
                ports = frozenset(port for node in nodes for port in (node.port, node.sasl_port) if port)
                (zookeeper_port,) = find_free_ports(1, avoid=ports)
                zookeeper = ZooKeeper(zookeeper_port)
            registry = _choose_registry(directory, stored.registry if stored else None, spec.registry, nodes)
            java = find_java()
            classpaths = _fetch_classpaths(nodes, progress)
            if registry is not None:
                fetch_registry(progress)
            cluster = cls(
                directory,
                ClusterState(
                    cluster_id=stored.cluster_id if stored else "" if zookeeper else generate_id(),
                    heap_mb=spec.heap_mb,
                    formatted=stored.formatted if stored else False,
                    nodes=nodes,
                    full_jit=spec.full_jit,
                    zookeeper=zookeeper,
                    acls=acls,
                    registry=registry,
                ),
            )
            names = join_words(dict.fromkeys(node.kafka_version for node in nodes))
            progress(f"starting Apache Kafka {names}, {counted(len(nodes), 'broker')}, in {directory}")
            open_access = {"allow.everyone.if.no.acl.found": "true"} if acls else {}
            cluster._write_configuration({**open_access, **spec.properties}, sasl_users)
            if not cluster._state.formatted:
                cluster._format(java, classpaths, spec.format_args)
            cluster._launch(cluster.nodes, java, classpaths, timeout_s)
            cluster._start_registry(java, timeout_s)
        return cluster

    @classmethod
    def load(cls, directory: Path) -> Self | None:
        """Load the cluster that this or another process started in a directory; None if there is none.

        Raises:
            DevClusterError: The stored state is damaged.
        """
        directory = directory.absolute()
        stored = state.read_state(directory)
        return None if stored is None else cls(directory, stored)

    @property
    def cluster_id(self) -> str:
        """The id that all nodes report; restarts keep it."""
        return self._state.cluster_id

    @property
    def nodes(self) -> tuple[DevBroker, ...]:
        """All nodes, running or not, by id."""
        return self._state.nodes

    @property
    def has_acls(self) -> bool:
        """True if it was started with `acls`."""
        return self._state.acls

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of the plaintext listeners, for `bootstrap.servers`."""
        return ",".join(node.address for node in self.nodes)

    @property
    def registry_url(self) -> str | None:
        """The address of the schema registry, `schema.registry.url`; None without one."""
        return self._state.registry.url if self._state.registry is not None else None

    @property
    def sasl_bootstrap_servers(self) -> str:
        """The addresses of the SASL listeners, for `bootstrap.servers`.

        Raises:
            DevClusterError: The cluster was started without `sasl_users`.
        """
        if any(node.sasl_port is None for node in self.nodes):
            raise DevClusterError("this cluster has no SASL listener", hint="start it with sasl_users")
        return ",".join(f"{HOST}:{node.sasl_port}" for node in self.nodes)

    def log_file(self, node_id: int) -> Path:
        """Return the path of a node's log."""
        return self._home(self._find_node(node_id)) / LOG_FILE

    def status(self) -> ClusterStatus:
        """Return the current status of all nodes."""
        running = _find_running(self.nodes)
        return ClusterStatus(
            cluster_id=self.cluster_id,
            bootstrap_servers=self.bootstrap_servers,
            nodes=tuple(
                NodeStatus(
                    id=node.id,
                    address=node.address,
                    rack=node.rack,
                    kafka_version=node.kafka_version,
                    pid=running[node][-1].pid if running[node] else None,
                    responds=bool(running[node])
                    and readiness.responds(node, self.cluster_id, expected={node.id}),
                    log=self.log_file(node.id),
                )
                for node in self.nodes
            ),
        )

    def stop(self, *, graceful: bool = True) -> bool:
        """Stop all nodes; True if one of them was running.

        Args:
            graceful: Let each node leave the quorum, which takes several seconds with three nodes. Data
                that was written is safe either way.
        """
        with hold_lock(self.directory / LOCK_FILE):
            self._reload()
            return self._stop_nodes(self.nodes, grace_s=_GRACE_S if graceful else 0)

    def stop_node(self, node_id: int, *, graceful: bool = True) -> None:
        """Stop one node. If it is killed, the others notice only after `broker.session.timeout.ms`."""
        with hold_lock(self.directory / LOCK_FILE):
            self._reload()
            self._stop_nodes([self._find_node(node_id)], grace_s=_GRACE_S if graceful else 0)

    def start_node(self, node_id: int, *, kafka_version: str | None = None, timeout_s: float = 60) -> None:
        """Start a stopped node again, with the same ports, configuration and data.

        Args:
            kafka_version: The version to run from now on, as in a rolling upgrade; None for its own version.
            timeout_s: The time that it may take to respond.

        Raises:
            DevClusterError: The node is running, or could not be started; then it is not left running.
        """
        with hold_lock(self.directory / LOCK_FILE):
            self._reload()
            node = self._find_node(node_id)
            if _find_running([node])[node]:
                raise DevClusterError(f"node {node_id} is already running")
            if kafka_version is not None:
                node = replace(node, kafka_version=resolve_version(kafka_version))
                nodes = tuple(node if member.id == node_id else member for member in self.nodes)
                _require_one_mode([member.kafka_version for member in nodes], self.nodes, self.directory)
                self._state = replace(self._state, nodes=nodes)
            self._launch([node], find_java(), _fetch_classpaths([node]), timeout_s)

    def wipe(self) -> None:
        """Stop the nodes, and remove the files that `start` created, and only those."""
        with hold_lock(self.directory / LOCK_FILE):
            self._reload()
            self._stop_nodes(self.nodes, grace_s=0)
            remove_files(self.directory, self._members)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop(graceful=False)

    # --- with the lock held ------------------------------------------------------------------------

    def _reload(self) -> None:
        # Another process may have stopped or started nodes since.
        stored = state.read_state(self.directory)
        if stored is None:
            raise DevClusterError(f"there is no cluster in {self.directory} any more")
        self._state = stored

    def _write_configuration(
        self, properties: Mapping[str, str], sasl_users: Mapping[str, str] | None
    ) -> None:
        state.write_state(self.directory, self._state)
        for node in self.nodes:
            directory = self._home(node)
            directory.mkdir(exist_ok=True)
            configuration.write_configuration(
                directory,
                node,
                self.nodes,
                properties=properties,
                sasl_users=sasl_users,
                zookeeper=self._state.zookeeper,
            )
        if self._state.zookeeper is not None:
            directory = self._home(self._state.zookeeper)
            directory.mkdir(exist_ok=True)
            configuration.write_zookeeper(directory, self._state.zookeeper)

    def _format(self, java: Java, classpaths: Mapping[str, Sequence[Path]], arguments: Sequence[str]) -> None:
        if self._state.zookeeper is not None:
            if arguments:
                raise DevClusterError(
                    "format_args needs Kafka 3.3 or later: with ZooKeeper, storage is not formatted"
                )
            return
        # The tool of the oldest version formats: newer brokers support its metadata version (KIP-778).
        by_age = sorted(self.nodes, key=lambda node: parse_minor_version(node.kafka_version))
        format_nodes(
            java,
            classpaths[by_age[0].kafka_version],
            {node.id: self._home(node) for node in by_age},
            cluster_id=self.cluster_id,
            arguments=arguments,
        )
        self._state = replace(self._state, formatted=True)
        state.write_state(self.directory, self._state)

    def _launch(
        self,
        nodes: Sequence[DevBroker],
        java: Java,
        classpaths: Mapping[str, Sequence[Path]],
        timeout_s: float,
    ) -> None:
        # Stored before the processes exist: whatever happens next, `down` finds them.
        marked = self._set_tokens({node.id: uuid.uuid4().hex for node in nodes})
        try:
            self._start_zookeeper(java, classpaths)
            started = {
                node: processes.launch_node(
                    java,
                    classpaths[node.kafka_version],
                    directory=self._home(node),
                    heap_mb=self._state.heap_mb,
                    full_jit=self._state.full_jit,
                    token=str(node.token),
                    # Of three nodes, the one that was to write it did not end within 20 s (measured).
                    writes_archive=len(self.nodes) == 1,
                )
                for node in marked
            }
            running = _find_running(self.nodes)
            readiness.wait_for_nodes(
                started,
                cluster_id=self.cluster_id,
                expected={node.id for node in self.nodes if node in started or running[node]},
                log_files={node: self.log_file(node.id) for node in started},
                timeout_s=timeout_s,
            )
            # With ZooKeeper, the first broker generates the id.
            if not self.cluster_id:
                membership = readiness.read_membership(HOST, marked[0].port, timeout_s=timeout_s)
                self._state = replace(self._state, cluster_id=membership.cluster_id)
                state.write_state(self.directory, self._state)
        except BaseException:
            time.sleep(_FORK_S)
            self._stop_nodes(marked, grace_s=0)
            raise

    def _start_zookeeper(self, java: Java, classpaths: Mapping[str, Sequence[Path]]) -> None:
        """Start the ZooKeeper, if the brokers need one that is not running; they wait for it themselves."""
        zookeeper = self._state.zookeeper
        if zookeeper is None or _find_running([zookeeper])[zookeeper]:
            return
        zookeeper = replace(zookeeper, token=uuid.uuid4().hex)
        self._state = replace(self._state, zookeeper=zookeeper)
        state.write_state(self.directory, self._state)
        (classpath,) = classpaths.values()
        processes.launch_node(
            java,
            classpath,
            directory=self._home(zookeeper),
            heap_mb=_ZOOKEEPER_HEAP_MB,
            full_jit=False,
            token=str(zookeeper.token),
            program=processes.ZOOKEEPER,
        )

    def _start_registry(self, java: Java, timeout_s: float) -> None:
        registry = self._state.registry
        if registry is None:
            return
        registry = replace(registry, token=uuid.uuid4().hex)
        self._state = replace(self._state, registry=registry)
        state.write_state(self.directory, self._state)
        try:
            launch_registry(java, fetch_registry(), registry, self._home(registry), timeout_s)
        except BaseException:
            time.sleep(_FORK_S)
            self._stop_nodes(self.nodes, grace_s=0)
            raise

    def _stop_nodes(self, nodes: Collection[DevBroker], *, grace_s: float) -> bool:
        running = [process for processes in _find_running(nodes).values() for process in processes]
        processes.end_processes(running, grace_s=grace_s)
        # After the end: until then, the tokens are the only way to find the processes.
        self._set_tokens({node.id: None for node in nodes})
        zookeeper = self._state.zookeeper
        # Last: a broker that stops gracefully still needs it.
        if zookeeper is not None and not any(_find_running(self.nodes).values()):
            processes.end_processes(_find_running([zookeeper])[zookeeper], grace_s=grace_s)
        registry = self._state.registry
        if registry is not None and not any(_find_running(self.nodes).values()):
            processes.end_processes(_find_running([registry])[registry], grace_s=0)
        return bool(running)

    def _set_tokens(self, tokens: Mapping[int, str | None]) -> list[DevBroker]:
        nodes = tuple(
            replace(node, token=tokens[node.id]) if node.id in tokens else node for node in self.nodes
        )
        self._state = replace(self._state, nodes=nodes)
        state.write_state(self.directory, self._state)
        return [node for node in nodes if node.id in tokens]

    def _find_node(self, node_id: int) -> DevBroker:
        for node in self.nodes:
            if node.id == node_id:
                return node
        raise DevClusterError(f"there is no node {node_id}", hint=f"the nodes are 1 to {len(self.nodes)}")

    @property
    def _members(self) -> tuple[DevBroker | ZooKeeper | Registry, ...]:
        others = (self._state.zookeeper, self._state.registry)
        return (*self.nodes, *(member for member in others if member is not None))

    def _home(self, member: DevBroker | ZooKeeper | Registry) -> Path:
        return self.directory / member.name


def _choose_registry(
    directory: Path, stored: Registry | None, wanted: bool | None, nodes: Sequence[DevBroker]
) -> Registry | None:
    """Return the schema registry to start, at its earlier port if that is free; remove an unwanted one."""
    if stored is not None:
        # It still runs if its brokers were killed.
        processes.end_processes(_find_running([stored])[stored], grace_s=0)
    if wanted is False or (wanted is None and stored is None):
        if stored is not None:
            remove_folder(directory, stored)
        return None
    if stored is not None and is_free(stored.port):
        return stored
    taken = frozenset(port for node in nodes for port in (node.port, node.sasl_port) if port)
    return Registry(find_free_ports(1, avoid=taken)[0])


def _find_running(members: Collection[_Member]) -> dict[_Member, list[psutil.Process]]:
    by_token = processes.find_processes({member.token for member in members if member.token})
    return {member: by_token[member.token] if member.token else [] for member in members}


def _fetch_classpaths(nodes: Sequence[DevBroker], progress: Progress = silent) -> dict[str, Sequence[Path]]:
    """Return the jars of each version that the nodes run."""
    versions = dict.fromkeys(node.kafka_version for node in nodes)
    return {version: fetch_kafka_classpath(version, progress=progress) for version in versions}
