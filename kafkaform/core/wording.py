"""How messages count, list, name commits, tell ages, write commands, and guess what was meant."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from datetime import timedelta


FEW = 5
"""How many names a message has room for."""
DIRTY = "-dirty"
"""What is added to the commit of files that are not as that commit has them, as `git describe` does."""
DEV_DIRECTORY = Path(".kafkaform") / "dev"
"""Where a `kafkaform dev` cluster is if nobody says otherwise."""
_COMMIT = 12
_PLAIN = re.compile(r"-?[\w.][\w.+/-]*(?: [\w.+/-]+)*", re.ASCII)
"""A value that YAML reads as it is, also within braces."""
_UNPRINTABLE = re.compile(r"[\x7f-\x9f\u2028\u2029\ufeff]")
QUOTED = re.compile(r"(?<!\S)'(?:[^']|'\"'\"')*'(?=[\s,.;:?!)]|$)")
"""Text in single quotes inside a sentence, such as a name that a shell must not read as several words."""
PASTED = re.compile(
    r"(?:(?<=: )|^(?=kafkaform \S+ \S+ --))kafka(?:form|-acls|-transactions\.sh) (?:'[^']*'|\"'\"|[^;'])*"
    r"|(?<!\S)--allow (?:'[^']*'|\S)+(?: --allow (?:'[^']*'|\S)+)*"
    r'|(?<!\S)[\w./-]+: (?:\{[^}]*\}|"(?:[^"\\]|\\.)*")'
)
"""What a sentence has to be pasted: a command, the consents of one, or a line of a manifest."""


def counted(number: int, noun: str) -> str:
    """`1 topic`, `1,200 topics`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def listed(names: Collection[str], few: int = FEW, *, noun: str = "") -> str:
    """The first few names, and how many more there are: `a, b and 3 more`, or `… 3 more topics` of a noun."""
    shown = [*names][:few]
    more = len(names) - len(shown)
    rest = counted(more, f"more {noun}") if noun else f"{more:,} more"
    return ", ".join(shown) + (f" and {rest}" if more else "")


def short_commit(commit: str) -> str:
    """The start of a commit, and `-dirty` behind it where files differed from it."""
    return commit.removesuffix(DIRTY)[:_COMMIT] + (DIRTY if commit.endswith(DIRTY) else "")


def spans(numbers: Iterable[int]) -> str:
    """All of some numbers, neighbours together: `0-3,7`."""
    found: list[list[int]] = []
    for number in sorted(set(numbers)):
        if found and found[-1][-1] == number - 1:
            found[-1][1:] = [number]
        else:
            found.append([number])
    return ",".join("-".join(map(str, span)) for span in found)


def aged(age: timedelta) -> str:
    """An age in the largest unit of which there are two."""
    seconds = int(age.total_seconds())
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= 2 * size:
            return counted(seconds // size, unit)
    return counted(seconds, "second")


def command(verb: str, *arguments: str, options: Sequence[str] = ()) -> str:
    """A `kafkaform` command to paste: a shell, and then `kafkaform`, takes each word for what it is.

    Args:
        verb: The command, such as `reset`.
        arguments: What may come from anywhere: names of resources, paths.
        options: Options and their values.
    """
    if any(argument.startswith("-") for argument in arguments):
        return shlex.join(["kafkaform", verb, *options, "--", *arguments])
    return shlex.join(["kafkaform", verb, *arguments, *options])


def dev_command(verb: str, directory: Path, *options: str) -> str:
    """A `kafkaform dev` command to paste, for the cluster in a directory."""
    data = () if directory.resolve() == DEV_DIRECTORY.resolve() else ("--data", str(directory))
    return command("dev", verb, options=(*options, *data))


def target_hint(target: str) -> str:
    """Say how a `--target` that matches nothing should be written."""
    if "/" not in target:
        return f"include the kind: --target {shlex.quote(f'Topic/{target}')}"
    return "write KIND/NAME, such as Topic/orders.v1 or 'Topic/orders.*'"


def double_quoted(text: str) -> str:
    """A text as a double-quoted scalar of YAML, on one line."""
    escaped = json.dumps(text, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", escaped)


def setting(path: str, value: object) -> str:
    """A field as the `spec:` of a manifest takes it: `partitions: 12`, `config: {segment.ms: 6h}`."""
    section, dot, name = path.partition(".")
    text = str(value) if _PLAIN.fullmatch(str(value)) else double_quoted(str(value))
    return f"{section}: {{{name}: {text}}}" if dot else f"{section}: {text}"


_LIKENESS = 0.7
_SHOWN = 60


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate that `name` most probably stands for, or None if none is like it.

    Upper and lower case count as the same, and the order of the candidates does not matter.
    """
    from difflib import get_close_matches  # 6 ms to import, and only needed once something is wrong

    spellings = {candidate.casefold(): candidate for candidate in sorted(candidates, reverse=True)}
    matches = get_close_matches(name.casefold(), spellings, n=1, cutoff=_LIKENESS)
    return spellings[matches[0]] if matches else None


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """A clause to end an error message with, such as `; did you mean 'delete'?`, or nothing."""
    match = nearest(name, candidates)
    return f"; did you mean {match!r}?" if match is not None else ""


def quoted(text: str) -> str:
    """A user's text as part of a one-line message: in quotes, escaped, and not longer than a line."""
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…")
