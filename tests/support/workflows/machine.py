"""The machine of one job: where its steps run, and what stands in for the actions of others."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.workflows.expressions import Unknown

SERVER = "https://github.example"
_LIMIT_S = 500
_FILES = ("GITHUB_ENV", "GITHUB_OUTPUT", "GITHUB_PATH", "GITHUB_STEP_SUMMARY")
_AT_ONCE = """\
import sys

if sys.argv[1:2] == ["github"]:
    from kafkaform.vcs.forge import client, publishing

    client._BETWEEN_WRITES_S = 0.0
    publishing.sleep = lambda seconds: None
from kafkaform.__main__ import main

sys.exit(main())
"""
"""The console script, but that GitHub, whose part is played here, is given no time."""
_OURS = ("LANG", "LC_ALL", "TZ", "JAVA_HOME")


@dataclass(frozen=True)
class Event:
    """What a workflow runs for: its name, the commit, and what GitHub tells of it."""

    name: str
    sha: str
    payload: Mapping[str, Any] = field(default_factory=dict)
    ref: str = "refs/heads/main"


@dataclass(frozen=True)
class Done:
    """What a step came to."""

    ok: bool = True
    log: str = ""
    outputs: Mapping[str, str] = field(default_factory=dict)
    summary: str = ""


@dataclass
class Machine:
    """A machine, on which nothing is but what its job puts there.

    Attributes:
        folder: All that it has.
        event: What it works for.
        url: The repository that it clones.
        artifacts: What this run's jobs hand over to each other, by name.
        given: What GitHub has in its environment, beside what follows from the above.
    """

    folder: Path
    event: Event
    url: str
    artifacts: dict[str, Path]
    given: Mapping[str, str]
    path: list[str] = field(default_factory=list)
    added: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.workspace, self.temporary = self.folder / "work", self.folder / "temp"
        for folder in (self.workspace, self.temporary, self.folder / "home"):
            folder.mkdir(parents=True)

    def environ(self, more: Mapping[str, str]) -> dict[str, str]:
        """The environment of a process."""
        payload = self.temporary / "event.json"
        payload.write_text(json.dumps(self.event.payload), "utf-8")
        return {
            **{name: os.environ[name] for name in _OURS if name in os.environ},
            "PATH": os.pathsep.join([*self.path, os.environ["PATH"]]),
            "HOME": str(self.folder / "home"),
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "GITHUB_EVENT_NAME": self.event.name,
            "GITHUB_EVENT_PATH": str(payload),
            "GITHUB_REF": self.event.ref,
            "GITHUB_SERVER_URL": SERVER,
            "GITHUB_SHA": self.event.sha,
            "GITHUB_WORKSPACE": str(self.workspace),
            "RUNNER_TEMP": str(self.temporary),
            **self.given,
            **self.added,
            **more,
        }

    def run(self, script: str, folder: str, environ: Mapping[str, str]) -> Done:
        """Run a script as `shell: bash` does."""
        files = {name: self.temporary / name.lower() for name in _FILES}
        for file in files.values():
            file.write_text("")
        source = self.temporary / "script.sh"
        source.write_text(script, "utf-8")
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(source)],
            cwd=self.workspace / folder,
            env=self.environ({**environ, **{name: str(file) for name, file in files.items()}}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_LIMIT_S,
            check=False,
        )
        self.added |= _pairs(files["GITHUB_ENV"].read_text("utf-8"))
        self.path[:0] = reversed(files["GITHUB_PATH"].read_text("utf-8").splitlines())
        return Done(
            done.returncode == 0,
            done.stdout.decode("utf-8", "replace"),
            _pairs(files["GITHUB_OUTPUT"].read_text("utf-8")),
            files["GITHUB_STEP_SUMMARY"].read_text("utf-8"),
        )

    def use(self, action: str, given: Mapping[str, str], environ: Mapping[str, str]) -> Done:
        """What an action of others would have come to."""
        match action.partition("@")[0]:
            case "actions/checkout":
                return self._check_out(given, environ)
            case "actions/upload-artifact":
                return self._upload(given)
            case "actions/download-artifact":
                return self._download(given)
            case "actions/setup-python":
                return Done(outputs={"python-path": sys.executable})
            case "actions/setup-java" | "actions/cache":
                return Done()
            case _:
                raise Unknown(f"nothing stands in for {action}")

    def install(self) -> Done:
        """Put the kafkaform that is being tested on the PATH, and nothing beside it; it waits for nothing."""
        folder = self.temporary / "kafkaform" / "bin"
        folder.mkdir(parents=True)
        command = folder / "kafkaform"
        command.write_text(f"#!{sys.executable}\n{_AT_ONCE}", "utf-8")
        command.chmod(0o755)
        self.path.insert(0, str(folder))
        return Done()

    def _check_out(self, given: Mapping[str, str], environ: Mapping[str, str]) -> Done:
        unknown = given.keys() - {"ref", "fetch-depth", "path", "persist-credentials"}
        assert not unknown, f"the stand-in for actions/checkout knows no {unknown}"
        folder = str(self.workspace / given["path"])
        ref, depth = given.get("ref", self.event.sha), given.get("fetch-depth", "1")
        for command in (
            ["init", "--quiet", folder],
            ["-C", folder, "fetch", "--quiet", "--no-tags", f"--depth={depth}", self.url, ref],
            ["-C", folder, "checkout", "--quiet", "--force", "--detach", "FETCH_HEAD"],
        ):
            done = subprocess.run(
                ["git", *command],
                env=self.environ({**environ, "GIT_LFS_SKIP_SMUDGE": "1"}),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            if done.returncode != 0:
                return Done(ok=False, log=done.stdout)
        return Done()

    def _upload(self, given: Mapping[str, str]) -> Done:
        name, source = given["name"], self.workspace / given["path"]
        assert re.fullmatch(r'[^"\\/:<>|*?\r\n]+', name), f"{name!r} is no name of an artefact"
        assert given.get("overwrite") == "true" or name not in self.artifacts
        if not source.exists():
            return Done(given.get("if-no-files-found") != "error", f"{given['path']}: no files\n")
        into = self.folder / "artifacts" / name
        shutil.rmtree(into, ignore_errors=True)
        if source.is_dir():
            shutil.copytree(source, into)
        else:
            into.mkdir(parents=True)
            shutil.copy(source, into)
        self.artifacts[name] = into
        return Done()

    def _download(self, given: Mapping[str, str]) -> Done:
        if given["name"] not in self.artifacts:
            return Done(ok=False, log=f"there is no artefact {given['name']}\n")
        shutil.copytree(self.artifacts[given["name"]], self.workspace / given["path"], dirs_exist_ok=True)
        return Done()


def _pairs(text: str) -> dict[str, str]:
    """What a step wrote to GITHUB_OUTPUT or GITHUB_ENV."""
    pairs = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        assert equals, f"{line!r} is not NAME=VALUE"
        pairs[name] = value
    return pairs
