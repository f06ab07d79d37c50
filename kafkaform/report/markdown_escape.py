"""Untrusted text in GitHub's Markdown: code spans, code blocks, prose and HTML that it cannot break out of.

GitHub turns `@name`, `#123`, `owner/repo#1`, bare commit ids, URLs and `:emoji:` into links and pictures
*after* Markdown is parsed, so no backslash or entity stops that; only code does. Prose is therefore written
word by word: what is plainly a word stays one, and everything else becomes a code span.
"""

from __future__ import annotations

import re

from kafkaform.core.printable import clipped, printable
from kafkaform.core.wording import PASTED, QUOTED

# Punctuation around a word is left outside of its code span: a full stop inside would be copied with a name
# or an address.
_LEAD = "(\"'\u201c\u2018"
_TRAIL = ").,;:?\"'\u201d\u2019…"
# Without quotes: those at the end of a command, as in `--to 'a b'`, belong to it.
_TRAIL_OF_PASTED = ").,:?…"
# Closes a bracket, or ends the sentence, right after a command: with a space before it, it would stand alone
# as a word.
_GLUED = re.compile(r"[).,;:?…]+(?=\s|$)")
# Letters and digits of any script, but no underscore: it can start italics.
_SEGMENT = r"[^\W_]+"
# No dot and no colon within a word: GitHub makes links of `www.` and `https:`, and pictures of `:name:`. A
# slash stays; references such as `owner/repo#1` have a `#`, which is not part of a word.
_SAFE_WORD = re.compile(rf"{_SEGMENT}(?:[-+/'\u2019\u2013]{_SEGMENT})*%?")
_BACKTICKS = r"[^\s`]*`[^\s`](?:[^`]*[^\s`])?`[^\s`]*(?=\s|$)"
# Alternatives in this order: text in backticks or single quotes may contain spaces and must not be divided at
# them.
_WORDS = re.compile(rf"{_BACKTICKS}|{QUOTED.pattern}\S*|\S+")
_QUOTED = re.compile(r"`([^`]+)`")
_NUMBER = re.compile(r"[0-9]+(?:[.,][0-9]+)*%?")
# Signs of our own sentences that stand alone between spaces, where they have no meaning in Markdown.
_SIGNS = frozenset("→·\u2013\u2014%…≤≥\u00d7+-/=")
# GitHub makes links of 7 to 40 hexadecimal digits, which it takes for a commit, and of GH-1, an issue. A
# plain number such as 86400000 is hexadecimal, too.
_REFERENCE = re.compile(r"\b(?:[0-9a-fA-F]{7,40}\b|GH-[0-9])", re.IGNORECASE)


# All ASCII punctuation but ",-./", which names and numbers contain.
_HTML = re.compile(r"[!-+:-@\[-`{-~]")


def code(text: str, limit: int = 200, *, cell: bool = False) -> str:
    """Return a code span with exactly this text, printable and clipped.

    Args:
        text: The content.
        limit: The most characters to show.
        cell: Whether it is in a table, where a pipe would end the cell even inside code.
    """
    shown = clipped(text, limit)
    # A span without text is not a span: CommonMark shows its backticks. Blanks alone could not be seen.
    if not shown.strip():
        shown = f'"{shown}"'
    fence = "`" * (_longest_run(shown) + 1)
    # A span loses one space on each side if it has both, and cannot start or end with its own fence.
    pad = " " if shown[0] in "` " or shown[-1] in "` " else ""
    if cell:
        shown = shown.replace("|", r"\|")
    return f"{fence}{pad}{shown}{pad}{fence}"


def prose(text: str, limit: int = 800) -> str:
    """Return prose in which every word with a meaning in Markdown or on GitHub is a code span.

    Text between backticks is one span, spaces included, and so is text to be pasted: a command, or a line of
    a manifest.

    Never put the result at the start of a line, where a list marker would start a list.
    """
    # Clipped before it is escaped: a cut afterwards could fall into a code span and leave it open.
    shown, at = clipped(text, limit), 0
    pieces: list[str] = []
    for pasted in PASTED.finditer(shown):
        pieces += map(_escape_word, _WORDS.findall(shown[at : pasted.start()]))
        # The pattern of a command takes the punctuation of the sentence along, which nobody wants to paste.
        core = pasted[0].rstrip(f"{_TRAIL_OF_PASTED} ")
        pieces.append(code(core, len(core)) + pasted[0][len(core) :].rstrip())
        at = pasted.end()
        if following := _GLUED.match(shown, at):
            pieces[-1] += following[0]
            at = following.end()
    return " ".join((*pieces, *map(_escape_word, _WORDS.findall(shown[at:]))))


def html(text: str, limit: int = 120) -> str:
    """Escape text for an HTML element, also for a renderer that parses the element as Markdown."""
    # Markdown does not act on characters that are written as entities (CommonMark, 2.5), so the text is also
    # safe on a page where HTML is switched off and the element is read as text.
    return _HTML.sub(lambda match: f"&#{ord(match.group())};", clipped(text, limit))


def code_block(language: str, lines: list[str]) -> str:
    """Return a fenced code block; the lines are made printable, so that none can be the closing fence."""
    content = "\n".join(map(printable, lines))
    fence = "`" * max(3, _longest_run(content) + 1)
    return f"{fence}{language}\n{content}\n{fence}"


def _escape_word(word: str) -> str:
    quoted = QUOTED.match(word)
    if quoted and " " in quoted[0]:  # an argument of a command, whose spaces are significant
        return code(quoted[0], len(quoted[0])) + word[quoted.end() :]
    # From the outside in: of `("name")`, only the name becomes code.
    core = word.lstrip(_LEAD)
    lead, core = word[: len(word) - len(core)], core.rstrip(_TRAIL)
    trail = word[len(lead) + len(core) :]
    if not core or core in _SIGNS or _is_plain(core):
        return word
    # The backticks of a message are its own marks for code; kept, they would show inside of the span.
    if quoted := _QUOTED.fullmatch(core):
        core = quoted[1]
    return f"{lead}{code(core, len(core))}{trail}"


def _is_plain(core: str) -> bool:
    return bool(_SAFE_WORD.fullmatch(core) or _NUMBER.fullmatch(core)) and not _REFERENCE.search(core)


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)
