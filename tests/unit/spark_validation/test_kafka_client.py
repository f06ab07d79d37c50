"""Tests of the settings of Spark's Kafka clients: files, tokens, and messages where one is missing."""

import base64
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError
from pyspark import SparkFiles
from syrupy.assertion import SnapshotAssertion

from spark_validation.errors import ReadingFailed
from spark_validation.kafka_client import Problems, executor_properties, make_client, make_client_options
from tests.support.clusters.token_endpoint import jwt

TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"
AMAZON = {
    "bootstrap.servers": "b-1.orders.abc123.c2.kafka.eu-west-1.amazonaws.com:9098",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "AWS_MSK_IAM",
}


def test_certificates_are_sent_as_text_to_other_machines_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("ca", "client", "key"):
        Path(name).write_text(f"PEM of {name}")
    kafka = {
        "ssl.ca.location": "ca",
        "ssl.certificate.location": "client",
        "ssl.key.location": "key",
        "ssl.key.password": "s3cret",
        "ssl.keystore.location": "not-here.p12",
    }
    assert executor_properties(kafka, local=False) == {
        "ssl.ca.pem": "PEM of ca",
        "ssl.certificate.pem": "PEM of client",
        "ssl.key.pem": "PEM of key",
        "ssl.key.password": "s3cret",
        "ssl.keystore.location": "not-here.p12",
    }
    here = executor_properties(kafka, local=True)
    assert here["ssl.ca.location"] == str(tmp_path / "ca")
    assert not [name for name in here if name.endswith(".pem")]
    for local in (True, False):
        assert executor_properties({"ssl.ca.location": "probe"}, local=local) == {"ssl.ca.location": "probe"}


def test_invalid_certificate_file_is_named_without_content(tmp_path: Path) -> None:
    (tmp_path / "ca").write_bytes(b"\xff\xfes3cret")
    with pytest.raises(ReadingFailed) as caught:
        executor_properties({"ssl.ca.location": str(tmp_path / "ca")}, local=False)
    assert caught.value.message == f"ssl.ca.location: cannot read {tmp_path / 'ca'}: it is not PEM text"


def test_shipped_file_is_found_by_spark_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "client.p12").touch()
    monkeypatch.setattr(SparkFiles, "_is_running_on_worker", True)
    monkeypatch.setattr(SparkFiles, "_root_directory", str(tmp_path))
    shipped = {"ssl.keystore.location": "/etc/on/the/driver/client.p12"}
    assert make_client_options(shipped) == {"ssl.keystore.location": str(tmp_path / "client.p12")}
    with pytest.raises(
        ReadingFailed, match=r"^ssl\.keystore\.location: /no/other\.p12 does not exist on "
    ) as caught:
        make_client_options({"ssl.keystore.location": "/no/other.p12"})
    assert "spark.files=/path/of/other.p12" in str(caught.value.hint)


def test_missing_file_without_spark_is_named() -> None:
    with pytest.raises(ReadingFailed, match=r"^ssl\.ca\.location: /no/ca\.pem does not exist on "):
        make_client_options({"ssl.ca.location": "/no/ca.pem"})


def test_librdkafka_keeps_oidc_settings() -> None:
    oidc = {"sasl.mechanism": "OAUTHBEARER", TOKEN_URL: "https://a/b", "sasl.oauthbearer.method": "oidc"}
    assert make_client_options(oidc) == oidc


def test_plain_http_token_endpoint_needs_permission() -> None:
    oidc = {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.method": "oidc"}
    allow = "sasl.oauthbearer.token.endpoint.allow.http"
    for url in ("http://idp.example/token", "HTTP://10.0.0.1/token", "http://localhost@idp.example/"):
        with pytest.raises(ReadingFailed, match="is plain http") as caught:
            make_client_options({**oidc, TOKEN_URL: url})
        assert f"{allow}=true" in str(caught.value.hint)
        assert make_client_options({**oidc, TOKEN_URL: url, allow: "true"}) == {**oidc, TOKEN_URL: url}
    for url in ("http://localhost:80/t", "http://127.0.0.1/t", "http://[::1]/t"):
        assert make_client_options({**oidc, TOKEN_URL: url}) == {**oidc, TOKEN_URL: url}


def test_file_token_is_supplied_by_callback(tmp_path: Path) -> None:
    token = jwt(60.0, "ada")
    (tmp_path / "token").write_text(f"{token}\n")
    given = {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        TOKEN_URL: f"file://{tmp_path}/token",
        "sasl.oauthbearer.extensions": "logicalCluster=lkc-1, identityPoolId=pool-1",
    }
    found = make_client_options(given)
    value, expires_at, principal, extensions = found.pop("oauth_cb")(None)
    assert found == {"sasl.mechanism": "OAUTHBEARER"}
    assert (value, principal) == (token, "ada")
    assert expires_at > 0
    assert extensions == {"logicalCluster": "lkc-1", "identityPoolId": "pool-1"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("s3cret", "contains no usable token"),
        ("a.s3cret.b", "contains no usable token"),
        (f"a.{base64.urlsafe_b64encode(b'[' * 99_999).decode()}.b", "contains no usable token"),
        (jwt(-5), "has expired"),
    ],
)
def test_invalid_token_file_is_named_without_content(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "token").write_text(text)
    with pytest.raises(ReadingFailed, match=said) as caught:
        make_client_options({TOKEN_URL: f"file://{tmp_path}/token"})
    assert text not in caught.value.message
    assert caught.value.hint


def test_msk_iam_tokens_use_region_of_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-a-real-one")
    monkeypatch.setenv("AWS_REGION", "eu-north-1")
    for servers, region in ((AMAZON["bootstrap.servers"], "eu-west-1"), ("kafka.example:9098", "eu-north-1")):
        sent = executor_properties({**AMAZON, "bootstrap.servers": servers}, local=False)
        with monkeypatch.context() as executor:
            executor.delenv("AWS_REGION")
            found = make_client_options(sent)
        token, *_ = found.pop("oauth_cb")(None)
        assert (
            base64.urlsafe_b64decode(token + "==")
            .decode()
            .startswith(f"https://kafka.{region}.amazonaws.com/")
        )
        assert found == {
            "bootstrap.servers": servers, "security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"
        }  # fmt: skip


def test_msk_iam_without_region_or_package_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ReadingFailed, match="needs the cluster's region"):
        executor_properties({**AMAZON, "bootstrap.servers": "kafka.example:9098"}, local=True)
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", None)
    with pytest.raises(
        ReadingFailed, match="needs the Python package aws-msk-iam-sasl-signer-python on"
    ) as caught:
        make_client_options(AMAZON)
    assert "executors" in str(caught.value.hint)


def test_unknown_property_is_named() -> None:
    with pytest.raises(ReadingFailed, match='not accepted: No such configuration property: "nosuch"'):
        make_client(Consumer, {"bootstrap.servers": "a:1", "group.id": "a", "nosuch": "s3cret"})


def test_silence_error_has_last_logged_problem(golden: SnapshotAssertion) -> None:
    problems = Problems()
    messages = [problems.make_silence_error("t", 30).message]
    problems(KafkaError(KafkaError._TRANSPORT, "a:1: Connection refused"))
    problems(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
    problems.check("t")
    messages.append(problems.make_silence_error("t", 30).message)
    problems(KafkaError(KafkaError._SSL, "a:1: certificate verify failed"))
    with pytest.raises(ReadingFailed) as caught:
        problems.check("t")
    assert "\n".join([*messages, caught.value.message, ""]) == golden(name="silence.txt")
