"""`kafkaform agent`: it goes on after errors; tests/unit/cli/test_cli_agent.py has what it applies."""

import re
from pathlib import Path

import pytest
import yaml

from tests.support.cli.agent import Team, build_team
from tests.support.cli.project import Project
from tests.support.clusters.fixtures import eventually
from tests.support.github.git_work import run_git
from tests.support.webhook import webhook

DEAD = "127.0.0.1:1"


@pytest.fixture
def team(project: Project, tmp_path: Path) -> Team:
    return build_team(project.servers, project.prefix, tmp_path)


def test_agent_retries_an_unreachable_cluster(team: Team) -> None:
    team.release(a=3)
    config = yaml.safe_load((team.agent.folder / "kafkaform.yaml").read_text())
    prod = config["clusters"]["prod"]
    prod["notify"] = {"url": "${env:HOOK}"}
    with webhook() as hook:
        prod["client"]["bootstrap.servers"] = DEAD
        team.agent.write("kafkaform.yaml", yaml.safe_dump(config))
        call = team.run("--notify", HOOK=hook.url).needs(1)
        assert len(re.findall("^Error: ", call.err, re.MULTILINE)) == 1
        (document,) = hook.received
        assert document["event"] == "apply_failed"
        assert document["commit"] == run_git(team.work.folder, "rev-parse", "HEAD")
        prod["client"]["bootstrap.servers"] = team.work.servers
        team.agent.write("kafkaform.yaml", yaml.safe_dump(config))
        team.run("--notify", HOOK=hook.url).needs(0)
        assert len(hook.received) == 1
    assert "a" in team.work.live()


def test_agent_continues_after_errors(team: Team) -> None:
    arguments = [argument for argument in team.arguments("--interval", "1s") if argument != "--once"]
    process = team.agent.start(*arguments)
    try:
        assert process.stderr is not None
        next(line for line in process.stderr if "cannot fetch" in line)  # the branch is not there yet
        team.release(a=3)
        eventually(team.work.live, lambda topics: "a" in topics)
        assert process.poll() is None
    finally:
        process.terminate()
        process.communicate(timeout=60)
