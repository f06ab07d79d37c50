"""Errors, the status and saved plans on the command line: what is shown, and no secret."""

import json
import re
import signal
from pathlib import Path

import pytest

from kafkaform.cli.options import ClusterSelector
from kafkaform.cli.session import Session
from kafkaform.cluster.kafka.cluster import KafkaCluster
from kafkaform.config.client_properties import resolve
from kafkaform.devcluster.cluster import DevCluster
from kafkaform.plan.plan_file import digest_of
from tests.support.cli.project import Project, Terminal, plain
from tests.support.cli.signing import write_keys
from tests.support.clusters.fixtures import TIMEOUT_S, MakeAccount, eventually
from tests.support.clusters.topics import make_topic

SECRET = "S3cr3t-of-nobody"


@pytest.fixture
def secured(kafka_acl: DevCluster, prefix: str, tmp_path: Path) -> Project:
    """A project on the cluster where accounts log in."""
    return Project(tmp_path, kafka_acl.sasl_bootstrap_servers, prefix)


def test_wrong_password_is_hidden(secured: Project, account: MakeAccount) -> None:
    secured.topic("a")
    account().write_java_properties(secured.folder, SECRET)
    for arguments in (["plan"], ["apply", "--auto-approve"]):
        call = secured.run(*arguments, "topics", "--command-config", "client.properties")
        assert "Authentication failed" in call.read_error()[0]
        assert call.said == call.err
        assert SECRET not in call.both
    call = secured.process("--debug", "plan", "topics", "--command-config", "client.properties")
    assert call.code == 1
    assert call.err.count("Error: ") == 1
    assert "Traceback" in call.err
    assert SECRET not in call.both


def sasl_config(project: Project) -> None:
    project.config(
        environments=["dev"],
        clusters={
            "prod": {
                "environment": "dev",
                "client": {
                    "bootstrap.servers": "prod.invalid:9093",
                    "security.protocol": "SASL_PLAINTEXT",
                    "sasl.mechanism": "PLAIN",
                    "sasl.username": "${env:KF_TEST_USER}",
                    "sasl.password": "${env:KF_TEST_SECRET}",
                },
            }
        },
    )


def test_other_bootstrap_server_gets_no_credentials(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    sasl_config(project)
    monkeypatch.chdir(project.folder)
    monkeypatch.setenv("KF_TEST_USER", "me")
    monkeypatch.setenv("KF_TEST_SECRET", SECRET)

    def properties(*arguments: str | None) -> dict[str, str]:
        session = Session.start(ClusterSelector(None, None, *arguments))  # type: ignore[arg-type]
        found = resolve(
            session.require_cluster().client, {"KF_TEST_USER": "me", "KF_TEST_SECRET": SECRET}, str
        )
        return dict(found)

    assert properties(None, "other.invalid:9092") == {"bootstrap.servers": "other.invalid:9092"}
    assert properties("prod", None)["sasl.password"] == SECRET
    # Both given: a tunnel to that very cluster, say.
    assert properties("prod", "tunnel:9093")["sasl.password"] == SECRET
    assert properties("prod", "tunnel:9093")["bootstrap.servers"] == "tunnel:9093"


def test_saved_plan_does_not_select_credentials(project: Project) -> None:
    """Its cluster's name is only text in a file; with credentials, this plain listener would not answer."""
    project.topic("a")
    project.config(clusters={"prod": {"client": {"bootstrap.servers": project.servers}}})
    project.run("plan", "--out", "plan.json").needs(0)
    sasl_config(project)
    secrets = {"KF_TEST_USER": "me", "KF_TEST_SECRET": SECRET}
    arguments = ["apply", "plan.json", "--auto-approve", "--bootstrap-server", project.servers]
    project.run(*arguments, env=secrets).needs(0)
    assert set(project.live()) == {"a"}


@pytest.fixture
def orders(project: Project, real_cluster: KafkaCluster) -> str:
    return make_topic(real_cluster, f"{project.prefix}orders")


def test_account_without_rights_gets_error_naming_hidden_kinds(
    secured: Project, account: MakeAccount, tmp_path: Path
) -> None:
    where = ("--command-config", account().write_java_properties(tmp_path))
    for command_line, kinds in (
        (("status",), "topic or group"),
        (("import", "--out", str(tmp_path / "new")), "topic, group, quota, user, access or subject"),
    ):
        call = secured.run(*command_line, *where).needs(1)
        assert f"no {kinds} is visible to this account: " in call.err
    assert not (tmp_path / "new").exists()


def test_watch_redraws_until_ctrl_c(project: Project, orders: str) -> None:
    terminal = Terminal(*project.add_cluster(["status", orders, "--watch", "0.2"]), cwd=project.folder)
    terminal.wait_for("Ctrl-C ends")
    terminal.wait_for(orders)
    eventually(lambda: (terminal.wait_for("\x1b[2K"), terminal.seen)[1], lambda seen: orders in seen)
    terminal.type("\x03")
    call = terminal.end().needs(0)
    assert "interrupted" not in call.out
    assert orders in plain(call.out)


def test_watch_in_pipe_prints_block_per_refresh(project: Project, orders: str) -> None:
    for form, mark in (("text", "TOPIC"), ("json", '{"topics": [{')):
        process = project.start("status", orders, "--format", form, "--watch", "0.1")
        assert process.stdout is not None
        seen = ""
        while seen.count(mark) < 2:
            line = process.stdout.readline()
            assert line, seen
            seen += line
        process.send_signal(signal.SIGINT)
        _, output = process.communicate(timeout=TIMEOUT_S)
        expected = f"cluster {project.servers} · no kafkaform.yaml found\n"
        assert (process.returncode, output) == (0, expected if form == "text" else "")


def test_no_secret_is_in_a_plan(
    secured: Project, account: MakeAccount, tmp_path_factory: pytest.TempPathFactory
) -> None:
    login = account(f"TOPIC:{secured.prefix}*:ALL", "CLUSTER:kafka-cluster:DESCRIBE").properties
    keys = tmp_path_factory.mktemp("keys")
    private, _ = write_keys(keys, "ci")
    (keys / "user").write_text(login["sasl.username"])
    client = {
        **login,
        "bootstrap.servers": "${env:BROKERS}",
        "sasl.username": f"${{file:{keys / 'user'}}}",
        "sasl.password": "${env:BROKER_PASSWORD}",
        "client.id": "plain-client-id",
    }
    secured.topic("orders", partitions=2)
    secured.config(clusters={"dev": {"client": client}})
    env = {
        "BROKERS": secured.servers,
        "BROKER_PASSWORD": login["sasl.password"],
        "KAFKAFORM_SIGN_KEY": private.read_text(),
        "KAFKAFORM_SIGN_KEY_PASSPHRASE": "open sesame",
        "OTHER_TOKEN": "a token of somebody",
    }
    made = secured.run("plan", "--out", "plan.json", "--format", "json", "-v", env=env).needs(0)
    shown = secured.run("show", "plan.json").needs(0)
    debug = secured.process("--debug", "plan", env=env).needs(0)
    assert re.search(r"\.broker_socket: 127\.0\.0\.1:\d+: DescribeConfigs v1, sent [\d,]+ bytes", debug.err)
    assert login["sasl.password"] not in debug.both
    plan = (secured.folder / "plan.json").read_text()
    assert json.loads(plan)["changes"][0]["name"] == f"{secured.prefix}orders"
    assert "signature" in json.loads(plan)
    secrets = [
        login["sasl.username"],
        login["sasl.password"],
        "BROKER_PASSWORD",
        "plain-client-id",
        secured.servers,
        *private.read_text().splitlines(),
        "open sesame",
        "a token of somebody",
    ]
    for text in (plan, made.both, shown.both):
        assert [secret for secret in secrets if secret in text] == []


def test_edited_plan_does_not_hide_destruction(project: Project) -> None:
    """A digest that fits, and nothing but safe changes, by the file."""
    project.topic("orders", retention="7d")
    project.apply("topics").needs(0)
    project.topic("orders", state="absent")
    project.run("plan", "--out", "plan.json")
    document = json.loads((project.folder / "plan.json").read_text())
    nothing = {"risk": "safe", "hazard": None, "reason": None, "remedy": None}
    (change,) = document["changes"]
    change |= {**nothing, "risk_reason": None, "risk_remedy": None, "status": "planned"}
    change["fields"] = [field | nothing for field in change["fields"]]
    document |= {"consent": [], "summary": {**document["summary"], "needs_consent": 0, "refused": 0}}
    project.write("plan.json", json.dumps({**document, "digest": digest_of(document)}))
    call = project.apply("plan.json").needs(1)
    assert "riskier than" in call.out
    assert "is destructive" in call.out
    assert project.live()["orders"] == {"partitions": 1, "retention.ms": "604800000"}
