"""Logins at real brokers: kafkaform's clients, every mechanism, and what is said where one fails."""

import re
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from kafkaform.cluster.kafka.record_clients import make_client, translate
from kafkaform.cluster.transport.connection import Connection
from kafkaform.cluster.wire.large_responses import METADATA
from kafkaform.config.client_properties import parse, read_secret_file, resolve, to_librdkafka, to_transport
from kafkaform.core.errors import AuthenticationFailed
from kafkaform.devcluster.cluster import DevCluster
from kafkaform.devcluster.ports import find_free_ports
from spark_validation.errors import ReadingFailed
from spark_validation.kafka_client import OffsetReader, executor_properties
from tests.support.cli.project import ROOT, Call, Project
from tests.support.clusters.certificates import Authority
from tests.support.clusters.fixtures import TIMEOUT_S, admin_client, group_clusters, remove_topics
from tests.support.clusters.token_endpoint import CLIENT, SECRET, TokenEndpoint, jwt, token_endpoint

PLAIN = {
    "quotes": "p'w\\d;$x=",
    "accents": "ä½\u00ad ✓",  # RFC 4013 would change it
    "blanks": "a  b ",  # librdkafka cuts those at the start
    "long": "x" * 2_000,
}
SCRAM = {"kafkaform": "simple-pw", "al=i,ce": "p'w\\d;$x=,", "accents": "ä½\u00ad ✓"}
SESSION_S = 3.0
"""How long a login with a token holds."""


def oauth_properties() -> dict[str, str]:
    """A broker's properties for OAUTHBEARER beside the other mechanisms.

    It takes unsigned tokens with the scope `kafka`: what a broker thinks of signatures is not kafkaform's.
    """
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    listener = "listener.name.sasl"
    return {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        f"{listener}.oauthbearer.sasl.jaas.config": (
            f'{module} required unsecuredLoginStringClaim_sub="broker" '
            'unsecuredValidatorRequiredScope="kafka";'
        ),
        f"{listener}.oauthbearer.connections.max.reauth.ms": str(int(SESSION_S * 1000)),
        "super.users": f"User:ANONYMOUS;User:{CLIENT};User:CN=client",
    }


@dataclass(frozen=True)
class Gate:
    """A cluster with all sorts of logins.

    Attributes:
        cluster: The cluster; its listener without a login lets everybody do everything.
        tls: The port of the listener that asks for a client certificate.
        authority: Who vouches for it and its clients; the server's certificate is for `localhost` only.
    """

    cluster: DevCluster
    tls: int
    authority: Authority


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Gate:
    folder = tmp_path_factory.mktemp("certificates")
    authority = Authority(folder)
    for name in ("localhost", "client"):
        authority.issue(name)
    (folder / "store.pem").write_text(
        (folder / "localhost.key").read_text() + (folder / "localhost.pem").read_text()
    )
    (port,) = find_free_ports(1)
    mutual = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "store.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.pem"),
        "ssl.client.auth": "required",
    }
    listeners = "PLAINTEXT://127.0.0.1:{port},SASL://127.0.0.1:{sasl_port}," + f"TLS://localhost:{port}"
    properties = {
        **oauth_properties(),
        "listeners": listeners + ",CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": listeners,
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT,TLS:SSL"
        ),
        **{f"listener.name.tls.{name}": value for name, value in mutual.items()},
    }
    cluster = group_clusters.running("logins", 1, sasl_users=PLAIN, properties=properties)
    add_scram_users(cluster)
    return Gate(cluster, port, authority)


def add_scram_users(cluster: DevCluster) -> None:
    """Store the users of SCRAM, for both mechanisms."""
    upsert: Any = UserScramCredentialUpsertion
    admin = admin_client(cluster.bootstrap_servers)
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        stored = [
            upsert(user, ScramCredentialInfo(mechanism, 4096), password.encode())
            for user, password in SCRAM.items()
        ]
        for future in admin.alter_user_scram_credentials(stored).values():
            future.result(TIMEOUT_S)


@pytest.fixture
def endpoint() -> Iterator[TokenEndpoint]:
    with token_endpoint() as running:
        yield running


def password_login(cluster: DevCluster, mechanism: str, user: str, password: str) -> dict[str, str]:
    return {
        "bootstrap.servers": cluster.sasl_bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }


def token_login(cluster: DevCluster, endpoint: TokenEndpoint, secret: str = SECRET) -> dict[str, str]:
    return {
        "bootstrap.servers": cluster.sasl_bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": endpoint.url,
        "sasl.oauthbearer.client.id": CLIENT,
        "sasl.oauthbearer.client.secret": secret,
    }


def certificate_login(gate: Gate, host: str = "localhost", **more: str) -> dict[str, str]:
    folder = gate.authority.folder
    return {
        "bootstrap.servers": f"{host}:{gate.tls}",
        "security.protocol": "SSL",
        "ssl.ca.location": str(folder / "ca.pem"),
        "ssl.certificate.location": str(folder / "client.pem"),
        "ssl.key.location": str(folder / "client.key"),
        **more,
    }


def connect_by_librdkafka(properties: Mapping[str, str]) -> None:
    connection = Connection(to_librdkafka(properties), lambda: to_transport(properties))
    errors: list[KafkaError] = []
    client = make_client(connection, Producer, {"error_cb": errors.append})
    for attempts_left in reversed(range(8)):
        try:
            assert client.list_topics(timeout=1).brokers
        except KafkaException as error:
            client.poll(0.1)  # which serves the callback
            causes = [e for e in errors if e.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL)]
            if causes or not attempts_left:
                raise translate(KafkaException(causes[0]) if causes else error) from error
        else:
            return


def connect_by_transport(properties: Mapping[str, str]) -> None:
    connection = Connection(to_librdkafka(properties), lambda: to_transport(properties))
    try:
        assert connection.send(METADATA, [()])[0].brokers
    finally:
        connection.close()


def connect_by_spark(properties: Mapping[str, str]) -> None:
    """As a Spark executor on another machine does, which has no certificate file."""
    assert OffsetReader(executor_properties(properties, local=False)).cluster_id()


CLIENTS = pytest.mark.parametrize("client", [connect_by_librdkafka, connect_by_transport, connect_by_spark])
Client = Callable[[Mapping[str, str]], None]
REFUSED = (AuthenticationFailed, ReadingFailed)


@CLIENTS
@pytest.mark.parametrize(
    ("mechanism", "users"), [("PLAIN", PLAIN), ("SCRAM-SHA-256", SCRAM), ("SCRAM-SHA-512", SCRAM)]
)
def test_password_with_special_characters_is_accepted(
    gate: Gate, client: Client, mechanism: str, users: Mapping[str, str]
) -> None:
    for user, password in users.items():
        client(password_login(gate.cluster, mechanism, user, password))


@CLIENTS
@pytest.mark.parametrize(("mechanism", "user"), [("PLAIN", "quotes"), ("SCRAM-SHA-512", "kafkaform")])
def test_wrong_password_is_refused_and_hidden(gate: Gate, client: Client, mechanism: str, user: str) -> None:
    with pytest.raises(REFUSED) as caught:
        client(password_login(gate.cluster, mechanism, user, "wrong-hunter2"))
    assert "wrong-hunter2" not in str(caught.value)
    if client is connect_by_transport:
        assert f"the {mechanism} login of {user} was refused: Authentication failed" in str(caught.value)


@CLIENTS
def test_client_certificate_is_accepted(gate: Gate, client: Client) -> None:
    client(certificate_login(gate))


@pytest.mark.parametrize("client", [connect_by_librdkafka, connect_by_transport])
def test_pkcs12_keystore_is_accepted(gate: Gate, client: Client, tmp_path: Path) -> None:
    given = certificate_login(gate)
    certificate, key = given.pop("ssl.certificate.location"), given.pop("ssl.key.location")
    store = str(tmp_path / "client.p12")
    made = f"pkcs12 -export -in {certificate} -inkey {key} -out {store} -passout pass:secret"
    subprocess.run(["openssl", *made.split()], check=True, capture_output=True)
    client({**given, "ssl.keystore.location": store, "ssl.keystore.password": "secret"})


@CLIENTS
def test_certificate_of_another_host_is_not_trusted(gate: Gate, client: Client) -> None:
    with pytest.raises(REFUSED):
        client(certificate_login(gate, "127.0.0.1"))
    client(certificate_login(gate, "127.0.0.1", **{"ssl.endpoint.identification.algorithm": "none"}))


@CLIENTS
def test_certificate_of_unknown_authority_is_refused(gate: Gate, client: Client, tmp_path: Path) -> None:
    Authority(tmp_path)
    with pytest.raises(REFUSED):
        client(certificate_login(gate, **{"ssl.ca.location": str(tmp_path / "ca.pem")}))


CLIENT_PAIR = {"ssl.certificate.location": "OTHER/client.pem", "ssl.key.location": "OTHER/client.key"}
LOCKED_PAIR = {"ssl.certificate.location": "OTHER/locked.pem", "ssl.key.location": "OTHER/locked.key"}
BAD_CERTIFICATES: dict[str, tuple[Mapping[str, str | None], str]] = {
    "no client certificate": (dict.fromkeys(CLIENT_PAIR), "PORT: the broker requires a client certificate"),
    "a client certificate of another authority": (CLIENT_PAIR, "ssl.certificate.location (OTHER/client.pem)"),
    "another authority": ({"ssl.ca.location": "OTHER/ca.pem"}, "certificate is not trusted: "),
    "no such authority": ({"ssl.ca.location": "OTHER/nope.pem"}, "ssl.ca.location (OTHER/nope.pem) "),
    "a wrong password": (
        {**LOCKED_PAIR, "ssl.key.password": "hunter2-4711"},
        "ssl.key.password does not decrypt ssl.key.location (OTHER/locked.key)",
    ),
}
"""Client properties, and the property or the cause that the error names."""


@pytest.mark.parametrize("name", BAD_CERTIFICATES)
def test_unsuitable_certificate_is_reported(gate: Gate, names: str, tmp_path: Path, name: str) -> None:
    """It does not wait for a network that is not the reason."""
    authority = Authority(tmp_path)
    authority.issue("client")
    authority.issue("locked", "secret")

    def fill_placeholders(text: str) -> str:
        return text.replace("OTHER", str(tmp_path)).replace("PORT", str(gate.tls))

    changed, message = BAD_CERTIFICATES[name]
    given = {**certificate_login(gate), **changed}
    login = {key: fill_placeholders(value) for key, value in given.items() if value is not None}
    project = logged_in(tmp_path / "project", gate.cluster.bootstrap_servers, names, login)
    project.topic("a")
    call = project.run("plan", "topics")
    assert_one_error(call, fill_placeholders(message))
    assert "within 8 s" not in call.both
    assert "hunter2-4711" not in call.both


@CLIENTS
def test_refused_token_error_gives_reason(gate: Gate, client: Client, endpoint: TokenEndpoint) -> None:
    endpoint.issue(lambda: jwt(scope="of another broker"))
    with pytest.raises(REFUSED) as caught:
        client(token_login(gate.cluster, endpoint))
    assert "insufficient_scope" in str(caught.value)


def test_both_clients_renew_expired_tokens(gate: Gate, endpoint: TokenEndpoint) -> None:
    """A broker closes a connection whose session is over, after SESSION_S or with its token.

    Shorter ones prove nothing: librdkafka looks for expired tokens once a second, and brokers refuse who
    authenticates anew within a second.
    """
    endpoint.issue(lambda: jwt(6.0))
    given = token_login(gate.cluster, endpoint)
    connection = Connection(to_librdkafka(given), lambda: to_transport(given))
    try:
        opened = connection.send(METADATA, [()]), connection._brokers._open[None]
        client = make_client(connection, Producer, {})
        assert client.list_topics(timeout=5).brokers
        assert len(endpoint.asked) == 1
        # Once, a session is over before it is renewed.
        for pause_s in (0.7, 0.7, 0.7, SESSION_S + 0.7, *[0.7] * 5):
            time.sleep(pause_s)
            assert connection.send(METADATA, [()])[0].brokers
            assert client.list_topics(timeout=5).brokers
        assert connection._brokers._open[None] is opened[1], "the same connection, authenticated anew"
        assert 2 <= len(endpoint.asked) <= 3
    finally:
        connection.close()


def read_example(number: int, **secrets: str) -> Mapping[str, str]:
    """The client properties of an example, by its place on the page."""
    blocks = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "clients.md").read_text("utf-8"), re.DOTALL)
    assert len(blocks) == 3
    raw = yaml.safe_load(blocks[number])["clusters"]["prod"]["client"]
    properties, problems = parse(raw, lambda _: None)
    assert problems == []
    return resolve(properties, secrets, read_secret_file)


def here(cluster: DevCluster, given: Mapping[str, str], **more: str) -> dict[str, str]:
    """The same for a broker of this machine, without TLS."""
    address = {"bootstrap.servers": cluster.sasl_bootstrap_servers, "security.protocol": "SASL_PLAINTEXT"}
    return {name: value for name, value in given.items() if not name.startswith("ssl.")} | address | more


@CLIENTS
def test_documented_logins_succeed(
    gate: Gate, client: Client, endpoint: TokenEndpoint, tmp_path: Path
) -> None:
    client(here(gate.cluster, read_example(0, KAFKA_PASSWORD=SCRAM["kafkaform"])))
    url, name = "sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.client.id"
    oidc = here(gate.cluster, read_example(1, OAUTH_SECRET=SECRET), **{url: endpoint.url, name: CLIENT})
    client(oidc)
    assert endpoint.asked == [{"grant_type": "client_credentials", "scope": "kafka"}]
    assert read_example(2)[url] == "file:///run/secrets/kafka-token"
    (tmp_path / "kafka-token").write_text(jwt())
    client(here(gate.cluster, read_example(2), **{url: f"file://{tmp_path}/kafka-token"}))


def logged_in(folder: Path, servers: str, prefix: str, login: dict[str, str]) -> Project:
    """A project whose cluster asks for a login; tests look at the cluster by a listener that does not."""
    project = Project(folder, servers, prefix)
    project.config(clusters={"dev": {"client": login}})
    return project


@pytest.fixture
def names(gate: Gate) -> Iterator[str]:
    """Return the prefix of a test's names, which are removed afterwards."""
    prefix = f"t{uuid.uuid4().hex[:10]}."
    yield prefix
    remove_topics(gate.cluster.bootstrap_servers, prefix)


def test_apply_logs_in_during_run(gate: Gate, endpoint: TokenEndpoint, names: str, tmp_path: Path) -> None:
    """With the lock and the record, so that all clients are at work for longer than a session holds.

    A token outlives the pauses of a loaded machine: one that expires between its check here and the broker's
    is refused with reason.
    """
    endpoint.issue(lambda: jwt(30.0))
    project = logged_in(tmp_path, gate.cluster.bootstrap_servers, names, token_login(gate.cluster, endpoint))
    for number in range(3):
        project.topic(f"orders{number}", partitions=2)
    kept = {"KAFKAFORM_LOCK": "true", "KAFKAFORM_AUDIT": "true"}
    project.run("apply", "topics", "--auto-approve", env=kept).needs(0)
    assert len(project.live()) == 3
    assert "create" in project.run("history", env=kept).needs(0).out


def assert_one_error(call: Call, said: str) -> None:
    """Assert that a call has failed and says so in one line, below the lines that name the cluster."""
    call.needs(1)
    error, *hint = call.said.splitlines()
    assert error.startswith("Error: ")
    assert said in error
    assert [line.partition(":")[0] for line in hint] == ["hint"]


def test_other_login_is_refused_first(
    gate: Gate, endpoint: TokenEndpoint, names: str, tmp_path: Path
) -> None:
    """Azure's metadata service, which librdkafka alone would ask."""
    method = "sasl.oauthbearer.metadata.authentication.type"
    given = {
        name: value
        for name, value in token_login(gate.cluster, endpoint).items()
        if "oauthbearer.client" not in name
    }
    project = logged_in(tmp_path, gate.cluster.bootstrap_servers, names, {**given, method: "azure_imds"})
    project.topic("new")
    assert_one_error(project.apply("topics"), method)
    assert project.live() == {}
    assert endpoint.asked == []
