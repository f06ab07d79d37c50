"""Untrusted text in GitHub's Markdown: code spans, code blocks, prose and HTML that it cannot break out of.

GitHub turns `@name`, `#123`, `owner/repo#1`, bare commit ids, URLs and `:emoji:` into links and pictures
*after* Markdown is parsed, so no backslash or entity stops that; only code does. Prose is therefore written
word by word: what is plainly a word stays one, and everything else becomes a code span.
"""

from __future__ import annotations

import re
from functools import lru_cache

from kafkaform.core import wording
from kafkaform.core.printable import clipped, printable, split_code

# Punctuation around a word is left outside of its code span: a full stop inside would be copied with a name
# or an address.
_LEAD = "(\"'\u201c\u2018"
_TRAIL = ").,;:?\"'\u201d\u2019…"
# Letters and digits of any script, but no underscore: it can start italics.
_SEGMENT = r"[^\W_]+"
# No dot and no colon within a word: GitHub makes links of `www.` and `https:`, and pictures of `:name:`. A
# slash stays; references such as `owner/repo#1` have a `#`, which is not part of a word.
_SAFE_WORD = re.compile(rf"{_SEGMENT}(?:[-+/'\u2019\u2013]{_SEGMENT})*%?")
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
        limit: The most characters to show.
        cell: Whether it is in a table, where a pipe would end the cell even inside code.
    """
    shown = clipped(text, limit)
    # A span without text is not a span: CommonMark shows its backticks. Blanks alone could not be seen.
    if not shown.strip():
        shown = f'"{shown}"'
    span = wording.code(shown)
    return span.replace("|", r"\|") if cell else span


# Many of the texts between names and values are the same ones, such as those in every row of a table.
@lru_cache(maxsize=1024)
def prose(text: str, limit: int = 800) -> str:
    """Return prose in which every word with a meaning in Markdown or on GitHub is a code span.

    Its own code spans stay what they are.

    Never put the result at the start of a line, where a list marker would start a list.
    """
    # Clipped before it is escaped: a cut afterwards could fall into a code span and leave it open.
    return "".join(
        code(piece, len(piece)) if is_code else _escape_words(piece)
        for piece, is_code in split_code(clipped(text, limit))
    )


def html(text: str, limit: int = 120) -> str:
    """Escape text for an HTML element, also for a renderer that parses the element as Markdown."""
    # Markdown does not act on characters that are written as entities (CommonMark, 2.5), so the text is also
    # safe on a page where HTML is switched off and the element is read as text.
    return _HTML.sub(lambda match: f"&#{ord(match.group())};", clipped(text, limit))


def code_block(language: str, lines: list[str]) -> str:
    """Return a fenced code block; the lines are made printable, so that none can be the closing fence."""
    content = "\n".join(map(printable, lines))
    fence = "`" * max(3, wording.longest_backticks(content) + 1)
    return f"{fence}{language}\n{content}\n{fence}"


def _escape_words(text: str) -> str:
    return re.sub(r"\S+", lambda word: _escape_word(word[0]), re.sub(" +", " ", text))


def _escape_word(word: str) -> str:
    # From the outside in: of `("name")`, only the name becomes code.
    core = word.lstrip(_LEAD)
    lead, core = word[: len(word) - len(core)], core.rstrip(_TRAIL)
    trail = word[len(lead) + len(core) :]
    if not core or core in _SIGNS or _is_plain(core):
        return word
    return f"{lead}{code(core, len(core))}{trail}"


def _is_plain(core: str) -> bool:
    return bool(_SAFE_WORD.fullmatch(core) or _NUMBER.fullmatch(core)) and not _REFERENCE.search(core)
