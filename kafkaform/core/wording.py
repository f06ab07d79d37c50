"""The parts of messages: counts, lists, commits, ages, what to paste, and suggestions for misspelt names."""

from __future__ import annotations

import json
import re
import shlex
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from spark_validation.durations import quoted as quoted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from datetime import timedelta


MAX_LISTED = 5
"""The most names that a message lists."""
DIRTY = "-dirty"
"""The suffix of a commit whose files have uncommitted changes, as of `git describe`."""
DEV_DIRECTORY = Path(".kafkaform") / "dev"
"""The default directory of a `kafkaform dev` cluster."""
_COMMIT = 12
_UNQUOTED = re.compile(r"-?[\w.][\w.+/-]*(?: [\w.+/-]+)*", re.ASCII)
"""Matches a value that YAML needs no quotes for, even within braces."""
# What JSON leaves as it is, and a terminal or YAML 1.1 takes for control characters or line breaks.
_UNPRINTABLE = re.compile(r"[\x7f-\x9f\u2028\u2029\ufeff]")

_LIKENESS = 0.7


def counted(number: int, noun: str) -> str:
    """Return a count with its noun: `1 topic`, `1,200 topics`."""
    return f"{number:,} {noun if number == 1 else pluralize(noun)}"


def pluralize(noun: str) -> str:
    """Return the plural of a noun: `topics`, `accesses`."""
    return f"{noun}es" if noun.endswith("s") else f"{noun}s"


def listed(names: Collection[str], few: int = MAX_LISTED, *, noun: str = "") -> str:
    """Join the first names and the number of the others: `a, b and 3 more`, or `3 more topics` of a noun."""
    first = [*names][:few]
    omitted = len(names) - len(first)
    text = counted(omitted, f"more {noun}") if noun else f"{omitted:,} more"
    return ", ".join(first) + (f" and {text}" if omitted else "")


def join_alternatives(names: Sequence[str]) -> str:
    """Join alternatives: `topic, group or quota`."""
    return join_words(names, "or")


def join_words(words: Iterable[str], conjunction: str = "and") -> str:
    """Join the items of a list: `80 topics, 25 groups and 12 principals`."""
    *first, last = words
    return f"{', '.join(first)} {conjunction} {last}" if first else last


def short_commit(commit: str) -> str:
    """Return the start of a commit, with `-dirty` if it has it."""
    return commit.removesuffix(DIRTY)[:_COMMIT] + (DIRTY if commit.endswith(DIRTY) else "")


def spans(numbers: Iterable[int]) -> str:
    """Return numbers as ranges: `0-3,7`."""
    ranges: list[list[int]] = []
    for number in sorted(set(numbers)):
        if ranges and ranges[-1][-1] == number - 1:
            ranges[-1][1:] = [number]
        else:
            ranges.append([number])
    return ",".join("-".join(map(str, span)) for span in ranges)


def format_age(age: timedelta) -> str:
    """Return an age in the largest unit of which it has at least two: `26 hours`."""
    seconds = int(age.total_seconds())
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= 2 * size:
            return counted(seconds // size, unit)
    return counted(seconds, "second")


def code(text: str) -> str:
    """Return text to paste as a code span of Markdown, the mark by which every output keeps it whole."""
    fence = "`" * (longest_backticks(text) + 1)
    # CommonMark: a span loses one space on each side if it has both, and cannot begin or end with a backtick.
    pad = " " if text[:1] in "` " or text[-1:] in "` " else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def longest_backticks(text: str) -> int:
    """Return the number of backticks in the longest run of them."""
    return max(map(len, re.findall("`+", text)), default=0)


def command(verb: str, *arguments: str, options: Sequence[str] = ()) -> str:
    """Return a `kafkaform` command as code, with its arguments quoted for the shell.

    The arguments are those of `command_line`.
    """
    return code(command_line(verb, *arguments, options=options))


def command_line(verb: str, *arguments: str, options: Sequence[str] = ()) -> str:
    """Return a `kafkaform` command alone, with its arguments quoted for the shell.

    Args:
        verb: The command, such as `reset`.
        arguments: Untrusted arguments: names of resources, paths.
        options: Options and their values.
    """
    # A group may have a name such as `--all`: after `--`, it cannot be read as an option.
    if any(argument.startswith("-") for argument in arguments):
        return shlex.join(["kafkaform", verb, *options, "--", *arguments])
    return shlex.join(["kafkaform", verb, *arguments, *options])


def dev_command(verb: str, directory: Path, *options: str) -> str:
    """Return a `kafkaform dev` command as code for the cluster in a directory."""
    data = () if directory.resolve() == DEV_DIRECTORY.resolve() else ("--data", str(directory))
    return command("dev", verb, options=(*options, *data))


def double_quoted(text: str) -> str:
    """Return text as a double-quoted YAML scalar, on one line."""
    # A string of JSON is a double-quoted scalar of YAML 1.2, too.
    escaped = json.dumps(text, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", escaped)


def setting(path: str, value: object) -> str:
    """Return a line of a manifest's `spec:` as code: `partitions: 12`, `config: {segment.ms: 6h}`."""
    section, dot, name = path.partition(".")
    text = str(value) if _UNQUOTED.fullmatch(str(value)) else double_quoted(str(value))
    return code(f"{section}: {{{name}: {text}}}" if dot else f"{section}: {text}")


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate that is most similar to `name`, or None if none is.

    Case and the order of the candidates do not matter.
    """
    # Takes 6 ms to import, and only errors need it.
    from difflib import SequenceMatcher, get_close_matches

    # Reversed: of names that differ in case alone, the first one in order is kept.
    spellings = {candidate.casefold(): candidate for candidate in sorted(candidates, reverse=True)}
    folded = name.casefold()
    matches = get_close_matches(folded, spellings, cutoff=_LIKENESS)

    def rate(match: str) -> tuple[float, int]:
        # Of equally similar codes, such as KF109 and KF419 for KF1O9, the one with the same beginning.
        return SequenceMatcher(None, match, folded).ratio(), count_shared(match, folded)

    return spellings[max(matches, key=rate)] if matches else None


def count_shared(first: Sequence[object], second: Sequence[object]) -> int:
    """Return the number of items that two sequences have in common at their beginning."""
    return len([*takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False))])


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """Return a clause for the end of an error message, such as `; did you mean 'delete'?`, or nothing."""
    match = nearest(name, candidates)
    return f"; did you mean {match!r}?" if match is not None else ""
