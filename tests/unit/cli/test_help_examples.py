"""The examples of the help are run, in a project whose cluster is in memory."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from kafkaform.cli.examples import EXAMPLES
from tests.support.cli.memory_program import use_memory
from tests.support.cli.project import Call, Project, manifest, run_in_process

_SPARK = "needs Spark; tests/spark/test_cli_skew.py has one"
_FORGE = "needs GitHub or GitLab; test_cli_github.py and test_cli_gitlab.py have one"
_KAFKA = "starts or needs a real Kafka; tests/docs/test_cli_docs.py has one"
PARSED_ONLY: dict[str, str] = {
    "agent": "follows a branch until it is stopped; test_cli_agent.py runs it",
    "ci comment": _FORGE,
    "ci issue": _FORGE,
    "ci reviewed-plan": _FORGE,
    "skew": _SPARK,
    "dev up": _KAFKA,
    "dev down": _KAFKA,
    "dev status": _KAFKA,
    "dev logs": _KAFKA,
    "dev run": _KAFKA,
    "arrivals": "asks leaders on its own connections; tests/kafka/test_cli_arrivals.py runs it",
    "revert": "needs the id of an apply; tests/unit/cli/test_cli_revert.py has one",
    "succession orders.v2 --format json": "needs a succession; tests/kafka/test_cli_succession.py has one",
    "validate --watch": "runs until Ctrl-C; test_cli_validate.py stops it",
}
"""Commands, or single examples, that are only parsed (test_help.py), and why."""
RUN = [
    example
    for name, examples in EXAMPLES.items()
    for example in examples
    if name not in PARSED_ONLY and example not in PARSED_ONLY
]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A repository with a commit whose manifests were applied, and the files that examples name."""
    use_memory(monkeypatch, brokers=3)
    project = Project(tmp_path, "127.0.0.1:1", "")
    client = {"bootstrap.servers": project.servers}
    project.config(clusters={name: {"client": client, "environment": name} for name in ("prod", "staging")})
    project.write(
        "topics/orders.yaml",
        manifest("orders.v1", {"partitions": 1, "replicationFactor": 1}, {"labels": {"team": "checkout"}}),
    )
    project.group("billing", topics=["orders.v1"], offsets={"initial": "earliest"})
    rights = {"principals": ["User:checkout"], "produces": ["orders.v1"], "consumes": [{"group": "billing"}]}
    project.write("topics/access.yaml", manifest("checkout", rights, kind="Access"))
    project.write(
        "kafka-topics.yaml",
        "apiVersion: kafka.strimzi.io/v1beta2\nkind: KafkaTopic\nmetadata: {name: a}\n"
        "spec: {partitions: 1, replicas: 1}\n",
    )
    run(project, "apply --auto-approve --allow destructive").needs(0)
    for command in ("init -q -b main", "add .", "-c user.name=a -c user.email=a@b commit -q -m a"):
        subprocess.run(["git", *command.split()], cwd=tmp_path, check=True)
    run(project, "plan --out plan.json").needs(0)
    run(project, "reset billing --to earliest --out reset.json").needs(0)
    return project


def run(project: Project, line: str) -> Call:
    return run_in_process(*shlex.split(line), cwd=project.folder, env={"KAFKAFORM_CLUSTER": "prod"})


@pytest.mark.parametrize("example", RUN)
def test_example_runs(project: Project, example: str) -> None:
    # There is no terminal to confirm on.
    extra = " --auto-approve" if example.startswith("apply") else ""
    run(project, example + extra).needs(0)


def test_parsed_only_examples_are_documented() -> None:
    assert PARSED_ONLY.keys() <= {*EXAMPLES, *(each for examples in EXAMPLES.values() for each in examples)}
