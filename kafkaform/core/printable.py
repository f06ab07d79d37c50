"""The one gate between foreign text (names, values, reasons, broker messages) and whoever reads a report.

What a terminal or a browser would act on, or hide, is shown as an escape instead: control characters, ANSI
sequences, line breaks, bidirectional overrides, zero-width characters and look-alikes of the space.
"""

from __future__ import annotations

import re
import textwrap

from kafkaform.core.wording import PASTED, QUOTED

# str.isprintable() covers Unicode's "other" and "separator" categories; these are printable by category
# and yet draw nothing: fillers, variation selectors, the combining grapheme joiner, the blank braille cell.
_BLANK = (
    "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef"
)
_BLANK_PATTERN = re.compile(f"[{_BLANK}]")
_CODE = re.compile(rf"{QUOTED.pattern}|(?<![^\s(\[])`([^`]+)`(?=[\s,.;:?!)\]]|$)")
_UNBROKEN = "\0"
"""Stands for a space where a line must not end; printable text has none."""
_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def is_plain(char: str) -> bool:
    """Whether a character shows as itself and does nothing else."""
    return char.isprintable() and not _BLANK_PATTERN.match(char)


def _escape(char: str) -> str:
    code = ord(char)
    if char in _SHORT:
        return _SHORT[char]
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def printable(text: str) -> str:
    r"""The text in one line, with everything unsafe or invisible as an escape such as `\x1b` or `\u202e`.

    Escapes are themselves plain, so applying this twice changes nothing. A backslash stays as it is: the
    result is for reading, never for parsing.
    """
    if text.isprintable() and (text.isascii() or not _BLANK_PATTERN.search(text)):
        return text
    return "".join(char if is_plain(char) else _escape(char) for char in text)


def clipped(text: str, limit: int) -> str:
    """Printable text of at most `limit` characters, and behind it a note of how many more there are."""
    if len(text) <= limit and len(shown := printable(text)) <= limit:
        return shown
    pieces: list[str] = []
    room = limit
    for char in text[:limit]:
        piece = printable(char)
        room -= len(piece)
        if room < 0:
            break
        pieces.append(piece)
    return f"{''.join(pieces)}… ({len(text) - len(pieces):,} more characters)"


def in_code(text: str) -> list[tuple[str, bool]]:
    """The pieces of a message, and which of them stand between Markdown's backticks, which are left out.

    What is quoted for a shell stays as it is, whatever it holds.
    """
    pieces: list[tuple[str, bool]] = []
    end = 0
    for match in _CODE.finditer(text):
        if match[1] is not None:
            pieces += [(text[end : match.start()], False), (match[1], True)]
            end = match.end()
    return [*pieces, (text[end:], False)]


def plain_quotes(text: str) -> str:
    """The text for readers who would see Markdown's backticks: code of several words is in quotes instead."""
    if "`" not in text:
        return text
    return "".join(_in_quotes(piece) if code and " " in piece else piece for piece, code in in_code(text))


def _in_quotes(code: str) -> str:
    quote = '"' if "'" in code else "'"
    return f"{quote}{code}{quote}"


def wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """Printable text in lines of at most `width`, all but the first indented, broken between words only.

    What is pasted is not broken: a shell would run the first line, and then the second.
    """
    whole = text
    for pattern in (PASTED, QUOTED):
        whole = pattern.sub(lambda match: match[0].replace(" ", _UNBROKEN), whole)
    lines = textwrap.wrap(
        whole, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return [line.replace(_UNBROKEN, " ") for line in lines] or [""]
