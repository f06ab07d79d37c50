"""`kafkaform dev`, called within this process, and the processes of its clusters."""

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from click.testing import CliRunner

from kafkaform.cli.dev import dev

CLI = [sys.executable, "-c", "from kafkaform.cli.dev import dev; dev()"]


@dataclass(frozen=True)
class Outcome:
    code: int
    stdout: str
    stderr: str


def cli(*arguments: str | Path) -> Outcome:
    result = CliRunner().invoke(dev, [str(a) for a in arguments], standalone_mode=False)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Outcome(result.exit_code or result.return_value or 0, result.stdout, result.stderr)


def processes_in(directory: Path) -> list[psutil.Process]:
    """By working directory, so that it does not trust the way in which the code finds its processes."""
    found = []
    for process in psutil.process_iter():
        try:
            if Path(process.cwd()).is_relative_to(directory) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def wait_for(condition: Any, timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
