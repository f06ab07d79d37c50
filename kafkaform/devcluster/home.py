"""The directory of a cluster: made, and cleared, without touching what else is in it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from kafkaform.core.errors import DevClusterError
from kafkaform.devcluster import state

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kafkaform.devcluster.state import ClusterState, Node

LOCK_FILE = "lock"
_IGNORE_FILE = ".gitignore"
_IGNORE_ALL = "*\n"


def make(directory: Path) -> None:
    """Make the directory if it is missing; one made here is kept out of Git.

    Raises:
        DevClusterError: It cannot be made.
    """
    try:
        if not directory.exists():
            directory.mkdir(parents=True)
            (directory / _IGNORE_FILE).write_text(_IGNORE_ALL, encoding="utf-8")
        (directory / LOCK_FILE).touch()
    except OSError as error:
        raise DevClusterError(
            f"cannot keep a cluster in {directory}: {error.strerror}", hint="choose another --data"
        ) from error


def refuse_strangers(directory: Path, kept: ClusterState | None, nodes: Sequence[Node]) -> None:
    """Refuse a directory whose parts were not made by a start that is known.

    Raises:
        DevClusterError: There is no kept state, but something stands where a node's files would go.
    """
    for node in nodes:
        if kept is None and (stranger := directory / node.name).exists():
            raise DevClusterError(
                f"{stranger} exists, but {state.STATE_FILE} beside it does not",
                hint=f"move {stranger} away, or choose another --data",
            )


def clear(directory: Path, nodes: Sequence[Node]) -> None:
    """Remove what a cluster's start has put here, and the directory itself if nothing else is in it."""
    for node in nodes:
        if (home := directory / node.name).exists():
            shutil.rmtree(home)
    (directory / state.STATE_FILE).unlink()
    ignore = directory / _IGNORE_FILE
    if ignore.exists() and ignore.read_text(encoding="utf-8") == _IGNORE_ALL:
        ignore.unlink()
    (directory / LOCK_FILE).unlink()
    if not any(directory.iterdir()):
        directory.rmdir()
