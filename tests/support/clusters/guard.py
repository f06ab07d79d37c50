"""Ends a cluster once whoever started it is gone: run with its directory, and a pipe to wait on.

The pipe closes when the test session lets go of it, and also when the session is killed.
"""

import shutil
import sys
import time
from pathlib import Path

import psutil

FORK_S = 0.3
END_S = 20.0


def main() -> None:
    directory = Path(sys.argv[1])
    sys.stdin.read()
    time.sleep(FORK_S)  # a node that was being started at that moment is in its directory only now
    ended = find_processes(directory)
    for process in ended:
        process.kill()
    deadline = time.monotonic() + END_S
    while any(map(is_alive, ended)) and time.monotonic() < deadline:
        time.sleep(0.02)
    if directory.exists():
        shutil.rmtree(directory)


def find_processes(directory: Path) -> list[psutil.Process]:
    """The processes of the cluster in a directory: its nodes, and Kafka's tool that formats their storage."""
    found = []
    for process in psutil.process_iter():
        try:
            if Path(process.cwd()).is_relative_to(directory):
                found.append(process)
        except psutil.Error:
            continue  # it ended meanwhile, or belongs to somebody else
    return found


def is_alive(process: psutil.Process) -> bool:
    """Return whether it still runs: until its parent takes note, an ended process is a zombie."""
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


if __name__ == "__main__":
    main()
