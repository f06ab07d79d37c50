"""Every file that a command reads is a regular one of a bounded size, or a pipe that it was given."""

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from kafkaform.cluster.transport.tokens import TokenSource, make_token_source
from kafkaform.config.client_properties.transport import SaslSettings, TokenFileSettings
from kafkaform.core.errors import AuthenticationFailed
from kafkaform.core.files import read_file
from kafkaform.core.model import Create, Status
from kafkaform.core.plans import Plan, PlannedChange
from kafkaform.core.secrets import Reference, UnreadableSecret, read_secret
from kafkaform.plan.plan_file import plan_to_json
from kafkaform.plan.plan_header import PlanHeader
from spark_validation import submit
from spark_validation.errors import JobFailed, ReadingFailed
from spark_validation.kafka_client import executor_properties
from tests.support.cli.project import ROOT, Project, command, environment, manifest, run_in_process
from tests.support.plans.scenes import topic


def _make_sparse(file: Path) -> None:
    file.touch()
    os.truncate(file, 1 << 40)


FLAWS: dict[str, tuple[Callable[[Path], object], str]] = {
    "named pipe": (os.mkfifo, "not a regular file"),
    "device": (lambda file: file.symlink_to(os.devnull), "not a regular file"),
    "sparse file": (_make_sparse, "larger than"),
}
CLIENTS = {
    "secret": "client.id: '${file:odd.json}'",
    "authorities": "security.protocol: SSL, ssl.ca.location: odd.json",
    "revoked certificates": "security.protocol: SSL, ssl.crl.location: odd.json",
    "certificate": "security.protocol: SSL, ssl.certificate.location: odd.json, ssl.key.location: plan.json",
    "key": "security.protocol: SSL, ssl.key.location: odd.json, ssl.certificate.location: plan.json",
    "key store": "security.protocol: SSL, ssl.keystore.location: odd.json, ssl.keystore.password: x",
    "authorities of the endpoint": "security.protocol: SASL_SSL, sasl.mechanism: OAUTHBEARER, "
    "sasl.oauthbearer.method: oidc, "
    "sasl.oauthbearer.client.id: me, sasl.oauthbearer.client.secret: x, https.ca.location: odd.json, "
    "sasl.oauthbearer.token.endpoint.url: 'https://127.0.0.1:1'",
}
COMMANDS = {
    "manifest": ["validate", "odd.json"],
    "configuration": ["validate", "topics", "--config", "odd.json"],
    "saved plan": ["show", "odd.json"],
    "plan to apply": ["apply", "odd.json", "--auto-approve"],
    "reviewed plan": ["apply", "topics", "--reviewed", "odd.json", "--auto-approve"],
    "public keys": ["show", "plan.json", "--verify-key", "odd.json"],
    "private key": ["plan", "topics", "--out", "new.json", "--sign-key", "odd.json"],
    "command config": ["plan", "topics", "--command-config", "odd.json"],
    "offsets": ["reset", "g", "--from-file", "odd.json"],
    "record": ["history", "--file", "odd.json"],
    "import": ["import", "odd.json", "--from", "strimzi"],
    "comment": ["ci", "comment", "odd.json", "--pull-request", "1", "--repository", "o/r"],
    "skew report": ["plan", "topics", "--skew", "odd.json"],
}


@pytest.fixture(params=FLAWS)
def reason(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Make an unsuitable file `odd.json` in the working directory; return what is to be said of it."""
    monkeypatch.chdir(tmp_path)
    make, text = FLAWS[request.param]
    make(tmp_path / "odd.json")
    return text


@pytest.mark.timeout(60)
@pytest.mark.parametrize("given", [*COMMANDS, *CLIENTS])
def test_named_pipe_is_refused_without_blocking(given: str, tmp_path: Path, servers: str) -> None:
    """All are read by the common reader: see the last test; secrets are read with every flaw."""
    os.mkfifo(tmp_path / "odd.json")
    project = Project(tmp_path, servers, "")
    plan = Plan("c", (PlannedChange(Create(topic("t"), {"partitions": 1}), Status.PLANNED),))
    project.write(
        "plan.json", plan_to_json(plan, PlanHeader("0.1.0", None, None, None, "2026-11-01T00:00:00Z"))
    )
    client = f"{{bootstrap.servers: '{servers}', {CLIENTS.get(given, '')}}}"
    text = f"apiVersion: kafkaform/v1\nkind: Config\nclusters: {{dev: {{client: {client}}}}}\n"
    project.write("kafkaform.yaml", text)
    project.topic("a")
    call = project.run(*COMMANDS.get(given, ["plan", "topics"]), env={"GITHUB_TOKEN": "x"}).needs(1)
    assert "odd.json" in call.words
    assert "not a regular file" in call.words


def test_unsuitable_secret_file_is_refused(reason: str) -> None:
    with pytest.raises(UnreadableSecret, match=reason):
        read_secret(Reference("file", "odd.json"))
    token_file = TokenFileSettings(Path("odd.json"))
    with pytest.raises(AuthenticationFailed, match=reason):
        cast("TokenSource", make_token_source(SaslSettings("OAUTHBEARER", tokens=token_file))).token()


def test_submitted_job_refuses_unsuitable_files(reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--out", "x", "--bootstrap-server", "127.0.0.1:1"]
    with pytest.raises(SystemExit):
        submit.run([*arguments, "--policies", "odd.json"])
    assert reason in capsys.readouterr().err
    given = submit.parse_arguments([*arguments, "t", "--command-config", "odd.json"])
    with pytest.raises(JobFailed, match=reason):
        submit.client_properties(given)


def test_spark_and_librdkafka_do_not_open_named_pipes(tmp_path: Path) -> None:
    (tmp_path / "records").mkdir()
    os.mkfifo(tmp_path / "records/a.json")
    call = run_in_process("skew", "--from", "records", cwd=tmp_path).needs(1)
    assert (
        call.said.splitlines()[0] == f"Error: --from records: {tmp_path}/records/a.json is not a regular file"
    )
    os.mkfifo(tmp_path / "ca.pem")
    with pytest.raises(ReadingFailed, match="not a regular file"):
        executor_properties({"ssl.ca.location": str(tmp_path / "ca.pem")}, local=True)


@pytest.mark.parametrize(
    "script",
    [
        '"$@" <(cat t.yaml; head -c 200000 /dev/zero | tr "\\0" "#")',
        'cat t.yaml | "$@" -',
        'cat t.yaml | "$@" /dev/stdin',
    ],
)
def test_pipe_given_on_command_line_is_read(script: str, tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(manifest("orders", {"partitions": 1, "replicationFactor": 1}) + "#")
    shell = ["bash", "-c", script, "bash", *command("validate")]
    done = subprocess.run(shell, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "1 resource: valid.\n"), done


def test_file_without_size_is_read_completely() -> None:
    assert read_file("/proc/self/status").startswith(b"Name:")


OWN_FILES = {
    # Parts of the installed packages.
    "kafkaform/config/starter.py",
    "kafkaform/core/kafka_configs.py",
    "kafkaform/core/schema_files.py",
    "kafkaform/devcluster/jars/cache.py",
    "kafkaform/report/html.py",
    "kafkaform/rules/plugins.py",
    "spark_validation/configuration.py",
    # Files that only kafkaform writes: those of a development cluster, and of Spark's start.
    "kafkaform/devcluster/processes.py",
    "kafkaform/devcluster/state.py",
    "spark_validation/class_archive.py",
    "spark_validation/jvm.py",
}
READERS = {
    "spark_validation/text_files.py",
    "spark_validation/submit.py",
}  # submit: four bytes of a regular file


def test_user_files_are_opened_by_common_readers_only() -> None:
    opening = re.compile(r"\.read_(?:text|bytes)\([^)]|\b(?:[a-z_]+)\.read_bytes\(|[\"']rb[\"']|FileIO")
    modules = (path for room in ("kafkaform", "spark_validation") for path in (ROOT / room).rglob("*.py"))
    found = {str(path.relative_to(ROOT)) for path in modules if opening.search(path.read_text("utf-8"))}
    assert found == OWN_FILES | READERS
