"""Entry points, and outputs that go away."""

import os
import subprocess
from pathlib import Path

import pytest

from kafkaform import __version__
from kafkaform.core.model import FieldChange, ResourceRef, Status, Update
from kafkaform.core.plans import Plan, PlannedChange
from kafkaform.plan.plan_file import plan_to_json
from kafkaform.plan.plan_header import PlanHeader
from tests.support.cli.project import BIN, command, environment, kafkaform


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
    header = PlanHeader("1.0", None, "dev", None, "2025-06-01T12:00:00Z")
    file = tmp_path / "plan.json"
    file.write_text(plan_to_json(Plan("cluster", tuple(changes)), header), "utf-8")
    return file


def test_module_and_script_are_entry_points(tmp_path: Path) -> None:
    for start in (command(), [str(BIN / "kafkaform")]):
        done = subprocess.run([*start, "--version"], cwd=tmp_path, capture_output=True, text=True, check=True)
        assert done.stdout == f"kafkaform, version {__version__}\n"
        wrong = subprocess.run([*start, "nope"], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert wrong.returncode == 64


def test_closed_pipe_is_not_reported(plan_file: Path) -> None:
    for arguments in (["show", plan_file], ["--help"]):
        read, write = os.pipe()
        os.close(read)
        with os.fdopen(write, "w") as closed:
            done = subprocess.run(
                command(*arguments), stdout=closed, stderr=subprocess.PIPE, check=False, env=environment()
            )
        assert (done.returncode, done.stderr) == (1, b"")


FULL = "Error: the output: No space left on device\n"


@pytest.mark.parametrize(
    ("redirection", "error"),
    [
        (">&-", ""),
        ("2>&-", ""),
        (">&- 2>&-", ""),
        ("<&-", ""),
        (">/dev/full", FULL),
        ("--format json >/dev/full", FULL),
    ],
)
def test_only_full_disk_is_reported_in_one_line(redirection: str, error: str, plan_file: Path) -> None:
    shell = ["bash", "-c", f'exec "$0" "$@" {redirection}', *command("show", plan_file)]
    done = subprocess.run(shell, capture_output=True, text=True, check=False, env=environment())
    assert (done.returncode, done.stderr) == (int(bool(error)), error)


def test_ascii_output_escapes_arrow(plan_file: Path) -> None:
    shown = kafkaform("show", plan_file, cwd=plan_file.parent, env={"PYTHONIOENCODING": "ascii"})
    assert r"3 \u2192 6" in shown.needs(0).out
