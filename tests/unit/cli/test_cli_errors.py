"""Tests of errors on the command line: one line, a hint, no secret, no traceback unless asked for."""

from __future__ import annotations

import base64
import os
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from kafkaform.cli.error_handler import ErrorHandler
from kafkaform.cli.main import run
from kafkaform.cli.output import tell
from kafkaform.core.errors import InvalidInput, KafkaformError, Problem
from kafkaform.core.model import Diagnostic, Severity
from kafkaform.core.printable import MAX_LINE_LENGTH
from kafkaform.report.diagnostics import findings_to_github, findings_to_text
from kafkaform.report.findings import ReportedFinding, Workspace
from tests.support.cli.project import Project, run_in_process


@pytest.mark.parametrize("command", ["validate", "plan", "drift", "doctor", "graph", "apply"])
def test_invalid_input_error_mentions_apply_only_for_apply(tmp_path: Path, command: str) -> None:
    project = Project(tmp_path, "127.0.0.1:1", "")
    project.config()
    project.topic("a", partitons=3)
    last = [line for line in project.run(command).needs(1).err.splitlines() if line.startswith("Error: ")][-1]
    assert last == f"Error: 1 problem in the input{'; nothing was applied' if command == 'apply' else ''}"


def test_unreachable_cluster_is_single_error_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Project(tmp_path, "", "x.").topic("a")
    monkeypatch.setattr("kafkaform.cluster.transport.connection.CONNECT_TIMEOUT_S", 1.0)
    with (
        closing(socket.create_server(("127.0.0.1", 0))) as silent,
        closing(socket.create_server(("127.0.0.1", 0))) as refusing,
    ):
        ports = [server.getsockname()[1] for server in (silent, refusing)]
        refusing.close()
        for server in (f"127.0.0.1:{ports[1]}", f"127.0.0.1:{ports[0]}", "no-such-host.invalid:9092"):
            call = run_in_process("plan", "topics", "--bootstrap-server", server, cwd=tmp_path)
            assert f"no broker of {server} answered within 1 s" in call.read_error()[0]
            assert call.said == call.err


def test_unexpected_error_is_single_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("boom \x1b[31m\nsecond line")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("kafkaform.cli.validate.find_settings", broken)
    assert run(["validate"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    error, hint = err.splitlines()
    assert error == r"Error: unexpected RuntimeError: boom \x1b[31m\nsecond line"
    assert "--debug" in hint


@pytest.mark.parametrize("name", ["n" * 9_000, "n " * 4_500], ids=["one word", "many words"])
def test_messages_with_long_names_are_truncated(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    handler = ErrorHandler()
    handler.tell(KafkaformError(f"{name}: no", hint=f"not {name}, but something else"))
    handler.tell(InvalidInput([Problem(f"{name} is not a name", None, f"not {name}")]))
    tell(f"note: {name}: read")
    finding = ReportedFinding(Diagnostic("KF1", Severity.ERROR, f"{name}: no", suggestion=f"not {name}"))
    found = findings_to_text([finding]) + findings_to_github([finding], workspace=Workspace("/", "/"))
    lines = [*capsys.readouterr().err.splitlines(), *found.splitlines()]
    assert len(lines) == 7
    # An annotation has two: the message, and its hint.
    assert max(map(len, lines)) <= 2 * MAX_LINE_LENGTH + 200
    # The sentence around a name without spaces is whole.
    assert " " in name or "but something else" in "\n".join(lines)


SIGNS = """
import logging
from kafkaform.cli.error_handler import ErrorHandler
from kafkaform.cluster.transport.tokens import make_token_source
from kafkaform.config.client_properties.transport import MskIamSettings, SaslSettings

ErrorHandler().debug()
logging.getLogger("a.client").debug("is shown")
print(make_token_source(SaslSettings("OAUTHBEARER", tokens=MskIamSettings("eu-west-1"))).token().value)
"""


def test_debug_output_has_no_aws_credentials() -> None:
    credentials = {
        "AWS_ACCESS_KEY_ID": "a-public-name",
        "AWS_SECRET_ACCESS_KEY": "hunter2",
        "AWS_SESSION_TOKEN": "a-session-4711",
    }
    signed = subprocess.run(
        [sys.executable, "-c", SIGNS],
        env={**os.environ, **credentials},
        capture_output=True,
        text=True,
        check=True,
    )
    token = base64.urlsafe_b64decode(f"{signed.stdout.strip()}==").decode()
    assert "a-session-4711" in token
    signature = token.partition("X-Amz-Signature=")[2].partition("&")[0]
    assert "is shown" in signed.stderr
    for secret in ("hunter2", "a-session-4711", signature):
        assert secret not in signed.stderr
