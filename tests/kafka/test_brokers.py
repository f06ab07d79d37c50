"""Our own connections to brokers: frames, what goes wrong, and who is asked."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from kafkaform.cluster.kafka.topic_sources import AdminReader, WireReader
from kafkaform.cluster.kafka.topics import topic_source
from kafkaform.cluster.kafka.writer import submit
from kafkaform.cluster.transport.connection import Connection
from kafkaform.cluster.wire.large_answers import METADATA, Metadata
from kafkaform.config.client_properties import to_librdkafka, to_transport
from kafkaform.core.errors import ClusterError
from kafkaform.core.lock import unguarded
from kafkaform.core.model import ResourceRef
from kafkaform.core.operations import CreateTopic
from kafkaform.devcluster.cluster import DevCluster
from tests.kafka.test_topic_sources import everything
from tests.support.certificates import self_signed
from tests.support.kafka_fixtures import eventually, guarded
from tests.support.scenes import VARIED


def test_a_plan_without_a_login_imports_nothing_for_logins(kafka: DevCluster, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "apiVersion: kafkaform/v1\nkind: Topic\nmetadata: {name: a}\n"
        "spec: {partitions: 1, replicationFactor: 1}\n"
    )
    script = (
        "import sys; from kafkaform.cli.main import run\n"
        f"code = run(['plan', '.', '--bootstrap-server', '{kafka.bootstrap_servers}'])\n"
        "names = ('confluent_kafka', 'scramp', 'botocore', 'gssapi', 'cryptography', 'http.client')\n"
        "print(*(name for name in names if name in sys.modules))\n"
        "sys.exit(code)"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "confluent_kafka"


@pytest.fixture
def trusting(tmp_path: Path) -> Iterator[Callable[..., Connection]]:
    """Connects to a broker that takes nothing but TLS with a client's certificate, which is in `tmp_path`."""
    self_signed(tmp_path)
    chain, key = (tmp_path / name for name in ("certificate.pem", "key.pem"))
    (tmp_path / "store.pem").write_text(key.read_text() + chain.read_text())
    made: list[Connection] = []
    properties = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SSL",
        "listener.name.sasl.ssl.client.auth": "required",
        "listener.name.sasl.ssl.keystore.type": "PEM",
        "listener.name.sasl.ssl.keystore.location": str(tmp_path / "store.pem"),
        "listener.name.sasl.ssl.truststore.type": "PEM",
        "listener.name.sasl.ssl.truststore.location": str(chain),
        "allow.everyone.if.no.acl.found": "true",
    }
    with guarded(1, heap_mb=256, sasl_users={"nobody": "nothing"}, properties=properties) as kafka:
        given = {
            "bootstrap.servers": kafka.sasl_bootstrap_servers,
            "security.protocol": "SSL",
            "ssl.ca.location": str(chain),
            "ssl.certificate.location": str(chain),
            "ssl.key.location": str(key),
        }

        def connect(without: Sequence[str] = (), **more: str) -> Connection:
            kept = {name: value for name, value in given.items() if name not in without}
            kept |= {name.replace("_", "."): value for name, value in more.items()}
            made.append(Connection(to_librdkafka(kept), lambda: to_transport(kept)))
            return made[-1]

        yield connect
        for connection in made:
            connection.close()


def test_tls_with_a_certificate_says_what_librdkafka_says(
    trusting: Callable[..., Connection], tmp_path: Path
) -> None:
    connection = trusting()
    names = [f"topic.{n}" for n in range(len(VARIED))]
    creates = [
        CreateTopic(ResourceRef("Topic", name), 2, 1, configs)
        for name, configs in zip(names, VARIED, strict=True)
    ]
    assert submit(connection, creates, unguarded) == [None] * len(creates)
    assert isinstance(source := topic_source(connection), WireReader)
    told = eventually(lambda: everything(AdminReader(connection), names), lambda said: said[4] == ([], []))
    assert everything(source, names) == told
    ((broker_id, metadata),) = connection.ask_each(METADATA, (), 5).items()
    assert isinstance(metadata, Metadata)
    assert metadata.brokers.keys() == {broker_id} == {1}
    # Both clients read the same from a PKCS#12 file.
    pkcs12 = "pkcs12 -export -in certificate.pem -inkey key.pem -out client.p12 -passout pass:secret"
    subprocess.run(["openssl", *pkcs12.split()], cwd=tmp_path, check=True, capture_output=True)
    store = {"ssl_keystore_location": str(tmp_path / "client.p12"), "ssl_keystore_password": "secret"}
    stored = trusting(("ssl.certificate.location", "ssl.key.location"), **store)
    assert stored.cluster.cluster_id == stored.ask(METADATA, [()])[0].cluster_id
    # The certificate is the login, and the broker's own is checked.
    for missing, said in (
        (("ssl.certificate.location", "ssl.key.location"), "certificate required|hung up|alert|EOF"),
        (("ssl.ca.location",), "certificate is not trusted: self-signed"),
    ):
        with pytest.raises(ClusterError, match=said):
            trusting(missing).ask(METADATA, [()])
