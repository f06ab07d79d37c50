"""Real Kafka clusters for tests: one of each sort a worker, started by the first test that asks for it.

Tests share them, so each names its topics by the `prefix` fixture, which removes them afterwards. Those that
few files need are ended with the last test of their group; see tests/conftest.py.
"""

import logging
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from kafkaform.cluster.kafka.cluster import KafkaCluster
from kafkaform.cluster.transport.connection import Connection
from kafkaform.cluster.wire.large_responses import METADATA, Metadata
from kafkaform.config.client_properties import to_librdkafka, to_transport
from kafkaform.core.acls import Acl, ResourceType
from kafkaform.core.files import get_cache_directory, hold_lock
from kafkaform.core.model import ResourceRef
from kafkaform.devcluster.cluster import ClusterSpec, DevCluster
from kafkaform.devcluster.jars.cache import fetch_kafka_classpath
from kafkaform.devcluster.jars.java import find_java
from kafkaform.devcluster.processes import find_class_archive
from kafkaform.devcluster.releases import KAFKA_VERSION
from kafkaform.resources.access.operations import GrantAccess
from tests.support.clusters.vendor_proxy import HOST, VendorProxy, blocks_of_ports

SHARED = ("kafka", "kafka3", "kafka_acl")
"""The fixtures that are a real cluster."""

TIMEOUT_S = 90.0

T = TypeVar("T")

_ROOT = Path(__file__).parents[3]
_LETTERS = str.maketrans("0123456789", "ghijklmnop")
_PASSWORD = "an-open-secret-4711"  # no word of it stands in what is printed by itself
_ACCOUNTS = [f"account-{number}" for number in range(1, 131)]


@contextmanager
def start_guarded(brokers: int, **options: Any) -> Iterator[DevCluster]:
    """A cluster of its own, which is gone afterwards even if this process is killed."""
    _archive_classes()
    directory = _fast() / f"kafkaform-test-{uuid.uuid4().hex[:12]}"
    guard = subprocess.Popen(
        [sys.executable, "-m", "tests.support.clusters.guard", directory],
        cwd=_ROOT,
        stdin=subprocess.PIPE,
        start_new_session=True,  # a Ctrl-C is not meant for it
    )
    try:
        yield DevCluster.start(directory, ClusterSpec(brokers, **options))
    finally:
        guard.communicate()
    assert guard.returncode == 0, f"the cluster in {directory} was not removed"


@cache
def _archive_classes() -> None:
    """Have one worker archive Kafka's classes, where none did yet: brokers then start in half of the time."""
    java, classpath = find_java(), fetch_kafka_classpath()
    with hold_lock(get_cache_directory() / "tests.lock"):
        if find_class_archive(java, classpath) is None:
            with tempfile.TemporaryDirectory() as folder:
                DevCluster.start(Path(folder), ClusterSpec()).stop()


def _fast() -> Path:
    """Return a directory in memory, if it has room: a broker syncs several files for each partition."""
    memory = Path("/dev/shm")
    roomy = memory.is_dir() and shutil.disk_usage(memory).free > 2 * 1024**3
    return memory if roomy else Path(tempfile.gettempdir())


@pytest.fixture(scope="session")
def kafka() -> Iterator[DevCluster]:
    """One broker, which creates topics that somebody names by mistake.

    Members by the consumer protocol learn of a rebalance by heartbeats, which are 5 s apart by default. A
    transaction stays open when its time is over, as one does that hangs.
    """
    properties = {
        "auto.create.topics.enable": "true",
        "group.consumer.heartbeat.interval.ms": "500",
        "group.consumer.min.heartbeat.interval.ms": "500",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "3600000",
    }
    with start_guarded(1, heap_mb=768, properties=properties) as cluster:
        yield cluster


class GroupClusters:
    """The clusters of the group of tests at work: idle brokers cost too much to be kept to the end."""

    def __init__(self) -> None:
        self._running: dict[str, DevCluster] = {}
        self._stack = ExitStack()

    def running(self, name: str, brokers: int, **options: Any) -> DevCluster:
        """The cluster of this name, started if it is not running yet."""
        if name not in self._running:
            self._running[name] = self._stack.enter_context(start_guarded(brokers, heap_mb=256, **options))
        return self._running[name]

    def end(self) -> None:
        """End all of them; they start anew if somebody asks again."""
        self._running.clear()
        self._stack.close()


group_clusters = GroupClusters()


@contextmanager
def start_behind_proxy(brokers: int, **options: Any) -> Iterator[VendorProxy]:
    """Brokers whose clients all go through a proxy, which offers everything until it is told a profile."""
    clients, internal, own = blocks_of_ports(3, brokers=brokers)
    first = own * 10 + 1
    between = f"INTERNAL://{HOST}:{internal}{{node_id}}"  # brokers find each other without the proxy
    properties = {
        "listeners": f"PLAINTEXT://{HOST}:{{port}},{between},CONTROLLER://{HOST}:{{controller_port}}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{clients}{{node_id}},{between}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "INTERNAL",
        **options.pop("properties", {}),
    }
    ports = {clients * 10 + broker: first + broker - 1 for broker in range(1, brokers + 1)}
    direct = ",".join(f"{HOST}:{internal}{broker}" for broker in range(1, brokers + 1))
    with (
        VendorProxy(ports, direct) as proxy,
        start_guarded(brokers, port=first, properties=properties, **options),
    ):
        yield proxy


@pytest.fixture(scope="module")
def kafka3() -> DevCluster:
    """Three brokers in three racks."""
    return await_brokers(group_clusters.running("kafka3", 3))


def await_brokers(cluster: DevCluster, down: int | None = None) -> DevCluster:
    """Wait until each broker knows of all, or of all but one that is down: they learn of it one by one."""
    ids = {node.id for node in cluster.nodes} - {down}
    with open_connection(cluster.bootstrap_servers) as connection:
        eventually(
            lambda: {
                broker: answer
                for broker, answer in connection.send_to_each(METADATA, (), 5).items()
                if broker != down
            },
            lambda told: (
                told.keys() == ids
                and all(isinstance(seen, Metadata) and seen.brokers.keys() == ids for seen in told.values())
            ),
        )
    return cluster


def bring_back(cluster: DevCluster, node_id: int) -> None:
    """Start a stopped broker again, and wait until all others know that it is there."""
    cluster.start_node(node_id)
    await_brokers(cluster)


@pytest.fixture(scope="module")
def kafka_acl() -> DevCluster:
    """One broker whose SASL listener grants only what ACLs grant; see the `account` fixture."""
    return acl_cluster()


def acl_cluster(version: str = KAFKA_VERSION) -> DevCluster:
    """The same, of any version of Kafka."""
    return group_clusters.running(
        f"kafka_acl {version}", 1, sasl_users=dict.fromkeys(_ACCOUNTS, _PASSWORD), kafka_version=version
    )


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> Iterator[str]:
    """Return the prefix of this test's topics and groups, which are removed afterwards."""
    # Without digits: where a test replaces `7d` in a manifest, a name must not contain it.
    mine = f"t{uuid.uuid4().hex[:10].translate(_LETTERS)}."
    yield mine
    for name in SHARED:
        if name in request.fixturenames:
            servers = request.getfixturevalue(name).bootstrap_servers
            _remove_groups(servers, mine)
            remove_topics(servers, mine)


@pytest.fixture
def real_cluster(kafka: DevCluster) -> Iterator[KafkaCluster]:
    """The cluster of the `kafka` fixture, as kafkaform sees it."""
    with connect(kafka.bootstrap_servers) as cluster:
        yield cluster


@dataclass(frozen=True)
class Account:
    """An account on the `kafka_acl` cluster.

    Attributes:
        servers: The address of the broker's SASL listener.
        cluster: The cluster as this account sees it.
    """

    servers: str
    properties: Mapping[str, str]
    cluster: KafkaCluster

    @property
    def client(self) -> dict[str, str]:
        return {"bootstrap.servers": self.servers, **self.properties}

    @property
    def principal(self) -> str:
        return f"User:{self.properties['sasl.username']}"

    def write_java_properties(self, folder: Path, password: str | None = None) -> Path:
        """Write client.properties, as Kafka's own tools take them, in a folder."""
        user, known = self.properties["sasl.username"], self.properties["sasl.password"]
        file = folder / "client.properties"
        file.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
            "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
            f'username="{user}" password="{known if password is None else password}";\n'
        )
        return file


MakeAccount: TypeAlias = Callable[..., Account]
"""What the fixture `account` is: it takes the rights that the account gets."""


@pytest.fixture(scope="session")
def free_accounts() -> Iterator[str]:
    """Accounts without any right, each handed out once."""
    return iter(_ACCOUNTS)


@pytest.fixture
def account(kafka_acl: DevCluster, free_accounts: Iterator[str]) -> Iterator[MakeAccount]:
    """Makes accounts with rights: `account("TOPIC:orders.*:DESCRIBE", "CLUSTER:kafka-cluster:ALTER")`.

    A trailing asterisk in a name stands for all that start with the rest.
    """
    servers = kafka_acl.sasl_bootstrap_servers

    def make(*grants: str) -> Account:
        user = next(free_accounts)
        grant_access(by_root, f"User:{user}", *grants)
        properties = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": _PASSWORD,
        }
        return Account(servers, properties, clusters.enter_context(connect(servers, **properties)))

    with connect(kafka_acl.bootstrap_servers) as by_root, ExitStack() as clusters:
        yield make


def connect(bootstrap_servers: str, **properties: str) -> KafkaCluster:
    """A cluster by its address and further client properties."""
    given = {"bootstrap.servers": bootstrap_servers, **properties}
    return KafkaCluster(to_librdkafka(given), lambda: to_transport(given))


def open_connection(bootstrap_servers: str) -> AbstractContextManager[Connection]:
    """Connections of kafkaform's own, for requests that no client sends."""
    given = {"bootstrap.servers": bootstrap_servers}
    return closing(Connection(to_librdkafka(given), lambda: to_transport(given)))


def admin_client(bootstrap_servers: str, **login: str) -> AdminClient:
    """A client for what kafkaform does not do."""
    properties: dict[str, Any] = {
        **login,
        "bootstrap.servers": bootstrap_servers,
        "logger": logging.getLogger("tests.librdkafka"),
    }
    return AdminClient(properties)


def remove_topics(bootstrap_servers: str, prefix: str) -> None:
    admin = admin_client(bootstrap_servers)
    names = [name for name in admin.list_topics(timeout=TIMEOUT_S).topics if name.startswith(prefix)]
    if names:
        for future in admin.delete_topics(names, request_timeout=TIMEOUT_S).values():
            try:
                future.result(TIMEOUT_S)
            except KafkaException as error:
                # The test has deleted it, and the broker that lists topics has not heard of that.
                if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise


def _remove_groups(bootstrap_servers: str, prefix: str) -> None:
    """Delete all groups with offsets whose name starts so; those with members are left to expire."""
    admin = admin_client(bootstrap_servers)
    listing = admin.list_consumer_groups(request_timeout=TIMEOUT_S).result(TIMEOUT_S)
    names = [group.group_id for group in listing.valid if group.group_id.startswith(prefix)]
    if names:
        for future in admin.delete_consumer_groups(names, request_timeout=TIMEOUT_S).values():
            with suppress(KafkaException):
                future.result(TIMEOUT_S)


def eventually(read: Callable[[], T], wanted: Callable[[T], bool], timeout_s: float = TIMEOUT_S) -> T:
    """Return the result of `read` once it is as wanted: reads lag behind writes."""
    deadline = time.monotonic() + timeout_s
    pause = 0.005
    while not wanted(value := read()):
        assert time.monotonic() < deadline, f"it stays {str(value)[:2_000]}"
        time.sleep(pause)
        pause = min(pause * 2, 0.2)
    return value


def _parse_grant(principal: str, kind: str, name: str, operation: str) -> Acl:
    is_prefix = name.endswith("*") and name != "*"
    name = name.removesuffix("*") if is_prefix else name
    return Acl(ResourceType[kind], name, is_prefix, principal, "*", operation.title().replace("_", ""), True)


def grant_access(cluster: KafkaCluster, principal: str, *grants: str) -> None:
    """Give a principal rights such as `TOPIC:orders.*:READ`, and wait until the broker shows them."""
    acls = tuple(_parse_grant(principal, *grant.split(":")) for grant in grants)
    if acls:
        granted = GrantAccess(ResourceRef("Access", principal), acls)
        # Who may do everything is refused while a controller that was just elected reads its ACLs.
        eventually(lambda: cluster.execute([granted]), lambda errors: errors == [None])
        eventually(lambda: cluster.access().acls, {*acls}.issubset)
