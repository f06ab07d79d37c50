"""Count the exit codes of many runs that end early, and of some that end well, on a real broker.

    .venv/bin/python scripts/exit_codes.py --runs 300

A run that ends early leaves requests unanswered; none may end in a signal (see `kafkaform.cli.main`).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMMAND = (sys.executable, "-m", "kafkaform")
EARLY = (("plan",), ("drift",), ("apply", "--auto-approve"), ("doctor",))
"""Without an environment, which the overrides in the defaults of this repository ask for."""
LATE = tuple((*command, "--environment", "dev") for command in (("plan",), ("drift",), ("doctor",)))


def main() -> int:
    """Run every command; 1 if one of them ended in a signal."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=300, help="how often each command is run")
    runs = parser.parse_args().runs
    crashed = 0
    with tempfile.TemporaryDirectory(prefix="kafkaform-exits-") as data:
        address = call("dev", "up", "--data", data).stdout.strip()
        try:
            for command in (*EARLY, *LATE):
                with ThreadPoolExecutor(2) as pool:
                    codes = Counter(
                        pool.map(lambda each: call(*each).returncode, [at(command, address)] * runs)
                    )
                print(f"{' '.join(command)}: {dict(codes)}", flush=True)
                crashed += sum(count for code, count in codes.items() if code < 0)
        finally:
            call("dev", "down", "--data", data)
    print(f"ended in a signal: {crashed}")
    return 1 if crashed else 0


def at(command: tuple[str, ...], address: str) -> tuple[str, ...]:
    """A command for this broker."""
    return (*command, "--bootstrap-server", address)


def call(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run one command in the root of this repository."""
    return subprocess.run([*COMMAND, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)


if __name__ == "__main__":
    sys.exit(main())
