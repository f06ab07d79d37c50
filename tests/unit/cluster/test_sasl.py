"""SASL logins: the messages, brokers that refuse, and brokers that lie."""

import subprocess
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from scramp import ScramMechanism

from kafkaform.cluster.transport.sasl import RejectedError, log_in
from kafkaform.cluster.transport.tokens import Token, TokenSource
from kafkaform.config.client_properties.transport import SaslSettings
from kafkaform.core.errors import AuthenticationFailed, ClusterError, KafkaformError

BROKER = ("broker-1.example", 9093)
ODD = "p'w\\d;$x=,\u00bd\u00ad \u00e4"
"""A password that RFC 4013 (SASLprep) would change: a soft hyphen and a fraction."""
LATER = time.time() + 3600


def failure(settings: SaslSettings, send: Callable[[bytes], bytes], tokens: TokenSource | None = None) -> str:
    with pytest.raises(AuthenticationFailed) as caught:
        log_in(settings, BROKER, tokens, send)
    assert "\n" not in caught.value.message
    assert caught.value.hint
    return caught.value.message


class ScramBroker:
    """A broker's side of SCRAM for one user, which compares the user's name and password as they are."""

    def __init__(self, mechanism: str, password: str) -> None:
        scram = ScramMechanism(mechanism)
        salt, _, _, count = scram.make_auth_info("-")
        from scramp.core import IterationCount, Salt, _c_key_stored_key_s_key
        from scramp.utils import hi

        keys = _c_key_stored_key_s_key(
            scram.hf, hi(scram.hf, password.encode(), bytes(Salt(salt)), IterationCount(count))
        )
        self.user = ""

        def look_up_user(user: str) -> tuple[bytes, bytes, bytes, int]:
            self.user = user
            return salt, keys[1], keys[2], count

        self.server = scram.make_server(look_up_user)
        self.messages: list[str] = []

    def send(self, message: bytes) -> bytes:
        self.messages.append(message.decode())
        if len(self.messages) == 1:
            self.server.set_client_first(message.decode())
            return str(self.server.get_server_first()).encode()
        try:
            self.server.set_client_final(message.decode())
        except Exception as error:
            raise RejectedError("Authentication failed: invalid credentials") from error
        return str(self.server.get_server_final()).encode()


def record_login(
    settings: SaslSettings,
    tokens: TokenSource | None = None,
    answer: Callable[[bytes], bytes] = lambda _: b"",
) -> list[bytes]:
    sent: list[bytes] = []

    def send(message: bytes) -> bytes:
        sent.append(message)
        return answer(message)

    log_in(settings, BROKER, tokens, send)
    return sent


def test_refused_login_hides_the_password() -> None:
    # A refusal names mechanism and user and hides a password that is repeated.
    def send(_: bytes) -> bytes:
        raise RejectedError("hunter2-4711 is wrong\nfor alice")

    message = failure(SaslSettings("PLAIN", "alice", "hunter2-4711"), send)
    assert message.endswith("the PLAIN login of alice was refused: <hidden> is wrong for alice")
    broker = ScramBroker("SCRAM-SHA-512", "right")
    message = failure(SaslSettings("SCRAM-SHA-512", "alice", "wrong-hunter2"), broker.send)
    assert "the SCRAM-SHA-512 login of alice was refused: Authentication failed" in message


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram_login_does_not_send_password(mechanism: str) -> None:
    broker = ScramBroker(mechanism, ODD)
    log_in(SaslSettings(mechanism, "al=i,ce", ODD), BROKER, None, broker.send)
    assert broker.user == "al=i,ce"
    assert len(broker.messages) == 2
    assert ODD not in "".join(broker.messages)


@pytest.mark.parametrize(
    ("final", "why"),
    [
        (b"v=" + b"A" * 43 + b"=", "signature doesn't match"),
        (b"", "Malformed server final message"),
        (b"e=other-error", "other-error"),
        (b"\xff", "utf-8"),
    ],
)
def test_unproven_scram_broker_is_refused(final: bytes, why: str) -> None:
    broker = ScramBroker("SCRAM-SHA-256", "right")

    def send(message: bytes) -> bytes:
        answer = broker.send(message)
        return answer if len(broker.messages) == 1 else final

    assert why in failure(SaslSettings("SCRAM-SHA-256", "alice", "right"), send)


@pytest.mark.parametrize(
    "first",
    [
        "r={nonce}x,s=c2FsdHNhbHRzYWx0c2FsdA==,i=1",
        "r={nonce}x,s=c2FsdHNhbHRzYWx0c2FsdA==,i=2000000000",
        "r={nonce},s=c2FsdHNhbHRzYWx0c2FsdA==,i=4096",
        "r=stranger,s=c2FsdHNhbHRzYWx0c2FsdA==,i=4096",
        "r={nonce}x,s=,i=4096",
        "",
    ],
)
def test_weak_scram_challenge_gets_no_proof(first: str) -> None:
    sent: list[str] = []

    def send(message: bytes) -> bytes:
        sent.append(message.decode())
        return first.format(nonce=sent[0].partition("r=")[2]).encode()

    failure(SaslSettings("SCRAM-SHA-256", "alice", "right"), send)
    assert len(sent) == 1


def test_token_is_sent_with_its_extensions() -> None:
    token = Token("a.b.c", LATER, "ada", {"logicalCluster": "lkc-1", "identityPoolId": "pool-2"})
    sent = record_login(SaslSettings("OAUTHBEARER"), TokenSource(lambda: token))
    expected = b"n,,\x01auth=Bearer a.b.c\x01logicalCluster=lkc-1\x01identityPoolId=pool-2\x01\x01"
    assert sent == [expected]


@pytest.mark.parametrize("end", [RejectedError("no"), ClusterError("the broker closed the connection")])
def test_refused_token_is_hidden(end: Exception) -> None:
    sent: list[bytes] = []

    def send(message: bytes) -> bytes:
        sent.append(message)
        if len(sent) == 2:
            raise end
        return b'{"status":"invalid_token","scope":"a.b.c"}'

    tokens = TokenSource(lambda: Token("a.b.c", LATER, "ada"))
    message = failure(SaslSettings("OAUTHBEARER"), send, tokens)
    assert "OAUTHBEARER login of ada was refused" in message
    assert "a.b.c" not in message
    assert sent[1:] == [b"\x01"]


class Kerberos:
    """The part of the package gssapi that is used; tried with the real one, a broker and MIT's Kerberos."""

    class GSSError(Exception):
        maj_code, min_code = 851968, 2529638919

        def get_all_statuses(self, code: int, is_major: bool) -> list[str]:
            return ["Unspecified GSS failure."] if is_major else [f"status {code}"]

    class SecurityContext:
        complete = False

        def __init__(self, name: str, mech: str, usage: str) -> None:
            assert (mech, usage) == ("kerberos", "initiate")
            self.name = name

        def step(self, token: bytes | None = None) -> bytes | None:
            if self.name == "stranger@broker-1.example":
                raise Kerberos.GSSError
            self.complete = token == b"the broker's"
            return None if token else f"ticket for {self.name}".encode()

        def unwrap(self, message: bytes) -> SimpleNamespace:
            return SimpleNamespace(message=message.removeprefix(b"wrapped "))

        def wrap(self, message: bytes, encrypted: bool) -> SimpleNamespace:
            assert not encrypted
            return SimpleNamespace(message=b"wrapped " + message)

    exceptions = SimpleNamespace(GSSError=GSSError)
    NameType = SimpleNamespace(hostbased_service="service")
    MechType = SimpleNamespace(kerberos="kerberos")

    @staticmethod
    def Name(name: str, kind: str) -> str:  # noqa: N802 - its name
        assert kind == "service"
        return name


@pytest.fixture
def kerberos(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", Kerberos)


@pytest.mark.usefixtures("kerberos")
def test_kerberos_login_has_no_security_layer() -> None:
    answers = {b"ticket for kafka@broker-1.example": b"the broker's", b"": b"wrapped \x07\0\x10\0"}
    sent = record_login(SaslSettings("GSSAPI"), answer=lambda message: answers.get(message, b""))
    assert sent == [*answers, b"wrapped \x01\0\0\0"]


@pytest.mark.usefixtures("kerberos")
def test_missing_kerberos_ticket_gives_reason() -> None:
    assert failure(SaslSettings("GSSAPI", service="stranger"), lambda _: b"").endswith("status 2529638919")


@pytest.mark.usefixtures("kerberos")
def test_kerberos_security_layer_is_refused() -> None:
    answers = [b"the broker's", b"wrapped \x06\0\x10\0"]
    assert "security layer" in failure(SaslSettings("GSSAPI"), lambda _: answers.pop(0))


def test_missing_gssapi_package_names_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(KafkaformError, match="GSSAPI needs the Python package gssapi") as caught:
        log_in(SaslSettings("GSSAPI"), BROKER, None, lambda _: b"")
    assert caught.value.hint == "install kafkaform[gssapi]"


@pytest.mark.parametrize("mechanism", ["OAUTHBEARER", "DIGEST-MD5"])
def test_unsupported_mechanism_sends_nothing(mechanism: str) -> None:
    def send(_: bytes) -> bytes:
        raise AssertionError("nothing is to be sent")

    with pytest.raises(KafkaformError, match=mechanism):
        log_in(SaslSettings(mechanism), BROKER, None, send)


def test_login_libraries_are_not_imported_early() -> None:
    heavy = ["scramp", "gssapi", "botocore", "http.client", "urllib.request"]
    code = (
        "import sys, kafkaform.cluster.transport.connection, kafkaform.cluster.transport.sasl;"
        f"sys.exit(', '.join(name for name in {heavy} if name in sys.modules) or None)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
