"""A cluster of real Kafka nodes on this machine: start, look at, stop.

Which nodes a cluster gets, and on which ports.
"""

from __future__ import annotations

import dataclasses
import time
import uuid
from typing import TYPE_CHECKING, Self, TypeVar

from kafkaform.core.errors import DevClusterError
from kafkaform.core.files import locked
from kafkaform.core.progress import Progress, silent
from kafkaform.core.wording import counted, dev_command
from kafkaform.devcluster import configuration, processes, readiness, state
from kafkaform.devcluster.jars.cache import kafka_classpath
from kafkaform.devcluster.jars.java import find_java
from kafkaform.devcluster.processes import LOG_FILE, format_nodes, random_id
from kafkaform.devcluster.releases import KAFKA_VERSION, full_version, minor, needs_zookeeper
from kafkaform.devcluster.state import (
    HOST,
    LOCK_FILE,
    ClusterState,
    ClusterStatus,
    DevBroker,
    NodeStatus,
    ZooKeeper,
    clear,
    consecutive_ports,
    free_ports,
    is_free,
    make,
    refuse_strangers,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    import psutil

    from kafkaform.devcluster.jars.java import Java


def place(
    kept: ClusterState | None,
    *,
    brokers: int | None,
    port: int | None,
    sasl: bool,
    directory: Path,
    versions: Sequence[str] = (),
) -> tuple[DevBroker, ...]:
    """The nodes of a start.

    Args:
        kept: What the directory holds from before.
        directory: The directory, for hints.
        brokers: How many nodes; None for as many as before, or one.
        port: Of the first plaintext listener; None for the ports of before if they are free, else any.
        sasl: Whether each node needs a port for SASL too.
        versions: Of Kafka: one for all nodes, or one for each; none for those of before, or the default.

    Raises:
        DevClusterError: The number of nodes or their versions do not fit the data, or a port is taken.
    """
    before = kept.nodes if kept else ()
    count = brokers or len(before) or len(versions) or 1
    if before and count != len(before):
        raise DevClusterError(
            f"the data there is from a cluster of {len(before)} and cannot be used for one of {count}",
            hint=f"use --brokers {len(before)} or another --data, or remove the cluster: "
            f"{dev_command('down', directory, '--wipe')}",
        )
    if port is not None:
        clients = consecutive_ports(port, count)
    elif before and all(is_free(node.port) for node in before):
        clients = tuple(node.port for node in before)
    else:
        clients = free_ports(count)
    if len(versions) > 1 and len(versions) != count:
        raise DevClusterError(
            f"--kafka-version names {len(versions)} versions for {counted(count, 'broker')}",
            hint="give one version for all brokers, or one for each",
        )
    chosen = [full_version(version) for version in versions] or [node.kafka_version for node in before]
    own = chosen * count if len(chosen) == 1 else chosen or [KAFKA_VERSION] * count
    _require_one_mode(own, before, directory)
    others = free_ports(2 * count, avoid=frozenset(clients))
    return tuple(
        DevBroker(
            id=index + 1,
            port=clients[index],
            controller_port=others[index],
            sasl_port=others[count + index] if sasl else None,
            kafka_version=own[index],
        )
        for index in range(count)
    )


def _require_one_mode(versions: Sequence[str], before: Sequence[DevBroker], directory: Path) -> None:
    """Refuse brokers with ZooKeeper and with KRaft in one cluster, at a time or one after the other."""
    modes = {needs_zookeeper(version) for version in versions}
    if len(modes) > 1 or (modes == {True} and len(set(versions)) > 1):
        raise DevClusterError(
            f"--kafka-version {','.join(versions)}: brokers of different versions are run from 3.3 on only",
            hint="earlier ones run with ZooKeeper",
        )
    if before and needs_zookeeper(before[0].kafka_version) not in modes:
        raise DevClusterError(
            f"the data there is from Kafka {before[0].kafka_version} and cannot be used by {versions[0]}:"
            " brokers before 3.3 run with ZooKeeper, later ones without",
            hint=f"use another --data, or remove the cluster: {dev_command('down', directory, '--wipe')}",
        )


# The last of several combined nodes waits 5 s for a quorum that no longer is.
_GRACE_S = 20.0


_ZOOKEEPER_HEAP_MB = 128

_Member = TypeVar("_Member", DevBroker, ZooKeeper)

# A process that was forked when an interruption came carries its token only after this.
_FORK_S = 0.2


class AlreadyRunning(DevClusterError):  # noqa: N818
    """Nodes of the cluster in this directory are running."""

    def __init__(self, cluster: DevCluster) -> None:
        self.cluster = cluster
        super().__init__(
            f"a cluster is running in {cluster.directory}",
            hint=f"use it, or stop it: {dev_command('down', cluster.directory)}",
        )


class DevCluster:
    """The cluster in a directory, whether its nodes run or not.

    Used as a context manager, it is stopped at the end, without ado: what was written is kept all the same.
    """

    def __init__(self, directory: Path, kept: ClusterState) -> None:
        self.directory = directory
        self._state = kept

    @classmethod
    def start(
        cls,
        directory: Path,
        *,
        brokers: int | None = None,
        port: int | None = None,
        properties: Mapping[str, str] | None = None,
        heap_mb: int = 384,
        full_jit: bool = False,
        timeout_s: float = 60,
        format_args: Sequence[str] = (),
        sasl_users: Mapping[str, str] | None = None,
        kafka_version: str | Sequence[str] | None = None,
        progress: Progress = silent,
    ) -> Self:
        """Start a cluster, or start it again with the data that its directory holds.

        Args:
            directory: Holds configuration, logs and data; made if missing.
            brokers: How many nodes; None for as many as the directory's cluster has, else as there are
                versions, else one.
            port: Of the first node's plaintext listener, further nodes follow on; None for the ports of the
                last time if they are free, else any free ones.
            properties: Further or overriding broker properties; see `configuration.server_properties`.
            heap_mb: The heap of each node in MiB.
            full_jit: Whether Java compiles as it does in production: for benchmarks, as such brokers start
                more slowly, and then answer up to three times as fast.
            timeout_s: How long the nodes may take until they answer.
            format_args: Further arguments for Kafka's storage tool; used when the storage is new.
            sasl_users: Passwords by user name. Adds a SASL_PLAINTEXT listener (PLAIN with these users, SCRAM
                with users made later) and an authorizer: these users need ACLs, while everybody on the
                plaintext listener is super user.
            kafka_version: Of all nodes (`"3.9.1"`, or `"3.9"`), or of each (`("3.9", "4.0.0")`: the cluster's
                features are those of the oldest); None for the versions of the last time, or the default.
            progress: Told what takes time.

        Raises:
            AlreadyRunning: Some or all of its nodes run already.
            DevClusterError: It cannot be started; none of its nodes is left running.
        """
        directory = directory.absolute()
        make(directory)
        with locked(directory / LOCK_FILE, progress=progress):
            kept = state.read(directory)
            if kept is not None and any(_running(kept.nodes).values()):
                raise AlreadyRunning(cls(directory, kept))
            versions = (kafka_version,) if isinstance(kafka_version, str) else kafka_version or ()
            nodes = place(
                kept,
                brokers=brokers,
                port=port,
                sasl=sasl_users is not None,
                directory=directory,
                versions=versions,
            )
            refuse_strangers(directory, kept, nodes)
            zookeeper = None
            if needs_zookeeper(nodes[0].kafka_version):
                ports = frozenset(port for node in nodes for port in (node.port, node.sasl_port) if port)
                (zookeeper_port,) = free_ports(1, avoid=ports)
                zookeeper = ZooKeeper(zookeeper_port)
            java = find_java()
            classpaths = _classpaths(nodes, java, progress)
            cluster = cls(
                directory,
                ClusterState(
                    cluster_id=kept.cluster_id if kept else "" if zookeeper else random_id(),
                    heap_mb=heap_mb,
                    formatted=kept.formatted if kept else False,
                    nodes=nodes,
                    full_jit=full_jit,
                    zookeeper=zookeeper,
                ),
            )
            size = "1 broker" if len(nodes) == 1 else f"{len(nodes)} brokers"
            progress(f"starting Apache Kafka {_listed(nodes)}, {size}, in {directory}")
            cluster._write_configuration(properties or {}, sasl_users)
            if not cluster._state.formatted:
                cluster._format(java, classpaths, format_args)
            cluster._launch(cluster.nodes, java, classpaths, timeout_s)
        return cluster

    @classmethod
    def load(cls, directory: Path) -> Self | None:
        """The cluster that was started in a directory before, in this process or another; None if none was.

        Raises:
            DevClusterError: What the directory says about its cluster is damaged.
        """
        directory = directory.absolute()
        kept = state.read(directory)
        return None if kept is None else cls(directory, kept)

    @property
    def cluster_id(self) -> str:
        """The id that all nodes report; it stays over restarts."""
        return self._state.cluster_id

    @property
    def nodes(self) -> tuple[DevBroker, ...]:
        """All nodes, running or not, by id."""
        return self._state.nodes

    @property
    def bootstrap_servers(self) -> str:
        """The plaintext listeners, as clients take them."""
        return ",".join(node.address for node in self.nodes)

    @property
    def sasl_bootstrap_servers(self) -> str:
        """The SASL listeners, as clients take them.

        Raises:
            DevClusterError: The cluster was started without `sasl_users`.
        """
        if any(node.sasl_port is None for node in self.nodes):
            raise DevClusterError("this cluster has no SASL listener", hint="start it with sasl_users")
        return ",".join(f"{HOST}:{node.sasl_port}" for node in self.nodes)

    def log_file(self, node_id: int) -> Path:
        """Where a node writes its log."""
        return self._home(self._node(node_id)) / LOG_FILE

    def status(self) -> ClusterStatus:
        """How the nodes are at this moment."""
        running = _running(self.nodes)
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
                    answers=bool(running[node])
                    and readiness.answers(node, self.cluster_id, expected={node.id}),
                    log=self.log_file(node.id),
                )
                for node in self.nodes
            ),
        )

    def stop(self, *, graceful: bool = True) -> bool:
        """Stop all nodes; True if one of them was running.

        Args:
            graceful: Let each node say goodbye, which takes several seconds where there are three. Data
                that was written is safe either way.
        """
        with locked(self.directory / LOCK_FILE):
            self._reload()
            return self._end(self.nodes, grace_s=_GRACE_S if graceful else 0)

    def stop_node(self, node_id: int, *, graceful: bool = True) -> None:
        """Stop one node; not gracefully, the others notice it only after `broker.session.timeout.ms`."""
        with locked(self.directory / LOCK_FILE):
            self._reload()
            self._end([self._node(node_id)], grace_s=_GRACE_S if graceful else 0)

    def start_node(self, node_id: int, *, kafka_version: str | None = None, timeout_s: float = 60) -> None:
        """Start a stopped node again, with the same ports, configuration and data.

        Args:
            node_id: Which.
            kafka_version: What it runs from now on, as in a rolling upgrade; None for the version of before.
            timeout_s: How long it may take until it answers.

        Raises:
            DevClusterError: It runs already, or does not come up; it is not left running then.
        """
        with locked(self.directory / LOCK_FILE):
            self._reload()
            node = self._node(node_id)
            if _running([node])[node]:
                raise DevClusterError(f"node {node_id} is already running")
            if kafka_version is not None:
                node = dataclasses.replace(node, kafka_version=full_version(kafka_version))
                nodes = tuple(node if other.id == node_id else other for other in self.nodes)
                _require_one_mode([other.kafka_version for other in nodes], self.nodes, self.directory)
                self._state = dataclasses.replace(self._state, nodes=nodes)
            java = find_java()
            self._launch([node], java, _classpaths([node], java), timeout_s)

    def wipe(self) -> None:
        """Stop the nodes, and remove what `start` has put into the directory, and nothing else."""
        with locked(self.directory / LOCK_FILE):
            self._reload()
            self._end(self.nodes, grace_s=0)
            clear(self.directory, self._members)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop(graceful=False)

    # --- with the lock held ------------------------------------------------------------------------

    def _reload(self) -> None:
        """Another process may have stopped or started nodes since."""
        kept = state.read(self.directory)
        if kept is None:
            raise DevClusterError(f"there is no cluster in {self.directory} any more")
        self._state = kept

    def _write_configuration(
        self, properties: Mapping[str, str], sasl_users: Mapping[str, str] | None
    ) -> None:
        state.write(self.directory, self._state)
        for node in self.nodes:
            directory = self._home(node)
            directory.mkdir(exist_ok=True)
            configuration.write(
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
                raise DevClusterError("storage is formatted from Kafka 3.3 on only, not with ZooKeeper")
            return
        by_age = sorted(self.nodes, key=lambda node: minor(node.kafka_version))
        format_nodes(
            java,
            classpaths[by_age[0].kafka_version],
            {node.id: self._home(node) for node in by_age},
            cluster_id=self.cluster_id,
            arguments=arguments,
        )
        self._state = dataclasses.replace(self._state, formatted=True)
        state.write(self.directory, self._state)

    def _launch(
        self,
        nodes: Sequence[DevBroker],
        java: Java,
        classpaths: Mapping[str, Sequence[Path]],
        timeout_s: float,
    ) -> None:
        marked = self._set_tokens({node.id: uuid.uuid4().hex for node in nodes})
        try:
            self._start_zookeeper(java, classpaths)
            started = {
                node: processes.launch(
                    java,
                    classpaths[node.kafka_version],
                    directory=self._home(node),
                    heap_mb=self._state.heap_mb,
                    full_jit=self._state.full_jit,
                    token=str(node.token),
                )
                for node in marked
            }
            running = _running(self.nodes)
            readiness.await_nodes(
                started,
                cluster_id=self.cluster_id,
                expected={node.id for node in self.nodes if node in started or running[node]},
                log_files={node: self.log_file(node.id) for node in started},
                timeout_s=timeout_s,
            )
            if not self.cluster_id:
                found = readiness.membership(HOST, marked[0].port, timeout_s=timeout_s)
                self._state = dataclasses.replace(self._state, cluster_id=found.cluster_id)
                state.write(self.directory, self._state)
        except BaseException:
            time.sleep(_FORK_S)
            self._end(marked, grace_s=0)
            raise

    def _start_zookeeper(self, java: Java, classpaths: Mapping[str, Sequence[Path]]) -> None:
        """Start the ZooKeeper that these brokers need and that does not run; they wait for it themselves."""
        zookeeper = self._state.zookeeper
        if zookeeper is None or _running([zookeeper])[zookeeper]:
            return
        zookeeper = dataclasses.replace(zookeeper, token=uuid.uuid4().hex)
        self._state = dataclasses.replace(self._state, zookeeper=zookeeper)
        state.write(self.directory, self._state)
        (classpath,) = classpaths.values()
        processes.launch(
            java,
            classpath,
            directory=self._home(zookeeper),
            heap_mb=_ZOOKEEPER_HEAP_MB,
            full_jit=False,
            token=str(zookeeper.token),
            program=processes.ZOOKEEPER,
        )

    def _end(self, nodes: Collection[DevBroker], *, grace_s: float) -> bool:
        running = [process for found in _running(nodes).values() for process in found]
        processes.end(running, grace_s=grace_s)
        self._set_tokens({node.id: None for node in nodes})
        zookeeper = self._state.zookeeper
        if zookeeper is not None and not any(_running(self.nodes).values()):
            processes.end(_running([zookeeper])[zookeeper], grace_s=grace_s)
        return bool(running)

    def _set_tokens(self, tokens: Mapping[int, str | None]) -> list[DevBroker]:
        nodes = tuple(
            dataclasses.replace(node, token=tokens[node.id]) if node.id in tokens else node
            for node in self.nodes
        )
        self._state = dataclasses.replace(self._state, nodes=nodes)
        state.write(self.directory, self._state)
        return [node for node in nodes if node.id in tokens]

    def _node(self, node_id: int) -> DevBroker:
        for node in self.nodes:
            if node.id == node_id:
                return node
        raise DevClusterError(f"there is no node {node_id}", hint=f"the nodes are 1 to {len(self.nodes)}")

    @property
    def _members(self) -> tuple[DevBroker | ZooKeeper, ...]:
        return self.nodes if self._state.zookeeper is None else (*self.nodes, self._state.zookeeper)

    def _home(self, member: DevBroker | ZooKeeper) -> Path:
        return self.directory / member.name


def _running(members: Collection[_Member]) -> dict[_Member, list[psutil.Process]]:
    found = processes.find({member.token for member in members if member.token})
    return {member: found[member.token] if member.token else [] for member in members}


def _classpaths(
    nodes: Sequence[DevBroker], java: Java, progress: Progress = silent
) -> dict[str, Sequence[Path]]:
    """The jars of each version that the nodes run."""
    versions = dict.fromkeys(node.kafka_version for node in nodes)
    return {version: kafka_classpath(version, java=java, progress=progress) for version in versions}


def _listed(nodes: Sequence[DevBroker]) -> str:
    return " and ".join(dict.fromkeys(node.kafka_version for node in nodes))
