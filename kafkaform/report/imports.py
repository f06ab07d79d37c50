"""What an import did, in words; all of it printable."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kafkaform.core.printable import clipped, printable
from kafkaform.core.wording import counted, listed
from kafkaform.resources import KINDS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from kafkaform.core.model import ResourceRef
    from kafkaform.inspect.importing import Import

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
