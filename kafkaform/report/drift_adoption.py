"""What adopting drift came to: the edits, and what could not be adopted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from kafkaform.core.printable import clipped
from kafkaform.core.wording import counted
from kafkaform.report.edit_diff import edit_diff

if TYPE_CHECKING:
    from kafkaform.config.manifests.editing import Editing
    from kafkaform.inspect.adoption import Adoption

_PROSE = 600


def render_adoption(wanted: Adoption, editing: Editing, *, written: bool) -> Text:
    """Word the edits; what was not adopted comes last, where a terminal shows it.

    Args:
        wanted: What was to be adopted.
        editing: What came of it.
        written: Whether the files were written.
    """
    parts = [edit_diff(editing.files), Text()] if editing.files else []
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
        return "Nothing to adopt." if not refused else f"Nothing adopted, {refused:,} left as they are."
    done = "adopted" if written else "to adopt"
    files = f"in {counted(len(editing.files), 'file')}"
    left = f", {refused:,} not" if refused else ""
    hint = "review and commit them" if written else "nothing was written"
    return f"{counted(adopted, 'value')} {done} {files}{left}: {hint}."
