"""The command line's frame: help, wrong usage, entry points, and outputs that go away."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from kafkaform import __version__
from kafkaform.cli.main import COMMANDS, cli
from kafkaform.cli.options import SECTIONS
from kafkaform.core.model import Create, FieldChange, ResourceRef, Status, Update
from kafkaform.core.plans import Plan, PlannedChange
from kafkaform.plan.plan_file import plan_to_json
from kafkaform.plan.plan_header import PlanHeader
from tests.support.cli.project import BIN, ROOT, command, environment, kafkaform

HEAVY = ("confluent_kafka", "kafka", "pyspark", "numpy", "pyarrow", "yaml", "rich", "jsonschema")


@pytest.fixture
def plan_file(tmp_path: Path) -> Path:
    """A saved plan; its text has characters beyond ASCII."""
    changes = [
        PlannedChange(
            Update(ResourceRef("Topic", f"orders.{n:04}"), "id", (FieldChange("partitions", 3, 6, 3, 6),)),
            Status.PLANNED,
        )
        for n in range(500)
    ]
    new = PlannedChange(Create(ResourceRef("Topic", "new"), {"partitions": 1}), Status.PLANNED)
    header = PlanHeader("1.0", None, "dev", None, "2025-06-01T12:00:00Z")
    file = tmp_path / "plan.json"
    file.write_text(plan_to_json(Plan("cluster", (new, *changes)), header), "utf-8")
    return file


def commands() -> Iterator[tuple[str, click.Command]]:
    for name in COMMANDS:
        found = cli.get_command(click.Context(cli), name)
        assert found is not None
        yield name, found
        if isinstance(found, click.Group):
            yield from ((f"{name} {part}", below) for part, below in found.commands.items())


def test_long_help_has_sections_in_80_columns() -> None:
    long = []
    for name, found in commands():
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
        if not {*SECTIONS}.isdisjoint(titles):
            long.append(name)
            assert titles[-1] == "Output", name
            assert titles == [title for title in ("Examples", "Options", *SECTIONS) if title in titles]
    assert {"plan", "apply", "drift", "reset", "skew"} <= {*long}
    for name in ("plan", "apply"):
        text = kafkaform(name, "--help", cwd=ROOT).needs(0).out
        assert "\nOptions:\n" not in text, "each option of theirs is in a section: see SECTIONS"


def test_commands_are_documented() -> None:
    """Help lists commands without importing them, so it keeps their first lines by itself."""
    for name, (_, summary) in COMMANDS.items():
        found = cli.get_command(click.Context(cli), name)
        assert found is not None
        assert (found.help or "").splitlines()[0] == summary
        assert len(summary) <= 61, "the list of commands has a line each in 80 columns"


def test_help_imports_no_clients() -> None:
    script = (
        "import sys; from kafkaform.cli.main import run\n"
        f"def show(): print('imported', *[name for name in {HEAVY} if name in sys.modules])\n"
        "run(['--help']); run(['--version']); show()\n"
        "for command in 'plan', 'apply', 'skew': run([command, '--help'])\n"
        "show()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    first, second = (line.split()[1:] for line in done.stdout.splitlines() if line.startswith("imported"))
    assert first == []
    assert not {"confluent_kafka", "kafka", "pyspark", "numpy", "pyarrow"} & {*second}
    assert "--what-if" in done.stdout


def test_module_and_script_are_entry_points(tmp_path: Path) -> None:
    for start in (command(), [str(BIN / "kafkaform")]):
        done = subprocess.run([*start, "--version"], cwd=tmp_path, capture_output=True, text=True, check=True)
        assert done.stdout == f"kafkaform, version {__version__}\n"
        wrong = subprocess.run([*start, "nope"], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert wrong.returncode == 64


def write_to(stdout: int, folder: Path, *arguments: object) -> tuple[str, int]:
    done = subprocess.run(
        command(*arguments),
        cwd=folder,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        env=environment(),
    )
    return done.stderr, done.returncode


@pytest.mark.parametrize("arguments", [["show", "plan.json"], ["--help"]])
def test_closed_pipe_is_not_reported(arguments: list[str], plan_file: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        assert write_to(write, plan_file.parent, *arguments) == ("", 1)
    finally:
        os.close(write)


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&-"])
def test_closed_standard_streams_are_not_reported(closed: str, plan_file: Path) -> None:
    done = subprocess.run(
        ["bash", "-c", f'exec "$0" "$@" {closed}', *command("show", plan_file)],
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_full_disk_is_single_error_line(plan_file: Path) -> None:
    for output_format in ("text", "json"):
        with open("/dev/full", "w") as full:  # noqa: PTH123 - not a path of a file
            outcome = write_to(full.fileno(), plan_file.parent, "show", plan_file, "--format", output_format)
        assert outcome == ("Error: the output: No space left on device\n", 1)


def test_ascii_output_escapes_arrow(plan_file: Path) -> None:
    shown = kafkaform("show", plan_file, cwd=plan_file.parent, env={"PYTHONIOENCODING": "ascii"})
    assert r"3 \u2192 6" in shown.needs(0).out
