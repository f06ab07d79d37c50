"""Stops a cluster once whoever started it is gone: run with its directory, and a pipe to wait on.

The pipe closes when the test session lets go of it, and also when the session is killed.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from kafkaform.devcluster.cluster import DevCluster


def main() -> None:
    directory = Path(sys.argv[1])
    sys.stdin.read()
    cluster = DevCluster.load(directory)
    if cluster is not None:
        cluster.wipe()
    if directory.exists():
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
