"""Edited files as a unified diff, and what adopting drift came to."""

from __future__ import annotations

from difflib import unified_diff
from typing import TYPE_CHECKING

from rich.text import Text

from kafkaform.core.printable import clipped, printable
from kafkaform.core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkaform.config.manifests.edit_files import EditedFile
    from kafkaform.config.manifests.editing import Editing
    from kafkaform.inspect.drift import Adoption


_STYLES = {"---": "bold", "+++": "bold", "@@ ": "cyan"}
_BY_SIGN = {"+": "green", "-": "red"}


def render_edits(files: Iterable[EditedFile]) -> Text:
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


_PROSE = 600


def render_adoption(wanted: Adoption, editing: Editing, *, written: bool) -> Text:
    """Word the edits; what was not adopted comes last, where a terminal shows it.

    Args:
        wanted: What was to be adopted.
        editing: What came of it.
        written: Whether the files were written.
    """
    parts = [render_edits(editing.files), Text()] if editing.files else []
    refused = [(f"{edit.ref} {edit.path}", why) for edit, why in editing.refused]
    refused += [(str(ref), why) for ref, why in wanted.refused]
    parts += [
        Text.assemble(("not adopted ", "yellow"), f"{clipped(what, 280)}: {clipped(why, _PROSE)}")
        for what, why in refused
    ]
    parts.append(Text(_summary(wanted, editing, len(refused), written=written), "bold"))
    return Text("\n").join(parts)


def _summary(wanted: Adoption, editing: Editing, refused: int, *, written: bool) -> str:
    adopted = len(wanted.edits) - len(editing.refused)
    if not adopted:
        return "Nothing to adopt." if not refused else f"Nothing adopted; {refused:,} not adopted."
    done = "adopted" if written else "to adopt"
    files = f"in {counted(len(editing.files), 'file')}"
    left = f", {refused:,} not adopted" if refused else ""
    hint = "review and commit them" if written else "nothing was written"
    return f"{counted(adopted, 'value')} {done} {files}{left}: {hint}."
