"""The texts that kafkaform can print, as patterns of its source, and whether a quoted text is one of them."""

from __future__ import annotations

import re
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import Path

from scripts.list_messages import FOLDERS, list_messages

ROOT = Path(__file__).parents[2]
_HOLE = re.compile(r"(?:\{[\w.]*\}|\{…\}|%s)+")
_PLACE = re.compile(rf"^(?:{_HOLE.pattern}): ")
"""The file or resource before a message."""
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
        self._texts = dict.fromkeys(message.text for path in sources for message in list_messages(path))

    @cached_property
    def _patterns(self) -> list[tuple[str, re.Pattern[str], bool]]:
        """The longest literal part of each message, for a quick look, its pattern, and whether it is weak."""
        patterns = []
        for text in (*self._texts, *(_PLACE.sub("", text) for text in self._texts if _PLACE.match(text))):
            parts = _HOLE.split(text.strip(_EDGES))
            letters = sum(map(str.isalpha, "".join(parts)))
            if letters < _LEAST_LETTERS:
                continue
            longest = max(parts, key=len).casefold().strip()
            pattern = re.compile(_build_pattern(parts), re.IGNORECASE)
            patterns.append((longest, pattern, letters < _WEAK_LETTERS))
        return patterns

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


def _build_pattern(parts: list[str]) -> str:
    """Return a pattern with a group for each hole; beside a letter, a hole is an ending or begins a word."""
    source = re.escape(re.sub(r"\s+", " ", parts[0]))
    for before, after in pairwise(parts):
        hole = r"(\w{0,3}|[^\w].*)" if before[-1:].isalpha() else "(.+)"
        hole = r"(\w{0,3}|.*[^\w])" if after[:1].isalpha() else hole
        source += hole + re.escape(re.sub(r"\s+", " ", after))
    return source


def _is_value(text: str) -> bool:
    """Return whether a text is a name, a number, a command or such: at most one plain word."""
    return len(words_of(text)) <= 1 or text.lstrip("`").startswith(("kafkaform ", "kafka-acls "))
