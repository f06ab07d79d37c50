"""Comparisons of whole processes: alternating rounds after one warm-up round, and their medians.

Other load on the machine affects all processes of a run alike, so compare ratios. CPU seconds are those of
the process, without the broker's; on a busy machine they are more reliable than wall-clock time.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

KAFKAFORM = (sys.executable, "-m", "kafkaform")
"""The beginning of a command line of kafkaform."""
RAW = (sys.executable, "-c")
"""The beginning of a command line of a script, whose text follows."""


_LAUNCHER = """
import os, sys, time
begin = time.perf_counter()
_, status, usage = os.wait4(os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ), 0)
figures = time.perf_counter() - begin, usage.ru_maxrss / 1024, usage.ru_utime + usage.ru_stime
os.write(int(sys.argv[1]), " ".join(map(str, figures)).encode())
os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
"""
"""Starts the command from a small process, as ru_maxrss includes the parent's memory at the fork."""


class Figures(NamedTuple):
    """The measurements of a process.

    Attributes:
        seconds: The wall-clock time.
        peak: The peak memory in MB.
        cpu: The CPU time in seconds.
    """

    seconds: float
    peak: float
    cpu: float


def measure_process(command: Sequence[str], expect: int = 0) -> Figures:
    """Run and measure a process; exits if its exit code is not `expect`."""
    # Without cached bytecode, a process would spend most of its time compiling.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    read, write = os.pipe()
    with tempfile.TemporaryFile() as output, os.fdopen(read) as figures:
        process = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(write), *command],
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=tempfile.gettempdir(),
            env=environment,
            pass_fds=[write],
            check=False,
        )
        os.close(write)
        if process.returncode != expect:
            output.seek(0)
            text = output.read().decode(errors="replace")[-2_000:]
            sys.exit(f"bench: exit code {process.returncode} of {' '.join(command)[:400]}\n{text}")
        return Figures(*map(float, figures.read().split()))


def measure_memory(command: Sequence[str]) -> dict[str, float]:
    """Run a command, and return the peak memory of its process and of its children, in MB by program."""
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=tempfile.gettempdir()
    )
    peaks: dict[str, float] = {}
    while process.poll() is None:
        with suppress(psutil.Error, OSError):
            parent = psutil.Process(process.pid)
            for each in (parent, *parent.children()):
                name = each.name()
                high = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{each.pid}/status").read_text())
                peaks[name] = max(peaks.get(name, 0.0), int(high[1]) / 1024 if high else 0.0)
        time.sleep(0.1)
    if process.returncode:
        sys.exit(f"bench: exit code {process.returncode} of {' '.join(command)[:400]}")
    return peaks


def compare_medians(ways: Mapping[str, Callable[[int], Figures]], rounds: int) -> dict[str, Figures]:
    """Measure each way in alternating rounds, and return the medians and the highest peak.

    Args:
        ways: The functions to compare, in order; each gets the number of the round. Round 0 is a warm-up.
        rounds: The number of rounds that count.
    """
    measured = [{name: way(number) for name, way in ways.items()} for number in range(rounds + 1)][1:]
    return {name: summarise_runs([figures[name] for figures in measured]) for name in ways}


def summarise_runs(runs: Sequence[Figures]) -> Figures:
    """Return the medians of several runs, and the highest peak."""
    return Figures(
        statistics.median(run.seconds for run in runs),
        max(run.peak for run in runs),
        statistics.median(run.cpu for run in runs),
    )
