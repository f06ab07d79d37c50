"""Edited files as a unified diff, and the results of adopting drift and of an import.

All of it printable.
"""

from __future__ import annotations

from collections import Counter
from difflib import unified_diff
from typing import TYPE_CHECKING

from kafkaform.core.printable import MAX_LINE_LENGTH, clipped
from kafkaform.core.wording import counted, join_words, listed
from kafkaform.report.equal_changes import mask_name
from kafkaform.report.page import Page
from kafkaform.resources import KINDS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from pathlib import Path

    from kafkaform.config.manifests.edit_files import EditedFile
    from kafkaform.config.manifests.editing import EditResult
    from kafkaform.core.errors import Problem
    from kafkaform.core.model import ResourceRef
    from kafkaform.inspect.drift import Adoption
    from kafkaform.inspect.importing import Import


_STYLES = {"---": "bold", "+++": "bold", "@@ ": "cyan"}
_BY_SIGN = {"+": "green", "-": "red"}


def render_edits(files: Iterable[EditedFile]) -> Page:
    """Render edits as a unified diff; a file without a `before` is new."""
    page = Page(None)
    for file in files:
        for line in _diff_lines(file):
            page.line((line, _STYLES.get(line[:3]) or _BY_SIGN.get(line[:1], "")))
    return page


def _diff_lines(file: EditedFile) -> Iterable[str]:
    return unified_diff(
        file.before.splitlines(),
        file.after.splitlines(),
        # Tools such as patch and git take /dev/null for a file that is new.
        str(file.path) if file.before else "/dev/null",
        str(file.path),
        lineterm="",
    )


_PROSE = 600


def render_adoption(wanted: Adoption, editing: EditResult, *, written: bool) -> Page:
    """Render the edits; what was not adopted comes last, above the prompt.

    Args:
        wanted: The adoption that was requested.
        editing: The result of the edits.
        written: Whether the files were written.
    """
    # What was not adopted has to be done by hand, so every reason is listed.
    refused = [(f"{edit.ref} {edit.path}", reason) for edit, reason in editing.refused]
    refused += [(str(ref), reason) for ref, reason in wanted.refused]
    page = render_edits(editing.files)
    page.start_block()
    for name, reason in refused:
        page.line(("not adopted ", "yellow"), f"{clipped(name, 280)}: {clipped(reason, _PROSE)}")
    page.line((_summarise(wanted, editing, len(refused), written=written), "bold"))
    return page


def _summarise(wanted: Adoption, editing: EditResult, refused: int, *, written: bool) -> str:
    adopted = len(wanted.edits) - len(editing.refused)
    if not adopted:
        return "Nothing to adopt." if not refused else f"Nothing adopted; {refused:,} not adopted."
    done = "adopted" if written else "to adopt"
    files = f"in {counted(len(editing.files), 'file')}"
    not_adopted = f", {refused:,} not adopted" if refused else ""
    hint = "review and commit them" if written else "nothing was written"
    return f"{counted(adopted, 'value')} {done} {files}{not_adopted}: {hint}."


_MAX_LINE_LENGTH = 300
_MAX_ALIKE = 5
"""The most problems that are listed after one that they are like."""


def render_import(made: Import, folder: Path, *, dry_run: bool = False) -> str:
    """List the files of a dry run, then what was written and what was left out."""
    lines = [f"{file.path}  {_list_names(file.refs)}".rstrip() for file in made.files if dry_run]
    lines += [str(path) for path in made.support if dry_run]
    if made.files:
        summary = f"{_count_resources(made.refs)} in {counted(len(made.files), 'file')} below {folder}"
        if made.support:
            summary += f"; for editors and Git, {join_words(map(str, made.support))}"
        lines.append(f"{'Would write' if dry_run else 'Written'}: {summary}.")
    else:
        lines.append("Nothing to write.")
    lines += [f"Left out: {line}." for line in _list_left_out(made)]
    return "\n".join(clipped(line, MAX_LINE_LENGTH) for line in lines)


def list_problems(made: Import) -> list[str]:
    """Return a line for each fact that manifests lack, and each reason why resources were not imported."""
    lines = [f"not converted: {text}" for text in _merge_problems(made.unconverted)]
    partial = [(ref, line) for ref, line in made.partial if ref not in made.not_converged]
    differing = [(ref, f"{reason}{_join_partial(made, ref)}") for ref, reason in made.not_converged.items()]
    lines += [f"not in the manifest: {text}" for text in _merge_reasons(partial)]
    lines += [f"differs from the cluster: {text}" for text in _merge_reasons(differing)]
    lines += [f"not read: {text}" for text in _merge_reasons(made.unread.items())]
    lines += [f"not imported: {text}" for text in _merge_reasons(made.undeclarable.items())]
    lines += [f"note: {note}" for note in made.notes]
    return [clipped(line, _MAX_LINE_LENGTH) for line in lines]


def _merge_reasons(reasons: Iterable[tuple[ResourceRef, str]]) -> Iterator[str]:
    """Yield each reason once, after the resources that have it."""
    merged: dict[tuple[str, str], list[tuple[ResourceRef, str]]] = {}
    for ref, reason in reasons:
        merged.setdefault((ref.kind, mask_name(reason, ref.name)), []).append((ref, reason))
    for (kind, masked), alike in merged.items():
        if len(alike) == 1:
            yield ": ".join(map(str, alike[0]))
        else:
            names = _list_names([ref for ref, _ in alike])
            yield f"{len(alike):,} {KINDS[kind].words.collection} ({names}): {masked}"


def _merge_problems(problems: Iterable[Problem]) -> Iterator[str]:
    """Yield each problem once, with those that differ from it in their place and in a name before a colon."""
    merged: dict[tuple[str, str, str | None], list[tuple[str, Problem]]] = {}
    for problem in problems:
        subject, _, reason = problem.message.partition(": ")
        noun, _, name = subject.rpartition(" ") if reason else (subject, "", "")
        key = (noun, reason, problem.hint) if noun else (subject, reason, problem.hint)
        merged.setdefault(key, []).append((name if noun else "", problem))
    for (first_name, first), *repeated in merged.values():
        labels = []
        for name, each in repeated:
            location = f"{each.location.file}:{each.location.line}" if each.location else ""
            labels.append(location if name == first_name else f"{name} ({location})")
        yield f"{first}{f'; the same: {listed(labels, _MAX_ALIKE)}' if labels else ''}"


def _join_partial(made: Import, ref: ResourceRef) -> str:
    lines = "; ".join(line for partial_ref, line in made.partial if partial_ref == ref)
    return f" ({lines})" if lines else ""


def _list_left_out(made: Import) -> Iterator[str]:
    if made.declared:
        paths = {str(location.file) for location in made.declared.values() if location is not None}
        files = listed(sorted(paths), 3, noun="file")
        yield f"{_count_resources(made.declared)} already declared in {files}"
    if made.ignored:
        by = "default" if made.ignored_by_default else "`ignore:`"
        yield f"{_count_resources(made.ignored)} ignored by {by} ({_list_names(made.ignored)})"
    if made.internal:
        names = _list_names(made.internal)
        yield f"{_count_resources(made.internal)} that Kafka or kafkaform uses internally ({names})"
    if made.idle:
        yield (
            f"{_count_resources(made.idle)} without committed offsets or members ({_list_names(made.idle)}): "
            "declare each one with the topics that it reads"
        )
    if made.undeclarable:
        yield f"{_count_resources(made.undeclarable)} that no manifest can declare"
    if made.unread:
        yield f"{_count_resources(made.unread)} that this account cannot see in full"


def _count_resources(refs: Collection[ResourceRef]) -> str:
    counts = Counter(ref.kind for ref in refs)
    return join_words(
        f"{counts[name]:,} {kind.words.noun if counts[name] == 1 else kind.words.collection}"
        for name, kind in KINDS.items()
        if counts[name]
    )


def _list_names(refs: Collection[ResourceRef]) -> str:
    # A topic and a group may have the same name.
    kinds = {ref.kind for ref in refs}
    nouns = {kind: "" if len(kinds) == 1 else f"{KINDS[kind].words.noun} " for kind in kinds}
    return listed([nouns[ref.kind] + ref.name for ref in refs])
