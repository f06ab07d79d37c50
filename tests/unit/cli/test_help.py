"""The help: commands by section, examples that are valid, and the connection in one line."""

from __future__ import annotations

import shlex

import click
import pytest

from kafkaform.cli.examples import EXAMPLES
from kafkaform.cli.main import COMMANDS, OTHER_NAMES, SECTIONS, cli, run
from kafkaform.cli.options import CONNECTION
from scripts.generate_docs import list_commands
from tests.support.cli.command_lines import parse

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
