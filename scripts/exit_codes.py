"""Count the exit codes of many runs that end early, and of some that end well, on a real broker.

    .venv/bin/python scripts/exit_codes.py --runs 300 --applies 200

A run that ends early leaves requests without responses; none may end by a signal. The first applies of 60
topics and 20 groups run beside two busy loops: on a loaded machine, one in thirty ended by SIGSEGV while
librdkafka's admin client requested the ends of logs, which kafkaform no longer does.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMMAND = (sys.executable, "-m", "kafkaform")
EARLY = (("plan",), ("drift",), ("apply", "--auto-approve"), ("doctor",))
"""They lack an environment, which the overrides in the defaults of this repository require."""
LATE = tuple((*command, "--environment", "dev") for command in (("plan",), ("drift",), ("doctor",)))


def main() -> int:
    """Run every command; 1 if one of them ended by a signal."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=300, help="the number of runs of each command")
    parser.add_argument("--applies", type=int, default=200, help="the number of first applies")
    given = parser.parse_args()
    runs = given.runs
    crashed = count_crashed_applies(given.applies) if given.applies else 0
    with tempfile.TemporaryDirectory(prefix="kafkaform-exits-") as data:
        address = call("dev", "up", "--data", data).stdout.strip()
        try:
            for command in (*EARLY, *LATE) if runs else ():
                with ThreadPoolExecutor(2) as pool:
                    codes = Counter(
                        pool.map(lambda each: call(*each).returncode, [add_address(command, address)] * runs)
                    )
                print(f"{' '.join(command)}: {dict(codes)}", flush=True)
                crashed += sum(count for code, count in codes.items() if code < 0)
        finally:
            call("dev", "down", "--data", data)
    print(f"ended by a signal: {crashed}")
    return 1 if crashed else 0


TOPICS, PARTITIONS, GROUPS, READ = 60, 8, 20, 6
APPLIES_A_BROKER = 10
BUSY = (sys.executable, "-c", "while True: pass")


def count_crashed_applies(applies: int) -> int:
    """Apply new topics and groups beside two busy loops; return the number of applies ended by a signal."""
    codes: Counter[int] = Counter()
    loops = [subprocess.Popen(BUSY) for _ in range(2)]
    try:
        for start in range(0, applies, APPLIES_A_BROKER):
            with tempfile.TemporaryDirectory(prefix="kafkaform-applies-") as folder:
                address = call("dev", "up", "--data", f"{folder}/kafka").stdout.strip()
                try:
                    for number in range(start, min(applies, start + APPLIES_A_BROKER)):
                        manifests = write_manifests(Path(folder), number)
                        done = call(
                            "apply", manifests, "--auto-approve", *add_address(("-e", "dev"), address)
                        )
                        codes[done.returncode] += 1
                        if done.returncode:
                            print(done.stdout[-2_000:], done.stderr[-2_000:], flush=True)
                finally:
                    call("dev", "down", "--data", f"{folder}/kafka")
            print(f"first applies: {dict(codes)}", flush=True)
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
    return sum(count for code, count in codes.items() if code < 0)


def write_manifests(folder: Path, number: int) -> str:
    """Write manifests of topics, and of groups that read some of them from their start."""
    topics = [f"a{number}-{n}" for n in range(TOPICS)]
    documents: list[tuple[str, str, dict[str, object]]] = [
        ("Topic", name, {"partitions": PARTITIONS, "replicationFactor": 1}) for name in topics
    ]
    documents += [
        ("ConsumerGroup", f"g{number}-{n}", {"topics": topics[2 * n : 2 * n + READ], "offsets": START})
        for n in range(GROUPS)
    ]
    file = folder / f"{number}.yaml"
    file.write_text(
        "".join(
            "---\n"
            + json.dumps(
                {"apiVersion": "kafkaform/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
            )
            + "\n"
            for kind, name, spec in documents
        ),
        "utf-8",
    )
    return str(file)


START = {"initial": "earliest"}


def add_address(command: tuple[str, ...], address: str) -> tuple[str, ...]:
    """Add the address of the broker to a command."""
    return (*command, "--bootstrap-server", address)


def call(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run one command in the root of this repository."""
    return subprocess.run([*COMMAND, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)


if __name__ == "__main__":
    sys.exit(main())
