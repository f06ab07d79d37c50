"""The texts that kafkaform can print, as patterns of its source, and whether a quoted text is one of them."""

import re
from functools import lru_cache
from pathlib import Path

from scripts.list_messages import FOLDERS, list_messages

ROOT = Path(__file__).parents[2]
_HOLE = re.compile(r"(?:\{[\w.]*\}|\{…\}|%s)+")
_WORD = re.compile(r"(?<![\w./'-])[a-z][a-z']*(?![\w./-]*\w)")
_EDGES = " .,;:\n"
_JOINTS = ("; ", ": ", ", ", " (", ". ")
_LEAST_LETTERS = 2
"""A pattern with fewer letters of its own, such as `{name}: {reason}`, says nothing about a text."""
_WEAK_LETTERS = 6
"""In a pattern with fewer letters, such as `{right} on {topic}`, values stand, and no other messages."""
_VALUES_BEFORE = tuple(
    map(re.compile, (r"\S*[^a-z\s]\S* ", r"[\d,.]+ [a-z]+ ", r"(?:broker|partition|node) \d+ "))
)
"""What may precede a message: a name or a number (`Topic/orders.v1`, `19,800`, `3 groups`, `broker 3`)."""


def words_of(text: str) -> list[str]:
    """Return the plain words of a text: no names, numbers, options or paths."""
    return _WORD.findall(text)


class PrintedMessages:
    """The messages of the source; a message is a pattern whose holes are values or messages."""

    def __init__(self) -> None:
        files = (path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*")))
        sources = (path for path in files if path.suffix in {".py", ".yaml", ".html"})
        # The longest literal part of each, for a quick look, its pattern, and whether it is weak.
        self._patterns: list[tuple[str, re.Pattern[str], bool]] = []
        for text in {message.text for path in sources for message in list_messages(path)}:
            parts = _HOLE.split(re.sub(r"\s+", " ", text).strip(_EDGES))
            letters = sum(map(str.isalpha, "".join(parts)))
            if letters >= _LEAST_LETTERS:
                longest = max(parts, key=len).casefold().strip()
                pattern = re.compile("(.+)".join(map(re.escape, parts)), re.IGNORECASE)
                self._patterns.append((longest, pattern, letters < _WEAK_LETTERS))

    def has(self, quote: str) -> bool:
        """Return whether kafkaform prints a text, in which `…` stands for a value."""
        text = re.sub(r"\s+", " ", quote).strip(_EDGES)
        return self._covers(text) or (text.endswith("…") and self._covers(f"{text}: …"))

    @lru_cache(maxsize=4096)  # noqa: B019 - one object for all tests
    def _covers(self, text: str) -> bool:
        return any(self._covers_form(form) for form in {text.strip(_EDGES), text.strip(f"{_EDGES}()")})

    def _covers_form(self, text: str) -> bool:
        if _is_value(text):
            return True
        lowered = text.casefold()
        for longest, pattern, is_weak in self._patterns:
            match = pattern.fullmatch(text) if longest in lowered else None
            covers = _is_value if is_weak else self._covers
            if match and all(len(value) < len(text) and covers(value) for value in match.groups()):
                return True
        for before in _VALUES_BEFORE:
            remaining = text[match.end() :] if (match := before.match(text)) else ""
            if len(words_of(remaining)) > 1 and self._covers(remaining):
                return True
        return any(
            self._covers(text[:at]) and self._covers(text[at + len(joint) :])
            for joint in _JOINTS
            for at in (match.start() for match in re.finditer(re.escape(joint), text))
            if at
        )


def _is_value(text: str) -> bool:
    """Return whether a text is a name, a number, a command or such: at most one plain word."""
    return len(words_of(text)) <= 1 or text.lstrip("`").startswith(("kafkaform ", "kafka-acls "))
