"""Edited files as a unified diff."""

from __future__ import annotations

from difflib import unified_diff
from typing import TYPE_CHECKING

from rich.text import Text

from kafkaform.core.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkaform.config.manifests.edit_files import EditedFile

_STYLES = {"---": "bold", "+++": "bold", "@@ ": "cyan"}
_BY_SIGN = {"+": "green", "-": "red"}


def edit_diff(files: Iterable[EditedFile]) -> Text:
    """What edits change, as `diff -u` shows it; a file without a before is a new one."""
    lines = [line for file in files for line in _lines(file)]
    return Text("\n").join(
        Text(printable(line), _STYLES.get(line[:3]) or _BY_SIGN.get(line[:1], "")) for line in lines
    )


def _lines(file: EditedFile) -> Iterable[str]:
    return unified_diff(
        file.before.splitlines(),
        file.after.splitlines(),
        str(file.path) if file.before else "/dev/null",
        str(file.path),
        lineterm="",
    )
