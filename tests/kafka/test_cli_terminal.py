"""Tests at a terminal: questions, colours, progress, widths, Ctrl-C."""

import re
import socket
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.cli.project import ESCAPE, Project, Terminal, plain

QUESTION = "Type yes to apply exactly this: "
CTRL_C, CTRL_D = "\x03", "\x04"


def terminal(project: Project, *arguments: object, **options: object) -> Terminal:
    return Terminal(*project.add_cluster(arguments), cwd=project.folder, **options)  # type: ignore[arg-type]


def test_confirmed_apply_applies_displayed_plan(project: Project) -> None:
    project.topic("a")
    session = terminal(project, "apply", "topics")
    seen = plain(session.wait_for(QUESTION))
    assert f"+ Topic/{project.prefix}a" in seen
    # What comes after the plan was shown is not part of it.
    project.topic("b")
    session.type("yes\n")
    call = session.end().needs(0)
    assert "1 created" in plain(call.out)
    assert set(project.live()) == {"a"}


@pytest.mark.parametrize(
    ("answer", "reason"), [("y\n", "not confirmed"), (CTRL_D, "not confirmed"), (CTRL_C, "interrupted")]
)
def test_unconfirmed_apply_changes_nothing(project: Project, answer: str, reason: str) -> None:
    project.topic("a")
    session = terminal(project, "apply", "topics")
    session.wait_for(QUESTION)
    session.type(answer)
    call = session.end().needs(1)
    assert plain(call.out).splitlines()[-1] == f"Error: {reason}; nothing was applied"
    assert project.live() == {}


def test_destructive_apply_is_confirmed_by_the_cluster_name(project: Project) -> None:
    project.config()
    project.topic("a", retention="7d")
    project.apply().needs(0)
    project.topic("a", retention="1d")
    arguments = ["apply", "--allow", "Topic/*:retention-cut"]
    for answer, code in {"yes": 1, "dev": 0}.items():
        assert project.live()["a"]["retention.ms"] == "604800000"
        session = terminal(project, *arguments)
        session.wait_for("This destroys data. Type the cluster's name (dev) to apply it: ")
        session.type(f"{answer}\n")
        session.end().needs(code)
    assert project.live()["a"]["retention.ms"] == "86400000"


def test_colours_are_used_on_terminal_only(project: Project) -> None:
    project.topic("a")
    assert ESCAPE in terminal(project, "plan", "topics").end().needs(0).out
    assert ESCAPE not in terminal(project, "nope", env={"TERM": "dumb"}).end().needs(64).out
    # It shows the plan, too.
    plain_apply = ("apply", "topics", "--auto-approve")
    assert ESCAPE not in terminal(project, *plain_apply, env={"NO_COLOR": "1"}).end().needs(0).out
    assert ESCAPE in terminal(project, "nope").end().needs(64).out
    assert ESCAPE not in project.run("plan", "topics").both


def test_force_color_enables_colours_without_terminal(project: Project) -> None:
    project.topic("a")
    forced = {"FORCE_COLOR": "1"}
    for call in (
        project.process("plan", "topics", env=forced).needs(0).out,
        project.run("doctor", env=forced).out,
        project.run("nope", env=forced).needs(64).err,
        project.run("plan", "topics", env={**forced, "TERM": "dumb"}).needs(0).out,
    ):
        assert ESCAPE in call
    # What moves a cursor is no colour, and a document has none.
    applied = project.run("apply", "topics", "--auto-approve", env=forced).needs(0)
    assert not re.search(r"\x1b\[[^m]*[A-Zh-l]", applied.both)
    assert ESCAPE not in project.run("plan", "topics", "--format", "markdown", env=forced).needs(0).out
    assert ESCAPE not in project.run("plan", "topics", env={**forced, "NO_COLOR": "1"}).needs(0).both
    none = {"FORCE_COLOR": "0"}
    assert ESCAPE not in terminal(project, "plan", "topics", env=none).end().needs(0).out


def test_progress_and_questions_are_on_stderr_only(project: Project) -> None:
    project.topic("a")
    with tempfile.TemporaryFile("w+") as file:
        session = terminal(project, "apply", "topics", "--format", "json", stdout=file.fileno())
        seen = session.wait_for(QUESTION)
        assert f"Topic/{project.prefix}a" in plain(seen)
        session.type("yes\n")
        session.end().needs(0)
        file.seek(0)
        assert file.read().startswith('{\n  "format_version"')
    assert "Applying" in plain(session.seen), "the bar is on the terminal"


def test_ctrl_c_while_connecting_ends_apply(tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        project = Project(tmp_path, f"127.0.0.1:{silent.getsockname()[1]}", "x.")
        project.topic("a")
        session = terminal(project, "apply", "topics", "--auto-approve")
        connection, _ = silent.accept()
        with connection:
            session.type(CTRL_C)
            call = session.end().needs(1)
    assert plain(call.out).splitlines()[-1].startswith("Error: interrupted")
