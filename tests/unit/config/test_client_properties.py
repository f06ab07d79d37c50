import logging
import re
import socket
import ssl
import subprocess
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path

import javaproperties
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

import kafkaform.config.client_properties as cp
from kafkaform.config.client_properties import table, transport
from kafkaform.config.client_properties.jaas import parse_jaas
from kafkaform.config.client_properties.java_file import read_java_properties
from kafkaform.config.client_properties.properties import escape, parse_template
from kafkaform.core.errors import InvalidInput, KafkaformError, Problem
from kafkaform.core.kafka_configs import consumer_configs
from kafkaform.core.model import Location
from tests.support.clusters.certificates import Authority
from tests.support.golden import list_texts

SASL = {
    "bootstrap.servers": "a:9092, b:9092",
    "security.protocol": "sasl_ssl",
    "sasl.mechanism": "scram-sha-512",
    "sasl.username": "svc",
    "sasl.password": "${env:PW}",
}
OAUTH = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.client.id": "svc",
    "sasl.oauthbearer.client.secret": "${env:PW}",
    "sasl.oauthbearer.token.endpoint.url": "https://idp.example/token",
}
MSK_IAM = {"security.protocol": "SASL_SSL", "sasl.mechanism": "AWS_MSK_IAM"}
TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"


def no_file(path: str) -> str:
    raise FileNotFoundError(2, "No such file or directory", path)


def parse_properties(raw: Mapping[str, object]) -> cp.ClientProperties:
    properties, problems = cp.parse(raw, lambda _: None)
    assert problems == []
    return properties


def list_problems(raw: Mapping[str, object]) -> list[Problem]:
    return cp.parse(raw, lambda name: Location("kafkaform.yaml", list(raw).index(name) + 1))[1]


def resolve_properties(raw: Mapping[str, object], **environ: str) -> cp.Resolved:
    return cp.resolve(parse_properties(raw), {"PW": "hunter2", **environ}, cp.read_secret_file)


def tls_of(values: Mapping[str, str]) -> ssl.SSLContext:
    context = cp.to_transport(values).tls
    assert context is not None
    return context


def sasl_of(values: Mapping[str, str]) -> transport.SaslSettings:
    settings = cp.to_transport(values).sasl
    assert settings is not None
    return settings


def test_invalid_property_errors_have_no_secrets() -> None:
    (problem,) = list_problems({"client.id": "x", "bootstrap.server": "a:9092"})
    assert problem.location == Location("kafkaform.yaml", 2)
    assert "bootstrap.server" in problem.message
    assert problem.hint == "did you mean bootstrap.servers?"
    refused = {name for names in table.NOT_ALLOWED.values() for name in names}
    assert not (table.PROPERTIES.keys() | table.ALIASES.keys()) & refused
    problems = list_problems({**SASL, "sasl.password": "hun${ter2}"})
    assert len(problems) == 1
    assert "ter2" not in str(problems)
    (problem,) = list_problems({**SASL, "sasl.mechanisms": "PLAIN"})
    assert "two names of one property" in problem.message
    assert parse_properties({"metadata.broker.list": "a:9092"}).describe() == {"bootstrap.servers": "a:9092"}


@pytest.mark.parametrize("name", ["sasl.kerberos.principal", "sasl.kerberos.keytab"])
@pytest.mark.parametrize("value", ["x; touch /tmp/y", "$(id)", "`id`", 'a" b', "a\nb", "a|b", "a&b"])
def test_kerberos_values_with_shell_characters_are_refused(name: str, value: str) -> None:
    base = {"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}
    assert len(list_problems({**base, name: escape(value)})) == 1
    with pytest.raises(InvalidInput) as caught:
        resolve_properties({**base, name: "${env:EVIL}"}, EVIL=value)
    assert value not in str(caught.value.problems)


ALLOW_HTTP = "sasl.oauthbearer.token.endpoint.allow.http"


@pytest.mark.parametrize("host", ["idp.example", "10.0.0.1:80", "127.0.0.1@idp.example", "[fe80::1]"])
def test_plain_http_endpoint_needs_permission(host: str) -> None:
    url = f"http://{host}/t"
    (problem,) = list_problems({**OAUTH, TOKEN_URL: url})
    assert problem.location == Location("kafkaform.yaml", 6)
    assert f"{TOKEN_URL} is plain http" in problem.message
    assert f"set {ALLOW_HTTP}: true" in str(problem.hint)
    with pytest.raises(InvalidInput, match="1 problem"):
        resolve_properties({**OAUTH, TOKEN_URL: "${env:URL}"}, URL=url)
    assert len(list_problems({**OAUTH, TOKEN_URL: url, ALLOW_HTTP: False})) == 1
    allowed = resolve_properties({**OAUTH, TOKEN_URL: url, ALLOW_HTTP: True})
    assert cp.to_librdkafka(allowed) == {**resolve_properties(OAUTH), TOKEN_URL: url}
    assert isinstance(sasl_of(allowed).tokens, transport.OidcSettings)


@pytest.mark.parametrize(
    "url", ["http://localhost:80/t", "http://127.0.0.9/t", "http://[::1]:8080/t", "https://idp.example/t"]
)
def test_local_endpoint_may_use_plain_http(url: str) -> None:
    assert list_problems({**OAUTH, TOKEN_URL: url}) == []


def test_token_from_a_file_needs_no_client_credentials(tmp_path: Path) -> None:
    raw = {name: value for name, value in OAUTH.items() if ".client." not in name}
    url = f"file://{tmp_path}/a%20token"
    for written, environ in ((url, {}), ("${env:URL}", {"URL": url})):
        values = resolve_properties({**raw, TOKEN_URL: written}, **environ)
        assert sasl_of(values).tokens == transport.TokenFileSettings(tmp_path / "a%20token")
        assert cp.to_librdkafka(values) == {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
    with pytest.raises(InvalidInput) as caught:
        resolve_properties({**raw, TOKEN_URL: "${env:URL}"}, URL="https://idp.example/token")
    assert len(caught.value.problems) == 2


INCOHERENT: dict[str, dict[str, object]] = {
    "sasl.username": {"sasl.username": "a"},
    "ssl.ca.location": {"ssl.ca.location": "ca.pem"},
    "sasl.mechanism": {"security.protocol": "SASL_SSL"},
    "sasl.password": {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "a"},
    "ssl.ca.pem": {"security.protocol": "SSL", "ssl.ca.location": "a", "ssl.ca.pem": "b"},
    "ssl.key.location": {"security.protocol": "SSL", "ssl.certificate.location": "a"},
    "ssl.certificate.location": {"security.protocol": "SSL", "ssl.key.location": "a"},
    "ssl.keystore.password": {"security.protocol": "SSL", "ssl.keystore.location": "a"},
    "sasl.oauthbearer.client.secret": {k: v for k, v in OAUTH.items() if not k.endswith("secret")},
}
"""Properties that cannot be meant together, by the one that is missing or has no effect: messages.txt."""


@given(st.text())
def test_escaped_text_is_read_back(text: str) -> None:
    assert parse_template(escape(text)).literal == text


def test_references_are_resolved_and_hidden_in_representations() -> None:
    raw = {"client.id": "$$a-${env:ONE}-${file:/two}-$b", "bootstrap.servers": "${env:ONE}:1"}
    values = cp.resolve(parse_properties(raw), {"ONE": "1"}, {"/two": "2\n"}.__getitem__)
    assert dict(values) == {"client.id": "$a-1-2-$b", "bootstrap.servers": "1:1"}
    raw = {**SASL, "ssl.key.password": "written-out", "client.id": "${env:ID}", "ssl.ca.pem": "CA"}
    properties = parse_properties(raw)
    values = cp.resolve(properties, {"PW": "hunter2", "ID": "from-env"}, no_file)
    shown = f"{properties} {properties!r} {properties.templates!r} {values} {values!r}"
    for secret in ("hunter2", "written-out", "from-env", "PW"):
        assert secret not in shown
    assert properties.describe()["sasl.password"] == cp.HIDDEN
    assert properties.describe()["client.id"] == cp.HIDDEN
    assert properties.describe()["sasl.username"] == "svc"


def test_missing_references_are_listed_without_values(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"hunter2\xff")
    (tmp_path / "huge").write_bytes(b"hunter2" * 200_000)
    raw = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "${env:NO_SUCH}",
        "sasl.password": f"hunter2${{file:{tmp_path}/none}}",
        "client.id": f"${{file:{tmp_path}/binary}}",
        "ssl.ca.pem": f"${{file:{tmp_path}/huge}}",
    }
    with pytest.raises(InvalidInput) as caught:
        resolve_properties(raw)
    problems = [str(problem) for problem in caught.value.problems]
    assert len(problems) == 4
    assert "NO_SUCH is not set" in problems[0]
    assert "No such file" in problems[1]
    assert "hunter2" not in "".join(problems)
    assert caught.value.__cause__ is None


def test_sensitive_values_are_redacted_and_properties_merged() -> None:
    assert {"sasl.password", "ssl.key.pem", "ssl.key.password", "ssl.keystore.password"} <= cp.SENSITIVE
    assert "sasl.oauthbearer.client.secret" in cp.SENSITIVE
    assert "bootstrap.servers" not in cp.SENSITIVE
    for good in ("broker:9092", "a:1,b.example.com:65535, [::1]:9092", "SSL://kafka-1:9093", "broker"):
        assert parse_properties({"bootstrap.servers": good}).describe()["bootstrap.servers"] == good
    for bad in ("host:port", ",", "a b:9092", "http://x/y", "broker:"):
        _, problems = cp.parse({"bootstrap.servers": bad}, lambda _: None)
        assert "HOST:PORT" in problems[0].message
    values = resolve_properties({**SASL, "sasl.username": "${env:USER}"}, PW="pw", USER="me")
    assert cp.redact("me: some mechanism, me-1", values) == f"{cp.HIDDEN}: some mechanism, me-1"
    both = parse_properties(SASL).merge(parse_properties({"bootstrap.servers": "c:1"}))
    assert both.describe()["bootstrap.servers"] == "c:1"
    assert both.describe()["sasl.username"] == "svc"


def test_redaction_hides_every_form_of_secret() -> None:
    raw = {**SASL, "bootstrap.servers": "${env:SERVERS}", "ssl.key.password": "x-${env:PART}"}
    pem = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\n-----END PRIVATE KEY-----"
    raw |= {"ssl.key.pem": "${env:KEY}", "ssl.certificate.location": "c.pem"}
    values = resolve_properties(raw, PW='p"w\\', SERVERS="broker:9092", PART="inner", KEY=pem)
    text = (
        r'login p"w\ failed; repr p"w\\; x-inner and inner; '
        "MIIEvQIBADANBgkqhkiG9w0B at broker:9092, SASL_SSL"
    )
    shown = cp.redact(text, values)
    assert shown.count(cp.HIDDEN) == 5
    for secret in ('p"w', r"p\"w", "inner", "MIIE"):
        assert secret not in shown
    assert "at broker:9092, SASL_SSL" in shown
    assert "login" in shown


def build_value(property_: table.Property) -> str:
    match property_.type:
        case table.Number(low=low, high=high):
            return str(min(max(low, 4000), high))
        case table.Choice(values=values):
            return next(value for value in values if value != property_.unless)
        case _:
            return {"token.endpoint.url": "https://idp.example/t"}.get(property_.name[17:], "x")


def librdkafka_takes(configuration: Mapping[str, str]) -> None:
    quiet = logging.Logger("quiet")
    AdminClient({**configuration, "log_level": 0}, logger=quiet)


NEEDS_MORE = ("sasl.", "ssl.", "https.", "security.protocol")


@pytest.mark.parametrize("name", [n for n in table.PROPERTIES if n not in table.OWN])
def test_librdkafka_knows_every_name_and_takes_connection_properties(name: str) -> None:
    servers, message = {"bootstrap.servers": "127.0.0.1:1"}, ""
    if not name.startswith(NEEDS_MORE):
        librdkafka_takes({**servers, name: build_value(table.PROPERTIES[name])})
    try:  # a name it does not know is reported before any value is looked at
        librdkafka_takes({**servers, name: "\x01"})
    except KafkaException as error:
        message = str(error)
    assert "No such configuration property" not in message


@pytest.mark.parametrize("property_", table.PROPERTIES.values(), ids=table.PROPERTIES)
def test_refused_and_ignored_properties_are_handled_as_listed(property_: table.Property) -> None:
    value = {property_.name: build_value(property_)}
    if property_.use is table.Use.REFUSED:
        with pytest.raises(KafkaformError, match=property_.name) as caught:
            cp.to_transport(value)
        assert caught.value.hint
        assert not property_.unless or cp.to_transport({property_.name: property_.unless})
    if property_.use is table.Use.IGNORED:
        assert cp.to_transport(value) == cp.to_transport({})


def test_transport_gets_addresses_socket_options_and_login() -> None:
    raw = {**SASL, "client.id": "me", "socket.keepalive.enable": True, "broker.address.family": "v6"}
    assert cp.to_transport({"bootstrap.servers": "a:1"}) == transport.TransportSettings((("a", 1),))
    settings = cp.to_transport(
        resolve_properties({**raw, "socket.send.buffer.bytes": 4096, "socket.receive.buffer.bytes": 0})
    )
    assert (settings.bootstrap, settings.client_id) == ((("a", 9092), ("b", 9092)), "me")
    assert settings.tls is not None
    assert settings.sasl == transport.SaslSettings("SCRAM-SHA-512", "svc", "hunter2")
    assert settings.address_family == socket.AF_INET6
    with socket.socket() as opened:
        for option in settings.socket_options:
            opened.setsockopt(*option)
        assert opened.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert opened.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) in (4096, 2 * 4096)
    assert len(settings.socket_options) == 2
    assert "hunter2" not in repr(settings) + repr(settings.sasl)


@pytest.mark.parametrize(
    ("server", "read"),
    [
        ("kafka-1:9093", ("kafka-1", 9093)),
        (" kafka-1 ", ("kafka-1", 9092)),
        ("[2001:db8::1]:9095", ("2001:db8::1", 9095)),
        ("[::1]", ("::1", 9092)),
        ("::1", ("::1", 9092)),
        ("SSL://kafka-1:9096", ("kafka-1", 9096)),
    ],
)
def test_bootstrap_server_addresses_are_parsed(server: str, read: tuple[str, int]) -> None:
    assert transport.parse_address(server) == read


def test_transport_gets_oauth_client_credentials(authority: Path) -> None:
    raw = {**OAUTH, "sasl.oauthbearer.scope": "kafka", "sasl.oauthbearer.extensions": "a=1, b=2,"}
    settings = sasl_of(resolve_properties(raw))
    assert settings.mechanism == "OAUTHBEARER"
    assert settings.extensions == {"a": "1", "b": "2"}
    endpoint = "https://idp.example/token"
    assert settings.tokens == transport.OidcSettings(endpoint, "svc", "hunter2", "kafka", None)
    assert "hunter2" not in repr(settings) + repr(settings.tokens)
    certificate = authority / "ca.pem"
    texts = {"https.ca.location": str(certificate), "https.ca.pem": escape(certificate.read_text())}
    for name, text in texts.items():
        tokens = sasl_of(resolve_properties({**OAUTH, name: text})).tokens
        assert isinstance(tokens, transport.OidcSettings)
        assert tokens.tls is not None
        assert (tokens.tls.verify_mode, tokens.tls.check_hostname) == (ssl.CERT_REQUIRED, True)
        assert tokens.tls.cert_store_stats()["x509"] == 1
    with pytest.raises(KafkaformError, match=r"https\.ca\.location \(/no/such/ca\.pem\)"):
        cp.to_transport(resolve_properties({**OAUTH, "https.ca.location": "/no/such/ca.pem"}))


@pytest.mark.parametrize(
    ("servers", "region"),
    [
        ("b-1.demo.abc123.c2.kafka.us-east-1.amazonaws.com:9098", "us-east-1"),
        ("boot-x1y2.c1.kafka-serverless.eu-west-2.amazonaws.com:9098", "eu-west-2"),
        ("B-1.DEMO.abc.c2.KAFKA.cn-north-1.amazonaws.com.cn:9098", "cn-north-1"),
        ("kafka.example.com:9098", "ap-south-1"),
        ("kafka.us-east-1.amazonaws.com.example:9098", "ap-south-1"),
    ],
)
def test_msk_iam_has_the_region_of_brokers(
    monkeypatch: pytest.MonkeyPatch, servers: str, region: str
) -> None:
    monkeypatch.setenv("AWS_REGION", "ap-south-1")
    values = resolve_properties({**MSK_IAM, "bootstrap.servers": servers})
    assert sasl_of(values) == transport.SaslSettings("OAUTHBEARER", tokens=transport.MskIamSettings(region))
    assert cp.to_librdkafka(values) == {**dict(values), "sasl.mechanism": "OAUTHBEARER"}


def test_msk_iam_without_a_region_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    values = resolve_properties({**MSK_IAM, "bootstrap.servers": "kafka.example.com"})
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(KafkaformError, match=r"AWS_MSK_IAM needs the cluster's region") as caught:
        cp.to_transport(values)
    assert "AWS_REGION" in str(caught.value.hint)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-west-2")
    assert sasl_of(values).tokens == transport.MskIamSettings("us-west-2")


def open_files() -> list[str]:
    """The files that this process has open; not the sockets, which clients of other tests may be closing."""
    targets = []
    for path in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the descriptor of the listing itself
            targets.append(str(path.readlink()))
    return sorted(target for target in targets if target.startswith("/") and "/fd" not in target)


def test_certificates_from_text_leave_no_file(authority: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_files(*_: object, **__: object) -> None:
        raise AssertionError("a temporary file")

    monkeypatch.setattr("tempfile.mkstemp", no_files)
    before = open_files()
    context = tls_of(build_tls(authority))
    assert context.cert_store_stats()["x509"] == 1
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2
    assert open_files() == before


def test_pkcs12_store_leaves_no_temporary_key(authority: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"ssl.keystore.location": str(authority / "client.p12"), "ssl.keystore.password": "other"}
    loaded: list[tuple[str, str]] = []

    def load(_: ssl.SSLContext, certificate: str, key: str, *__: object) -> None:
        loaded.append((Path(certificate).read_text(), Path(key).read_text()))

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", load)
    before = open_files()
    tls_of({"security.protocol": "SSL", **values})
    assert open_files() == before
    ((certificate, key),) = loaded
    assert certificate == (authority / "client.pem").read_text()
    assert "PRIVATE KEY" in key


def build_tls(authority: Path, **changed: str | None) -> dict[str, str]:
    """Build properties with certificates as text, some of them changed or without a value."""
    values: dict[str, str | None] = {
        "security.protocol": "SSL",
        "ssl.ca.pem": (authority / "ca.pem").read_text(),
        "ssl.certificate.pem": (authority / "client.pem").read_text(),
        "ssl.key.pem": (authority / "client.key").read_text(),
        "ssl.key.password": "secret",
        **changed,
    }
    return {name: value for name, value in values.items() if value is not None}


UNUSABLE: dict[str, dict[str, str | None]] = {
    "wrong password": {"ssl.key.password": "wrong"},
    "no password": {"ssl.key.password": None},
    "key": {"ssl.key.pem": "hunter2"},
    "certificate": {"ssl.certificate.pem": "hunter2" * 30_000},
    "authority": {"ssl.ca.pem": "hunter2"},
    # Else librdkafka would be tried, which names no file.
    "setting of librdkafka": {
        "ssl.curves.list": "X25519", "ssl.ca.pem": None, "ssl.ca.location": "/no/such/ca.pem"
    },
    "cipher suites": {"ssl.cipher.suites": "NONSENSE"},
}  # fmt: skip
STORES = [("client.p12", "wrong"), ("no-such.p12", "other"), ("ca.pem", "other"), ("no-key.p12", "other")]
"""Files in the place of a PKCS#12 store, and the password for it."""


def refuse_transport(authority: Path, values: dict[str, str]) -> list[str]:
    with pytest.raises(KafkaformError) as caught:
        cp.to_transport(values)
    assert caught.value.hint
    assert "hunter2" not in caught.value.message
    # The words of OpenSSL are of its version.
    message = re.sub(r"(used): (no start line|\('no cipher).*", r"\1", caught.value.message)
    return [message.replace(str(authority), "FOLDER")]


def use_store(authority: Path, store: str, password: str) -> list[str]:
    values = {"ssl.keystore.location": str(authority / store), "ssl.keystore.password": password}
    return refuse_transport(authority, {"security.protocol": "SSL", **values})


MISUSED = [
    ("ssl.ca.location", "no.pem"),
    ("ssl.ca.location", "client.key"),
    ("ssl.crl.location", "no.crl"),
    ("ssl.certificate.location", "no.pem"),
    ("ssl.certificate.location", "client.key"),
    ("ssl.key.location", "no.key"),
    ("ssl.key.location", "client.pem"),
    ("ssl.key.location", "broker.example.key"),
]
"""A property, and a file that cannot be used: messages.txt has the reason."""


def use_file(authority: Path, name: str, file: str) -> list[str]:
    changed = {name.replace("location", "pem"): None, name: str(authority / file)}
    return refuse_transport(authority, build_tls(authority, **changed))


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an authority: two brokers, of which one is revoked, and a client with a password."""
    made = Authority(tmp_path_factory.mktemp("authority"))
    made.issue("broker.example")
    made.revoke(made.issue("revoked.example"))
    made.issue("client", "secret")
    for options in ("-inkey client.key -passin pass:secret -out client.p12", "-nokeys -out no-key.p12"):
        command = f"openssl pkcs12 -export -in client.pem -passout pass:other {options}"
        subprocess.run(command.split(), cwd=made.folder, check=True, capture_output=True)
    return made.folder


def handshake(folder: Path, given: Mapping[str, str], host: str, asked: str | None = None) -> bytes | None:
    """Let the transport's TLS meet a broker that asks for a client's certificate; return what it gets.

    The client means the host that it asked for, or else the one that answers.
    """
    broker = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    broker.load_cert_chain(folder / f"{host}.pem", folder / f"{host}.key")
    broker.load_verify_locations(folder / "ca.pem")
    broker.verify_mode = ssl.CERT_OPTIONAL
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = tls_of({"security.protocol": "SSL", **given}).wrap_bio(down, up, server_hostname=asked or host)
    server = broker.wrap_bio(up, down, server_side=True)
    for side in (client, server, client, server):
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()
    return server.getpeercert(binary_form=True)


def test_authorities_are_read_from_file_directory_text_or_system(
    authority: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ca = authority / "ca.pem"
    (tmp_path / "ca.pem").write_bytes(ca.read_bytes())
    subprocess.run(["openssl", "rehash", tmp_path], check=True, capture_output=True)
    trusting = [{"ssl.ca.location": str(ca)}, {"ssl.ca.location": str(tmp_path)}]
    for properties in (*trusting, {"ssl.ca.pem": ca.read_text()}):
        assert handshake(authority, properties, "broker.example") is None
    of_system: list[dict[str, str]] = [{}, {"ssl.ca.location": "probe"}]
    for properties in of_system:
        with pytest.raises(ssl.SSLCertVerificationError, match="self-signed certificate"):
            handshake(authority, properties, "broker.example")
    monkeypatch.setenv("SSL_CERT_FILE", str(ca))
    for properties in of_system:
        assert handshake(authority, properties, "broker.example") is None


def test_broker_certificate_is_refused_unless_check_is_disabled(authority: Path) -> None:
    """Another host, an unknown authority, and a revoked certificate."""
    trusted = {"ssl.ca.location": str(authority / "ca.pem")}
    any_host = {"ssl.endpoint.identification.algorithm": "none"}
    revocations = {**trusted, "ssl.crl.location": str(authority / "crl.pem")}
    for host, asked, properties, lenient, reason in (
        ("broker.example", "other.example", trusted, {**trusted, **any_host}, "Hostname mismatch"),
        (
            *("broker.example", "x", any_host),
            *({"enable.ssl.certificate.verification": "false"}, "self-signed certificate"),
        ),
        ("revoked.example", None, revocations, trusted, "certificate revoked"),
    ):
        with pytest.raises(ssl.SSLCertVerificationError, match=reason):
            handshake(authority, properties, host, asked)
        assert handshake(authority, lenient, host, asked) is None
    assert handshake(authority, revocations, "broker.example") is None


def test_client_certificate_is_presented(authority: Path) -> None:
    certificate, key = authority / "client.pem", authority / "client.key"
    shown = ssl.PEM_cert_to_DER_cert(certificate.read_text())
    for properties in (
        {"ssl.certificate.location": str(certificate), "ssl.key.location": str(key)},
        {"ssl.certificate.pem": certificate.read_text(), "ssl.key.pem": key.read_text()},
        {"ssl.keystore.location": str(authority / "client.p12"), "ssl.keystore.password": "other"},
    ):
        login = {"ssl.ca.location": str(authority / "ca.pem"), "ssl.key.password": "secret", **properties}
        login["ssl.cipher.suites"] = "ECDHE+AESGCM"
        assert handshake(authority, login, "broker.example") == shown


def from_java(text: str) -> tuple[dict[str, str], list[str]]:
    properties, problems = read_java_properties(text, "client.properties")
    if problems:
        return {}, [str(problem) for problem in problems]
    return dict(cp.resolve(properties, {}, no_file)), []


IAM = "software.amazon.msk.auth.iam"
MSK_IAM_FILE = "security.protocol=SASL_SSL\nsasl.mechanism=AWS_MSK_IAM\n"
JAVA_OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearer"
OAUTH_FILE = "security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\nsasl.oauthbearer.token.endpoint.url="
SSL_FILE = "security.protocol=SSL\nssl.keystore.type=PEM\nssl.truststore.type=PEM\n"
TRANSLATED = {
    "a login": (
        "# the tools' file\n"
        "bootstrap.servers=a:9092\nsecurity.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-256\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\\n"
        '    username="al ice" password="p\\\\"w${x};$$";\n'
        "ssl.truststore.type=PEM\nssl.truststore.location=/etc/ca.pem\n"
        "ssl.endpoint.identification.algorithm=\nrequest.timeout.ms=7000\nsend.buffer.bytes=-1\n"
        "key.serializer=x\nretries=3\n"
    ),
    "MSK IAM": (
        f"{MSK_IAM_FILE}sasl.jaas.config={IAM}.IAMLoginModule required;\n"
        f"sasl.client.callback.handler.class={IAM}.IAMClientCallbackHandler\n"
    ),
    "MSK IAM by OAuth": (
        f"security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\n"
        f"sasl.jaas.config={JAVA_OAUTH}LoginModule required;\n"
        f"sasl.login.callback.handler.class={IAM}.IAMOAuthBearerLoginCallbackHandler\n"
        f"sasl.client.callback.handler.class={IAM}.IAMOAuthBearerLoginCallbackHandler\n"
    ),
    "Kerberos and its default mechanism": (
        "security.protocol=SASL_PLAINTEXT\nsasl.kerberos.service.name=kafka\n"
        "sasl.jaas.config=com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true "
        'storeKey=true keyTab="/etc/k.keytab" principal="svc@REALM";\n'
    ),
    "OAuth": (
        f"{OAUTH_FILE}https://idp.example/token\n"
        f"sasl.login.callback.handler.class={JAVA_OAUTH}LoginCallbackHandler\n"
        f"sasl.jaas.config={JAVA_OAUTH}LoginModule required "
        'clientId="svc" clientSecret="hunter2" scope="s" extension_a="1" '
        'ssl.truststore.type="PEM" ssl.truststore.certificates="PEM";\n'
    ),
    "a file of a token": (
        f"{OAUTH_FILE}file:///run/secrets/token\nsasl.jaas.config={JAVA_OAUTH}LoginModule required;\n"
        f"sasl.oauthbearer.jwt.retriever.class={JAVA_OAUTH.removesuffix('OAuthBearer')}FileJwtRetriever\n"
    ),
    "a PEM key store": "security.protocol=SSL\nssl.keystore.location=k\nssl.keystore.type=PEM",
    "a PKCS12 key store": (
        "security.protocol=SSL\nssl.keystore.location=k\nssl.keystore.type=PKCS12\nssl.keystore.password=pw"
    ),
    "certificates as text": (
        f"{SSL_FILE}ssl.keystore.certificate.chain=C\nssl.keystore.key=K\nssl.truststore.certificates=T"
    ),
}


def test_java_files_are_translated(golden: SnapshotAssertion) -> None:
    texts = {}
    for name, text in TRANSLATED.items():
        values, problems = from_java(text)
        assert problems == []
        texts[name] = [f"{each} = {value}" for each, value in values.items()]
    assert list_texts(texts) == golden(name="translated.txt")


JAVA_FILES = {
    "unknown": "a=b",
    "misspelt": "\n# x\nreqest.timeout.ms=1",
    "a command": "sasl.kerberos.kinit.cmd=x",
    "escape": "request.timeout.ms=\\\n 500\nclient.id=\\u00zz",
    "out of range": "request.timeout.ms=5",
    "twice": "client.id=a\nclient.id=b",
    "config providers": "config.providers=env",
    "a login handler": "sasl.login.callback.handler.class=com.example.Handler",
    "controllers": "bootstrap.controllers=a:9093",
    "JKS trust store": "security.protocol=SSL\nssl.truststore.location=t.jks",
    "PKCS12 trust store": "security.protocol=SSL\nssl.truststore.location=t\nssl.truststore.type=PKCS12",
    "JKS key store": "security.protocol=SSL\nssl.keystore.location=k.jks",
    "cipher suites": "security.protocol=SSL\nssl.cipher.suites=TLS_AES_256_GCM_SHA384",
    "mechanism": "security.protocol=SASL_SSL\nsasl.mechanism=X",
    "a client handler": "\nsasl.client.callback.handler.class=com.example.Handler",
    "an option of IAM": f"{MSK_IAM_FILE}sasl.jaas.config={IAM}.IAMLoginModule required awsProfileName=ops;",
}
"""Files that cannot be translated: messages.txt has the places."""


_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
JAAS = {
    "class": 'com.example.Login required username="a";',
    "end": f"{_PLAIN} required password=hunter2",
    "quote": f'{_PLAIN} required password="hunter2;',
    "two modules": "a.B required; a.C required password=hunter2;",
    "option": f"{_PLAIN} required secret=hunter2;",
    **{text: text for text in (";", "a.B", "a.B required", "a.B required x;", "a.B required x=a@b;", "a B;")},
}
JAAS_FILE = "client.id=x\nsecurity.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config="
JAVA_IN_CLIENT: dict[str, dict[str, object]] = {
    "plain": {"sasl.jaas.config": f'{_PLAIN} required username="a" password="hunter2";'},
    "scram, with a reference": {
        "sasl.jaas.config": f'{_SCRAM} required username="a" password="${{env:P}}";',
        "sasl.mechanism": "SCRAM-SHA-256",
    },
    "iam": {"sasl.jaas.config": f"{IAM}.IAMLoginModule required;"},
    "malformed": {"sasl.jaas.config": "hunter2"},
    "JKS trust store": {"ssl.truststore.location": "t.jks"},
    "PKCS12 trust store": {"ssl.truststore.location": "t.p12", "ssl.truststore.type": "PKCS12"},
    "PEM trust store": {"ssl.truststore.location": "t.pem", "ssl.truststore.type": "PEM"},
    "trust store's password": {"ssl.truststore.password": "hunter2"},
    "text": {"ssl.truststore.certificates": "-----BEGIN\nhunter2"},
    "JKS key store": {"ssl.keystore.type": "JKS", "ssl.keystore.location": "k.jks"},
    "renamed": {"request.timeout.ms": 3000},
}
"""Properties of Java in a client's: their hints have our words."""
FORBIDDEN = """
plugin.library.paths ssl.engine.location ssl.engine.anything ssl.providers interceptors
config.providers.env.class ssl_engine_callback_data sasl.kerberos.kinit.cmd debug error_cb
ssl.certificate.verify_cb opaque allow.auto.create.topics group.id fetch.min.bytes
ssl.truststore.location
"""
INVALID: list[tuple[str, object]] = [
    ("socket.timeout.ms", 5),
    ("socket.timeout.ms", True),
    ("security.protocol", "TLS"),
    ("socket.keepalive.enable", "yes"),
    ("bootstrap.servers", ["a:9092"]),
    ("client.id", None),
    ("client.id", "a\0b"),
    ("client.id", "${sys:user}"),
    ("client.id", "${env:X"),
    (TOKEN_URL, "ftp://idp.example/token"),
    (TOKEN_URL, "file://host/token"),
    *(("client.id", text) for text in ("${}", "${env:}", "${env:1X}", "${file:}", "$$${x}")),
    *((name, "x") for name in FORBIDDEN.split()),
]


def test_client_property_messages_match_golden(authority: Path, golden: SnapshotAssertion) -> None:
    store = {"bootstrap.servers": "a:1", "ssl.keystore.password": "${env:P}"}
    translated = {name: list_problems({**store, **raw}) for name, raw in JAVA_IN_CLIENT.items()}
    logins = {name: from_java(JAAS_FILE + jaas)[1] for name, jaas in JAAS.items()}
    texts: dict[str, Iterable[object]] = {
        **{name: list_problems(raw) for name, raw in INCOHERENT.items()},
        **{f"java, {name}": from_java(text)[1] for name, text in JAVA_FILES.items()},
        **{f"{name}, {file}": use_file(authority, name, file) for name, file in MISUSED},
        **{
            f"text, {name}": refuse_transport(authority, build_tls(authority, **changed))
            for name, changed in UNUSABLE.items()
        },
        **{f"store {name}, {password}": use_store(authority, name, password) for name, password in STORES},
        **{f"value {value!r} of {name}": list_problems({name: value}) for name, value in INVALID},
        **{f"login, {name}": found for name, found in logins.items()},
        **{f"java in client, {name}": found for name, found in translated.items()},
    }
    assert "hunter2" not in str([*map(str, chain(*translated.values())), *logins.values()])
    assert list_texts(texts) == golden(name="messages.txt")


SAFE_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1).filter(str.strip)


def quote_java(text: str) -> str:
    """Text in double quotes, as Java's StreamTokenizer reads it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + re.sub(r"[\x00-\x1f]", lambda m: f"\\{ord(m.group()):03o}", escaped) + '"'


@given(SAFE_TEXT, SAFE_TEXT)
def test_login_written_for_java_is_read_back(username: str, password: str) -> None:
    login = (
        f"org.apache.kafka.common.security.plain.PlainLoginModule required username={quote_java(username)}"
    )
    written = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f"{login} password={quote_java(password)};",
    }
    values, problems = from_java(javaproperties.dumps(written, timestamp=None))
    assert problems == []
    assert (values["sasl.username"], values["sasl.password"]) == (username, password)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("a.B required x=y;", {"x": "y"}),
        ("a.B REQUIRED x='y;z' // note\n;", {"x": "y;z"}),
        (r'a.B required x="\101\n\/\"";', {"x": 'A\n/"'}),
        ('a.B required /* c; */ x="=";', {"x": "="}),
    ],
)
def test_java_login_follows_stream_tokenizer(text: str, options: dict[str, str]) -> None:
    assert parse_jaas(text).options == options


def test_omitted_security_properties_match_golden(golden: SnapshotAssertion) -> None:
    left_out = {name for name in consumer_configs() if table.is_left_out(name)}
    assert {"max.poll.records", "interceptor.classes", "sasl.login.retry.backoff.ms"} <= left_out
    names = sorted(name for name in left_out if name.startswith(("ssl.", "sasl.", "security.")))
    assert "\n".join((*names, "")) == golden(name="left_out.txt")
    for name in ("config.providers", "ssl.provider", "sasl.oauthbearer.jwt.validator.class", "no.such.name"):
        assert len(from_java(f"{name}=x")[1]) == 1
