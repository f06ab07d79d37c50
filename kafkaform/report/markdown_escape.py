"""Foreign text in GitHub's Markdown: code spans, code blocks, prose and HTML that it cannot break out of.

GitHub turns `@name`, `#123`, `owner/repo#1`, bare commit ids, URLs and `:emoji:` into links and pictures
*after* Markdown is parsed, so no backslash or entity stops that; only code does. Prose is therefore written
word by word: what is plainly a word stays one, and everything else becomes a code span.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kafkaform.core.printable import clipped, printable
from kafkaform.core.wording import PASTED, QUOTED

if TYPE_CHECKING:
    from kafkaform.core.model import Diagnostic, Location, ResourceRef


_LEAD = "(\"'\u201c\u2018"
_TRAIL = ").,;:?\"'\u201d\u2019…"
_TRAIL_OF_PASTED = ").,:?…"
_GLUED = re.compile(r"[).,;:?…]+(?=\s|$)")
_SEGMENT = r"[^\W_]+"
_WORD = re.compile(rf"{_SEGMENT}(?:[-+/'\u2019\u2013]{_SEGMENT})*%?")
_BACKTICKS = r"[^\s`]*`[^\s`](?:[^`]*[^\s`])?`[^\s`]*(?=\s|$)"
_WORDS = re.compile(rf"{_BACKTICKS}|{QUOTED.pattern}\S*|\S+")
_QUOTED = re.compile(r"`([^`]+)`")
_NUMBER = re.compile(r"[0-9]+(?:[.,][0-9]+)*%?")
_SIGNS = frozenset("→·\u2013\u2014%…≤≥\u00d7+-/=")
_REFERENCE = re.compile(r"\b(?:[0-9a-fA-F]{7,40}\b|GH-[0-9])", re.IGNORECASE)


# Left as they are in HTML: letters, digits and what names are made of. Nothing else of ASCII is.
_HTML = re.compile(r"[!-+:-@\[-`{-~]")


def code(text: str, limit: int = 200, *, cell: bool = False) -> str:
    """A code span that holds exactly this text, printable and clipped.

    Args:
        text: The content.
        limit: The most characters of it to show.
        cell: Whether it stands in a table, where a pipe would end the cell even inside code.
    """
    shown = clipped(text, limit)
    if not shown.strip():
        shown = f'"{shown}"'
    fence = "`" * (_longest_run(shown) + 1)
    # A span loses one space on each side if it has both, and cannot start or end with its own fence.
    pad = " " if shown[0] in "` " or shown[-1] in "` " else ""
    if cell:
        shown = shown.replace("|", r"\|")
    return f"{fence}{pad}{shown}{pad}{fence}"


def prose(text: str, limit: int = 800) -> str:
    """Sentences, with every word that could mean something to Markdown or GitHub as a code span.

    What stands between backticks in a message of ours is one span, blanks and all, and so is what somebody is
    to paste: a command, or a line of a manifest.

    Never put the result at the start of a line: a list marker is only harmless inside one.
    """
    shown, at = clipped(text, limit), 0
    pieces: list[str] = []
    for pasted in PASTED.finditer(shown):
        pieces += map(_word, _WORDS.findall(shown[at : pasted.start()]))
        core = pasted[0].rstrip(f"{_TRAIL_OF_PASTED} ")
        pieces.append(code(core, len(core)) + pasted[0][len(core) :].rstrip())
        at = pasted.end()
        if following := _GLUED.match(shown, at):
            pieces[-1] += following[0]
            at = following.end()
    return " ".join((*pieces, *map(_word, _WORDS.findall(shown[at:]))))


def html(text: str, limit: int = 120) -> str:
    """Text inside an HTML element, unchanged also by a renderer that takes the element for Markdown."""
    return _HTML.sub(lambda match: f"&#{ord(match.group())};", clipped(text, limit))


def code_block(language: str, lines: list[str]) -> str:
    """A fenced code block; the lines are made printable, so that none of them can be the closing fence."""
    content = "\n".join(map(printable, lines))
    fence = "`" * max(3, _longest_run(content) + 1)
    return f"{fence}{language}\n{content}\n{fence}"


def _word(word: str) -> str:
    quoted = QUOTED.match(word)
    if quoted and " " in quoted[0]:  # one argument of a command, whose spaces count
        return code(quoted[0], len(quoted[0])) + word[quoted.end() :]
    core = word.lstrip(_LEAD)
    lead, core = word[: len(word) - len(core)], core.rstrip(_TRAIL)
    trail = word[len(lead) + len(core) :]
    if not core or core in _SIGNS or _is_plain(core):
        return word
    if quoted := _QUOTED.fullmatch(core):
        core = quoted[1]
    return f"{lead}{code(core, len(core))}{trail}"


def _is_plain(core: str) -> bool:
    return bool(_WORD.fullmatch(core) or _NUMBER.fullmatch(core)) and not _REFERENCE.search(core)


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


def place(location: Location | None, *, cell: bool = False) -> str:
    """Where something stands, as code; nothing where that is not known."""
    return code(f"{location.file}:{location.line}", cell=cell) if location else ""


def finding(diagnostic: Diagnostic) -> str:
    """A finding as an item of a list."""
    where = f" {place(diagnostic.location)}" if diagnostic.location else ""
    lead = "waived" if diagnostic.waived else diagnostic.severity.value
    parts = [f"{lead} {code(diagnostic.code)}{where}: {sentence(diagnostic.message)}"]
    if diagnostic.waived:
        parts.append(f"Because: {sentence(diagnostic.waived)}")
    elif diagnostic.suggestion:
        parts.append(f"Suggestion: {sentence(diagnostic.suggestion)}")
    return f"- {' '.join(parts)}\n"


def sentence(text: str) -> str:
    """Foreign prose with a full stop."""
    return f"{prose(text.rstrip().rstrip('.'))}."


def resource(ref: ResourceRef) -> str:
    """A resource as an item of a list."""
    return f"- {code(str(ref))}\n"
