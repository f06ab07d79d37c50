"""Calling the command line as a person, a CI job or a cron job does: in a process of its own."""

import contextlib
import fcntl
import io
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self
from unittest.mock import patch

import yaml
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from kafkaform.cli.main import run
from tests.support.clusters.fixtures import TIMEOUT_S, Account, admin_client, eventually
from tests.support.clusters.topics import alter_configs

ROOT = Path(__file__).parents[3]
BIN = Path(sys.executable).parent
ESCAPE = "\x1b"
_LIMIT_S = 180


@dataclass(frozen=True)
class Call:
    """The outcome of one call of the command line."""

    code: int
    out: str
    err: str

    @property
    def both(self) -> str:
        return self.out + self.err

    @property
    def words(self) -> str:
        """Both streams without their line breaks and columns."""
        return " ".join(self.both.split())

    @property
    def said(self) -> str:
        """Return stderr below the lines on configuration, clusters and the start of Spark.

        A slow answer is announced wherever it is waited for.
        """
        first = r"configuration .*|cluster .* · .*|starting Spark.*"
        others = re.sub(r"(?m)^waiting for .* to answer, for up to .*\n", "", self.err)
        return re.sub(rf"\A(?:(?:{first})\n)+", "", others)

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def needs(self, code: int) -> Self:
        """This call, if it ended so and showed no traceback."""
        assert self.code == code, f"exit code {self.code}, not {code}\n{self.out}\n{self.err}"
        assert "Traceback" not in self.both, self.both
        return self

    def read_error(self, code: int = 1) -> tuple[str, str]:
        """Return the only error and its hint; nothing is on stdout, and no chatter beside them."""
        self.needs(code)
        assert self.out == ""
        error, *hints = self.said.splitlines()
        assert error.startswith("Error: "), self.said
        assert all(line.startswith("hint: ") for line in hints), self.said
        assert len(hints) <= 1, self.err
        return error.removeprefix("Error: "), "".join(hints).removeprefix("hint: ")


def environment(**more: str) -> dict[str, str]:
    """This process's environment without what steers kafkaform, Kafka's address or colours."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("KAFKAFORM_") or name in {"KAFKAFORM_CACHE", "KAFKAFORM_MAVEN_URL"}
    }
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "BOOTSTRAP_SERVERS"):
        kept.pop(name, None)
    kept["PATH"] = f"{BIN}{os.pathsep}{kept.get('PATH', '')}"
    # Tests share clusters, and those that are not about the lock or the record are spared the time of both.
    quiet = {"KAFKAFORM_LOCK": "false", "KAFKAFORM_AUDIT": "false", "CI": "true"}
    return {**kept, **quiet, **more}


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "kafkaform", *map(str, arguments)]


def run_in_process(
    *arguments: object, cwd: Path, env: Mapping[str, str] | None = None, given: str = ""
) -> Call:
    """Run `kafkaform` in a folder, with a text on stdin, inside this process: several times as fast."""
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(cwd),
        patch.dict(os.environ, environment(**(env or {})), clear=True),
        patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(given.encode()))),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = run([str(argument) for argument in arguments])
    return Call(code, out.getvalue(), err.getvalue())


def kafkaform(*arguments: object, cwd: Path, env: Mapping[str, str] | None = None, given: str = "") -> Call:
    """Run `kafkaform` in a folder without a terminal, as a process of its own, with a text on stdin.

    It has no limit but that of a whole test: a first start of Spark or of Kafka on a machine takes its time.
    """
    done = subprocess.run(
        command(*arguments),
        cwd=cwd,
        env=environment(**(env or {})),
        input=given,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    return Call(done.returncode, done.stdout, done.stderr)


@dataclass(frozen=True)
class Project:
    """A folder with manifests, and the cluster they are for."""

    folder: Path
    servers: str
    prefix: str

    def topic(self, name: str, /, *, metadata: Mapping[str, Any] | None = None, **spec: Any) -> str:
        """Write (or rewrite) the manifest of one topic; returns its full name."""
        full = self.prefix + name
        spec = spec if spec.get("state") == "absent" else {"partitions": 1, "replicationFactor": 1, **spec}
        self.write(f"topics/{name}.yaml", manifest(full, spec, metadata))
        return full

    def group(self, name: str, /, *, metadata: Mapping[str, Any] | None = None, **spec: Any) -> str:
        """Write (or rewrite) the manifest of one group; returns its full name."""
        full = self.prefix + name
        self.write(f"topics/group-{name}.yaml", manifest(full, spec, metadata, kind="ConsumerGroup"))
        return full

    def write(self, path: str, text: str) -> Path:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
        return file

    def config(self, **more: Any) -> Path:
        """Write a kafkaform.yaml; without `clusters`, with this project's cluster as `dev`."""
        clusters = {"dev": {"client": {"bootstrap.servers": self.servers}}}
        content = {"apiVersion": "kafkaform/v1", "kind": "Config", "clusters": clusters, **more}
        return self.write("kafkaform.yaml", yaml.safe_dump(content))

    def run(self, *arguments: object, env: Mapping[str, str] | None = None, given: str = "") -> Call:
        """Call kafkaform here, with a text on stdin; without a kafkaform.yaml, for this project's cluster."""
        return run_in_process(*self.add_cluster(arguments), cwd=self.folder, env=env, given=given)

    def process(self, *arguments: object, env: Mapping[str, str] | None = None, given: str = "") -> Call:
        return kafkaform(*self.add_cluster(arguments), cwd=self.folder, env=env, given=given)

    def start(self, *arguments: object, **env: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command(*self.add_cluster(arguments)),
            cwd=self.folder,
            env=environment(**env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def add_cluster(self, arguments: Sequence[object]) -> list[object]:
        cluster = () if (self.folder / "kafkaform.yaml").exists() else ("--bootstrap-server", self.servers)
        return [*arguments] if "--bootstrap-server" in arguments else [*arguments, *cluster]

    def apply(self, *arguments: object) -> Call:
        return self.run("apply", *arguments, "--auto-approve")

    def live(self, *names: str) -> dict[str, dict[str, Any]]:
        """The project's topics on the cluster, or those named: partitions and own configs."""
        found = {
            name: topic
            for name, topic in self._admin.list_topics(timeout=TIMEOUT_S).topics.items()
            if (name in names if names else name.startswith(self.prefix))
        }
        resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in found]
        configs = self._admin.describe_configs(resources, request_timeout=TIMEOUT_S) if resources else {}
        own: dict[str, dict[str, str | None]] = {}
        for resource, future in configs.items():
            try:
                entries = future.result(TIMEOUT_S).values()
            except KafkaException as error:
                # Metadata still has a topic that was deleted just now.
                if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise
                continue
            own[resource.name] = {entry.name: entry.value for entry in entries if entry.source == 1}
        return {
            name.removeprefix(self.prefix): {"partitions": len(topic.partitions), **own[name]}
            for name, topic in found.items()
            if name in own
        }

    def set_config(self, name: str, key: str, value: str) -> None:
        alter_configs(self._admin, ResourceType.TOPIC, [self.prefix + name], {key: value})
        eventually(self.live, lambda topics: topics.get(name, {}).get(key) == value)

    @cached_property
    def _admin(self) -> AdminClient:
        return admin_client(self.servers)


def login_project(folder: Path, account: Account, prefix: str, **config: Any) -> Project:
    project = Project(folder, account.servers, prefix)
    project.config(clusters={"acl": {"client": account.client}}, **config)
    return project


def manifest(
    name: str, spec: Mapping[str, Any], metadata: Mapping[str, Any] | None = None, *, kind: str = "Topic"
) -> str:
    head = {"apiVersion": "kafkaform/v1", "kind": kind, "metadata": {"name": name, **(metadata or {})}}
    return yaml.safe_dump({**head, "spec": dict(spec)}, allow_unicode=True)


class Terminal:
    """A program on a pseudo-terminal: what a person sees and types."""

    def __init__(
        self,
        *arguments: object,
        cwd: Path,
        env: Mapping[str, str] | None = None,
        columns: int = 80,
        stdout: int | None = None,
        stderr: int | None = None,
    ) -> None:
        self._master, slave = pty.openpty()
        self.seen = ""
        try:
            fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
            self.process = subprocess.Popen(
                [sys.executable, "-c", _ON_TERMINAL, *command(*arguments)],
                cwd=cwd,
                env=environment(**{"TERM": "xterm-256color", **(env or {})}),
                stdin=slave,
                stdout=slave if stdout is None else stdout,
                stderr=slave if stderr is None else stderr,
                start_new_session=True,
            )
        finally:
            os.close(slave)

    def wait_for(self, text: str) -> str:
        """Read until the text is on the screen; returns everything so far."""
        deadline = time.monotonic() + _LIMIT_S
        while text not in self.seen:
            assert self._read(deadline), f"{text!r} never came:\n{self.seen}"
        return self.seen

    def type(self, text: str) -> None:
        """Type; `\\x03` is Ctrl-C."""
        os.write(self._master, text.encode())

    def end(self) -> Call:
        """Read to the end; the screen is `out`."""
        deadline = time.monotonic() + _LIMIT_S
        while self._read(deadline):
            pass
        os.close(self._master)
        return Call(self.process.wait(_LIMIT_S), self.seen.replace("\r\n", "\n"), "")

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"nothing more came:\n{self.seen}")
        try:
            data = os.read(self._master, 65536)
        except OSError:  # how Linux tells that the other side is closed
            return False
        self.seen += data.decode("utf-8", "replace")
        return bool(data)


# A terminal controls a session only once the session's leader has asked for it: then Ctrl-C reaches it.
_ON_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


def plain(text: str) -> str:
    """Return the text with colours as a terminal shows it."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
