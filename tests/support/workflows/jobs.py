"""The jobs of this repository's workflows on this machine: every `run:` as it stands, one job after another.

Environments and their secrets, rights of the token, outputs, summaries and artifacts are as on GitHub. There
is no evaluator of expressions: a value is a name, perhaps with a default, and each condition is listed below
with its meaning. actionlint checks that the expressions are valid.
"""

import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from ruamel.yaml import YAML

from tests.support.cli.project import ROOT
from tests.support.github.server import REPOSITORY, TOKEN

WORKFLOWS = ROOT / ".github" / "workflows"
SERVER = "https://github.example"
EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}", re.DOTALL)
_NAME = re.compile(r"([\w.-]+)(?: \|\| '([^']*)')?")
_OWN_REPOSITORY = (
    "github.event_name == 'pull_request_target' && "
    "github.event.pull_request.head.repo.full_name == github.repository"
)
_CONDITIONS: dict[str, Callable[[Mapping[str, str]], bool]] = {
    "": lambda _: True,
    "!cancelled()": lambda _: True,
    "!cancelled() && needs.apply.result != 'skipped'": lambda values: (
        values["needs.apply.result"] != "skipped"
    ),
    "!cancelled() && needs.plan.result != 'skipped'": lambda values: values["needs.plan.result"] != "skipped",
    "steps.plan.outputs.made == 'true'": lambda values: values.get("steps.plan.outputs.made") == "true",
    _OWN_REPOSITORY: lambda values: (
        values["github.event_name"] == "pull_request_target"
        and values["github.event.pull_request.head.repo.full_name"] == REPOSITORY
    ),
}
"""The conditions of the workflows; those without `cancelled()` need the success of what comes before, too."""
_COMMAND = re.compile(r"^\s*::(?P<name>[a-z-]+)(?: (?P<properties>.*?))?::(?P<message>.*)$")
_OLD_COMMAND = re.compile(r"##\[(?P<name>[a-z-]+)(?P<properties>)[^\]]*\](?P<message>.*)")
_FILES = ("GITHUB_ENV", "GITHUB_OUTPUT", "GITHUB_PATH", "GITHUB_STEP_SUMMARY")
_INHERITED = ("LANG", "LC_ALL", "TZ", "JAVA_HOME", "PATH")
_LIMIT_S = 500
_CONSOLE_SCRIPT = f"""\
#!{sys.executable}
import sys

if sys.argv[1:2] == ["ci"]:
    from kafkaform.vcs.forge import client, publishing

    client._BETWEEN_WRITES_S = 0.0
    publishing.sleep = lambda seconds: None
from kafkaform.__main__ import main

sys.exit(main())
"""
"""The console script, without the pauses between requests to GitHub."""
_run_ids = itertools.count(9_000)


def load(file: Path) -> dict[str, Any]:
    """Read a file in YAML 1.2, where `on` is a text, and not true."""
    loaded: dict[str, Any] = YAML(typ="safe").load(file.read_text("utf-8"))
    return loaded


@dataclass(frozen=True)
class Event:
    """The event that a workflow runs for: its name, the commit, and the payload."""

    name: str
    sha: str
    payload: Mapping[str, Any] = field(default_factory=dict)
    ref: str = "refs/heads/main"


class Command(NamedTuple):
    """A line of a log that GitHub acts on."""

    name: str
    properties: str
    message: str


@dataclass(frozen=True)
class Step:
    """A step that was run; `environ` is what it has beside what every step has."""

    ok: bool = True
    log: str = ""
    outputs: Mapping[str, str] = field(default_factory=dict)
    summary: str = ""
    name: str = ""
    environ: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Job:
    """The result of a job."""

    result: str = "skipped"
    steps: list[Step] = field(default_factory=list)

    @property
    def log(self) -> str:
        return "".join(step.log for step in self.steps)

    @property
    def commands(self) -> list[Command]:
        return [command for step in self.steps for command in _find_commands(step.log)]


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
        return "".join(step.summary for job in self.jobs.values() for step in job.steps)


@dataclass(frozen=True)
class Runner:
    """The machines of GitHub.

    Attributes:
        folder: Where the machines are.
        url: The repository that the workflows belong to.
        secrets: Of each GitHub environment.
        environ: What the machines have in their environment besides.
        grant: Called with the rights that the token has from now on.
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
        assert workflow["defaults"]["run"]["shell"] == "bash"
        run = Run(next(_run_ids), file)
        values = {f"inputs.{name}": value for name, value in (inputs or {}).items()}
        values |= {f"github.event.{name}": value for name, value in _flatten(event.payload)}
        values |= {"github.event_name": event.name, "github.token": TOKEN, "runner.os": "Linux"}
        for name in workflow["jobs"]:
            run.jobs[name] = self._run_job(run, event, workflow, name, values)
            values[f"needs.{name}.result"] = run.jobs[name].result
        return run

    def _run_job(
        self, run: Run, event: Event, workflow: Mapping[str, Any], name: str, values: dict[str, str]
    ) -> Job:
        job = workflow["jobs"][name]
        needed: str = job.get("needs", "")
        result = Job()
        if not _is_met(job, values, failed=bool(needed) and run.jobs[needed].result != "success"):
            return result
        self.grant(job["permissions"])
        secrets = self.secrets.get(_fill_in(job.get("environment", ""), values), {})
        names = {"KAFKA_USERNAME", "KAFKA_PASSWORD", "KAFKAFORM_SIGN_KEY"}
        local = {**values, **{f"secrets.{secret}": secrets.get(secret, "") for secret in names}}
        env = _fill_in_all({**workflow.get("env", {}), **job.get("env", {})}, local)
        local |= {f"env.{variable}": value for variable, value in env.items()}
        given = {"GITHUB_REPOSITORY": REPOSITORY, "GITHUB_RUN_ID": str(run.id), **self.environ, **env}
        machine = _Machine(self.folder / f"{run.id}-{name}", event, self.url, run.artifacts, given)
        failed = False
        for step in job["steps"]:
            if not _is_met(step, local, failed=failed):
                continue
            environ = _fill_in_all(step.get("env", {}), local)
            done = machine.run_step(step, _fill_in_all(step.get("with", {}), local), environ)
            result.steps.append(replace(done, name=step["name"], environ={**env, **environ}))
            outputs = re.findall(rf"steps\.{step['id']}\.outputs\.(\w+)", str(job)) if "id" in step else ()
            local |= {f"steps.{step['id']}.outputs.{key}": done.outputs.get(key, "") for key in outputs}
            failed |= not done.ok and not step.get("continue-on-error", False)
        for key, value in job.get("outputs", {}).items():
            values[f"needs.{name}.outputs.{key}"] = _fill_in(value, local)
        result.result = "failure" if failed else "success"
        return result


def _flatten(payload: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in payload.items():
        if isinstance(value, Mapping):
            yield from ((f"{name}.{path}", leaf) for path, leaf in _flatten(value))
        else:
            yield name, str(value)


def _is_met(part: Mapping[str, Any], values: Mapping[str, str], *, failed: bool) -> bool:
    condition = str(part.get("if", ""))
    marked = EXPRESSION.fullmatch(condition)
    condition = " ".join((marked[1] if marked else condition).split())
    return (not failed or "cancelled()" in condition) and _CONDITIONS[condition](values)


def _fill_in(text: object, values: Mapping[str, str]) -> str:
    """Return a text with the values of its expressions; an unknown name without a default is an error."""

    def find_value(found: re.Match[str]) -> str:
        name = _NAME.fullmatch(found[1])
        assert name is not None, f"{found[1]!r} is neither a name nor one with a default"
        return values[name[1]] if name[2] is None else values.get(name[1]) or name[2]

    return EXPRESSION.sub(find_value, str(text).lower() if isinstance(text, bool) else str(text))


def _fill_in_all(texts: Mapping[str, object], values: Mapping[str, str]) -> dict[str, str]:
    return {name: _fill_in(text, values) for name, text in texts.items()}


class _Machine:
    """A machine, which has nothing but what its job puts there."""

    def __init__(
        self, folder: Path, event: Event, url: str, artifacts: dict[str, Path], environ: Mapping[str, str]
    ) -> None:
        self._folder, self._event, self._url, self._artifacts = folder, event, url, artifacts
        self._workspace, self._temporary = folder / "work", folder / "temp"
        for each in (self._workspace, self._temporary, folder / "home", folder / "bin"):
            each.mkdir(parents=True)
        payload = self._temporary / "event.json"
        payload.write_text(json.dumps(event.payload), "utf-8")
        self._environ = {
            **{name: os.environ[name] for name in _INHERITED if name in os.environ},
            "HOME": str(folder / "home"),
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "GITHUB_EVENT_NAME": event.name,
            "GITHUB_EVENT_PATH": str(payload),
            "GITHUB_REF": event.ref,
            "GITHUB_SERVER_URL": SERVER,
            "GITHUB_SHA": event.sha,
            "GITHUB_WORKSPACE": str(self._workspace),
            "RUNNER_TEMP": str(self._temporary),
            **environ,
        }

    def run_step(self, step: Mapping[str, Any], given: Mapping[str, str], environ: Mapping[str, str]) -> Step:
        """Run a script, or what stands in for an action."""
        if "run" in step:
            return self._run_script(step["run"], step.get("working-directory", "."), environ)
        match step["uses"].partition("@")[0]:
            case "$/.github/actions/kafkaform":
                return self._install()
            case "actions/checkout":
                return self._check_out(given, environ)
            case "actions/upload-artifact":
                return self._upload(given)
            case "actions/download-artifact":
                return self._download(given)
            case "actions/setup-java" | "actions/cache":
                return Step()
            case action:
                raise AssertionError(f"nothing stands in for {action}")

    def _run_script(self, script: str, folder: str, environ: Mapping[str, str]) -> Step:
        files = {name: self._temporary / name.lower() for name in _FILES}
        for file in files.values():
            file.write_text("")
        source = self._temporary / "script.sh"
        source.write_text(script, "utf-8")
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(source)],
            cwd=self._workspace / folder,
            env={**self._environ, **environ, **{name: str(file) for name, file in files.items()}},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_LIMIT_S,
            check=False,
        )
        assert files["GITHUB_ENV"].read_text() == files["GITHUB_PATH"].read_text() == ""
        outputs = dict(line.split("=", 1) for line in files["GITHUB_OUTPUT"].read_text("utf-8").splitlines())
        log = done.stdout.decode("utf-8", "replace")
        return Step(done.returncode == 0, log, outputs, files["GITHUB_STEP_SUMMARY"].read_text("utf-8"))

    def _install(self) -> Step:
        """Put the kafkaform that is being tested on the PATH, and nothing beside it."""
        command = self._folder / "bin" / "kafkaform"
        command.write_text(_CONSOLE_SCRIPT)
        command.chmod(0o755)
        self._environ["PATH"] = f"{command.parent}{os.pathsep}{self._environ['PATH']}"
        return Step()

    def _check_out(self, given: Mapping[str, str], environ: Mapping[str, str]) -> Step:
        assert given.keys() <= {"ref", "fetch-depth", "path", "persist-credentials"}
        folder = str(self._workspace / given["path"])
        ref, depth = given.get("ref", self._event.sha), given.get("fetch-depth", "1")
        for command in (
            ["init", "--quiet", folder],
            ["-C", folder, "fetch", "--quiet", "--no-tags", f"--depth={depth}", self._url, ref],
            ["-C", folder, "checkout", "--quiet", "--force", "--detach", "FETCH_HEAD"],
        ):
            given_env = {**self._environ, **environ, "GIT_LFS_SKIP_SMUDGE": "1"}
            done = subprocess.run(
                ["git", *command], env=given_env, capture_output=True, text=True, check=False
            )
            if done.returncode != 0:
                return Step(ok=False, log=done.stdout + done.stderr)
        return Step()

    def _upload(self, given: Mapping[str, str]) -> Step:
        name, source = given["name"], self._workspace / given["path"]
        assert re.fullmatch(r'[^"\\/:<>|*?\r\n]+', name), f"{name!r} is not a valid name of an artifact"
        assert given.get("overwrite") == "true" or name not in self._artifacts
        if not source.exists():
            return Step(given.get("if-no-files-found") != "error", f"{given['path']}: no files\n")
        into = self._artifacts[name] = self._folder / "artifacts" / name
        if source.is_dir():
            shutil.copytree(source, into)
        else:
            into.mkdir(parents=True)
            shutil.copy(source, into)
        return Step()

    def _download(self, given: Mapping[str, str]) -> Step:
        if given["name"] not in self._artifacts:
            return Step(ok=False, log=f"there is no artifact {given['name']}\n")
        shutil.copytree(self._artifacts[given["name"]], self._workspace / given["path"], dirs_exist_ok=True)
        return Step()


def _find_commands(log: str) -> Iterator[Command]:
    """Yield the commands in a log as GitHub's runner finds them: those of the old form anywhere in a line."""
    word: str | None = None
    for line in log.splitlines():
        if word is not None:
            word = None if line.strip() == f"::{word}::" else word
        elif found := _COMMAND.match(line) or _OLD_COMMAND.search(line):
            if found["name"] == "stop-commands":
                word = found["message"]
            yield Command(found["name"], found["properties"] or "", found["message"])
