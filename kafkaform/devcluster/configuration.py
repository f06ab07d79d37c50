"""The configuration files of a node: the properties and the logging of its broker or ZooKeeper."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import javaproperties

from kafkaform.core.errors import DevClusterError
from kafkaform.devcluster.ports import HOST

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from kafkaform.devcluster.state import DevBroker, ZooKeeper

SERVER_FILE = "server.properties"
ZOOKEEPER_FILE = "zookeeper.properties"
LOGGING_FILE = "log4j2.properties"
DATA_DIRECTORY = "data"

_LOGGING = {
    "status": "error",
    "rootLogger.level": "INFO",
    "rootLogger.appenderRef.console.ref": "console",
    "appender.console.type": "Console",
    "appender.console.name": "console",
    "appender.console.layout.type": "PatternLayout",
    "appender.console.layout.pattern": "[%d] %p %m (%c)%n",
    # At INFO it logs all 300 settings at each start, several times.
    "logger.config.name": "org.apache.kafka.common.config.AbstractConfig",
    "logger.config.level": "WARN",
}
_JAAS_NAME = re.compile(r"[A-Za-z0-9_-]+")


def write_configuration(
    directory: Path,
    node: DevBroker,
    nodes: Sequence[DevBroker],
    *,
    properties: Mapping[str, str],
    sasl_users: Mapping[str, str] | None,
    zookeeper: ZooKeeper | None = None,
) -> None:
    """Write a node's files into its directory; paths in them are relative to it."""
    server = directory / SERVER_FILE
    # Before the text is written: it may contain passwords.
    server.touch(mode=0o600)
    content = build_server_properties(
        node, nodes, properties=properties, sasl_users=sasl_users, zookeeper=zookeeper
    )
    server.write_text(javaproperties.dumps(content, timestamp=None), encoding="ascii")
    (directory / LOGGING_FILE).write_text(javaproperties.dumps(_LOGGING, timestamp=None), encoding="ascii")


def write_zookeeper(directory: Path, zookeeper: ZooKeeper) -> None:
    """Write the files of a ZooKeeper into its directory."""
    content = {
        "dataDir": DATA_DIRECTORY,
        "clientPortAddress": HOST,
        "clientPort": str(zookeeper.port),
        # No limit: all brokers connect from one address.
        "maxClientCnxns": "0",
        "tickTime": "500",
        # It would listen on port 8080.
        "admin.enableServer": "false",
    }
    (directory / ZOOKEEPER_FILE).write_text(javaproperties.dumps(content, timestamp=None), encoding="ascii")
    (directory / LOGGING_FILE).write_text(javaproperties.dumps(_LOGGING, timestamp=None), encoding="ascii")


def build_server_properties(
    node: DevBroker,
    nodes: Sequence[DevBroker],
    *,
    properties: Mapping[str, str],
    sasl_users: Mapping[str, str] | None,
    zookeeper: ZooKeeper | None = None,
) -> dict[str, str]:
    """Return the properties that a node starts with.

    They are the same for all versions with KRaft, so that a node can be upgraded: a broker only logs a
    warning about a property that it does not support.

    Args:
        nodes: All nodes of the cluster.
        properties: Additional or overriding properties. `{node_id}`, `{port}`, `{controller_port}`,
            `{sasl_port}` and `{rack}` in their values are replaced by those of the node.
        sasl_users: Passwords by user name: adds a SASL_PLAINTEXT listener and an authorizer.
        zookeeper: The ZooKeeper to use instead of KRaft.
    """
    # Internal topics are only created if there are as many brokers as replicas.
    replicas = str(min(3, len(nodes)))
    in_sync = str(min(2, len(nodes)))
    result = {
        "process.roles": "broker,controller",
        "node.id": str(node.id),
        "broker.rack": node.rack,
        "controller.quorum.voters": ",".join(f"{n.id}@{HOST}:{n.controller_port}" for n in nodes),
        "listeners": f"PLAINTEXT://{node.address},CONTROLLER://{HOST}:{node.controller_port}",
        "advertised.listeners": f"PLAINTEXT://{node.address}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": DATA_DIRECTORY,
        "auto.create.topics.enable": "false",
        # By default, a broker waits 3 s for further members of a new group.
        "group.initial.rebalance.delay.ms": "0",
        # Heartbeats bring a broker into service; they are 2 s apart by default.
        "broker.heartbeat.interval.ms": "500",
        # A broker that was killed can only register again when its session has expired.
        "broker.session.timeout.ms": "5000",
        # Else an idle controller writes and syncs two records a second: a third of the load of an idle node.
        "metadata.max.idle.interval.ms": "0",
        "offsets.topic.replication.factor": replicas,
        # 50 by default: each would be a log to open at every start.
        "offsets.topic.num.partitions": "3",
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "transaction.state.log.num.partitions": "3",
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
        "share.coordinator.state.topic.num.partitions": "3",
        "num.network.threads": "2",
        "num.io.threads": "2",
        "background.threads": "2",
        "group.coordinator.threads": "1",
        # 128 MiB by default, of a heap of 384.
        "log.cleaner.dedupe.buffer.size": str(16 * 1024 * 1024),
    }
    if sasl_users is not None:
        _add_sasl(result, node, sasl_users)
    if zookeeper is not None:
        _replace_kraft(result, node, zookeeper)
    own = {
        "{node_id}": str(node.id),
        "{port}": str(node.port),
        "{controller_port}": str(node.controller_port),
        "{sasl_port}": str(node.sasl_port or ""),
        "{rack}": node.rack,
    }
    for name, value in properties.items():
        result[name] = re.sub(r"\{\w+\}", lambda match: own.get(match[0], match[0]), value)
    return result


def _add_sasl(result: dict[str, str], node: DevBroker, users: Mapping[str, str]) -> None:
    listener = f"SASL://{HOST}:{node.sasl_port}"
    result["listeners"] += f",{listener}"
    result["advertised.listeners"] += f",{listener}"
    result["listener.security.protocol.map"] += ",SASL:SASL_PLAINTEXT"
    result["sasl.enabled.mechanisms"] = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule"
    result["listener.name.sasl.plain.sasl.jaas.config"] = f"{plain} required {_jaas_users(users)};"
    for mechanism in ("scram-sha-256", "scram-sha-512"):
        result[f"listener.name.sasl.{mechanism}.sasl.jaas.config"] = (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        )
    # Of KRaft (KIP-801); brokers with ZooKeeper get theirs in `_replace_kraft`.
    result["authorizer.class.name"] = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    result["allow.everyone.if.no.acl.found"] = "false"
    # All clients of the plaintext listener: the other nodes, and tests that grant rights.
    result["super.users"] = "User:ANONYMOUS"


def _replace_kraft(result: dict[str, str], node: DevBroker, zookeeper: ZooKeeper) -> None:
    for name in ("process.roles", "node.id", "controller.quorum.voters", "controller.listener.names"):
        del result[name]
    result["broker.id"] = str(node.id)
    result["listeners"] = result["listeners"].replace(f",CONTROLLER://{HOST}:{node.controller_port}", "")
    result["zookeeper.connect"] = f"{HOST}:{zookeeper.port}"
    # As with KRaft, a killed broker can only register again when its session has expired.
    result["zookeeper.session.timeout.ms"] = "5000"
    if "authorizer.class.name" in result:
        result["authorizer.class.name"] = "kafka.security.authorizer.AclAuthorizer"


def _jaas_users(users: Mapping[str, str]) -> str:
    options = []
    for name, password in users.items():
        if not _JAAS_NAME.fullmatch(name):
            raise DevClusterError(
                f"the SASL user name {name!r} cannot be written in a JAAS option",
                hint="use letters, digits, - and _",
            )
        quoted = password.replace("\\", "\\\\").replace('"', '\\"')
        options.append(f'user_{name}="{quoted}"')
    return " ".join(options)
