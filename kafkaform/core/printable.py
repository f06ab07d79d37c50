"""The escaping of foreign text (names, values, reasons, broker messages) in reports.

Characters that a terminal or a browser would act on, or hide, are escaped: control characters, ANSI
sequences, line breaks, bidirectional overrides, zero-width characters and look-alikes of the space.
"""

from __future__ import annotations

import re
import textwrap

# str.isprintable() covers Unicode's "other" and "separator" categories; these are printable by category
# but invisible: fillers, variation selectors, the combining grapheme joiner, the blank braille cell.
_BLANK = (
    "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef"
)
_BLANK_PATTERN = re.compile(f"[{_BLANK}]")
_CODE = re.compile(r"(?<![^\s(])(?<!\S\()(?>(`++)(.+?)\1)(?=[).,;:?…]*(?:\s|$))")
"""Matches a code span as `wording.code` makes it: between words, and without a run as long as its fence.

A stray backtick of a foreign name is not taken for the start of one that reaches into the next.
"""
_UNBROKEN = "\0"
"""Replaces a space at which a line must not be broken; printable text does not contain it."""
_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def is_plain(char: str) -> bool:
    """Return whether a character is printed as itself and has no other effect."""
    return char.isprintable() and not _BLANK_PATTERN.match(char)


def _escape(char: str) -> str:
    code = ord(char)
    if char in _SHORT:
        return _SHORT[char]
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


MAX_LINE_LENGTH = 4_000
"""The most characters of a message."""
MAX_WORD_LENGTH = 400
"""The most characters of a word that is shown in full; a topic's name has at most 249."""
_WORD_ENDS = 160, 80
"""The characters that are shown of a longer word, at its start and at its end."""
_OVERLONG_WORD = re.compile(rf"\S{{{MAX_WORD_LENGTH + 1},}}")


def printable(text: str) -> str:
    r"""Return the text in one line, with anything unsafe or invisible escaped, such as `\x1b` or `\u202e`.

    The middle of a very long word, such as the name of a group, is left out. It is idempotent. A backslash
    stays as it is: the result is for reading, never for parsing.
    """
    whole = escape_text(text)
    # Most texts are short: nothing is searched in them.
    return whole if len(whole) <= MAX_WORD_LENGTH else _OVERLONG_WORD.sub(_shorten_word, whole)


def _shorten_word(match: re.Match[str]) -> str:
    # A cut at the end would hide the rest of a sentence, and what distinguishes many names.
    start, end = _WORD_ENDS
    word = match[0]
    return f"{word[:start]}… ({len(word) - start - end:,} more characters) …{word[-end:]}"


def escape_text(text: str) -> str:
    """Return the text as `printable` does, whatever its length, for programs."""
    # Almost every text is plain ASCII: this test takes a small part of the time of the loop below.
    if text.isprintable() and (text.isascii() or not _BLANK_PATTERN.search(text)):
        return text
    return "".join(char if is_plain(char) else _escape(char) for char in text)


def clipped(text: str, limit: int) -> str:
    """Return printable text of at most `limit` characters, followed by the number of omitted ones."""
    if limit > MAX_WORD_LENGTH:
        text = printable(text)
    if len(text) <= limit and len(whole := printable(text)) <= limit:
        return whole
    pieces: list[str] = []
    room = limit
    # Each character is escaped by itself, so that the cut never divides an escape sequence.
    for char in text[:limit]:
        piece = escape_text(char)
        room -= len(piece)
        if room < 0:
            break
        pieces.append(piece)
    return f"{''.join(pieces)}… ({len(text) - len(pieces):,} more characters)"


def split_code(text: str) -> list[tuple[str, bool]]:
    """Split a message into pieces, each with whether it is the code of a span, which loses its fence."""
    if "`" not in text:
        return [(text, False)]
    pieces: list[tuple[str, bool]] = []
    end = 0
    for match in _CODE.finditer(text):
        code = match[2]
        padded = code.startswith(" ") and code.endswith(" ") and not code.isspace()
        pieces += [(text[end : match.start()], False), (code[1:-1] if padded else code, True)]
        end = match.end()
    return [*pieces, (text[end:], False)]


def wrap_text(text: str, width: int, indent: str = "") -> list[str]:
    """Wrap printable text into lines of at most `width` characters; all but the first are indented.

    Code is not broken: a shell would run the first line of a command, and then the second. Nor is a number
    separated from its percent sign.
    """
    # textwrap breaks at spaces, so those that must stay are replaced while it works.
    whole = _CODE.sub(lambda match: match[0].replace(" ", _UNBROKEN), text).replace(" %", f"{_UNBROKEN}%")
    lines = textwrap.wrap(
        whole, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return [line.replace(_UNBROKEN, " ") for line in lines] or [""]
