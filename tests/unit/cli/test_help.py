"""Help and completion: commands by section, examples that run, and what a shell is told."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import click
import pytest

from kafkaform.cli.examples import EXAMPLES
from kafkaform.cli.main import COMMANDS, OTHER_NAMES, SECTIONS, cli, run
from kafkaform.cli.options import CONNECTION
from kafkaform.cli.options import SECTIONS as OPTION_SECTIONS
from scripts.generate_docs import list_commands
from tests.support.cli.command_lines import parse
from tests.support.cli.memory_program import use_memory
from tests.support.cli.project import Call, Project, environment, manifest, run_in_process
from tests.support.github.git_work import Work

NAMES = {" ".join(path[1:]): command for path, command in list_commands() if len(path) > 1}
CALLED = [
    name for name, command in NAMES.items() if not isinstance(command, click.Group) and name != "version"
]


def show(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(arguments) == 0
    return capsys.readouterr().out


def test_every_command_has_examples() -> None:
    assert EXAMPLES.keys() == {*CALLED}


@pytest.mark.parametrize("example", [each for examples in EXAMPLES.values() for each in examples])
def test_example_is_a_valid_command_line(example: str) -> None:
    parse(shlex.split(example), "examples.py")


@pytest.mark.parametrize("name", CALLED)
def test_help_begins_with_examples(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = show(capsys, *name.split(), "--help")
    assert f"kafkaform {EXAMPLES[name][0]}" in shown
    assert shown.index("Examples:") < shown.index("Options" if "Options:" in shown else "--help")
    assert shown.count("--bootstrap-server") <= 1
    assert show(capsys, "help", *name.split()) == shown


@pytest.mark.parametrize(("name", "most"), [("plan", 15), ("apply", 18), ("skew", 18), ("drift", 12)])
def test_commands_have_few_options(name: str, most: int) -> None:
    """Settings of a cluster belong in kafkaform.yaml, not in options."""
    options = {max(each.opts, key=len) for each in NAMES[name].params if isinstance(each, click.Option)}
    assert len(options - CONNECTION.keys()) <= most


def test_main_help_has_every_command_once(capsys: pytest.CaptureFixture[str]) -> None:
    shown = show(capsys, "--help")
    assert (
        [*COMMANDS]
        == [name for names in SECTIONS.values() for name in names]
        == cli.list_commands(click.Context(cli))
    )
    for title, names in SECTIONS.items():
        assert f"\n{title}:\n  {next(iter(names))} " in shown
    assert show(capsys, "help") == shown


def test_connection_help_lists_environment_variables(capsys: pytest.CaptureFixture[str]) -> None:
    shown = show(capsys, "help", "connection")
    variables = ("CONFIG", "CLUSTER", "BOOTSTRAP_SERVER", "COMMAND_CONFIG", "ENVIRONMENT")
    assert all(f"KAFKAFORM_{name}]" in "".join(shown.split()) for name in variables)


def test_alternative_names_refer_to_existing_commands() -> None:
    assert {name.split()[0] for name in OTHER_NAMES.values()} <= COMMANDS.keys()
    assert not OTHER_NAMES.keys() & COMMANDS.keys()


def test_version_options_print_equal_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert len({show(capsys, option) for option in ("--version", "-V", "version")}) == 1


CLIENTS = {"confluent_kafka", "kafka", "pyspark", "numpy", "pyarrow"}
HEAVY = CLIENTS | {"yaml", "rich", "jsonschema"}


def test_long_help_has_sections_in_80_columns() -> None:
    long = []
    for name, found in NAMES.items():
        context = click.Context(
            found, info_name=f"kafkaform {name}", terminal_width=80, max_content_width=100
        )
        text = found.get_help(context)
        assert max(map(len, text.splitlines())) <= 80, name
        # Marks of click and of docstrings that were meant for a program.
        assert not re.search(r"[^\n -~…]|\\|^ *(Args|Returns|Raises|Yields):|%\(", text, re.MULTILINE), name
        listed, _, connection = text.partition("\nCluster and configuration (")
        _, *sections = re.split(r"^\w.*:$", listed, flags=re.MULTILINE)
        shown = re.findall(r"^  (?:-\w, )?(--[\w-]+)", "".join(sections), re.MULTILINE)
        shown += re.findall(r"(?<![\w-])--[\w-]+", connection)
        options = [option for option in found.get_params(context) if isinstance(option, click.Option)]
        assert len(shown) == len(options), name
        assert all(len({*shown} & {*option.opts}) == 1 for option in options), name
        titles = re.findall(r"^(\w.*):$", listed, re.MULTILINE)
        if not {*OPTION_SECTIONS}.isdisjoint(titles):
            long.append(name)
            assert titles[-1] == "Output", name
            assert name not in {"plan", "apply"} or "Options" not in titles
            assert titles == [title for title in ("Examples", "Options", *OPTION_SECTIONS) if title in titles]
    assert {"plan", "apply", "drift", "reset", "skew"} <= {*long}


def test_commands_are_documented() -> None:
    """Help lists commands without importing them, so it keeps their first lines by itself."""
    for name, (_, summary) in COMMANDS.items():
        found = cli.get_command(click.Context(cli), name)
        assert found is not None
        assert (found.help or "").splitlines()[0] == summary
        assert len(summary) <= 61, "the list of commands has a line each in 80 columns"


def list_imported(folder: Path, lines: str, given: str = "") -> tuple[list[str], str]:
    """Return which heavy modules a new process has imported at each `show()`, and what else it printed."""
    script = (
        "import contextlib, json, os, sys; from kafkaform.cli.main import run\n"
        f"def show(): print('imported', *({HEAVY} & sys.modules.keys()))\n"
    )
    command = [sys.executable, "-c", script + lines]
    done = subprocess.run(
        command, cwd=folder, env=environment(), input=given, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return [line for line in done.stdout.splitlines() if line.startswith("imported")], done.stdout


def test_help_imports_no_clients(tmp_path: Path) -> None:
    lines = (
        "run(['--help']); run(['--version']); show()\n"
        "for command in 'plan', 'apply', 'skew': run([command, '--help'])\n"
        "show()"
    )
    (first, second), printed = list_imported(tmp_path, lines)
    assert first == "imported"
    assert not CLIENTS & {*second.split()}
    assert "--what-if" in printed


_SPARK = "needs Spark; tests/spark/test_cli_skew.py has one"
_FORGE = "needs GitHub or GitLab; test_cli_ci.py has one"
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
    "arrivals": "asks leaders on its own connections; tests/kafka/test_cli_skew.py runs it",
    "revert": "needs the id of an apply; tests/unit/cli/test_cli_history.py has one",
    "succession orders.v2 --format json": "needs a succession; tests/kafka/test_cli_succession.py has one",
    "validate --watch": "runs until Ctrl-C; test_cli_validate.py stops it",
}
"""Commands, or single examples, that are only parsed, and why."""
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
    run_example(project, "apply --auto-approve --allow destructive").needs(0)
    Work(tmp_path).commit()
    run_example(project, "plan --out plan.json").needs(0)
    run_example(project, "reset billing --to earliest --out reset.json").needs(0)
    return project


def run_example(project: Project, line: str) -> Call:
    return run_in_process(*shlex.split(line), cwd=project.folder, env={"KAFKAFORM_CLUSTER": "prod"})


@pytest.mark.parametrize("example", RUN)
def test_example_runs(project: Project, example: str) -> None:
    # There is no terminal to confirm on.
    extra = " --auto-approve" if example.startswith("apply") else ""
    run_example(project, example + extra).needs(0)


def test_parsed_only_examples_are_documented() -> None:
    assert PARSED_ONLY.keys() <= {*EXAMPLES, *(each for examples in EXAMPLES.values() for each in examples)}


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
    lines = (
        "for steering in json.loads(sys.stdin.read()):\n"
        "    os.environ |= steering\n"
        "    with contextlib.suppress(SystemExit):\n"
        "        run([])\n"
        "show()"
    )
    (imported,), printed = list_imported(
        repository, lines, json.dumps([steering(words) for words, _ in OFFERED])
    )
    assert not CLIENTS & {*imported.split()}
    assert "plain,Topic/payments" in printed


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script_is_printed_for_shell(repository: Path, shell: str) -> None:
    call = run_in_process("completion", shell, cwd=repository).needs(0)
    assert call.err == ""
    assert f"_KAFKAFORM_COMPLETE={shell}_complete" in call.out
