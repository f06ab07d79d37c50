"""Files that were edited, as a unified diff, and what adopting drift or an import came to.

All of it printable.
"""

from __future__ import annotations

from collections import Counter
from difflib import unified_diff
from typing import TYPE_CHECKING

from rich.text import Text

from kafkaform.core.printable import clipped, printable
from kafkaform.core.wording import counted, listed
from kafkaform.resources import KINDS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from pathlib import Path

    from kafkaform.config.manifests.edit_files import EditedFile
    from kafkaform.config.manifests.editing import Editing
    from kafkaform.core.model import ResourceRef
    from kafkaform.inspect.drift import Adoption
    from kafkaform.inspect.importing import Import


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


_LONG = 300


def render_import(made: Import, folder: Path, *, dry_run: bool = False) -> str:
    """The files of a dry run, then what was written and what was left out."""
    lines = [f"{file.path}  {_names(file.refs)}" for file in made.files] if dry_run else []
    what = f"{_resources(made.refs)} in {counted(len(made.files), 'file')} below {folder}"
    lines.append(f"{'Would write' if dry_run else 'Written'}: {what}." if made.files else "Nothing to write.")
    lines += [f"Left out: {line}." for line in _left_out(made)]
    return "\n".join(printable(line) for line in lines)


def problems_of(made: Import) -> list[str]:
    """What the manifests do not say, or could not be made of; a line each."""
    lines = [f"not in the manifest: {ref}: {line}" for ref, line in made.partial if ref not in made.unlike]
    lines += [f"differs from the cluster: {ref}: {why}{_said(made, ref)}" for ref, why in made.unlike.items()]
    lines += [f"not read: {ref}: {why}" for ref, why in made.unread.items()]
    lines += [f"note: {note}" for note in made.notes]
    return [clipped(line, _LONG) for line in lines]


def _said(made: Import, ref: ResourceRef) -> str:
    """What is known of why a resource differs from its manifest."""
    lines = "; ".join(line for one, line in made.partial if one == ref)
    return f" ({lines})" if lines else ""


def _left_out(made: Import) -> Iterator[str]:
    if made.declared:
        places = {str(place.file) for place in made.declared.values() if place is not None}
        yield f"{_resources(made.declared)} already declared in {listed(sorted(places), 3, noun='file')}"
    if made.ignored:
        yield f"{_resources(made.ignored)} ignored by `ignore:` ({_names(made.ignored)})"
    if made.internal:
        yield f"{_resources(made.internal)} that Kafka or kafkaform uses internally ({_names(made.internal)})"
    if made.idle:
        yield (
            f"{_resources(made.idle)} without committed offsets or members ({_names(made.idle)}): "
            "declare each one with the topics that it reads"
        )
    if made.unread:
        yield f"{_resources(made.unread)} that this account cannot see in full"


def _resources(refs: Collection[ResourceRef]) -> str:
    counts = Counter(ref.kind for ref in refs)
    return " and ".join(counted(counts[name], kind.noun) for name, kind in KINDS.items() if counts[name])


def _names(refs: Collection[ResourceRef]) -> str:
    return listed([ref.name for ref in refs])
