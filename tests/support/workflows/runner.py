"""Running this repository's workflows on this machine: every `run:` as it stands, one job after another.

What GitHub does around them is done here: environments and their secrets, the rights of the token,
expressions, conditions, outputs, summaries, and the commands in a log.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tests.support.cli.project import ROOT
from tests.support.github.server import REPOSITORY, TOKEN
from tests.support.workflows.expressions import Contexts, holds, interpolate
from tests.support.workflows.machine import Done, Event, Machine

WORKFLOWS = ROOT / ".github" / "workflows"
_OWN = "$/"
_COMMAND = re.compile(r"^\s*::(?P<name>[a-z-]+)(?: (?P<properties>.*?))?::(?P<message>.*)$")
_OLD_COMMAND = re.compile(r"##\[(?P<name>[a-z-]+)(?P<properties>)[^\]]*\](?P<message>.*)")
_RESULTS = {True: "success", False: "failure"}
_ids = itertools.count(9_000)


def load(file: Path) -> dict[str, Any]:
    """A file in YAML 1.2, where `on` is a text, and not true."""
    loaded: dict[str, Any] = YAML(typ="safe").load(file.read_text("utf-8"))
    return loaded


@dataclass(frozen=True)
class Command:
    """A line of a log that GitHub acts on."""

    name: str
    properties: str
    message: str


@dataclass
class Step:
    """A step of a job; `environ` is what it was given beside what every step has."""

    name: str
    outcome: str = "skipped"
    environ: Mapping[str, str] = field(default_factory=dict)
    log: str = ""


@dataclass
class Job:
    """What became of a job."""

    result: str = "skipped"
    outputs: dict[str, str] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    summary: str = ""

    @property
    def log(self) -> str:
        return "".join(step.log for step in self.steps)

    @property
    def commands(self) -> list[Command]:
        return [command for step in self.steps for command in _commands(step.log)]


@dataclass
class Run:
    """A run of a workflow."""

    id: int
    file: str
    artifacts: dict[str, Path] = field(default_factory=dict)
    jobs: dict[str, Job] = field(default_factory=dict)

    @property
    def results(self) -> dict[str, str]:
        return {name: job.result for name, job in self.jobs.items()}

    @property
    def log(self) -> str:
        return "".join(job.log for job in self.jobs.values())

    @property
    def summary(self) -> str:
        return "".join(job.summary for job in self.jobs.values())


@dataclass(frozen=True)
class Runner:
    """What runs workflows.

    Attributes:
        folder: Where the machines are.
        url: The repository that the workflows belong to.
        secrets: Of each GitHub environment.
        environ: What the machines have in their environment besides.
        grant: Told which rights the token has from now on.
    """

    folder: Path
    url: str
    secrets: dict[str, dict[str, str]]
    environ: Mapping[str, str]
    grant: Callable[[Mapping[str, str]], None]

    def run(self, file: str, event: Event, inputs: Mapping[str, str] | None = None) -> Run:
        """Run a workflow for an event; with `inputs`, as one that another workflow calls."""
        workflow = load(WORKFLOWS / file)
        assert ("workflow_call" if inputs else event.name) in workflow["on"]
        run = Run(next(_ids), file)
        for name, job in workflow["jobs"].items():
            run.jobs[name] = _Course(self, run, event, workflow, name, job, inputs or {}).run()
        return run


@dataclass
class _Course:
    """The course of one job."""

    runner: Runner
    of: Run
    event: Event
    workflow: Mapping[str, Any]
    name: str
    job: Mapping[str, Any]
    inputs: Mapping[str, str]
    result: Job = field(default_factory=Job)
    failed: bool = False
    outputs: dict[str, Any] = field(default_factory=dict)

    def run(self) -> Job:
        early = {"github": self._github(), "inputs": self.inputs, "needs": self._needed()}
        # GitHub offers no more than these in each of these places.
        interpolate(self.workflow["concurrency"]["group"], Contexts(early, {}))
        if not holds(self.job.get("if"), Contexts(early, self._status(self._failed_before()))):
            return self.result
        self.runner.grant(self.job["permissions"])
        secrets = self.runner.secrets.get(interpolate(self.job.get("environment"), Contexts(early, {})), {})
        wide = {**early, "secrets": {**secrets, "GITHUB_TOKEN": TOKEN}}
        said = {**self.workflow.get("env", {}), **self.job.get("env", {})}
        env = {name: interpolate(value, Contexts(wide, {})) for name, value in said.items()}
        self.contexts = {**wide, "runner": {"os": "Linux", "arch": "X64"}}
        given = {"GITHUB_REPOSITORY": REPOSITORY, "GITHUB_RUN_ID": str(self.of.id), **self.runner.environ}
        folder = self.runner.folder / f"{self.of.id}-{self.name}"
        self.machine = Machine(folder, self.event, self.runner.url, self.of.artifacts, given)
        for step in self.job["steps"]:
            self._step(step, env, self.outputs)
        self.result.result = _RESULTS[not self.failed]
        done = Contexts({**self.contexts, "steps": self.outputs}, {})
        wanted = self.job.get("outputs", {}).items()
        self.result.outputs |= {name: interpolate(value, done) for name, value in wanted}
        return self.result

    def _github(self) -> dict[str, Any]:
        return {
            "event": self.event.payload,
            "event_name": self.event.name,
            "repository": REPOSITORY,
            "sha": self.event.sha,
            "token": TOKEN,
        }

    def _needed(self) -> dict[str, Any]:
        names = self.job.get("needs", ())
        return {
            name: {"result": self.of.jobs[name].result, "outputs": _Outputs(self.of.jobs[name].outputs)}
            for name in ([names] if isinstance(names, str) else names)
        }

    def _failed_before(self) -> bool:
        return any(needed["result"] != "success" for needed in self._needed().values())

    def _status(self, failed: bool) -> dict[str, bool]:
        return {"success": not failed, "failure": failed, "cancelled": False, "always": True}

    def _step(
        self,
        step: Mapping[str, Any],
        env: Mapping[str, str],
        outputs: dict[str, Any],
        inputs: Mapping[str, str] | None = None,
    ) -> None:
        """Run a step: of the job or, with `inputs`, of an action that is part of this repository."""
        values = {**self.contexts, "env": {**env, **self.machine.added}, "steps": outputs}
        if inputs is not None:
            values["inputs"] = inputs
        result = Step(str(step.get("name", step.get("id", step.get("uses")))))
        self.result.steps.append(result)
        if not holds(step.get("if"), Contexts(values, self._status(self.failed))):
            return
        at = Contexts(values, {})
        own = {key: interpolate(value, at) for key, value in step.get("env", {}).items()}
        done = self._do(step, at, {**env, **own}, is_composite=inputs is not None)
        result.outcome, result.environ, result.log = _RESULTS[done.ok], {**env, **own}, done.log
        self.result.summary += done.summary
        outputs[step.get("id", "")] = {"outputs": _Outputs(done.outputs)}
        self.failed |= not done.ok and not step.get("continue-on-error", False)

    def _do(
        self, step: Mapping[str, Any], at: Contexts, environ: Mapping[str, str], *, is_composite: bool
    ) -> Done:
        if "run" in step:
            shell = step.get("shell") if is_composite else self.workflow["defaults"]["run"]["shell"]
            assert shell == "bash", f"the shell is {shell}"
            if is_composite and step.get("id") == "install":
                return self.machine.install()
            return self.machine.run(step["run"], step.get("working-directory", "."), environ)
        given = {key: interpolate(value, at) for key, value in step.get("with", {}).items()}
        if not step["uses"].startswith(_OWN):
            return self.machine.use(step["uses"], given, environ)
        folder = ROOT / step["uses"].removeprefix(_OWN)
        action = load(folder / "action.yml")
        assert given.keys() <= action["inputs"].keys()
        inputs = {name: given.get(name, about["default"]) for name, about in action["inputs"].items()}
        outputs: dict[str, Any] = {}
        for inner in action["runs"]["steps"]:
            self._step(inner, {**environ, "GITHUB_ACTION_PATH": str(folder)}, outputs, inputs)
        return Done(not self.failed)


class _Outputs(dict[str, str]):
    """Outputs, of which one that was not set is empty."""

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str)


def _commands(log: str) -> Iterator[Command]:
    """The commands in a log, as GitHub's runner finds them: those of the old form anywhere in a line."""
    word: str | None = None
    for line in log.splitlines():
        if word is not None:
            word = None if line.strip() == f"::{word}::" else word
        elif found := _COMMAND.match(line) or _OLD_COMMAND.search(line):
            if found["name"] == "stop-commands":
                word = found["message"]
            yield Command(found["name"], found["properties"] or "", found["message"])
