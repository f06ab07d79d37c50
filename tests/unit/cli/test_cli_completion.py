"""Completion: what a shell is told, and that nothing else comes out of it."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from kafkaform.cli.main import run
from tests.support.cli.project import Project, environment, run_in_process

Completed = Callable[[Path, str], list[str]]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    project = Project(tmp_path, "h:1", "")
    cluster: dict[str, Any] = {"client": {"bootstrap.servers": "h:1"}}
    clusters = dict.fromkeys(("west", "$(touch x)"), cluster)
    clusters["east"] = {**cluster, "labels": {"region": "eu"}}
    policies = [{"name": "team", "message": "m", "require": {"labels": ["team"]}}]
    project.config(environments=["dev", "prod"], clusters=clusters, policies=policies)
    for name in ("orders", "payments", "orders; touch x"):
        project.topic(name)
    project.group("orders-reader", topics=["orders"])
    project.topic("orders.draft", partitons=1)
    project.write("topics/broken.yaml", "kind: [\n")
    return tmp_path


def steering(words: str) -> dict[str, str]:
    """Return the variables of bash for completing the last of these words."""
    return {
        "_KAFKAFORM_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }


@pytest.fixture
def completed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Completed:
    """Return a function that lists the completions of the last of some words, in a folder."""

    def offer_completions(folder: Path, words: str) -> list[str]:
        monkeypatch.chdir(folder)
        with patch.dict(os.environ, environment(**steering(words)), clear=True), pytest.raises(SystemExit):
            run([])
        out, err = capsys.readouterr()
        assert err == ""
        return [line.removeprefix("plain,") for line in out.splitlines() if line]

    return offer_completions


OFFERED = [
    ("kafkaform pl", ["plan"]),
    ("kafkaform plan --cluster ", ["east", "west"]),
    ("kafkaform plan --clusters ", ["east", "region=eu", "west"]),
    ("kafkaform status --cluster w", ["west"]),
    ("kafkaform plan -e ", ["dev", "prod"]),
    ("kafkaform validate --environment p", ["prod"]),
    ("kafkaform plan --target ", ["ConsumerGroup/orders-reader", "Topic/orders", "Topic/orders.draft"]),
    ("kafkaform plan --target Topic/p", ["Topic/payments"]),
    ("kafkaform get q", ["quota", "quotas"]),
    ("kafkaform get Topic/p", ["Topic/payments"]),
    ("kafkaform get topic o", ["orders", "orders.draft"]),
    ("kafkaform get groups o", ["orders-reader"]),
    ("kafkaform reset o", ["orders-reader"]),
    ("kafkaform client-config o", ["orders-reader"]),
    ("kafkaform skew p", ["payments"]),
    ("kafkaform status orders", ["orders", "orders-reader", "orders.draft"]),
    ("kafkaform history Topic/pay", ["Topic/payments"]),
    ("kafkaform compare east w", ["west"]),
    ("kafkaform compare --environments d", ["dev"]),
    ("kafkaform rules KF11", [f"KF11{digit}" for digit in range(10)]),
    ("kafkaform rules policy/", ["policy/team"]),
    ("kafkaform doctor --rule KF10", []),
    ("kafkaform doctor --rule KF303", ["KF303"]),
    ("kafkaform nonsense x", []),
    ("kafkaform plan --config none.yaml --cluster ", []),
]


@pytest.mark.parametrize(("words", "offered"), OFFERED)
def test_completion_offers_expected_words(
    repository: Path, completed: Completed, words: str, offered: list[str]
) -> None:
    found = completed(repository, words)
    if words.endswith("--target "):
        found.remove("Topic/payments")
    assert found == offered


def test_completion_imports_no_client(repository: Path) -> None:
    """All of it in one process, which must not have imported any at its end."""
    code = (
        "import contextlib, json, os, sys\n"
        "from kafkaform.cli.main import run\n"
        "for steering in json.loads(sys.stdin.read()):\n"
        "    os.environ |= steering\n"
        "    with contextlib.suppress(SystemExit):\n"
        "        run([])\n"
        "heavy = ('confluent_kafka', 'kafka', 'pyspark', 'numpy')\n"
        "print([name for name in heavy if name in sys.modules])\n"
    )
    given = json.dumps([steering(words) for words, _ in OFFERED])
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd=repository, env=environment(), input=given, capture_output=True, text=True, check=True
    )
    *lines, imported = done.stdout.splitlines()
    assert (imported, done.stderr) == ("[]", "")
    assert "plain,Topic/payments" in lines


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script_is_printed_for_shell(repository: Path, shell: str) -> None:
    call = run_in_process("completion", shell, cwd=repository).needs(0)
    assert call.err == ""
    assert f"_KAFKAFORM_COMPLETE={shell}_complete" in call.out
