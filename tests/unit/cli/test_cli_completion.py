"""Completion: what a shell is told, and that nothing else comes out of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.cli_helpers import environment, manifest

SPEC = {"partitions": 1, "replicationFactor": 1}
GROUP = """
apiVersion: kafkaform/v1
kind: ConsumerGroup
metadata: {name: orders-reader}
spec: {topics: [orders]}
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    clusters = {name: {"client": {"bootstrap.servers": "h:1"}} for name in ("east", "west", "$(touch x)")}
    config = {"apiVersion": "kafkaform/v1", "kind": "Config", "environments": ["dev", "prod"]}
    policies = [{"name": "team", "message": "m", "require": {"labels": ["team"]}}]
    text = yaml.safe_dump(config | {"clusters": clusters, "policies": policies})
    (tmp_path / "kafkaform.yaml").write_text(text, "utf-8")
    topics = tmp_path / "topics"
    topics.mkdir()
    for name in ("orders", "payments", "orders; touch x"):
        (topics / f"{name[:8]}{len(name)}.yaml").write_text(manifest(name, SPEC), "utf-8")
    (topics / "group.yaml").write_text(GROUP, "utf-8")
    (topics / "unfinished.yaml").write_text(manifest("orders.draft", {"partitons": 1}), "utf-8")
    (topics / "broken.yaml").write_text("kind: [\n", "utf-8")
    return tmp_path


def completed(folder: Path, words: str) -> list[str]:
    """What bash is offered in the place of the last of these words."""
    variables = {
        "_KAFKAFORM_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    code = (
        "import atexit, sys\n"
        "heavy = ('confluent_kafka', 'kafka', 'pyspark', 'numpy')\n"
        "atexit.register(lambda: sys.stderr.write(''.join(n for n in heavy if n in sys.modules)))\n"
        "from kafkaform.cli.main import main; main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=environment(**variables),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return [line.removeprefix("plain,") for line in done.stdout.splitlines() if line]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("kafkaform pl", ["plan"]),
        ("kafkaform plan --cluster ", ["east", "west"]),
        ("kafkaform status --cluster w", ["west"]),
        ("kafkaform plan -e ", ["dev", "prod"]),
        ("kafkaform validate --environment p", ["prod"]),
        ("kafkaform plan --target ", ["ConsumerGroup/orders-reader", "Topic/orders", "Topic/orders.draft"]),
        ("kafkaform plan --target Topic/p", ["Topic/payments"]),
        ("kafkaform get topic o", ["orders", "orders.draft"]),
        ("kafkaform get groups o", ["orders-reader"]),
        ("kafkaform reset o", ["orders-reader"]),
        ("kafkaform client-config o", ["orders-reader"]),
        ("kafkaform skew p", ["payments"]),
        ("kafkaform status orders", ["orders", "orders-reader", "orders.draft"]),
        ("kafkaform history Topic/pay", ["Topic/payments"]),
        ("kafkaform compare east w", ["west"]),
        ("kafkaform compare --environments d", ["dev"]),
        ("kafkaform rules KF11", [f"KF11{digit}" for digit in range(7)]),
        ("kafkaform rules policy/", ["policy/team"]),
        ("kafkaform doctor --rule KF10", []),
        ("kafkaform doctor --rule KF303", ["KF303"]),
        ("kafkaform nonsense x", []),
        ("kafkaform plan --config none.yaml --cluster ", []),
    ],
)
def test_what_is_offered(repository: Path, words: str, offered: list[str]) -> None:
    found = completed(repository, words)
    if words.endswith("--target "):
        found.remove("Topic/payments")
    assert found == offered


@pytest.mark.parametrize(
    "config", [None, "kind: [", "apiVersion: kafkaform/v1\nkind: Config\nclusters: {a: {}}\n"]
)
def test_nothing_is_offered_and_nothing_is_said_of_what_is_wrong(tmp_path: Path, config: str | None) -> None:
    if config is not None:
        (tmp_path / "kafkaform.yaml").write_text(config, "utf-8")
    for words in ("kafkaform plan --cluster ", "kafkaform get topic ", "kafkaform plan --target T"):
        assert completed(tmp_path, words) == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell(repository: Path, shell: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kafkaform"],
        cwd=repository,
        env=environment(_KAFKAFORM_COMPLETE=f"{shell}_source"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert f"_KAFKAFORM_COMPLETE={shell}_complete" in done.stdout
