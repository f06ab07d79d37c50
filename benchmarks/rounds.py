"""Whole processes compared: in turns, after one round that warms the broker up, and by their medians.

The machine's other work hits whatever is compared in the same run alike, so ratios are what to look at. CPU
seconds are the process's own, without the broker's: they say most where the machine is busy.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

KAFKAFORM = (sys.executable, "-m", "kafkaform")
"""How a command line of kafkaform begins."""
RAW = (sys.executable, "-c")
"""How one begins that compares it with a script; the script's text follows."""


_LAUNCHER = """
import os, sys, time
begin = time.perf_counter()
_, status, usage = os.wait4(os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ), 0)
figures = time.perf_counter() - begin, usage.ru_maxrss / 1024, usage.ru_utime + usage.ru_stime
os.write(int(sys.argv[1]), " ".join(map(str, figures)).encode())
os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
"""
"""Starts what is measured from a small process: its peak counts the memory of whoever started it."""


class Figures(NamedTuple):
    """What a process took.

    Attributes:
        seconds: From its start to its end.
        peak: Its memory in MB when it was largest.
        cpu: Its seconds on processors.
    """

    seconds: float
    peak: float
    cpu: float


def timed(command: Sequence[str], expect: int = 0) -> Figures:
    """Run one process, whose exit code must be `expect`."""
    # Where Python may not keep bytecode, compiling sources would be most of what a process does.
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
            said = output.read().decode(errors="replace")[-2_000:]
            sys.exit(f"bench: exit code {process.returncode} of {' '.join(command)[:400]}\n{said}")
        return Figures(*map(float, figures.read().split()))


def compared(ways: Mapping[str, Callable[[int], Figures]], rounds: int) -> dict[str, Figures]:
    """Medians over alternating rounds, and the highest peak, of each way.

    Args:
        ways: What to compare, in order; each is given the number of the round. Round 0 is not counted.
        rounds: How many rounds count.
    """
    taken = [{name: way(number) for name, way in ways.items()} for number in range(rounds + 1)][1:]
    return {name: summed_up([one[name] for one in taken]) for name in ways}


def summed_up(taken: Sequence[Figures]) -> Figures:
    """The medians of several runs, and the highest peak."""
    return Figures(
        statistics.median(one.seconds for one in taken),
        max(one.peak for one in taken),
        statistics.median(one.cpu for one in taken),
    )
